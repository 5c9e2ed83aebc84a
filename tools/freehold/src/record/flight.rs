//! The flight recorder: each process keeps its last records in a file, and no command stays beside it.
//!
//! The file is the recorder's own ring (`recorder/raw.h`), which is in a directory that outlives the program.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use profile_file::output_file::make_directory;
use profile_file::process::text_of;
use trace_file::{Compiler, Header, Losses, RawRecording};

use super::collect::{BLOCK, BLOCK_HEADER, FULL, HEADER, OWNED, VERSION};
use super::{LATER, ticks};
use crate::{amounts, output, trace, wording};

/// How the directories begin that are made where nobody asked for one, and where they are.
const PREFIX: &str = "freehold-flight-";
const MEMORY: &str = "/dev/shm";

const LEAST: u64 = 1 << 20;
const MOST: u64 = 64 << 30;
/// What a block begins with: a stamp.
const STAMP: u64 = 13;

/// What one process's ring may hold.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = amounts::parse_bytes(text)?;
    if !(LEAST..=MOST).contains(&bytes) {
        return Err("the flight recorder keeps 1m to 64g of records".to_owned());
    }
    Ok(bytes)
}

/// Becomes the command; returns only if that fails.
pub fn begin(
    mut command: Command,
    bytes: u64,
    place: Option<&Path>,
    name: &OsString,
    allocator: &str,
) -> Result<ExitCode> {
    let directory = directory(place)?;
    command
        .env("FREEHOLD_RECORD", &directory)
        .env("FREEHOLD_RECORD_WHEN_FULL", "ring")
        .env("FREEHOLD_RECORD_BLOCKS", (bytes / BLOCK as u64).to_string())
        .env("FREEHOLD_RECORD_KEEP", "1")
        .env("FREEHOLD_RECORD_ON", allocator)
        .env("FREEHOLD_RECORD_READER", "0")
        .env_remove(LATER);
    tell_line!(
        "freehold: the last {} of each process's records are kept in {}\n\
         After its end: freehold trace flight {} -o FILE",
        amounts::bytes(bytes),
        directory.display(),
        directory.display()
    );
    let error = command.exec();
    tell_line!("freehold: cannot start {name:?}: {error}");
    // Stays if something was in it before.
    let _ = std::fs::remove_dir(&directory);
    Ok(ExitCode::from(127))
}

/// The one that was asked for, or a new one in memory.
fn directory(place: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = place {
        make_directory(path)
            .with_context(|| format!("cannot make the directory {}", path.display()))?;
        return path
            .canonicalize()
            .with_context(|| path.display().to_string());
    }
    let name = || tempfile::Builder::new().prefix(PREFIX).to_owned();
    let made = name()
        .tempdir_in(MEMORY)
        .or_else(|_| name().tempdir())
        .context("cannot make a directory for the records")?;
    Ok(made.keep())
}

/// What one process left.
struct Flight {
    path: PathBuf,
    process: u64,
    begin_ticks: u64,
    allocator: String,
    overwritten: u64,
    damaged: u64,
    blocks: Vec<u8>,
}

impl Flight {
    fn records(&self) -> u64 {
        RawRecording::new(&self.blocks).records
    }

    /// Seconds from the oldest record that is left to the newest one.
    fn seconds(&self, ticks_per_ns: f64) -> f64 {
        let recording = RawRecording::new(&self.blocks);
        let mut stamps = recording.ordered().map(|record| record.ticks);
        let first = stamps.next().unwrap_or(self.begin_ticks);
        let last = stamps.last().unwrap_or(first);
        last.saturating_sub(first) as f64 / ticks_per_ns / 1e9
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

/// What `freehold record` or the option flight calls the allocator.
fn name_in(field: &[u8]) -> String {
    let length = field.iter().position(|byte| *byte == 0);
    let name = String::from_utf8_lossy(&field[..length.unwrap_or(0)]);
    let plain = !name.is_empty() && !name.contains(char::is_control);
    String::from(if plain { &name } else { "unknown" })
}

/// Checks all that it uses: the program may have died anywhere, and may have written over its own file.
fn open(path: &Path) -> Result<Flight> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut header = vec![0; HEADER];
    match file.read_exact(&mut header) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            bail!("unfinished or no recording: {length} bytes, and the header alone has {HEADER}")
        }
        other => other?,
    }
    ensure!(
        header[..8] != [0; 8],
        "unfinished: the program died before it had written the header"
    );
    ensure!(
        &header[..8] == b"FHRAWREC",
        "no recording: it does not begin with FHRAWREC"
    );
    let version = word(&header, 8) as u32;
    ensure!(
        version == VERSION,
        "a recording of version {version}; this command reads version {VERSION}"
    );
    let count = word(&header, 16);
    ensure!(
        (1..=1 << 24).contains(&count),
        "corrupt: {count} blocks at offset 16"
    );
    let first = HEADER as u64 + (count * 4).next_multiple_of(4096);
    let whole = first + count * BLOCK as u64;
    ensure!(
        length == whole,
        "corrupt: {length} bytes instead of {whole}"
    );
    let process = word(&header, 24);
    ensure!(
        !is_mapped(process, path),
        "process {process} still runs and writes into it; ask again after its end"
    );
    let mut states = vec![0; count as usize * 4];
    file.read_exact_at(&mut states, HEADER as u64)?;
    let mut found = Flight {
        path: path.to_owned(),
        process,
        begin_ticks: word(&header, 40),
        allocator: name_in(&header[112..144]),
        overwritten: word(&header, 56),
        damaged: 0,
        blocks: Vec::new(),
    };
    let mut block = vec![0; BLOCK];
    for (index, state) in (0..).zip(states.chunks_exact(4)) {
        if ![OWNED, FULL].contains(&u32::from_le_bytes([
            state[0], state[1], state[2], state[3],
        ])) {
            continue;
        }
        file.read_exact_at(&mut block, first + index * BLOCK as u64)?;
        let first = word(&block, BLOCK_HEADER);
        if first != 0 && first & 15 != STAMP {
            found.damaged += 1;
        } else if first != 0 {
            found.blocks.extend_from_slice(&block);
        }
    }
    Ok(found)
}

/// Whether the process that made the file still has it mapped; its number may belong to another one by now.
fn is_mapped(process: u64, path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else {
        return false;
    };
    text_of(Path::new(&format!("/proc/{process}/maps"))).is_ok_and(|maps| {
        maps.lines()
            .any(|line| line.ends_with(&*path.to_string_lossy()))
    })
}

/// Ticks in a nanosecond on this machine. The recording's own beginning may be of an earlier boot.
fn ticks_per_ns() -> f64 {
    let (ticks, ns) = (ticks::now(), ticks::monotonic_ns());
    std::thread::sleep(Duration::from_millis(20));
    let passed = ticks::monotonic_ns().saturating_sub(ns).max(1);
    ticks::now().saturating_sub(ticks).max(1) as f64 / passed as f64
}

fn below(place: &PathBuf) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The directories that are made where nobody asked for one, as far as this user may read them: in memory, or where
/// `freehold run` keeps a run's profile files.
fn directories() -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from(MEMORY), std::env::temp_dir()];
    places.dedup();
    let runs = profile_file::kept::kept_directories();
    places.extend(runs.iter().flat_map(below));
    let begins = |path: &PathBuf| {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with(PREFIX))
    };
    let mut found: Vec<PathBuf> = places.iter().flat_map(below).filter(begins).collect();
    found.sort();
    found
}

/// What a person calls `recording`: a path, or a process by its number.
fn meant(recording: Option<&Path>) -> Result<Vec<PathBuf>> {
    let everywhere = || -> Result<Vec<PathBuf>> {
        let all: Result<Vec<_>> = directories().iter().map(|path| files(path)).collect();
        Ok(all?.concat())
    };
    let Some(path) = recording else {
        return everywhere();
    };
    let number = path.to_str().and_then(|word| word.parse::<u64>().ok());
    let Some(process) = number.filter(|_| !path.exists()) else {
        return files(path);
    };
    let begin = format!("{process}-");
    let mut found = everywhere()?;
    found.retain(|path| {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with(&begin))
    });
    ensure!(
        !found.is_empty(),
        "no process {process} has left records below {MEMORY} or {}; of `record --flight -o DIRECTORY` name the directory",
        std::env::temp_dir().display()
    );
    Ok(found)
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found: Vec<PathBuf> = std::fs::read_dir(path)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "raw"))
        .collect();
    found.sort();
    Ok(found)
}

/// Lists what is there, or compiles a recording into a trace.
pub fn show(recording: Option<&Path>, to: Option<&Path>) -> Result<ExitCode> {
    let per_ns = ticks_per_ns();
    let (found, most) = find(recording)?;
    let most = &found[most];
    if let Some(to) = to {
        output::print(&format!(
            "{}Next: freehold replay {} --on system,freehold\n",
            write(most, per_ns, to)?,
            to.display()
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for flight in &found {
        text += &format!(
            "{}: process {}, {} records of its last {}; {} older ones overwritten\n",
            flight.path.display(),
            flight.process,
            wording::plain_count(flight.records()),
            wording::duration(flight.seconds(per_ns)),
            wording::plain_count(flight.overwritten)
        );
    }
    output::print(&format!(
        "{text}Next: freehold trace flight {} -o FILE\n",
        most.path.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Compiles the last records of what a person calls `recording` into a trace. Returns what is to be said of it.
pub fn compile(recording: &Path, to: &Path) -> Result<String> {
    let (found, most) = find(Some(recording))?;
    write(&found[most], ticks_per_ns(), to)
}

/// The recordings that are meant, and which of them has the most records.
fn find(recording: Option<&Path>) -> Result<(Vec<Flight>, usize)> {
    let called = recording.map_or(MEMORY.into(), |path| path.display().to_string());
    let files = meant(recording).with_context(|| called.clone())?;
    let mut found = Vec::new();
    for file in &files {
        match open(file).with_context(|| file.display().to_string()) {
            Ok(flight) => found.push(flight),
            Err(error) if files.len() == 1 => return Err(error),
            Err(error) => tell_line!("freehold: {error:#}"),
        }
    }
    let most = (0..found.len()).max_by_key(|at| found[*at].records());
    match most.filter(|at| found[*at].records() > 0) {
        Some(most) => Ok((found, most)),
        None => bail!("{called}: no records of an ended program"),
    }
}

/// Returns what is to be said of the trace.
fn write(flight: &Flight, per_ns: f64, to: &Path) -> Result<String> {
    let recording = RawRecording::new(&flight.blocks);
    let header = Header {
        origin: "flight".to_string(),
        allocator: flight.allocator.clone(),
        arch: std::env::consts::ARCH.to_string(),
    };
    let (operations, losses) = trace::write_whole(to, &header, |put| {
        let mut compiler = Compiler::default();
        let (mut begin, mut failed) = (None, None);
        for record in recording.ordered() {
            // The trace begins with the oldest record that is left, not with the program.
            let ticks = record
                .ticks
                .saturating_sub(*begin.get_or_insert(record.ticks));
            compiler.add(&record, (ticks as f64 / per_ns) as u64, &mut |op| {
                if failed.is_none() {
                    failed = put(op).err();
                }
            });
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(Losses {
                lost: compiler.losses.lost + flight.overwritten,
                ..compiler.losses
            }),
        }
    })?;
    let mut text = format!(
        "{} operations in {}: the last {} of process {}\n{}",
        wording::plain_count(operations),
        to.display(),
        wording::duration(flight.seconds(per_ns)),
        flight.process,
        trace::missing(&losses)
    );
    if flight.damaged > 0 {
        text += &format!(
            "{} damaged; their records are not in it\n",
            wording::plural(flight.damaged as usize, "block is", "blocks are")
        );
    }
    if flight.overwritten > 0 {
        text += "Blocks that were allocated before its beginning are not in it: its peak is too low by what they held\n";
    }
    Ok(text)
}
