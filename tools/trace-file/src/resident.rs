//! What the recorded program had resident, so that a replay can be compared with it.

use serde::{Deserialize, Serialize};

/// Private resident bytes of the program: what is mapped shared, the recorder's own memory too, is not among them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resident {
    /// Before the first call.
    pub base: u64,
    /// At the highest that was seen.
    pub peak: u64,
    /// Of those, in mappings that never had a block of the trace: stacks, data, what the program mapped itself.
    pub outside: u64,
    /// How many times they were read.
    pub samples: u64,
    /// The curve: nanoseconds since the recording began, bytes.
    pub points: Vec<(u64, u64)>,
}

/// More points are in no file.
pub const MOST_POINTS: usize = 1024;

impl Resident {
    /// By how much the program grew.
    pub fn growth(&self) -> u64 {
        self.peak.saturating_sub(self.base)
    }

    /// The part of it that was in mappings with blocks.
    pub fn growth_of_blocks(&self) -> u64 {
        let outside = self.outside.saturating_sub(self.base);
        self.growth().saturating_sub(outside)
    }

    /// What a file may say.
    pub fn is_possible(&self) -> bool {
        let fits = |bytes: u64| bytes <= self.peak && bytes < 1 << 60;
        fits(self.peak)
            && fits(self.base)
            && fits(self.outside)
            && self.samples > 0
            && self.points.len() <= MOST_POINTS
            && self.points.iter().all(|point| fits(point.1))
            && self.points.windows(2).all(|pair| pair[0].0 <= pair[1].0)
    }
}
