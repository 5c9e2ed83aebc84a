//! Slabs that are let to other sizes: what a thread does with them, and what must hold of them.

use crate::core::Core;
use crate::memory::{finding, hold, let_go};
use crate::program::{Hand, Step};

/// The host of all scenarios that let slabs: units of 2 KiB, 32 a slab.
pub const HOST: u32 = 72;
const UNIT: usize = 2048;

/// Units that a block lies on if it is a guest: one of the host, two of 4 KiB, three of 6 KiB. Of other classes there are
/// none in scenarios.
fn units_of(c: u32) -> Option<usize> {
    match c {
        HOST => Some(1),
        80 => Some(2),
        84 => Some(3),
        _ => None,
    }
}

/// The addresses that whoever has a block is watched at.
pub fn pieces(c: u32, p: usize) -> impl Iterator<Item = usize> {
    (0..units_of(c).unwrap_or(1)).map(move |i| p + i * UNIT)
}

impl Hand {
    /// Slabs that are let.
    ///
    /// # Safety
    /// As for every step: see `step`.
    pub(crate) unsafe fn guests_step(&mut self, core: &Core, step: Step) {
        match step {
            Step::OpenHoles(slot, c) => {
                // SAFETY: the slot is one of the window's.
                unsafe { (core.holes_open)(slot, c) };
            }
            Step::TakeGuests(c, n) => {
                let mut out = vec![0usize; n as usize];
                // SAFETY: `out` has room for n.
                let got = unsafe { (core.holes_take)(c, n, out.as_mut_ptr()) };
                out.truncate(got as usize);
                for &p in &out {
                    pieces(c, p).for_each(hold);
                    // SAFETY: the block is this hand's.
                    unsafe { must_lodge(core, c, p) };
                }
                self.blocks.entry(c).or_default().extend(out);
            }
            Step::FreeOne(c) => {
                let mine = self.blocks.entry(c).or_default();
                if !mine.is_empty() {
                    let p = mine.remove(0);
                    pieces(c, p).for_each(let_go);
                    // SAFETY: the block was this hand's.
                    if !unsafe { (core.free_one)(p) } {
                        finding("a block is freed and nobody knows it");
                    }
                }
            }
            _ => {}
        }
    }
}

/// The guest at p, of class c, lies on all its units and on nobody else's, and to free it is special.
///
/// # Safety
/// The block is in the caller's hand.
unsafe fn must_lodge(core: &Core, c: u32, p: usize) {
    let mut bytes = 0;
    // SAFETY: only reads; `bytes` has room for the answer.
    let (class, begin) = unsafe { ((core.class_at)(p), (core.holes_block_of)(p, &mut bytes)) };
    if class != 0 {
        finding(&format!("a guest is found as class {class}"));
    }
    if begin != p || Some(bytes) != units_of(c).map(|units| units * UNIT) {
        finding(&format!(
            "a guest of class {c} at {p:#x} is found at {begin:#x}, with {bytes} bytes"
        ));
    }
}

/// True if the block at p is in a slab that is let, be it one of the host.
pub fn lodges(core: &Core, p: usize) -> bool {
    // SAFETY: only reads; all threads are over.
    unsafe { (core.holes_block_of)(p, &mut 0) != 0 }
}

/// Every unit that is out is part of exactly one block in somebody's hands, and joined to it or its beginning.
///
/// # Safety
/// All threads are over.
pub unsafe fn verify_guests(core: &Core, hands: &[Hand]) {
    let blocks = hands.iter().flat_map(|hand| &hand.blocks);
    let (mut units, mut heads) = (0, 0);
    for (&c, &p) in blocks.flat_map(|(c, blocks)| blocks.iter().map(move |p| (c, p))) {
        if lodges(core, p) {
            // SAFETY: as in verify.
            unsafe { must_lodge(core, c, p) };
            units += units_of(c).unwrap_or(0);
            heads += 1;
        }
    }
    let mut joined = 0;
    // SAFETY: as in verify.
    let out = unsafe { (core.units_out)(&mut joined) };
    if out != units || joined != units - heads {
        finding(&format!(
            "{out} units are out and {joined} joined, the threads hold {units} in {heads} blocks"
        ));
    }
}
