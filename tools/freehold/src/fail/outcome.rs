//! What became of a program whose allocation failed.

use std::collections::HashMap;

use serde::Serialize;

use super::log::Live;
use super::trial::Trial;
use crate::run::signal_name;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// A signal ended it.
    Crash { by: String },
    /// It used memory wrongly afterwards, and the library said how.
    Misuse { report: String },
    /// It did not end.
    Hang,
    /// It went on, and has more at its end than without the failure.
    Leak {
        #[serde(rename = "live_blocks_more")]
        blocks: u64,
        #[serde(rename = "live_bytes_more")]
        bytes: u64,
    },
    /// It ended with an exit code, and without a word.
    Silent { code: i32 },
    /// It ended as if nothing had been, and its output is another.
    WrongOutput,
    /// It said that something is wrong, and ended.
    Refused { code: i32 },
    /// The same by SIGABRT, as `new` and many wrappers do.
    Aborted,
    /// It went on, and its output is the same, or it said what is missing.
    Survived,
    /// The site was not met in that run.
    NotMet,
}

impl Outcome {
    pub fn is_finding(&self) -> bool {
        matches!(
            self,
            Self::Crash { .. }
                | Self::Misuse { .. }
                | Self::Hang
                | Self::Leak { .. }
                | Self::Silent { .. }
                | Self::WrongOutput
        )
    }
}

/// The program without a failure.
pub struct Plain {
    pub code: i32,
    pub said: Vec<u8>,
    /// None: it is another in each run.
    pub output: Option<Vec<u8>>,
    /// The most that was live of each site.
    pub live: HashMap<u32, Live>,
}

const SIGABRT: i32 = 6;

pub fn judge(trial: &Trial, plain: &Plain) -> Outcome {
    if trial.log.failed == 0 {
        return Outcome::NotMet;
    }
    if let Some(report) = report_in(&trial.said) {
        return Outcome::Misuse { report };
    }
    let spoke = !trial.said.is_empty() && trial.said != plain.said;
    if trial.status.is_none() {
        return Outcome::Hang;
    }
    if let Some(signal) = trial.signal() {
        return if signal == SIGABRT && spoke {
            Outcome::Aborted
        } else {
            Outcome::Crash {
                by: signal_name(signal),
            }
        };
    }
    let code = trial.code().unwrap_or(0);
    let differs = plain
        .output
        .as_ref()
        .is_some_and(|output| *output != trial.output);
    if code != plain.code {
        // Some say what is wrong on their standard output.
        let more = trial.output.len() > plain.output.as_ref().map_or(usize::MAX, Vec::len);
        return if spoke || more {
            Outcome::Refused { code }
        } else {
            Outcome::Silent { code }
        };
    }
    let (blocks, bytes) = left(trial, plain);
    if blocks != 0 {
        Outcome::Leak { blocks, bytes }
    } else if differs && !spoke {
        Outcome::WrongOutput
    } else {
        Outcome::Survived
    }
}

/// Blocks of sites that were met without the failure too, and that are more now. What only the way of the failure asks for
/// may stay for good reason: the C library keeps its messages.
fn left(trial: &Trial, plain: &Plain) -> (u64, u64) {
    let mut sum = (0, 0);
    for (hash, live) in &trial.log.live {
        let Some(before) = plain.live.get(hash) else {
            continue;
        };
        sum.0 += live.blocks.saturating_sub(before.blocks);
        sum.1 += live.bytes.saturating_sub(before.bytes);
    }
    sum
}

/// The first line of a report of misuse.
fn report_in(said: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(said);
    let line = text
        .lines()
        .find(|line| line.starts_with("freehold: ") && line.contains("): "))?;
    line.strip_prefix("freehold: ").map(str::to_owned)
}
