//! The profile file as it lies on disk: the structures and constants of `src/observe/profile.h`.
//!
//! They are generated from that header by `build/main.rs`, so the two cannot differ. `tests/contract.rs` asks a C
//! compiler for each size, offset and number.
//!
//! Nothing here judges what it reads: that is the business of [`crate::snapshot`].

use bytemuck::{Pod, Zeroable};

/// The words are little-endian, and are read as they lie.
#[cfg(target_endian = "big")]
compile_error!(
    "the profile file is little-endian: on a big-endian machine each field would have to be swapped"
);

include!(concat!(env!("OUT_DIR"), "/layout.rs"));

/// Files of this layout and of those that follow can be read.
pub const LAYOUT_OLDEST: u32 = 1;

impl Row {
    /// Whose blocks the class has; none: the row does not say it in a way that is known here.
    pub fn class_use(&self) -> Option<ClassUse> {
        ClassUse::ALL
            .into_iter()
            .find(|known| *known as u64 == self.class_use)
    }
}

/// What a word says that has a check above it.
pub fn plain(word: u64) -> u64 {
    word & ((1 << PLAIN_BITS) - 1)
}

impl Sample {
    /// The size with which it was drawn.
    pub fn drawn_size(&self) -> u64 {
        match plain(self.drawn) {
            0 => self.size,
            drawn => drawn,
        }
    }

    /// The mean bytes between samples when it was drawn.
    pub fn drawn_interval(&self) -> u64 {
        plain(self.interval)
    }

    /// Of a living one: twice the number of the scan that judged it, and 1 more if it could be reached.
    pub fn verdict(&self) -> u64 {
        self.reached & u64::from(u32::MAX)
    }

    /// Of a place without a sample: what is left is of one that was born and freed.
    pub fn is_trace(&self) -> bool {
        self.born_ns != 0 && self.reached >= self.born_ns
    }
}

impl Module {
    /// When it was found to be gone, to some 65 µs; none: it is there.
    pub fn unloaded(&self) -> Option<u64> {
        (self.unloaded_ns >> 16 != 0).then_some(self.unloaded_ns)
    }
}

/// The text in a field that is filled up with zeros.
pub fn text(field: &[u8]) -> String {
    let end = field
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}
