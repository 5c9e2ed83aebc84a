//! `freehold record`: a program's allocations, with its threads, into a trace.
//!
//! | module | what it does |
//! |---|---|
//! | `attach` | of a program that runs already |
//! | `collect` | drains the recorder's shared files while the program runs |
//! | `flight` | the ring that a program keeps without a command beside it |
//! | `resident` | what the program has resident |
//! | `ticks` | the clock of the records |

pub mod attach;
mod collect;
pub mod flight;
mod resident;
mod ticks;

use std::ffi::OsString;
use std::io::BufWriter;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use profile_file::output_file::{self, Draft};
use serde_json::json;
use trace_file::{Compiler, Header, Losses, RawRecording, Timed, Writer};

use crate::allocator;
use crate::interrupt;
use crate::leaks::parse_time;
use crate::library;
use crate::wording::plain_count;
use collect::{Collector, Process};

/// Room for records, where nothing else is said.
const BLOCKS: u32 = 1024;

/// Records every call of a command's allocator, with its threads, into a trace.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold record -o server.trace ./server      under Freehold\n  \
    freehold record --on system -o git.trace git status\n  \
    freehold record --for 10s -o now.trace 4711   of a process of `freehold run --recordable`\n  \
    freehold record --flight 64m -- ./server      only its last records, with no command beside it\n  \
    freehold trace info git.trace                 what is in it\n  \
    freehold replay git.trace --on system,freehold\n\n\
    Exit code: that of the command; 128 and the signal if a signal ended it; 127 if it did not start.")]
pub struct Args {
    /// The command and its arguments, or the number of a process that `freehold run --recordable` started.
    #[arg(
        value_name = "CMD or PID",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true
    )]
    command: Vec<OsString>,

    /// Where the trace goes: freehold.trace if not given. With --flight the directory of the records.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Keep only the last SIZE of each process's records, in a file that outlives it, and become the command.
    #[arg(long, value_name = "SIZE", value_parser = flight::size,
          conflicts_with_all = ["when_full", "blocks", "all", "json"])]
    flight: Option<u64>,

    /// How long a process is recorded: 500ms, 10s, 5m or 1h. Until Ctrl-C if not given.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, conflicts_with = "flight")]
    how_long: Option<Duration>,

    /// The allocator that the command gets: freehold, system, a known name, or the path of a library.
    #[arg(long, value_name = "ALLOCATOR", default_value = "freehold")]
    on: String,

    /// What a thread does when this command falls behind: wait for room, drop what it has, or overwrite the oldest.
    #[arg(long, value_name = "HOW", default_value = "wait", value_parser = ["wait", "drop", "ring"])]
    when_full: String,

    /// Room for records that were not fetched yet, in blocks of 64 KiB.
    #[arg(long, value_name = "BLOCKS", default_value_t = BLOCKS, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    blocks: u32,

    /// Keep the traces of all processes and programs that it became: FILE.PID-N beside FILE.
    #[arg(long)]
    all: bool,

    /// Print the summary as one line of JSON (on stderr, because stdout is the command's).
    #[arg(long)]
    json: bool,

    /// The drop-in library, when it is not beside this command.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
}

impl Args {
    fn output(&self) -> &Path {
        self.output
            .as_deref()
            .unwrap_or(Path::new("freehold.trace"))
    }
}

/// A program that has it in its environment is recorded when it is asked to, and not before. This command may run in one.
const LATER: &str = "FREEHOLD_RECORD_LATER";

/// The recorder times one call in so many.
const TIMED_EACH: f64 = 241.0;

/// What was written of one process.
struct Written {
    process: String,
    path: PathBuf,
    operations: u64,
    bytes: u64,
    losses: Losses,
    waits: u64,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(pid) = attach::process_of(&args.command)? {
        ensure!(args.flight.is_none(), "--flight is for a command");
        ensure!(
            args.on == "freehold",
            "--on is for a command: process {pid} has its allocator already"
        );
        ensure!(
            args.blocks == BLOCKS,
            "--blocks is for a command: process {pid} has its room already"
        );
        may_write(args)?;
        return attach::run(args, pid);
    }
    ensure!(args.how_long.is_none(), "--for is for a process that runs");
    let recorder = library::beside(args.library.as_deref(), library::RECORDER)?;
    let below = allocator::library_of(&args.on, args.library.as_deref())?;
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    command.env("LD_PRELOAD", preload(&recorder, below.as_deref()));
    if let Some(bytes) = args.flight {
        return flight::begin(
            command,
            bytes,
            args.output.as_deref(),
            &args.command[0],
            &allocator::label(&args.on),
        );
    }
    may_write(args)?;
    let mut collector = Collector::new(u64::from(args.blocks), &args.when_full)?;
    // A terminal that is gone has told the command, too; where SIGHUP is ignored that stays so for it.
    let all = [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ];
    let asked = all
        .into_iter()
        .filter(|signal| !interrupt::is_ignored(*signal));
    let asked: Vec<_> = asked
        .map(|signal| {
            let flag = Arc::new(AtomicBool::new(false));
            let registered = signal_hook::flag::register(signal, Arc::clone(&flag));
            (signal, flag, registered)
        })
        .collect();
    command.envs(collector.environment());
    command.env_remove(LATER);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            tell_line!("freehold: cannot start {:?}: {error}", args.command[0]);
            return Ok(ExitCode::from(127));
        }
    };
    let status = loop {
        let progress = collector.drain()?;
        if let Some(status) = child.try_wait()? {
            break status;
        }
        for (signal, flag, _) in &asked {
            if flag.swap(false, Ordering::Relaxed) && *signal == signal_hook::consts::SIGTERM {
                terminate(&child);
            }
        }
        if !progress {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let processes = collector.finish()?;
    summarize(args, &processes, Some(status), children_cpu())?;
    Ok(exit_code(status))
}

/// Found out before the program has run for an hour. What is there stays until there is something in its place.
fn may_write(args: &Args) -> Result<()> {
    let path = args.output();
    output_file::may_replace(path).with_context(|| format!("cannot write {}", path.display()))
}

/// The terminal gives an interrupt to the command as well; a SIGTERM is for this process alone, and is passed on.
fn terminate(child: &Child) {
    if let Some(pid) = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        // It may have ended just now, which is what was asked for.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// The recorder comes first, then the allocator that it records, then what was there before.
fn preload(recorder: &Path, below: Option<&Path>) -> OsString {
    let mut list = recorder.as_os_str().to_owned();
    for path in below
        .map(Path::as_os_str)
        .into_iter()
        .map(OsString::from)
        .chain(std::env::var_os("LD_PRELOAD").filter(|before| !before.is_empty()))
    {
        list.push(":");
        list.push(path);
    }
    list
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn write_trace(args: &Args, process: &Process, path: &Path) -> Result<Written> {
    let spool = process.spooled()?;
    let recording = RawRecording::new(&spool);
    let header = Header {
        origin: "record".to_string(),
        allocator: allocator::label(&args.on),
        arch: std::env::consts::ARCH.to_string(),
    };
    let named = || format!("cannot write {}", path.display());
    let draft = Draft::begin(path).with_context(named)?;
    let mut writer = Writer::new(BufWriter::new(draft.file()), &header).with_context(named)?;
    let mut compiler = Compiler::default();
    let mut failed = None;
    let mut places = process.resident.as_ref().map(resident::Watch::places);
    let (mut last, per_ns) = (0, process.ticks_per_ns);
    for record in recording.ordered() {
        let ticks = record.ticks.saturating_sub(process.begin_ticks);
        last = last.max((ticks as f64 / per_ns) as u64);
        if let (Some(places), true) = (&mut places, record.is_block()) {
            places.put(record.address, record.size);
        }
        compiler.add(&record, last, &mut |op| {
            if failed.is_none() {
                failed = writer.put(op).err();
            }
        });
    }
    if let Some(error) = failed {
        return Err(error).with_context(named);
    }
    let mut losses = compiler.losses;
    losses.lost += process.lost;
    let watched = process.resident.as_ref().zip(places.as_ref());
    writer.set_resident(watched.and_then(|(watch, places)| watch.resident_with(places)));
    let (_, operations) = writer.finish(losses.clone()).with_context(named)?;
    draft.finish().with_context(named)?;
    Ok(Written {
        process: process.name.clone(),
        path: path.to_path_buf(),
        operations,
        bytes: std::fs::metadata(path).with_context(named)?.len(),
        losses,
        waits: process.waits,
    })
}

/// `usage` is the CPU time of all of it.
fn summarize(
    args: &Args,
    processes: &[Process],
    status: Option<ExitStatus>,
    usage: Option<f64>,
) -> Result<()> {
    let Some(main) = processes.iter().max_by_key(|process| process.blocks) else {
        if status.is_none() {
            bail!("nothing was recorded: the process made no call of its allocator");
        }
        bail!(
            "nothing was recorded: the command never allocated, or took no preloaded library (statically linked, or \
             set-user-id?); `freehold doctor CMD` says more"
        );
    };
    let mut written = vec![write_trace(args, main, args.output())?];
    let others: Vec<&Process> = processes.iter().filter(|p| p.name != main.name).collect();
    if args.all {
        for process in &others {
            let mut path = args.output().as_os_str().to_owned();
            path.push(format!(".{}", process.name));
            written.push(write_trace(args, process, Path::new(&path))?);
        }
    }
    let share = share(processes, usage);
    if args.json {
        let all: Vec<_> = written
            .iter()
            .map(|w| json!({"process": w.process, "file": w.path.display().to_string(), "operations": w.operations,
                            "bytes": w.bytes, "losses": w.losses, "waits": w.waits}))
            .collect();
        let line = json!({"exit": status.and_then(|it| it.code()), "signal": status.and_then(|it| it.signal()), "traces": all,
                          "left_out": if args.all { 0 } else { others.len() }, "allocator_share": share});
        tell_line!("{line}");
        return Ok(());
    }
    for one in &written {
        say(one);
    }
    if !args.all && !others.is_empty() {
        tell_line!(
            "freehold: {} other processes or programs were recorded and not kept; --all keeps them",
            others.len()
        );
    }
    if let Some(share) = share {
        tell_line!(
            "freehold: about {:.1} % of the CPU time, the recorder's included, was spent in the allocator (one call in 241 was timed)",
            share * 100.0
        );
    }
    tell_line!("Next: freehold trace info {}", args.output().display());
    Ok(())
}

fn say(one: &Written) {
    tell_line!(
        "freehold: {} operations in {} ({} bytes)",
        plain_count(one.operations),
        one.path.display(),
        plain_count(one.bytes)
    );
    let losses = &one.losses;
    if losses.lost + losses.unknown_frees + losses.missed_frees + losses.failed > 0 {
        tell_line!(
            "freehold: {} records lost, {} releases of unknown blocks, {} releases missed, {} calls refused",
            plain_count(losses.lost),
            plain_count(losses.unknown_frees),
            plain_count(losses.missed_frees),
            plain_count(losses.failed)
        );
    }
}

/// Timed calls stand for all; what the timing adds is taken off. None if the recording was too short to tell.
fn share(processes: &[Process], usage: Option<f64>) -> Option<f64> {
    let usage = usage?;
    let mut seconds = 0.0;
    for process in processes {
        let spool = process.spooled().ok()?;
        let recording = RawRecording::new(&spool);
        let Timed {
            ticks,
            empty,
            nanoseconds,
            ..
        } = recording.timed;
        let short = ticks.saturating_sub(empty) as f64 / process.ticks_per_ns;
        seconds += (short + nanoseconds as f64) * TIMED_EACH / 1e9;
    }
    (usage > 0.02).then_some(seconds / usage)
}

/// CPU seconds of the children that have ended.
fn children_cpu() -> Option<f64> {
    // SAFETY: an all-zero rusage is valid, and getrusage writes only to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        if libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) != 0 {
            return None;
        }
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Some(seconds(usage.ru_utime) + seconds(usage.ru_stime))
}
