//! Blocks whose free waits for readers: each is freed once, and by nobody while a reader has it.

use std::cell::RefCell;
use std::ffi::CStr;

use crate::core::Core;
use crate::memory::{finding, hold, is_held, look};
use crate::program::Scenario;
use crate::program::{Hand, Step};
use crate::scenarios::{Entry, REST, entry, three, two};

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deferring {
    /// In a prologue: before all else.
    Begin,
    /// The blocks that it will need come into its cache; and it takes part.
    Warm,
    Join,
    /// In a prologue: a new block is behind a link.
    Publish(u32),
    /// Takes the block out of the structure and defers it. One thread does so for each link.
    Unlink(u32),
    Flush,
    Safepoint,
    /// The calls of readers.
    Register,
    Unregister,
    Pass,
    Leave,
    Return,
    /// A reader finds the block behind a link; and reads what it found.
    Find(u32),
    Look,
}

use Deferring::*;

thread_local! {
    static WAITING: RefCell<Vec<usize>> = const { RefCell::new(vec![]) };
}

/// The block is freed, and its next owner writes to it.
extern "C-unwind" fn is_freed(block: usize) {
    hold(block);
}

extern "C-unwind" fn waits(block: usize) {
    WAITING.with_borrow_mut(|waiting| waiting.push(block));
}

impl Hand {
    /// A step of the deferred free.
    ///
    /// # Safety
    /// As for every step: see `step`.
    pub(crate) unsafe fn defer_step(&mut self, core: &Core, step: Deferring) {
        // SAFETY: a block is deferred once, by the one thread that takes it out of its link; nobody reads its bytes.
        unsafe {
            match step {
                Begin => (core.begin_defer)(is_freed),
                Warm => (core.defer_warm)(),
                Join => {
                    (core.defer_warm)();
                    (core.defer_flush)();
                }
                Publish(i) => self.published.push((core.defer_publish)(i)),
                Unlink(i) => assert!((core.defer_unlink)(i), "not deferred"),
                Flush => {
                    (core.defer_flush)();
                }
                Safepoint => (core.defer_safepoint)(),
                Register => assert!((core.reader_begin)(c"reader".as_ptr()), "no reader"),
                Unregister => (core.reader_end)(),
                Pass => (core.reader_pass)(),
                Leave => (core.reader_leave)(),
                Return => (core.reader_return)(),
                Find(i) => self.reading = (core.defer_find)(i),
                Look if self.reading != 0 => {
                    if is_held(self.reading) {
                        finding("a reader reads a block that was freed");
                    }
                    look(self.reading);
                }
                Look => {}
            }
        }
    }
}

/// A block that was published is behind its link, or waits, or was freed.
///
/// # Safety
/// All threads are over.
pub(crate) unsafe fn verify_deferred(core: &Core, hands: &[Hand]) {
    WAITING.with_borrow_mut(Vec::clear);
    // SAFETY: as above; the functions only read, and what they say is a constant.
    let (wrong, linked) = unsafe {
        (
            (core.defer_waiting)(waits),
            [0, 1, 2].map(|i| (core.defer_find)(i)),
        )
    };
    if !wrong.is_null() {
        // SAFETY: as above.
        finding(&unsafe { CStr::from_ptr(wrong) }.to_string_lossy());
    }
    let waiting = WAITING.with_borrow(Vec::clone);
    for &block in hands.iter().flat_map(|hand| &hand.published) {
        let places = linked.iter().chain(&waiting).filter(|&&p| p == block);
        match places.count() + usize::from(is_held(block)) {
            0 => finding(&format!("the block {block:#x} was lost")),
            1 => {}
            _ => finding(&format!(
                "the block {block:#x} waits twice, or was freed and waits"
            )),
        }
    }
}

/// Each thread takes part, some are readers already, and a block is behind each of so many links.
fn after(
    readers: &[usize],
    links: u32,
    more: &[(usize, Deferring)],
    scenario: Scenario,
) -> Scenario {
    let rest = REST(scenario.threads.len());
    let mut prologue = vec![(rest, Begin)];
    prologue.extend((0..rest).map(|hand| (hand, Join)));
    prologue.extend((0..links).map(|i| (rest, Publish(i))));
    prologue.extend(readers.iter().map(|&hand| (hand, Register)));
    prologue.extend(more);
    let prologue = prologue
        .into_iter()
        .map(|(hand, step)| (hand, Step::Defer(step)));
    Scenario {
        prologue: prologue.chain(scenario.prologue).collect(),
        threads: scenario.threads,
    }
}

fn steps(list: &[Deferring]) -> Vec<Step> {
    list.iter().map(|&step| Step::Defer(step)).collect()
}

fn with_two(first: &[Deferring], second: &[Deferring]) -> Scenario {
    two(&[], &steps(first), &steps(second))
}

fn with_three(threads: [&[Deferring]; 3]) -> Scenario {
    let [a, b, c] = threads.map(steps);
    three(&[], [&a, &b, &c])
}

pub(crate) fn defer() -> Vec<Entry> {
    let writer = [Unlink(0), Flush];
    let reads = [Find(0), Look, Pass, Find(0), Look];
    vec![
        entry(
            "defer: a reader passes",
            Some(2),
            after(&[1], 1, &[], with_two(&writer, &reads)),
        ),
        entry(
            "defer: a reader comes late",
            Some(2),
            after(
                &[],
                1,
                &[],
                with_two(&writer, &[Register, Find(0), Look, Unregister]),
            ),
        ),
        entry(
            "defer: a reader that was offline comes back",
            Some(2),
            after(
                &[1],
                1,
                &[(1, Leave)],
                with_two(&writer, &[Return, Find(0), Look, Leave]),
            ),
        ),
        entry(
            "defer: another frees while a reader comes late",
            Some(1),
            after(
                &[],
                1,
                &[],
                with_three([&writer, &[Register, Find(0), Look], &[Flush]]),
            ),
        ),
        entry(
            "defer: a reader goes at a safepoint",
            Some(2),
            after(
                &[1],
                1,
                &[],
                with_two(&[Unlink(0), Safepoint], &[Leave, Return, Unregister]),
            ),
        ),
    ]
}
