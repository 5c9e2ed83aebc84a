//! `freehold demo`: a real server with several threads, unchanged, under one allocator after the other.
//!
//! redis-server is filled with an index of this machine's own files, its records are replaced, grown and
//! deleted in random order, and then everything is dropped at once, as a service does when its burst is
//! over. The same commands are sent in each run; the allocators take turns, so that a slow minute of the
//! machine hits them all; the table shows medians.

mod commands;
mod heap;
mod measure;
mod server;
mod session;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use commands::Script;
use measure::Sample;
use server::{Allocator, Server};

/// How long after the work the memory is looked at.
const REST: Duration = Duration::from_secs(1);

/// Runs redis-server under the system's allocator and under Freehold, and compares.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold demo                          a few minutes, with the machine's own files as data\n  \
    freehold demo --rounds 1 --files 5000  half a minute")]
pub struct Args {
    /// How often each allocator has its turn.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// How many of the machine's files are indexed at most.
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u32).range(100..))]
    files: u32,

    /// The directory whose files are the input.
    #[arg(long, default_value = "/usr")]
    input: PathBuf,

    /// The drop-in library, when it is not beside this command.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let library = crate::library::locate(args.library.as_deref())?;
    let version = server::version()?;
    eprintln!("reading {} ...", args.input.display());
    let script = commands::from_folder(&args.input, args.files as usize)?;
    measure::warm_up(script.input_bytes * 8);

    let allocators = server::allocators(&library)?;
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); allocators.len()];
    for round in 1..=args.rounds {
        for (allocator, samples) in allocators.iter().zip(&mut samples) {
            eprintln!("round {round} of {}: {}", args.rounds, allocator.name);
            samples.push(
                one_run(allocator, &script)
                    .with_context(|| format!("the run under {}", allocator.name))?,
            );
        }
    }

    println!("{version}, unchanged: {}", script.describe());
    println!(
        "median of {} interleaved rounds; `after` is {} s after everything was dropped\n",
        args.rounds,
        REST.as_secs()
    );
    print!("{}", table::render(&allocators, &samples));
    println!("\nWhat the heap held with all of the data in it:\n");
    print!("{}", heap_at_its_fullest(&library, &script)?);
    Ok(ExitCode::SUCCESS)
}

/// Starts a server, sends everything, drops everything, rests, and reads the statistics of that one process.
fn one_run(allocator: &Allocator, script: &Script) -> Result<Sample> {
    let server = Server::start(allocator, &[])?;
    if allocator.freehold {
        server.check_freehold()?;
    }
    let before = measure::cpu_time(server.pid())?;
    let start = Instant::now();
    session::play(server.socket(), &script.fill)?;
    session::play(server.socket(), &script.churn)?;
    session::one(server.socket(), &["FLUSHALL", "ASYNC"])?;
    let wall = start.elapsed();
    thread::sleep(REST);
    let sample = Sample {
        wall,
        cpu: measure::cpu_time(server.pid())?.saturating_sub(before),
        peak: measure::status_bytes(server.pid(), "VmHWM")?,
        after: measure::status_bytes(server.pid(), "VmRSS")?,
    };
    server.stop()?;
    Ok(sample)
}

/// One more run, not timed: the server ends with its data in memory, and Freehold says where it is.
fn heap_at_its_fullest(library: &Path, script: &Script) -> Result<String> {
    let allocator = server::freehold(library);
    let server = Server::start(&allocator, &[("FREEHOLD", "stats=1")])?;
    session::play(server.socket(), &script.fill)?;
    session::play(server.socket(), &script.churn)?;
    Ok(heap::shorten(&server.stop()?))
}
