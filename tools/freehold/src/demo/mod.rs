//! `freehold demo`: a real program, unchanged, under one allocator after the other.
//!
//! Each scene sends the same work in each run, made by a seeded generator, so every machine gets the same. The allocators
//! take turns, so that a slow minute of the machine hits them all; the table shows medians.

mod allocators;
mod commands;
mod compile;
mod llm;
mod measure;
mod postgres;
mod program;
mod progress;
mod random;
mod redis;
mod scene;
mod session;
mod table;
mod tour;
mod verdict;
mod web;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::replay::process::check_options;
use measure::Sample;
use scene::{Name, Scene};

/// Runs a real program under the system's allocator and under Freehold, and compares
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold demo                      a Redis server, then a look into it while it works\n  \
    freehold demo python               a web server in Python\n  \
    freehold demo --rounds 1           a first impression, in a third of the time\n\n\
    The data are made up, and the same on every machine.")]
pub struct Args {
    /// What is run: redis, if none is named, or python where redis-server takes no other allocator.
    #[arg(value_name = "SCENE", value_enum)]
    scene: Option<Name>,

    /// How often each allocator has its turn.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// How much work, in percent.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    size: u32,

    /// The table alone, without the tour of the running server.
    #[arg(long)]
    no_tour: bool,

    /// Options for Freehold, as in the environment variable FREEHOLD.
    #[arg(long, value_name = "OPTIONS")]
    options: Option<String>,

    /// The drop-in library, when it is not beside this command.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let library = crate::library::locate(args.library.as_deref())?;
    if let Some(options) = &args.options {
        check_options(Some(&library), options).context("--options")?;
    }
    let (name, why) = args.scene.map_or_else(scene::usual, |name| (name, None));
    if let Some(why) = why {
        tell_line!("freehold demo: a web server in Python, because {why}");
    }
    let scene = scene::open(name, args.size)?;
    let mut allocators = scene.allocators(&library)?;
    if let (Some(options), Some(ours)) = (&args.options, allocators.last_mut()) {
        ours.name = format!("Freehold ({options})");
        ours.options = Some(options.clone());
    }
    let samples = all_rounds(args, name, &*scene, &allocators)?;

    let names: Vec<&str> = allocators.iter().map(|a| a.name.as_str()).collect();
    let mut text = format!("{}\n\n", scene.describe());
    text += &table::render(&names, &samples);
    if io::stdout().is_terminal() {
        text += "\n";
        text += &table::bars(&names, &samples, crate::output::wants_colours());
    }
    text += "\n";
    text += &verdict::guide(&*scene, args.rounds);
    text += "\n";
    text += &verdict::verdict(&names, &samples);
    crate::output::print(&text)?;
    // One tour is enough: a scene that was named is for its table.
    if !args.no_tour && matches!(args.scene, None | Some(Name::Redis)) {
        scene.tour(&library)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Round by round; in each, every allocator has its turn.
fn all_rounds(
    args: &Args,
    name: Name,
    scene: &dyn Scene,
    allocators: &[allocators::Allocator],
) -> Result<Vec<Vec<Sample>>> {
    let name = name.to_possible_value();
    let name = name.as_ref().map_or("", |value| value.get_name());
    let progress = progress::Progress::new(args.rounds as usize * allocators.len(), name);
    measure::warm_up(scene.memory());
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); allocators.len()];
    for _ in 0..args.rounds {
        for (allocator, samples) in allocators.iter().zip(&mut samples) {
            progress.at(&format!("{name} under {}", allocator.name));
            let sample = scene.run(allocator);
            samples.push(sample.with_context(|| format!("the run under {}", allocator.name))?);
            progress.step();
        }
    }
    progress.finish();
    Ok(samples)
}
