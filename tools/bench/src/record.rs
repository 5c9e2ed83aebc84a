//! The record of a run: what was measured, on what, with which settings. One JSON file a run.
//!
//! Only raw figures are kept here. The equation that holds: `runs` has at most one entry for each triple of
//! (workload, allocator, round), and each name in it is found in `workloads` and `allocators`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::files;

/// Raised when a field changes its meaning; readers refuse files of another number.
pub const FORMAT: u32 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    pub format: u32,
    /// Seconds since 1970, so that files sort and compare without a calendar.
    pub started: u64,
    pub seconds: f64,
    /// True when the run ended early, by Ctrl-C or because its time budget was used up in the first round.
    pub interrupted: bool,
    pub machine: Machine,
    pub settings: Settings,
    pub allocators: Vec<Allocator>,
    pub workloads: Vec<Workload>,
    pub runs: Vec<Run>,
    pub skipped: Vec<Skipped>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    pub system: String,
    pub libc: String,
    pub compiler: String,
    pub transparent_huge_pages: String,
    pub virtual_machine: bool,
    /// Load average before the start: a machine that is busy with something else measures that as well.
    pub load_before: f64,
    /// The commit that the working tree stood at, when git knows it.
    pub revision: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Settings {
    pub mode: String,
    pub repeats: usize,
    pub budget_seconds: f64,
    pub timeout_seconds: f64,
    pub warmed_bytes: u64,
    pub reference: String,
    pub patterns: Vec<String>,
}

/// Where an allocator comes from decides how its row is coloured and whether it counts as a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Ours,
    System,
    Peer,
    Package,
    Ancestor,
    Given,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Allocator {
    pub name: String,
    pub label: String,
    pub version: String,
    pub origin: Origin,
    /// What LD_PRELOAD is set to; empty for the system's own.
    pub library: String,
    pub built_with: String,
    /// What FREEHOLD is set to for it; without any it stays as it is.
    #[serde(default)]
    pub options: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Workload {
    pub name: String,
    pub family: String,
    pub program: String,
    pub args: Vec<String>,
    pub quick: bool,
    pub real: bool,
    /// The number of threads when the arguments name it: what scaling curves are drawn over.
    pub threads: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub setup: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verify: Option<String>,
    /// The program places the library itself, by the variable BENCH_PRELOAD.
    #[serde(default)]
    pub places_library: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "how", content = "why")]
pub enum Outcome {
    Ok,
    Crash(String),
    Failed(String),
    Timeout,
    WrongChecksum(String),
}

impl Outcome {
    pub fn is_ok(&self) -> bool {
        *self == Self::Ok
    }

    /// The word that stands in a table where a figure would stand.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Crash(_) => "crash",
            Self::Failed(_) => "failed",
            Self::Timeout => "time-out",
            Self::WrongChecksum(_) => "wrong sum",
        }
    }

    pub fn reason(&self) -> &str {
        match self {
            Self::Ok | Self::Timeout => "",
            Self::Crash(why) | Self::Failed(why) | Self::WrongChecksum(why) => why,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    pub workload: String,
    pub allocator: String,
    pub round: usize,
    pub outcome: Outcome,
    /// Seconds of the measured section where the workload reports them, else of the whole process.
    pub wall: f64,
    pub cpu: f64,
    /// The following are the kernel's figures for the whole process and the children it waited for.
    pub process_wall: f64,
    pub user: f64,
    pub system: f64,
    pub peak_rss: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub switches_voluntary: u64,
    pub switches_forced: u64,
    pub check: String,
    /// All else that the workload said: ops, ns_per_op, live_bytes, rss@moment, private_dirty@moment, ...
    pub figures: BTreeMap<String, f64>,
    /// Resident bytes over time, as pairs of seconds and bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    pub name: String,
    pub reason: String,
}

impl Record {
    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string(self)?;
        files::write(path, &text)
    }

    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let record: Self = serde_json::from_str(&text)
            .with_context(|| format!("{} is no record of a benchmark run", path.display()))?;
        anyhow::ensure!(
            record.format == FORMAT,
            "{} has format {}, this program reads {FORMAT}",
            path.display(),
            record.format
        );
        Ok(record)
    }

    pub fn allocator(&self, name: &str) -> Option<&Allocator> {
        self.allocators.iter().find(|a| a.name == name)
    }

    /// Marks runs whose checksum differs from what most allocators computed for the same workload.
    ///
    /// One vote an allocator; at a draw the system's own decides, because it was there first. Called after each
    /// round, so it first takes back its own earlier verdicts: a majority may have turned.
    pub fn judge_checksums(&mut self) {
        let names: Vec<String> = self.workloads.iter().map(|w| w.name.clone()).collect();
        for name in names {
            let Some(expected) = self.expected_checksum(&name) else {
                continue;
            };
            for run in self
                .runs
                .iter_mut()
                .filter(|r| r.workload == name && !r.check.is_empty())
            {
                let judged = matches!(run.outcome, Outcome::Ok | Outcome::WrongChecksum(_));
                if judged && run.check != expected {
                    run.outcome =
                        Outcome::WrongChecksum(format!("{} instead of {expected}", run.check));
                } else if judged {
                    run.outcome = Outcome::Ok;
                }
            }
        }
    }

    fn expected_checksum(&self, workload: &str) -> Option<String> {
        let mut votes: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
        for allocator in &self.allocators {
            let mut finished = self.runs.iter().filter(|r| {
                r.workload == workload
                    && r.allocator == allocator.name
                    && !r.check.is_empty()
                    && matches!(r.outcome, Outcome::Ok | Outcome::WrongChecksum(_))
            });
            if let Some(run) = finished.next() {
                let vote = votes.entry(&run.check).or_default();
                vote.0 += 1;
                vote.1 |= allocator.origin == Origin::System;
            }
        }
        votes
            .into_iter()
            .max_by_key(|(_, vote)| *vote)
            .map(|(check, _)| check.to_owned())
    }
}

/// A name for messages: "mimalloc 3 (3.3.2)".
pub fn label_with_version(allocator: &Allocator) -> String {
    if allocator.version.is_empty() {
        allocator.label.clone()
    } else {
        format!("{} ({})", allocator.label, allocator.version)
    }
}

/// A record of one workload "w" under allocators with the given CPU times: for tests of what reads records.
#[cfg(test)]
pub fn example(allocators: &[(&str, &[f64])]) -> Record {
    let allocator = |name: &str| Allocator {
        name: name.into(),
        label: name.to_uppercase(),
        version: "1.0".into(),
        origin: if name == "freehold" {
            Origin::Ours
        } else {
            Origin::Peer
        },
        library: format!("/lib/{name}.so"),
        built_with: String::new(),
        options: String::new(),
    };
    let run = |name: &str, round: usize, cpu: f64| Run {
        workload: "w".into(),
        allocator: name.into(),
        round,
        outcome: Outcome::Ok,
        wall: cpu,
        cpu,
        process_wall: cpu,
        user: cpu,
        system: 0.0,
        peak_rss: (cpu * 1e8) as u64,
        minor_faults: (cpu * 1e4) as u64,
        major_faults: 0,
        switches_voluntary: 0,
        switches_forced: 0,
        check: "aa".into(),
        figures: BTreeMap::new(),
        series: BTreeMap::new(),
    };
    let runs = |(name, times): &(&str, &[f64])| -> Vec<Run> {
        times
            .iter()
            .enumerate()
            .map(|(round, cpu)| run(name, round, *cpu))
            .collect()
    };
    Record {
        format: FORMAT,
        started: 0,
        seconds: 1.0,
        interrupted: false,
        machine: Machine::default(),
        settings: Settings {
            mode: "quick".into(),
            reference: allocators[0].0.into(),
            ..Settings::default()
        },
        allocators: allocators.iter().map(|(name, _)| allocator(name)).collect(),
        workloads: vec![Workload {
            name: "w".into(),
            family: "w".into(),
            program: "w".into(),
            args: Vec::new(),
            quick: true,
            real: false,
            threads: Some(1),
            setup: None,
            verify: None,
            places_library: false,
        }],
        runs: allocators.iter().flat_map(runs).collect(),
        skipped: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_majority_decides_what_the_checksum_is() {
        let mut record = example(&[("a", &[1.0]), ("b", &[1.0]), ("c", &[1.0])]);
        record.runs[2].check = "bb".into();
        record.judge_checksums();
        assert!(matches!(record.runs[2].outcome, Outcome::WrongChecksum(_)));
        assert!(record.runs[0].outcome.is_ok());
        // Later rounds may turn the majority; nothing of the first verdict must stay.
        record.runs[0].check = "bb".into();
        record.judge_checksums();
        assert!(record.runs[2].outcome.is_ok());
        assert!(matches!(record.runs[1].outcome, Outcome::WrongChecksum(_)));
    }

    #[test]
    fn at_a_draw_the_system_is_believed() {
        let mut record = example(&[("a", &[1.0]), ("b", &[1.0])]);
        record.allocators[1].origin = Origin::System;
        record.runs[0].check = "bb".into();
        record.judge_checksums();
        assert!(matches!(record.runs[0].outcome, Outcome::WrongChecksum(_)));
        assert!(record.runs[1].outcome.is_ok());
    }

    #[test]
    fn a_record_survives_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.json");
        let mut record = example(&[("a", &[1.0, 2.0])]);
        record.runs[0].outcome = Outcome::Crash("signal: 11".into());
        record.save(&path).unwrap();
        let back = Record::load(&path).unwrap();
        assert_eq!(back.runs[0].outcome, record.runs[0].outcome);
        assert_eq!(back.runs.len(), 2);
        std::fs::write(&path, "{}").unwrap();
        assert!(Record::load(&path).is_err());
    }
}
