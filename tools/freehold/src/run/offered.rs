//! Profile files in memory, for when no directory has room for them: this command makes files without names, holds them
//! open, and offers them to the programs that it starts. Each program takes the first that is free.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use profile_file::Target;
use profile_file::layout::MEMFD;
use rustix::fs::MemfdFlags;

/// Processes of a run that can be kept. Others have their profile files in their own memory.
const FILES: i32 = 32;
/// Where their numbers may begin: one after the other, above those that this command uses itself.
const FIRST: [i32; 3] = [200, 400, 100];

/// The files, by descriptors with numbers that follow each other.
pub struct Offered {
    files: Vec<OwnedFd>,
}

impl Offered {
    pub fn new() -> Result<Self> {
        for first in FIRST {
            let files = make(first).context("cannot hold profile files in memory")?;
            if in_a_row(&files, first) {
                return Ok(Self { files });
            }
        }
        bail!("cannot hold profile files in memory: too many descriptors are in use")
    }

    /// Where the first is, for the library.
    pub fn page(&self) -> PathBuf {
        path(&self.files[0])
    }

    /// Those that a program has taken.
    pub fn profiles(&self) -> Vec<PathBuf> {
        let paths = self.files.iter().map(path);
        let taken = |path: &PathBuf| path.to_str().is_some_and(|word| Target::find(word).is_ok());
        paths.filter(taken).collect()
    }
}

fn make(first: i32) -> rustix::io::Result<Vec<OwnedFd>> {
    (0..FILES)
        .map(|number| {
            let file = rustix::fs::memfd_create(MEMFD, MemfdFlags::CLOEXEC)?;
            rustix::io::fcntl_dupfd_cloexec(&file, first + number)
        })
        .collect()
}

fn in_a_row(files: &[OwnedFd], first: i32) -> bool {
    files
        .iter()
        .zip(first..)
        .all(|(file, number)| file.as_raw_fd() == number)
}

fn path(file: &OwnedFd) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

#[cfg(test)]
mod tests {
    use profile_file::testing::ProfileBuilder;

    use super::*;

    #[test]
    fn what_is_taken_is_found_and_what_is_free_is_not() {
        let offered = Offered::new().unwrap();
        assert!(offered.profiles().is_empty());
        std::fs::write(offered.page(), ProfileBuilder::new(4096).bytes()).unwrap();
        assert_eq!(offered.profiles(), [offered.page()]);
        // `run --list` counts them, by the process that holds them.
        let runner = u64::from(std::process::id());
        assert_eq!(super::super::kept::held_in_memory(runner), 1);
    }
}
