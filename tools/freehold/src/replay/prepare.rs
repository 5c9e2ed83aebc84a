//! A trace as the replayer wants it: each thread's operations in a row, with the waits between them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use profile_file::output_file;
use trace_file::{Checker, Kind, Op, TraceError, Waits};

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// A thread waits only for what its blocks need: the fastest.
    Deps,
    /// At the times of the recording.
    Time,
    /// One operation after the other, in the order of the recording.
    Total,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Touch {
    /// Nothing is written into a block.
    None,
    /// One byte of each page.
    Pages,
    /// Every byte.
    All,
}

#[derive(Clone, Copy)]
pub struct How {
    pub order: Order,
    pub touch: Touch,
    pub verify: bool,
    pub latency: bool,
    /// 0, or what makes addresses the same in each run.
    pub seed: u64,
    /// How many points the curve of resident memory has, about, in total order.
    pub points: u64,
}

/// The replayer's own kinds: nothing to do, and waiting for another thread.
const NOTHING: u8 = Kind::ThreadEnd as u8;
const WAIT: u8 = 100;
const OPERATION: u64 = 24;
const HEADER: u64 = 56;
const PART: u64 = 24;
/// Points of the curve of resident memory, in total order.
pub const POINTS: u64 = 500;

#[derive(Default)]
struct Thread {
    bytes: Vec<u8>,
    started: bool,
    /// It had operations before anybody started it, or nobody did.
    itself: bool,
}

pub struct Prepared {
    threads: Vec<Thread>,
    slots: usize,
    operations: u64,
    pub waits: u64,
    pub pruned: u64,
}

fn put(thread: &mut Thread, kind: u8, op: &Op, slot: u32, size: u64, at: u64) {
    let out = &mut thread.bytes;
    out.extend([kind, op.align, 0, 0]);
    out.extend(slot.to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend(at.to_le_bytes());
}

pub fn prepare(
    ops: impl Iterator<Item = Result<Op, TraceError>>,
    order: Order,
) -> Result<Prepared> {
    let mut made = Prepared {
        threads: Vec::new(),
        slots: 0,
        operations: 0,
        waits: 0,
        pruned: 0,
    };
    let (mut check, mut waits) = (Checker::default(), Waits::default());
    for op in ops {
        let op = op?;
        let number = made.operations;
        check
            .check(&op)
            .map_err(|what| anyhow::anyhow!("operation {number}: {what}"))?;
        made.threads
            .resize_with(check.threads() as usize, Thread::default);
        let needed = waits.add(&op);
        made.add(&op, order, needed.into_iter().flatten());
    }
    made.slots = check.slots();
    made.pruned = waits.pruned;
    Ok(made)
}

impl Prepared {
    fn add(&mut self, op: &Op, order: Order, waits: impl Iterator<Item = trace_file::Wait>) {
        let mut kind = op.kind as u8;
        let at = if order == Order::Total {
            self.operations
        } else {
            op.time
        };
        let me = &mut self.threads[op.thread as usize];
        me.itself |= !me.started;
        if order != Order::Total {
            for wait in waits {
                self.waits += 1;
                put(me, WAIT, op, wait.thread, u64::from(wait.count), 0);
            }
        }
        if op.kind == Kind::ThreadStart {
            let child = &mut self.threads[op.slot as usize];
            if child.started || child.itself {
                kind = NOTHING;
            }
            child.started = true;
        }
        let me = &mut self.threads[op.thread as usize];
        put(me, kind, op, op.slot, op.size, at);
        self.operations += 1;
    }

    pub fn write(&self, path: &Path, how: How) -> Result<()> {
        output_file::replace(path, |file| self.fill(file, how))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn fill(&self, file: &File, how: How) -> io::Result<()> {
        let mut out = BufWriter::new(file);
        out.write_all(b"FHPREP1\n")?;
        let order = match how.order {
            Order::Deps => 0,
            Order::Total => 1,
            Order::Time => 2,
        };
        let small = [
            self.threads.len() as u32,
            self.slots as u32,
            order,
            how.touch as u32,
            u32::from(how.verify),
            u32::from(how.latency),
        ];
        for number in small {
            out.write_all(&number.to_le_bytes())?;
        }
        out.write_all(&self.operations.to_le_bytes())?;
        out.write_all(&(self.operations / how.points + 1).to_le_bytes())?;
        out.write_all(&how.seed.to_le_bytes())?;
        let mut offset = HEADER + PART * self.threads.len() as u64;
        for thread in &self.threads {
            let bytes = thread.bytes.len() as u64;
            for number in [offset, bytes / OPERATION, u64::from(thread.itself)] {
                out.write_all(&number.to_le_bytes())?;
            }
            offset += bytes;
        }
        for thread in &self.threads {
            out.write_all(&thread.bytes)?;
        }
        out.flush()
    }
}
