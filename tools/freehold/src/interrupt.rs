//! A command that has programs and files to look after is told of Ctrl-C, of a request to end, and of a terminal that is gone.
//! It ends by an error then, so that what it has made is dropped on the way.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::{Result, ensure};
use profile_file::process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// From now on they do not end the command. What the caller has set to be ignored (`nohup`) stays so.
pub fn watch() -> Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if !is_ignored(signal) {
            signal_hook::flag::register_usize(signal, Arc::clone(&SIGNAL), signal as usize)?;
        }
    }
    Ok(())
}

/// The signal that came, after [`watch`].
pub fn signal() -> Option<u8> {
    u8::try_from(SIGNAL.load(Ordering::Relaxed))
        .ok()
        .filter(|signal| *signal != 0)
}

/// An error if one came.
pub fn check() -> Result<()> {
    ensure!(signal().is_none(), "ended before it was done, by a signal");
    Ok(())
}

pub fn is_ignored(signal: i32) -> bool {
    let status = process::text_of(Path::new("/proc/self/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
