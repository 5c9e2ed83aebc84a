//! Are the words of a profile file those that the library wrote? What nothing else in the file says a second time has a
//! check word. Each that does not fit is a warning.
//!
//! A check of 0 was never made: the file is of an older library, or the part was never written.

use bytemuck::{NoUninit, bytes_of};

use crate::layout::{self, Fault, Header, Module, Node, Records, Scan, Statistics};
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
    let modules = profile.modules.iter().filter(|module| module.end != 0);
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
}
