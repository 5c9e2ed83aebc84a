//! Heaps of the embedding API: what a thread does with their blocks, and what must hold of their books.

use std::ffi::CStr;

use crate::core::Core;
use crate::memory::{bound, finding, hold, let_go};
use crate::program::Scenario;
use crate::program::Step::*;
use crate::program::{Hand, Step};
use crate::scenarios::{Entry, REST, entry, two};

impl Hand {
    /// Blocks of the heap.
    ///
    /// # Safety
    /// As for every step: see `step`.
    pub(crate) unsafe fn heap_step(&mut self, core: &Core, step: Step) {
        // SAFETY: blocks that are freed were taken before, and are in this hand.
        unsafe {
            match step {
                Heaps => (core.begin_heaps)(),
                HeapGrown => (core.heap_grown)(),
                HeapStripes => (core.heap_stripes)(),
                HeapBounded(slabs) => (core.heap_bounded)(slabs),
                HeapLeave => (core.heap_leave)(),
                HeapLimit(slots) => {
                    let mut most = 0;
                    let word = (core.heap_limit)(slots, &mut most);
                    bound(word, most);
                }
                HeapTake(size) => {
                    let p = (core.heap_take)(size);
                    if p != 0 {
                        hold(p);
                        (p as *mut usize).write_volatile(p + size);
                        self.of_heap.push((p, size));
                    }
                }
                HeapFree if !self.of_heap.is_empty() => {
                    let (p, size) = self.of_heap.remove(0);
                    if (p as *mut usize).read_volatile() != p + size {
                        finding(&format!("the block of a heap at {p:#x} lost its contents"));
                    }
                    let_go(p);
                    (core.heap_free)(p);
                }
                HeapFreeInUse if !self.of_heap.is_empty() => {
                    let (p, size) = self.of_heap.remove(0);
                    let_go(p);
                    if !(core.heap_free_in_use)(p) {
                        hold(p);
                        self.of_heap.push((p, size));
                    }
                }
                HeapEnd => (core.heap_end)(),
                _ => {}
            }
        }
    }

    /// Says to the memory that this hand has what the prologue gave it.
    pub(crate) fn announce_heap(&self) {
        self.of_heap.iter().for_each(|&(p, _)| hold(p));
    }
}

/// What is live is in the hands, and the accounts have what the heap has.
///
/// # Safety
/// All threads are over.
pub(crate) unsafe fn verify_heaps(core: &Core, hands: &[Hand]) {
    let mut wrong = std::ptr::null();
    // SAFETY: as above; the function only reads, and what it says is a constant.
    let live = unsafe { (core.heap_books)(&mut wrong) };
    let held: usize = hands.iter().map(|hand| hand.of_heap.len()).sum();
    if !wrong.is_null() {
        // SAFETY: as above.
        finding(&unsafe { CStr::from_ptr(wrong) }.to_string_lossy());
    }
    // What a heap has that ended is gone with it.
    if live != usize::MAX && live != held {
        finding(&format!(
            "{live} blocks of the heap are live, {held} are in hands"
        ));
    }
}

/// The heap is there, and one has taken and freed a block of each of these sizes: extents of them are there and empty.
fn after(freed: &[usize], limit: Option<usize>, scenario: Scenario) -> Scenario {
    let rest = REST(scenario.threads.len());
    let mut prologue = vec![(rest, Heaps)];
    for &size in freed {
        prologue.extend([(rest, HeapTake(size)), (rest, HeapFree)]);
    }
    prologue.extend(limit.map(|slots| (rest, HeapLimit(slots))));
    prologue.extend(scenario.prologue);
    Scenario {
        prologue,
        threads: scenario.threads,
    }
}

/// Two sizes of extents.
const SOME: usize = 3000;
const OTHER: usize = 2500;

/// A size with seven blocks an extent.
const FEW: usize = 8000;
const FEW_BLOCKS: usize = 7;

/// A size whose extent has one block in its last word of bits, and the others in the first one.
const ONE_APART: usize = 1008;

/// A size whose extent has more than one slot.
const LONG: usize = 20000;

/// All blocks of an extent are taken, the last one by that hand.
fn filled(hand: usize) -> Vec<(usize, Step)> {
    let mut steps = vec![(REST(2), HeapTake(FEW)); FEW_BLOCKS - 1];
    steps.push((hand, HeapTake(FEW)));
    steps
}

/// An extent is there, and the heap's only stripe has a block of it. Its owner, hand 2, is gone.
fn left_behind() -> Vec<(usize, Step)> {
    let rest = REST(2);
    vec![
        (rest, HeapStripes),
        (rest, HeapTake(SOME)),
        (rest, HeapFree),
        (rest, HeapLeave),
    ]
}

/// Two are, and both are still on the stack of those with free blocks. Hand 1 has a block of the upper one.
fn two_filled() -> Vec<(usize, Step)> {
    let mut steps = filled(1);
    steps.extend(filled(REST(2)));
    steps.extend([(1, HeapFree), (1, HeapTake(FEW)), (REST(2), HeapLimit(0))]);
    steps
}

/// A size of a bounded heap with two blocks a slab, another one, and a run of two slabs.
const HALF: usize = 30000;
const SMALL: usize = 2000;
const RUN: usize = 100_000;

/// A bounded heap of so many slabs, in which hands have blocks.
fn bounded(slabs: usize, prologue: &[(usize, Step)], one: &[Step], other: &[Step]) -> Scenario {
    let mut steps = vec![(REST(2), HeapBounded(slabs))];
    steps.extend_from_slice(prologue);
    after(&[], None, two(&steps, one, other))
}

fn bounded_heaps() -> Vec<Entry> {
    vec![
        entry(
            "heaps: two want the only slab of a bounded one",
            Some(2),
            bounded(1, &[], &[HeapTake(HALF), HeapFree], &[HeapTake(SMALL)]),
        ),
        entry(
            "heaps: a bounded slab is full, and is left, at once",
            Some(2),
            bounded(
                1,
                &[(0, HeapTake(HALF)), (1, HeapTake(HALF))],
                &[HeapFree, HeapTake(HALF)],
                &[HeapFree],
            ),
        ),
        entry(
            "heaps: a bounded slab is full while another one gets room",
            Some(2),
            bounded(
                2,
                &[
                    (0, HeapTake(HALF)),
                    (REST(2), HeapTake(HALF)),
                    (REST(2), HeapTake(HALF)),
                    (1, HeapTake(HALF)),
                    (0, HeapFree),
                ],
                &[HeapTake(HALF)],
                &[HeapFree],
            ),
        ),
        entry(
            "heaps: a bounded slab changes its class while another takes of it",
            Some(2),
            bounded(
                1,
                &[(0, HeapTake(HALF))],
                &[HeapFree, HeapTake(SMALL)],
                &[HeapTake(HALF), HeapFree],
            ),
        ),
        entry(
            "heaps: two take blocks of a bounded slab",
            Some(2),
            bounded(
                1,
                &[(0, HeapTake(SMALL))],
                &[HeapFree, HeapTake(SMALL)],
                &[HeapTake(SMALL), HeapFree],
            ),
        ),
        entry(
            "heaps: a bounded run is made while a slab of it is taken",
            Some(2),
            bounded(2, &[], &[HeapTake(RUN), HeapFree], &[HeapTake(HALF)]),
        ),
        entry(
            "heaps: two make bounded runs that overlap",
            Some(2),
            bounded(
                3,
                &[(0, HeapTake(HALF))],
                &[HeapFree, HeapTake(RUN)],
                &[HeapTake(RUN), HeapFree],
            ),
        ),
    ]
}

pub(crate) fn heaps() -> Vec<Entry> {
    let mut entries = vec![
        entry(
            "heaps: two take and free units",
            Some(2),
            after(
                &[],
                None,
                two(
                    &[(0, HeapTake(100))],
                    &[HeapFree, HeapTake(40)],
                    &[HeapTake(60), HeapFree],
                ),
            ),
        ),
        entry(
            "heaps: two take and free of an extent",
            Some(2),
            after(
                &[SOME],
                None,
                two(
                    &[(0, HeapTake(SOME))],
                    &[HeapFree, HeapTake(SOME)],
                    &[HeapTake(SOME)],
                ),
            ),
        ),
        entry(
            "heaps: two charge a parent that has room for one",
            Some(2),
            after(
                &[],
                Some(1),
                two(&[], &[HeapTake(SOME)], &[HeapTake(OTHER)]),
            ),
        ),
        entry(
            "heaps: an extent is retired while another takes of it",
            Some(1),
            after(
                &[SOME],
                Some(0),
                two(&[], &[HeapTake(OTHER)], &[HeapTake(SOME)]),
            ),
        ),
        entry(
            "heaps: an extent is retired while its last block is freed",
            Some(1),
            after(
                &[],
                Some(1),
                two(
                    &[(0, HeapTake(SOME))],
                    &[HeapFree, HeapTake(SOME)],
                    &[HeapTake(OTHER)],
                ),
            ),
        ),
        entry(
            "heaps: an extent is almost retired, and closed meanwhile",
            Some(1),
            after(
                &[],
                None,
                two(
                    &[
                        (REST(2), HeapGrown),
                        (REST(2), HeapTake(ONE_APART)),
                        (REST(2), HeapFree),
                        (REST(2), HeapLimit(1)),
                    ],
                    &[HeapTake(LONG)],
                    &[HeapTake(ONE_APART), HeapTake(ONE_APART)],
                ),
            ),
        ),
        entry(
            "heaps: an extent is closed while a block of it is freed",
            Some(2),
            after(&[], None, two(&filled(0), &[HeapFree], &[HeapTake(FEW)])),
        ),
        entry(
            "heaps: an extent is closed, and opened again meanwhile",
            Some(1),
            after(
                &[],
                None,
                two(&two_filled(), &[HeapTake(FEW)], &[HeapTake(FEW), HeapFree]),
            ),
        ),
        entry(
            "heaps: two want the only stripe",
            Some(2),
            after(
                &[SOME],
                None,
                two(
                    &[(REST(2), HeapStripes), (0, HeapTake(SOME))],
                    &[HeapFree, HeapTake(SOME)],
                    &[HeapTake(SOME), HeapFree],
                ),
            ),
        ),
        entry(
            "heaps: two take over the stripe of one that is gone",
            Some(2),
            after(
                &[SOME],
                None,
                two(&left_behind(), &[HeapTake(SOME)], &[HeapTake(SOME)]),
            ),
        ),
        entry(
            "heaps: a stripe is left while another wants it",
            Some(1),
            after(
                &[SOME],
                None,
                two(
                    &[(REST(2), HeapStripes), (0, HeapTake(SOME))],
                    &[HeapFree, HeapLeave, HeapTake(SOME)],
                    &[HeapTake(SOME), HeapTake(SOME)],
                ),
            ),
        ),
        entry(
            "heaps: a full stripe gives back while another takes by bits",
            Some(1),
            after(
                &[SOME],
                None,
                two(
                    &[
                        (REST(2), HeapStripes),
                        (0, HeapTake(SOME)),
                        (0, HeapTake(SOME)),
                        (0, HeapTake(SOME)),
                    ],
                    &[HeapFree, HeapFree, HeapFree],
                    &[HeapTake(SOME), HeapFree],
                ),
            ),
        ),
        entry(
            "heaps: what one left behind is found at the limit by two",
            Some(0),
            after(
                &[SOME],
                None,
                two(
                    &[left_behind(), vec![(REST(2), HeapLimit(0))]].concat(),
                    &[HeapTake(OTHER)],
                    &[HeapTake(SOME)],
                ),
            ),
        ),
        entry(
            "heaps: a checked heap is destroyed while its block is freed",
            Some(2),
            after(
                &[],
                None,
                two(&[(0, HeapTake(100))], &[HeapFreeInUse], &[HeapEnd]),
            ),
        ),
        entry(
            "heaps: two destroy a checked heap",
            Some(2),
            after(&[], None, two(&[], &[HeapEnd], &[HeapEnd])),
        ),
    ];
    entries.extend(bounded_heaps());
    entries
}
