//! The command line of `freehold bench`, and what each of its verbs does.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Args, Subcommand, ValueEnum};

use crate::allocators::Known;
use crate::launcher::Launcher;
use crate::record::{Origin, Record};
use crate::selection::Selection;
use crate::{
    compare, files, heaps, home, latency, markdown, page, resume, schedule, stdout, table,
    workloads,
};

/// Measures every workload under every allocator, side by side.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:\n  \
    freehold bench --quick                     all workloads, the short form, under every allocator\n  \
    freehold bench latency                     how long single calls take, up to the longest\n  \
    freehold bench heaps                       heaps, arenas and pools: making, filling and ending them\n  \
    freehold bench pools                       cells of pools, of malloc and of the C++ library\n  \
    freehold bench list                        what there is to choose from\n  \
    freehold bench compare old.json new.json   what a change did")]
pub struct BenchArgs {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Measure (what happens without any verb as well).
    Run(Box<RunArgs>),
    /// Time each single call of malloc and free: p50, p99, p99.9, p99.99 and the longest. --full for more workloads.
    Latency(Box<RunArgs>),
    /// Time heaps of 10, 1,000 and 10^6 blocks, made, filled and ended, beside the peers' heaps, arenas and pools.
    Heaps(Box<RunArgs>),
    /// Time cells of one size: of pools, of malloc, and of the C++ library's pools over each malloc.
    Pools(Box<RunArgs>),
    /// Show the workloads and the allocators that there are.
    List(ListArgs),
    /// Build the peers, or those named, into build/peers.
    Peers(PeersArgs),
    /// Show the tables of an earlier run again, and write its page.
    Report(ReportArgs),
    /// Show what changed from one run to another.
    Compare(CompareArgs),
}

#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Only workloads whose name contains one of these words; * stands for anything, a leading ! excludes.
    pub patterns: Vec<String>,
    /// Short variants, few repeats, within ten minutes (the default).
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Every variant, within ninety minutes.
    #[arg(long)]
    pub full: bool,
    /// Names, paths to shared objects, NAME=WHAT for another name, freehold@OPTION=VALUE+... for a mode, or one of the
    /// groups default, peers, packages, ancestors, modes, all.
    #[arg(long, short, value_delimiter = ',', default_value = "default")]
    pub allocators: Vec<String>,
    /// Only variants with these numbers of threads.
    #[arg(long, value_delimiter = ',')]
    pub threads: Vec<usize>,
    /// How often each pair runs; without it 5, as far as the time budget goes.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub repeats: Option<u16>,
    /// Seconds after which no further round begins; 0 for no limit. Without it 540 (quick) or 5,100 (full).
    #[arg(long, value_parser = seconds)]
    pub budget: Option<f64>,
    /// Seconds after which a single run is killed. Without it 30 (quick) or 120 (full).
    #[arg(long, value_parser = seconds_of_a_run)]
    pub timeout: Option<f64>,
    /// The allocator that ratios are taken to; without it mimalloc 3, or the first that is not ours.
    #[arg(long)]
    pub reference: Option<String>,
    /// Without the real programs.
    #[arg(long)]
    pub no_real: bool,
    /// Do not touch the machine's memory before the start.
    #[arg(long)]
    pub no_warm: bool,
    /// Huge page mode of the machine during the run (root only; put back afterwards).
    #[arg(long, value_enum)]
    pub thp: Option<HugePages>,
    /// Directory for the JSON record and the HTML page.
    #[arg(long, default_value = "build/bench-results")]
    pub out: PathBuf,
    /// Go on with the record of an earlier run of the same libraries, and measure the rounds that it lacks.
    #[arg(long, value_name = "RECORD.json")]
    pub resume: Option<PathBuf>,
    /// The repository; found upwards from here when not given.
    #[arg(long)]
    pub root: Option<PathBuf>,
}

/// Not negative, and no more than a year.
fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    number
        .filter(|number| (0.0..=31_536_000.0).contains(number))
        .ok_or_else(|| "seconds look like 540 or 0.5".to_owned())
}

fn seconds_of_a_run(text: &str) -> Result<f64, String> {
    let number = seconds(text)?;
    (number > 0.0)
        .then_some(number)
        .ok_or_else(|| "a run needs more than no time".to_owned())
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum HugePages {
    Always,
    Madvise,
    Never,
}

impl HugePages {
    pub fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Madvise => "madvise",
            Self::Never => "never",
        }
    }
}

#[derive(Debug, Args)]
struct ListArgs {
    /// The repository; found upwards from here when not given.
    #[arg(long)]
    root: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct PeersArgs {
    /// Names of peers; all when none is given.
    names: Vec<String>,
    /// The repository; found upwards from here when not given.
    #[arg(long)]
    root: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ReportArgs {
    /// The record of a run.
    record: PathBuf,
    /// Take ratios to another allocator than the run did.
    #[arg(long)]
    reference: Option<String>,
    /// Print Markdown for a document, and write nothing.
    #[arg(long)]
    markdown: bool,
    /// Print a table, as Markdown, of what was resident at each moment that the workloads name, and write nothing.
    #[arg(long, conflicts_with = "markdown")]
    memory: bool,
    /// Draw what was resident over time into this SVG file, and write nothing else.
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
    /// The picture has only workloads whose names begin with one of these; without it all that were followed over time.
    #[arg(long, value_delimiter = ',', requires = "picture")]
    of: Vec<String>,
}

#[derive(Debug, Args)]
struct CompareArgs {
    /// The earlier record.
    before: PathBuf,
    /// The later record.
    after: PathBuf,
}

pub fn dispatch(args: BenchArgs) -> anyhow::Result<ExitCode> {
    match args.verb {
        None => run(&args.run, Measured::Suite),
        Some(Verb::Run(args)) => run(&args, Measured::Suite),
        Some(Verb::Latency(args)) => run(&args, Measured::Latency),
        Some(Verb::Heaps(args)) => run(&args, Measured::Heaps),
        Some(Verb::Pools(args)) => run(&args, Measured::Pools),
        Some(Verb::List(args)) => list(&args),
        Some(Verb::Peers(args)) => peers(&args),
        Some(Verb::Report(args)) => report(args),
        Some(Verb::Compare(args)) => {
            let (before, after) = (Record::load(&args.before)?, Record::load(&args.after)?);
            stdout::print(&compare::render(&before, &after))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The nearest directory upwards that has the list of peers.
fn find_root(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir().context("cannot tell what the current directory is")?;
    let start = given.unwrap_or(&here);
    let start = start
        .canonicalize()
        .with_context(|| format!("--root {}", start.display()))?;
    let root = start
        .ancestors()
        .find(|folder| folder.join("bench/peers/peers.toml").exists());
    root.map(Path::to_owned).with_context(|| {
        format!(
            "the benchmark suite is no part of an installed Freehold, and {} is not in its source tree, which has:\n  \
             bench/peers/peers.toml    the other allocators, with their versions\n  \
             bench/real                the real programs and what they work on\n  \
             build/bench               the workloads, which `make workloads` compiles\n\
             Run it there, or say where that is: freehold bench --root DIR. A record that was made before can be read \
             anywhere: freehold bench report RECORD.json",
            start.display()
        )
    })
}

/// What a run is of: whole workloads, single calls, or heaps.
#[derive(Clone, Copy)]
enum Measured {
    Suite,
    Latency,
    Heaps,
    Pools,
}

fn run(args: &RunArgs, what: Measured) -> anyhow::Result<ExitCode> {
    let root = find_root(args.root.as_deref())?;
    let known = Known::load(&root)?;
    let found = match what {
        Measured::Suite => workloads::find(&root)?,
        Measured::Latency => latency::find(&root)?,
        Measured::Heaps => heaps::find(&root)?,
        Measured::Pools => workloads::find_pools(&root)?,
    };
    workloads::are_built(&root)?;
    let mut selection = Selection::from_args(args, found)?;
    let out = if args.out.is_absolute() {
        args.out.clone()
    } else {
        root.join(&args.out)
    };
    files::make_directory(&out).context("--out")?;
    match what {
        Measured::Suite | Measured::Pools => {}
        Measured::Latency => selection.mode = latency::MODE.into(),
        Measured::Heaps => selection.mode = heaps::MODE.into(),
    }
    let (allocators, skipped) = known.resolve(&args.allocators)?;
    selection.reference = match &args.reference {
        Some(name) => {
            ensure!(
                allocators.iter().any(|allocator| allocator.name == *name),
                "--reference {name} is not among the allocators that are measured: name it with --allocators, too"
            );
            name.clone()
        }
        None => known.reference(&allocators),
    };
    let launcher = Launcher::prepare(&root, selection.timeout)?;
    let earlier = match &args.resume {
        Some(path) => Some(resume::load(path, &root, &selection, &allocators)?),
        None => None,
    };
    let what = schedule::Asked {
        allocators,
        skipped,
        earlier,
    };
    let record = schedule::run(&root, &launcher, &selection, what, &out)?;
    for allocator in record
        .allocators
        .iter()
        .filter(|a| a.origin == Origin::Ours)
    {
        // The copy has served; a failure to remove it costs a megabyte until the next clean build.
        let _ = std::fs::remove_file(&allocator.library);
    }
    let failures = record.runs.iter().any(|run| !run.outcome.is_ok());
    conclude(&record, &out.join(file_stem(&record)))?;
    Ok(if failures {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

/// Prints the tables and writes the page beside the record.
fn conclude(record: &Record, stem: &Path) -> anyhow::Result<()> {
    let special = match record.settings.mode.as_str() {
        latency::MODE => Some(latency::render(record)),
        heaps::MODE => Some(heaps::render(record)),
        _ => None,
    };
    if let Some(text) = special {
        let json = stem.with_extension("json");
        return stdout::print(&format!("{text}\nrecord  {}\n", json.display()));
    }
    stdout::print(&table::render(record))?;
    let html = stem.with_extension("html");
    files::write(&html, &page::render(record)?)?;
    stdout::print(&format!(
        "\nrecord  {}\npage    {}\n",
        stem.with_extension("json").display(),
        html.display()
    ))
}

/// The start in seconds since 1970: files sort by time, and two runs never share one.
pub fn file_stem(record: &Record) -> String {
    format!("{}-{}", record.settings.mode, record.started)
}

fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let root = find_root(args.root.as_deref())?;
    let found = workloads::find(&root)?;
    let mut text = String::from("workloads\n");
    for workload in &found.workloads {
        let kind = if workload.quick { "quick" } else { "full" };
        text += &format!(
            "  {:<28} {kind:<6} {:<16} {}\n",
            workload.name,
            workload.family,
            workloads::what(workload)
        );
    }
    for skipped in &found.skipped {
        text += &format!("  {:<28} skipped: {}\n", skipped.name, skipped.reason);
    }
    let known = Known::load(&root)?;
    text += &format!("allocators\n  {}\n", known.names().join(" "));
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn peers(args: &PeersArgs) -> anyhow::Result<ExitCode> {
    let root = find_root(args.root.as_deref())?;
    let known = Known::load(&root)?;
    for name in &args.names {
        ensure!(
            known.peers.peers.iter().any(|peer| peer.name == *name),
            "there is no peer {name}; there are {}",
            known
                .peers
                .peers
                .iter()
                .map(|peer| peer.name.as_str())
                .collect::<Vec<_>>()
                .join(" ")
        );
    }
    let wanted = |name: &String| args.names.is_empty() || args.names.contains(name);
    let mut missing = 0;
    for peer in known.peers.peers.iter().filter(|peer| wanted(&peer.name)) {
        stdout::print(
            &match crate::peers::provide(&root, &known.peers.common, peer) {
                Ok(built) => format!(
                    "{:<18} {:<14} {:<34} {}\n",
                    built.name,
                    built.version,
                    built.origin,
                    built.library.display()
                ),
                Err(error) => {
                    missing += 1;
                    format!("{:<18} skipped: {error:#}\n", peer.name)
                }
            },
        )?;
    }
    // Missing peers are normal (a package that is not installed); all of them missing is not.
    ensure!(missing < known.peers.peers.len(), "no peer could be had");
    Ok(ExitCode::SUCCESS)
}

fn report(args: ReportArgs) -> anyhow::Result<ExitCode> {
    let mut record = Record::load(&args.record)?;
    if let Some(reference) = args.reference {
        ensure!(
            record.allocator(&reference).is_some(),
            "{reference} was not measured in that run"
        );
        record.settings.reference = reference;
    }
    if args.markdown {
        let render = match record.settings.mode.as_str() {
            latency::MODE => latency::markdown,
            heaps::MODE => heaps::markdown,
            _ => markdown::render,
        };
        stdout::print(&render(&record))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.memory {
        stdout::print(&home::table(&record))?;
    }
    if let Some(file) = &args.picture {
        let svg = home::picture(&record, &args.of).context(
            "no workload of that run was followed over time: spike, phases, drift and sparse are",
        )?;
        files::write(file, &svg)?;
    }
    if args.memory || args.picture.is_some() {
        return Ok(ExitCode::SUCCESS);
    }
    conclude(&record, &args.record.with_extension(""))?;
    Ok(ExitCode::SUCCESS)
}
