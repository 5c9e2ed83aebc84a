//! Which live blocks can the program still find? It is asked itself: a fork of it looks through its frozen copy.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use profile_file::{Control, LiveSample, Snapshot, Target, layout};
use serde::Serialize;

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

/// Bytes a second that a scan looks through at least.
const SLOWEST: u64 = 64 << 20;

/// Asks the program for a scan and waits for the answer.
pub fn ask(target: &Target, patience: Duration) -> Result<()> {
    let path = target.profile_path().context(
        "reachability needs a program that runs: a fork of it has to look through its memory",
    )?;
    let control = Control::open(path)?;
    let wanted = control.ask_scan();
    let begin = Instant::now();
    // A large heap takes longer: the more so where others want the processor too.
    let heap = target
        .read()?
        .profile
        .statistics
        .map_or(0, |f| f.live_bytes.saturating_add(f.huge_bytes));
    let search = patience + Duration::from_secs(heap / SLOWEST);
    loop {
        let (number, state) = control.scan_state();
        let taken_up = number >= wanted;
        if taken_up && state == layout::SCAN_DONE {
            return Ok(());
        }
        if taken_up && state == layout::SCAN_FAILED {
            let error = target.read()?.profile.scan.error as i32;
            bail!(
                "the scan failed in the program: {}",
                std::io::Error::from_raw_os_error(error)
            );
        }
        let allowed = if taken_up { search } else { patience };
        if begin.elapsed() >= allowed {
            give_up(taken_up, allowed)?;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn give_up(taken_up: bool, patience: Duration) -> Result<()> {
    let seconds = patience.as_secs_f64();
    if taken_up {
        bail!("the scan is not finished after {seconds} s; wait for longer with --patience");
    }
    bail!(
        "the program has not taken up the question in {seconds} s: it sleeps or computes, and can only answer when it \
         next allocates. Without --reachability the verdicts need no answer"
    )
}
