//! `freehold run`: a program under Freehold, observed, and what is left of it kept.
//!
//! | module | what it does |
//! |---|---|
//! | `child` | starts it, passes signals on, waits |
//! | `ending` | how it ended, and who sent a SIGKILL |
//! | `kept` | where its profile files are, bounded, listed, removed |
//! | `summary` | three lines at the end |

mod child;
mod ending;
mod kept;
mod summary;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use profile_file::{Target, names, output_file, process, target};

use crate::amounts;
use crate::output::print;
use crate::wording::plural;
use crate::{doctor, library};
use child::{GroupWatch, Observation};
use ending::Kills;
use kept::Record;
use summary::{Run, Summary};

/// Runs a command under Freehold, observed, and keeps what it shows even if it crashes.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold run ./server --port 80              then, elsewhere: freehold top server\n  \
    freehold run --sample 64k -- python3 app.py  more samples: sees smaller things, costs more\n  \
    freehold run --save build.freehold make      one file to take along, for every other command\n  \
    freehold run --list                          what is kept of earlier runs;  --clean removes it\n\n\
    Exit code: that of the command; 128 and the signal if a signal ended it; 126 or 127 if it did not start.")]
pub struct Args {
    /// The command and its arguments.
    #[arg(value_name = "CMD", trailing_var_arg = true, allow_hyphen_values = true, required_unless_present_any = ["list", "clean"])]
    command: Vec<OsString>,

    /// Mean bytes between two samples.
    #[arg(long, value_name = "BYTES", default_value = "512k", value_parser = amounts::parse_bytes)]
    sample: u64,

    /// Keep the profile files in this directory instead of the user's own.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// At the end, save what the process with the most memory showed into one file.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Print the summary as one line of JSON (on stderr, as stdout is the command's).
    #[arg(long)]
    json: bool,

    /// List what is kept of earlier runs.
    #[arg(long, conflicts_with_all = ["command", "clean"])]
    list: bool,

    /// Remove what is kept of runs that have ended: those named, or all.
    #[arg(long, value_name = "NAME", num_args = 0.., conflicts_with = "command")]
    clean: Option<Vec<String>>,

    /// The drop-in library, when it is not beside this command.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let bases = target::kept_directories();
    if args.list {
        return list(&bases, args.json);
    }
    if let Some(wanted) = &args.clean {
        return clean(&bases, wanted);
    }
    let (base, said) = target::kept_directory();
    if let (Some(said), None) = (said, &args.keep) {
        eprintln!("freehold: {said}");
    }
    observe(args, &base)
}

fn observe(args: &Args, base: &Path) -> Result<ExitCode> {
    not_an_option(&args.command[0])?;
    let library = library::locate(args.library.as_deref())?;
    if let Some(file) = &args.save {
        // Found out now, and not when the command has run for hours.
        output_file::may_replace(file)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let command: Vec<String> = args
        .command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let obstacle = doctor::obstacle(&args.command, &library);
    if let Some(obstacle) = &obstacle {
        eprintln!(
            "freehold: Freehold will not be active in {}: {obstacle}",
            command[0]
        );
    }
    let directory = match &args.keep {
        Some(directory) => given_folder(directory)?,
        None => {
            kept::private_folder(base)?;
            kept::prune(base);
            kept::new_run(base, &own_name(&command))?
        }
    };
    let mut record = Record::new(command.clone());
    record.write(&directory)?;

    let how = Observation {
        library: &library,
        directory: &directory,
        interval: args.sample,
    };
    let before = Kills::of(std::process::id());
    let begun = Instant::now();
    let mut child = match child::start(&args.command, &how)? {
        Ok(child) => child,
        Err(failed) => {
            if args.keep.is_none() {
                // Nothing is in it yet but our own record.
                let _ = std::fs::remove_dir_all(&directory);
            }
            eprintln!("freehold: {}", failed.message);
            return Ok(ExitCode::from(failed.code));
        }
    };
    let pid = child.id();
    record.pid = Some(u64::from(pid));
    let janitor = Janitor::start(directory.clone(), pid);
    let outcome = child::wait(&mut child, GroupWatch::start(pid, before))?;
    let seconds = begun.elapsed().as_secs_f64();
    wait_for_profiles(&directory);
    let thinned = janitor.end();

    record.ended_unix_ns = Some(process::unix_ns());
    record.ending = Some(outcome.ending.clone());
    record.write(&directory)?;
    let run = Run {
        command: &command,
        pid,
        outcome: &outcome,
        seconds,
        directory: &directory,
        thinned,
        obstacle,
    };
    finish(args, &run, Summary::of(&run))
}

/// What a person would call the program: a script rather than its interpreter.
fn own_name(command: &[String]) -> String {
    let name = names::own_of_command(command);
    let plain = name.rsplit('/').next().filter(|name| !name.is_empty());
    plain.unwrap_or("program").to_owned()
}

/// A word that looks like an option and is none of ours is a mistake rather than a program.
fn not_an_option(word: &OsStr) -> Result<()> {
    if word.as_bytes().starts_with(b"-") {
        let word = word.to_string_lossy();
        bail!(
            "run has no option {word}; `freehold run --help` lists them, and a program of this name is called ./{word}"
        );
    }
    Ok(())
}

/// Tells how it was, and saves what is to be saved. The command's exit code is ours, whatever becomes of that.
fn finish(args: &Args, run: &Run, mut summary: Summary) -> Result<ExitCode> {
    if let Some(file) = &args.save {
        match save(&summary, file) {
            Ok(()) => {
                summary.saved = Some(file.clone());
                summary.next = summary.next.replace(
                    &summary
                        .heap
                        .as_ref()
                        .map_or(String::new(), |heap| heap.profile.display().to_string()),
                    &file.display().to_string(),
                );
            }
            Err(error) => eprintln!("freehold: nothing was saved: {error:#}"),
        }
    }
    if summary.processes == 0 && args.keep.is_none() && observed_by(run.directory).is_empty() {
        // Nothing is in it but our own record.
        let _ = std::fs::remove_dir_all(run.directory);
    }
    if args.json {
        eprintln!("{}", serde_json::to_string(&summary)?);
    } else {
        eprint!("{}", summary.to_text());
    }
    Ok(ExitCode::from(summary.exit_code))
}

fn save(summary: &Summary, file: &Path) -> Result<()> {
    let heap = summary
        .heap
        .as_ref()
        .context("no process of it was observed")?;
    let target = Target::find(&heap.profile.display().to_string())?;
    target.read()?.save(file)?;
    Ok(())
}

/// Processes that were told to make their profile files in this directory: what a daemon leaves running when its first
/// process ends.
fn observed_by(directory: &Path) -> Vec<u64> {
    let told = [b"page=", directory.as_os_str().as_bytes()].concat();
    let all = process::all().unwrap_or_default();
    all.into_iter()
        .filter(|pid| {
            std::fs::read(process::directory(*pid).join("environ"))
                .is_ok_and(|text| text.windows(told.len()).any(|part| part == told))
        })
        .collect()
}

/// A program that goes on in the background may not have allocated yet, and so have no profile file to be found by: it
/// is given a moment, unless there are profile files, or no process to make them.
fn wait_for_profiles(directory: &Path) {
    for _ in 0..20 {
        if target::has_profiles(directory) || observed_by(directory).is_empty() {
            return;
        }
        thread::sleep(Duration::from_millis(25));
    }
}

/// A directory that the user chose; it is theirs, so its rights are left as they are.
fn given_folder(directory: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    directory
        .canonicalize()
        .with_context(|| format!("cannot resolve {}", directory.display()))
}

/// Looks after the directory while the program runs.
struct Janitor {
    stop: mpsc::Sender<()>,
    thread: thread::JoinHandle<()>,
    thinned: Arc<AtomicUsize>,
    directory: PathBuf,
    main: u32,
}

impl Janitor {
    const PERIOD: Duration = Duration::from_secs(2);

    fn start(directory: PathBuf, main: u32) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thinned = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&thinned);
        let watched = directory.clone();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(Self::PERIOD) == Err(mpsc::RecvTimeoutError::Timeout) {
                count.fetch_add(kept::thin(&watched, Some(main)), Ordering::Relaxed);
            }
        });
        Self {
            stop,
            thread,
            thinned,
            directory,
            main,
        }
    }

    /// Stops, and says how many profile files went in all.
    fn end(self) -> usize {
        drop(self.stop);
        // A panic there has been printed, and costs only tidiness.
        let _ = self.thread.join();
        self.thinned.load(Ordering::Relaxed) + kept::thin(&self.directory, Some(self.main))
    }
}

fn list(bases: &[PathBuf], json: bool) -> Result<ExitCode> {
    let kept: Vec<_> = bases.iter().flat_map(|base| kept::list(base)).collect();
    let names: Vec<String> = bases
        .iter()
        .map(|base| base.display().to_string())
        .collect();
    let names = names.join(" and ");
    if json {
        let rows: Vec<serde_json::Value> = kept
            .iter()
            .map(|kept| {
                serde_json::json!({
                    "name": kept.name(),
                    "folder": kept.directory,
                    "running": kept.running,
                    "bytes": kept.bytes,
                    "pages": kept.profiles,
                    "record": kept.record,
                })
            })
            .collect();
        print(&(serde_json::to_string_pretty(&rows)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if kept.is_empty() {
        print(&format!("No data of earlier runs is kept in {names}.\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let now = process::unix_ns();
    let mut text = String::new();
    for kept in &kept {
        let (age, how) = match &kept.record {
            Some(record) => {
                let age = now.saturating_sub(record.begun_unix_ns) as f64 / 1e9;
                let how = match &record.ending {
                    Some(ending) => ending.to_string(),
                    None if kept.running => "runs".to_owned(),
                    None => "was left alone: its `freehold run` was killed".to_owned(),
                };
                (format!("{} ago", amounts::duration(age)), how)
            }
            None => (String::new(), "has no record".to_owned()),
        };
        let profiles = if kept.profiles == 1 {
            "1 process".to_owned()
        } else {
            format!("{} processes", kept.profiles)
        };
        text += &format!(
            "{:<28} {:>10}  {profiles}, {age}, {how}\n",
            kept.name(),
            amounts::bytes(kept.bytes)
        );
    }
    text += &format!(
        "In {names}; every command takes these names. `freehold run --clean` removes what has ended.\n"
    );
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn clean(bases: &[PathBuf], wanted: &[String]) -> Result<ExitCode> {
    let kept = bases.iter().flat_map(|base| kept::list(base)).collect();
    let gone = kept::clean(kept, wanted)?;
    let bytes = gone.iter().map(|kept| kept.bytes).sum();
    print(&format!(
        "{} removed, {} freed.\n",
        plural(gone.len(), "run", "runs"),
        amounts::bytes(bytes)
    ))?;
    Ok(ExitCode::SUCCESS)
}
