//! `freehold replay`: a trace on several allocators, side by side.
//!
//! | module | what it does |
//! |---|---|
//! | `advise` | what options would save or cost |
//! | `film` | one page with the map of the heap over time |
//! | `page` | one page with the curves of each allocator |
//! | `prepare` | the trace as the replayer wants it |
//! | `process` | one run of it |
//! | `reproduce` | whether it needs as much memory as the recorded program |
//!
//! `recorder/replayer.c` does the calls, in a fresh process for each run.

mod advise;
mod film;
mod page;
pub mod prepare;
pub mod process;
mod reproduce;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use profile_file::output_file;
use serde::Serialize;
use trace_file::{Tally, tally};

use crate::record::flight;
use crate::wording::{bytes, plain_count};
use crate::{amounts, interrupt, output, trace};
use prepare::{How, Order, POINTS, Prepared, Touch};
use process::{Contender, Ending, Replayer, Run};
use reproduce::Recorded;

/// Replays a trace on allocators: time, latency, resident memory.
#[derive(clap::Args, Clone)]
#[command(after_help = "Examples:\n  \
    freehold replay server.trace --on system,freehold\n  \
    freehold replay server.trace --on freehold --order total --verify\n  \
    freehold replay server.trace --on freehold --set purge=eager\n  \
    freehold replay server.trace --on system,freehold --html replay.html\n  \
    freehold replay server.trace --on system,freehold --film film.html\n  \
    freehold replay server.trace --on system,jemalloc --advise\n  \
    freehold replay --until-end 4711 --limit 512m  what option `flight` has kept of process 4711\n\n\
    Exit code: 0; 1 if an allocator failed, or gave a block that was not as it should be.")]
pub struct Args {
    /// The trace that is replayed.
    trace: PathBuf,

    /// The allocators: freehold, system, known names, or paths of libraries.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "system,freehold"
    )]
    on: Vec<String>,

    /// Which operation waits for which.
    #[arg(long, value_enum, default_value = "deps")]
    order: Order,

    /// What is written into a new block.
    #[arg(long, value_enum, default_value = "pages")]
    touch: Touch,

    /// Fill every block, and check it before it is released or resized.
    #[arg(long)]
    verify: bool,

    /// Runs of each allocator; the median counts. 3 if not given, and 7 for --advise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: Option<u32>,

    /// Try options of Freehold, and say what each saves or costs, and where another allocator wins.
    #[arg(long, conflicts_with_all = ["verify", "prepare"])]
    advise: bool,

    /// Options for Freehold, as in FREEHOLD: with a comma or a semicolon between them.
    #[arg(long, value_name = "OPTIONS")]
    set: Option<String>,

    /// The same addresses in each run with this number, in total order: any number from 1 on.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seed: Option<u64>,

    /// TRACE is what the option `flight` or `record --flight` left: a directory, a file in it, or the process's number.
    #[arg(long)]
    until_end: bool,

    /// Say which allocators stay below so much resident memory.
    #[arg(long, value_name = "BYTES", value_parser = amounts::parse_bytes, conflicts_with_all = ["prepare", "advise"])]
    limit: Option<u64>,

    /// Print everything that was measured as JSON.
    #[arg(long)]
    json: bool,

    /// Write a page with curves as well: latencies, resident memory, fragmentation.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["verify", "prepare", "advise"])]
    html: Option<PathBuf>,

    /// Write a page with the map of each allocator's heap over time as well: what is live, resident, in a huge page.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["verify", "prepare", "advise"])]
    film: Option<PathBuf>,

    /// Measure nothing: write what the program freehold-replayer wants, for benchmarks of your own.
    #[arg(long, value_name = "FILE")]
    prepare: Option<PathBuf>,

    /// The drop-in library, when it is not beside this command.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Measured {
    name: String,
    runs: Vec<Run>,
    /// A run in which each call was timed, which makes it slower.
    latency: Option<Run>,
    /// For a page: a run in total order, whose points are operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    ordered: Option<Run>,
    /// For a film: the run in total order that was filmed, whose points are its frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    filmed: Option<Run>,
    /// How a run ended that said nothing.
    died: Option<String>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    interrupt::watch()?;
    if !args.until_end {
        return replay(args);
    }
    let directory = tempfile::tempdir()?;
    let trace = directory.path().join("end.trace");
    let said = flight::compile(&args.trace, &trace)?;
    // The trace is nobody's but ours.
    tell!(
        "{}",
        said.replacen(&format!(" in {}", trace.display()), "", 1)
    );
    replay(&Args {
        trace,
        ..args.clone()
    })
}

fn replay(args: &Args) -> Result<ExitCode> {
    check_seed(args.seed, args.order)?;
    if let Some(file) = &args.prepare {
        let trace = trace::open(&args.trace)?;
        let prepared = prepare::prepare(trace.ops(), args.order)
            .with_context(|| args.trace.display().to_string())?;
        prepared.write(file, how(args))?;
        return Ok(ExitCode::SUCCESS);
    }
    for file in [&args.html, &args.film].into_iter().flatten() {
        // Found out now, and not after the measurement.
        output_file::may_replace(file)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let freehold = args.library.as_deref();
    if args.advise {
        let (_, sum, prepared) = read(args)?;
        return advise::run(args, &sum, &prepared);
    }
    let replayer = Replayer::new(freehold, args.set.clone())?;
    let contenders: Vec<Contender> = args
        .on
        .iter()
        .map(|name| Contender::new(name, freehold))
        .collect::<Result<_>>()?;
    let (recorded, sum, prepared) = read(args)?;
    let mut measured = measure(args, &replayer, &contenders, &prepared)?;
    let same = recorded.same(&measured);
    let reproduced = same.and_then(|one| recorded.compare(args, one));
    let table = text(args, &sum, &prepared, &measured) + &recorded.text(reproduced.as_ref());
    let mut live = None;
    if args.html.is_some() {
        live = Some(order(args, &replayer, &contenders, &mut measured)?);
    }
    let films = if args.film.is_some() {
        film(args, &replayer, &contenders, &mut measured)?
    } else {
        Vec::new()
    };
    if args.json {
        let all = serde_json::json!({"trace": sum, "live": live, "waits": prepared.waits, "pruned": prepared.pruned,
                                     "program": recorded.resident, "reproduced": reproduced, "allocators": measured, "limit": args.limit,
                                     "below_limit": args.limit.map(|limit| below(&measured, limit))});
        output::print(&format!("{all}\n"))?;
    } else {
        output::print(&table)?;
    }
    let name = args.trace.file_name().unwrap_or_default().to_string_lossy();
    if let Some(file) = &args.film {
        let page = film::render(&name, &table, &films, &measured);
        write(file, &page)?;
    }
    if let (Some(file), Some(live)) = (&args.html, &live) {
        let (peak, program) = (sum.peak_bytes, recorded.resident.as_ref());
        let page = page::render(&name, &table, args.order, program, &measured, live, peak)?;
        write(file, &page)?;
    }
    let fine = measured
        .iter()
        .all(|one| one.died.is_none() && one.runs.iter().all(|run| run.failed + run.wrong == 0));
    Ok(if fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

fn write(file: &Path, page: &str) -> Result<()> {
    output_file::replace(file, |into| into.write_all(page.as_bytes()))
        .with_context(|| format!("cannot write {}", file.display()))
}

fn read(args: &Args) -> Result<(Recorded, Tally, Prepared)> {
    let trace = trace::open(&args.trace)?;
    let sum = tally(trace.ops()).with_context(|| args.trace.display().to_string())?;
    let recorded = Recorded::new(&trace, &sum);
    Ok((recorded, sum, prepare::prepare(trace.ops(), args.order)?))
}

/// Threads that race for blocks get other addresses each time.
pub fn check_seed(seed: Option<u64>, order: Order) -> Result<()> {
    if seed.is_some() && order != Order::Total {
        bail!("--seed needs --order total: otherwise threads race for their addresses");
    }
    Ok(())
}

fn how(args: &Args) -> How {
    How {
        order: args.order,
        touch: args.touch,
        verify: args.verify,
        latency: false,
        seed: args.seed.unwrap_or(0),
        points: POINTS,
    }
}

/// Interleaved: what the machine does meanwhile falls on all of them.
fn measure(
    args: &Args,
    replayer: &Replayer,
    contenders: &[Contender],
    prepared: &Prepared,
) -> Result<Vec<Measured>> {
    let directory = tempfile::tempdir()?;
    let plain = directory.path().join("plain");
    let timed = directory.path().join("timed");
    let how = how(args);
    prepared.write(&plain, how)?;
    let with_latency = !args.verify;
    if with_latency {
        let latency = true;
        prepared.write(&timed, How { latency, ..how })?;
    }
    let mut all: Vec<Measured> = contenders
        .iter()
        .map(|one| Measured {
            name: one.name.clone(),
            runs: Vec::new(),
            latency: None,
            ordered: None,
            filmed: None,
            died: None,
        })
        .collect();
    let repeats = args.repeats.unwrap_or(3);
    for round in 0..=repeats {
        for (one, said) in contenders.iter().zip(&mut all) {
            let is_latency = round == repeats;
            if said.died.is_some() || (is_latency && !with_latency) {
                continue;
            }
            let file = if is_latency { &timed } else { &plain };
            match once(replayer, one, file, None) {
                Ok(run) if is_latency => said.latency = Some(run),
                Ok(run) => said.runs.push(run),
                Err(error) => said.died = Some(format!("{error:#}")),
            }
            interrupt::check()?;
        }
    }
    Ok(all)
}

/// One more run of each in total order, and the bytes that are live at its points.
fn order(
    args: &Args,
    replayer: &Replayer,
    contenders: &[Contender],
    measured: &mut [Measured],
) -> Result<BTreeMap<u64, u64>> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("ordered");
    let trace = trace::open(&args.trace)?;
    let order = Order::Total;
    prepare::prepare(trace.ops(), order)?.write(&file, How { order, ..how(args) })?;
    for (one, said) in contenders.iter().zip(measured.iter_mut()) {
        if said.died.is_none() {
            match once(replayer, one, &file, None) {
                Ok(run) => said.ordered = Some(run),
                Err(error) => said.died = Some(format!("{error:#}")),
            }
            interrupt::check()?;
        }
    }
    let runs: Vec<&Run> = measured
        .iter()
        .filter_map(|one| one.ordered.as_ref())
        .collect();
    page::live_after(trace.ops(), &runs)
}

/// One more run of each in total order, while which the replayer writes frames.
fn film(
    args: &Args,
    replayer: &Replayer,
    contenders: &[Contender],
    measured: &mut [Measured],
) -> Result<Vec<film::Film>> {
    let directory = tempfile::tempdir()?;
    let (file, frames) = (
        directory.path().join("ordered"),
        directory.path().join("film"),
    );
    let trace = trace::open(&args.trace)?;
    let how = How {
        order: Order::Total,
        points: film::FRAMES,
        ..how(args)
    };
    prepare::prepare(trace.ops(), how.order)?.write(&file, how)?;
    let mut films = Vec::new();
    for (one, said) in contenders.iter().zip(measured.iter_mut()) {
        if said.died.is_some() {
            continue;
        }
        match once(replayer, one, &file, Some(&frames)) {
            Ok(run) => {
                said.filmed = Some(run);
                films.push(film::read(&one.name, &frames)?);
            }
            Err(error) => said.died = Some(format!("{error:#}")),
        }
        interrupt::check()?;
    }
    Ok(films)
}

fn once(
    replayer: &Replayer,
    contender: &Contender,
    file: &Path,
    film: Option<&Path>,
) -> Result<Run> {
    match replayer.filmed(contender, file, None, film)? {
        Ending::Answered { run, complaint } => {
            // An option that is not known, or a library that cannot be loaded: the figures would be those of something else.
            if !complaint.is_empty() {
                tell!("freehold: {}: {complaint}", contender.name);
            }
            Ok(*run)
        }
        Ending::Died { status, complaint } => bail!("{status}: {}", complaint.trim()),
        Ending::TooLong => bail!("it took too long"),
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The upper end, in nanoseconds, of what the bucket holds; the replayer has sixteen for each doubling.
fn bucket_end(bucket: u64) -> u64 {
    if bucket < 16 {
        return bucket;
    }
    let power = bucket / 16 + 3;
    ((bucket % 16 + 17) << (power - 4)) - 1
}

/// The time that this part of all calls took at most.
fn quantile(times: &[(u64, u64)], part: f64) -> u64 {
    let all: u64 = times.iter().map(|(_, count)| count).sum();
    let wanted = (all as f64 * part).ceil() as u64;
    let mut seen = 0;
    for (bucket, count) in times {
        seen += count;
        if seen >= wanted {
            return bucket_end(*bucket);
        }
    }
    0
}

/// The allocators that did what they were asked, and stayed below a limit in every run.
fn below(all: &[Measured], limit: u64) -> Vec<&str> {
    let fits = |run: &Run| run.peak_rss() < limit && run.failed + run.wrong == 0;
    let stays = |one: &&Measured| one.died.is_none() && one.runs.iter().all(fits);
    all.iter()
        .filter(stays)
        .map(|one| one.name.as_str())
        .collect()
}

/// Nothing where nothing was live.
fn over_live(peak: f64, live: u64) -> String {
    match live {
        0 => "-".to_owned(),
        live => format!("{:.2}", peak / live as f64),
    }
}

fn text(args: &Args, sum: &Tally, prepared: &Prepared, all: &[Measured]) -> String {
    let mut out = format!(
        "{} operations of {} threads; at the peak {} live; {} waits between threads, {} pruned\n",
        plain_count(sum.ops),
        sum.threads,
        bytes(sum.peak_bytes as f64),
        plain_count(prepared.waits),
        plain_count(prepared.pruned)
    );
    let _ = writeln!(
        out,
        "\n{:16} {:>8} {:>8} {:>10} {:>9} {:>10} {:>7} {:>7} {:>8} {:>9}",
        "allocator",
        "wall ms",
        "CPU ms",
        "peak RSS",
        "RSS/live",
        "at end",
        "p50 ns",
        "p99 ns",
        "p99.99",
        "max µs"
    );
    for one in all {
        if let Some(why) = &one.died {
            let _ = writeln!(out, "{:16} {why}", one.name);
            continue;
        }
        let of =
            |value: fn(&Run) -> u64| median(one.runs.iter().map(|r| value(r) as f64).collect());
        let peak = of(Run::peak_rss);
        let _ = write!(
            out,
            "{:16} {:>8.1} {:>8.1} {:>10} {:>9} {:>10}",
            one.name,
            of(|run| run.ns) / 1e6,
            of(|run| run.cpu_ns) / 1e6,
            bytes(peak),
            over_live(peak, sum.peak_bytes),
            bytes(of(|run| run.after.saturating_sub(run.before)))
        );
        if let Some(run) = &one.latency {
            let [p50, p99, p9999] = [0.5, 0.99, 0.9999].map(|part| quantile(&run.times, part));
            let _ = write!(
                out,
                " {p50:>7} {p99:>7} {p9999:>8} {:>9.1}",
                run.worst as f64 / 1e3
            );
        }
        out.push('\n');
        // Of any run: it is what the exit code is about.
        let most = |value: fn(&Run) -> u64| one.runs.iter().map(value).max().unwrap_or(0);
        let (failed, wrong) = (most(|run| run.failed), most(|run| run.wrong));
        if failed + wrong > 0 {
            let _ = writeln!(
                out,
                "  {failed} calls failed, {wrong} blocks were not as they should be"
            );
        }
    }
    if let Some(limit) = args.limit {
        let _ = writeln!(
            out,
            "\nBelow {} of resident memory: {}",
            bytes(limit as f64),
            match below(all, limit).as_slice() {
                [] => "none".to_owned(),
                names => names.join(", "),
            }
        );
    }
    if args.verify {
        out.push_str("\nEvery block was filled and checked, so the times say little.\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_where_the_next_begins() {
        let ends: Vec<u64> = [15, 16, 31, 32, 33].map(bucket_end).to_vec();
        assert_eq!(ends, [15, 16, 31, 33, 35]);
    }

    #[test]
    fn a_quantile_is_reached_by_its_part() {
        let times = [(1, 98), (5, 1), (7, 1)];
        assert_eq!(
            [0.5, 0.99, 1.0].map(|part| quantile(&times, part)),
            [1, 5, 7]
        );
    }
}
