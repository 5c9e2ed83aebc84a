//! The words that a command writes into a profile file: how often to sample, a mark, and the wish for fresh statistics.
//!
//! Everything else of a profile file is only read. The library polls these words with a relaxed load in a slow path,
//! so nothing here interrupts the program; an idle one answers when it next allocates.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use memmap2::{MmapMut, MmapOptions};
use thiserror::Error;

use crate::error::ReadError;
use crate::layout::{self, CONTROL_OFFSET};
use crate::profile::read_header;

/// Why the control words could not be opened.
#[derive(Debug, Error)]
pub enum ControlError {
    #[error(
        "{path}: cannot be opened for writing ({reason}); only the program's owner may steer it"
    )]
    Open { path: PathBuf, reason: io::Error },
    #[error("{path}: {reason}")]
    Profile { path: PathBuf, reason: ReadError },
}

/// The control words of a profile file, mapped.
pub struct Control {
    map: MmapMut,
}

impl Control {
    /// Opens the profile file at `path`; [`crate::Target::profile_path`] says where it is.
    pub fn open(path: &Path) -> Result<Control, ControlError> {
        let opened = |reason| ControlError::Open {
            path: path.to_owned(),
            reason,
        };
        // A link in a directory that all may write to could lead to anything; but /proc's own must be followed.
        let flags = if path.starts_with("/proc") {
            0
        } else {
            rustix::fs::OFlags::NOFOLLOW.bits()
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags as i32)
            .open(path)
            .map_err(opened)?;
        let length = file.metadata().map_err(opened)?.len();
        read_header(&file, length).map_err(|reason| ControlError::Profile {
            path: path.to_owned(),
            reason,
        })?;
        // SAFETY: the mapping is only ever used through atomics, so that others write to it too is allowed. The file
        // was just seen to reach beyond these 4 KiB; neither library nor command ever shortens a page, and another
        // may write to it (its owner) could only have this command end by SIGBUS.
        let map = unsafe {
            MmapOptions::new()
                .offset(CONTROL_OFFSET)
                .len(4096)
                .map_mut(&file)
        }
        .map_err(opened)?;
        Ok(Control { map })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset % 8 == 0 && offset + 8 <= self.map.len());
        // SAFETY: mapped, aligned (a mapping begins at a page, and the offset is of a u64 field), alive as long as
        // `self`, and shared only with atomic accesses on either side.
        unsafe { &*self.map.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Mean bytes between samples from now on; 0 stops sampling, [`layout::INTERVAL_AS_STARTED`] goes back to the
    /// program's own.
    pub fn set_interval(&self, bytes: u64) {
        let wanted = std::mem::offset_of!(layout::Control, wanted_interval);
        // Relaxed: the library polls it, and nothing else is published with it.
        self.word(wanted).store(bytes, Ordering::Relaxed);
    }

    /// The interval in force.
    pub fn interval(&self) -> u64 {
        self.word(std::mem::offset_of!(layout::Control, interval))
            .load(Ordering::Relaxed)
    }

    /// Sets a mark: blocks that are sampled from now on carry its number, which is returned.
    pub fn set_mark(&self) -> u64 {
        self.word(std::mem::offset_of!(layout::Control, mark_again))
            .fetch_add(1, Ordering::Relaxed);
        // An addition, so that two commands make two marks.
        self.word(std::mem::offset_of!(layout::Control, mark))
            .fetch_add(1, Ordering::Relaxed)
            + 1
    }

    pub fn mark(&self) -> u64 {
        self.word(std::mem::offset_of!(layout::Control, mark))
            .load(Ordering::Relaxed)
    }

    /// Asks for a scan for reachable blocks; the number is the scan's, and the answer will be in
    /// [`crate::Profile::scan`].
    pub fn ask_scan(&self) -> u64 {
        self.word(std::mem::offset_of!(layout::Control, scan))
            .fetch_add(1, Ordering::Relaxed)
            + 1
    }

    /// The number and state of the last scan that the program took up.
    pub fn scan_state(&self) -> (u64, u64) {
        let begin = (layout::SCAN_OFFSET - CONTROL_OFFSET) as usize;
        let number = self.word(begin + std::mem::offset_of!(layout::Scan, number));
        let state = self.word(begin + std::mem::offset_of!(layout::Scan, state));
        // Acquire, the number first: a scan leaves DONE before it takes a new number, so the state is this number's or
        // a later one's; and a reader that sees DONE also sees what was found.
        let number = number.load(Ordering::Acquire);
        let state = state.load(Ordering::Acquire);
        (number, state)
    }

    /// Bytes that the scan which is under way has looked through.
    pub fn scan_searched(&self) -> u64 {
        let begin = (layout::SCAN_OFFSET - CONTROL_OFFSET) as usize;
        // Relaxed: a number for a person.
        self.word(begin + std::mem::offset_of!(layout::Scan, searched_so_far))
            .load(Ordering::Relaxed)
    }

    /// Asks for fresh statistics; the number is the question's, for [`Control::answered`].
    pub fn ask(&self) -> u64 {
        self.word(std::mem::offset_of!(layout::Control, refresh))
            .fetch_add(1, Ordering::Relaxed)
            + 1
    }

    /// The library has answered this question or a later one.
    pub fn answered(&self, question: u64) -> bool {
        let refreshed = std::mem::offset_of!(layout::Control, refreshed);
        // Acquire: a reader that sees the answer also sees the statistics that were written before it.
        let last = self.word(refreshed).load(Ordering::Acquire);
        last.wrapping_sub(question) < u64::MAX / 2
    }

    /// Asks for fresh statistics and waits for them, no longer than `patience`. False: the program has not allocated in
    /// that time (it sleeps, or computes), so the statistics of before are still those of its heap, except what is
    /// returned to the OS back meanwhile.
    pub fn refresh(&self, patience: Duration) -> bool {
        let question = self.ask();
        let end = Instant::now() + patience;
        while !self.answered(question) {
            if Instant::now() >= end {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }
}
