//! The heaps of a program (`freehold/heap.h`), read in its memory: the structures of `src/heap/types.h`, whose offsets
//! `src/observe/records.c` asserts.
//!
//! Nothing is stopped, and the program does nothing for it. A word in each slot leads to what the slot is of: a heap, or an
//! extent, which says whose it is. No list is followed, so a heap that comes or goes meanwhile leads nowhere. What was read of
//! one that is not the same afterwards is dropped.

use std::collections::HashMap;
use std::fs::File;

use super::memory::Memory;
use super::records::{CHUNK, CHUNK_SLOTS, Heap as Records, SLOT};
use crate::bytes::read_one;
use crate::error::HeapsError;
use crate::heaps::{Figures, Heap, Heaps, Share};
use crate::integrity;
use crate::layout;
use crate::snapshot::Snapshot;

/// More are counted, and left out.
const HEAPS_MOST: usize = 1 << 16;

/// Words of a slot's record, and the one that leads to a heap.
const SLAB_WORDS: usize = 72;
const SLAB_HEAP: usize = 67;

/// What `fh_owned.kind` says.
const UNITS: u64 = 1;
const EXTENT: u64 = 2;
const LARGE: u64 = 3;
const STRIPES: u64 = 5;
const BOUNDED: u64 = 6;

/// Words of a heap's header.
const HEADER: usize = 512;
const PARENT: usize = 4;
const FLAGS: usize = 5;
const IS_BOUNDED: u64 = 128;
const CHARGED: usize = 8;
const PEAK: usize = 9;
const SOFT: usize = 10;
const HARD: usize = 11;
const REFUSALS: usize = 14;
const NUMBER: usize = 19;
const SEGMENT: usize = 22;
const GIVEN: usize = 24;
const GIVEN_BYTES: usize = 25;
const NAME: usize = 26;
const NAME_WORDS: usize = 6;
const FIRST: usize = 96;
const LAST: usize = 160;
const UNIT_WORDS: usize = 64;
const UNIT: u64 = 16;
/// More words of bits than given memory can have.
const GIVEN_MOST: u64 = 1 << 28;

/// Words of an extent's header, before the bits of its free blocks.
const EXTENT_HEADER: usize = 12;
const EXTENT_BEGIN: usize = 8;
const EXTENT_OUT: usize = 9;
const CLASS_LAST: usize = 112;
/// Words of the header of a bounded heap's memory, and of the record of each of its slabs; what a slab's state says.
const BOUNDED_HEADER: usize = 7;
const BOUNDED_SLAB: usize = 72;
const BOUNDED_SLABS_MOST: u64 = 1 << 18;
const KIND_RUN: u64 = 254;
const NODE_BYTES: usize = 48;

/// The heaps of the program that a snapshot is of.
pub fn read(snapshot: &Snapshot, file: &File) -> Result<Heaps, HeapsError> {
    let pid = snapshot.reading.pid;
    if !snapshot.is_alive() {
        return Err(HeapsError::Gone);
    }
    let header = &snapshot.profile.header;
    let map: layout::Records =
        read_one(file, layout::RECORDS_OFFSET).map_err(|_| HeapsError::NotYet)?;
    if header.window_begin == 0 || map.version == 0 {
        return Err(HeapsError::NotYet);
    }
    let known = map.version == layout::RECORDS_VERSION
        && map.heaps_version == layout::HEAPS_VERSION
        && map.check == integrity::of_records(&map);
    if !known {
        return Err(HeapsError::OtherLibrary);
    }
    let memory =
        Memory::open_or_say(pid).map_err(|reason| HeapsError::Forbidden { pid, reason })?;
    let count = memory
        .words_or_say(map.heaps, 1)
        .map_err(|reason| HeapsError::Forbidden { pid, reason })?[0];
    if count == 0 {
        return Ok(Heaps::default());
    }
    let records = Records::open(&memory, &map, header.window_begin).ok_or(HeapsError::Moving)?;
    let mut walk = Walk {
        records: &records,
        found: Vec::new(),
        grown: HashMap::new(),
        share: Share::default(),
        left_out: 0,
    };
    for number in 0..records.chunks {
        walk.chunk(number).ok_or(HeapsError::Moving)?;
    }
    let mut heaps = walk.finish();
    heaps.estimate_requests(snapshot);
    Ok(heaps)
}

struct Walk<'a> {
    records: &'a Records<'a>,
    found: Vec<Heap>,
    /// What the slots beyond the first one have, by the heap's address.
    grown: HashMap<u64, Figures>,
    share: Share,
    left_out: u64,
}

/// What some slots of a heap have, with the blocks that their nodes lead to.
#[derive(Default)]
struct Part {
    figures: Figures,
    share: Share,
}

impl Part {
    fn of_slots(bytes: u64, figures: Figures) -> Part {
        let share = Share {
            slots: bytes,
            slots_there: figures.resident,
            live: figures.live.min(figures.resident),
            ..Share::default()
        };
        Part { figures, share }
    }

    fn add_block(&mut self, bytes: u64, resident: u64) {
        self.figures += Figures {
            resident,
            live: bytes,
            blocks: 1,
        };
        if bytes > u64::from(layout::HUGE) {
            self.share.huge += bytes;
            self.share.huge_there += resident;
        } else {
            self.share.slots += bytes;
            self.share.slots_there += resident;
        }
        self.share.live += bytes.min(resident);
    }
}

/// Bytes in memory of a range that begins at a page.
fn resident(memory: &Memory, address: u64, bytes: usize) -> u64 {
    let pages = memory.resident(address, bytes).unwrap_or_default();
    (pages.iter().filter(|there| **there).count() * memory.page) as u64
}

/// Blocks that `first` and `last` show, and their bytes, 64 units a word. `long`: one may end in a later word.
fn units(first: &[u64], last: &[u64], long: bool) -> (u64, u64) {
    let (mut blocks, mut bytes) = (0, 0);
    for (word, &begins) in first.iter().enumerate() {
        let mut left = begins;
        while left != 0 {
            let at = left.trailing_zeros();
            left &= left - 1;
            let here = last[word] >> at << at;
            let end = if here != 0 {
                Some(word * 64 + here.trailing_zeros() as usize)
            } else if !long {
                None
            } else {
                let later = last[word + 1..].iter().position(|ends| *ends != 0);
                later.map(|more| {
                    let word = word + 1 + more;
                    word * 64 + last[word].trailing_zeros() as usize
                })
            };
            if let Some(end) = end {
                blocks += 1;
                bytes += (end - (word * 64 + at as usize) + 1) as u64 * UNIT;
            }
        }
    }
    (blocks, bytes)
}

fn name_of(words: &[u64]) -> String {
    layout::text(bytemuck::cast_slice(words))
}

impl Walk<'_> {
    /// None: the records cannot be read.
    fn chunk(&mut self, number: usize) -> Option<()> {
        let Some(chunk) = self.records.chunk(number)? else {
            return Some(());
        };
        if chunk.free == u64::MAX {
            return Some(());
        }
        let first = number * CHUNK_SLOTS;
        let words = self.records.slabs(first, CHUNK_SLOTS)?;
        for slot in 0..CHUNK_SLOTS {
            let leads_to = words[slot * SLAB_WORDS + SLAB_HEAP];
            let address = self.records.address(first + slot);
            // Later slots of an extent, and large blocks, lead elsewhere.
            if chunk.free >> slot & 1 == 0 && leads_to == address {
                self.slot(first + slot, address);
            }
        }
        Some(())
    }

    /// True if the slot leads to that address still.
    fn is_still(&self, slot: usize, address: u64) -> bool {
        let words = self.records.slabs(slot, 1);
        words.is_some_and(|words| words[SLAB_HEAP] == address)
    }

    fn slot(&mut self, slot: usize, address: u64) {
        let owned = self.records.memory.words(address, 2);
        match owned.as_deref() {
            Some([heap, UNITS]) if *heap == address => self.heap(slot, address),
            Some([heap, EXTENT]) => {
                let heap = *heap;
                let part = self.extent(address);
                if let Some(part) = part.filter(|_| self.is_still(slot, address)) {
                    *self.grown.entry(heap).or_default() += part.figures;
                    self.share += part.share;
                }
            }
            Some([heap, BOUNDED]) => {
                let heap = *heap;
                let part = self.bounded(address);
                if let Some(part) = part.filter(|_| self.is_still(slot, address)) {
                    *self.grown.entry(heap).or_default() += part.figures;
                    self.share += part.share;
                }
            }
            Some([heap, STRIPES]) => {
                let figures = Figures {
                    resident: resident(self.records.memory, address, SLOT),
                    ..Figures::default()
                };
                if self.is_still(slot, address) {
                    *self.grown.entry(*heap).or_default() += figures;
                    self.share += Part::of_slots(SLOT as u64, figures).share;
                }
            }
            _ => {}
        }
    }

    fn heap(&mut self, slot: usize, address: u64) {
        if self.found.len() == HEAPS_MOST {
            self.left_out += 1;
            return;
        }
        let memory = self.records.memory;
        let Some(words) = memory.words(address, HEADER) else {
            return;
        };
        let (blocks, live) = units(
            &words[FIRST..FIRST + UNIT_WORDS],
            &words[LAST..LAST + UNIT_WORDS],
            false,
        );
        let mut own = Figures {
            resident: resident(memory, address, SLOT),
            live,
            blocks,
        };
        let share = Part::of_slots(SLOT as u64, own).share;
        if words[GIVEN] != 0 {
            own += self.given(words[GIVEN], words[GIVEN_BYTES]);
        }
        if self.is_still(slot, address) {
            self.share += share;
            self.found.push(Heap {
                address,
                parent_address: words[PARENT],
                name: name_of(&words[NAME..NAME + NAME_WORDS]),
                own,
                taken: words[CHARGED],
                peak: words[PEAK],
                soft_limit: words[SOFT],
                hard_limit: words[HARD],
                refusals: words[REFUSALS],
                number: words[NUMBER] as u32,
                has_frames: words[SEGMENT] != 0 || words[FLAGS] & IS_BOUNDED != 0,
                ..Heap::default()
            });
        }
    }

    /// The memory that the program gave to a heap: a header, and as many words of bits for free, first and last.
    fn given(&self, address: u64, bytes: u64) -> Figures {
        let memory = self.records.memory;
        let page = memory.page as u64;
        let begin = address - address % page;
        let whole = (address - begin)
            .saturating_add(bytes)
            .next_multiple_of(page);
        let mut figures = Figures {
            resident: resident(memory, begin, whole as usize),
            ..Figures::default()
        };
        let bits = memory.words(address, 7).and_then(|header| {
            let (words, first, last) = (header[3], header[5], header[6]);
            if words > GIVEN_MOST.min(bytes / 8) {
                return None;
            }
            let words = words as usize;
            Some((memory.words(first, words)?, memory.words(last, words)?))
        });
        if let Some((first, last)) = bits {
            (figures.blocks, figures.live) = units(&first, &last, true);
        }
        figures
    }

    fn extent(&self, address: u64) -> Option<Part> {
        let memory = self.records.memory;
        let header = memory.words(address, EXTENT_HEADER)?;
        let (class, list) = (header[3] as u32 as usize, header[3] >> 32);
        let (blocks, words) = (header[4] as u32 as usize, (header[4] >> 32) as usize);
        let retired = header[7] != 0;
        let class = *self
            .records
            .classes
            .get(class)
            .filter(|_| class <= CLASS_LAST)?;
        if blocks != class.blocks || words != blocks.div_ceil(64) || class.size == 0 {
            return None;
        }
        let bytes = class.slots.max(1) * SLOT;
        let mut figures = Figures {
            resident: resident(memory, address, bytes),
            ..Figures::default()
        };
        let part = |figures| Part::of_slots(bytes as u64, figures);
        if retired {
            return Some(part(figures));
        }
        let free = memory.words(address + 8 * EXTENT_HEADER as u64, words)?;
        // The first blocks are where the header is.
        let own = header[EXTENT_BEGIN] as usize;
        let live = (own..blocks).filter(|block| free[block / 64] >> (block % 64) & 1 == 0);
        if list != 0 {
            // A byte for each block, behind the bits.
            let at = header[EXTENT_OUT];
            if at % 8 != 0 || at >= bytes as u64 {
                return None;
            }
            let out = memory.words(address + at, blocks.div_ceil(8))?;
            let out: &[u8] = bytemuck::cast_slice(&out);
            figures.blocks = live.filter(|block| out[*block] == 1).count() as u64;
            figures.live = figures.blocks * class.size as u64;
            return Some(part(figures));
        }
        if class.size != NODE_BYTES {
            return None;
        }
        let mut part = part(figures);
        for block in live {
            // One by one: to read a page that was never touched gives it memory, which the next look would count.
            let node = memory.words(address + (block * NODE_BYTES) as u64, NODE_BYTES / 8)?;
            let [_, kind, at, bytes, ..] = node[..] else {
                return None;
            };
            if kind == LARGE && at != 0 && bytes < CHUNK as u64 * self.records.chunks as u64 {
                part.add_block(bytes, resident(memory, at, bytes as usize));
            }
        }
        Some(part)
    }

    /// What a bounded heap has: slabs, and behind them its header, which leads to a record for each.
    fn bounded(&self, address: u64) -> Option<Part> {
        let memory = self.records.memory;
        let header = memory.words(address, BOUNDED_HEADER)?;
        let (begin, slabs, records) = (header[2], header[3], header[6]);
        if slabs > BOUNDED_SLABS_MOST || begin + slabs * SLOT as u64 != address || records < address
        {
            return None;
        }
        let end = records + slabs * (BOUNDED_SLAB * 8) as u64;
        let bytes = end.next_multiple_of(SLOT as u64) - begin;
        let mut figures = Figures {
            resident: resident(memory, begin, bytes as usize),
            ..Figures::default()
        };
        for slab in 0..slabs {
            let at = records + slab * (BOUNDED_SLAB * 8) as u64;
            let words = memory.words(at, BOUNDED_SLAB)?;
            let (kind, length, free) = (words[0] >> 32 & 0xFF, words[0] >> 40, &words[2..66]);
            if kind == KIND_RUN && length != 0 && free[0] & 1 == 0 {
                figures.blocks += 1;
                figures.live += length * SLOT as u64;
            }
            let class = self.records.classes.get(kind as usize);
            let Some(class) =
                class.filter(|class| (1..=CLASS_LAST as u64).contains(&kind) && class.size != 0)
            else {
                continue;
            };
            let blocks = SLOT / class.size;
            let live = (0..blocks).filter(|block| free[block / 64] >> (block % 64) & 1 == 0);
            let live = live.count() as u64;
            figures.blocks += live;
            figures.live += live * class.size as u64;
        }
        let mut part = Part {
            figures,
            share: Share::default(),
        };
        if bytes > u64::from(layout::HUGE) {
            (part.share.huge, part.share.huge_there) = (bytes, figures.resident);
        } else {
            (part.share.slots, part.share.slots_there) = (bytes, figures.resident);
        }
        part.share.live = figures.live.min(figures.resident);
        Some(part)
    }

    fn finish(mut self) -> Heaps {
        for heap in &mut self.found {
            if let Some(grown) = self.grown.remove(&heap.address) {
                heap.own += grown;
            }
        }
        Heaps {
            share: self.share,
            ..Heaps::of(self.found, self.left_out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_units_are_counted_within_a_word_and_beyond() {
        // Units 0 and 1; unit 3; units 62 to 65.
        let first = [0b1001 | 1 << 62, 0];
        let last = [0b1010, 0b10];
        assert_eq!(units(&first, &last, true), (3, (2 + 1 + 4) * 16));
        assert_eq!(units(&first, &last, false), (2, (2 + 1) * 16));
    }

    #[test]
    fn a_block_whose_end_is_not_there_yet_is_not_counted() {
        assert_eq!(units(&[1, 0], &[0, 0], true), (0, 0));
    }
}
