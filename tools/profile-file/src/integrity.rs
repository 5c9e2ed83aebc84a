//! Are the words of a profile file those that the library wrote? What nothing else in the file says a second time has a
//! check word. Each that does not fit is a warning.
//!
//! A check of 0 was never made: the file is of an older library, or the part was never written.

use bytemuck::{NoUninit, bytes_of};

use crate::layout::{self, Fault, Header, Module, Node, Records, Sample, Scan, Site, Statistics};
use crate::profile::Profile;
use crate::warning::Warning;

/// What the library does over words: see `observe/profile.h`.
#[derive(Clone, Copy, Default)]
struct Check(u64);

impl Check {
    fn word(self, word: u64) -> Self {
        Self((self.0 ^ word).wrapping_mul(layout::CHECK_FACTOR))
    }

    /// The words of `whole` from one offset to another.
    fn part<T: NoUninit>(self, whole: &T, begin: usize, end: usize) -> Self {
        bytes_of(whole)[begin..end]
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .fold(self, Self::word)
    }

    fn end(self) -> u64 {
        self.0 | 1
    }

    /// For a word that has room for 16 bits.
    fn end_16(self) -> u64 {
        (self.0 >> 48).max(1)
    }
}

macro_rules! offset {
    ($type:ty, $field:ident) => {
        std::mem::offset_of!($type, $field)
    };
}

fn of_header(header: &Header) -> u64 {
    Check::default()
        .part(
            header,
            offset!(Header, pid),
            offset!(Header, process_start) + 8,
        )
        .word(header.inherited)
        .part(header, offset!(Header, page_size), offset!(Header, section))
        .end()
}

fn of_window(header: &Header) -> u64 {
    Check::default()
        .word(header.window_begin)
        .word(header.window_bytes)
        .end()
}

fn of_end(header: &Header) -> u64 {
    Check::default().word(header.pid).end()
}

pub fn of_statistics(statistics: &Statistics) -> u64 {
    let rows = (statistics.rows as usize).min(layout::CLASSES);
    let begin = offset!(Statistics, row);
    Check::default()
        .part(
            statistics,
            offset!(Statistics, taken_ns),
            offset!(Statistics, check),
        )
        .part(statistics, begin, begin + rows * size_of::<layout::Row>())
        .end()
}

/// The check of records that a library shows.
pub fn of_records(records: &Records) -> u64 {
    let begin = offset!(Records, chunks);
    Check::default()
        .part(records, begin, size_of::<Records>())
        .end()
}

fn of_module(module: &Module) -> u64 {
    Check::default()
        .word(module.begin)
        .word(module.end)
        .word(module.bias)
        .part(
            module,
            offset!(Module, build_id_bytes),
            offset!(Module, check),
        )
        .end()
}

/// The flags that a node should have, if it has a check.
fn of_node(node: &Node) -> u32 {
    let cut = node.flags & layout::NODE_CUT;
    let check = Check::default()
        .word(node.address)
        .word(u64::from(node.parent) | u64::from(cut) << 32)
        .end();
    cut | ((check >> 33) as u32) << layout::NODE_CHECK_SHIFT
}

fn of_scan(scan: &Scan) -> u64 {
    Check::default()
        .word(scan.number)
        .word(scan.begun_ns)
        .word(scan.scan_ns)
        .part(
            scan,
            offset!(Scan, root_bytes),
            offset!(Scan, searched_so_far),
        )
        .part(scan, offset!(Scan, row), size_of::<Scan>())
        .end()
}

fn of_fork(scan: &Scan) -> u64 {
    Check::default().word(scan.fork_ns).end()
}

fn of_fault(fault: &Fault) -> u64 {
    Check::default()
        .part(fault, offset!(Fault, ns), size_of::<Fault>())
        .end()
}

pub fn of_sections(header: &Header) -> u64 {
    header
        .section
        .iter()
        .fold(Check::default(), |check, section| {
            check
                .word(u64::from(section.entry_bytes) | u64::from(section.first) << 32)
                .word(section.extent[0])
        })
        .end()
}

fn of_point(point: &layout::Point) -> u64 {
    Check::default()
        .part(point, 0, offset!(layout::Point, check))
        .end()
}

fn of_heap(heap: &layout::Heap) -> u64 {
    Check::default()
        .part(heap, 0, offset!(layout::Heap, check))
        .end()
}

fn of_place(site: &Site) -> u64 {
    Check::default()
        .word(u64::from(site.node) | u64::from(site.heap) << 32)
        .end()
}

fn of_first(site: &Site) -> u64 {
    Check::default().word(site.first_ns).end()
}

/// The word that says when a module was unloaded.
fn of_unloaded(module: &Module) -> u64 {
    let ns = module.unloaded_ns >> 16;
    ns << 16 | Check::default().word(ns).word(module.begin).end_16()
}

/// The words `interval` and `drawn`. What is left of a sample whose block was freed is checked with its last size, and when
/// that was.
fn of_sample(sample: &Sample, freed: bool) -> [u64; 2] {
    let plain = [layout::plain(sample.interval), layout::plain(sample.drawn)];
    let check = Check::default()
        .word(plain[0])
        .part(sample, offset!(Sample, born_ns), offset!(Sample, drawn))
        .word(plain[1]);
    let Check(check) = if freed {
        check.word(sample.size).word(sample.reached)
    } else {
        // A block that realloc moves has another last digit meanwhile.
        check.word(sample.address >> 4)
    };
    [
        plain[0] | check >> 32 << layout::PLAIN_BITS,
        plain[1] | check >> layout::PLAIN_BITS << layout::PLAIN_BITS,
    ]
}

fn is_whole(sample: &Sample, freed: bool) -> bool {
    [sample.interval, sample.drawn] == of_sample(sample, freed)
}

/// What was left of a sample whose block was freed, as it was written.
pub fn is_whole_trace(sample: &Sample) -> bool {
    sample.is_trace() && is_whole(sample, true)
}

/// The word `reached` of a living sample.
fn of_verdict(sample: &Sample) -> u64 {
    let verdict = sample.verdict();
    let Check(check) = Check::default().word(sample.born_ns).word(verdict);
    verdict | check >> 32 << 32
}

/// What layout 2 brought. Of a program that runs, each pair of words may be read while the second is being written, so it
/// is asked of those that are gone.
fn check_words(profile: &Profile, warnings: &mut Vec<Warning>) {
    let (header, control, scan) = (&profile.header, &profile.control, &profile.scan);
    let made = |check: u64, wanted: u64| check != 0 && check != wanted;
    let sites = || profile.sites.iter().skip(1);
    let changed = |s: &&Sample| !is_whole(s, false) || s.reached != of_verdict(s);
    let lost = |s: &&Sample| !is_whole_trace(s);
    // A scan that came to its end without an error, and is not said to be done.
    let hidden = scan.state != layout::SCAN_DONE && scan.error == 0 && scan.scan_ns != 0;
    let stray = profile
        .sites
        .first()
        .is_some_and(|site| bytes_of(site) != [0; size_of::<Site>()]);
    let count = |wrong: bool| usize::from(wrong);
    for (count, what) in [
        (
            count(header.metadata_bytes != header.metadata_again),
            "count of the profiler's own memory is not as it was written",
        ),
        (
            count(header.sections_check != of_sections(header)),
            "list of where the parts of the profile file begin is not as it was written",
        ),
        (
            count(control.mark != control.mark_again),
            "number of marks is not as it was written",
        ),
        (
            count(control.interval_again != 0 && control.interval != !control.interval_again),
            "interval between samples is not as it was written",
        ),
        (count(stray), "call site is in the place of none"),
        (
            count(hidden),
            "scan for reachable blocks came to its end, and its state does not say so",
        ),
        (
            sites()
                .filter(|s| made(s.place_check, of_place(s)) || made(s.first_check, of_first(s)))
                .count(),
            "call sites are not as they were written: their stack, heap or age may be wrong",
        ),
        (
            profile.samples.iter().filter(changed).count()
                + profile.traces.iter().filter(lost).count(),
            "samples are not as they were written: ages of blocks, and whether they can be reached, may be wrong",
        ),
        (
            profile
                .timeline
                .iter()
                .filter(|p| p.check != of_point(p))
                .count(),
            "points of the timeline are not as they were written: curves may be wrong",
        ),
        (
            profile
                .heap_names
                .iter()
                .filter(|heap| made(heap.check, of_heap(heap)))
                .count(),
            "names of heaps are not as they were written",
        ),
        (
            profile
                .modules
                .iter()
                .filter(|m| m.end != 0 && m.unloaded_ns != of_unloaded(m))
                .count(),
            "modules may be said to be loaded, or unloaded, wrongly",
        ),
    ] {
        if count != 0 {
            warnings.push(Warning::damaged(format!("{count} {what}")));
        }
    }
}

/// Says what is not as it was written. `alive`: what the program writes at this moment may be half done.
pub fn check(profile: &Profile, alive: bool, warnings: &mut Vec<Warning>) {
    let mut damaged = |wrong: bool, text: &str| {
        if wrong {
            warnings.push(Warning::damaged(text));
        }
    };
    let (header, scan) = (&profile.header, &profile.scan);
    // A library that checks its header checks all: then a check of 0 was lost, unless the part is just being written.
    let all = header.check != 0 && !alive;
    let differs = |check: u64, wanted: u64| check != wanted && (check != 0 || all);
    damaged(
        header.check != 0 && header.check != of_header(header),
        "the header is not as it was written: who this is, when it began and its options cannot be trusted",
    );
    damaged(
        (header.window_begin != 0 || header.window_check != 0)
            && differs(header.window_check, of_window(header)),
        "where the heap is in memory is not as it was written",
    );
    let ended = header.state == layout::STATE_ENDED;
    damaged(
        !alive && header.check != 0 && ended != (header.ended_check == of_end(header)),
        "whether the program ended by itself is not as it was written",
    );
    if let Some(statistics) = &profile.statistics {
        damaged(
            statistics.sequence % 2 == 0 && differs(statistics.check, of_statistics(statistics)),
            "the heap's statistics are not as they were written: none of them can be trusted",
        );
    }
    let judged = scan.state == layout::SCAN_DONE;
    damaged(
        judged
            && (differs(scan.check, of_scan(scan))
                || (!alive && differs(scan.fork_check, of_fork(scan)))),
        "what the scan for reachable blocks found is not as it was written",
    );
    let fault = profile.fault.as_deref();
    damaged(
        fault.is_some_and(|fault| fault.check != of_fault(fault)),
        "what was written of a touched guard is not as it was written",
    );
    // The end is written last. A check without it was hurt, or its program was stopped between the two.
    let written = |module: &&Module| module.end != 0 || (module.check != 0 && all);
    let modules = profile.modules.iter().filter(written);
    let modules = modules.filter(|module| differs(module.check, of_module(module)));
    let nodes = profile.nodes.iter();
    let nodes = nodes.filter(|node| {
        let empty = node.address == 0 && node.parent == 0 && node.flags == 0;
        let made = node.flags >> layout::NODE_CHECK_SHIFT != 0;
        !empty && (made || all) && node.flags != of_node(node)
    });
    for (count, what) in [
        (
            modules.count(),
            "modules are not as they were written: names in them may be wrong",
        ),
        (
            nodes.count(),
            "stack frames are not as they were written: stacks with them may be wrong",
        ),
    ] {
        damaged(count != 0, &format!("{count} {what}"));
    }
    if !alive && header.layout > layout::LAYOUT_OLDEST {
        check_words(profile, warnings);
    }
}

/// Gives each part the check that the library gives it.
#[cfg(any(test, feature = "testing"))]
pub fn seal(profile: &mut Profile) {
    let header = &mut profile.header;
    header.check = of_header(header);
    header.window_check = of_window(header);
    header.ended_check = if header.state == layout::STATE_ENDED {
        of_end(header)
    } else {
        0
    };
    if let Some(statistics) = &mut profile.statistics {
        statistics.check = of_statistics(statistics);
    }
    if let Some(fault) = &mut profile.fault {
        fault.check = of_fault(fault);
    }
    if profile.scan.state == layout::SCAN_DONE {
        profile.scan.check = of_scan(&profile.scan);
        profile.scan.fork_check = of_fork(&profile.scan);
    }
    for module in &mut profile.modules {
        module.check = of_module(module);
    }
    for node in profile.nodes.iter_mut().skip(1) {
        node.flags = of_node(node);
    }
    if profile.header.layout > layout::LAYOUT_OLDEST {
        seal_words(profile);
    }
}

/// What layout 2 brought.
#[cfg(any(test, feature = "testing"))]
fn seal_words(profile: &mut Profile) {
    for module in &mut profile.modules {
        module.unloaded_ns = of_unloaded(module);
    }
    profile.header.metadata_again = profile.header.metadata_bytes;
    profile.control.mark_again = profile.control.mark;
    profile.control.interval_again = !profile.control.interval;
    for site in profile.sites.iter_mut().skip(1) {
        site.place_check = of_place(site);
        site.first_check = of_first(site);
    }
    for heap in profile.heap_names.iter_mut().skip(1) {
        heap.check = of_heap(heap);
    }
    for sample in &mut profile.samples {
        [sample.interval, sample.drawn] = of_sample(sample, false);
        sample.reached = of_verdict(sample);
    }
    for trace in &mut profile.traces {
        [trace.interval, trace.drawn] = of_sample(trace, true);
    }
    for point in &mut profile.timeline {
        point.check = of_point(point);
    }
}
