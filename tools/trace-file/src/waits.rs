//! Which thread must wait for which before an operation.
//!
//! The file holds one order of all operations. From it the waits are worked out, so no file can ask for a deadlock or
//! leave a wait out: each points at an operation that is earlier in that order.

use std::collections::HashMap;

use crate::op::{Kind, Op};

/// Thread `thread` must have done its first `count` operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    pub thread: u32,
    pub count: u32,
}

/// What a thread knows of the others: how many of each one's operations are done for certain.
type Clock = HashMap<u32, u32>;

/// Versions of a clock that are kept. An older one is not consulted: then a wait too many is kept, never one too few.
const KEPT: usize = 32;

#[derive(Default)]
struct Thread {
    done: u32,
    clock: Clock,
    /// The clock as it was from an operation on, oldest first.
    versions: Vec<(u32, Clock)>,
}

#[derive(Default)]
pub struct Waits {
    threads: Vec<Thread>,
    /// Of each slot, the last operation on it.
    last: Vec<Option<Wait>>,
    /// The start of a thread that has done nothing yet.
    starts: HashMap<u32, Wait>,
    pub pruned: u64,
}

impl Waits {
    /// The waits before `op`, at most two; operations come in the order of the file, and are valid.
    pub fn add(&mut self, op: &Op) -> [Option<Wait>; 2] {
        let me = op.thread as usize;
        if self.threads.len() <= me {
            self.threads.resize_with(me + 1, Thread::default);
        }
        let mut waits = [None, None];
        if let Some(start) = self.starts.remove(&op.thread) {
            waits[0] = self.needed(me, start);
        }
        self.threads[me].done += 1;
        let own = Wait {
            thread: op.thread,
            count: self.threads[me].done,
        };
        if op.kind == Kind::ThreadStart {
            self.starts.insert(op.slot, own);
        }
        if op.kind.has_slot() {
            let slot = op.slot as usize;
            if self.last.len() <= slot {
                self.last.resize(slot + 1, None);
            }
            if let Some(before) = self.last[slot].replace(own) {
                waits[1] = self.needed(me, before);
            }
        }
        waits
    }

    fn needed(&mut self, me: usize, wait: Wait) -> Option<Wait> {
        if wait.thread as usize == me {
            return None;
        }
        let known = self.threads[me].clock.get(&wait.thread).copied();
        if known.unwrap_or(0) >= wait.count {
            self.pruned += 1;
            return None;
        }
        let other = &self.threads[wait.thread as usize];
        let theirs = other
            .versions
            .iter()
            .rev()
            .find(|(from, _)| *from <= wait.count)
            .map(|(_, clock)| clock.clone())
            .unwrap_or_default();
        let done = self.threads[me].done;
        let mine = &mut self.threads[me];
        for (thread, count) in theirs {
            let entry = mine.clock.entry(thread).or_default();
            *entry = count.max(*entry);
        }
        mine.clock.insert(wait.thread, wait.count);
        if mine.versions.len() == KEPT {
            mine.versions.remove(0);
        }
        // Known from the operation that waits on: the one about to be done, or just counted.
        mine.versions.push((done + 1, mine.clock.clone()));
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(thread: u32, kind: Kind, slot: u32) -> Op {
        Op {
            kind,
            thread,
            time: 0,
            slot,
            size: 1,
            align: 0,
        }
    }

    #[test]
    fn a_wait_that_follows_from_others_is_left_out() {
        let mut waits = Waits::default();
        for slot in 0..3 {
            assert_eq!(waits.add(&op(0, Kind::Malloc, slot)), [None, None]);
        }
        let third = Some(Wait {
            thread: 0,
            count: 3,
        });
        assert_eq!(waits.add(&op(1, Kind::Free, 2)), [None, third]);
        // Known: thread 0 had done three operations.
        assert_eq!(waits.add(&op(1, Kind::Free, 0)), [None, None]);
        assert_eq!(waits.pruned, 1);
    }

    #[test]
    fn what_another_thread_knew_is_known_after_waiting_for_it() {
        let mut waits = Waits::default();
        waits.add(&op(0, Kind::Malloc, 0));
        waits.add(&op(0, Kind::Malloc, 1));
        waits.add(&op(1, Kind::Realloc, 1)); // waits for thread 0
        waits.add(&op(1, Kind::Malloc, 2));
        let wait = Some(Wait {
            thread: 1,
            count: 2,
        });
        assert_eq!(waits.add(&op(2, Kind::Free, 2)), [None, wait]);
        assert_eq!(waits.add(&op(2, Kind::Free, 0)), [None, None]);
    }

    #[test]
    fn a_thread_waits_for_its_start() {
        let mut waits = Waits::default();
        waits.add(&op(0, Kind::ThreadStart, 1));
        let start = Some(Wait {
            thread: 0,
            count: 1,
        });
        assert_eq!(waits.add(&op(1, Kind::Malloc, 0)), [start, None]);
    }
}
