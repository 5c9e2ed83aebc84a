//! Guarded blocks: what a thread does with their slots, and what must hold of them.

use crate::core::Core;
use crate::memory::{finding, hold, let_go};
use crate::program::Scenario;
use crate::program::Step::*;
use crate::program::{Hand, Step};
use crate::scenarios::{Entry, REST, entry, two};

const NONE: u32 = u32::MAX;
/// What the memory knows a slot by: no address of a block.
const WATCHED: usize = 0x6_0000_0000;

fn place(slot: u32) -> usize {
    WATCHED + slot as usize
}

impl Hand {
    /// Slots of guarded blocks.
    ///
    /// # Safety
    /// As for every step: see `step`.
    pub(crate) unsafe fn guard_step(&mut self, core: &Core, step: Step) {
        // SAFETY: slots that are freed were taken before.
        unsafe {
            match step {
                Guards => (core.begin_guards)(),
                GuardTake(keep, size) => {
                    let slot = (core.guard_take)(keep, size);
                    if slot != NONE {
                        hold(place(slot));
                        self.guarded.push((slot, size));
                    }
                }
                GuardFree if !self.guarded.is_empty() => {
                    let (slot, size) = self.guarded.remove(0);
                    let_go(place(slot));
                    let said = (core.guard_free)(slot, size);
                    if said != size {
                        finding(&format!("slot {slot} had {size} bytes and says {said}"));
                    }
                }
                GuardShare => {
                    // Nobody has it for himself from now on.
                    self.shared_guard = self.guarded.pop().map(|(slot, _)| {
                        let_go(place(slot));
                        slot
                    });
                }
                GuardFreeShared => {
                    self.guards_freed += u32::from((core.guard_free)(0, 1) != 0);
                }
                GuardLook(slot, size) => {
                    let said = (core.guard_look)(slot);
                    if said != 0 && said != size {
                        finding(&format!("a live block of {size} bytes says {said}"));
                    }
                }
                GuardAfford => self.guards_afforded += u32::from((core.guard_affords)()),
                _ => {}
            }
        }
    }

    /// Says to the memory that this hand has what the prologue gave it.
    pub(crate) fn announce_guards(&self) {
        let mine = self.guarded.iter();
        mine.for_each(|&(slot, _)| hold(place(slot)));
    }
}

/// A slot that was ever taken is in a hand or waits, and in one place; and of those who freed a block that several had,
/// one did.
///
/// # Safety
/// All threads are over.
pub(crate) unsafe fn verify_guards(core: &Core, hands: &[Hand]) {
    let mut wrong = false;
    // SAFETY: as above; the functions only read.
    let (waiting, made) = unsafe { ((core.guards_waiting)(&mut wrong), (core.guards_made)()) };
    let shared = hands.iter().any(|hand| hand.shared_guard.is_some());
    let freed: u32 = hands.iter().map(|hand| hand.guards_freed).sum();
    let held: usize = hands.iter().map(|hand| hand.guarded.len()).sum();
    if waiting == usize::MAX {
        finding("a slot waits twice");
    } else if shared && freed != 1 {
        finding(&format!("a block was freed {freed} times"));
    } else if made != held + waiting {
        finding(&format!(
            "{made} slots were taken, {held} are in hands, and {waiting} wait"
        ));
    }
    let afforded: u32 = hands.iter().map(|hand| hand.guards_afforded).sum();
    if afforded > 1 {
        finding(&format!(
            "{afforded} guards were afforded where there is time for one"
        ));
    }
    if wrong {
        finding("the bytes that wait are not those of the slots that wait");
    }
}

/// One has made the tables and taken a slot, and all are in the ring but those that hands have.
fn after(freed: &[usize], scenario: Scenario) -> Scenario {
    let rest = REST(scenario.threads.len());
    let mut prologue = vec![(rest, Guards)];
    for &size in freed {
        prologue.push((rest, GuardTake(u64::MAX, size)));
    }
    prologue.extend(freed.iter().map(|_| (rest, GuardFree)));
    prologue.extend(scenario.prologue);
    Scenario {
        prologue,
        threads: scenario.threads,
    }
}

pub(crate) fn guards() -> Vec<Entry> {
    vec![
        entry(
            "guards: two take the first slots",
            Some(3),
            after(&[], two(&[], &[GuardTake(0, 5)], &[GuardTake(0, 6)])),
        ),
        entry(
            "guards: two take what waits",
            Some(2),
            after(&[5, 6], two(&[], &[GuardTake(0, 7)], &[GuardTake(0, 8)])),
        ),
        entry(
            "guards: one takes what another puts",
            Some(2),
            after(
                &[5],
                two(
                    &[(0, GuardTake(0, 6))],
                    &[GuardFree],
                    &[GuardTake(0, 7), GuardFree],
                ),
            ),
        ),
        entry(
            "guards: two put and take",
            Some(2),
            after(
                &[],
                two(
                    &[(0, GuardTake(0, 5)), (1, GuardTake(0, 6))],
                    &[GuardFree, GuardTake(0, 7)],
                    &[GuardFree, GuardTake(0, 8)],
                ),
            ),
        ),
        entry(
            "guards: two free one block",
            Some(3),
            after(
                &[],
                two(
                    &[(0, GuardTake(0, 5)), (0, GuardShare)],
                    &[GuardFreeShared],
                    &[GuardFreeShared],
                ),
            ),
        ),
        entry(
            "guards: two ask where there is time for one",
            None,
            two(&[], &[GuardAfford], &[GuardAfford]),
        ),
        entry(
            "guards: a touch while the block is replaced",
            Some(2),
            after(
                &[5],
                two(&[], &[GuardTake(0, 9), GuardFree], &[GuardLook(0, 9)]),
            ),
        ),
    ]
}
