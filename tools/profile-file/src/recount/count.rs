//! The sums, as `src/observe/statistics.c` and `residency.c` make them.

use super::records::{
    BINS, CHUNK, CHUNK_SLOTS, CLASSES, Chunk, EDGE, Heap, RUN, RUN_FIRST, SAMPLE_FIRST,
    SAMPLE_LAST, SLOT, SMALL_LAST, Slab, THREAD,
};
use crate::layout::{ClassUse, HUGE, Row, Statistics};
use crate::profile::Absent;

/// Pages of large blocks, whatever the system's are.
const PAGE: usize = 4096;
const SLOT_PAGES: usize = SLOT / PAGE;
/// The largest block that a magazine may hold.
const CACHED_MOST: usize = 1 << 20;
/// The row of large blocks that no class has.
const LARGE: usize = 0;

/// A count under way.
pub struct Count {
    pub statistics: Box<Statistics>,
    pub absent: Absent,
    cached: Vec<u64>,
    /// Bytes of blocks of each class that are not in memory, be they live or in a cache.
    out_of_memory: Vec<u64>,
}

/// How far a block that is counted by its pages may reach beyond the chunk that it begins in.
const BEYOND: usize = HUGE as usize + SLOT;

/// Which pages of a chunk, and of as much behind it as a block of it may reach, are in memory.
struct Pages {
    there: Vec<bool>,
    page: usize,
}

impl Pages {
    /// Bytes in memory of the whole pages between two places in the chunk.
    fn resident(&self, begin: usize, end: usize) -> u64 {
        let pages = begin.div_ceil(self.page)..self.clip(end) / self.page;
        let there = pages.filter(|&page| self.there[page]).count();
        (there * self.page) as u64
    }

    /// The same, and the end of the page that the last block before them ends in.
    fn resident_behind(&self, begin: usize, end: usize) -> u64 {
        let tail = begin.next_multiple_of(self.page).min(self.clip(end));
        let there = tail > begin && self.there[begin / self.page];
        (if there { (tail - begin) as u64 } else { 0 }) + self.resident(begin, end)
    }

    /// Bytes of the whole pages there that are not in memory, and of the page that they end in.
    fn absent(&self, begin: usize, end: usize) -> u64 {
        let (begin, end) = (begin.next_multiple_of(self.page), self.clip(end));
        let whole = end.saturating_sub(begin) / self.page * self.page;
        let last = end.saturating_sub(begin + whole);
        let last_is_there = last == 0 || self.there[end / self.page];
        whole as u64 - self.resident(begin, begin + whole)
            + if last_is_there { 0 } else { last as u64 }
    }

    /// Bytes from the beginning of the chunk on that are known here.
    fn bytes(&self) -> usize {
        self.there.len() * self.page
    }

    fn clip(&self, end: usize) -> usize {
        end.min(self.bytes())
    }
}

/// The class of a large block of 64 KiB to 1 MiB.
fn run_class(bytes: usize) -> usize {
    let top = (bytes - 1).ilog2() as usize;
    (top << 4) + ((bytes - 1) >> (top - 4)) - 159
}

/// Free bits below `made`, and the first block from `begin` on that is not free.
fn free_blocks(slab: &Slab, made: usize) -> u64 {
    let words = (0..made.div_ceil(64)).map(|word| u64::from(slab.free_word(word).count_ones()));
    words.sum::<u64>().min(made as u64)
}

impl Count {
    /// What is not counted here is as it was: limits, calls, the observer's own. None: not all could be read.
    pub fn of(heap: &Heap, before: &Statistics) -> Option<Self> {
        let mut statistics = Box::new(*before);
        let f = &mut *statistics;
        for sum in [
            &mut f.live_bytes,
            &mut f.live_blocks,
            &mut f.cached_bytes,
            &mut f.thread_cached_bytes,
            &mut f.free_bytes,
            &mut f.fresh_bytes,
            &mut f.purged_in_slabs_bytes,
            &mut f.dirty_bytes,
            &mut f.purged_bytes,
            &mut f.huge_bytes,
            &mut f.huge_blocks,
            &mut f.metadata_bytes,
            &mut f.chunks,
            &mut f.free_chunks,
            &mut f.resident_free_bytes,
            &mut f.resident_fresh_bytes,
            &mut f.absent_live_bytes,
            &mut f.absent_free_bytes,
            &mut f.absent_held_bytes,
            &mut f.absent_cached_bytes,
        ] {
            *sum = 0;
        }
        for row in &mut f.row {
            *row = Row {
                size: row.size,
                class_use: row.class_use,
                ..bytemuck::Zeroable::zeroed()
            };
        }
        f.measured = 1;
        let mut count = Self {
            statistics,
            absent: Absent::default(),
            cached: vec![0; BINS],
            out_of_memory: vec![0; CLASSES],
        };
        for number in 0..heap.chunks {
            if let Some(chunk) = heap.chunk(number)? {
                count.chunk(heap, number, &chunk)?;
            }
        }
        for (row, blocks) in count.cached.iter_mut().zip(heap.in_depots()?) {
            *row += blocks;
        }
        count.settle();
        count.sum();
        Some(count)
    }

    fn row(&mut self, class: usize) -> &mut Row {
        &mut self.statistics.row[class]
    }

    fn chunk(&mut self, heap: &Heap, number: usize, chunk: &Chunk) -> Option<()> {
        let first = number * CHUNK_SLOTS;
        let own = heap.first_own(chunk, number)? - first;
        let f = &mut *self.statistics;
        let bytes = |slots: u64| u64::from(slots.count_ones()) * SLOT as u64;
        f.chunks += 1;
        f.dirty_bytes += bytes(chunk.free & chunk.dirty);
        f.purged_bytes += bytes(chunk.free & !chunk.dirty);
        f.free_chunks += u64::from(chunk.free == u64::MAX);
        f.metadata_bytes += 64;
        if own < CHUNK_SLOTS {
            let used = u64::from((chunk.used | !chunk.free).count_ones());
            f.metadata_bytes += heap.hints_bytes() + used * (72 * 8 + 1);
        } else {
            return Some(());
        }
        let pages = Pages {
            there: heap.memory.resident(heap.address(first), CHUNK + BEYOND)?,
            page: heap.memory.page,
        };
        let words = heap.slabs(first, CHUNK_SLOTS)?;
        let mut slot = own;
        while slot < CHUNK_SLOTS {
            let begin = slot * SLOT;
            if chunk.free >> slot & 1 != 0 {
                self.statistics.resident_free_bytes += pages.resident(begin, begin + SLOT);
                slot += 1;
                continue;
            }
            let slab = Slab(&words[slot * 72..][..72]);
            slot += self.slot(heap, &slab, first + slot, begin, &pages)?;
        }
        Some(())
    }

    /// What begins in a slot in use. How many slots that is.
    fn slot(
        &mut self,
        heap: &Heap,
        slab: &Slab,
        slot: usize,
        begin: usize,
        pages: &Pages,
    ) -> Option<usize> {
        match slab.class() {
            Some(EDGE) => {
                self.large(slab, begin, pages);
                self.gap(slab, begin, pages);
                self.row(EDGE).slots += own_slots(slab).max(1) as u64;
                Some(1)
            }
            Some(RUN) => {
                self.large(slab, begin, pages);
                self.row(EDGE).slots += own_slots(slab) as u64;
                let slots = slab.run_slots();
                if let Some((_, used)) = slab.large() {
                    let (from, to) = (begin + used, begin + slots * SLOT);
                    // A long block ends far behind what was read of its chunk, and the room to grow behind it is as
                    // much as half of it.
                    let far = from.max(pages.bytes())..to;
                    self.statistics.resident_fresh_bytes +=
                        pages.resident_behind(from, to) + heap.resident(slot, begin, far)?;
                } else {
                    // The run that is kept for the next block of its length is free in all but name.
                    let all = begin..begin + slots * SLOT;
                    self.statistics.dirty_bytes += all.len() as u64;
                    self.statistics.resident_free_bytes += heap.resident(slot, begin, all)?;
                }
                Some(slots)
            }
            Some(class) if class < CLASSES && heap.classes[class].blocks > 0 => {
                self.slab(heap, slab, class, begin, pages);
                if class == THREAD {
                    self.threads(heap, slab, slot)?;
                }
                Some(heap.classes[class].slots.max(1))
            }
            _ => Some(1),
        }
    }

    fn large(&mut self, slab: &Slab, begin: usize, pages: &Pages) {
        let Some((first, used)) = slab.large() else {
            return;
        };
        let slots = (first + used).div_ceil(SLOT);
        let cacheable = used > SLOT && used <= CACHED_MOST;
        let f = &mut *self.statistics;
        if !cacheable {
            f.fresh_bytes += (slots * SLOT).saturating_sub(used) as u64;
            if used > HUGE as usize {
                f.huge_blocks += 1;
                f.huge_bytes += used as u64;
                return;
            }
            f.live_bytes += used as u64;
        }
        let class = if cacheable { run_class(used) } else { LARGE };
        self.out_of_memory[class] += pages.absent(begin + first, begin + first + used);
        let row = self.row(class);
        row.slabs += 1;
        row.room += 1;
        row.made += 1;
        row.occupancy[3] += 1;
        if !cacheable {
            row.slots += slots as u64;
        }
    }

    /// The free pages of an edge.
    fn gap(&mut self, slab: &Slab, begin: usize, pages: &Pages) {
        let free = slab.free_word(0) & ((1 << SLOT_PAGES) - 1);
        let clean = slab.clean() & free;
        let fresh = (0..SLOT_PAGES).filter(|page| {
            clean >> page & 1 != 0 && pages.there[(begin + page * PAGE) / pages.page]
        });
        self.statistics.resident_fresh_bytes += (fresh.count() * PAGE) as u64;
        let row = self.row(EDGE);
        let dirty = u64::from((free & !clean).count_ones());
        row.slabs += 1;
        let used = SLOT_PAGES - free.count_ones() as usize;
        row.occupancy[used * 4 / (SLOT_PAGES + 1)] += 1;
        row.room += dirty;
        row.made += dirty;
        row.free += dirty;
    }

    fn slab(&mut self, heap: &Heap, slab: &Slab, class: usize, begin: usize, pages: &Pages) {
        let it = heap.classes[class];
        let made = slab.bump().min(it.blocks);
        let free = free_blocks(slab, made);
        let row = self.row(class);
        row.slabs += 1;
        row.slots += it.slots as u64;
        row.room += it.blocks as u64;
        row.made += made as u64;
        row.free += free;
        let quarter = (made - free as usize) * 4 / it.blocks;
        row.occupancy[quarter.min(3)] += 1;
        let f = &mut *self.statistics;
        if slab.is_borrowed() {
            let joined = (0..made.div_ceil(64)).map(|word| slab.free_word(32 + word).count_ones());
            // The rows count parts: the sum of them is added later.
            f.live_blocks = f.live_blocks.wrapping_sub(u64::from(joined.sum::<u32>()));
        }
        let end = begin + it.slots.max(1) * SLOT;
        f.resident_fresh_bytes += pages.resident_behind(begin + made * it.size, end);
        let samples = (SAMPLE_FIRST..=SAMPLE_LAST).contains(&class);
        if samples && it.size >= pages.page {
            for block in 0..made {
                let from = begin + block * it.size;
                let absent = it.size as u64 - pages.resident(from, from + it.size);
                *(if slab.is_free(block) {
                    &mut f.absent_free_bytes
                } else {
                    &mut f.absent_live_bytes
                }) += absent;
            }
        }
        let mut absent = pages.absent(begin, begin + made * it.size);
        if class <= SMALL_LAST && free > 0 {
            let missing = (missing(slab, it.size, made, begin, pages) * pages.page) as u64;
            f.purged_in_slabs_bytes += missing;
            absent = absent.saturating_sub(missing);
        }
        if !samples {
            self.out_of_memory[class] += absent;
        }
    }

    /// The caches in a slab of theirs.
    fn threads(&mut self, heap: &Heap, slab: &Slab, slot: usize) -> Option<()> {
        let it = heap.classes[THREAD];
        for block in (0..slab.bump().min(it.blocks)).filter(|&block| !slab.is_free(block)) {
            let address = heap.address(slot) + (block * it.size) as u64;
            let Some(cached) = heap.cached_by_thread(address)? else {
                continue;
            };
            for (class, blocks) in cached.into_iter().enumerate() {
                self.cached[class] += blocks;
                self.statistics.thread_cached_bytes += blocks * heap.classes[class].size as u64;
            }
        }
        Some(())
    }

    /// What is neither free nor in a cache, the program has.
    fn settle(&mut self) {
        for (class, row) in self.statistics.row.iter_mut().enumerate().take(CLASSES) {
            let out = row.made.saturating_sub(row.free);
            row.cached = self.cached.get(class).copied().unwrap_or(0).min(out);
            row.live = out - row.cached;
            // Which block of a slab is in a cache is not looked up: they are alike.
            let absent = self.out_of_memory[class];
            let live = (absent as f64 * row.live as f64 / out.max(1) as f64) as u64;
            if class == LARGE || matches!(row.class_use(), Some(ClassUse::Program)) {
                self.absent.live += live;
                self.absent.cached += absent - live;
            }
        }
    }

    fn sum(&mut self) {
        let f = &mut *self.statistics;
        let (mut room, mut live) = (0, 0);
        for row in &mut f.row[1..CLASSES] {
            match row.class_use() {
                Some(ClassUse::Own) => {
                    f.metadata_bytes += row.made * row.size;
                    continue;
                }
                Some(ClassUse::Samples) => row.sampled = row.live,
                _ => {}
            }
            f.live_blocks = f.live_blocks.wrapping_add(row.live);
            live += row.live * row.size;
            f.cached_bytes += row.cached * row.size;
            f.free_bytes += row.free * row.size;
            room += row.slots * SLOT as u64;
        }
        let counted = live + f.cached_bytes + f.free_bytes;
        f.fresh_bytes = (f.fresh_bytes + room).saturating_sub(counted);
        f.live_blocks = f.live_blocks.wrapping_add(f.row[LARGE].live);
        f.live_bytes += live;
        f.thread_cached_bytes = f.thread_cached_bytes.min(f.cached_bytes);
        f.mapped_bytes = f.chunks * CHUNK as u64;
        debug_assert!(run_class(SLOT + 1) == RUN_FIRST);
    }
}

/// Slots of a large block of a class that are its own, and the first one.
fn own_slots(slab: &Slab) -> usize {
    match slab.large() {
        Some((first, used)) if used <= CACHED_MOST => (first + used) / SLOT,
        _ => 0,
    }
}

/// Pages of a slab whose blocks are all free, and that are not in memory.
fn missing(slab: &Slab, size: usize, made: usize, begin: usize, pages: &Pages) -> usize {
    let whole = made * size / pages.page;
    (0..whole)
        .filter(|page| !pages.there[begin / pages.page + page])
        .filter(|page| {
            let (first, last) = (
                page * pages.page / size,
                ((page + 1) * pages.page - 1) / size,
            );
            last < made && (first..=last).all(|block| slab.is_free(block))
        })
        .count()
}
