//! The observer's tables: what was entered is found, a key has one number, and the sums of call sites agree.

use std::collections::HashMap;

use crate::core::Core;
use crate::memory::finding;
use crate::program::Step::{NumberOf, Sample, Tables, Unsample, Unweigh, Weigh};
use crate::program::{Hand, Step};
use crate::scenarios::{Entry, REST, entry, two};

/// The scenarios.
pub(crate) fn tables() -> Vec<Entry> {
    let rest = REST(2);
    let begun = (rest, Tables);
    vec![
        entry(
            "a sample is entered while it is looked for",
            Some(3),
            two(
                &[begun, (rest, Sample(64, 5))],
                &[Unsample(64, [5, 5]), Sample(64, 9)],
                &[Unsample(64, [5, 9])],
            ),
        ),
        entry(
            "two look for one key",
            Some(5),
            two(&[begun], &[NumberOf(7)], &[NumberOf(7)]),
        ),
        entry(
            "two keys want one place",
            Some(3),
            two(
                &[begun],
                &[NumberOf(7), NumberOf(9)],
                &[NumberOf(9), NumberOf(7)],
            ),
        ),
        entry(
            "a peak is reached while what stands for it is freed",
            Some(2),
            two(
                &[
                    begun,
                    (0, Weigh(1, 100)),
                    (0, Weigh(1, 102)),
                    (0, Weigh(1, 104)),
                    (0, Weigh(1, 106)),
                ],
                &[Weigh(2, 3)],
                &[
                    Unweigh(1, 100),
                    Unweigh(1, 102),
                    Unweigh(1, 104),
                    Unweigh(1, 106),
                ],
            ),
        ),
        entry(
            "two reach a peak at one site",
            Some(2),
            two(
                &[begun, (0, Weigh(1, 40))],
                &[Weigh(1, 3)],
                &[Weigh(1, 50), Unweigh(1, 40)],
            ),
        ),
    ]
}

impl Hand {
    /// The observer's tables.
    ///
    /// # Safety
    /// As for every step: see `step`.
    pub(crate) unsafe fn observer_step(&mut self, core: &Core, step: Step) {
        // SAFETY: numbers only.
        unsafe {
            match step {
                Step::Tables => {
                    (core.begin_samples)();
                    (core.begin_index)();
                    (core.begin_sites)();
                }
                Step::Sample(address, size) => {
                    assert!((core.sample)(address, size), "no room for a sample");
                    self.samples.push((address, size));
                }
                Step::Unsample(address, sizes) => {
                    let got = (core.unsample)(address);
                    if got != 0 && !sizes.contains(&got) {
                        finding(&format!("a sample of one of {sizes:?} bytes says {got}"));
                    }
                    if got != 0 {
                        self.samples.push((address, 0));
                    }
                }
                Step::NumberOf(key) => self.numbers.push((key, (core.number_of)(key))),
                Step::Weigh(site, bytes) => {
                    (core.weigh)(site, bytes, false);
                    self.weights.push(bytes as i64);
                }
                Step::Unweigh(site, bytes) => {
                    (core.weigh)(site, bytes, true);
                    self.weights.push(-(bytes as i64));
                }
                _ => {}
            }
        }
    }
}

/// What sites say is what was entered and not removed, and their shares of the peak add up to the peak, but for the one
/// sample that each hand may have been about to enter or to remove.
///
/// # Safety
/// `core` was begun, and no hand is at work.
pub(crate) unsafe fn verify_weights(core: &Core, hands: &[Hand]) {
    let all = hands.iter().flat_map(|hand| &hand.weights);
    if all.clone().next().is_none() {
        return;
    }
    let mut sums = [0u64; 5];
    // SAFETY: room for what it writes.
    unsafe { (core.weights)(sums.as_mut_ptr()) };
    let [live, share, live_said, peak, blocks] = sums;
    let live_truly: i64 = all.clone().sum();
    if [live, live_said] != [live_truly as u64; 2] {
        finding(&format!(
            "{live_truly} bytes are live: {live} by site, {live_said} as a whole"
        ));
    }
    let one_each: u64 = hands
        .iter()
        .filter_map(|hand| hand.weights.iter().map(|n| n.unsigned_abs()).max())
        .sum();
    let entered: i64 = all.filter(|&&n| n > 0).sum();
    if peak < live || peak > entered as u64 || peak.abs_diff(share) > one_each {
        finding(&format!(
            "the peak is {peak} bytes, by site {share} in {blocks} blocks, and {live} are live"
        ));
    }
}

/// One key has one number and one number one key, and what was entered once was taken out once.
pub(crate) fn verify_tables(hands: &[Hand]) {
    let (mut number_of, mut key_of) = (HashMap::new(), HashMap::new());
    let numbers = hands.iter().flat_map(|hand| &hand.numbers);
    for &(key, number) in numbers {
        if *number_of.entry(key).or_insert(number) != number || number == 0 {
            finding(&format!("key {key} has two numbers"));
        }
        if *key_of.entry(number).or_insert(key) != key {
            finding(&format!("number {number} has two keys"));
        }
    }
    let mut there = HashMap::new();
    for &(address, size) in hands.iter().flat_map(|hand| &hand.samples) {
        *there.entry(address).or_insert(0) += if size == 0 { -1 } else { 1 };
    }
    for (address, count) in there {
        if count < 0 {
            finding(&format!(
                "samples of {address:#x} were found more often than entered"
            ));
        }
    }
}
