//! Sums of samples, with what they may be off by.
//!
//! A sample of `s` bytes that was drawn with one mark in `T` bytes stands for `s / P` bytes and `1 / P` blocks, where
//! `P = 1 − exp(−s / T)` is the chance that a block of its size is sampled. Such sums are unbiased; their variance is
//! the sum of `s² (1 − P) / P²`.

use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// Bytes and blocks, estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Amount {
    pub bytes: f64,
    pub blocks: f64,
    /// Of `bytes`, squared.
    pub variance: f64,
    /// How many samples it was made of.
    pub samples: u64,
}

impl Amount {
    /// What one sample stands for.
    pub fn of_sample(size: u64, interval: u64) -> Amount {
        Self::of_resized_sample(size, size, interval)
    }

    /// What a sample stands for that was drawn with another size than it has now: the chance was that of then.
    pub fn of_resized_sample(size: u64, drawn: u64, interval: u64) -> Amount {
        let s = size.max(1) as f64;
        let chance = chance(drawn, interval);
        Amount {
            bytes: s / chance,
            blocks: 1.0 / chance,
            variance: s * s * (1.0 - chance) / (chance * chance),
            samples: 1,
        }
    }

    /// One standard deviation of `bytes`: two of three times the truth is nearer than this.
    pub fn error(&self) -> f64 {
        self.variance.max(0.0).sqrt()
    }

    /// One standard deviation of `blocks`: the blocks of a site are usually of one size.
    pub fn blocks_error(&self) -> f64 {
        if self.bytes > 0.0 {
            self.error() / self.bytes * self.blocks
        } else {
            0.0
        }
    }

    /// Bytes a block, on the average.
    pub fn mean_size(&self) -> f64 {
        if self.blocks > 0.0 {
            self.bytes / self.blocks
        } else {
            0.0
        }
    }

    /// A part of it, in bytes; the variance goes with the part.
    pub fn part(&self, bytes: f64) -> Amount {
        if self.bytes <= 0.0 {
            return Amount {
                bytes,
                ..Amount::default()
            };
        }
        let share = bytes / self.bytes;
        Amount {
            bytes,
            blocks: self.blocks * share,
            variance: self.variance * share,
            samples: (self.samples as f64 * share).round() as u64,
        }
    }

    pub fn is_zero(&self) -> bool {
        self.samples == 0 && self.bytes == 0.0
    }
}

/// The chance that a block of `size` bytes is sampled at one mark in `interval` bytes. An interval of up to one byte
/// samples everything.
pub fn chance(size: u64, interval: u64) -> f64 {
    if interval <= 1 {
        return 1.0;
    }
    -f64::exp_m1(-(size.max(1) as f64) / interval as f64)
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        self.bytes += other.bytes;
        self.blocks += other.blocks;
        self.variance += other.variance;
        // Counts of a damaged profile file may be anything.
        self.samples = self.samples.saturating_add(other.samples);
    }
}

impl Add for Amount {
    type Output = Amount;

    fn add(mut self, other: Amount) -> Amount {
        self += other;
        self
    }
}

/// What is left when a part of it is taken away: variances subtract too, because the part's samples are among ours.
impl Sub for Amount {
    type Output = Amount;

    fn sub(self, part: Amount) -> Amount {
        Amount {
            bytes: (self.bytes - part.bytes).max(0.0),
            blocks: (self.blocks - part.blocks).max(0.0),
            variance: (self.variance - part.variance).max(0.0),
            samples: self.samples.saturating_sub(part.samples),
        }
    }
}

impl std::iter::Sum for Amount {
    fn sum<I: Iterator<Item = Amount>>(amounts: I) -> Amount {
        amounts.fold(Amount::default(), Add::add)
    }
}

/// Which blocks are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// Those that live.
    Live,
    /// All since the beginning.
    Allocated,
    /// Those that are gone.
    Freed,
    /// Those that lived when most did.
    Peak,
    /// Those that were freed within a millisecond of their birth.
    ShortLived,
}

impl View {
    pub const ALL: [View; 5] = [
        View::Live,
        View::Allocated,
        View::Freed,
        View::Peak,
        View::ShortLived,
    ];

    pub fn name(self) -> &'static str {
        match self {
            View::Live => "live",
            View::Allocated => "allocated",
            View::Freed => "freed",
            View::Peak => "peak",
            View::ShortLived => "short-lived",
        }
    }
}

/// The first bucket of `freed_at_age` that is not short-lived any more: bucket k holds ages below 4^k µs.
pub const SHORT_LIVED_BUCKETS: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_its_expectation() {
        // Twelve random sizes against the definition, and the limits that matter.
        for size in [1u64, 16, 100, 4096, 65536, 524_288, 10_000_000] {
            let amount = Amount::of_sample(size, 524_288);
            let p = 1.0 - (-(size as f64) / 524_288.0).exp();
            assert!(
                (amount.bytes * p / size as f64 - 1.0).abs() < 1e-6,
                "{size}"
            );
            assert!((amount.blocks * p - 1.0).abs() < 1e-6, "{size}");
        }
        let sure = Amount::of_sample(100, 1);
        assert_eq!((sure.bytes, sure.blocks, sure.variance), (100.0, 1.0, 0.0));
    }

    #[test]
    fn taking_a_part_away_leaves_the_rest() {
        let one = Amount::of_sample(64, 4096);
        let two = Amount::of_sample(640, 4096);
        let rest = (one + two) - two;
        assert!((rest.bytes - one.bytes).abs() < 1e-6);
        assert!((rest.variance - one.variance).abs() < 1e-3);
        assert_eq!(rest.samples, 1);
    }
}
