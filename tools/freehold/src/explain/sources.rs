//! Fetches everything that an explanation is made of: the profile file, the kernel's statistics, and who else
//! allocates.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};
use profile_file::heaps::Share;
use profile_file::page_map::PageMap;
use profile_file::{Control, FindError, Snapshot, Target, names, process};

use super::kinds::{self, Ours};
use super::mappings::{self, Memory};
use super::verdict::Presence;
use crate::doctor;
use crate::leaks::judged;
use crate::leaks::text::before_clearing;

/// How long a program may take to answer with fresh statistics. One that does not allocate does not answer.
const PATIENCE: Duration = Duration::from_millis(300);

pub struct Sources {
    /// How one names it to another command.
    pub word: String,
    pub pid: Option<u32>,
    pub program: String,
    pub presence: Presence,
    pub snapshot: Option<Snapshot>,
    /// What the kernel says; none of a program that is gone and left nothing but its profile file.
    pub memory: Option<Memory>,
    pub pages: Option<PageMap>,
    pub ours: Ours,
    /// What heaps of the program's own have.
    pub share: Share,
    /// Who else allocates in the process, in words.
    pub allocator: Option<String>,
    /// What the reader should know about where the statistics are from.
    pub notes: Vec<String>,
}

impl Sources {
    /// What may have become of memory that was counted and is not there. The kernel's sum has no pages that were only read.
    pub fn less(&self, amount: &str) -> String {
        let why = match &self.pages {
            Some(pages) if !pages.tells_zero_pages() => {
                "returned to the OS since, never touched, or only read, which Linux does not tell before 6.7"
            }
            _ => "returned to the OS since, or never touched",
        };
        format!("{amount} less are in memory than were counted: {why}")
    }
}

/// Finds what a person means and reads it.
pub fn fetch(word: Option<&str>) -> Result<Sources> {
    match Target::find_or_only(word) {
        Ok(Target::Live { pid, profile }) => of_live(u32::try_from(pid)?, &profile),
        Ok(target) => of_left(&target),
        // A process without a profile file can be explained too, only not as far.
        Err(FindError::NotObserved { pid, .. }) => {
            of_process(u32::try_from(pid)?, Presence::Unobserved)
        }
        Err(FindError::NotOurs { pid, .. }) => of_process(u32::try_from(pid)?, Presence::Absent),
        Err(error) => Err(error.into()),
    }
}

fn of_live(pid: u32, profile: &Path) -> Result<Sources> {
    let mut notes = Vec::new();
    // Asking is a favour of the program; the statistics of before are right too, only older.
    match Control::open(profile) {
        Ok(control) => {
            control.refresh(PATIENCE);
        }
        Err(error) => notes.push(format!("no fresh statistics could be asked for: {error}")),
    }
    let mut memory = mappings::read(pid)?;
    let target = Target::Live {
        pid: u64::from(pid),
        profile: profile.to_owned(),
    };
    let held = target.hold()?;
    let snapshot = held.read()?;
    // A busy program has counted again meanwhile: then the kernel's sum has to be of this moment too.
    let counted = snapshot.profile.statistics.as_ref();
    if counted.is_some_and(|it| it.taken_ns > memory.read_ns) && snapshot.profile.absent.is_none() {
        memory = mappings::read(pid).unwrap_or(memory);
    }
    let share = held.heaps(&snapshot).map_or_else(
        |error| {
            notes.extend(untold(&snapshot, &error.to_string()));
            Share::default()
        },
        |heaps| heaps.share,
    );
    let pages = PageMap::open(u64::from(pid)).ok();
    if pages.is_none() {
        notes.push(
            "which pages are in memory may not be read: blocks are taken to be wholly touched"
                .to_owned(),
        );
    }
    Ok(Sources {
        word: pid.to_string(),
        pid: Some(pid),
        program: names::own_of_process(u64::from(pid)),
        presence: Presence::Observed,
        ours: ours(&snapshot, &memory, Some(profile.to_owned())),
        snapshot: Some(snapshot),
        share,
        pages,
        allocator: other_allocator(pid),
        memory: Some(memory),
        notes,
    })
}

fn of_process(pid: u32, presence: Presence) -> Result<Sources> {
    let memory = mappings::read(pid)?;
    let window = kinds::find_window(&memory.mappings);
    // Linked into the program, it has no file of its own among the mappings, but its window shows.
    let presence = if window.is_some() {
        Presence::Unobserved
    } else {
        presence
    };
    Ok(Sources {
        word: pid.to_string(),
        pid: Some(pid),
        program: names::own_of_process(u64::from(pid)),
        presence,
        snapshot: None,
        share: Share::default(),
        ours: Ours {
            window: window.unwrap_or_default(),
            profile: None,
        },
        pages: None,
        allocator: other_allocator(pid),
        memory: Some(memory),
        notes: Vec::new(),
    })
}

/// A profile file that a program left, or a saved snapshot, which may carry what the kernel said at that time.
fn of_left(target: &Target) -> Result<Sources> {
    let (snapshot, cleared) = judged(target.read()?);
    let mut notes: Vec<String> = cleared.iter().map(before_clearing).collect();
    let memory = snapshot.process.as_ref().and_then(|facts| {
        let mappings = mappings::parse(facts.smaps.as_bytes())
            .ok()
            .filter(|found| !found.is_empty())?;
        let rollup = mappings::parse(facts.smaps_rollup.as_bytes())
            .ok()
            .and_then(|found| found.into_iter().next());
        Some(Memory::new(mappings, rollup, snapshot.reading.monotonic_ns))
    });
    if memory.is_none() {
        notes.push(
            "the program is gone, and what the kernel would say of it too: these are the allocator's last statistics"
                .to_owned(),
        );
    }
    let found = memory
        .as_ref()
        .map_or(Ours::default(), |memory| ours(&snapshot, memory, None));
    let share = snapshot.heaps.as_ref().map(|heaps| heaps.share);
    if share.is_none() {
        notes.extend(untold(&snapshot, "the program does not run any more"));
    }
    Ok(Sources {
        word: target.word(),
        pid: u32::try_from(snapshot.pid()).ok().filter(|pid| *pid != 0),
        program: snapshot.program(),
        presence: Presence::Observed,
        snapshot: Some(snapshot),
        memory,
        pages: None,
        ours: found,
        share: share.unwrap_or_default(),
        allocator: None,
        notes,
    })
}

/// Of a program with heaps that cannot be read: their free space counts as live.
fn untold(snapshot: &Snapshot, reason: &str) -> Option<String> {
    let has_heaps = snapshot.samples.iter().any(|sample| sample.heap != 0);
    has_heaps.then(|| {
        format!(
            "what is free in heaps (fh_heap_new) counts as live, because it cannot be told: {reason}"
        )
    })
}

fn ours(snapshot: &Snapshot, memory: &Memory, profile: Option<PathBuf>) -> Ours {
    let header = &snapshot.profile.header;
    if header.window_bytes > 0 {
        return Ours::new(header.window_begin, header.window_bytes, profile);
    }
    let window: Range<u64> = kinds::find_window(&memory.mappings).unwrap_or_default();
    Ours { window, profile }
}

fn program_of(pid: u32) -> String {
    fs::read_link(format!("/proc/{pid}/exe")).map_or_else(
        |_| {
            process::text_of(Path::new(&format!("/proc/{pid}/comm")))
                .unwrap_or_default()
                .trim_end()
                .to_owned()
        },
        |path| path.display().to_string(),
    )
}

/// Interpreters whose own heap does not come from malloc, by the beginning of the program's name.
const RUNTIMES: [(&str, &str); 5] = [
    (
        "python",
        "Python keeps arenas of its own for small objects (PYTHONMALLOC=malloc would leave them to malloc)",
    ),
    (
        "node",
        "V8 keeps the heap of JavaScript in mappings of its own",
    ),
    ("java", "the Java heap is in mappings of its own"),
    ("beam", "Erlang has carriers of its own"),
    (
        "php",
        "PHP keeps arenas of its own (USE_ZEND_ALLOC=0 would leave them to malloc)",
    ),
];

fn other_allocator(pid: u32) -> Option<String> {
    let program = program_of(pid);
    let name = program.rsplit('/').next().unwrap_or_default();
    let known = doctor::others_in_process(pid);
    known.or_else(|| {
        RUNTIMES
            .iter()
            .find(|(begin, _)| name.starts_with(begin))
            .map(|(_, what)| (*what).to_owned())
    })
}

/// For errors that name what was looked for.
pub fn explain_failure(error: anyhow::Error, word: Option<&str>) -> anyhow::Error {
    match (error.downcast_ref::<FindError>(), word) {
        (Some(FindError::Forbidden { .. }), _) => {
            anyhow!("{error}; try it as the process's owner or as root")
        }
        _ => error,
    }
}
