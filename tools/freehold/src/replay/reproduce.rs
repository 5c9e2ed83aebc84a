//! Whether the replay needs as much memory as the recorded program did, and if not, why.

use serde::Serialize;
use trace_file::{Losses, Resident, Tally, Trace};

use super::prepare::{Order, Touch};
use super::{Args, Measured, median};
use crate::wording::{self, bytes, plain_count};

/// Farther apart than this part, and than so many bytes, has a reason.
const WITHIN: f64 = 0.1 + 1e-9; // or a tenth would be more than a tenth
const LEAST: u64 = 512 << 10;
/// Fewer readings may have missed the peak.
const FEW_SAMPLES: u64 = 20;
/// A program that has less than this part of its live bytes resident has not written to all of them.
const MUCH_OF_LIVE: f64 = 0.95;
/// What is purged after a time has less time in a replay that is shorter than this part of the program.
const MUCH_SHORTER: f64 = 0.5;

/// The program, and its replay on the same allocator.
#[derive(Debug, Serialize)]
pub struct Reproduced {
    allocator: String,
    /// Private bytes that the program had at its peak beyond those before its first call.
    program: u64,
    /// Of those, in mappings that had blocks.
    program_blocks: u64,
    replay: u64,
    /// The replay over the program, less one.
    difference: f64,
    within: bool,
    /// Why it is not within.
    reasons: Vec<String>,
}

/// Of the trace.
pub struct Recorded {
    allocator: String,
    pub resident: Option<Resident>,
    losses: Losses,
    /// Bytes, at the peak.
    live: u64,
    nanoseconds: u64,
    threads: u32,
}

impl Recorded {
    pub fn new(trace: &Trace, sum: &Tally) -> Self {
        Self {
            allocator: trace.header.allocator.clone(),
            resident: trace.resident().cloned(),
            losses: trace.losses().clone(),
            live: sum.peak_bytes,
            nanoseconds: sum.nanoseconds,
            threads: sum.threads,
        }
    }

    /// The replay on the allocator that the program had.
    pub fn same<'a>(&self, all: &'a [Measured]) -> Option<&'a Measured> {
        let is_same = |one: &&Measured| one.name == self.allocator && !one.runs.is_empty();
        self.resident.as_ref()?;
        all.iter().find(is_same)
    }

    pub fn compare(&self, args: &Args, one: &Measured) -> Option<Reproduced> {
        let resident = self.resident.as_ref()?;
        let (program, replay) = (resident.growth(), peak(one));
        let within = !is_apart(program, replay);
        Some(Reproduced {
            allocator: one.name.clone(),
            program,
            program_blocks: resident.growth_of_blocks(),
            replay,
            difference: ratio(replay, program),
            within,
            reasons: if within {
                Vec::new()
            } else {
                self.reasons(args, one, resident)
            },
        })
    }

    fn reasons(&self, args: &Args, one: &Measured, resident: &Resident) -> Vec<String> {
        let (program, replay) = (resident.growth(), peak(one));
        let blocks = resident.growth_of_blocks();
        let mut reasons = Vec::new();
        let touched = args.touch != Touch::None;
        if touched && replay < self.live {
            reasons.push(format!(
                "At the peak {} were live, so the replay's readings of its memory, one each millisecond, have missed it. --order \
                 total reads it at {} operations.",
                bytes(self.live as f64),
                super::POINTS
            ));
        }
        if replay < program && program - blocks > (program - replay) / 10 {
            reasons.push(format!(
                "{} of the program's were in mappings that had no block: its stacks, its data, what it mapped itself. Without that \
                 the difference is {}.",
                bytes((program - blocks) as f64),
                percent(ratio(replay, blocks))
            ));
            if is_apart(blocks, replay) {
                reasons.push(
                    "A mapping with one block counts whole, so more than that may have been the program's own."
                        .to_owned(),
                );
            }
        }
        if touched && replay > program && (program as f64) < MUCH_OF_LIVE * self.live as f64 {
            reasons.push(format!(
                "At the peak {} were live, which is more: the program did not write to all that it allocated.",
                bytes(self.live as f64)
            ));
        }
        if replay < program && !touched {
            reasons.push("With --touch none nothing is written into the blocks.".to_owned());
        }
        let missing = self.losses.lost + self.losses.unknown_frees;
        if missing > 0 {
            reasons.push(format!(
                "The trace lacks {} lost records and {} blocks from before the recording.",
                plain_count(self.losses.lost),
                plain_count(self.losses.unknown_frees)
            ));
        }
        if args.set.is_some() {
            reasons.push("--set gives the replay options that the program had not.".to_owned());
        }
        let took = median(one.runs.iter().map(|run| run.ns as f64).collect());
        let is_shorter = took < MUCH_SHORTER * self.nanoseconds as f64;
        if replay > program && is_shorter && args.order != Order::Time {
            reasons.push(format!(
                "The program took {} and the replay {}: an allocator that purges after a time has less of it. --order time keeps \
                 the program's pauses.",
                wording::short_duration(self.nanoseconds as f64 / 1e9),
                wording::short_duration(took / 1e9)
            ));
        }
        if self.threads > 1 && args.order == Order::Deps {
            reasons.push(
                "Threads that do not wait for each other may be at other places than in the program."
                    .to_owned(),
            );
        }
        if resident.samples < FEW_SAMPLES {
            reasons.push(format!(
                "The program's memory was read only {} times, so its peak may have been higher.",
                resident.samples
            ));
        }
        if reasons.is_empty() && touched && replay > program {
            reasons.push(
                "The replay writes to every page of every block, and the program may not have. --touch none shows how much the \
                 blocks have without that."
                    .to_owned(),
            );
        }
        if reasons.is_empty() {
            reasons
                .push("No reason was found; another --order or --touch may tell more.".to_owned());
        }
        reasons
    }

    /// For the foot of the table.
    pub fn text(&self, reproduced: Option<&Reproduced>) -> String {
        let Some(resident) = &self.resident else {
            return "\nThe program's own memory was not recorded in this trace, so the replay cannot be compared with it.\n"
                .to_owned();
        };
        let grew = bytes(resident.growth() as f64);
        let Some(it) = reproduced else {
            return format!(
                "\nThe program itself grew by {grew} on {}, which was not replayed.\n",
                self.allocator
            );
        };
        let mut text = format!(
            "\nThe program itself grew by {grew} on {}, its replay by {} ({}): {}.\n",
            it.allocator,
            bytes(it.replay as f64),
            percent(it.difference),
            match it.within {
                true if it.difference.abs() <= WITHIN => "within 10 %",
                true => "too little to compare",
                false => "more than 10 % apart",
            }
        );
        for reason in &it.reasons {
            text += &format!("  {reason}\n");
        }
        text
    }
}

fn peak(one: &Measured) -> u64 {
    median(one.runs.iter().map(|run| run.peak_rss() as f64).collect()) as u64
}

fn ratio(replay: u64, program: u64) -> f64 {
    replay as f64 / program.max(1) as f64 - 1.0
}

fn percent(difference: f64) -> String {
    if difference < 10.0 {
        format!("{:+.1} %", 100.0 * difference)
    } else {
        "more than ten times as much".to_owned()
    }
}

fn is_apart(program: u64, replay: u64) -> bool {
    ratio(replay, program).abs() > WITHIN && replay.abs_diff(program) > LEAST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_or_half_a_mebibyte_is_not_apart() {
        assert!(!is_apart(100 << 20, 110 << 20));
        assert!(is_apart(100 << 20, 111 << 20));
        assert!(is_apart(100 << 20, 89 << 20));
        assert!(!is_apart(1 << 20, 3 << 19));
        assert!(is_apart(0, 1 << 20));
    }
}
