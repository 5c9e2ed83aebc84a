//! What the recorded program has resident, read beside it while it runs. The program itself does nothing for that.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use profile_file::process;
use trace_file::{MOST_POINTS, Resident};

use super::ticks;

/// Two readings are at least so far apart.
const PAUSE: Duration = Duration::from_millis(1);
/// The mappings are read again when the program has grown by a twentieth, and by so much.
const LEAST_STEP: u64 = 256 << 10;

/// Anonymous bytes of a mapping, and whether it had a block of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    bytes: u64,
    has_block: bool,
}

pub struct Watch {
    pid: u64,
    /// Of this very process: another one that gets its number is not read.
    statm: Option<File>,
    base: u64,
    begin_ns: u64,
    last: Option<Instant>,
    peak: u64,
    samples: u64,
    points: Vec<(u64, u64)>,
    /// Every how many readings there is a point.
    every: u64,
    mappings: Vec<Mapping>,
    /// Where the program was when the mappings were read.
    mapped_at: u64,
}

impl Watch {
    /// None if the process is not the one that has the recording mapped: it has ended, or is of another pid namespace.
    pub fn begin(pid: u64, recording: &Path, base: u64, begin_ns: u64) -> Option<Self> {
        let directory = process::directory(pid);
        let path = recording.canonicalize().ok()?;
        let maps = process::text_of(&directory.join("maps")).ok()?;
        let name = path.to_string_lossy();
        if !maps.lines().any(|line| line.ends_with(&*name)) {
            return None;
        }
        let statm = File::open(directory.join("statm")).ok()?;
        Some(Self {
            pid,
            statm: Some(statm),
            base,
            begin_ns,
            last: None,
            peak: 0,
            samples: 0,
            points: Vec::new(),
            every: 1,
            mappings: Vec::new(),
            mapped_at: 0,
        })
    }

    /// The recording begins now, and not with the program.
    pub fn restart(&mut self) {
        self.base = self.resident().unwrap_or(self.base);
        self.begin_ns = ticks::monotonic_ns();
    }

    /// The process has become another program.
    pub fn end(&mut self) {
        self.statm = None;
    }

    pub fn is_of(&self, pid: u64) -> bool {
        self.pid == pid
    }

    fn resident(&self) -> Option<u64> {
        let mut text = [0; 128];
        let length = self.statm.as_ref()?.read_at(&mut text, 0).ok()?;
        private_bytes(std::str::from_utf8(&text[..length]).ok()?)
    }

    pub fn sample(&mut self) {
        if self.last.is_some_and(|last| last.elapsed() < PAUSE) {
            return;
        }
        // One that has ended has nothing.
        let Some(bytes) = self.resident().filter(|bytes| *bytes > 0) else {
            return;
        };
        self.last = Some(Instant::now());
        self.peak = self.peak.max(bytes);
        if self.samples % self.every == 0 {
            self.put_point(ticks::monotonic_ns().saturating_sub(self.begin_ns), bytes);
        }
        self.samples += 1;
        if bytes > self.mapped_at + (self.mapped_at / 20).max(LEAST_STEP) {
            if let Ok(text) = process::text_of(&process::directory(self.pid).join("smaps")) {
                self.mappings = mappings(&text);
                self.mapped_at = bytes;
            }
        }
    }

    fn put_point(&mut self, at: u64, bytes: u64) {
        if self.points.len() == MOST_POINTS {
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every *= 2;
        }
        self.points.push((at, bytes));
    }

    pub fn places(&self) -> Places {
        Places {
            mappings: self.mappings.clone(),
            last: 0,
        }
    }

    /// None if it was never read.
    pub fn resident_with(&self, places: &Places) -> Option<Resident> {
        let first = self.points.first()?.1;
        let outside = places.outside().min(self.peak);
        // Without a first reading of its own the program's is the first one here.
        let base = if self.base == 0 { first } else { self.base };
        Some(Resident {
            base: base.min(self.peak),
            peak: self.peak,
            outside,
            samples: self.samples,
            points: self.points.clone(),
        })
    }
}

/// The mappings near the peak, and which of them had blocks.
pub struct Places {
    mappings: Vec<Mapping>,
    last: usize,
}

impl Places {
    pub fn put(&mut self, address: u64, size: u64) {
        let holds = |one: &Mapping| one.start <= address && address < one.end;
        if !self.mappings.get(self.last).is_some_and(holds) {
            self.last = self.mappings.partition_point(|one| one.end <= address);
        }
        let end = address.saturating_add(size.max(1));
        let from = self.mappings.get_mut(self.last..).unwrap_or_default();
        for one in from.iter_mut().take_while(|one| one.start < end) {
            one.has_block = true;
        }
    }

    fn outside(&self) -> u64 {
        let without = self.mappings.iter().filter(|one| !one.has_block);
        without.map(|one| one.bytes).sum()
    }
}

/// Of `statm`: all resident pages less those that are mapped from files or shared.
fn private_bytes(text: &str) -> Option<u64> {
    let mut numbers = text.split_whitespace().skip(1).map(str::parse::<u64>);
    let (all, common) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let page = rustix::param::page_size() as u64;
    Some(all.saturating_sub(common).saturating_mul(page))
}

/// Of `smaps`: those with anonymous pages, in order.
fn mappings(text: &str) -> Vec<Mapping> {
    let mut found = Vec::new();
    let mut place = None;
    for line in text.lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
        let range = first.split_once('-');
        if let Some((start, end)) = range.and_then(|(a, b)| hexadecimal(a).zip(hexadecimal(b))) {
            let is_shared = line
                .split_whitespace()
                .nth(1)
                .is_some_and(|how| how.ends_with('s'));
            place = (!is_shared).then_some((start, end));
        } else if let (Some((start, end)), Some(rest)) = (place, line.strip_prefix("Anonymous:")) {
            let kilobytes = rest.split_whitespace().next().map(str::parse::<u64>);
            let bytes = kilobytes.and_then(Result::ok).unwrap_or(0) << 10;
            if bytes > 0 {
                found.push(Mapping {
                    start,
                    end,
                    bytes,
                    has_block: false,
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_not_private() {
        let page = rustix::param::page_size() as u64;
        assert_eq!(private_bytes("900 40 30 1 0 9 0\n"), Some(10 * page));
        assert_eq!(private_bytes("900 30 40 1 0 9 0\n"), Some(0));
        assert_eq!(private_bytes("0"), None);
    }

    #[test]
    fn mappings_without_a_block_are_outside() {
        let text = "00400000-00401000 r-xp 00000000 08:01 12 /a b\nAnonymous:             0 kB\n\
                    00500000-00600000 rw-p 00000000 00:00 0  [heap]\nRss:   8 kB\nAnonymous:             8 kB\n\
                    00700000-00800000 rw-s 00000000 00:01 9  /dev/zero (deleted)\nAnonymous:             4 kB\n\
                    00800000-00900000 rw-p 00000000 00:00 0\nAnonymous:             16 kB\n\
                    7f000000-7f100000 rw-p 00000000 00:00 0  [stack]\nAnonymous:             32 kB\n";
        let mut places = Places {
            mappings: mappings(text),
            last: 0,
        };
        assert_eq!(places.outside(), 56 << 10);
        places.put(0x500010, 16);
        assert_eq!(places.outside(), 48 << 10);
        places.put(0x600000, 16);
        places.put(0x9000_0000, 1);
        assert_eq!(places.outside(), 48 << 10);
        places.put(0x7ff000, 0x2000);
        assert_eq!(places.outside(), 32 << 10);
    }
}
