//! One run of the program, under the library, with an allocation site that fails or none.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use super::log::Log;
use crate::interrupt;

/// What is run, and how.
pub struct Program<'a> {
    pub command: &'a [OsString],
    pub library: &'a Path,
    pub directory: PathBuf,
}

/// What a run showed.
#[derive(Debug)]
pub struct Trial {
    /// None: it had to be ended.
    pub status: Option<ExitStatus>,
    pub seconds: f64,
    pub output: Vec<u8>,
    /// On the standard error.
    pub said: Vec<u8>,
    pub log: Log,
}

impl Trial {
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    pub fn signal(&self) -> Option<i32> {
        self.status.and_then(|status| status.signal())
    }
}

impl Program<'_> {
    /// The variables by which the same is run again by hand.
    pub fn variables(&self, fail: &str) -> [(&'static str, OsString); 2] {
        let mut libraries = self.library.as_os_str().to_owned();
        if let Some(before) = std::env::var_os("LD_PRELOAD").filter(|text| !text.is_empty()) {
            libraries.push(":");
            libraries.push(before);
        }
        let mut options = std::env::var_os("FREEHOLD").unwrap_or_default();
        if !options.is_empty() {
            options.push(",");
        }
        options.push(format!("fail={fail}"));
        [("LD_PRELOAD", libraries), ("FREEHOLD", options)]
    }

    /// Runs it, for so long at most.
    pub fn run(&self, fail: &str, patience: Duration) -> Result<Trial> {
        let path = |name: &str| self.directory.join(name);
        let [preload, (name, mut options)] = self.variables(fail);
        options.push(",fail_log=");
        options.push(path("log"));
        let _ = fs::remove_file(path("log"));
        let begun = Instant::now();
        let mut child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .envs([preload, (name, options)])
            .stdin(Stdio::null())
            .stdout(File::create(path("output"))?)
            .stderr(File::create(path("said"))?)
            // A group of its own, so that all of it can be ended.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot run {}", Path::new(&self.command[0]).display()))?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if begun.elapsed() > patience || interrupt::signal().is_some() {
                break None;
            }
            thread::sleep(Duration::from_millis(2));
        };
        // What it left in the background must not disturb the next run.
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        if status.is_none() {
            child.wait()?;
        }
        interrupt::check()?;
        let text = |name| fs::read(path(name)).unwrap_or_default();
        Ok(Trial {
            status,
            seconds: begun.elapsed().as_secs_f64(),
            output: text("output"),
            said: text("said"),
            log: Log::parse(&String::from_utf8_lossy(&text("log"))),
        })
    }
}
