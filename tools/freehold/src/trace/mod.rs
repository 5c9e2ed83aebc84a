//! `freehold trace`: what is in a trace, and traces made from traces.

mod change;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use profile_file::output_file::Draft;
use trace_file::{
    Header, Kind, Losses, Op, Tally, TextFormat, Trace, Writer, recognize, tally, unpacked,
};

use crate::output;
use crate::record::flight;
use crate::wording;

/// Shows, cuts, anonymizes and imports traces.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold trace info server.trace\n  \
    freehold trace dump server.trace | head\n  \
    freehold trace flight 4711 -o end.trace\n  \
    freehold trace import mtrace.log -o program.trace\n  \
    freehold trace cut --from 1000000 --count 400000 server.trace -o part.trace")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Totals, peaks, sizes, lifetimes, and what was lost.
    Info {
        /// The trace's file.
        trace: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// One line an operation: nanoseconds, thread, call, slot, size, alignment.
    Dump {
        /// The trace's file.
        trace: PathBuf,
        /// The ancestors' form instead, which `import` reads: `a SIZE ID` and `r ID`. A resize is a release and an allocation.
        #[arg(long)]
        text: bool,
    },
    /// A part of it; blocks that are live at its beginning are allocated first.
    Cut {
        /// The trace's file, which stays as it is.
        trace: PathBuf,
        /// The new trace.
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
        /// The first operation, counted from 0.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// How many operations; if not given, all that follow.
        #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
        count: u64,
    },
    /// Without times and the allocator's name, and with sizes rounded up to one of eight steps a doubling.
    Anonymize {
        /// The trace's file, which stays as it is.
        trace: PathBuf,
        /// The new trace.
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
        /// Keep the sizes as they are.
        #[arg(long)]
        exact_sizes: bool,
    },
    /// What the option `flight` or `record --flight` left: a list, or with -o a trace of the last records.
    Flight {
        /// The directory, one process's file in it, or the process's number; without it all that is there. Of a directory -o
        /// takes the file with the most records.
        recording: Option<PathBuf>,
        /// The new trace.
        #[arg(long, short, value_name = "FILE", requires = "recording")]
        output: Option<PathBuf>,
    },
    /// From the text of another tool; packed by gzip or zstd, or as it is.
    Import {
        /// The other tool's file.
        text: PathBuf,
        /// Whose text. If not given, the first line decides.
        #[arg(long, value_enum)]
        format: Option<Format>,
        /// The new trace.
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// `a SIZE ID` and `r ID`.
    Text,
    /// glibc's mtrace.
    Mtrace,
    /// heaptrack, before or after its interpreter.
    Heaptrack,
    /// Android's record_allocs and memory_replay.
    Android,
    /// DynamoRIO's func_view with -show_func_trace.
    Dynamorio,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Info { trace, json } => info(trace, *json)?,
        What::Dump { trace, text } => dump(trace, if *text { ancestors_line } else { line })?,
        What::Cut {
            trace,
            output,
            from,
            count,
        } => {
            another_file(trace, output)?;
            let name = trace.display().to_string();
            let trace = open(trace)?;
            ensure!(
                *from < trace.ops_count(),
                "--from {from}: the trace ends with operation {}",
                trace.ops_count().saturating_sub(1)
            );
            rewrite(output, &trace.header, trace.losses(), |out| {
                change::cut(trace.ops(), *from, *count, out).context(name)
            })?;
        }
        What::Anonymize {
            trace,
            output,
            exact_sizes,
        } => {
            another_file(trace, output)?;
            let name = trace.display().to_string();
            let trace = open(trace)?;
            let header = Header {
                allocator: "unknown".to_string(),
                ..trace.header.clone()
            };
            rewrite(output, &header, trace.losses(), |out| {
                change::anonymize(trace.ops(), *exact_sizes, out).context(name)
            })?;
        }
        What::Flight { recording, output } => {
            return flight::show(recording.as_deref(), output.as_deref());
        }
        What::Import {
            text,
            format,
            output,
        } => import(text, *format, output)?,
    }
    Ok(ExitCode::SUCCESS)
}

pub fn open(path: &Path) -> Result<Trace> {
    Trace::open(path).with_context(|| path.display().to_string())
}

/// What a trace is made from stays as it is.
pub fn another_file(from: &Path, output: &Path) -> Result<()> {
    let real = |path: &Path| path.canonicalize().ok();
    ensure!(
        real(output).is_none_or(|output| real(from) != Some(output)),
        "{} is what the new trace is made from, and would be lost: name another file with -o",
        output.display()
    );
    Ok(())
}

fn import(text: &Path, format: Option<Format>, output: &Path) -> Result<()> {
    another_file(text, output)?;
    let name = || text.display().to_string();
    let file = File::open(text).with_context(name)?;
    let mut input = unpack(BufReader::new(file)).with_context(name)?;
    let format = match format {
        Some(Format::Text) => TextFormat::Text,
        Some(Format::Mtrace) => TextFormat::Mtrace,
        Some(Format::Heaptrack) => TextFormat::Heaptrack,
        Some(Format::Android) => TextFormat::Android,
        Some(Format::Dynamorio) => TextFormat::Dynamorio,
        None => recognize(input.fill_buf().with_context(name)?).with_context(|| {
            format!(
                "{}: no text of a tool that is known; name it with --format",
                text.display()
            )
        })?,
    };
    let header = Header {
        origin: "import".to_string(),
        allocator: "unknown".to_string(),
        arch: "unknown".to_string(),
    };
    let (operations, losses) = write_whole(output, &header, |out| {
        trace_file::import(format, input, out).with_context(name)
    })?;
    say_written(operations, output)?;
    if losses == Losses::default() {
        return Ok(());
    }
    output::print(&missing(&losses))
}

/// heaptrack packs what it writes.
fn unpack(mut input: BufReader<File>) -> Result<Box<dyn BufRead>> {
    let beginning = input.fill_buf()?;
    if beginning.starts_with(b"\x28\xB5\x2F\xFD") {
        return Ok(Box::new(BufReader::new(unpacked(input)?)));
    }
    if beginning.starts_with(b"\x1F\x8B") {
        let unpacked = flate2::bufread::MultiGzDecoder::new(input);
        return Ok(Box::new(BufReader::new(unpacked)));
    }
    Ok(Box::new(input))
}

type Put<'a> = dyn FnMut(Op) -> Result<(), trace_file::TraceError> + 'a;

fn rewrite(
    output: &Path,
    header: &Header,
    losses: &Losses,
    make: impl FnOnce(&mut Box<Put<'_>>) -> Result<()>,
) -> Result<()> {
    let (operations, _) = write_whole(output, header, |put| make(put).map(|()| losses.clone()))?;
    say_written(operations, output)
}

fn say_written(operations: u64, output: &Path) -> Result<()> {
    output::print(&format!(
        "{} operations in {}\n",
        wording::plain_count(operations),
        output.display()
    ))
}

/// Writes the file whole or not at all; how many operations are in it, and what is not. Errors of `make` are of what it
/// reads.
pub fn write_whole(
    output: &Path,
    header: &Header,
    make: impl FnOnce(&mut Box<Put<'_>>) -> Result<Losses>,
) -> Result<(u64, Losses)> {
    let named = || format!("cannot write {}", output.display());
    let draft = Draft::begin(output).with_context(named)?;
    let mut writer = Writer::new(BufWriter::new(draft.file()), header).with_context(named)?;
    let mut unwritten = None;
    let made = {
        let mut put: Box<Put<'_>> = Box::new(|op| {
            writer.put(op).map_err(|error| {
                unwritten = Some(error);
                io::Error::other("it was not written").into()
            })
        });
        make(&mut put)
    };
    if let Some(error) = unwritten {
        return Err(error).with_context(named);
    }
    let losses = made?;
    let (_, operations) = writer.finish(losses.clone()).with_context(named)?;
    draft.finish().with_context(named)?;
    Ok((operations, losses))
}

fn line(text: &mut String, op: &Op) {
    let _ = writeln!(
        text,
        "{} {} {} {} {} {}",
        op.time,
        op.thread,
        op.kind.name(),
        op.slot,
        op.size,
        1u64 << op.align
    );
}

fn ancestors_line(text: &mut String, op: &Op) {
    if op.kind.frees() || op.kind == Kind::Realloc {
        let _ = writeln!(text, "r {}", op.slot);
    }
    if op.kind.allocates() || op.kind == Kind::Realloc {
        let _ = writeln!(text, "a {} {}", op.size, op.slot);
    }
}

fn dump(path: &Path, line: fn(&mut String, &Op)) -> Result<()> {
    let trace = open(path)?;
    let mut text = String::new();
    for op in trace.ops() {
        let op = op.with_context(|| path.display().to_string())?;
        line(&mut text, &op);
        if text.len() > 1 << 16 {
            // The reader may have seen enough.
            if !output::write(text.as_bytes())? {
                return Ok(());
            }
            text.clear();
        }
    }
    output::write(text.as_bytes()).map(|_| ())
}

fn info(path: &Path, json: bool) -> Result<()> {
    let trace = open(path)?;
    let sum = tally(trace.ops()).with_context(|| path.display().to_string())?;
    if json {
        let all = serde_json::json!({"header": trace.header, "file_bytes": trace.file_bytes(),
                                     "losses": trace.losses(), "resident": trace.resident(), "tally": sum});
        return output::print(&format!("{all}\n"));
    }
    output::print(&text(&trace, &sum))?;
    output::print(&format!(
        "Next: freehold replay {} --on system,freehold\n",
        path.display()
    ))
}

fn text(trace: &Trace, sum: &Tally) -> String {
    let count = wording::plain_count;
    let bytes = |number: u64| wording::bytes(number as f64);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} operations of {} over {}, recorded on {} ({}); {} in the file",
        count(sum.ops),
        wording::plural(sum.threads as usize, "thread", "threads"),
        wording::duration(sum.nanoseconds as f64 / 1e9),
        trace.header.allocator,
        trace.header.arch,
        bytes(trace.file_bytes())
    );
    for (name, number) in &sum.calls {
        let _ = writeln!(out, "  {name:13} {:>15}", count(*number));
    }
    let _ = writeln!(
        out,
        "Allocated {}; at the peak {} in {} blocks were live, at the end {} in {}",
        bytes(sum.allocated_bytes),
        bytes(sum.peak_bytes),
        count(sum.peak_blocks),
        bytes(sum.live_bytes),
        count(sum.live_blocks)
    );
    let _ = writeln!(
        out,
        "{} blocks were released or resized by another thread than the one that had them",
        count(sum.crossing)
    );
    out += &resident(trace);
    table(&mut out, "Sizes up to", &sum.sizes, bytes);
    table(
        &mut out,
        "Freed after allocations up to",
        &sum.lifetimes,
        count,
    );
    out += &missing(trace.losses());
    out
}

fn resident(trace: &Trace) -> String {
    let bytes = |number: u64| wording::bytes(number as f64);
    match trace.resident() {
        Some(it) => format!(
            "The program's own memory grew by {} to {}; of that {} in mappings with blocks\n",
            bytes(it.growth()),
            bytes(it.peak),
            bytes(it.growth_of_blocks())
        ),
        None => "The program's own memory: not recorded\n".to_string(),
    }
}

pub fn missing(losses: &Losses) -> String {
    let count = wording::plain_count;
    format!(
        "Not in it: {} lost records, {} releases of unknown blocks, {} missed releases, {} refused calls\n",
        count(losses.lost),
        count(losses.unknown_frees),
        count(losses.missed_frees),
        count(losses.failed)
    )
}

fn table(out: &mut String, title: &str, rows: &BTreeMap<u64, u64>, name: impl Fn(u64) -> String) {
    let _ = writeln!(out, "{title}");
    for (most, number) in rows {
        let _ = writeln!(
            out,
            "  {:>13} {:>15}",
            name(*most),
            wording::plain_count(*number)
        );
    }
}
