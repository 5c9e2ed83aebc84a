//! A trace as blocks that can be left out. What is left is a valid trace again.

use std::collections::HashMap;

use trace_file::{Kind, Op};

/// The operations of a trace, and to which life each belongs: to that of a block, from its allocation over its resizes to
/// its release; or to one of its own, as the start of a thread does.
pub struct Lives {
    ops: Vec<Op>,
    life: Vec<u32>,
    /// Of each life, its first operation.
    first: Vec<usize>,
}

/// The thread that an operation is about.
fn subject(op: &Op) -> u32 {
    if op.kind == Kind::ThreadStart {
        op.slot
    } else {
        op.thread
    }
}

impl Lives {
    /// The operations of a valid trace.
    pub fn new(ops: Vec<Op>) -> Self {
        let mut first = Vec::new();
        let mut of_slot: HashMap<u32, u32> = HashMap::new();
        let life = ops
            .iter()
            .enumerate()
            .map(|(number, op)| {
                let known = if op.kind.has_slot() && !op.kind.allocates() {
                    of_slot.get(&op.slot).copied()
                } else {
                    None
                };
                let life = known.unwrap_or_else(|| {
                    first.push(number);
                    first.len() as u32 - 1
                });
                if op.kind.allocates() {
                    of_slot.insert(op.slot, life);
                }
                life
            })
            .collect();
        Self { ops, life, first }
    }

    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    pub fn count(&self) -> usize {
        self.first.len()
    }

    /// Lives in groups by a property of their first operation; the groups come in the order of their first members.
    fn groups_by<K: std::hash::Hash + Eq>(&self, key: impl Fn(&Op) -> K) -> Vec<usize> {
        let mut numbers: HashMap<K, usize> = HashMap::new();
        let mut group = Vec::with_capacity(self.count());
        for first in &self.first {
            let next = numbers.len();
            group.push(*numbers.entry(key(&self.ops[*first])).or_insert(next));
        }
        group
    }

    /// Of each life its group: all that began in one thread.
    pub fn threads(&self) -> Vec<usize> {
        self.groups_by(subject)
    }

    /// All that began with one size.
    pub fn sizes(&self) -> Vec<usize> {
        self.groups_by(|op| {
            if op.kind.has_slot() {
                op.size
            } else {
                u64::MAX
            }
        })
    }

    /// Each life by itself, in the order in which they began.
    pub fn singles(&self) -> Vec<usize> {
        (0..self.count()).collect()
    }

    /// Only the lives that are kept.
    pub fn keep(&self, kept: impl Fn(usize) -> bool) -> Vec<Op> {
        let chosen: Vec<bool> = (0..self.count()).map(kept).collect();
        let left = || {
            let each = self.ops.iter().zip(&self.life);
            each.filter(|(_, life)| chosen[**life as usize])
                .map(|(op, _)| *op)
        };
        let threads = left().filter(|op| op.kind.has_slot()).map(|op| op.thread);
        let with_blocks: std::collections::HashSet<u32> = threads.collect();
        // Who has nothing left to do is not started, and starts no one.
        let needed = |op: &Op| {
            with_blocks.contains(&op.thread)
                && (op.kind != Kind::ThreadStart || with_blocks.contains(&op.slot))
        };
        dense(left().filter(needed))
    }

    /// The first operations. Blocks that are live then stay so to the end.
    pub fn head(&self, length: usize) -> Vec<Op> {
        dense(self.ops[..length].iter().copied())
    }

    /// The operations from this one on. What is live there is allocated first, with its size there.
    pub fn tail(&self, from: usize) -> Vec<Op> {
        let mut live: HashMap<u32, (usize, Op)> = HashMap::new();
        for (number, op) in self.ops[..from].iter().enumerate() {
            if op.kind.frees() {
                live.remove(&op.slot);
            } else if op.kind.allocates() {
                live.insert(op.slot, (number, *op));
            } else if let (Kind::Realloc, Some((_, first))) = (op.kind, live.get_mut(&op.slot)) {
                first.size = op.size;
            }
        }
        let mut first: Vec<(usize, Op)> = live.into_values().collect();
        first.sort_by_key(|(number, _)| *number);
        let time = self.ops.get(from).map_or(0, |op| op.time);
        let first = first.into_iter().map(|(_, op)| Op { time, ..op });
        dense(first.chain(self.ops[from..].iter().copied()))
    }
}

/// Threads in the order of their mention, times from the first operation on, and slots as the recorder gives them: one
/// is taken again only by the thread that emptied it.
fn dense(ops: impl Iterator<Item = Op>) -> Vec<Op> {
    let mut threads: HashMap<u32, u32> = HashMap::new();
    let mut slots: HashMap<u32, u32> = HashMap::new();
    let mut free: HashMap<u32, Vec<u32>> = HashMap::new();
    let (mut next, mut begin) = (0, None);
    let mut number = |old: u32| {
        let next = threads.len() as u32;
        *threads.entry(old).or_insert(next)
    };
    ops.map(|mut op| {
        op.time -= *begin.get_or_insert(op.time);
        op.thread = number(op.thread);
        if op.kind == Kind::ThreadStart {
            op.slot = number(op.slot);
        } else if op.kind.allocates() {
            let emptied = free.get_mut(&op.thread).and_then(Vec::pop);
            let slot = emptied.unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            slots.insert(op.slot, slot);
            op.slot = slot;
        } else if op.kind.frees() {
            let slot = slots.remove(&op.slot).unwrap_or_default();
            free.entry(op.thread).or_default().push(slot);
            op.slot = slot;
        } else if op.kind == Kind::Realloc {
            op.slot = slots.get(&op.slot).copied().unwrap_or_default();
        }
        op
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use trace_file::{Checker, tally};

    use super::*;

    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % limit as u64) as usize
        }
    }

    /// A valid trace of up to five threads, with everything in it that a trace may hold.
    fn made_up(random: &mut Random, count: usize) -> Vec<Op> {
        let (mut live, mut free, mut ops) = (Vec::new(), Vec::new(), Vec::new());
        let (mut slots, mut threads) = (0u32, 1u32);
        for time in 0..count as u64 {
            let op = |kind, thread, slot| Op {
                kind,
                thread,
                time: time * 3 + 5,
                slot,
                size: time % 700,
                align: 0,
            };
            let thread = random.below(threads as usize) as u32;
            ops.push(match random.below(40) {
                0 if threads < 5 => {
                    threads += 1;
                    op(Kind::ThreadStart, thread, threads - 1)
                }
                1 => op(Kind::ThreadEnd, thread, 0),
                2 => op(Kind::Trim, thread, 0),
                3..=8 if !live.is_empty() => {
                    op(Kind::Realloc, thread, live[random.below(live.len())])
                }
                9..=22 if !live.is_empty() => {
                    let slot = live.swap_remove(random.below(live.len()));
                    free.push(slot);
                    op(Kind::Free, thread, slot)
                }
                _ => {
                    let slot = free.pop().unwrap_or_else(|| {
                        slots += 1;
                        slots - 1
                    });
                    live.push(slot);
                    op(Kind::Malloc, thread, slot)
                }
            });
        }
        ops
    }

    /// The calls of each block, from its allocation on, in the order in which the blocks began.
    fn stories(ops: &[Op]) -> Vec<Vec<(Kind, u64)>> {
        let mut stories: Vec<Vec<(Kind, u64)>> = Vec::new();
        let mut of_slot = HashMap::new();
        for op in ops.iter().filter(|op| op.kind.has_slot()) {
            if op.kind.allocates() {
                of_slot.insert(op.slot, stories.len());
                stories.push(Vec::new());
            }
            stories[of_slot[&op.slot]].push((op.kind, op.size));
        }
        stories
    }

    fn assert_valid(ops: &[Op]) {
        let mut check = Checker::default();
        let mut emptied: HashMap<u32, u32> = HashMap::new();
        let mut time = 0;
        for op in ops {
            check.check(op).unwrap();
            assert!(op.time >= time);
            time = op.time;
            if op.kind.frees() {
                emptied.insert(op.slot, op.thread);
            } else if op.kind.allocates() {
                let before = emptied.remove(&op.slot).unwrap_or(op.thread);
                assert_eq!(before, op.thread, "a slot is taken by another thread");
            }
        }
        tally(ops.iter().map(|op| Ok(*op))).unwrap();
    }

    #[test]
    fn whatever_is_left_out_the_rest_is_a_trace() {
        let mut random = Random(3);
        for round in 0..300 {
            let count = 1 + random.below(300);
            let ops = made_up(&mut random, count);
            let lives = Lives::new(ops.clone());
            let whole = stories(&ops);
            let all = lives.keep(|_| true);
            assert_eq!(stories(&all), whole);

            // By each way of grouping, some groups.
            for groups in [lives.threads(), lives.sizes(), lives.singles()] {
                assert_eq!(groups.len(), lives.count());
                let kept: Vec<bool> = groups.iter().map(|_| random.below(3) != 0).collect();
                let left = lives.keep(|life| kept[groups[life]]);
                assert_valid(&left);
                let blocks = lives.first.iter().enumerate();
                let chosen: Vec<_> = blocks
                    .filter(|(_, first)| ops[**first].kind.has_slot())
                    .map(|(life, _)| kept[groups[life]])
                    .zip(&whole)
                    .filter(|(kept, _)| *kept)
                    .map(|(_, story)| story.clone())
                    .collect();
                assert_eq!(stories(&left), chosen, "round {round}");
            }

            let at = random.below(count + 1);
            let head = lives.head(at);
            assert_valid(&head);
            assert_eq!(head.len(), at);
            let tail = lives.tail(at);
            assert_valid(&tail);
            let sum = |ops: &[Op]| {
                let sum = tally(ops.iter().map(|op| Ok(*op))).unwrap();
                (sum.live_bytes, sum.live_blocks)
            };
            assert_eq!(sum(&tail), sum(&ops));
        }
    }
}
