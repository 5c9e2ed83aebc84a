//! Counts the heap of a program that stands still.
//!
//! The allocator counts when a thread is in one of its slow paths. A program that sleeps is not, so what it took or freed in
//! its last moments is not in the profile file. Then its records are read here, in its memory, and counted as the library
//! does (`src/observe/statistics.c`, `residency.c`). That takes the right of a debugger; without it the old count stays.

mod count;
pub mod heaps;
mod memory;
mod records;

use std::fs::File;

use crate::bytes::read_one;
use crate::integrity;
use crate::layout::{self, Records};
use crate::process;
use crate::profile::Profile;
use crate::snapshot::Reading;

use count::Count;
use memory::Memory;
use records::Heap;

/// A younger count is of this moment. A program that works is counted again after 100 ms, or a thousand times what it cost.
const FRESH_NS: u64 = 50_000_000;

/// Puts a count of this moment in the place of an old one, if that can be had.
pub fn bring_up_to_date(profile: &mut Profile, file: &File, reading: &Reading) {
    let Some(statistics) = &profile.statistics else {
        return;
    };
    let age = reading.monotonic_ns.saturating_sub(statistics.taken_ns);
    if age < FRESH_NS || statistics.rows as usize != records::CLASSES {
        return;
    }
    let Ok(map) = read_one::<Records>(file, layout::RECORDS_OFFSET) else {
        return;
    };
    let known = map.version == layout::RECORDS_VERSION && map.check == integrity::of_records(&map);
    if !known || profile.header.window_begin == 0 {
        return;
    }
    let Some(memory) = Memory::open(reading.pid) else {
        return;
    };
    let heap = Heap::open(&memory, &map, profile.header.window_begin);
    let Some(count) = heap.and_then(|heap| Count::of(&heap, statistics)) else {
        return;
    };
    let mut now = count.statistics;
    now.taken_ns = reading.monotonic_ns;
    if let Some(resident) = process::resident(reading.pid) {
        now.resident_bytes = resident;
    }
    now.check = integrity::of_statistics(&now);
    profile.statistics = Some(now);
    profile.absent = Some(count.absent);
}
