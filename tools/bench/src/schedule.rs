//! Carries a run out: round by round, workload by workload, the allocators in turn.
//!
//! ```text
//! round 1:  w1: A B C   w2: B C A   w3: C A B
//! round 2:  w1: B C A   w2: C A B   ...            a group (one workload, all allocators) begins only
//! ...                                              when the budget still covers what it took before
//! ```
//!
//! The first of a group finds the machine's memory as another workload has left it. Where that is in small pieces, the kernel needs
//! longer to make huge pages of it: three times the time of a whole run was seen. So each group begins with the next allocator.
//!
//! A group is the unit of comparison: its runs follow each other within seconds, so that the ratios inside it are
//! free of what the machine does over minutes. Either all of a group is measured or none. An earlier record's groups are
//! passed over (`resume`).

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::allocators::reasons;
use crate::launcher::{self, Launcher};
use crate::machine::{self, HugePageMode};
use crate::memory;
use crate::progress::Progress;
use crate::record::{Allocator, FORMAT, Outcome, Record, Skipped, Workload};
use crate::resume;
use crate::selection::Selection;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What is measured beside the workloads, and what has been measured before.
pub struct Asked {
    pub allocators: Vec<Allocator>,
    pub skipped: Vec<Skipped>,
    pub earlier: Option<Record>,
}

pub fn run(
    root: &Path,
    launcher: &Launcher,
    selection: &Selection,
    asked: Asked,
    out: &Path,
) -> anyhow::Result<Record> {
    // A second handler in one process would be an error, and tests run several schedules.
    let _ = ctrlc::set_handler(|| {
        INTERRUPTED.store(true, Ordering::SeqCst);
        launcher::interrupt();
    });
    let _mode = selection
        .huge_pages
        .map(|mode| HugePageMode::set(mode.word()))
        .transpose()?;
    let machine = machine::describe(root);
    let warmed = if selection.warm { memory::warm() } else { 0 };
    let started = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |t| t.as_secs());
    let mut record = Record {
        format: FORMAT,
        started,
        seconds: 0.0,
        interrupted: false,
        machine,
        settings: selection.settings(warmed),
        allocators: asked.allocators,
        workloads: selection.workloads.clone(),
        runs: Vec::new(),
        skipped: [asked.skipped, selection.skipped.clone()].concat(),
    };
    drop_unusable(&mut record, launcher)?;
    if let Some(earlier) = asked.earlier {
        record.started = earlier.started;
        record.seconds = earlier.seconds;
        record.machine = earlier.machine;
        record.runs = earlier.runs;
    }
    let path = out.join(format!("{}.json", crate::args::file_stem(&record)));
    Schedule::new(launcher, selection, &record).carry_out(&mut record, &path)?;
    Ok(record)
}

/// Loads each library once into a trivial program. That fills the page cache, so that the first measured run does not
/// pay for reading the file; and a library that cannot even do this is left out with the reason.
fn drop_unusable(record: &mut Record, launcher: &Launcher) -> anyhow::Result<()> {
    let trivial = Workload {
        name: "trivial".into(),
        family: "trivial".into(),
        program: "true".into(),
        args: Vec::new(),
        quick: true,
        real: true,
        threads: None,
        setup: None,
        verify: None,
        places_library: false,
    };
    let (mut usable, before) = (Vec::new(), record.skipped.len());
    for allocator in std::mem::take(&mut record.allocators) {
        let run = launcher.measure(&trivial, &allocator, 0)?;
        if run.outcome.is_ok() {
            usable.push(allocator);
        } else {
            let reason = format!(
                "/bin/true does not run under it: {} {}",
                run.outcome.word(),
                run.outcome.reason()
            );
            record.skipped.push(Skipped {
                name: allocator.name,
                reason,
            });
        }
    }
    anyhow::ensure!(
        !usable.is_empty(),
        "no allocator could be loaded: {}",
        reasons(&record.skipped[before..])
    );
    record.allocators = usable;
    Ok(())
}

struct Schedule<'a> {
    launcher: &'a Launcher,
    selection: &'a Selection,
    progress: Progress,
    begun: Instant,
    /// Seconds that a workload's group took the last time.
    cost: HashMap<String, f64>,
    /// The most memory that a workload has needed under any allocator.
    peak: HashMap<String, u64>,
    /// Pairs that failed once: they are reported, and not tried again.
    failed: HashSet<(String, String)>,
    /// Groups so far: workload and round.
    done: HashSet<(String, usize)>,
    /// What the record took before it was gone on with.
    seconds_before: f64,
    last_saved: Instant,
}

impl<'a> Schedule<'a> {
    fn new(launcher: &'a Launcher, selection: &'a Selection, record: &Record) -> Self {
        let total = selection.repeats * record.workloads.len() * record.allocators.len();
        Self {
            launcher,
            selection,
            progress: Progress::new(total, selection.budget),
            begun: Instant::now(),
            cost: HashMap::new(),
            peak: HashMap::new(),
            failed: HashSet::new(),
            done: HashSet::new(),
            seconds_before: record.seconds,
            last_saved: Instant::now(),
        }
    }

    /// Learns from the runs that the record has already.
    fn recall(&mut self, record: &Record) {
        self.done.extend(resume::groups(record));
        self.progress
            .forget(self.done.len() * record.allocators.len());
        for run in &record.runs {
            let peak = self.peak.entry(run.workload.clone()).or_default();
            *peak = run.peak_rss.max(*peak);
            if !run.outcome.is_ok() {
                self.failed
                    .insert((run.workload.clone(), run.allocator.clone()));
            }
            if run.round == 0 {
                *self.cost.entry(run.workload.clone()).or_default() += run.process_wall;
            }
        }
    }

    fn carry_out(mut self, record: &mut Record, path: &Path) -> anyhow::Result<()> {
        self.set_up(record);
        self.recall(record);
        for round in 0..self.selection.repeats {
            for workload in self.in_order(record) {
                if stopped() {
                    break;
                }
                if self.done.contains(&(workload.name.clone(), round)) {
                    continue;
                }
                if !self.affordable(&workload.name) {
                    self.leave_out(record, &workload.name, round);
                    continue;
                }
                self.group(record, &workload, round)?;
                self.save_now_and_then(record, path)?;
            }
            record.judge_checksums();
        }
        self.progress.finish();
        record.interrupted = stopped();
        record.seconds = self.seconds();
        if record.interrupted {
            self.progress.say("interrupted; what was measured is kept");
        }
        record.save(path)
    }

    /// Workloads whose input cannot be made are left out with the reason.
    fn set_up(&mut self, record: &mut Record) {
        let mut usable = Vec::new();
        for workload in std::mem::take(&mut record.workloads) {
            match self.launcher.set_up(&workload) {
                Ok(()) => usable.push(workload),
                // What an earlier piece has measured stays, without a further round.
                Err(_) if record.runs.iter().any(|run| run.workload == workload.name) => {
                    for round in 0..self.selection.repeats {
                        self.done.insert((workload.name.clone(), round));
                    }
                    usable.push(workload);
                }
                Err(error) => {
                    self.progress
                        .forget(self.selection.repeats * record.allocators.len());
                    record.skipped.push(Skipped {
                        name: workload.name,
                        reason: format!("{error:#}"),
                    });
                }
            }
        }
        record.workloads = usable;
    }

    /// The first round goes as the record lists them. Later ones go from cheap to dear, so that what is left of the
    /// budget at the end buys one more round for as many workloads as possible.
    fn in_order(&self, record: &Record) -> Vec<Workload> {
        let mut workloads = record.workloads.clone();
        let cost = |workload: &Workload| self.cost.get(&workload.name).copied().unwrap_or(0.0);
        workloads.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        workloads
    }

    fn affordable(&self, workload: &str) -> bool {
        let cost = self.cost.get(workload).copied().unwrap_or(0.0);
        self.begun.elapsed().as_secs_f64() + cost <= self.selection.budget
    }

    /// A further round that does not fit only makes intervals wider. A workload that was never measured is said to be
    /// skipped: no table may look complete when it is not.
    fn leave_out(&mut self, record: &mut Record, workload: &str, round: usize) {
        self.progress.forget(record.allocators.len());
        if round == 0 {
            let reason = "the time budget was used up; --budget gives more".to_owned();
            record.skipped.push(Skipped {
                name: workload.to_owned(),
                reason,
            });
        }
    }

    fn group(
        &mut self,
        record: &mut Record,
        workload: &Workload,
        round: usize,
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut allocators = record.allocators.clone();
        allocators.rotate_left(self.done.len() % record.allocators.len());
        self.done.insert((workload.name.clone(), round));
        for allocator in allocators {
            let pair = (workload.name.clone(), allocator.name.clone());
            if stopped() || self.failed.contains(&pair) {
                self.progress.forget(1);
                continue;
            }
            self.progress.at(&workload.name, &allocator.name);
            let peak = self.peak.entry(workload.name.clone()).or_default();
            if self.selection.warm {
                memory::warm_for(*peak);
            }
            let run = self.launcher.measure(workload, &allocator, round)?;
            if stopped() {
                // Killed in the middle; that is no failure of the allocator's.
                break;
            }
            *peak = run.peak_rss.max(*peak);
            if !matches!(run.outcome, Outcome::Ok) {
                self.progress.say(&format!(
                    "{} under {}: {} {}",
                    pair.0,
                    pair.1,
                    run.outcome.word(),
                    run.outcome.reason()
                ));
                self.failed.insert(pair);
            }
            record.runs.push(run);
            self.progress.step();
        }
        self.cost
            .insert(workload.name.clone(), begun.elapsed().as_secs_f64());
        Ok(())
    }

    /// Of all pieces of the run.
    fn seconds(&self) -> f64 {
        self.seconds_before + self.begun.elapsed().as_secs_f64()
    }

    /// The record is safe against whatever ends the harness, at the price of writing it every few seconds.
    fn save_now_and_then(&mut self, record: &mut Record, path: &Path) -> anyhow::Result<()> {
        if self.last_saved.elapsed().as_secs() >= 10 {
            self.last_saved = Instant::now();
            record.interrupted = true;
            record.seconds = self.seconds();
            record.save(path)?;
        }
        Ok(())
    }
}

fn stopped() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}
