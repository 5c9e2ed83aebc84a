//! `freehold explain`: where a program's memory is, in parts that add up, and why.
//!
//! Works on any process that one may look at: of one without Freehold it says what the kernel knows. Needs no ptrace
//! and stops no program: it reads `/proc` and the profile file through which a program is observed.
//!
//! | module | what it does |
//! |---|---|
//! | `mappings` | reads what the kernel says about a process's memory |
//! | `kinds` | whose memory a mapping is |
//! | `heap` | what is known of Freehold's part |
//! | `split` | splits it into what it is good for |
//! | `lost` | what blocks had been asked for whose samples there was no room for |
//! | `counts` | what the library has counted, as the split wants it |
//! | `verdict` | one sentence, and what would change it |
//! | `heaps` | `--heaps`: the heaps that the program has made |
//! | `in_heaps` | what lies in them, among the parts |
//! | `sources`, `explanation`, `screen` | fetch, put together, show |

pub mod counts;
mod explanation;
mod heap;
mod heaps;
mod in_heaps;
mod kinds;
mod lost;
mod mappings;
mod screen;
pub mod sites;
mod sources;
mod split;
mod verdict;

use std::process::ExitCode;

use anyhow::Result;

use crate::naming::NamingArgs;
use crate::output::print;

/// Says where a program's memory is, and why.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold explain 4711            a process, whether it runs under Freehold or not\n  \
    freehold explain redis-server    the one process of that name\n  \
    freehold explain saved.freehold  what was saved, or left behind by a program that is gone\n  \
    freehold explain --json 4711     for programs\n  \
    freehold explain --heaps 4711    the tree of heaps that the program has made (fh_heap_new)\n\n\
    The parts add up to what is resident. Without a name: the one observed program.")]
pub struct Args {
    /// A process, a program's or a run's name, a profile file or a saved snapshot.
    #[arg(value_name = "PID|NAME|FILE")]
    subject: Option<String>,

    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,

    /// Show the program's heaps (`fh_heap_new`) instead: what each has, and its limits.
    #[arg(long)]
    heaps: bool,

    #[command(flatten)]
    naming: NamingArgs,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let word = args.subject.as_deref();
    if args.heaps {
        return heaps::run(word, args.json);
    }
    let mut sources =
        sources::fetch(word).map_err(|error| sources::explain_failure(error, word))?;
    if let Some(snapshot) = &mut sources.snapshot {
        snapshot.naming = args.naming.naming();
    }
    let explanation = explanation::explain(&sources);
    if args.json {
        print(&(serde_json::to_string_pretty(&explanation)? + "\n"))?;
    } else {
        print(&screen::render(&explanation))?;
    }
    Ok(ExitCode::SUCCESS)
}
