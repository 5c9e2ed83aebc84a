//! One run: the replayer in a fresh process, with the allocator preloaded.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{allocator, interrupt, library};

/// What the replayer says of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    pub ns: u64,
    pub cpu_ns: u64,
    pub calls: u64,
    pub bytes: u64,
    pub failed: u64,
    pub wrong: u64,
    pub peak_live: u64,
    /// Private resident bytes: at the highest, before the first and after the last operation.
    pub peak: u64,
    pub before: u64,
    pub after: u64,
    pub worst: u64,
    /// In total order, of the addresses of all blocks: equal sums are equal addresses.
    pub addresses: u64,
    /// The curve of private resident bytes: by the operation in total order, else by the nanoseconds since the beginning.
    pub points: Vec<(u64, u64)>,
    pub times: Vec<(u64, u64)>,
}

impl Run {
    /// What the allocator had resident at the highest.
    pub fn peak_rss(&self) -> u64 {
        self.peak.saturating_sub(self.before)
    }
}

pub struct Contender {
    pub name: String,
    library: Option<PathBuf>,
}

impl Contender {
    /// By its name or path; `freehold` is the drop-in library, if it is not beside this command.
    pub fn new(name: &str, freehold: Option<&Path>) -> Result<Self> {
        Ok(Self {
            library: allocator::library_of(name, freehold)?,
            name: allocator::label(name),
        })
    }
}

pub enum Ending {
    Answered {
        run: Box<Run>,
        /// What it or the allocator wrote to stderr.
        complaint: String,
    },
    Died {
        status: ExitStatus,
        complaint: String,
    },
    TooLong,
}

/// The library says what it does not understand, and goes on without. Here that is an error.
pub fn check_options(freehold: Option<&Path>, options: &str) -> Result<()> {
    let output = Command::new("true")
        .env("LD_PRELOAD", library::locate(freehold)?)
        .env("FREEHOLD", options)
        .output()
        .context("cannot start true")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let complaint = said
        .lines()
        .find(|line| line.contains("unknown option") || line.contains("has bad value"));
    if let Some(line) = complaint {
        bail!("{}", line.trim_start_matches("freehold: "));
    }
    Ok(())
}

pub struct Replayer {
    program: PathBuf,
    /// As in FREEHOLD.
    options: Option<String>,
}

impl Replayer {
    pub fn new(freehold: Option<&Path>, options: Option<String>) -> Result<Self> {
        let options = options.map(|options| options.replace(';', ","));
        if let Some(options) = &options {
            check_options(freehold, options).context("--set")?;
        }
        Ok(Self {
            program: library::beside(freehold, library::REPLAYER)?,
            options,
        })
    }

    /// Replays a prepared file. A run that takes longer than `patience` is ended.
    pub fn once(
        &self,
        contender: &Contender,
        file: &Path,
        patience: Option<Duration>,
    ) -> Result<Ending> {
        self.filmed(contender, file, patience, None)
    }

    /// The same, in total order and with a file for the frames of a film.
    pub fn filmed(
        &self,
        contender: &Contender,
        file: &Path,
        patience: Option<Duration>,
        film: Option<&Path>,
    ) -> Result<Ending> {
        let (mut answer, mut complaint) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut command = Command::new(&self.program);
        command
            .arg(file)
            .args(film)
            .env_remove("LD_PRELOAD")
            .stdout(answer.try_clone()?)
            .stderr(complaint.try_clone()?);
        if let Some(library) = &contender.library {
            command.env("LD_PRELOAD", library);
        }
        if let Some(options) = &self.options {
            command.env("FREEHOLD", options);
        }
        let child = command.spawn().context("cannot start the replayer")?;
        let Some(status) = wait(child, patience)? else {
            return Ok(Ending::TooLong);
        };
        let complaint = contents(&mut complaint)?;
        if !status.success() {
            return Ok(Ending::Died { status, complaint });
        }
        let run = serde_json::from_str(&contents(&mut answer)?);
        let run = run.context("the replayer did not answer")?;
        Ok(Ending::Answered {
            run: Box::new(run),
            complaint,
        })
    }
}

/// None if it took too long, and was ended. An error if this command is to end.
fn wait(mut child: Child, patience: Option<Duration>) -> Result<Option<ExitStatus>> {
    let (begun, mut pause) = (Instant::now(), Duration::from_micros(200));
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let too_long = patience.is_some_and(|patience| begun.elapsed() >= patience);
        if too_long || interrupt::signal().is_some() {
            child.kill()?;
            child.wait()?;
            interrupt::check()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

fn contents(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
