//! A raw recording, `recorder/raw.h`, copied out of the shared mapping block by block.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// What the lowest four bits of a word say, beside the calls.
const EVENT: u64 = 12;
const STAMP: u64 = 13;
const PREFIX: u64 = 14;
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

impl RawRecord {
    /// Of a call on a block, which has an address.
    pub fn is_block(&self) -> bool {
        u64::from(self.op) < EVENT && self.address != 0
    }
}

/// Calls of the allocator that were timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timed {
    pub calls: u64,
    /// Ticks of the short ones.
    pub ticks: u64,
    /// CPU time of the long ones.
    pub nanoseconds: u64,
    /// Of the short ones: ticks that timing nothing took.
    pub empty: u64,
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

fn words(body: &[u8]) -> impl Iterator<Item = u64> + '_ {
    body.chunks_exact(8).map(|word| u64_at(word, 0))
}

impl<'a> RawRecording<'a> {
    /// `bytes` is whole blocks; what is beyond the last whole one is left out.
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut threads: BTreeMap<u32, BTreeMap<u64, &[u8]>> = BTreeMap::new();
        let (mut records, mut timed) = (0, Timed::default());
        for block in bytes.chunks_exact(BLOCK) {
            let thread = u64_at(block, 0) as u32;
            let body = &block[BLOCK_HEADER..];
            records += words(body)
                .take_while(|word| *word != 0)
                .filter(|word| !matches!(word & 15, STAMP | PREFIX))
                .count() as u64;
            timed.calls += u64_at(block, 16);
            timed.ticks += u64_at(block, 24);
            timed.nanoseconds += u64_at(block, 32);
            timed.empty += u64_at(block, 40);
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
                    ticks: 0,
                    prefix: 0,
                })
                .collect(),
        };
        for index in 0..order.rest.len() {
            order.advance(index);
        }
        order
    }
}

struct Stream<'a> {
    thread: u32,
    blocks: Vec<&'a [u8]>,
    block: usize,
    at: usize,
    /// Of the last stamp.
    ticks: u64,
    /// Of the next word; 0 if it has none.
    prefix: u64,
}

impl Stream<'_> {
    /// Goes to the next record; false at the end.
    fn advance(&mut self) -> bool {
        while let Some(block) = self.blocks.get(self.block) {
            let word = block
                .get(self.at..self.at + 8)
                .map_or(0, |_| u64_at(block, self.at));
            match word & 15 {
                _ if word == 0 => {
                    self.block += 1;
                    self.at = 0;
                    self.prefix = 0;
                    continue;
                }
                // A thread that moved to a CPU whose counter is behind keeps its own order.
                STAMP => self.ticks = self.ticks.max(word >> 4),
                PREFIX => self.prefix = word,
                _ => return true,
            }
            self.at += 8;
        }
        false
    }

    /// The record that `advance` has found.
    fn take(&mut self) -> RawRecord {
        let word = u64_at(self.blocks[self.block], self.at);
        let prefix = std::mem::take(&mut self.prefix);
        self.at += 8;
        let mut record = RawRecord {
            thread: self.thread,
            ticks: self.ticks,
            op: (word & 15) as u8,
            align: (prefix >> 8) as u8 & 63,
            address: (word & 0xFFFF_FFFF_FFF0) | (prefix >> 4 & 15),
            size: (prefix >> 16 << 16) | word >> 48,
        };
        if word & 15 == EVENT {
            // Thread start and end, trim, fork: 12 to 15. The first has an address, and trim a size.
            record.op = 11 + (word >> 4 & 15) as u8;
            (record.address, record.size) = (word >> 8, word >> 8);
        }
        record
    }
}

pub struct RawOrder<'a> {
    /// Ticks, and the stream whose next record has them.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    rest: Vec<Stream<'a>>,
}

impl RawOrder<'_> {
    fn advance(&mut self, index: usize) {
        let stream = &mut self.rest[index];
        if stream.advance() {
            self.heads.push(Reverse((stream.ticks, index)));
        }
    }
}

impl Iterator for RawOrder<'_> {
    type Item = RawRecord;

    fn next(&mut self) -> Option<RawRecord> {
        let Reverse((_, index)) = self.heads.pop()?;
        let record = self.rest[index].take();
        self.advance(index);
        Some(record)
    }
}
