//! One copy of a profile file, its parts in memory, as consistent as a copy can be that stops no program.
//!
//! Sections are read in an order in which what refers comes before what is referred to (samples, sites, nodes,
//! modules): what a sample names was there before the sample was, so it is in the later copy too.

use std::thread;
use std::time::Duration;

use bytemuck::Zeroable;

use serde::{Deserialize, Serialize};

use crate::bytes::{Bytes, read_one};
use crate::error::ReadError;
use crate::integrity::is_whole_trace;
use crate::layout::{self, CONTROL_OFFSET, SectionKind};
use crate::sections::{Reader, Writer, check_overlap};
use crate::warning::Warning;

/// How often the statistics are read again when the program is just writing them. Writing them takes microseconds.
const SEQUENCE_TRIES: u32 = 50;

/// The parts of a profile file. Entries are where the profile file has them: a site's number is its place in `sites`,
/// entry 0 included.
#[derive(Clone)]
pub struct Profile {
    pub header: layout::Header,
    pub control: layout::Control,
    /// What a scan for reachable blocks found.
    pub scan: Box<layout::Scan>,
    /// The touch of a guard that the program met first. None: there was none, or it was not written to its end.
    pub fault: Option<Box<layout::Fault>>,
    /// None: never taken, or not readable.
    pub statistics: Option<Box<layout::Statistics>>,
    /// None: the blocks were not looked at one by one.
    pub absent: Option<Absent>,
    /// In the order in which they were written.
    pub timeline: Vec<layout::Point>,
    pub modules: Vec<layout::Module>,
    pub nodes: Vec<layout::Node>,
    pub sites: Vec<layout::Site>,
    /// Names of heaps of which blocks were sampled.
    pub heap_names: Vec<layout::Heap>,
    /// Only slots with a sample.
    pub samples: Vec<layout::Sample>,
    /// What is left of samples in slots whose blocks were freed: `reached` says when.
    pub traces: Vec<layout::Sample>,
}

/// Bytes of blocks up to 2 MiB that are not sampled and not in memory: never touched, or returned to the OS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    pub live: u64,
    pub cached: u64,
}

impl Profile {
    /// Copies the profile file out of `bytes`.
    pub fn read(
        bytes: &(impl Bytes + ?Sized),
        warnings: &mut Vec<Warning>,
    ) -> Result<Profile, ReadError> {
        let length = bytes.length()?;
        let header = read_header(bytes, length)?;
        if header.file_bytes > length {
            warnings.push(Warning::damaged(format!(
                "the profile file says that it has {} bytes, but the file has {length}: it was cut short",
                header.file_bytes
            )));
        }
        check_overlap(&header, length, warnings);
        let control = read_one(bytes, CONTROL_OFFSET)?;
        let scan = read_scan(bytes)?;
        let fault = read_fault(bytes, length, warnings);
        let mut reader = Reader {
            bytes,
            length,
            header,
        };
        let statistics = read_figures(&reader, warnings);
        let timeline = read_timeline(&reader, warnings);
        let (samples, others): (Vec<_>, Vec<_>) = reader
            .all::<layout::Sample>(SectionKind::Samples, warnings)
            .into_iter()
            .partition(|s| s.address > layout::SAMPLE_WRITING);
        // A slot that never had a sample is all zero. One that was being written may still have what was left there.
        let used = |s: &layout::Sample| bytemuck::bytes_of(s).iter().any(|byte| *byte != 0);
        let kept = |s: &layout::Sample| s.address == layout::SAMPLE_EMPTY || is_whole_trace(s);
        let traces = others.into_iter().filter(used).filter(kept).collect();
        reader.refresh()?;
        let sites = reader.handed_out(SectionKind::Sites, warnings);
        reader.refresh()?;
        let heap_names = reader.handed_out(SectionKind::Heaps, warnings);
        reader.refresh()?;
        let nodes = reader.handed_out(SectionKind::Nodes, warnings);
        reader.refresh()?;
        let modules = reader.table(SectionKind::Modules, warnings);
        Ok(Profile {
            header: reader.header,
            control,
            scan,
            fault,
            statistics,
            absent: None,
            timeline,
            modules,
            nodes,
            sites,
            heap_names,
            samples,
            traces,
        })
    }

    /// The profile file as bytes, without its holes. [`Profile::read`] gives the same parts back.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(&self.header);
        let dropped = |kind: SectionKind| self.header.section[kind as usize].dropped;
        writer.control(&self.control, &self.scan, self.fault.as_deref());
        let statistics: Vec<layout::Statistics> = self.statistics.iter().map(|f| **f).collect();
        writer.section(SectionKind::Statistics, &statistics, 0);
        writer.section(
            SectionKind::Timeline,
            &self.timeline,
            dropped(SectionKind::Timeline),
        );
        writer.section(
            SectionKind::Modules,
            &self.modules,
            dropped(SectionKind::Modules),
        );
        writer.section(SectionKind::Nodes, &self.nodes, dropped(SectionKind::Nodes));
        writer.section(SectionKind::Sites, &self.sites, dropped(SectionKind::Sites));
        writer.section(
            SectionKind::Samples,
            &[&self.samples[..], &self.traces[..]].concat(),
            dropped(SectionKind::Samples),
        );
        writer.section(
            SectionKind::Heaps,
            &self.heap_names,
            dropped(SectionKind::Heaps),
        );
        writer.finish()
    }
}

/// Reads the header and tells whether the rest can be read at all.
pub fn read_header(
    bytes: &(impl Bytes + ?Sized),
    length: u64,
) -> Result<layout::Header, ReadError> {
    if length < layout::SCAN_OFFSET + size_of::<layout::Scan>() as u64 {
        return Err(ReadError::TooShort(length));
    }
    let mut header: layout::Header = read_one(bytes, 0)?;
    if header.magic != layout::MAGIC {
        // The library writes the magic last, so zeros are a profile file that is being made.
        let unfinished = header.magic == 0 && header.state == layout::STATE_BEGUN;
        return Err(if unfinished {
            ReadError::NotReady
        } else {
            ReadError::NotAProfile(header.magic)
        });
    }
    if !(layout::LAYOUT_OLDEST..=layout::LAYOUT).contains(&header.layout) {
        return Err(ReadError::OtherLayout(header.layout));
    }
    let whole = size_of::<layout::Header>();
    if header.header_bytes as usize == whole - size_of::<layout::Section>() {
        // Of before heaps had names: that section is all zero, as the rest of the header's page is.
        header.header_bytes = whole as u32;
        header.section[SectionKind::Heaps as usize] = layout::Section::zeroed();
    }
    if header.header_bytes as usize != whole {
        return Err(ReadError::OtherHeader(header.header_bytes));
    }
    if header.state == layout::STATE_BEGUN {
        return Err(ReadError::NotReady);
    }
    Ok(header)
}

/// The statistics under their sequence lock: odd while being written, and the same number before and after means that
/// the copy between is of one moment. A writer that died in the middle leaves it odd for ever, so tries are bounded;
/// then the copy is handed out all the same, with a warning.
fn read_figures<B: Bytes + ?Sized>(
    reader: &Reader<B>,
    warnings: &mut Vec<Warning>,
) -> Option<Box<layout::Statistics>> {
    let offset = reader.single(SectionKind::Statistics, warnings)?;
    let mut statistics = Box::new(layout::Statistics::zeroed());
    for attempt in 0..SEQUENCE_TRIES {
        let before: u64 = read_one(reader.bytes, offset).ok()?;
        if before == 0 {
            // The first that writes makes it odd before anything else.
            let taken_ns = offset + std::mem::offset_of!(layout::Statistics, taken_ns) as u64;
            if read_one::<u64>(reader.bytes, taken_ns).is_ok_and(|taken| taken != 0) {
                warnings.push(Warning::damaged(
                    "the heap's statistics were taken, and are said not to be there: they are left out",
                ));
            }
            return None;
        }
        reader
            .bytes
            .read_exact_at(bytemuck::bytes_of_mut(&mut *statistics), offset)
            .ok()?;
        let after: u64 = read_one(reader.bytes, offset).ok()?;
        if before == after && before % 2 == 0 {
            return Some(statistics);
        }
        thread::sleep(Duration::from_micros(20 << attempt.min(5)));
    }
    warnings.push(Warning::moving(
        "the heap's statistics were being written while they were read (the program may have died over it): they may mix \
         two moments",
    ));
    Some(statistics)
}

/// The answer to a scan. Its state is written last, so a copy whose state is the same before and after is whole.
fn read_scan(bytes: &(impl Bytes + ?Sized)) -> Result<Box<layout::Scan>, ReadError> {
    let mut scan = Box::new(layout::Scan::zeroed());
    for _ in 0..SEQUENCE_TRIES {
        let before: layout::Scan = read_one(bytes, layout::SCAN_OFFSET)?;
        bytes.read_exact_at(bytemuck::bytes_of_mut(&mut *scan), layout::SCAN_OFFSET)?;
        if (before.number, before.state) == (scan.number, scan.state) {
            break;
        }
    }
    Ok(scan)
}

/// The touch of a guard, which is written once. `written` is written last.
fn read_fault(
    bytes: &(impl Bytes + ?Sized),
    length: u64,
    warnings: &mut Vec<Warning>,
) -> Option<Box<layout::Fault>> {
    if length < layout::FAULT_OFFSET + size_of::<layout::Fault>() as u64 {
        return None;
    }
    let written: u64 = read_one(bytes, layout::FAULT_OFFSET).ok()?;
    match written {
        0 => None,
        layout::FAULT_WRITTEN => {
            let mut fault = Box::new(layout::Fault::zeroed());
            bytes
                .read_exact_at(bytemuck::bytes_of_mut(&mut *fault), layout::FAULT_OFFSET)
                .ok()?;
            Some(fault)
        }
        _ => {
            warnings.push(Warning::incomplete(
                "a guard was touched, and the program ended before all of it was written",
            ));
            None
        }
    }
}

/// The ring, straightened: point n is entry n mod capacity, and `used` of them were written.
fn read_timeline<B: Bytes + ?Sized>(
    reader: &Reader<B>,
    warnings: &mut Vec<Warning>,
) -> Vec<layout::Point> {
    let mut ring: Vec<layout::Point> = reader.all(SectionKind::Timeline, warnings);
    let written = reader.header.section[SectionKind::Timeline as usize].used;
    if !ring.is_empty() && written > ring.len() as u64 {
        let oldest = (written % ring.len() as u64) as usize;
        ring.rotate_left(oldest);
    }
    // Both are 0 while a point is being written.
    ring.retain(|point| point.ns != 0 || point.check != 0);
    if !ring.is_sorted_by_key(|point| point.ns) {
        // The oldest may have been overwritten while we read: the order of time is right in any case.
        ring.sort_by_key(|point| point.ns);
    }
    ring
}
