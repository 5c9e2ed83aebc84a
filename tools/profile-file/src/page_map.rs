//! Which pages of a process are in memory, by `/proc/PID/pagemap`. No ptrace: its owner may read it.
//!
//! A page that was only read is the kernel's page of zeros. The file has it as present, and the kernel's sum of what is
//! resident does not. Since Linux 6.7 a scan tells these pages apart.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::ioctl::{Updater, ioctl, opcode};

use crate::process;

const PRESENT: u64 = 1 << 63;
const ENTRY: u64 = size_of::<u64>() as u64;
/// Pages that are looked at together.
const BATCH: u64 = 8192;

/// `struct page_region`: a range of pages that were sought.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_length: u64,
    max_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

/// Which pages a scan is to find: those that have each kind of `all_of`, where one of `inverted` stands for its opposite.
struct Wanted {
    inverted: u64,
    all_of: u64,
    returned: u64,
}

/// `PAGEMAP_SCAN`.
const SCAN: rustix::ioctl::Opcode = opcode::read_write::<Scan>(b'f', 16);
/// `PAGE_IS_PRESENT`.
const THERE: u64 = 1 << 3;
/// `PAGE_IS_PFNZERO`.
const ZERO: u64 = 1 << 5;

/// For each page of a process's address space, whether memory of its own is behind it.
pub struct PageMap {
    file: File,
    page: u64,
}

impl PageMap {
    pub fn open(pid: u64) -> io::Result<Self> {
        Ok(Self {
            file: File::open(process::directory(pid).join("pagemap"))?,
            page: rustix::param::page_size() as u64,
        })
    }

    /// Whether this kernel tells pages that were only read. Where it does not, they count as in memory.
    pub fn tells_zero_pages(&self) -> bool {
        self.clear_zero_pages(0, &mut [true]).is_ok()
    }

    /// Bytes of `range` whose pages are in memory; a page counts with the part of it that lies in the range.
    pub fn resident(&self, range: &Range<u64>) -> io::Result<u64> {
        // A scan passes over what has no page tables at once, so that a range may be long and nearly empty.
        self.resident_by_scan(range)
            .or_else(|_| self.resident_by_pages(range))
    }

    fn resident_by_scan(&self, range: &Range<u64>) -> io::Result<u64> {
        if range.is_empty() {
            return Ok(0);
        }
        let mut bytes = 0;
        let pages = range.start / self.page..range.end.div_ceil(self.page);
        let wanted = Wanted {
            inverted: ZERO,
            all_of: THERE | ZERO,
            returned: THERE,
        };
        self.scan(&pages, &wanted, |found| {
            let begin = (found.start * self.page).max(range.start);
            bytes += (found.end * self.page).min(range.end) - begin;
        })?;
        Ok(bytes)
    }

    fn resident_by_pages(&self, range: &Range<u64>) -> io::Result<u64> {
        let mut bytes = 0;
        let end = range.end.div_ceil(self.page);
        let mut first = range.start / self.page;
        while first < end {
            let there = self.pages(first, BATCH.min(end - first))?;
            if there.is_empty() {
                break;
            }
            for (page, _) in (first..).zip(&there).filter(|(_, there)| **there) {
                let begin = (page * self.page).max(range.start);
                bytes += ((page + 1) * self.page).min(range.end) - begin;
            }
            first += there.len() as u64;
        }
        Ok(bytes)
    }

    /// Of each page from a page's number on: is it in memory? Fewer than asked for where the address space ends.
    pub fn pages(&self, first: u64, count: u64) -> io::Result<Vec<bool>> {
        let mut entries = vec![0u64; usize::try_from(count).map_err(io::Error::other)?];
        let got = self
            .file
            .read_at(bytemuck::cast_slice_mut(&mut entries), first * ENTRY)?;
        entries.truncate(got / size_of::<u64>());
        let mut there: Vec<bool> = entries.iter().map(|entry| entry & PRESENT != 0).collect();
        if there.contains(&true) {
            // An older kernel, or a sandbox, refuses the scan: then nobody can tell them apart.
            let _ = self.clear_zero_pages(first, &mut there);
        }
        Ok(there)
    }

    /// Takes the pages of zeros out of those that are there.
    fn clear_zero_pages(&self, first: u64, there: &mut [bool]) -> io::Result<()> {
        let pages = first..first + there.len() as u64;
        let wanted = Wanted {
            inverted: 0,
            all_of: ZERO,
            returned: ZERO,
        };
        self.scan(&pages, &wanted, |found| {
            let index = |page: u64| page.saturating_sub(first).min(there.len() as u64) as usize;
            let found = index(found.start)..index(found.end);
            there[found].fill(false);
        })
    }

    /// Finds the pages of certain kinds, by their numbers. An older kernel, or a sandbox, refuses it.
    fn scan(
        &self,
        pages: &Range<u64>,
        wanted: &Wanted,
        mut found: impl FnMut(Range<u64>),
    ) -> io::Result<()> {
        let end = pages.end * self.page;
        let mut start = pages.start * self.page;
        while start < end {
            let mut regions = [Region::default(); 256];
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                flags: 0,
                start,
                end,
                walk_end: 0,
                regions: regions.as_mut_ptr() as u64,
                regions_length: regions.len() as u64,
                max_pages: 0,
                inverted: wanted.inverted,
                all_of: wanted.all_of,
                any_of: 0,
                returned: wanted.returned,
            };
            // SAFETY: the type is the kernel's for this number, and `regions` has as many elements as it is told, which
            // any bytes are valid for. Without flags the call only reads the process.
            unsafe { ioctl(&self.file, Updater::<SCAN, Scan>::new(&mut scan))? };
            // Those that the kernel did not fill have no end.
            for region in regions.iter().take_while(|region| region.end != 0) {
                found(region.start / self.page..region.end / self.page);
            }
            if scan.walk_end <= start {
                break;
            }
            start = scan.walk_end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::skip;

    /// Fresh memory from the kernel, in small pages, and where its first page is.
    fn fresh(pages: usize) -> (memmap2::MmapMut, usize) {
        let page = rustix::param::page_size();
        let map = memmap2::MmapMut::map_anon(pages * page).unwrap();
        map.advise(memmap2::Advice::NoHugePage).unwrap();
        (map, page)
    }

    #[test]
    fn pages_that_were_touched_are_there() {
        let (mut memory, page) = fresh(100);
        memory[50 * page..60 * page].fill(1);
        let map = PageMap::open(u64::from(std::process::id())).unwrap();
        let begin = memory.as_ptr() as u64;
        let size = page as u64;
        let all = begin..begin + 100 * size;
        assert_eq!(map.resident(&all).unwrap(), 10 * size);
        let middle = begin + 50 * size;
        assert_eq!(map.resident(&(middle + 100..middle + 300)).unwrap(), 200);
        assert_eq!(map.resident(&(begin..begin + 300)).unwrap(), 0);
        assert_eq!(map.resident(&(begin..begin)).unwrap(), 0);
        // Both ways of asking agree, also of a part of a page.
        for range in [
            all,
            middle + 100..middle + 300,
            middle - 5000..middle + 9000,
        ] {
            let by_pages = map.resident_by_pages(&range).unwrap();
            assert_eq!(map.resident(&range).unwrap(), by_pages, "{range:?}");
        }
    }

    #[test]
    fn pages_that_were_only_read_are_not() {
        let map = PageMap::open(u64::from(std::process::id())).unwrap();
        if !map.tells_zero_pages() {
            skip("this kernel does not tell pages that were only read");
            return;
        }
        // Every second page is read: more ranges than one call returns. Two of them are written as well.
        let (mut memory, page) = fresh(2000);
        let sum: u32 = (0..1000).map(|at| u32::from(memory[at * 2 * page])).sum();
        assert_eq!(sum, 0);
        memory[0] = 1;
        memory[1998 * page] = 1;
        let begin = memory.as_ptr() as u64;
        let first = begin / page as u64;
        let there = map.pages(first, 2000).unwrap();
        let found: Vec<usize> = (0..2000).filter(|&at| there[at]).collect();
        assert_eq!(found, [0, 1998]);
        let all = begin..begin + 2000 * page as u64;
        assert_eq!(map.resident(&all).unwrap(), 2 * page as u64);
        assert_eq!(map.resident_by_scan(&all).unwrap(), 2 * page as u64);
    }
}
