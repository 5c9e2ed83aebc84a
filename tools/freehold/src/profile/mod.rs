//! `freehold profile`: which call sites hold, held or turned over the memory.

pub mod collapsed;
pub mod flame;
pub mod group;
pub mod json;
pub mod pprof;
pub mod stacks;
pub mod text;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use profile_file::{Concern, Snapshot, Target, View, output_file};

use crate::naming::NamingArgs;
use crate::output::print;
use group::By;
use stacks::Stacks;

/// Top call sites of a program: what they hold, with error bars.
#[derive(ClapArgs)]
#[command(after_help = "Example:\n  \
    freehold profile my-server                      what lives now, by line\n  \
    freehold profile 4242 --allocated --by module   all since the beginning, by library\n  \
    freehold profile 4242 --heap tenant             what heaps of that name hold, and those below them\n  \
    freehold profile 4242 --by heap                 what each heap holds, by its samples\n  \
    freehold profile 4242 --html flame.html         a flame graph with all views, in one file")]
pub struct Args {
    /// A PID, a program's or a run's name, a profile file, or a saved snapshot; without it the one observed program
    #[arg(value_name = "PID|NAME|FILE")]
    target: Option<String>,
    /// Put call sites together by this
    #[arg(long, value_enum, default_value = "site", value_name = "WHAT")]
    by: By,
    #[command(flatten)]
    view: ViewArgs,
    /// Only blocks of heaps (`fh_heap_new`) with this name, or path of names, and of those below them
    #[arg(long, value_name = "NAME", conflicts_with = "save")]
    heap: Option<String>,
    /// Show so many
    #[arg(short = 'n', long = "most", default_value_t = 20, value_name = "N")]
    most: usize,
    /// Show the biggest stack of each
    #[arg(long)]
    stacks: bool,
    /// Write a flame graph, one page that needs no network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a profile for `go tool pprof` and its like
    #[arg(long, value_name = "FILE")]
    pprof: Option<PathBuf>,
    /// Print stacks one a line, for flame graph tools
    #[arg(long, conflicts_with = "json")]
    collapsed: bool,
    /// Save the snapshot, with names, for later and for other machines
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    naming: NamingArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Which blocks.
#[derive(ClapArgs)]
#[group(multiple = false)]
pub struct ViewArgs {
    /// Blocks that live (this is what is shown if nothing else is said)
    #[arg(long)]
    live: bool,
    /// All blocks since the beginning
    #[arg(long)]
    allocated: bool,
    /// Blocks that lived when most did
    #[arg(long)]
    peak: bool,
    /// Blocks that were freed within a millisecond
    #[arg(long)]
    short_lived: bool,
    /// Blocks that were freed
    #[arg(long)]
    freed: bool,
}

impl ViewArgs {
    pub fn view(&self) -> View {
        match self {
            Self {
                allocated: true, ..
            } => View::Allocated,
            Self { peak: true, .. } => View::Peak,
            Self {
                short_lived: true, ..
            } => View::ShortLived,
            Self { freed: true, .. } => View::Freed,
            _ => View::Live,
        }
    }
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let target = Target::find_or_only(args.target.as_deref())?;
    let held = target.hold()?;
    let mut snapshot = args.naming.of(held.read()?);
    if let Some(heap) = &args.heap {
        snapshot.keep_heaps(heap)?;
    }
    if let Some(path) = &args.save {
        // Without the right to read them, or of a program that has ended, the rest is saved all the same.
        snapshot.heaps = held.heaps(&snapshot).ok();
        snapshot.save(path)?;
    }
    let view = args.view.view();
    let stacks = Stacks::of(&snapshot);
    let mut written = Vec::new();
    if let Some(path) = &args.html {
        write_file(path, |file| {
            file.write_all(flame::page(&snapshot, &stacks, view).as_bytes())
        })?;
        written.push(format!(
            "{} (a flame graph: open it in a browser)",
            path.display()
        ));
    }
    if let Some(path) = &args.pprof {
        write_file(path, |file| pprof::write(&snapshot, file))?;
        written.push(format!("{0} (try: go tool pprof -top {0})", path.display()));
    }
    written.extend(
        args.save
            .iter()
            .map(|path| format!("{} (a snapshot)", path.display())),
    );
    let groups = group::group(&stacks, args.by, view);
    let answer = if args.json {
        json::report(&snapshot, &stacks, &groups, view, args.by, args.most)? + "\n"
    } else if args.collapsed {
        collapsed::report(&stacks, view)
    } else {
        text::report(&snapshot, &stacks, &groups, view, args.most, args.stacks)
    };
    print(&answer)?;
    if args.collapsed {
        // The scripts that read this have no place for them.
        for warning in &snapshot.warnings {
            if warning.concern != Concern::Moving {
                tell_line!("freehold: note: {warning}");
            }
        }
    }
    if args.json || args.collapsed {
        return Ok(ExitCode::SUCCESS);
    }
    print(&footer(
        &snapshot,
        &[&stacks.warnings[..], stacks.skipped.sentence().as_slice()].concat(),
        &written,
        &next(&snapshot, &target, args),
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes to a file, or says which one could not be written.
pub fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
) -> Result<()> {
    output_file::replace(path, |into| {
        let mut file = BufWriter::new(into);
        fill(&mut file)?;
        file.flush()
    })
    .with_context(|| format!("cannot write {}", path.display()))
}

/// What was odd, what was written, and what to do next.
pub fn footer(
    snapshot: &Snapshot,
    names: &[String],
    written: &[String],
    next: &[String],
) -> String {
    let mut text = String::new();
    let notes = snapshot
        .warnings
        .iter()
        .map(|warning| &warning.text)
        .chain(names);
    for note in notes {
        text.push_str(&format!("note: {note}\n"));
    }
    for file in written {
        text.push_str(&format!("wrote {file}\n"));
    }
    if !next.is_empty() {
        text.push_str(&format!("\nnext: {}\n", next.join("\n      ")));
    }
    text
}

fn next(snapshot: &Snapshot, target: &Target, args: &Args) -> Vec<String> {
    let word = target.word();
    if snapshot.sites.is_empty() {
        return vec![format!("freehold explain {word}")];
    }
    let mut lines = Vec::new();
    if args.html.is_none() {
        lines.push(format!("freehold profile {word} --html flame.html"));
    }
    lines.push(format!("freehold leaks {word}"));
    if args.save.is_none() && matches!(target, Target::Live { .. }) {
        lines.push(format!(
            "freehold profile {word} --save before.fhs, and later: freehold diff before.fhs {word}"
        ));
    }
    lines
}
