//! Freed blocks of a checked program: they wait in a ring, and each leaves once.

use std::ffi::CStr;

use crate::core::Core;
use crate::memory::{finding, hold, is_held, let_go};
use crate::program::Scenario;
use crate::program::Step::*;
use crate::program::{Hand, Step};
use crate::scenarios::{Entry, REST, entry, three, two};

/// The block is the caller's now, who ends it.
extern "C-unwind" fn leaves(block: usize) {
    hold(block);
}

/// The block is looked at, and nobody else has it meanwhile.
extern "C-unwind" fn is_seen(block: usize) {
    hold(block);
    let_go(block);
}

impl Hand {
    /// Blocks that the program has freed.
    ///
    /// # Safety
    /// As for every step: see `step`.
    pub(crate) unsafe fn quarantine_step(&mut self, core: &Core, step: Step) {
        // SAFETY: a block is put once.
        unsafe {
            match step {
                Quarantine(limit) => (core.begin_quarantine)(limit),
                QuarantinePut(i) => {
                    let_go((core.quarantined)(i));
                    self.put_away.push(i);
                    (core.quarantine_put)(i, leaves);
                }
                QuarantineDrain => (core.quarantine_drain)(leaves),
                QuarantineEach => (core.quarantine_each)(is_seen),
                _ => {}
            }
        }
    }
}

/// A block that was put either waits or has left.
///
/// # Safety
/// All threads are over.
pub(crate) unsafe fn verify_quarantine(core: &Core, hands: &[Hand]) {
    let mut wrong = std::ptr::null();
    // SAFETY: as above; the function only reads, and what it says is a constant.
    let waiting = unsafe { (core.quarantine_books)(&mut wrong) };
    if !wrong.is_null() {
        // SAFETY: as above.
        finding(&unsafe { CStr::from_ptr(wrong) }.to_string_lossy());
    }
    for &i in hands.iter().flat_map(|hand| &hand.put_away) {
        // SAFETY: as above.
        let left = is_held(unsafe { (core.quarantined)(i) });
        match (waiting >> i & 1 != 0, left) {
            (true, true) => finding(&format!("block {i} has left and waits")),
            (false, false) => finding(&format!("block {i} was lost")),
            _ => {}
        }
    }
}

/// Each takes 192 bytes, and the ring has two places.
const ONE: usize = 192;

/// The ring is there, with a limit, and these wait.
fn after(limit: usize, waiting: &[u32], scenario: Scenario) -> Scenario {
    let rest = REST(scenario.threads.len());
    let mut prologue = vec![(rest, Quarantine(limit))];
    prologue.extend(waiting.iter().map(|&i| (rest, QuarantinePut(i))));
    prologue.extend(scenario.prologue);
    Scenario {
        prologue,
        threads: scenario.threads,
    }
}

pub(crate) fn quarantine() -> Vec<Entry> {
    let put = QuarantinePut;
    vec![
        entry(
            "quarantine: two put with nothing before",
            Some(3),
            after(2 * ONE, &[], two(&[], &[put(0)], &[put(1)])),
        ),
        entry(
            "quarantine: two put, and the oldest leave",
            Some(2),
            after(ONE, &[4], two(&[], &[put(0), put(1)], &[put(2)])),
        ),
        entry(
            "quarantine: the ring comes round",
            Some(2),
            after(8 * ONE, &[4, 5], two(&[], &[put(0)], &[put(1), put(2)])),
        ),
        entry(
            "quarantine: one puts while another lets all go",
            Some(3),
            after(
                2 * ONE,
                &[4],
                two(&[], &[put(0)], &[QuarantineDrain, QuarantineDrain]),
            ),
        ),
        entry(
            "quarantine: all are looked at while others put and leave",
            Some(2),
            after(
                2 * ONE,
                &[4],
                two(&[], &[put(0), put(1)], &[QuarantineEach]),
            ),
        ),
        entry(
            "quarantine: three put",
            Some(1),
            after(ONE, &[4], three(&[], [&[put(0)], &[put(1)], &[put(2)]])),
        ),
    ]
}
