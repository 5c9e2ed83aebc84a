//! `freehold record PID`: of a program that runs already, and was started ready for it by `freehold run --recordable`.
//!
//! The recorder is in the program from the start, because nothing can be put between a program and its allocator later. Until
//! it is asked it passes all calls on.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use profile_file::process;
use tempfile::TempDir;

use super::collect::{self, BLOCK, Collector};
use super::{Args, LATER, summarize};
use crate::library;

/// What a program is told that may be recorded later.
pub struct Recordable {
    directory: TempDir,
    recorder: PathBuf,
}

impl Recordable {
    pub fn new(freehold: Option<&Path>) -> Result<Self> {
        Ok(Self {
            directory: collect::shared_directory(BLOCKS * BLOCK as u64)?,
            recorder: library::beside(freehold, library::RECORDER)?,
        })
    }

    /// The recorder is in front of what is preloaded.
    pub fn add_to(&self, environment: &mut Vec<(&'static str, OsString)>) {
        for (name, value) in environment.iter_mut() {
            if *name == "LD_PRELOAD" {
                let mut list = self.recorder.clone().into_os_string();
                list.push(":");
                list.push(&*value);
                *value = list;
            }
        }
        environment.push(("FREEHOLD_RECORD", self.directory.path().into()));
        environment.push((LATER, "1".into()));
        environment.push(("FREEHOLD_RECORD_KEEP", "1".into()));
        environment.push(("FREEHOLD_RECORD_BLOCKS", BLOCKS.to_string().into()));
    }
}

/// Room for records that were not fetched yet.
const BLOCKS: u64 = 1024;

/// The process that the words name, if they are a number and no program of that name is here.
pub fn process_of(command: &[OsString]) -> Result<Option<u64>> {
    let word = command.first().map(|word| word.to_string_lossy());
    let Some(pid) = word.and_then(|word| word.parse::<u64>().ok()) else {
        return Ok(None);
    };
    ensure!(
        command.len() == 1,
        "options go before the process: freehold record -o FILE {pid}"
    );
    ensure!(process::runs(pid), "there is no process {pid}");
    Ok(Some(pid))
}

/// The newest file that the process has made: a program that it becomes by exec has one of its own.
fn recording_of(pid: u64) -> Result<PathBuf> {
    let how = "start it with `freehold run --recordable CMD`, or record it from its beginning with `freehold record CMD`";
    let variables = std::fs::read(process::directory(pid).join("environ"))
        .with_context(|| format!("the environment of process {pid}"))?;
    let of = |name: &[u8]| {
        let words = variables.split(|byte| *byte == 0);
        words.filter_map(|word| word.strip_prefix(name)).next_back()
    };
    let (Some(directory), Some(_)) = (of(b"FREEHOLD_RECORD="), of(b"FREEHOLD_RECORD_LATER="))
    else {
        bail!("process {pid} is not ready to be recorded: {how}");
    };
    let directory = Path::new(std::ffi::OsStr::from_bytes(directory));
    let file = |number: u32| directory.join(format!("{pid}-{number}.raw"));
    let made = (0..).map(file).take_while(|path| path.exists()).last();
    made.with_context(|| {
        format!("process {pid} has allocated nothing, or took no preloaded library: {how}")
    })
}

/// CPU seconds of a process.
fn cpu_seconds(pid: u64) -> Option<f64> {
    let words = process::stat_words(pid)?;
    let ticks = |field: usize| words.get(field - 3)?.parse::<f64>().ok();
    Some((ticks(14)? + ticks(15)?) / rustix::param::clock_ticks_per_second() as f64)
}

pub fn run(args: &Args, pid: u64) -> Result<ExitCode> {
    let asked = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
    let stop = Arc::new(AtomicBool::new(false));
    for signal in asked {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let used = cpu_seconds(pid);
    let begun = Instant::now();
    let mut collector = Collector::attach(&recording_of(pid)?, &args.when_full)
        .with_context(|| format!("process {pid}"))?;
    if !args.json {
        let until = match args.how_long {
            Some(time) => format!("for {}", crate::wording::duration(time.as_secs_f64())),
            None => "until Ctrl-C".to_string(),
        };
        tell_line!("freehold: process {pid} is recorded {until}, or until it ends");
    }
    let is_over = || args.how_long.is_some_and(|time| begun.elapsed() >= time);
    let mut spent = used;
    while !stop.load(Ordering::Relaxed) && !is_over() && process::runs(pid) {
        if !collector.drain()? {
            std::thread::sleep(Duration::from_millis(1));
        }
        spent = cpu_seconds(pid).or(spent);
    }
    let processes = collector.finish()?;
    let usage = used.zip(spent).map(|(before, after)| after - before);
    summarize(args, &processes, None, usage)?;
    Ok(ExitCode::SUCCESS)
}
