//! Which live blocks can the program still find? It is asked itself: a fork of it looks through its frozen copy.

use std::io::{IsTerminal, Write};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use profile_file::{Control, LiveSample, Snapshot, Target, layout, process};
use serde::Serialize;

use crate::wording::{bytes, duration};

/// The answer, as far as it is about the whole program. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scan {
    pub reachable_blocks: u64,
    pub reachable_bytes: u64,
    pub unreachable_blocks: u64,
    pub unreachable_bytes: u64,
    /// For how long the program's thread was held up.
    pub held_up: f64,
    pub searched_bytes: u64,
    pub skipped_bytes: u64,
    pub seconds: f64,
}

/// The answer about the samples of one site, weighted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Reach {
    pub reachable_bytes: f64,
    pub unreachable_bytes: f64,
    pub unreachable_error: f64,
    pub unreachable_samples: usize,
}

/// Younger blocks may be known to a register of a running thread only.
const LEAST_AGE_NS: u64 = 100_000_000;

impl Scan {
    /// The last scan that a profile file tells of.
    pub fn of(snapshot: &Snapshot) -> Option<Scan> {
        let scan = &snapshot.profile.scan;
        (scan.state == layout::SCAN_DONE && scan.number != 0).then(|| Scan {
            reachable_blocks: scan.reachable_blocks,
            reachable_bytes: scan.reachable_bytes,
            unreachable_blocks: scan.unreachable_blocks,
            unreachable_bytes: scan.unreachable_bytes,
            held_up: scan.fork_ns as f64 / 1e9,
            searched_bytes: scan.root_bytes + scan.block_bytes,
            skipped_bytes: scan.skipped_bytes,
            seconds: scan.scan_ns as f64 / 1e9,
        })
    }

    pub fn of_samples(&self, samples: &[&LiveSample]) -> Option<Reach> {
        let mut reach = Reach::default();
        let mut judged = false;
        let mut variance = 0.0;
        for sample in samples.iter().filter(|s| s.age_ns >= LEAST_AGE_NS) {
            match sample.reachable {
                Some(true) => reach.reachable_bytes += sample.weight.bytes,
                Some(false) => {
                    reach.unreachable_bytes += sample.weight.bytes;
                    reach.unreachable_samples += 1;
                    variance += sample.weight.variance;
                }
                None => continue,
            }
            judged = true;
        }
        reach.unreachable_error = variance.sqrt();
        judged.then_some(reach)
    }
}

/// What a scan knows before it is finished: what it has reached is reachable, and of the rest nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Unfinished {
    /// Seconds that it was given.
    pub waited: f64,
    pub searched_bytes: u64,
    pub reachable_bytes: u64,
    /// Of blocks that the allocator counted as live.
    pub live_bytes: u64,
}

impl Unfinished {
    fn of(snapshot: &Snapshot, waited: Duration) -> Unfinished {
        let scan = &snapshot.profile.scan;
        let statistics = snapshot.profile.statistics.as_ref();
        Unfinished {
            waited: waited.as_secs_f64(),
            searched_bytes: scan.searched_so_far,
            reachable_bytes: scan.reached_so_far,
            live_bytes: statistics.map_or(0, |f| f.live_bytes.saturating_add(f.huge_bytes)),
        }
    }

    /// What it could not say, and what it can.
    pub fn text(&self) -> String {
        let unknown = self.live_bytes.saturating_sub(self.reachable_bytes);
        format!(
            "the scan was not finished after {}, {} into the program's memory: {} of live blocks can be reached for certain, \
             of the other {} it is not known. Wait for longer with --patience",
            duration(self.waited),
            bytes(self.searched_bytes as f64),
            bytes(self.reachable_bytes as f64),
            bytes(unknown as f64)
        )
    }
}

/// Bytes a second that a scan looks through at least.
const SLOWEST: u64 = 64 << 20;
/// How long the program has to take the question up, and what a scan of a small heap is given.
const LEAST: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// How long a search of so much may take. A large program takes longer: the more so where others want the CPU too.
fn allowed(resident: u64, patience: Option<Duration>) -> Duration {
    patience.unwrap_or(LEAST + Duration::from_secs(resident / SLOWEST))
}

/// Asks the program for a scan and waits for the answer. What there is of it when patience is over is given back.
pub fn ask(target: &Target, patience: Option<Duration>) -> Result<Option<Unfinished>> {
    let path = target.profile_path().context(
        "reachability needs a program that runs: a fork of it has to look through its memory",
    )?;
    let control = Control::open(path)?;
    let before = target.read()?;
    // Variables and stacks are looked through as well, and other allocators' memory.
    let resident = target.pid().and_then(process::resident);
    let statistics = before.profile.statistics.as_ref();
    let resident = resident
        .or(statistics.map(|f| f.resident_bytes))
        .unwrap_or(0);
    let search = allowed(resident, patience);
    let wanted = control.ask_scan();
    let begin = Instant::now();
    let mut shown = Progress::new();
    loop {
        let (number, state) = control.scan_state();
        let taken_up = number >= wanted;
        if taken_up && state == layout::SCAN_DONE {
            return Ok(None);
        }
        if taken_up && state == layout::SCAN_FAILED {
            let error = target.read()?.profile.scan.error as i32;
            bail!(
                "the scan failed in the program: {}",
                std::io::Error::from_raw_os_error(error)
            );
        }
        if taken_up && begin.elapsed() >= search {
            return Ok(Some(Unfinished::of(&target.read()?, search)));
        }
        let first = patience.unwrap_or(LEAST);
        if !taken_up && begin.elapsed() >= first {
            bail!(
                "the program has not taken up the question in {} s: it sleeps or computes, and can only answer when it next \
                 allocates. Without --reachability the verdicts need no answer",
                first.as_secs_f64()
            );
        }
        shown.update(&control, resident, taken_up, begin.elapsed());
        thread::sleep(PAUSE);
    }
}

/// A line that says how far it is, on a terminal only.
struct Progress {
    shown: bool,
    last: Option<Instant>,
}

impl Progress {
    const PERIOD: Duration = Duration::from_millis(200);

    fn new() -> Progress {
        Progress {
            shown: std::io::stderr().is_terminal(),
            last: None,
        }
    }

    fn update(&mut self, control: &Control, resident: u64, taken_up: bool, elapsed: Duration) {
        if !self.shown || self.last.is_some_and(|last| last.elapsed() < Self::PERIOD) {
            return;
        }
        self.last = Some(Instant::now());
        let text = if taken_up {
            so_far(control.scan_searched(), resident, elapsed)
        } else {
            "asking the program".to_owned()
        };
        tell!("\r\x1b[K{text}");
        let _ = std::io::stderr().flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.last.is_some() {
            tell!("\r\x1b[K");
            let _ = std::io::stderr().flush();
        }
    }
}

fn so_far(searched: u64, resident: u64, elapsed: Duration) -> String {
    format!(
        "looking through the program's memory: {} of at most {}, for {}",
        bytes(searched as f64),
        bytes(resident.max(searched) as f64),
        duration(elapsed.as_secs_f64())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_grows_with_the_program_unless_it_is_given() {
        let seconds = |resident, given: Option<u64>| {
            allowed(resident, given.map(Duration::from_secs)).as_secs()
        };
        assert_eq!(seconds(0, None), 10);
        assert_eq!(seconds(64 << 30, None), 10 + 1024);
        assert_eq!(seconds(64 << 30, Some(3)), 3);
    }

    #[test]
    fn what_is_known_of_a_scan_that_is_not_finished_is_said() {
        let unfinished = Unfinished {
            waited: 3.0,
            searched_bytes: 40 << 20,
            reachable_bytes: 30 << 20,
            live_bytes: 100 << 20,
        };
        insta::assert_snapshot!(unfinished.text(), @"the scan was not finished after 3.0 s, 40.0 MiB into the program's memory: 30.0 MiB of live blocks can be reached for certain, of the other 70.0 MiB it is not known. Wait for longer with --patience");
        insta::assert_snapshot!(so_far(40 << 20, 200 << 20, Duration::from_secs(2)), @"looking through the program's memory: 40.0 MiB of at most 200.0 MiB, for 2.0 s");
    }
}
