//! The memory of another process, as a debugger may read it. Nothing is stopped for it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::page_map::PageMap;
use crate::process;

/// The memory of a process, and which of its pages are there.
pub struct Memory {
    contents: File,
    pages: PageMap,
    pub page: usize,
}

impl Memory {
    /// None: only the process's owner may, and only where the machine lets one debug.
    pub fn open(pid: u64) -> Option<Self> {
        Self::open_or_say(pid).ok()
    }

    /// The same, with the reason.
    pub fn open_or_say(pid: u64) -> io::Result<Self> {
        let directory = process::directory(pid);
        Ok(Self {
            contents: File::open(directory.join("mem"))?,
            pages: PageMap::open(pid)?,
            page: rustix::param::page_size(),
        })
    }

    /// So many words from an address on.
    pub fn words(&self, address: u64, count: usize) -> Option<Vec<u64>> {
        self.words_or_say(address, count).ok()
    }

    /// The same, with the reason.
    pub fn words_or_say(&self, address: u64, count: usize) -> io::Result<Vec<u64>> {
        words(&self.contents, address, count)
    }

    pub fn word(&self, address: u64) -> Option<u64> {
        Some(self.words(address, 1)?[0])
    }

    /// Bytes of a range that are in memory.
    pub fn resident_bytes(&self, range: &Range<u64>) -> Option<u64> {
        self.pages.resident(range).ok()
    }

    /// Of each page from an address on: is it in memory?
    pub fn resident(&self, address: u64, bytes: usize) -> Option<Vec<bool>> {
        let (first, count) = (address / self.page as u64, bytes / self.page);
        let there = self.pages.pages(first, count as u64).ok()?;
        (there.len() == count).then_some(there)
    }
}

fn words(file: &File, offset: u64, count: usize) -> io::Result<Vec<u64>> {
    let mut words = vec![0u64; count];
    file.read_exact_at(bytemuck::cast_slice_mut(&mut words), offset)?;
    Ok(words)
}
