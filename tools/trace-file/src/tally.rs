//! What `freehold trace info` says of a trace.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::check::Checker;
use crate::error::TraceError;
use crate::op::{Kind, Op};

#[derive(Debug, Default, Serialize)]
pub struct Tally {
    pub ops: u64,
    pub threads: u32,
    pub nanoseconds: u64,
    /// By the name of the call.
    pub calls: BTreeMap<&'static str, u64>,
    pub allocations: u64,
    pub frees: u64,
    pub allocated_bytes: u64,
    pub peak_bytes: u64,
    /// The operation after which the most bytes were live.
    pub peak_op: u64,
    pub peak_blocks: u64,
    pub live_bytes: u64,
    pub live_blocks: u64,
    /// Blocks that another thread released or resized than the one that had them last.
    pub crossing: u64,
    pub slots: usize,
    /// Allocations by the power of two that holds their size: [size at most, number].
    pub sizes: BTreeMap<u64, u64>,
    /// Freed blocks by how many allocations came between: [at most, number].
    pub lifetimes: BTreeMap<u64, u64>,
}

#[derive(Default, Clone)]
struct Slot {
    size: u64,
    thread: u32,
    born: u64,
}

pub fn tally(ops: impl Iterator<Item = Result<Op, TraceError>>) -> Result<Tally, TraceError> {
    let mut sum = Tally::default();
    let mut check = Checker::default();
    let mut slots: Vec<Slot> = Vec::new();
    for op in ops {
        let op = op?;
        check.check(&op).map_err(|what| TraceError::Bad {
            what: format!("operation {}: {what}", sum.ops),
            offset: 0,
        })?;
        sum.ops += 1;
        sum.nanoseconds = op.time;
        *sum.calls.entry(op.kind.name()).or_default() += 1;
        if op.kind.has_slot() {
            slots.resize(check.slots(), Slot::default());
            count(&mut sum, &mut slots[op.slot as usize], &op).ok_or_else(|| TraceError::Bad {
                what: format!("operation {}: more than 2^64 bytes are live", sum.ops - 1),
                offset: 0,
            })?;
        }
    }
    sum.threads = check.threads();
    sum.slots = check.slots();
    Ok(sum)
}

/// None: more is live than a number can say.
fn count(sum: &mut Tally, slot: &mut Slot, op: &Op) -> Option<()> {
    let allocates = op.kind.allocates();
    if !allocates {
        sum.crossing += u64::from(slot.thread != op.thread);
        sum.live_bytes -= slot.size;
    }
    if op.kind.frees() {
        sum.frees += 1;
        sum.live_blocks -= 1;
        let age = sum.allocations - slot.born;
        *sum.lifetimes.entry(age.next_power_of_two()).or_default() += 1;
        return Some(());
    }
    if allocates {
        sum.allocations += 1;
        sum.live_blocks += 1;
        slot.born = sum.allocations;
    }
    if op.kind != Kind::Realloc || op.size > slot.size {
        let grown = op.size - if allocates { 0 } else { slot.size };
        sum.allocated_bytes = sum.allocated_bytes.saturating_add(grown);
    }
    let power = op.size.checked_next_power_of_two().unwrap_or(u64::MAX);
    *sum.sizes.entry(power).or_default() += 1;
    // Hostile sizes may exceed what fits: they are clipped to what an address space holds.
    slot.size = op.size.min(1 << 47);
    slot.thread = op.thread;
    sum.live_bytes = sum.live_bytes.checked_add(slot.size)?;
    sum.peak_blocks = sum.peak_blocks.max(sum.live_blocks);
    if sum.live_bytes > sum.peak_bytes {
        sum.peak_bytes = sum.live_bytes;
        sum.peak_op = sum.ops;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each is clipped to 2^47 bytes, and 2^17 of them are more than a number of 64 bits can say.
    #[test]
    fn more_than_a_number_can_say_is_refused() {
        let op = |slot| Op {
            kind: Kind::Malloc,
            thread: 0,
            time: 0,
            slot,
            size: 1 << 62,
            align: 0,
        };
        let of = |count: u32| tally((0..count).map(|slot| Ok(op(slot))));
        assert_eq!(
            of((1 << 17) - 1).unwrap().live_bytes,
            u64::MAX - (1 << 47) + 1
        );
        let refused = of(1 << 17).unwrap_err().to_string();
        assert!(refused.contains("operation 131071: more than"), "{refused}");
    }
}
