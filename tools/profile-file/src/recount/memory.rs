//! The memory of another process, as a debugger may read it. Nothing is stopped for it.

use std::fs::File;
use std::io;
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
        Self::open_or_say(pid).ok()
    }

    /// The same, with the reason.
    pub fn open_or_say(pid: u64) -> io::Result<Self> {
        let directory = process::directory(pid);
        Ok(Self {
            contents: File::open(directory.join("mem"))?,
            pages: File::open(directory.join("pagemap"))?,
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

    /// Of each page from an address on: is it in memory?
    pub fn resident(&self, address: u64, bytes: usize) -> Option<Vec<bool>> {
        let first = address / self.page as u64;
        let entries = words(&self.pages, first * 8, bytes / self.page).ok()?;
        Some(entries.iter().map(|entry| entry & PRESENT != 0).collect())
    }
}

fn words(file: &File, offset: u64, count: usize) -> io::Result<Vec<u64>> {
    let mut words = vec![0u64; count];
    file.read_exact_at(bytemuck::cast_slice_mut(&mut words), offset)?;
    Ok(words)
}
