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

impl Row {
    /// Whose blocks the class has; none: the row does not say it in a way that is known here.
    pub fn class_use(&self) -> Option<ClassUse> {
        ClassUse::ALL
            .into_iter()
            .find(|known| *known as u64 == self.class_use)
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
