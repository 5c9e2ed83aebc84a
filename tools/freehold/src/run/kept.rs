//! Where the profile files of observed programs are kept, so that they outlive the programs: a directory of the user's
//! own, and in it one for each run. What is kept is bounded; the oldest goes first. Of a run that a person keeps elsewhere
//! there is a link, so that it is found by its name; what it leads to is never removed.

use std::fs::{self, DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use profile_file::layout::{MEMFD, PREFIX};
use profile_file::target::{RECORD, began_since};
use profile_file::{Target, process};
use serde::{Deserialize, Serialize};

use super::ending::Ending;

/// What is kept at most of runs that have ended.
const MOST_RUNS: usize = 16;
const MOST_BYTES: u64 = 256 << 20;
/// Profile files of ended processes that one run keeps at most: those that had the most memory.
const MOST_PROFILES: usize = 32;

/// Of a run whose profile files were in memory, what the largest process showed.
pub const SAVED: &str = "profile.freehold";

/// What is written down about a run, beside its profile files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub command: Vec<String>,
    /// The `freehold run` that looks after it, with the moment of its start, as numbers are used again.
    pub runner: u64,
    pub runner_start: u64,
    pub begun_unix_ns: u64,
    /// The process that was started: what `ending` is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_ns: Option<u64>,
    /// The same moment on the clock of profile files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_monotonic_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

impl Record {
    pub fn new(command: Vec<String>) -> Self {
        let runner = u64::from(std::process::id());
        Self {
            command,
            runner,
            runner_start: process::start_ticks(runner).unwrap_or(0),
            begun_unix_ns: process::unix_ns(),
            pid: None,
            ended_unix_ns: None,
            ended_monotonic_ns: None,
            ending: None,
        }
    }

    pub fn write(&self, directory: &Path) -> Result<()> {
        let file = directory.join(RECORD);
        fs::write(&file, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// The moment when it ended is now.
    pub fn end(&mut self, ending: Ending, monotonic_ns: u64) {
        self.ended_unix_ns = Some(process::unix_ns());
        self.ended_monotonic_ns = Some(monotonic_ns);
        self.ending = Some(ending);
    }

    fn read(directory: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(directory.join(RECORD)).ok()?).ok()
    }
}

/// A run whose data is kept.
#[derive(Debug)]
pub struct Kept {
    pub directory: PathBuf,
    /// None: it was damaged, or never written.
    pub record: Option<Record>,
    /// Memory or disk that it takes.
    pub bytes: u64,
    pub profiles: usize,
    /// A process of it still runs.
    pub running: bool,
    /// It is in a directory that a person chose: only the link to it is ours.
    pub elsewhere: bool,
}

impl Kept {
    /// Removes it, or the link to what is not ours. Returns the bytes that are free now.
    fn remove(&self) -> std::io::Result<u64> {
        if self.elsewhere {
            return fs::remove_file(&self.directory).map(|()| 0);
        }
        fs::remove_dir_all(&self.directory).map(|()| self.bytes)
    }

    pub fn name(&self) -> String {
        self.directory
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }
}

/// A directory that only this user can enter, made if it is not there.
pub fn private_folder(path: &Path) -> Result<()> {
    match DirBuilder::new().recursive(false).mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(error).with_context(|| {
                format!(
                    "cannot make the directory {} (choose another one with --keep)",
                    path.display()
                )
            });
        }
    }
    // Its parent may be writable for all: somebody else may have put something in its place.
    let meta = fs::symlink_metadata(path)?;
    if !meta.is_dir() {
        bail!(
            "{} is in the way: it is no directory; take it away, or choose another one with --keep",
            path.display()
        );
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        bail!(
            "{} belongs to somebody else; choose another directory with --keep",
            path.display()
        );
    }
    if meta.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Makes a directory for a run of `program` below `base`.
pub fn new_run(base: &Path, program: &str) -> Result<PathBuf> {
    new_entry(base, program, |path| {
        DirBuilder::new().mode(0o700).create(path)
    })
}

/// Lets a run of `program` in a directory that a person chose be found by its name: a link below `base`, which it returns. The
/// run before in that directory has lost its record, and so its link.
pub fn new_link(base: &Path, program: &str, directory: &Path) -> Result<PathBuf> {
    for kept in list(base) {
        if kept.elsewhere && fs::read_link(&kept.directory).is_ok_and(|to| to == directory) {
            // Somebody else may have done so just now.
            let _ = fs::remove_file(&kept.directory);
        }
    }
    new_entry(base, program, |path| symlink(directory, path))
}

fn new_entry(
    base: &Path,
    program: &str,
    make: impl Fn(&Path) -> std::io::Result<()>,
) -> Result<PathBuf> {
    private_folder(base)?;
    // The name becomes a part of an option, and is typed by people.
    let plain: String = program
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    let runner = std::process::id();
    for attempt in 0..1000 {
        let name = if attempt == 0 {
            format!("{plain}.{runner}")
        } else {
            format!("{plain}.{runner}.{attempt}")
        };
        let directory = base.join(name);
        match make(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot make {}", directory.display()));
            }
        }
    }
    bail!(
        "{} is full of directories of this name; `freehold run --clean` removes them",
        base.display()
    )
}

/// The profile files in a directory of processes that began at `unix_ns` or later: a person may keep several runs in one.
pub fn profiles_since(directory: &Path, unix_ns: u64) -> Vec<PathBuf> {
    let mut found = profiles(directory);
    found.retain(|profile| began_since(profile, unix_ns));
    found
}

/// The profile files in a directory.
pub fn profiles(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .and_then(|name| name.to_str()?.strip_prefix(PREFIX)?.parse::<u64>().ok())
                .is_some()
        })
        .collect();
    found.sort();
    found
}

fn target(profile: &Path) -> Option<Target> {
    Target::find(profile.to_str()?).ok()
}

pub fn runs(profile: &Path) -> bool {
    matches!(target(profile), Some(Target::Live { .. }))
}

/// Everything that is kept below `base`, the latest first.
pub fn list(base: &Path) -> Vec<Kept> {
    let Ok(entries) = fs::read_dir(base) else {
        return Vec::new();
    };
    let mut found: Vec<Kept> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .map(|directory| look(&directory))
        .collect();
    found.sort_by_key(|kept| {
        std::cmp::Reverse(
            kept.record
                .as_ref()
                .map_or(0, |record| record.begun_unix_ns),
        )
    });
    found
}

/// Of all files there, also those in directories of its own: records of the option flight are in one.
fn bytes_below(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .map(|(path, meta)| {
            if meta.is_dir() {
                bytes_below(&path)
            } else {
                meta.blocks() * 512
            }
        })
        .sum()
}

fn look(directory: &Path) -> Kept {
    let record = Record::read(directory);
    let begun = record.as_ref().map_or(0, |record| record.begun_unix_ns);
    let profiles = profiles_since(directory, begun);
    let bytes = bytes_below(directory);
    let looked_after = match &record {
        Some(record) => {
            record.ended_unix_ns.is_none()
                && process::start_ticks(record.runner)
                    .is_some_and(|start| start == record.runner_start)
        }
        // Its `freehold run` is about to write it.
        None => is_new(directory),
    };
    Kept {
        directory: directory.to_owned(),
        running: looked_after || profiles.iter().any(|profile| runs(profile)),
        profiles: match profiles.len() {
            0 if looked_after => record.as_ref().map_or(0, |it| held_in_memory(it.runner)),
            0 => usize::from(directory.join(SAVED).exists()),
            there => there,
        },
        record,
        bytes,
        elsewhere: directory.is_symlink(),
    }
}

/// True of a directory that was made or changed within the last minute.
fn is_new(directory: &Path) -> bool {
    let changed = fs::metadata(directory).and_then(|meta| meta.modified());
    let age = changed.map(|then| then.elapsed().unwrap_or_default());
    age.is_ok_and(|age| age < Duration::from_secs(60))
}

/// Processes of a run whose profile files its `freehold run` holds in memory.
pub fn held_in_memory(runner: u64) -> usize {
    let entries = fs::read_dir(process::directory(runner).join("fd"));
    let files = entries.into_iter().flatten().flatten();
    let held = files.map(|entry| entry.path()).filter(|path| {
        fs::read_link(path)
            .is_ok_and(|to| to.to_string_lossy().starts_with(&format!("/memfd:{MEMFD}")))
    });
    held.filter(|path| target(path).is_some()).count()
}

/// Removes what has ended, all of it or what `wanted` names; returns how many runs are gone, and the bytes that they took.
pub fn clean(kept: &[Kept], wanted: &[String]) -> Result<(usize, u64)> {
    let mut gone = (0, 0);
    for name in wanted {
        match kept.iter().find(|kept| kept.name() == *name) {
            None => {
                bail!("no data of a run called {name} is kept; `freehold run --list` shows what is")
            }
            Some(kept) if kept.running => bail!("{name} still runs; its data is not removed"),
            Some(_) => {}
        }
    }
    for kept in kept {
        if !kept.running && (wanted.is_empty() || wanted.contains(&kept.name())) {
            let freed = kept
                .remove()
                .with_context(|| format!("cannot remove {}", kept.directory.display()))?;
            gone = (gone.0 + 1, gone.1 + freed);
        }
    }
    Ok(gone)
}

/// Keeps what is kept within its bounds: the oldest runs that have ended go, and links to what is gone. Returns how many runs.
pub fn prune(base: &Path) -> usize {
    prune_to(base, MOST_RUNS, MOST_BYTES)
}

fn prune_to(base: &Path, most_runs: usize, most_bytes: u64) -> usize {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_symlink() && !path.exists() {
            // Somebody else may have done so just now.
            let _ = fs::remove_file(&path);
        }
    }
    let mut gone = 0;
    // Links take no room, and a person who makes many must not lose what is kept for another.
    let (links, runs): (Vec<Kept>, Vec<Kept>) = list(base).into_iter().partition(|it| it.elsewhere);
    for kept_of_a_kind in [links, runs] {
        let (mut runs, mut bytes) = (0, 0);
        for kept in kept_of_a_kind {
            let size = if kept.elsewhere { 0 } else { kept.bytes };
            runs += 1;
            bytes += size;
            if !kept.running && (runs > most_runs || bytes > most_bytes) && kept.remove().is_ok() {
                gone += 1;
                bytes -= size;
            }
        }
    }
    gone
}

/// A run that starts thousands of processes must not fill the memory with their profile files: those of ended
/// processes go, except the largest and `main`. Returns how many went.
pub fn thin(directory: &Path, run: &Thinned) -> usize {
    thin_to(directory, run, MOST_PROFILES)
}

/// Whose profile files go if there are too many.
#[derive(Clone, Copy, Debug)]
pub struct Thinned {
    /// The process that was started, whose profile file stays.
    pub main: Option<u32>,
    /// Those of processes that began before stay: they are of another run.
    pub since_unix_ns: u64,
}

/// `thin` with a bound of the caller's.
pub fn thin_to(directory: &Path, run: &Thinned, most: usize) -> usize {
    let profiles = profiles_since(directory, run.since_unix_ns);
    if profiles.len() <= most {
        return 0;
    }
    let main = run.main.map(|pid| format!("{PREFIX}{pid}"));
    let mut ended: Vec<(u64, PathBuf)> = profiles
        .iter()
        .filter(|profile| {
            !runs(profile) && profile.file_name().and_then(|n| n.to_str()) != main.as_deref()
        })
        .map(|profile| (weight(profile), profile.clone()))
        .collect();
    ended.sort();
    let surplus = profiles.len() - most;
    ended
        .iter()
        .take(surplus)
        .filter(|(_, profile)| fs::remove_file(profile).is_ok())
        .count()
}

/// What a profile file is worth keeping for: the memory its program had at most. One that did not end by itself is
/// worth all.
fn weight(profile: &Path) -> u64 {
    let Some(snapshot) = target(profile).and_then(|target| target.read().ok()) else {
        return 0;
    };
    if !snapshot.ended_by_itself() {
        return u64::MAX;
    }
    let resident = snapshot
        .profile
        .timeline
        .iter()
        .map(|point| point.resident_bytes)
        .max()
        .unwrap_or(0);
    resident.max(snapshot.profile.control.peak_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(base: &Path, name: &str, begun: u64, bytes: usize) -> PathBuf {
        let directory = new_run(base, name).unwrap();
        let record = Record {
            runner: u64::MAX,
            runner_start: 1,
            begun_unix_ns: begun,
            ended_unix_ns: Some(begun + 1),
            ending: Some(Ending::Exited { code: 0 }),
            ..Record::new(vec![name.to_owned()])
        };
        record.write(&directory).unwrap();
        let deeper = directory.join("freehold-flight-1");
        fs::create_dir(&deeper).unwrap();
        fs::write(deeper.join("data"), vec![1; bytes]).unwrap();
        directory
    }

    #[test]
    fn folders_are_private_and_named_after_the_program() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("kept");
        let directory = new_run(&base, "my prog,x=1").unwrap();
        let name = directory.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("my_prog_x_1."), "{name}");
        for path in [&base, &directory] {
            assert_eq!(
                fs::metadata(path).unwrap().permissions().mode() & 0o777,
                0o700
            );
        }
        assert_ne!(new_run(&base, "my prog,x=1").unwrap(), directory);
    }

    #[test]
    fn what_others_could_enter_is_closed_and_what_is_no_folder_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        private_folder(&open).unwrap();
        assert_eq!(
            fs::metadata(&open).unwrap().permissions().mode() & 0o777,
            0o700
        );

        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&open, &link).unwrap();
        let error = private_folder(&link).unwrap_err().to_string();
        assert!(error.contains("is in the way"), "{error}");
    }

    #[test]
    fn the_oldest_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let directories: Vec<PathBuf> = (0..4)
            .map(|i| run(dir.path(), &format!("p{i}"), 1000 + i, 10_000))
            .collect();
        assert_eq!(list(dir.path())[0].directory, directories[3]);
        assert_eq!(prune_to(dir.path(), 3, u64::MAX), 1);
        assert!(!directories[0].exists());
        assert_eq!(prune_to(dir.path(), 16, 40_000), 1);
        assert!(!directories[1].exists() && directories[2].exists() && directories[3].exists());
        assert_eq!(prune_to(dir.path(), 16, u64::MAX), 0);
    }

    #[test]
    fn a_link_goes_and_what_it_leads_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let theirs = tempfile::tempdir().unwrap();
        let directories = ["a", "b", "c"].map(|name| run(theirs.path(), name, 1000, 10_000));
        for directory in &directories {
            new_link(dir.path(), "linked", directory).unwrap();
        }
        let ours = run(dir.path(), "ours", 1, 10_000);
        assert_eq!(list(dir.path()).len(), 4);
        // A second run in the same directory takes the place of the first.
        new_link(dir.path(), "again", &directories[0]).unwrap();
        assert_eq!(list(dir.path()).len(), 4);
        // Links neither count nor weigh for what is kept here.
        assert_eq!(prune_to(dir.path(), 3, 20_000), 0);
        assert_eq!(prune_to(dir.path(), 2, 20_000), 1);
        fs::remove_dir_all(&directories[0]).unwrap();
        prune_to(dir.path(), 2, 20_000);
        let links = list(dir.path());
        let links = links.iter().filter(|kept| kept.elsewhere).count();
        let entries = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(entries, links + 1);
        assert_eq!(clean(&list(dir.path()), &[]).unwrap().0, links + 1);
        assert!(!ours.exists() && directories[1].exists() && directories[2].exists());
    }

    #[test]
    fn a_directory_without_a_record_yet_is_that_of_a_run_that_begins() {
        let dir = tempfile::tempdir().unwrap();
        let directory = new_run(dir.path(), "begins").unwrap();
        assert_eq!(prune_to(dir.path(), 0, 0), 0);
        let old = std::time::SystemTime::now() - Duration::from_secs(61);
        fs::File::open(&directory)
            .unwrap()
            .set_modified(old)
            .unwrap();
        assert_eq!(prune_to(dir.path(), 0, 0), 1);
    }

    #[test]
    fn what_runs_is_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        let directory = new_run(dir.path(), "alive").unwrap();
        // Looked after by this very process.
        Record::new(vec!["alive".to_owned()])
            .write(&directory)
            .unwrap();
        assert!(list(dir.path())[0].running);
        assert_eq!(prune_to(dir.path(), 0, 0), 0);
        assert_eq!(clean(&list(dir.path()), &[]).unwrap(), (0, 0));
        let name = list(dir.path())[0].name();
        assert!(
            clean(&list(dir.path()), &[name])
                .unwrap_err()
                .to_string()
                .contains("still runs")
        );
        assert!(directory.exists());
    }

    #[test]
    fn cleaning_takes_what_is_named_or_all() {
        let dir = tempfile::tempdir().unwrap();
        let first = run(dir.path(), "one", 1, 10);
        let second = run(dir.path(), "two", 2, 10);
        let name = first.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(clean(&list(dir.path()), &["three".to_owned()]).is_err());
        assert_eq!(clean(&list(dir.path()), &[name]).unwrap().0, 1);
        assert!(!first.exists() && second.exists());
        assert_eq!(clean(&list(dir.path()), &[]).unwrap().0, 1);
        assert!(list(dir.path()).is_empty());
    }
}
