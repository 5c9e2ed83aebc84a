//! Finds the profile file that a person means: by a process number, a program's name, a profile file file or
//! directory, or a saved snapshot.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use crate::bytes::read_one;
use crate::error::{HeapsError, ReadError, SavedError};
use crate::heaps::Heaps;
use crate::kept::kept_directories;
use crate::layout::{self, DIRECTORY, Header, PREFIX};
use crate::live::{asked_for, live_page};
use crate::names;
use crate::process;
use crate::profile::{Profile, read_header};
use crate::recount;
use crate::saved;
use crate::snapshot::{Reading, Snapshot};

/// A profile file that one can read, or a saved copy of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The profile file of a process that runs.
    Live { pid: u64, profile: PathBuf },
    /// The profile file that a process left.
    Left { pid: u64, profile: PathBuf },
    /// A saved snapshot.
    Saved { file: PathBuf },
}

/// Why nothing was found.
#[derive(Debug, Error)]
pub enum FindError {
    #[error("there is no process {pid}, and no profile file that it left (looked for {looked})")]
    NoProcess { pid: u64, looked: String },
    #[error("process {pid} ({name}) runs under Freehold but {}", without_profile(*.told))]
    NotObserved {
        pid: u64,
        name: String,
        /// Its options say that it is to observe itself.
        told: bool,
    },
    #[error(
        "process {pid} ({name}) does not run under Freehold. Start it with `freehold run COMMAND…`; `freehold doctor \
         {pid}` says more"
    )]
    NotOurs { pid: u64, name: String },
    #[error(
        "process {pid} ({name}) has no memory of its own: it is a kernel thread, or has ended and waits for its parent"
    )]
    NoMemory { pid: u64, name: String },
    #[error(
        "process {pid} ({name}) belongs to somebody else: its memory may not be looked at ({reason})"
    )]
    Forbidden {
        pid: u64,
        name: String,
        reason: io::Error,
    },
    #[error(
        "no program called {name:?} runs, and none has left a profile file; neither is there a run or a file of that name"
    )]
    NoName { name: String },
    #[error("the name is empty: say a process's number, a program's name or a file")]
    Empty,
    #[error("{} answer to {name:?}; name one of them:\n{}", .choices.len(), list(.choices))]
    Several { name: String, choices: Vec<Choice> },
    #[error("{path}: {what}")]
    File { path: PathBuf, what: String },
    #[error("there is no profile file in {0}: no observed program has run with page={0}")]
    EmptyFolder(PathBuf),
    #[error("{path}: {reason}")]
    Profile { path: PathBuf, reason: ReadError },
    #[error(transparent)]
    Saved(#[from] SavedError),
    #[error(
        "no observed program runs, and none has left a profile file (looked in {looked}). Start one with `freehold run COMMAND…`"
    )]
    Nothing { looked: String },
}

/// Why a process that runs under Freehold has no profile file, and what to do.
fn without_profile(told: bool) -> &'static str {
    if told {
        "has no profile file, though it was told to observe itself: it has not allocated anything yet, or there was no room for \
         the profile file in its directory (the program's stderr says so then)"
    } else {
        "is not observed. Start it with `freehold run`, or with FREEHOLD=observe=1 in its environment"
    }
}

/// One of several profile files that answer to a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub target: Target,
    pub program: String,
    /// What it answers to.
    pub names: Vec<String>,
}

fn list(choices: &[Choice]) -> String {
    let lines: Vec<String> = choices
        .iter()
        .map(|choice| match &choice.target {
            Target::Live { pid, .. } => format!("  {pid}  {}", choice.program),
            Target::Left { profile, .. } => {
                format!("  {}  {} (ended)", profile.display(), choice.program)
            }
            Target::Saved { file } => format!("  {}", file.display()),
        })
        .collect();
    lines.join("\n")
}

impl Target {
    /// Finds what a person calls `word`: a number is a process, something with a slash a file or a directory of
    /// profile files, everything else is a program's name; then that of a run, as `freehold run --list` has it; then a
    /// file's. Somebody who builds a server is in the directory of its file, and means the process.
    pub fn find(word: &str) -> Result<Target, FindError> {
        if word.is_empty() {
            return Err(FindError::Empty);
        }
        if let Ok(pid) = word.parse::<u64>() {
            return Self::of_process(pid);
        }
        let path = Path::new(word);
        if word.contains('/') {
            return Self::of_path(path);
        }
        match Self::of_name(word) {
            Err(FindError::NoName { .. }) => match run_called(word) {
                Some(directory) => Self::of_folder(&directory),
                None if path.exists() => Self::of_path(path).map_err(|error| match error {
                    FindError::Profile {
                        path,
                        reason: ReadError::NotAProfile(_),
                    } => FindError::File {
                        path,
                        what: "no program of this name runs or has left a profile file, and the file of this name is neither \
                               a profile file nor a saved snapshot"
                            .to_owned(),
                    },
                    other => other,
                }),
                None => Err(FindError::NoName {
                    name: word.to_owned(),
                }),
            },
            found => found,
        }
    }

    /// The one observed program that runs; failing that, the one that left a profile file last. For commands that were
    /// given no name.
    pub fn only() -> Result<Target, FindError> {
        let (running, mut left): (Vec<Choice>, Vec<Choice>) = every_page()
            .into_iter()
            .partition(|choice| matches!(choice.target, Target::Live { .. }));
        match running.len() {
            1 => Ok(running.into_iter().next().expect("there is one").target),
            0 => {
                left.sort_by_key(|choice| modified(choice.target.path()));
                left.pop()
                    .map(|choice| choice.target)
                    .ok_or_else(|| FindError::Nothing {
                        looked: format!("{DIRECTORY} and {}", kept_names()),
                    })
            }
            _ => Err(FindError::Several {
                name: "no name".to_owned(),
                choices: running,
            }),
        }
    }

    /// [`Target::find`] if there is a word, else [`Target::only`].
    pub fn find_or_only(word: Option<&str>) -> Result<Target, FindError> {
        word.map_or_else(Self::only, Self::find)
    }

    fn of_process(pid: u64) -> Result<Target, FindError> {
        if process::runs(pid) {
            return match live_page(pid) {
                Some(profile) => Ok(Target::Live { pid, profile }),
                None => Err(why_none(pid)),
            };
        }
        let name = format!("{PREFIX}{pid}");
        let mut found: Vec<PathBuf> = places()
            .iter()
            .map(|directory| directory.join(&name))
            .filter(|profile| header_of(profile).is_ok())
            .collect();
        // Numbers are used again: the process that left a profile file last is meant.
        found.sort_by_key(|profile| modified(profile));
        match found.pop() {
            Some(profile) => Ok(Target::Left { pid, profile }),
            None => Err(FindError::NoProcess {
                pid,
                looked: format!("{name} in {DIRECTORY} and below {}", kept_names()),
            }),
        }
    }

    fn of_path(path: &Path) -> Result<Target, FindError> {
        let wrong = |what: &str| FindError::File {
            path: path.to_owned(),
            what: what.to_owned(),
        };
        let meta = fs::metadata(path).map_err(|error| wrong(&error.to_string()))?;
        if meta.is_dir() {
            return Self::of_folder(path);
        }
        let kind = meta.file_type();
        if kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device() {
            return Err(wrong(
                "is not a file, so neither a profile file nor a saved snapshot",
            ));
        }
        if saved::is_saved(path)? {
            return Ok(Target::Saved {
                file: path.to_owned(),
            });
        }
        let header = header_of(path).map_err(|reason| FindError::Profile {
            path: path.to_owned(),
            reason,
        })?;
        Ok(of_profile(path, &header))
    }

    fn of_folder(directory: &Path) -> Result<Target, FindError> {
        let mut choices = profiles_in(directory);
        // A person may have kept an earlier run in the same directory; the record is that of the last.
        if let Some(begun) = begun_unix_ns(directory) {
            let of_the_last = |choice: &Choice| began_since(choice.target.path(), begun);
            if choices.iter().any(of_the_last) {
                choices.retain(of_the_last);
            }
        }
        match choices.len() {
            0 => Err(FindError::EmptyFolder(directory.to_owned())),
            1 => Ok(choices.remove(0).target),
            _ if directory.join(RECORD).is_file() => Ok(largest(choices)),
            _ => Err(FindError::Several {
                name: directory.display().to_string(),
                choices,
            }),
        }
    }

    fn of_name(name: &str) -> Result<Target, FindError> {
        let mut choices = Vec::new();
        let mut unobserved = Vec::new();
        let me = u64::from(std::process::id());
        for pid in process::all().unwrap_or_default() {
            // The command that looks is never meant.
            // A zombie cannot be asked either; the profile file that it left can.
            let named = || names::of_process(pid).iter().any(|known| known == name);
            if pid == me || !process::runs(pid) || !named() {
                continue;
            }
            match live_page(pid) {
                Some(profile) => choices.push(Choice {
                    program: process::command_line(pid).join(" "),
                    names: names::of_process(pid),
                    target: Target::Live { pid, profile },
                }),
                None => unobserved.push(pid),
            }
        }
        if choices.is_empty() && unobserved.is_empty() {
            // A profile file that was left behind counts only if no process of that name runs; the last is
            // meant.
            let mut left = every_page();
            left.retain(|choice| {
                choice.names.iter().any(|known| known == name)
                    && matches!(choice.target, Target::Left { .. })
            });
            left.sort_by_key(|choice| modified(choice.target.path()));
            choices.extend(left.pop());
        }
        match (choices.len(), unobserved.first()) {
            (1, _) => Ok(choices.remove(0).target),
            (0, Some(&pid)) => Err(why_none(pid)),
            (0, None) => Err(FindError::NoName {
                name: name.to_owned(),
            }),
            _ => Err(FindError::Several {
                name: name.to_owned(),
                choices,
            }),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Target::Live { profile, .. } | Target::Left { profile, .. } => profile,
            Target::Saved { file } => file,
        }
    }

    /// The profile file's file, for [`crate::Control`]; a saved snapshot has none.
    pub fn profile_path(&self) -> Option<&Path> {
        match self {
            Target::Live { profile, .. } => Some(profile),
            _ => None,
        }
    }

    /// The process, if there is or was one.
    pub fn pid(&self) -> Option<u64> {
        match self {
            Target::Live { pid, .. } | Target::Left { pid, .. } => Some(*pid),
            Target::Saved { .. } => None,
        }
    }

    /// How one would name it to another command.
    pub fn word(&self) -> String {
        match self {
            Target::Live { pid, .. } => pid.to_string(),
            _ => self.path().display().to_string(),
        }
    }

    /// Reads a snapshot of it.
    pub fn read(&self) -> Result<Snapshot, FindError> {
        self.hold()?.read()
    }

    /// Keeps it open, so that it can be read again and again: also when the program has ended, and its profile file was
    /// removed from its directory.
    pub fn hold(&self) -> Result<Held, FindError> {
        let file = match self {
            Target::Live { profile, .. } | Target::Left { profile, .. } => {
                Some(File::open(profile).map_err(|error| self.failed(error.into()))?)
            }
            Target::Saved { .. } => None,
        };
        Ok(Held {
            target: self.clone(),
            file,
            end: None,
            seen_ns: AtomicU64::new(0),
        })
    }

    /// Reads a snapshot of a program that has ended, by one who waited for it.
    pub fn read_ended(&self, end: End) -> Result<Snapshot, FindError> {
        let held = self.hold()?;
        Held {
            end: Some(end),
            ..held
        }
        .read()
    }

    fn failed(&self, reason: ReadError) -> FindError {
        FindError::Profile {
            path: self.path().to_owned(),
            reason,
        }
    }
}

/// A profile file that is kept open.
pub struct Held {
    target: Target,
    /// None of a saved snapshot.
    file: Option<File>,
    /// What is known of its end, if that is not noted beside it.
    end: Option<End>,
    /// When it was last seen alive; 0: never.
    seen_ns: AtomicU64,
}

/// What is known of the end of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// It exited; false: a signal ended it.
    pub exited: Option<bool>,
    /// Until then it ran, on the profile file's clock.
    pub ran_until_ns: Option<u64>,
}

impl Held {
    /// Reads a snapshot of it.
    pub fn read(&self) -> Result<Snapshot, FindError> {
        let (pid, file) = match (&self.target, &self.file) {
            (Target::Live { pid, .. } | Target::Left { pid, .. }, Some(file)) => (*pid, file),
            (target, _) => return Ok(saved::load(target.path())?),
        };
        let alive = matches!(self.target, Target::Live { .. }) && process::runs(pid);
        let now = process::monotonic_ns();
        let end = match alive {
            true => End::default(),
            false => self.end(pid),
        };
        let reading = Reading {
            alive,
            monotonic_ns: now,
            unix_ns: process::unix_ns(),
            pid,
            exited: end.exited,
            ran_until_ns: end.ran_until_ns,
        };
        if alive {
            // Relaxed: it is a time for the next reader, and nothing is published with it.
            self.seen_ns.store(now, Ordering::Relaxed);
        }
        let mut warnings = Vec::new();
        let mut profile =
            Profile::read(file, &mut warnings).map_err(|reason| self.target.failed(reason))?;
        if alive {
            recount::bring_up_to_date(&mut profile, file, &reading);
        }
        let mut snapshot = Snapshot::of_profile(profile, reading, warnings);
        // Its last word is written before it is gone, and then nothing changes any more.
        if alive && snapshot.ended_by_itself() {
            snapshot.reading.alive = false;
        }
        snapshot.name_the_damaged(self.target.path());
        Ok(snapshot)
    }

    /// The process that waited for it knows best; else it was seen alive when it was last read.
    fn end(&self, pid: u64) -> End {
        let waited = self.end.or_else(|| noted_end(self.target.path(), pid));
        let seen = match self.seen_ns.load(Ordering::Relaxed) {
            0 => None,
            seen => Some(seen),
        };
        End {
            exited: waited.and_then(|end| end.exited),
            ran_until_ns: waited.and_then(|end| end.ran_until_ns).or(seen),
        }
    }

    /// The heaps of the program that a snapshot is of, as they are now, or as they were saved with it.
    pub fn heaps(&self, snapshot: &Snapshot) -> Result<Heaps, HeapsError> {
        if let Some(heaps) = &snapshot.heaps {
            return Ok(heaps.clone());
        }
        let file = self.file.as_ref().ok_or(HeapsError::Gone)?;
        recount::heaps::read(snapshot, file)
    }
}

/// What `freehold run` notes beside the profile files when the program that it started has ended.
pub const RECORD: &str = "run.json";

fn record_in(directory: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&fs::read(directory.join(RECORD)).ok()?).ok()
}

/// When the run began whose record is in this directory, by the calendar's clock.
fn begun_unix_ns(directory: &Path) -> Option<u64> {
    record_in(directory)?["begun_unix_ns"].as_u64()
}

/// The profile file is of a process that began at that moment or later, by the calendar's clock.
pub fn began_since(profile: &Path, unix_ns: u64) -> bool {
    header_of(profile).is_ok_and(|header| header.begun_unix_ns >= unix_ns)
}

/// What `freehold run` noted of a program that it waited for; none: it did not wait for this process, or does so still.
fn noted_end(profile: &Path, pid: u64) -> Option<End> {
    let record = record_in(profile.parent()?)?;
    let begun = record["begun_unix_ns"].as_u64()?;
    // Numbers are used again, and a directory may have been.
    let is_of_it = record["pid"].as_u64() == Some(pid) && began_since(profile, begun);
    is_of_it.then(|| End {
        exited: record["ending"]["how"].as_str().map(|how| how == "exited"),
        ran_until_ns: record["ended_monotonic_ns"].as_u64(),
    })
}

/// When a file was last written to, in nanoseconds.
fn modified(path: &Path) -> i128 {
    let time = |meta: fs::Metadata| {
        i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec())
    };
    fs::metadata(path).map_or(0, time)
}

pub(crate) fn header_of(profile: &Path) -> Result<Header, ReadError> {
    let file = File::open(profile)?;
    let length = file.metadata()?.len();
    read_header(&file, length)
}

/// What a profile file file is: its program may still run.
fn of_profile(profile: &Path, header: &Header) -> Target {
    let pid = header.pid;
    let same = process::runs(pid)
        && process::start_ticks(pid)
            .is_none_or(|start| header.process_start == 0 || start == header.process_start);
    if same && header.state == layout::STATE_LIVE {
        Target::Live {
            pid,
            profile: profile.to_owned(),
        }
    } else {
        Target::Left {
            pid,
            profile: profile.to_owned(),
        }
    }
}

/// The profile files in a directory, whose files are called as the library calls them.
fn profiles_in(directory: &Path) -> Vec<Choice> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut found: Vec<Choice> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let number = path.file_name()?.to_str()?.strip_prefix(PREFIX)?;
            number.parse::<u64>().ok()?;
            let header = header_of(&path).ok()?;
            Some(Choice {
                target: of_profile(&path, &header),
                program: names::own_of_header(&header),
                names: names::of_header(&header),
            })
        })
        .collect();
    found.sort_by(|a, b| a.target.path().cmp(b.target.path()));
    found
}

/// The directory of a kept run of this name.
fn run_called(name: &str) -> Option<PathBuf> {
    // "." and ".." are paths, and no run is called so.
    kept_directories()
        .into_iter()
        .filter(|_| !matches!(name, "." | ".."))
        .map(|kept| kept.join(name))
        .find(|directory| directory.is_dir())
}

/// Of the processes of a run, the one that the run's own summary is about: it had the most memory.
fn largest(choices: Vec<Choice>) -> Target {
    let peak = |choice: &Choice| {
        let file = File::open(choice.target.path()).ok()?;
        let control: layout::Control = read_one(&file, layout::CONTROL_OFFSET).ok()?;
        Some(control.peak_bytes)
    };
    let largest = choices.into_iter().max_by_key(peak);
    largest.expect("there are several").target
}

/// Every profile file in the usual places, of this user or of those whom this one may read.
pub fn every_page() -> Vec<Choice> {
    places()
        .iter()
        .flat_map(|directory| profiles_in(directory))
        .collect()
}

/// The directories that profile files are in by default: the library's own, the kept one, and in that a
/// directory for each `freehold run`.
pub(crate) fn places() -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from(DIRECTORY)];
    for kept in kept_directories() {
        let runs = fs::read_dir(&kept).into_iter().flatten();
        places.push(kept);
        places.extend(
            runs.filter_map(|entry| Some(entry.ok()?.path()))
                .filter(|path| path.is_dir()),
        );
    }
    places
}

/// The directories of runs, for messages.
fn kept_names() -> String {
    let names: Vec<String> = kept_directories()
        .iter()
        .map(|kept| kept.display().to_string())
        .collect();
    names.join(", ")
}

/// Why a process that runs has no profile file.
fn why_none(pid: u64) -> FindError {
    let base = process::directory(pid);
    let name = names::of_process(pid)
        .into_iter()
        .next()
        .unwrap_or_default();
    match process::text_of(&base.join("maps")) {
        Err(reason) => FindError::Forbidden { pid, name, reason },
        Ok(maps) if maps.is_empty() => FindError::NoMemory { pid, name },
        Ok(maps) if maps.contains("libfreehold") || defines_freehold(&base) => {
            FindError::NotObserved {
                pid,
                name,
                told: asked_for(pid),
            }
        }
        Ok(_) => FindError::NotOurs { pid, name },
    }
}

/// The program has the allocator linked in: its name is among its symbols. A search for the bytes is enough to choose
/// between two messages. A table of symbols has zeroes around each name; so may this command have around a word in it,
/// which therefore stands among others there.
fn defines_freehold(base: &Path) -> bool {
    const AMONG_OTHERS: &[u8] = b"[fh_version]";
    let name = &AMONG_OTHERS[1..AMONG_OTHERS.len() - 1];
    fs::read(base.join("exe")).is_ok_and(|bytes| {
        bytes.windows(name.len() + 2).any(|part| {
            part.first() == Some(&0) && part.last() == Some(&0) && &part[1..=name.len()] == name
        })
    })
}
