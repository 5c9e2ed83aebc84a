//! `freehold shrink`: the smallest trace that still shows it, so that a report of a bug becomes a test.
//!
//! | module | what it does |
//! |---|---|
//! | `condition` | reads what the trace has to show |
//! | `lives` | traces with blocks left out |
//! | `search` | which to try next |
//! | `judge` | replays a candidate |

mod condition;
mod judge;
mod lives;
mod search;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use profile_file::output_file;
use trace_file::Op;

use crate::amounts::parse_bytes;
use crate::leaks::parse_time;
use crate::replay::check_seed;
use crate::replay::prepare::{How, Order, POINTS, Touch};
use crate::replay::process::{Contender, Replayer};
use crate::shell::quoted;
use crate::wording::{duration, plain_count};
use crate::{output, trace};
use condition::{Condition, What};
use judge::{Judge, Verdict};
use search::{Answer, search};

/// Cuts a trace down to the smallest one that still shows something: fragmentation, a slow allocator, a crash.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold shrink server.trace --until 'rss/live > 2 on freehold'\n  \
    freehold shrink server.trace --until 'time on freehold / time on system > 2' --repeats 5 --for 10m\n  \
    freehold shrink server.trace --until 'crash on freehold' -o crash.trace\n\n\
    Conditions: QUANTITY [/ QUANTITY] COMPARISON NUMBER on ALLOCATOR, or `crash on ALLOCATOR`.\n\
    Quantities: rss (private resident bytes at the highest), live (bytes asked for, at the highest), time, cpu.\n\
    Each may name its own allocator: `rss on freehold / rss on system > 1.5`. Comparisons: > >= < <=.\n\
    A crash is a signal, or a block that is not as it should be.\n\n\
    Exit code: 0; 1 if the trace does not show it.")]
pub struct Args {
    /// The trace that is made smaller, in another file.
    trace: PathBuf,

    /// What the trace has to show.
    #[arg(long, value_name = "CONDITION")]
    until: String,

    /// The smaller trace; if not given, TRACE with .small before its ending.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Search for so long: 500ms, 10s, 5m or 1h.
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = parse_time)]
    how_long: Duration,

    /// Try at most so many candidates.
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    trials: u64,

    /// Runs of each candidate. Of figures the median counts; one crash is enough.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,

    /// Candidates below it show nothing: a size (for rss) or a time. If not given, 1m or 1ms.
    #[arg(long, value_name = "AMOUNT")]
    at_least: Option<String>,

    /// Which operation waits for which. If not given: deps if times are compared, else total.
    #[arg(long, value_enum)]
    order: Option<Order>,

    /// What is written into a new block. For a crash, every block is filled and checked.
    #[arg(long, value_enum, default_value = "pages")]
    touch: Touch,

    /// As for `replay`: the same addresses in each run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seed: Option<u64>,

    /// Options for Freehold, as in FREEHOLD.
    #[arg(long, value_name = "OPTIONS")]
    set: Option<String>,

    /// The drop-in library, when it is not beside this command.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let condition = condition::parse(&args.until).map_err(|wrong| anyhow!("--until: {wrong}"))?;
    let path = args.output.clone().unwrap_or_else(|| small(&args.trace));
    trace::another_file(&args.trace, &path)?;
    // Found out now, and not after the search.
    output_file::may_replace(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut judge = judge(args, condition)?;
    let whole = trace::open(&args.trace)?;
    let ops: Vec<Op> = whole
        .ops()
        .collect::<Result<_, _>>()
        .with_context(|| args.trace.display().to_string())?;
    let first = judge.judge_first(&ops)?;
    if !first.shows {
        let name = judge.condition.name();
        output::print(&format!(
            "{} does not show it: {name}: {}.\nNext: freehold replay {} --on {}\n",
            args.trace.display(),
            first.said,
            quoted(&args.trace.to_string_lossy()),
            judge.condition.allocators.join(",")
        ))?;
        return Ok(ExitCode::from(1));
    }
    let report = shrink(args, &mut judge, ops, first)?;
    trace::write_whole(&path, &whole.header, |put| {
        report.ops.iter().try_for_each(|op| put(*op))?;
        Ok(whole.losses().clone())
    })?;
    output::print(&report.text(args, &judge, &path))?;
    Ok(ExitCode::SUCCESS)
}

fn judge(args: &Args, condition: Condition) -> Result<Judge> {
    let is_crash = condition.what == What::Crash;
    let at_least = match (&args.at_least, condition.asks_for_time()) {
        (Some(_), _) if is_crash => bail!("--at-least says nothing of a crash: leave it out"),
        (None, true) => 1e6,
        (None, false) => (1 << 20) as f64,
        (Some(text), true) => parse_time(text)
            .map_err(|why| anyhow!("--at-least: {why}"))?
            .as_nanos() as f64,
        (Some(text), false) => {
            parse_bytes(text).map_err(|why| anyhow!("--at-least: `{text}`: {why}"))? as f64
        }
    };
    let usual = if condition.asks_for_time() {
        Order::Deps
    } else {
        Order::Total
    };
    let order = args.order.unwrap_or(usual);
    check_seed(args.seed, order)?;
    let how = How {
        order,
        touch: args.touch,
        verify: is_crash,
        latency: false,
        seed: args.seed.unwrap_or(0),
        points: POINTS,
    };
    let freehold = args.library.as_deref();
    let contenders = condition
        .allocators
        .iter()
        .map(|name| Contender::new(name, freehold))
        .collect::<Result<_>>()?;
    let replayer = Replayer::new(freehold, args.set.clone())?;
    Judge::new(condition, contenders, replayer, how, args.repeats, at_least)
}

struct Report {
    ops: Vec<Op>,
    whole: usize,
    first: Verdict,
    last: Verdict,
    trials: u64,
    took: Duration,
    is_minimal: bool,
    why_stopped: &'static str,
}

fn shrink(args: &Args, judge: &mut Judge, ops: Vec<Op>, first: Verdict) -> Result<Report> {
    let (begun, whole) = (Instant::now(), ops.len());
    let deadline = begun + args.how_long;
    let interrupted = Arc::new(AtomicBool::new(false));
    // The best so far is written then, too.
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted))?;
    let bar = progress();
    let (mut trials, mut last, mut best, mut why_stopped) = (0, first.clone(), whole, "");
    let name = judge.condition.name();
    let mut ask = |ops: &[Op]| {
        why_stopped = if interrupted.load(Ordering::Relaxed) {
            "It was interrupted"
        } else if Instant::now() >= deadline {
            "The time was up"
        } else if trials >= args.trials {
            "All trials were made"
        } else {
            ""
        };
        if !why_stopped.is_empty() {
            return Ok(Answer::Stop);
        }
        trials += 1;
        let mut verdict = judge.judge(ops, Some(deadline))?;
        if verdict.shows && judge.condition.what != What::Crash {
            // A figure near its limit is once above and once below it.
            verdict = judge.judge(ops, Some(deadline))?;
        }
        if verdict.shows {
            best = ops.len();
            last = verdict.clone();
        }
        bar.set_message(format!(
            "{} of {} operations, {name}: {}; {} candidates",
            plain_count(best as u64),
            plain_count(whole as u64),
            last.said,
            plain_count(trials)
        ));
        Ok(if verdict.shows {
            Answer::Shows
        } else {
            Answer::DoesNot
        })
    };
    let found = search(ops, &mut ask);
    bar.finish_and_clear();
    let found = found?;
    Ok(Report {
        ops: found.ops,
        whole,
        first,
        last,
        trials,
        took: begun.elapsed(),
        is_minimal: found.is_minimal,
        why_stopped,
    })
}

impl Report {
    fn text(&self, args: &Args, judge: &Judge, path: &Path) -> String {
        let (left, name) = (self.ops.len(), judge.condition.name());
        let change = if matches!(judge.condition.what, What::Crash) {
            format!("{name}: {}", self.last.said)
        } else {
            format!("{name}: {} (whole: {})", self.last.said, self.first.said)
        };
        let end = if self.is_minimal {
            "No block can be left out any more."
        } else {
            "more may be possible: give it more by --for or --trials."
        };
        let why = if self.is_minimal {
            String::new()
        } else {
            format!("{}, so ", self.why_stopped)
        };
        format!(
            "{} operations of {} ({:.1} times fewer) in {}\n{change}\n{} candidates in {}. {why}{end}\nNext: {}\n",
            plain_count(left as u64),
            plain_count(self.whole as u64),
            self.whole as f64 / left.max(1) as f64,
            path.display(),
            plain_count(self.trials),
            duration(self.took.as_secs_f64()),
            command(args, judge, path)
        )
    }
}

/// The command that replays it as the search did.
fn command(args: &Args, judge: &Judge, path: &Path) -> String {
    let mut words = vec![
        "freehold replay".to_string(),
        quoted(&path.to_string_lossy()),
        format!("--on {}", quoted(&judge.condition.allocators.join(","))),
    ];
    for (option, value) in [
        ("--order", judge.how.order.to_possible_value()),
        ("--touch", judge.how.touch.to_possible_value()),
    ] {
        // Said only where it is not what `replay` does by itself.
        let value = value.map_or(String::new(), |value| value.get_name().to_string());
        if value != "deps" && value != "pages" {
            words.push(format!("{option} {value}"));
        }
    }
    if judge.how.verify {
        words.push("--verify".to_string());
    }
    if let Some(seed) = args.seed {
        words.push(format!("--seed {seed}"));
    }
    if let Some(options) = &args.set {
        words.push(format!("--set {}", quoted(options)));
    }
    words.join(" ")
}

fn small(trace: &Path) -> PathBuf {
    trace.with_extension("small.trace")
}

fn progress() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    // The template is a constant, so a mistake in it shows at the first use; the default is no disaster.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed}  {msg}") {
        bar.set_style(style);
    }
    bar
}
