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
    threads: HashMap<u32, u32>,
    free_slots: Vec<Vec<u32>>,
    /// Of each thread, the slot whose block it is resizing, and that block's address.
    resizing: HashMap<u32, Option<(u32, u64)>>,
    pub losses: Losses,
}

impl Compiler {
    /// The operations of one record, given to `out`; `time` is its stamp in nanoseconds.
    pub fn add(&mut self, record: &RawRecord, time: u64, out: &mut impl FnMut(Op)) {
        let op = Op {
            kind: Kind::Malloc,
            thread: self.thread(record.thread),
            time,
            slot: 0,
            size: record.size,
            align: record.align,
        };
        match record.op {
            1 => self.allocate(
                record,
                Op {
                    kind: Kind::Malloc,
                    ..op
                },
                out,
            ),
            2 => self.allocate(
                record,
                Op {
                    kind: Kind::Calloc,
                    ..op
                },
                out,
            ),
            5 => self.allocate(
                record,
                Op {
                    kind: Kind::Aligned,
                    ..op
                },
                out,
            ),
            8 => self.allocate(
                record,
                Op {
                    kind: Kind::New,
                    ..op
                },
                out,
            ),
            9 => self.allocate(
                record,
                Op {
                    kind: Kind::NewAligned,
                    ..op
                },
                out,
            ),
            6 => self.free(
                record,
                Op {
                    kind: Kind::Free,
                    ..op
                },
                out,
            ),
            7 => self.free(
                record,
                Op {
                    kind: Kind::FreeSized,
                    ..op
                },
                out,
            ),
            10 => self.free(
                record,
                Op {
                    kind: Kind::Delete,
                    ..op
                },
                out,
            ),
            11 => self.free(
                record,
                Op {
                    kind: Kind::DeleteSized,
                    ..op
                },
                out,
            ),
            3 => {
                let found = self.slots.remove(&record.address);
                let was = found.map(|slot| (slot, record.address));
                self.resizing.insert(record.thread, was);
            }
            4 => self.resize(record, op, out),
            12 => {
                let slot = self.thread(record.address as u32);
                out(Op {
                    kind: Kind::ThreadStart,
                    slot,
                    ..op
                });
            }
            13 => out(Op {
                kind: Kind::ThreadEnd,
                ..op
            }),
            14 => out(Op {
                kind: Kind::Trim,
                ..op
            }),
            15 => out(Op {
                kind: Kind::Fork,
                ..op
            }),
            _ => self.losses.lost += 1,
        }
    }

    fn thread(&mut self, raw: u32) -> u32 {
        let next = self.threads.len() as u32;
        let number = *self.threads.entry(raw).or_insert(next);
        if number as usize >= self.free_slots.len() {
            self.free_slots.resize(number as usize + 1, Vec::new());
        }
        number
    }

    fn allocate(&mut self, record: &RawRecord, op: Op, out: &mut impl FnMut(Op)) {
        if record.address == 0 {
            self.losses.failed += 1;
            return;
        }
        self.make_room(record, op, out);
        let slot = self.free_slots[op.thread as usize]
            .pop()
            .unwrap_or_else(|| {
                self.next_slot += 1;
                self.next_slot - 1
            });
        self.slots.insert(record.address, slot);
        out(Op { slot, ..op });
    }

    /// An address that is given out again although nobody released it: the release was lost.
    fn make_room(&mut self, record: &RawRecord, op: Op, out: &mut impl FnMut(Op)) {
        if let Some(slot) = self.slots.remove(&record.address) {
            self.losses.missed_frees += 1;
            self.release(
                slot,
                Op {
                    kind: Kind::Free,
                    size: 0,
                    align: 0,
                    ..op
                },
                out,
            );
        }
    }

    fn release(&mut self, slot: u32, op: Op, out: &mut impl FnMut(Op)) {
        self.free_slots[op.thread as usize].push(slot);
        out(Op { slot, ..op });
    }

    fn free(&mut self, record: &RawRecord, op: Op, out: &mut impl FnMut(Op)) {
        match self.slots.remove(&record.address) {
            Some(slot) => self.release(slot, op, out),
            None => self.losses.unknown_frees += 1,
        }
    }

    fn resize(&mut self, record: &RawRecord, op: Op, out: &mut impl FnMut(Op)) {
        match self.resizing.remove(&record.thread).flatten() {
            // Freed by a size of zero; any other refusal leaves the block as it was.
            Some((slot, _)) if record.address == 0 && record.size == 0 => {
                self.release(
                    slot,
                    Op {
                        kind: Kind::Free,
                        ..op
                    },
                    out,
                );
            }
            Some((slot, old)) if record.address == 0 => {
                self.losses.failed += 1;
                self.slots.insert(old, slot);
            }
            Some((slot, _)) => {
                self.make_room(record, op, out);
                self.slots.insert(record.address, slot);
                out(Op {
                    kind: Kind::Realloc,
                    slot,
                    ..op
                });
            }
            None if record.address == 0 => self.losses.unknown_frees += 1,
            None => {
                // The block is from before the recording; from here on it is known.
                self.losses.unknown_frees += 1;
                self.allocate(
                    record,
                    Op {
                        kind: Kind::Malloc,
                        ..op
                    },
                    out,
                );
            }
        }
    }
}
