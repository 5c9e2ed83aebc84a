//! Does a candidate show it? Replays say so.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tempfile::TempDir;
use trace_file::{Op, tally};

use super::condition::{Condition, Quantity, Term, What};
use crate::replay::median;
use crate::replay::prepare::{How, prepare};
use crate::replay::process::{Contender, Ending, Replayer, Run};
use crate::run::signal_name;
use crate::wording::{bytes, duration};

/// How a replay failed. A candidate must fail as the whole trace did: another fault is another report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Signal(i32),
    Exit(i32),
    WrongBlocks,
}

pub struct Judge {
    pub condition: Condition,
    pub contenders: Vec<Contender>,
    pub replayer: Replayer,
    pub how: How,
    pub repeats: u32,
    /// A candidate of which the quantity is below says more about the allocator's start than about the trace.
    pub at_least: f64,
    directory: TempDir,
    fault: Option<Fault>,
    /// A replay that takes longer does not show it.
    patience: Option<Duration>,
}

/// What the replays of a candidate said.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub shows: bool,
    /// For a person: the value, or how it failed.
    pub said: String,
}

impl Verdict {
    fn not(said: impl Into<String>) -> Self {
        Self {
            shows: false,
            said: said.into(),
        }
    }
}

/// The medians of an allocator's runs.
#[derive(Clone, Copy)]
struct Medians {
    rss: f64,
    time: f64,
    cpu: f64,
}

fn medians(runs: &[Run]) -> Medians {
    let of = |value: fn(&Run) -> u64| median(runs.iter().map(|run| value(run) as f64).collect());
    Medians {
        rss: of(Run::peak_rss),
        time: of(|run| run.ns),
        cpu: of(|run| run.cpu_ns),
    }
}

impl Judge {
    pub fn new(
        condition: Condition,
        contenders: Vec<Contender>,
        replayer: Replayer,
        how: How,
        repeats: u32,
        at_least: f64,
    ) -> Result<Self> {
        Ok(Self {
            condition,
            contenders,
            replayer,
            how,
            repeats,
            at_least,
            directory: tempfile::tempdir()?,
            fault: None,
            patience: None,
        })
    }

    /// The whole trace, as often as any candidate. How it fails and how long it takes is the measure for the others.
    pub fn judge_first(&mut self, ops: &[Op]) -> Result<Verdict> {
        let begun = Instant::now();
        let verdict = self.judge(ops, None)?;
        self.patience = Some(begun.elapsed() * 10 + Duration::from_secs(10));
        Ok(verdict)
    }

    /// Until the deadline, at most.
    pub fn judge(&mut self, ops: &[Op], deadline: Option<Instant>) -> Result<Verdict> {
        let file = self.directory.path().join("candidate");
        prepare(ops.iter().map(|op| Ok(*op)), self.how.order)?.write(&file, self.how)?;
        if self.condition.what == What::Crash {
            return self.crash(&file, deadline);
        }
        let mut runs: Vec<Vec<Run>> = self.contenders.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.repeats {
            for (contender, runs) in self.contenders.iter().zip(&mut runs) {
                let patience = self.patience_until(deadline);
                match self.replayer.once(contender, &file, patience)? {
                    Ending::Answered { run, complaint } => {
                        if deadline.is_none() && runs.is_empty() {
                            tell!("{complaint}");
                        }
                        runs.push(*run);
                    }
                    Ending::Died { status, complaint } => {
                        let text = format!("{}: {status}: {}", contender.name, complaint.trim());
                        return Ok(Verdict::not(text));
                    }
                    Ending::TooLong => return Ok(Verdict::not("a replay took too long")),
                }
            }
        }
        let medians: Vec<Medians> = runs.iter().map(|runs| medians(runs)).collect();
        let live = tally(ops.iter().map(|op| Ok(*op)))?.peak_bytes as f64;
        Ok(compare(&self.condition, self.at_least, &medians, live))
    }

    fn patience_until(&self, deadline: Option<Instant>) -> Option<Duration> {
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        let left = left.map(|left| left.max(Duration::from_millis(100)));
        [left, self.patience].into_iter().flatten().min()
    }

    fn crash(&mut self, file: &Path, deadline: Option<Instant>) -> Result<Verdict> {
        let mut said = "no crash".to_string();
        for _ in 0..self.repeats {
            let patience = self.patience_until(deadline);
            let (fault, text) = match self.replayer.once(&self.contenders[0], file, patience)? {
                Ending::TooLong => continue,
                Ending::Answered { run, .. } if run.wrong == 0 => continue,
                Ending::Answered { run, .. } => (
                    Fault::WrongBlocks,
                    format!("{} blocks were not as they should be", run.wrong),
                ),
                Ending::Died { status, complaint } => match (status.signal(), status.code()) {
                    (Some(signal), _) => (Fault::Signal(signal), signal_name(signal)),
                    // The replayer's own: it could not begin.
                    (None, Some(2)) => bail!("{}", complaint.trim()),
                    (None, code) => {
                        let code = code.unwrap_or_default();
                        (Fault::Exit(code), format!("exit code {code}"))
                    }
                },
            };
            if *self.fault.get_or_insert(fault) == fault {
                return Ok(Verdict {
                    shows: true,
                    said: text,
                });
            }
            said = format!("another fault: {text}");
        }
        Ok(Verdict::not(said))
    }
}

/// `live` is the same for all allocators.
fn compare(condition: &Condition, at_least: f64, medians: &[Medians], live: f64) -> Verdict {
    let What::Compare {
        left,
        over,
        comparison,
        limit,
    } = &condition.what
    else {
        return Verdict::not("nothing to compare");
    };
    let of = |term: &Term| match term.quantity {
        Quantity::Rss => medians[term.on].rss,
        Quantity::Live => live,
        Quantity::Time => medians[term.on].time,
        Quantity::Cpu => medians[term.on].cpu,
    };
    let amount = |value: f64| {
        if condition.asks_for_time() {
            duration(value / 1e9)
        } else {
            bytes(value)
        }
    };
    let terms = condition.terms();
    let replayed = terms.iter().filter(|term| term.quantity != Quantity::Live);
    let most = replayed.map(of).fold(0.0, f64::max);
    if most < at_least {
        return Verdict::not(format!(
            "{} is less than --at-least {}",
            amount(most),
            amount(at_least)
        ));
    }
    let value = of(left) / over.as_ref().map_or(1.0, of);
    Verdict {
        shows: value.is_finite() && comparison.holds(value, *limit),
        said: match over {
            Some(_) => format!("{value:.2}"),
            None => amount(value),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::condition::parse;
    use super::*;

    const MIB: f64 = (1 << 20) as f64;

    fn one(rss: f64, time: f64) -> Medians {
        Medians {
            rss: rss * MIB,
            time: time * 1e6,
            cpu: time * 2e6,
        }
    }

    #[test]
    fn a_ratio_is_of_what_the_condition_names() {
        let medians = [one(30.0, 8.0), one(10.0, 2.0)];
        for (text, at_least, shows, said) in [
            ("rss/live > 5.9 on a", MIB, true, "6.00"),
            ("rss/live > 6 on a", MIB, false, "6.00"),
            ("rss/live < 6.1 on a", MIB, true, "6.00"),
            ("rss on a / rss on b >= 3", MIB, true, "3.00"),
            ("time on a / time on b > 3", 1e6, true, "4.00"),
            ("cpu/time > 3 on a", 1e6, false, "2.00"),
            ("rss > 29m on a", MIB, true, "30.0 MiB"),
            ("time > 9ms on a", 1e6, false, "8 ms"),
            // The larger of both counts.
            ("rss on b / rss on a < 1", 20.0 * MIB, true, "0.33"),
        ] {
            let condition = parse(text).unwrap();
            let named = |name: &String| medians[usize::from(name == "b")];
            let medians: Vec<Medians> = condition.allocators.iter().map(named).collect();
            let verdict = compare(&condition, at_least, &medians, 5.0 * MIB);
            assert_eq!(
                (verdict.shows, verdict.said.as_str()),
                (shows, said),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_too_small_shows_nothing() {
        let condition = parse("rss/live > 2 on a").unwrap();
        let verdict = compare(&condition, MIB, &[one(0.5, 1.0)], 16.0);
        assert!(!verdict.shows);
        assert_eq!(verdict.said, "512.0 KiB is less than --at-least 1.0 MiB");
    }

    #[test]
    fn the_median_of_the_runs_counts() {
        let run = |peak| Run {
            ns: peak,
            cpu_ns: 1,
            calls: 1,
            bytes: 1,
            failed: 0,
            wrong: 0,
            peak_live: 1,
            peak,
            before: 3,
            after: 1,
            worst: 1,
            addresses: 0,
            points: Vec::new(),
            times: Vec::new(),
        };
        let found = medians(&[run(900), run(10), run(20)]);
        assert_eq!((found.rss, found.time), (17.0, 20.0));
    }
}
