//! A raw recording, `recorder/raw.h`, copied out of the shared mapping block by block.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

pub const RECORD: usize = 24;
pub const BLOCK_HEADER: usize = 64;
pub const BLOCK: usize = 65536;

#[derive(Debug, Clone, Copy)]
pub struct RawRecord {
    pub thread: u32,
    pub ticks: u64,
    pub op: u8,
    pub align: u8,
    pub address: u64,
    pub size: u64,
}

/// Calls of the allocator that were timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timed {
    pub calls: u64,
    /// Ticks of the short ones.
    pub ticks: u64,
    /// CPU time of the long ones.
    pub nanoseconds: u64,
}

/// The blocks of one process, in any order.
pub struct RawRecording<'a> {
    /// By thread, then by the number that the process gave the block.
    threads: BTreeMap<u32, BTreeMap<u64, &'a [u8]>>,
    pub records: u64,
    pub timed: Timed,
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

impl<'a> RawRecording<'a> {
    /// `bytes` is whole blocks; what is beyond the last whole one is left out.
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut threads: BTreeMap<u32, BTreeMap<u64, &[u8]>> = BTreeMap::new();
        let (mut records, mut timed) = (0, Timed::default());
        for block in bytes.chunks_exact(BLOCK) {
            let thread = u64_at(block, 0) as u32;
            let count = ((u64_at(block, 0) >> 32) as usize).min((BLOCK - BLOCK_HEADER) / RECORD);
            records += count as u64;
            timed.calls += u64_at(block, 16);
            timed.ticks += u64_at(block, 24);
            timed.nanoseconds += u64_at(block, 32);
            let body = &block[BLOCK_HEADER..BLOCK_HEADER + count * RECORD];
            threads
                .entry(thread)
                .or_default()
                .insert(u64_at(block, 8), body);
        }
        Self {
            threads,
            records,
            timed,
        }
    }

    /// All records in the order of their stamps; those of one thread stay in the thread's order.
    pub fn ordered(&self) -> RawOrder<'a> {
        let mut order = RawOrder {
            heads: BinaryHeap::new(),
            rest: self
                .threads
                .iter()
                .map(|(thread, blocks)| Stream {
                    thread: *thread,
                    blocks: blocks.values().copied().collect(),
                    block: 0,
                    at: 0,
                })
                .collect(),
        };
        for index in 0..order.rest.len() {
            order.advance(index, 0);
        }
        order
    }
}

struct Stream<'a> {
    thread: u32,
    blocks: Vec<&'a [u8]>,
    block: usize,
    at: usize,
}

pub struct RawOrder<'a> {
    /// Ticks, and the stream whose next record has them.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    rest: Vec<Stream<'a>>,
}

impl RawOrder<'_> {
    fn advance(&mut self, index: usize, least: u64) {
        let stream = &mut self.rest[index];
        while let Some(block) = stream.blocks.get(stream.block) {
            if stream.at < block.len() {
                // A thread that moved to a CPU whose counter is behind keeps its own order.
                let ticks = u64_at(block, stream.at).max(least);
                self.heads.push(Reverse((ticks, index)));
                return;
            }
            stream.block += 1;
            stream.at = 0;
        }
    }
}

impl Iterator for RawOrder<'_> {
    type Item = RawRecord;

    fn next(&mut self) -> Option<RawRecord> {
        let Reverse((ticks, index)) = self.heads.pop()?;
        let stream = &mut self.rest[index];
        let record = &stream.blocks[stream.block][stream.at..stream.at + RECORD];
        let word = u64_at(record, 8);
        let found = RawRecord {
            thread: stream.thread,
            ticks,
            op: (word >> 56) as u8,
            align: (word >> 48) as u8 & 63,
            address: word & 0xFFFF_FFFF_FFFF,
            size: u64_at(record, 16),
        };
        stream.at += RECORD;
        self.advance(index, ticks);
        Some(found)
    }
}
