//! What share of a program's CPU time is spent in the allocator. The kernel notes, many times a second of CPU time, which
//! instruction each of its threads is at (`perf_event_open` with the CPU's clock). The program does nothing for it.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};
use serde::Serialize;

use super::child::seconds_of_children;

/// Looks in a second of CPU time. Each interrupts the program for some microseconds: less than a thousandth of it.
const RATE: u64 = 199;
/// Room for what a CPU notes until it is read.
const ROOM: usize = 128 << 10;
const PERIOD: Duration = Duration::from_millis(100);
/// Fewer looks say nothing.
const LEAST: u64 = 20;
/// Of the looks that its CPU time should have had, fewer make a wrong picture.
const MOST_OF: f64 = 0.8;
/// That a program became another one (`PERF_RECORD_MISC_COMM_EXEC`).
const EXEC: u16 = 1 << 13;

/// An estimate, with one standard deviation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    pub share: f64,
    pub error: f64,
    /// Looks that it is made of.
    pub looks: u64,
}

/// Why nothing can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// The kernel lets nobody look, as in many containers (`perf_event_open`).
    NotAllowed,
    /// It had less than a tenth of a second of CPU time.
    TooShort,
    /// Most of its processes had some milliseconds each, and were over before the first look.
    ShortProcesses,
    /// No process of it has the library as a file of its own.
    NoLibrary,
    /// More happened than could be noted.
    Lost,
}

/// What was noted of a program and of all that it starts.
#[derive(Debug, Default)]
struct Tally {
    /// Where each process has the code of the library.
    code: HashMap<u32, Vec<Range<u64>>>,
    looks: u64,
    inside: u64,
    /// Notes that there was no room for: what is known of the processes may be wrong.
    lost: u64,
    seen: bool,
}

/// What the kernel has noted.
enum Note {
    /// The code of the library is here in a process.
    Code(u32, Range<u64>),
    /// A process has a child.
    Child(u32, u32),
    /// A process has become another program.
    Other(u32),
    /// Where a thread of a process was.
    Look(u32, u64),
}

impl Note {
    /// None: it does not matter here.
    fn of(record: &Record, misc: u16) -> Option<Self> {
        Some(match record {
            Record::Mmap2(mapping) if is_library(&mapping.filename) => {
                let end = mapping.addr.saturating_add(mapping.len);
                Note::Code(mapping.pid, mapping.addr..end)
            }
            Record::Fork(fork) if fork.pid != fork.ppid => Note::Child(fork.ppid, fork.pid),
            Record::Comm(comm) if misc & EXEC != 0 => Note::Other(comm.pid),
            Record::Sample(sample) => Note::Look(sample.pid()?, sample.ip()?),
            _ => return None,
        })
    }
}

impl Tally {
    fn add(&mut self, note: Note) {
        match note {
            Note::Code(pid, code) => {
                self.seen = true;
                self.code.entry(pid).or_default().push(code);
            }
            Note::Child(parent, child) => {
                // A number may be used again. That a first thread ends says nothing: its process may go on.
                match self.code.get(&parent).cloned() {
                    Some(code) => self.code.insert(child, code),
                    None => self.code.remove(&child),
                };
            }
            Note::Other(pid) => {
                self.code.remove(&pid);
            }
            Note::Look(pid, place) => {
                let mut code = self.code.get(&pid).into_iter().flatten();
                self.looks += 1;
                self.inside += u64::from(code.any(|code| code.contains(&place)));
            }
        }
    }

    /// `seconds` of CPU time are known to have passed outside of the kernel.
    fn share(&self, seconds: f64) -> Result<Share, Unknown> {
        if self.lost != 0 {
            return Err(Unknown::Lost);
        }
        let due = seconds * RATE as f64;
        if due > 2.0 * LEAST as f64 && (self.looks as f64) < MOST_OF * due {
            return Err(Unknown::ShortProcesses);
        }
        if self.looks < LEAST {
            return Err(Unknown::TooShort);
        }
        if !self.seen {
            return Err(Unknown::NoLibrary);
        }
        let looks = self.looks as f64;
        let share = self.inside as f64 / looks;
        // One look more in either, so that none in the allocator is not said to be certain.
        let likely = (self.inside as f64 + 1.0) / (looks + 2.0);
        Ok(Share {
            share,
            error: (likely * (1.0 - likely) / looks).sqrt(),
            looks: self.looks,
        })
    }
}

fn is_library(path: &[u8]) -> bool {
    let text = String::from_utf8_lossy(path);
    let name = Path::new(text.as_ref()).file_name();
    name.is_some_and(|name| name.to_string_lossy().starts_with("libfreehold"))
}

/// Events that begin with the next program that this thread starts.
pub struct Prepared(Vec<Sampler>);

impl Prepared {
    pub fn new() -> Result<Self, Unknown> {
        let cpus = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let cpus = cpus.as_deref().and_then(numbers);
        let samplers = cpus.ok_or(Unknown::NotAllowed)?.map(|cpu| {
            Builder::new(Software::CPU_CLOCK)
                .observe_self()
                .one_cpu(cpu)
                .inherit(true)
                .enabled(false)
                .enable_on_exec(true)
                .exclude_kernel(true)
                .mmap(true)
                .mmap2(true)
                .task(true)
                .comm(true)
                .comm_exec(true)
                .sample_frequency(RATE)
                .sample(SampleFlag::IP)
                .sample(SampleFlag::TID)
                .sample(SampleFlag::TIME)
                .sample_id_all(true)
                .build()
                .and_then(|counter| counter.sampled(ROOM))
        });
        let samplers: Result<_, _> = samplers.collect();
        samplers.map(Self).map_err(|_| Unknown::NotAllowed)
    }

    /// From now on what the program does is read.
    pub fn begin(self) -> Watch {
        let (stop, stopped) = mpsc::channel();
        let mut reader = Reader {
            samplers: self.0,
            waiting: Vec::new(),
            tally: Tally::default(),
        };
        let thread = thread::spawn(move || {
            let mut before = 0;
            while stopped.recv_timeout(PERIOD) == Err(mpsc::RecvTimeoutError::Timeout) {
                before = reader.read(before);
            }
            reader.read(0);
            reader.read(u64::MAX);
            reader.tally
        });
        Watch { stop, thread }
    }
}

struct Reader {
    samplers: Vec<Sampler>,
    /// With their moments.
    waiting: Vec<(u64, Note)>,
    tally: Tally,
}

impl Reader {
    /// Reads what each CPU has noted, and adds up what is older than `before`. A process may have run on several, which are read
    /// one after the other: what is younger waits until all of its time has been read. Returns the latest moment.
    fn read(&mut self, before: u64) -> u64 {
        for sampler in &mut self.samplers {
            while let Some(record) = sampler.next_record() {
                // The moment is the last word of each.
                let bytes = record.to_contiguous();
                let moment = bytes.last_chunk().map_or(0, |it| u64::from_ne_bytes(*it));
                match record.parse_record() {
                    Ok(Record::Lost(lost)) => self.tally.lost += lost.lost,
                    Ok(known) => {
                        let note = Note::of(&known, record.misc());
                        self.waiting.extend(note.map(|note| (moment, note)));
                    }
                    Err(_) => self.tally.lost += 1,
                }
            }
        }
        self.waiting.sort_by_key(|(moment, _)| *moment);
        let latest = self.waiting.last().map_or(before, |(moment, _)| *moment);
        let old = self
            .waiting
            .partition_point(|(moment, _)| *moment <= before);
        for (_, note) in self.waiting.drain(..old) {
            self.tally.add(note);
        }
        latest
    }
}

/// The CPUs of a list as the kernel writes it: `0-3,8`.
fn numbers(list: &str) -> Option<impl Iterator<Item = usize>> {
    let ranges: Option<Vec<_>> = list
        .trim()
        .split(',')
        .map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
        })
        .collect();
    Some(ranges?.into_iter().flatten())
}

/// Reads what the program does, until it has ended.
pub struct Watch {
    stop: mpsc::Sender<()>,
    thread: thread::JoinHandle<Tally>,
}

impl Watch {
    /// After the program was waited for.
    pub fn end(self) -> Result<Share, Unknown> {
        drop(self.stop);
        let tally = self.thread.join().map_err(|_| Unknown::Lost)?;
        tally.share(seconds_of_children().unwrap_or(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_of_cpus_is_read() {
        let all = |list| numbers(list).map(Iterator::collect::<Vec<_>>);
        assert_eq!(all("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(all("0"), Some(vec![0]));
        assert_eq!(all("none"), None);
    }

    #[test]
    fn a_share_is_not_said_of_too_little() {
        let tally = |looks, inside, seen, lost| Tally {
            looks,
            inside,
            seen,
            lost,
            ..Tally::default()
        };
        let share = tally(400, 100, true, 0).share(2.0).unwrap();
        assert_eq!(share.share, 0.25);
        assert!((share.error - 0.0217).abs() < 0.001, "{share:?}");
        assert!(tally(400, 0, true, 0).share(2.0).unwrap().error > 0.0);
        assert_eq!(
            tally(100, 0, true, 0).share(2.0),
            Err(Unknown::ShortProcesses)
        );
        for (nothing, why) in [
            (tally(19, 5, true, 0), Unknown::TooShort),
            (tally(400, 0, false, 0), Unknown::NoLibrary),
            (tally(400, 100, true, 1), Unknown::Lost),
        ] {
            assert_eq!(nothing.share(0.1), Err(why));
        }
    }

    #[test]
    fn only_the_library_is_the_library() {
        assert!(is_library(b"/usr/lib/libfreehold.so.0.1.0"));
        assert!(!is_library(b"/usr/bin/freehold"));
        assert!(!is_library(b"/libfreehold/libc.so.6"));
    }
}
