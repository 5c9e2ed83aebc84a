//! Blocks of a hardened partition: taken one by one at random places, freed once, and late to be taken again.

use crate::core::Core;
use crate::memory::{finding, hold, let_go};
use crate::program::Scenario;
use crate::program::Step::*;
use crate::program::{Hand, Step};
use crate::scenarios::{Entry, REST, entry, two};

/// 8 blocks of 64 KiB in a slab of 8 slots, behind which are as many that nobody may touch.
const X: u32 = 112;
/// The same number of slots.
const Y: u32 = 111;

impl Hand {
    /// Blocks of a hardened partition.
    ///
    /// # Safety
    /// As for every step: see `step`.
    pub(crate) unsafe fn hardened_step(&mut self, core: &Core, step: Step) {
        // SAFETY: blocks that are freed were taken before, and are in this hand or in two.
        unsafe {
            match step {
                Hardened => (core.begin_hardened)(),
                HardTake(c) => {
                    let p = (core.hardened_take)(c);
                    assert!(p != 0, "no memory");
                    hold(p);
                    (p as *mut usize).write_volatile(p);
                    self.hardened.push((c, p));
                }
                HardFree if !self.hardened.is_empty() => {
                    let (_, p) = self.hardened.remove(0);
                    if (p as *mut usize).read_volatile() != p {
                        finding(&format!("the block at {p:#x} lost its contents"));
                    }
                    let_go(p);
                    if !(core.hardened_free)(p) {
                        finding(&format!("the block at {p:#x} is said to be free"));
                    }
                }
                HardFreeShared => {
                    let p = self.shared_hardened.expect("a block that two hands have");
                    self.hardened_freed += u32::from((core.hardened_free)(p));
                }
                _ => {}
            }
        }
    }

    /// The oldest block is in two hands from now on, and nobody has it for himself.
    pub(crate) fn share_hardened(&mut self) -> Option<usize> {
        let (_, p) = self.hardened.remove(0);
        let_go(p);
        self.shared_hardened = Some(p);
        self.shared_hardened
    }

    /// Says to the memory that this hand has what the prologue gave it.
    pub(crate) fn announce_hardened(&self) {
        self.hardened.iter().for_each(|&(_, p)| hold(p));
    }
}

/// What is live is in the hands, what is neither live nor free waits, and of two that freed one block one did.
///
/// # Safety
/// All threads are over.
pub(crate) unsafe fn verify_hardened(core: &Core, hands: &[Hand]) {
    for c in [X, Y] {
        let mut out = 0;
        // SAFETY: as above.
        let live = unsafe { (core.hardened_live)(c, &mut out) };
        let blocks = hands.iter().flat_map(|hand| &hand.hardened);
        let held = blocks.filter(|&&(class, _)| class == c).count();
        if live != held || out != held {
            finding(&format!(
                "of class {c} {live} blocks are live and {out} are not free, {held} are in hands"
            ));
        }
    }
    let shared = hands.iter().any(|hand| hand.shared_hardened.is_some());
    let freed: u32 = hands.iter().map(|hand| hand.hardened_freed).sum();
    if shared && freed != 1 {
        finding(&format!("a block was freed {freed} times"));
    }
}

/// The partition is there.
fn after(scenario: Scenario) -> Scenario {
    let mut prologue = vec![(REST(scenario.threads.len()), Hardened)];
    prologue.extend(scenario.prologue);
    Scenario {
        prologue,
        threads: scenario.threads,
    }
}

/// Two slabs of X: of one a block is free, of the other one is out, and another hand has it. What is left of the chunk is
/// Y's, and all of that is out. So when the other hand has freed its two blocks, the second slab of X is released, and
/// is the only place for one of Y.
fn of_two_classes() -> Vec<(usize, Step)> {
    let rest = REST(2);
    let mut steps = vec![(rest, HardTake(X)); 8];
    steps.extend([(1, HardTake(X)), (1, HardTake(Y))]);
    steps.extend(vec![(rest, HardTake(Y)); 15]);
    steps.extend([(rest, HardFree), (rest, HardFree)]);
    steps
}

pub(crate) fn hardened() -> Vec<Entry> {
    let rest = REST(2);
    let mut all_out = vec![(rest, HardTake(X)); 6];
    all_out.extend([(0, HardTake(X)), (1, HardTake(X))]);
    vec![
        entry(
            "hardened: two take from one slab",
            Some(2),
            after(two(&[(rest, HardTake(X))], &[HardTake(X)], &[HardTake(X)])),
        ),
        entry(
            "hardened: two free one block",
            Some(2),
            after(two(
                &[(rest, HardTake(X)), (0, HardTake(X)), (0, HardShare(1))],
                &[HardFreeShared],
                &[HardFreeShared],
            )),
        ),
        entry(
            "hardened: two free one block that may be taken again",
            Some(2),
            after(two(
                &[
                    (rest, HardTake(X)),
                    (0, HardTake(X)),
                    (1, HardTake(X)),
                    (0, HardShare(1)),
                ],
                &[HardFreeShared],
                &[HardFreeShared, HardFree],
            )),
        ),
        entry(
            "hardened: what waits is put and taken by two",
            Some(2),
            after(two(&all_out, &[HardFree], &[HardFree, HardTake(X)])),
        ),
        entry(
            "hardened: the last block of a slab is given while another takes",
            Some(2),
            after(two(
                &[
                    (0, HardTake(X)),
                    (1, HardTake(Y)),
                    (0, HardFree),
                    (rest, HardTake(Y)),
                ],
                &[HardTake(X)],
                &[HardFree],
            )),
        ),
        entry(
            "hardened: a slab and its gap become another's",
            Some(1),
            after(two(
                &of_two_classes(),
                &[HardTake(X)],
                &[HardFree, HardFree, HardTake(Y)],
            )),
        ),
    ]
}
