//! `freehold fail`: does a program survive that it gets no memory? It is run once for each of its allocation sites, with
//! that site failing.
//!
//! | module | what it does |
//! |---|---|
//! | `trial` | one run |
//! | `log` | the sites, and what was live, as the library writes them down |
//! | `outcome` | what became of the program |
//! | `text` | the answer for a person |

mod log;
mod outcome;
mod text;
mod trial;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::builder::RangedU64ValueParser;
use indicatif::{ProgressBar, ProgressStyle};
use profile_file::FileSymbols;
use serde::Serialize;

use crate::call_site::{CallSite, FrameData};
use crate::leaks::suppressions::Suppressions;
use crate::naming::NamingArgs;
use crate::output::print;
use crate::shell::quoted;
use crate::{doctor, interrupt, library};
use log::{Live, Site};
use outcome::{Outcome, Plain, judge};
use trial::{Program, Trial};

/// Runs a command again and again, each time with another allocation site that gets no memory, and says which of them it
/// does not survive.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold fail ./server --self-test          every site of it\n  \
    freehold fail --sites 50 -- python3 app.py  the first fifty\n  \
    freehold fail --json ./tool x > fail.json   for a machine\n\n\
    The command is run without input, twice without a failure and once for each site. It must end by itself.\n\
    What it writes goes nowhere. Sites are told apart by the sixteen innermost frames of their call stack.\n\
    Exit code: 0 nothing found; 1 something was; 2 the command could not be run.")]
pub struct Args {
    /// The command and its arguments.
    #[arg(
        value_name = "CMD",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true
    )]
    command: Vec<OsString>,

    /// At most so many sites, in the order in which the program comes to them.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    sites: Option<usize>,

    /// A run that takes longer hangs. Without it: ten times the run without a failure, and 10 seconds at least.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: Option<u64>,

    /// Leave out what this file names: lines of fail:PATTERN, which match a function, a file or a module of the stack.
    #[arg(long, value_name = "FILE")]
    suppressions: Option<PathBuf>,

    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,

    /// Show the sites that are survived too.
    #[arg(long)]
    all: bool,

    /// The drop-in library, when it is not beside this command.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    #[command(flatten)]
    naming: NamingArgs,
}

/// A site, and what became of the program when it failed.
#[derive(Debug, Serialize)]
struct Finding {
    site: String,
    /// What it asked for at first.
    bytes: u64,
    #[serde(flatten)]
    outcome: Outcome,
    #[serde(skip)]
    call_site: CallSite,
    stack: Vec<FrameData>,
    /// The command that does it again.
    again: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    suppressed_by: Option<String>,
}

#[derive(Debug, Serialize)]
struct Answer {
    command: Vec<String>,
    runs: usize,
    seconds: f64,
    sites: usize,
    /// Sites that were not tried, because there were more than were wanted.
    left_out: usize,
    results: Vec<Finding>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl Answer {
    fn found(&self) -> impl Iterator<Item = &Finding> {
        self.results
            .iter()
            .filter(|result| result.outcome.is_finding() && result.suppressed_by.is_none())
    }
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let library = library::locate(args.library.as_deref())?;
    if let Some(obstacle) = doctor::obstacle(&args.command, &library) {
        bail!(
            "Freehold would not be active in {}: {obstacle}",
            PathBuf::from(&args.command[0]).display()
        );
    }
    let suppressions = match &args.suppressions {
        Some(path) => Suppressions::read_kind(path, "fail:")?,
        None => Suppressions::default(),
    };
    interrupt::watch()?;
    let directory = tempfile::tempdir()?;
    let program = Program {
        command: &args.command,
        library: &library,
        directory: directory.path().to_owned(),
    };
    let answer = try_all(args, &program, &suppressions)?;
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&answer)?))?;
    } else {
        print(&text::of(&answer, args.all))?;
    }
    Ok(ExitCode::from(u8::from(answer.found().next().is_some())))
}

/// A run without a failure may take so long.
const PLAIN_SECONDS: u64 = 3600;

fn try_all(args: &Args, program: &Program, suppressions: &Suppressions) -> Result<Answer> {
    let begun = Instant::now();
    let plain_patience = Duration::from_secs(args.timeout.unwrap_or(PLAIN_SECONDS));
    let first = program.run("none", plain_patience)?;
    let second = program.run("none", plain_patience)?;
    let plain = plain_of(&first, &second)?;
    let patience = Duration::from_secs_f64(match args.timeout {
        Some(seconds) => seconds as f64,
        None => (10.0 * first.seconds.max(second.seconds)).max(10.0),
    });
    let mut sites = first.log.sites;
    let met = sites.len();
    sites.truncate(args.sites.unwrap_or(usize::MAX));
    let bar = progress(sites.len());
    let mut symbols = FileSymbols::new();
    let mut results = Vec::new();
    for site in &sites {
        let call_site = named(site, &mut symbols, args);
        bar.set_message(call_site.function().to_owned());
        let trial = program.run(&word_for(site), patience)?;
        results.push(Finding {
            site: format!("{:08x}", site.hash),
            bytes: site.bytes,
            outcome: judge(&trial, &plain),
            stack: call_site.data(),
            suppressed_by: suppressions.matching(&call_site.frames).map(str::to_owned),
            call_site,
            again: again(program, site),
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut notes = Vec::new();
    if plain.output.is_none() {
        notes.push("its output is another in each run, so a wrong one is not noticed".to_owned());
    }
    if met == 0 {
        notes.push("it allocated nothing".to_owned());
    }
    Ok(Answer {
        command: words(args),
        runs: results.len() + 2,
        seconds: begun.elapsed().as_secs_f64(),
        sites: met,
        left_out: met - results.len(),
        results,
        notes,
    })
}

fn words(args: &Args) -> Vec<String> {
    let words = args.command.iter();
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

fn plain_of(first: &Trial, second: &Trial) -> Result<Plain> {
    let (Some(code), Some(again)) = (first.code(), second.code()) else {
        let said = String::from_utf8_lossy(&first.said);
        let end: Vec<&str> = said.lines().rev().take(5).collect();
        let how = match first.signal().or(second.signal()) {
            Some(signal) => format!("was ended by {}", crate::run::signal_name(signal)),
            None => "did not end".to_owned(),
        };
        bail!(
            "the command {how} though nothing failed; it said: {}",
            end.into_iter().rev().collect::<Vec<_>>().join(" / ")
        );
    };
    if code != again {
        bail!(
            "the command's exit code is {code} once, and {again} the next time, though nothing failed"
        );
    }
    let mut live: HashMap<u32, Live> = HashMap::new();
    // A site that had nothing left is known too.
    for site in first.log.sites.iter().chain(&second.log.sites) {
        live.entry(site.hash).or_default();
    }
    for (&hash, one) in first.log.live.iter().chain(&second.log.live) {
        let most = live.entry(hash).or_default();
        most.blocks = most.blocks.max(one.blocks);
        most.bytes = most.bytes.max(one.bytes);
    }
    Ok(Plain {
        code,
        said: first.said.clone(),
        output: (first.output == second.output).then(|| first.output.clone()),
        live,
    })
}

fn word_for(site: &Site) -> String {
    format!("site:{:08x}", site.hash)
}

fn named(site: &Site, symbols: &mut FileSymbols, args: &Args) -> CallSite {
    let frames = site
        .stack
        .iter()
        .flat_map(|(path, offset)| symbols.frames(path, *offset).to_vec())
        .collect();
    CallSite::new(frames, false, &args.naming.naming())
}

fn again(program: &Program, site: &Site) -> String {
    let variables = program.variables(&word_for(site));
    let variables = variables
        .iter()
        .map(|(name, value)| format!("{name}={}", quoted(&value.to_string_lossy())));
    let command = program.command.iter();
    let command = command.map(|word| quoted(&word.to_string_lossy()));
    variables.chain(command).collect::<Vec<_>>().join(" ")
}

fn progress(sites: usize) -> ProgressBar {
    let bar = ProgressBar::new(sites as u64);
    // The template is a constant, so a mistake in it shows at the first use; the default is no disaster.
    if let Ok(style) =
        ProgressStyle::with_template("{bar:30.green/black} {pos}/{len} sites  {elapsed}  {msg}")
    {
        bar.set_style(style);
    }
    bar
}
