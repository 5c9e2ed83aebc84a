//! The observer's tables: what was entered is found, a key has one number, and the sums of call sites agree.

use std::collections::HashMap;

use crate::core::Core;
use crate::memory::finding;
use crate::program::{Hand, Step};

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
