//! Raw records become operations on slots.
//!
//! A slot is taken again only by the thread that emptied it, so in a replay no two threads race for one. A realloc keeps
//! its block's slot, whatever address came out.

use std::collections::HashMap;

use crate::op::{Kind, Losses, Op};
use crate::raw::RawRecord;

#[derive(Default)]
pub struct Compiler {
    slots: HashMap<u64, u32>,
    next_slot: u32,
    /// Numbered as their first operations come out: of a thread that only frees blocks from before the recording there are none.
    threads: HashMap<u32, u32>,
    /// By the raw number of the thread that emptied them.
    free_slots: HashMap<u32, Vec<u32>>,
    /// Of each thread, the slot whose block it is resizing, and that block's address.
    resizing: HashMap<u32, Option<(u32, u64)>>,
    pub losses: Losses,
}

impl Compiler {
    /// The operations of one record, given to `out`; `time` is its stamp in nanoseconds.
    pub fn add(&mut self, record: &RawRecord, time: u64, out: &mut impl FnMut(Op)) {
        // `put` gives the thread and `release` the slot.
        let op = |kind| Op {
            kind,
            thread: 0,
            time,
            slot: 0,
            size: record.size,
            align: record.align,
        };
        match record.op {
            1 => self.allocate(record, op(Kind::Malloc), out),
            2 => self.allocate(record, op(Kind::Calloc), out),
            5 => self.allocate(record, op(Kind::Aligned), out),
            8 => self.allocate(record, op(Kind::New), out),
            9 => self.allocate(record, op(Kind::NewAligned), out),
            6 => self.free(record, op(Kind::Free), out),
            7 => self.free(record, op(Kind::FreeSized), out),
            10 => self.free(record, op(Kind::Delete), out),
            11 => self.free(record, op(Kind::DeleteSized), out),
            3 => {
                let found = self.slots.remove(&record.address);
                let was = found.map(|slot| (slot, record.address));
                self.resizing.insert(record.thread, was);
            }
            4 => self.resize(record, op(Kind::Realloc), out),
            12 => {
                self.thread(record.thread); // whose number comes before the new one's
                let slot = self.thread(record.address as u32);
                let start = op(Kind::ThreadStart);
                self.put(record, Op { slot, ..start }, out);
            }
            13 => self.put(record, op(Kind::ThreadEnd), out),
            14 => self.put(record, op(Kind::Trim), out),
            15 => self.put(record, op(Kind::Fork), out),
            _ => self.losses.lost += 1,
        }
    }

    fn thread(&mut self, raw: u32) -> u32 {
        let next = self.threads.len() as u32;
        *self.threads.entry(raw).or_insert(next)
    }

    fn put(&mut self, record: &RawRecord, op: Op, out: &mut impl FnMut(Op)) {
        let thread = self.thread(record.thread);
        out(Op { thread, ..op });
    }

    fn allocate(&mut self, record: &RawRecord, op: Op, out: &mut impl FnMut(Op)) {
        if record.address == 0 {
            self.losses.failed += 1;
            return;
        }
        self.make_room(record, op, out);
        let emptied = self.free_slots.get_mut(&record.thread);
        let slot = emptied.and_then(Vec::pop).unwrap_or_else(|| {
            self.next_slot += 1;
            self.next_slot - 1
        });
        self.slots.insert(record.address, slot);
        self.put(record, Op { slot, ..op }, out);
    }

    /// An address that is given out again although nobody released it: the release was lost.
    fn make_room(&mut self, record: &RawRecord, op: Op, out: &mut impl FnMut(Op)) {
        if let Some(slot) = self.slots.remove(&record.address) {
            self.losses.missed_frees += 1;
            let free = Op {
                kind: Kind::Free,
                size: 0,
                align: 0,
                ..op
            };
            self.release(record, slot, free, out);
        }
    }

    fn release(&mut self, record: &RawRecord, slot: u32, op: Op, out: &mut impl FnMut(Op)) {
        self.free_slots.entry(record.thread).or_default().push(slot);
        self.put(record, Op { slot, ..op }, out);
    }

    fn free(&mut self, record: &RawRecord, op: Op, out: &mut impl FnMut(Op)) {
        match self.slots.remove(&record.address) {
            Some(slot) => self.release(record, slot, op, out),
            None => self.losses.unknown_frees += 1,
        }
    }

    fn resize(&mut self, record: &RawRecord, op: Op, out: &mut impl FnMut(Op)) {
        match self.resizing.remove(&record.thread).flatten() {
            // Freed by a size of zero; any other refusal leaves the block as it was.
            Some((slot, _)) if record.address == 0 && record.size == 0 => {
                let kind = Kind::Free;
                self.release(record, slot, Op { kind, ..op }, out);
            }
            Some((slot, old)) if record.address == 0 => {
                self.losses.failed += 1;
                self.slots.insert(old, slot);
            }
            Some((slot, _)) => {
                self.make_room(record, op, out);
                self.slots.insert(record.address, slot);
                self.put(record, Op { slot, ..op }, out);
            }
            None if record.address == 0 => self.losses.unknown_frees += 1,
            None => {
                // The block is from before the recording; from here on it is known.
                self.losses.unknown_frees += 1;
                let kind = Kind::Malloc;
                self.allocate(record, Op { kind, ..op }, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Checker;

    fn record(thread: u32, op: u8, address: u64) -> RawRecord {
        RawRecord {
            thread,
            ticks: 0,
            op,
            align: 0,
            address,
            size: 16,
        }
    }

    /// A free of a block from before, a refused call and the first half of a realloc come to nothing, and their threads have no
    /// number yet.
    #[test]
    fn threads_are_numbered_by_what_comes_out() {
        let mut compiler = Compiler::default();
        let mut ops = Vec::new();
        let raw = [
            record(7, 6, 0x10),
            record(8, 1, 0),
            record(9, 3, 0x20),
            record(5, 1, 0x30),
            record(7, 12, 6),
            record(6, 6, 0x30),
            record(6, 1, 0x40),
            record(9, 4, 0x50),
        ];
        for record in &raw {
            compiler.add(record, 0, &mut |op| ops.push(op));
        }
        let mut checker = Checker::default();
        for op in &ops {
            checker.check(op).unwrap();
        }
        let threads: Vec<u32> = ops.iter().map(|op| op.thread).collect();
        assert_eq!(threads, [0, 1, 2, 2, 3]);
        assert_eq!(checker.threads(), 4);
    }
}
