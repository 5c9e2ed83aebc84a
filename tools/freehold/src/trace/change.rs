//! Traces made from traces.

use std::collections::HashMap;

use trace_file::{Checker, Kind, Op, TraceError};

/// Slots and threads are dense in a file: new numbers in the order of their first mention.
#[derive(Default)]
struct Renumber {
    slots: HashMap<u32, u32>,
    threads: HashMap<u32, u32>,
}

impl Renumber {
    fn apply(&mut self, mut op: Op) -> Op {
        let of = |map: &mut HashMap<u32, u32>, old| {
            let next = map.len() as u32;
            *map.entry(old).or_insert(next)
        };
        op.thread = of(&mut self.threads, op.thread);
        if op.kind == Kind::ThreadStart {
            op.slot = of(&mut self.threads, op.slot);
        } else if op.kind.has_slot() {
            op.slot = of(&mut self.slots, op.slot);
        }
        op
    }
}

fn checked(check: &mut Checker, op: &Op, number: u64) -> Result<(), TraceError> {
    check.check(op).map_err(|what| TraceError::Bad {
        what: format!("operation {number}: {what}"),
        offset: 0,
    })
}

/// Operations `from` and the `count` that follow; what is live there is allocated first, by the thread that had it.
pub fn cut(
    ops: impl Iterator<Item = Result<Op, TraceError>>,
    from: u64,
    count: u64,
    out: &mut impl FnMut(Op) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let mut live: HashMap<u32, (u64, Op)> = HashMap::new();
    let (mut renumber, mut check) = (Renumber::default(), Checker::default());
    let (mut number, mut begin) = (0u64, None);
    for op in ops {
        let op = op?;
        checked(&mut check, &op, number)?;
        if number >= from {
            if number - from >= count {
                break;
            }
            if begin.is_none() {
                begin = Some(op.time);
                let mut first: Vec<_> = live.drain().collect();
                first.sort_by_key(|(_, (number, _))| *number);
                for (_, (_, op)) in first {
                    out(renumber.apply(Op { time: 0, ..op }))?;
                }
            }
            let time = op.time - begin.unwrap_or(0);
            out(renumber.apply(Op { time, ..op }))?;
        } else if op.kind.frees() {
            live.remove(&op.slot);
        } else if op.kind == Kind::Realloc {
            let born = live.get(&op.slot).map_or(number, |(born, _)| *born);
            let kind = Kind::Malloc;
            live.insert(op.slot, (born, Op { kind, ..op }));
        } else if op.kind.allocates() {
            live.insert(op.slot, (number, op));
        }
        number += 1;
    }
    Ok(())
}

/// Up to the next of eight steps between two powers of two; sizes up to 64 stay, because they say little.
fn rounded(size: u64) -> u64 {
    if size <= 64 {
        return size;
    }
    let step = 1u64 << (60 - size.leading_zeros());
    size.checked_next_multiple_of(step).unwrap_or(size)
}

pub fn anonymize(
    ops: impl Iterator<Item = Result<Op, TraceError>>,
    exact_sizes: bool,
    out: &mut impl FnMut(Op) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let mut check = Checker::default();
    for (number, op) in ops.enumerate() {
        let op = op?;
        checked(&mut check, &op, number as u64)?;
        let size = if exact_sizes {
            op.size
        } else {
            rounded(op.size)
        };
        out(Op {
            time: 0,
            size,
            ..op
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_eight_steps_a_doubling() {
        assert_eq!(
            [1, 64, 65, 72, 73, 1000].map(rounded),
            [1, 64, 72, 72, 80, 1024]
        );
        assert_eq!(rounded(u64::MAX), u64::MAX);
    }

    fn op(kind: Kind, slot: u32, size: u64) -> Result<Op, TraceError> {
        Ok(Op {
            kind,
            thread: 0,
            time: 7,
            slot,
            size,
            align: 0,
        })
    }

    #[test]
    fn a_cut_begins_with_what_was_live() {
        let ops = vec![
            op(Kind::Malloc, 0, 10),
            op(Kind::Malloc, 1, 20),
            op(Kind::Free, 0, 0),
            op(Kind::Realloc, 1, 30),
            op(Kind::Malloc, 0, 40),
            op(Kind::Free, 1, 0),
        ];
        let mut kept = Vec::new();
        cut(ops.into_iter(), 4, 2, &mut |op| {
            kept.push((op.kind, op.slot, op.size));
            Ok(())
        })
        .unwrap();
        let first = (Kind::Malloc, 0, 30);
        assert_eq!(kept, [first, (Kind::Malloc, 1, 40), (Kind::Free, 0, 0)]);
    }
}
