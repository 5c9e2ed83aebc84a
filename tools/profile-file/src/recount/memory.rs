//! The memory of another process, as a debugger may read it. Nothing is stopped for it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::process;

const PRESENT: u64 = 1 << 63;

/// The memory of a process, and which of its pages are there.
pub struct Memory {
    contents: File,
    pages: File,
    pub page: usize,
}

impl Memory {
    /// None: only the process's owner may, and only where the machine lets one debug.
    pub fn open(pid: u64) -> Option<Self> {
        let directory = process::directory(pid);
        Some(Self {
            contents: File::open(directory.join("mem")).ok()?,
            pages: File::open(directory.join("pagemap")).ok()?,
            page: rustix::param::page_size(),
        })
    }

    /// So many words from an address on.
    pub fn words(&self, address: u64, count: usize) -> Option<Vec<u64>> {
        words(&self.contents, address, count)
    }

    pub fn word(&self, address: u64) -> Option<u64> {
        Some(self.words(address, 1)?[0])
    }

    /// Of each page from an address on: is it in memory?
    pub fn resident(&self, address: u64, bytes: usize) -> Option<Vec<bool>> {
        let first = address / self.page as u64;
        let entries = words(&self.pages, first * 8, bytes / self.page)?;
        Some(entries.iter().map(|entry| entry & PRESENT != 0).collect())
    }
}

fn words(file: &File, offset: u64, count: usize) -> Option<Vec<u64>> {
    let mut words = vec![0u64; count];
    file.read_exact_at(bytemuck::cast_slice_mut(&mut words), offset)
        .ok()?;
    Some(words)
}
