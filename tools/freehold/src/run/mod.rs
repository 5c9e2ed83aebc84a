//! `freehold run`: a program under Freehold, observed, and what is left of it kept.
//!
//! | module | what it does |
//! |---|---|
//! | `child` | starts it, passes signals on, waits |
//! | `ending` | how it ended, and who sent a SIGKILL |
//! | `fault` | the touch of a guard that it ended by |
//! | `kept` | where its profile files are, bounded, listed, removed |
//! | `offered` | profile files in memory, where no directory has room |
//! | `share` | what share of its CPU time is spent in the allocator |
//! | `summary` | three lines at the end, and one more of a fault |

mod checked;
mod child;
mod ending;
pub use ending::signal_name;
mod fault;
mod kept;
mod offered;
mod share;
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
use profile_file::{kept as kept_in, names, output_file, process};

use crate::amounts;
use crate::naming::NamingArgs;
use crate::output::print;
use crate::record::attach::Recordable;
use crate::wording::plural;
use crate::{doctor, library};
use child::{GroupWatch, Observation};
use ending::Kills;
use kept::Record;
use offered::Offered;
use summary::{Run, Summary};

/// Runs a command under Freehold, observed, and keeps what it shows even if it crashes.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold run ./server --port 80              then, elsewhere: freehold top server\n  \
    freehold run --sample 64k -- python3 app.py  more samples: sees smaller things, costs more\n  \
    freehold run --save build.freehold make      one file to take along, for every other command\n  \
    freehold run --guard=100 ./server            finds overruns and uses after free, by chance\n  \
    freehold run --check ./server                finds misuse at the call, and names functions and lines\n  \
    freehold run --list                          what is kept of earlier runs;  --clean removes it\n\n\
    Exit code: that of the command; 128 and the signal if a signal ended it; 126 or 127 if it did not start.")]
pub struct Args {
    /// The command and its arguments.
    #[arg(value_name = "CMD", trailing_var_arg = true, allow_hyphen_values = true, required_unless_present_any = ["list", "clean"])]
    command: Vec<OsString>,

    /// Mean bytes between two samples.
    #[arg(long, value_name = "BYTES", default_value = "512k", value_parser = amounts::parse_bytes)]
    sample: u64,

    /// One allocation in so many has guards around it: an access beyond it, or after its free, is explained.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    guard: Option<u32>,

    /// Find misuse of memory at the call, and name the functions in its reports. 2: verify the heap too. The program is not observed.
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(u8).range(1..=2), conflicts_with_all = ["guard", "keep", "save", "json", "list", "clean"])]
    check: Option<u8>,

    /// Let `freehold record PID` record the program while it runs. Until then each call of malloc takes some nanoseconds more.
    #[arg(long)]
    recordable: bool,

    /// Keep the profile files in this directory, which is never removed, instead of in the user's own.
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

    #[command(flatten)]
    naming: NamingArgs,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let bases = kept_in::kept_directories();
    if args.list {
        return list(&bases, args.json);
    }
    if let Some(wanted) = &args.clean {
        return clean(&bases, wanted);
    }
    if let Some(level) = args.check {
        return checked::run(args, level);
    }
    observe(args)
}

/// Where the profile files of a run are.
struct Place {
    /// With the record of the run; none if not even that can be written anywhere.
    directory: Option<PathBuf>,
    /// Where they are if no directory has room for them.
    offered: Option<Offered>,
    /// By which a directory that the user chose is found under the program's name.
    link: Option<PathBuf>,
}

impl Place {
    fn choose(args: &Args, program: &str) -> Result<Self> {
        if let Some(directory) = &args.keep {
            let directory = given_folder(directory)?;
            if let Some(said) = kept_in::too_small(&directory) {
                tell_line!("freehold: {said}");
            }
            // Without a link the run is found by its directory only, as the summary names it.
            let base = kept_in::kept_directory().path;
            kept::prune(&base);
            let link = kept::new_link(&base, program, &directory).ok();
            return Ok(Self {
                directory: Some(directory),
                offered: None,
                link,
            });
        }
        let base = kept_in::kept_directory();
        if let Some(said) = base.said {
            tell_line!("freehold: {said}");
        }
        let made = kept::private_folder(&base.path).and_then(|()| {
            kept::prune(&base.path);
            kept::new_run(&base.path, program)
        });
        if base.is_roomy {
            return Ok(Self {
                directory: Some(made?),
                offered: None,
                link: None,
            });
        }
        Ok(Self {
            directory: made.ok(),
            offered: Some(Offered::new()?),
            link: None,
        })
    }

    /// What the library is told.
    fn page(&self) -> PathBuf {
        match (&self.offered, &self.directory) {
            (Some(offered), _) => offered.page(),
            (None, directory) => directory.clone().unwrap_or_default(),
        }
    }

    /// Of the run that began at that moment.
    fn profiles(&self, begun_unix_ns: u64) -> Vec<PathBuf> {
        match (&self.offered, &self.directory) {
            (Some(offered), _) => offered.profiles(),
            (None, Some(directory)) => kept::profiles_since(directory, begun_unix_ns),
            (None, None) => Vec::new(),
        }
    }

    /// What was done is noted as far as there is room: the program runs all the same.
    fn note(&self, record: &Record) {
        let written = self.directory.as_ref().map(|it| record.write(it));
        if let (Some(Err(error)), None) = (written, &self.offered) {
            tell_line!("freehold: how it ended is not kept: {error:#}");
        }
    }

    /// Removes the directory of a run that nothing is kept of, unless it is the user's.
    fn forget(&self, args: &Args) {
        if let (Some(directory), None) = (&self.directory, &args.keep) {
            let _ = std::fs::remove_dir_all(directory);
        }
        if let Some(link) = &self.link {
            let _ = std::fs::remove_file(link);
        }
    }
}

fn observe(args: &Args) -> Result<ExitCode> {
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
        tell_line!(
            "freehold: Freehold will not be active in {}: {obstacle}",
            command[0]
        );
    }
    let name = own_name(&command);
    let place = Place::choose(args, &name)?;
    let mut record = Record::new(command.clone());
    match (&place.directory, &place.offered) {
        (Some(directory), None) => record.write(directory)?,
        _ => place.note(&record),
    }
    let page = place.page();

    let recordable = args
        .recordable
        .then(|| Recordable::new(args.library.as_deref()))
        .transpose()?;
    let how = Observation {
        library: &library,
        directory: &page,
        interval: args.sample,
        guard: args.guard,
        recordable: recordable.as_ref(),
    };
    let before = Kills::of(std::process::id());
    let prepared = share::Prepared::new();
    let begun = Instant::now();
    let mut child = match child::start(&args.command, &how)? {
        Ok(child) => child,
        Err(failed) => {
            // Nothing is in it yet but our own record.
            place.forget(args);
            tell_line!("freehold: {}", failed.message);
            return Ok(ExitCode::from(failed.code));
        }
    };
    let watch = prepared.map(share::Prepared::begin);
    let pid = child.id();
    record.pid = Some(u64::from(pid));
    let janitor = match &place.offered {
        None => Some(Janitor::start(
            page.clone(),
            kept::Thinned {
                main: Some(pid),
                since_unix_ns: record.begun_unix_ns,
            },
        )),
        Some(_) => None,
    };
    let outcome = child::wait(&mut child, GroupWatch::start(pid, before))?;
    let ended_ns = process::monotonic_ns();
    let seconds = begun.elapsed().as_secs_f64();
    let share = watch.and_then(share::Watch::end);
    wait_for_profiles(&place, record.begun_unix_ns);
    let thinned = janitor.map_or(0, Janitor::end);

    record.end(outcome.ending.clone(), ended_ns);
    // The directory may be full by now. What the program did is told all the same.
    place.note(&record);
    let profiles = place.profiles(record.begun_unix_ns);
    let run = Run {
        command: &command,
        name: &name,
        pid,
        outcome: &outcome,
        seconds,
        ended_ns,
        share,
        directory: place.directory.as_deref().unwrap_or(Path::new("")),
        profiles: &profiles,
        thinned,
        obstacle,
        naming: args.naming.clone(),
    };
    finish(args, &run, &place)
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
fn finish(args: &Args, run: &Run, place: &Place) -> Result<ExitCode> {
    let mut summary = Summary::of(run);
    // What is in memory is gone when this command ends; saved, it takes a hundredth of the room.
    let kept = place.directory.as_ref().filter(|_| place.offered.is_some());
    let kept = kept.map(|directory| directory.join(kept::SAVED));
    if let (Some(file), Some(heap)) = (args.save.as_ref().or(kept.as_ref()), &summary.heap) {
        let profile = heap.profile.display().to_string();
        match save(run, &summary, file) {
            Ok(()) => {
                summary.next = summary.next.replace(&profile, &file.display().to_string());
                summary.saved = Some(file.clone());
            }
            Err(error) => tell_line!("freehold: nothing was saved: {error:#}"),
        }
    } else if args.save.is_some() {
        tell_line!("freehold: nothing was saved: no process of it was observed");
    }
    if place.offered.is_some() && summary.heap.is_some() && summary.saved.is_none() {
        summary.next = format!(
            "freehold run --save FILE {}, because nothing could be kept",
            run.command.join(" ")
        );
    }
    if summary.processes == 0 && observed_by(&place.page()).is_empty() {
        // Nothing is in it but our own record.
        place.forget(args);
    }
    if args.json {
        tell_line!("{}", serde_json::to_string(&summary)?);
    } else {
        tell!("{}", summary.to_text());
    }
    Ok(ExitCode::from(summary.exit_code))
}

fn save(run: &Run, summary: &Summary, file: &Path) -> Result<()> {
    let heap = summary
        .heap
        .as_ref()
        .context("no process of it was observed")?;
    run.read(&heap.profile)
        .context("its profile file cannot be read any more")?
        .save(file)?;
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
fn wait_for_profiles(place: &Place, begun_unix_ns: u64) {
    for _ in 0..20 {
        if !place.profiles(begun_unix_ns).is_empty() || observed_by(&place.page()).is_empty() {
            return;
        }
        thread::sleep(Duration::from_millis(25));
    }
}

/// A directory that the user chose; it is theirs, so its rights are left as they are.
fn given_folder(directory: &Path) -> Result<PathBuf> {
    output_file::make_directory(directory)
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
    run: kept::Thinned,
}

impl Janitor {
    const PERIOD: Duration = Duration::from_secs(2);

    fn start(directory: PathBuf, run: kept::Thinned) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thinned = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&thinned);
        let watched = directory.clone();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(Self::PERIOD) == Err(mpsc::RecvTimeoutError::Timeout) {
                count.fetch_add(kept::thin(&watched, &run), Ordering::Relaxed);
            }
        });
        Self {
            stop,
            thread,
            thinned,
            directory,
            run,
        }
    }

    /// Stops, and says how many profile files went in all.
    fn end(self) -> usize {
        drop(self.stop);
        // A panic there has been printed, and costs only tidiness.
        let _ = self.thread.join();
        self.thinned.load(Ordering::Relaxed) + kept::thin(&self.directory, &self.run)
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
    let kept: Vec<_> = bases.iter().flat_map(|base| kept::list(base)).collect();
    let (gone, bytes) = kept::clean(&kept, wanted)?;
    print(&format!(
        "{} removed, {} freed.\n",
        plural(gone, "run", "runs"),
        amounts::bytes(bytes)
    ))?;
    Ok(ExitCode::SUCCESS)
}
