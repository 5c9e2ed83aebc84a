//! The observer's tables: what was entered is found, and a key has one number.

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
                _ => {}
            }
        }
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
