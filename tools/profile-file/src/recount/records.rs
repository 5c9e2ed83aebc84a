//! The allocator's records in the memory of a program: the structures of `src/base/types.h`, by the offsets that the library
//! tells. `src/observe/records.c` asserts the numbers that are written here.

use std::ops::Range;

use super::memory::Memory;
use crate::layout::Records;

pub const SLOT: usize = 64 << 10;
pub const CHUNK_SLOTS: usize = 64;
pub const CHUNK: usize = CHUNK_SLOTS * SLOT;
const REGION_CHUNKS: usize = 64;
const PIECE_SLOTS: usize = 8 * CHUNK_SLOTS;
const CHUNK_RECORD: u64 = 64;
const SLAB_WORDS: usize = 72;
/// More chunks than a window has.
const MOST_CHUNKS: u64 = 1 << 18;

pub const SMALL_LAST: usize = 112;
pub const RUN_FIRST: usize = 113;
pub const BINS: usize = 177;
pub const THREAD: usize = 184;
pub const SAMPLE_FIRST: usize = 185;
pub const SAMPLE_LAST: usize = 195;
const BORROWED: usize = 196;
pub const EDGE: usize = 197;
pub const CLASSES: usize = 198;
pub const RUN: usize = 198;

/// Values of a thread cache's state that are not chance.
const STATES: [u64; 3] = [
    0x6668_2D6C_6976_6521,
    0x6668_2D70_6172_6B21,
    0x6668_2D62_7573_7921,
];
/// Blocks of the largest magazine.
const MAGAZINE_MOST: u64 = 510;

/// A size class.
#[derive(Clone, Copy)]
pub struct Class {
    pub size: usize,
    pub blocks: usize,
    pub slots: usize,
}

/// A chunk's words.
pub struct Chunk {
    pub free: u64,
    pub dirty: u64,
    pub used: u64,
    over: u64,
}

/// A slot's words.
pub struct Slab<'a>(pub &'a [u64]);

impl Slab<'_> {
    pub fn state(&self) -> u64 {
        self.0[0]
    }
    /// None of a free slot.
    pub fn kind(&self) -> Option<usize> {
        ((self.state() >> 32 & 0xFF) as usize).checked_sub(1)
    }
    pub fn is_borrowed(&self) -> bool {
        self.kind() == Some(BORROWED)
    }
    /// The class whose blocks it is divided into.
    pub fn class(&self) -> Option<usize> {
        match self.kind() {
            Some(BORROWED) => Some((self.state() >> 48 & 0xFF) as usize),
            kind => kind,
        }
    }
    pub fn bump(&self) -> usize {
        (self.state() >> 16 & 0xFFFF) as usize
    }
    pub fn run_slots(&self) -> usize {
        (self.state() as u32 as usize).max(1)
    }
    pub fn free_word(&self, word: usize) -> u64 {
        self.0[1 + word]
    }
    pub fn is_free(&self, block: usize) -> bool {
        self.free_word(block / 64) >> (block % 64) & 1 != 0
    }
    /// The large block that begins here: where in the slot, and its bytes.
    pub fn large(&self) -> Option<(usize, usize)> {
        let word = self.0[65];
        (word != 0).then_some(((word >> 32) as usize * 4096, (word as u32 as usize) * 4096))
    }
    pub fn clean(&self) -> u64 {
        self.0[66]
    }
}

/// The records, found by what the library tells.
pub struct Heap<'a> {
    pub memory: &'a Memory,
    map: &'a Records,
    pub base: u64,
    pub chunks: usize,
    pub classes: Vec<Class>,
}

impl<'a> Heap<'a> {
    pub fn open(memory: &'a Memory, map: &'a Records, base: u64) -> Option<Self> {
        let chunks = memory.word(map.chunks)?;
        let table = memory.words(map.classes, 2 * CLASSES)?;
        let classes = table.chunks_exact(2).map(|entry| Class {
            size: entry[0] as u32 as usize,
            blocks: (entry[0] >> 32 & 0xFFFF) as usize,
            slots: (entry[0] >> 48 & 0xFF) as usize,
        });
        (chunks <= MOST_CHUNKS).then(|| Self {
            memory,
            map,
            base,
            chunks: chunks as usize,
            classes: classes.collect(),
        })
    }

    pub fn address(&self, slot: usize) -> u64 {
        self.base + (slot * SLOT) as u64
    }

    /// Bytes in memory between two places of a chunk, or behind its end. `slot` begins at the place `begin`.
    pub fn resident(&self, slot: usize, begin: usize, places: Range<usize>) -> Option<u64> {
        if places.is_empty() {
            return Some(0);
        }
        let chunk = self.address(slot) - begin as u64;
        let range = chunk + places.start as u64..chunk + places.end as u64;
        self.memory.resident_bytes(&range)
    }

    /// The record of a region; 0: it has none.
    fn region(&self, chunk: usize) -> Option<u64> {
        let index = (chunk / REGION_CHUNKS) as u64;
        self.memory.word(self.map.regions + 8 * index)
    }

    /// The outer None: it cannot be read. The inner one: the chunk has no memory.
    pub fn chunk(&self, number: usize) -> Option<Option<Chunk>> {
        let region = self.region(number)?;
        if region == 0 {
            return Some(None);
        }
        let bit = number % REGION_CHUNKS;
        let lost = self.memory.word(region + self.map.region_lost)?
            | self.memory.word(region + self.map.region_foreign)?;
        if lost >> bit & 1 != 0 {
            return Some(None);
        }
        let record = region + self.map.region_chunk + CHUNK_RECORD * bit as u64;
        let words = self.memory.words(record, 5)?;
        Some(Some(Chunk {
            free: words[0],
            dirty: words[1],
            used: words[2],
            over: words[4],
        }))
    }

    /// The words of the slots from one on, in the same chunk.
    pub fn slabs(&self, slot: usize, count: usize) -> Option<Vec<u64>> {
        let index = (slot / PIECE_SLOTS) as u64;
        let piece = self.memory.word(self.map.pieces + 8 * index)?;
        let first = (slot % PIECE_SLOTS * SLAB_WORDS * 8) as u64;
        let address = piece.checked_add(self.map.pieces_slab + first)?;
        self.memory.words(address, count * SLAB_WORDS)
    }

    /// The first slot of the chunk that is not of a run that began before it.
    pub fn first_own(&self, chunk: &Chunk, number: usize) -> Option<usize> {
        let (first, end) = (number * CHUNK_SLOTS, (number + 1) * CHUNK_SLOTS);
        if chunk.over == 0 {
            return Some(first);
        }
        let head = chunk.over as usize - 1;
        let words = self.slabs(head, 1)?;
        let slab = Slab(&words);
        let slots = if slab.kind() == Some(RUN) {
            slab.run_slots()
        } else {
            0
        };
        let run_end = head + slots;
        Some(if run_end < first {
            first
        } else {
            run_end.min(end)
        })
    }

    pub fn hints_bytes(&self) -> u64 {
        self.map.hints_bytes
    }

    /// Blocks that the thread cache at an address has of each class; none: there is no thread's.
    pub fn cached_by_thread(&self, address: u64) -> Option<Option<Vec<u64>>> {
        let words = self
            .memory
            .words(address, self.map.thread_bytes as usize / 8)?;
        let at = |offset: u64| words.get(offset as usize / 8).copied().unwrap_or(0);
        if !STATES.contains(&at(self.map.thread_state)) {
            return Some(None);
        }
        let mut blocks = vec![0; BINS];
        for (class, blocks) in blocks.iter_mut().enumerate().skip(1) {
            let rack = self.map.thread_rack + self.map.rack_bytes * class as u64;
            let (loaded, previous) = (at(rack), at(rack + 8));
            let top = at(self.map.thread_bin + 16 * class as u64);
            if loaded != 0 {
                let count = top.wrapping_sub(loaded + 16) / 8;
                *blocks += if count <= MAGAZINE_MOST { count } else { 0 };
            }
            if previous != 0 {
                *blocks += self.in_magazine(previous)?;
            }
        }
        Some(Some(blocks))
    }

    fn in_magazine(&self, address: u64) -> Option<u64> {
        let count = self.memory.word(address)? >> 32;
        Some(if count <= MAGAZINE_MOST { count } else { 0 })
    }

    /// Blocks that the depots have of each class.
    pub fn in_depots(&self) -> Option<Vec<u64>> {
        let mut blocks = vec![0; BINS];
        for shard in 0..self.map.shards.min(64) {
            let begin = self.map.depots + shard * self.map.depot_bytes + self.map.depot_slot;
            let mut first = 0;
            for (class, blocks) in blocks.iter_mut().enumerate().skip(1) {
                let count = match class {
                    1 => 128,
                    2 => 64,
                    _ => 32,
                };
                for word in self.memory.words(begin + first, count)? {
                    if word != 0 && word & 1 == 0 {
                        *blocks += self.in_magazine(word)?;
                    }
                }
                first += 8 * count as u64;
            }
        }
        Some(blocks)
    }
}
