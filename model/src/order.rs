//! The recorder's order: blocks go from thread to thread, and the dates of the calls on each are in their true order.

use std::cell::Cell;

use crate::core::Core;
use crate::memory::finding;
use crate::program::{Hand, Scenario, Step};
use crate::scenarios::{Entry, entry, three, two};

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recording {
    /// In a prologue: the thread has this number.
    Begin(u32),
    /// Its stamp is due.
    Stamp,
    /// Time passes: a step of dates; up to the next era of dates.
    Moment,
    Wait,
    /// Allocates the block if that is free; and releases it if it is in hand. Each is a call with a date.
    Allocate(u32),
    Free(u32),
    /// Passes the block on if it is in hand; and takes one that was passed on. Neither is a call.
    Pass(u32),
    Receive(u32),
}

use Recording::*;

/// Ticks between two readings of the clock: fewer than in one step of dates, so that two stamps may have one date.
const READING: u64 = 20;
const DATE: u64 = 1 << 7;
const ERA: u64 = DATE << 26;
/// Runs begin near the end of an era, where a date is large.
const BEGIN: u64 = ERA - 50 * READING;

thread_local! {
    /// Readings of the clock come in the order of the run. So do the calls, which are numbered by it.
    static CLOCK: Cell<u64> = const { Cell::new(0) };
}

/// At the beginning of a prologue, which is before all runs, or of a run.
pub(crate) fn restart_clock(prologue: bool) {
    CLOCK.set(if prologue { BEGIN - ERA / 2 } else { BEGIN });
}

extern "C-unwind" fn ticks_now() -> u64 {
    CLOCK.set(CLOCK.get() + READING);
    CLOCK.get()
}

/// A thread's part in the order, and its calls: the block, when it truly was, and the stamp that dates it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    /// A `struct order_dates`.
    dates: [u64; 4],
    last: u64,
    in_hand: Vec<u32>,
    calls: Vec<(u32, u64, u64)>,
}

impl Recorded {
    /// # Safety
    /// The block is in hand.
    unsafe fn call(&mut self, core: &Core, block: u32) {
        // SAFETY: the struct is this thread's.
        unsafe {
            let dates = self.dates.as_mut_ptr();
            self.last = (core.order_call)(dates, block, self.last, ticks_now);
        }
        self.calls.push((block, ticks_now(), self.last));
    }

    /// True if the block was in hand.
    fn has(&mut self, block: u32) -> bool {
        let at = self.in_hand.iter().position(|&b| b == block);
        at.map(|at| self.in_hand.remove(at)).is_some()
    }
}

impl Hand {
    /// A step of a recorded thread.
    ///
    /// # Safety
    /// As for every step: see `step`.
    pub(crate) unsafe fn recording_step(&mut self, core: &Core, step: Recording) {
        let own = &mut self.recorded;
        // SAFETY: the struct is this thread's, and each call is on a block in hand.
        unsafe {
            match step {
                Begin(number) => {
                    (core.order_begin)(own.dates.as_mut_ptr(), number);
                    own.last = ticks_now();
                    (core.order_stamp)(own.dates.as_mut_ptr(), own.last);
                }
                Stamp => {
                    own.last = ticks_now();
                    (core.order_stamp)(own.dates.as_mut_ptr(), own.last);
                }
                Moment => CLOCK.set(CLOCK.get() + DATE),
                Wait => CLOCK.set((CLOCK.get() / ERA + 1) * ERA),
                Allocate(b) if (core.order_take)(b, false) => {
                    own.call(core, b);
                    own.in_hand.push(b);
                }
                Receive(b) if (core.order_take)(b, true) => own.in_hand.push(b),
                Allocate(_) | Receive(_) => {}
                Free(b) if own.has(b) => {
                    own.call(core, b);
                    (core.order_leave)(b, false);
                }
                Pass(b) if own.has(b) => (core.order_leave)(b, true),
                Free(_) | Pass(_) => {}
            }
        }
    }
}

/// Of two calls on a block, that of another thread has a younger stamp than the one before it; of the same thread, none older.
pub(crate) fn verify_order(hands: &[Hand]) {
    let mut calls: Vec<_> = hands
        .iter()
        .enumerate()
        .flat_map(|(thread, hand)| hand.recorded.calls.iter().map(move |call| (call, thread)))
        .collect();
    calls.sort();
    for pair in calls.windows(2) {
        let ((block, _, earlier), one) = pair[0];
        let ((same, _, later), other) = pair[1];
        let right = if one == other {
            earlier <= later
        } else {
            earlier < later
        };
        if block == same && !right {
            finding(&format!(
                "block {block}: thread {other} comes after thread {one} and has the stamp {later}, which is not after {earlier}"
            ));
        }
    }
}

const fn do_it(step: Recording) -> Step {
    Step::Record(step)
}

fn steps(of: &[Recording]) -> Vec<Step> {
    of.iter().copied().map(do_it).collect()
}

/// Both threads have numbers, and then this happens.
fn begun(numbers: &[u32], before: &[(usize, Recording)], scenario: Scenario) -> Scenario {
    let begin = numbers
        .iter()
        .enumerate()
        .map(|(i, &n)| (i, do_it(Begin(n))));
    let before = before.iter().map(|&(hand, step)| (hand, do_it(step)));
    Scenario {
        prologue: begin.chain(before).collect(),
        threads: scenario.threads,
    }
}

fn pair(before: &[(usize, Recording)], first: &[Recording], second: &[Recording]) -> Scenario {
    begun(&[1, 2], before, two(&[], &steps(first), &steps(second)))
}

/// Both have had to do with these blocks.
const SEVERAL: &[(usize, Recording)] = &[
    (0, Allocate(0)),
    (0, Free(0)),
    (1, Allocate(0)),
    (1, Free(0)),
    (0, Allocate(2)),
    (0, Free(2)),
    (1, Allocate(2)),
    (1, Free(2)),
];

pub(crate) fn order() -> Vec<Entry> {
    let there_and_back = [Allocate(0), Pass(0), Allocate(0), Free(0)];
    let frees = [Stamp, Receive(0), Free(0), Allocate(0), Free(0)];
    vec![
        entry(
            "order: a block goes to another thread with nothing before",
            Some(3),
            pair(&[], &there_and_back, &frees),
        ),
        entry(
            "order: a region becomes that of several",
            Some(2),
            pair(
                &[(0, Allocate(0)), (0, Free(0))],
                &[Stamp, Allocate(0), Pass(0), Allocate(0), Free(0)],
                &[Allocate(1), Free(1), Receive(0), Free(0)],
            ),
        ),
        entry(
            "order: a block goes to and fro in a region of several",
            Some(3),
            pair(SEVERAL, &there_and_back, &frees),
        ),
        entry(
            "order: a thread's own calls renew the note",
            Some(3),
            pair(
                SEVERAL,
                &[Allocate(0), Stamp, Free(0)],
                &[Moment, Stamp, Moment, Allocate(0), Free(0)],
            ),
        ),
        entry(
            "order: two blocks share the place of a note",
            Some(2),
            pair(
                SEVERAL,
                &[Stamp, Allocate(0), Pass(0), Allocate(2), Free(2)],
                &[Allocate(2), Stamp, Free(2), Receive(0), Free(0)],
            ),
        ),
        entry(
            "order: two blocks share a region's word and the place of a note",
            Some(2),
            pair(
                &[(0, Allocate(0)), (0, Free(0))],
                &[Stamp, Allocate(0), Pass(0)],
                &[Allocate(4), Stamp, Free(4), Receive(0), Free(0)],
            ),
        ),
        entry(
            "order: two blocks are closer than a note is long",
            Some(2),
            pair(
                SEVERAL,
                &[Stamp, Allocate(0), Pass(0), Allocate(3), Free(3)],
                &[Allocate(3), Free(3), Receive(0), Free(0)],
            ),
        ),
        entry(
            "order: an era ends",
            Some(2),
            pair(
                SEVERAL,
                &[Stamp, Wait, Stamp, Allocate(0), Pass(0)],
                &[Stamp, Receive(0), Free(0), Allocate(0), Free(0)],
            ),
        ),
        entry(
            "order: threads without a number",
            Some(2),
            begun(
                &[0x7FFF, 0x8000],
                SEVERAL,
                two(&[], &steps(&there_and_back), &steps(&frees)),
            ),
        ),
        entry(
            "order: three threads",
            Some(1),
            begun(
                &[1, 2, 3],
                SEVERAL,
                three(
                    &[],
                    [
                        &steps(&[Stamp, Allocate(0), Pass(0)]),
                        &steps(&[Receive(0), Free(0)]),
                        &steps(&[Allocate(0), Stamp, Free(0)]),
                    ],
                ),
            ),
        ),
    ]
}
