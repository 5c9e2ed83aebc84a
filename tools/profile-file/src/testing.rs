//! What tests share: profile files made up without a program, and a word about what could not be tested.

use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

use bytemuck::Zeroable;

use crate::amount::Amount;
use crate::integrity;
use crate::layout::{self, BLOCK_UNIT, Header, Statistics, VARIANCE_SHIFT};
use crate::profile::Profile;
use crate::snapshot::{Reading, Snapshot};

/// When made-up programs begin, on the profile file's clock.
pub const BEGUN_NS: u64 = 1_000_000_000_000;
/// When made-up programs are read: a hundred seconds later.
pub const READ_NS: u64 = BEGUN_NS + 100_000_000_000;

/// Nothing of this test can be done here: says so and notes it; the caller returns. See `tests/README.md`.
#[track_caller]
pub fn skip(reason: &str) {
    note_skip("", reason);
}

/// The same for a part of a test; the rest is done.
#[track_caller]
pub fn skip_part(reason: &str) {
    note_skip(" (in part)", reason);
}

/// Cargo shows nothing of a test that passes, so there is a line in the file that `FREEHOLD_SKIPS` names, too.
#[track_caller]
fn note_skip(mark: &str, reason: &str) {
    let file = std::path::Path::new(Location::caller().file());
    let file = file.file_stem().unwrap_or_default().to_string_lossy();
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a thread of a test");
    let line = format!("{file}::{test}{mark}: {reason}\n");
    eprint!("SKIPPED: {line}");
    if let Some(path) = std::env::var_os("FREEHOLD_SKIPS") {
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("FREEHOLD_SKIPS names a file that can be written to");
    }
}

/// Makes a profile file, call by call, as the library would.
pub struct ProfileBuilder {
    profile: Profile,
    interval: u64,
    next_address: u64,
}

impl Default for ProfileBuilder {
    fn default() -> Self {
        Self::new(512 << 10)
    }
}

fn put(into: &mut [u8], text: &str) {
    let length = text.len().min(into.len() - 1);
    into[..length].copy_from_slice(&text.as_bytes()[..length]);
}

impl ProfileBuilder {
    /// A profile file that samples once in `interval` bytes.
    pub fn new(interval: u64) -> Self {
        let mut header = Header::zeroed();
        header.magic = layout::MAGIC;
        header.layout = layout::LAYOUT;
        header.header_bytes = size_of::<Header>() as u32;
        header.state = layout::STATE_LIVE;
        header.pid = 4242;
        header.begun_ns = BEGUN_NS;
        header.begun_unix_ns = 1_700_000_000_000_000_000;
        header.page_size = 4096;
        header.cpus = 2;
        put(&mut header.version, "0.1.0");
        put(&mut header.program, "/usr/bin/made-up");
        put(&mut header.options, "observe=1");
        let mut control = layout::Control::zeroed();
        control.wanted_interval = layout::INTERVAL_AS_STARTED;
        control.interval = interval;
        let profile = Profile {
            header,
            control,
            scan: Box::new(layout::Scan::zeroed()),
            fault: None,
            statistics: None,
            absent: None,
            timeline: Vec::new(),
            modules: Vec::new(),
            nodes: vec![layout::Node::zeroed()],
            sites: vec![layout::Site::zeroed()],
            heap_names: vec![layout::Heap::zeroed()],
            samples: Vec::new(),
            traces: Vec::new(),
        };
        ProfileBuilder {
            profile,
            interval,
            next_address: 0x7000_0000_0000,
        }
    }

    /// A module at these addresses; its symbol table begins at 0.
    pub fn module(&mut self, path: &str, begin: u64, end: u64) -> &mut Self {
        let mut module = layout::Module::zeroed();
        module.begin = begin;
        module.end = end;
        module.bias = begin;
        put(&mut module.path, path);
        self.profile.modules.push(module);
        self
    }

    /// The number of a site whose stack is this: return addresses, the innermost first.
    pub fn site(&mut self, stack: &[u64]) -> u32 {
        let mut at = 0u32;
        for &address in stack.iter().rev() {
            let known = self
                .profile
                .nodes
                .iter()
                .position(|n| n.address == address && n.parent == at);
            at = known.unwrap_or_else(|| {
                self.profile.nodes.push(layout::Node {
                    address,
                    parent: at,
                    flags: 0,
                });
                self.profile.nodes.len() - 1
            }) as u32;
        }
        if let Some(known) = self
            .profile
            .sites
            .iter()
            .skip(1)
            .position(|site| site.node == at)
        {
            return known as u32 + 1;
        }
        self.profile.sites.push(layout::Site {
            node: at,
            ..Zeroable::zeroed()
        });
        self.profile.sites.len() as u32 - 1
    }

    /// The name of a heap, below that of another (0: none). Gives its entry.
    pub fn heap_name(&mut self, name: &str, parent: u32) -> u32 {
        let mut heap = layout::Heap::zeroed();
        put(&mut heap.name, name);
        heap.parent = parent;
        self.profile.heap_names.push(heap);
        self.profile.heap_names.len() as u32 - 1
    }

    /// The number of a site with this stack, in heaps of that name.
    pub fn site_in(&mut self, stack: &[u64], heap: u32) -> u32 {
        let plain = self.site(stack);
        let node = self.profile.sites[plain as usize].node;
        self.profile.sites.push(layout::Site {
            node,
            heap,
            ..Zeroable::zeroed()
        });
        self.profile.sites.len() as u32 - 1
    }

    /// A sampled block of `size` bytes, born so many nanoseconds after the program. Gives its address.
    pub fn allocate(&mut self, site: u32, size: u64, born_ns: u64) -> u64 {
        let weight = Fixed::of(size, self.interval);
        let address = self.next_address;
        self.next_address += size.next_multiple_of(16);
        let born_ns = BEGUN_NS + born_ns;
        let control = &mut self.profile.control;
        control.taken += 1;
        let into = &mut self.profile.sites[site as usize];
        keep_peak(into, control);
        into.allocated_samples += 1;
        into.allocated_bytes += weight.bytes;
        into.allocated_blocks += weight.blocks;
        into.allocated_variance += weight.variance;
        into.first_ns = if into.first_ns == 0 {
            born_ns
        } else {
            into.first_ns.min(born_ns)
        };
        into.last_ns = into.last_ns.max(born_ns);
        control.live_bytes += weight.bytes;
        if control.live_bytes > control.peak_bytes {
            control.peak_bytes = control.live_bytes;
            control.peak_number += 1;
            control.peak_ns = born_ns;
        }
        let mark = control.mark as u32;
        self.profile.samples.push(layout::Sample {
            address,
            size,
            interval: self.interval,
            born_ns,
            site,
            thread: 1,
            mark,
            heap: 0,
            drawn: size,
            reached: 0,
        });
        address
    }

    /// The block at this address is freed, at this age.
    pub fn free(&mut self, address: u64, age_ns: u64) -> &mut Self {
        let place = self
            .profile
            .samples
            .iter()
            .position(|sample| sample.address == address);
        let sample = self.profile.samples.swap_remove(place.expect("it lives"));
        self.profile.traces.push(layout::Sample {
            address: layout::SAMPLE_EMPTY,
            reached: sample.born_ns + age_ns,
            ..sample
        });
        let weight = Fixed::of(sample.size, sample.interval);
        let control = &mut self.profile.control;
        let from = &mut self.profile.sites[sample.site as usize];
        keep_peak(from, control);
        from.freed_samples += 1;
        from.freed_bytes += weight.bytes;
        from.freed_blocks += weight.blocks;
        from.freed_variance += weight.variance;
        let bucket = (0..layout::AGES - 1).find(|&k| age_ns / 1000 < 1 << (2 * k));
        from.freed_at_age[bucket.unwrap_or(layout::AGES - 1)] += weight.bytes;
        control.live_bytes -= weight.bytes;
        self
    }

    /// Statistics of the heap. A class whose use is not said is the program's.
    pub fn statistics(&mut self, change: impl FnOnce(&mut Statistics)) -> &mut Self {
        let statistics = self.profile.statistics.get_or_insert_with(|| {
            let mut fresh = Box::new(Statistics::zeroed());
            fresh.sequence = 2;
            fresh.taken_ns = READ_NS;
            fresh
        });
        change(statistics);
        for row in &mut statistics.row {
            if row.slabs > 0 && row.class_use == layout::USE_NONE {
                row.class_use = layout::ClassUse::Program as u64;
            }
        }
        self
    }

    /// A point of the timeline, so many nanoseconds after the program's beginning.
    pub fn point(&mut self, after_ns: u64, resident_bytes: u64, live_bytes: u64) -> &mut Self {
        self.profile.timeline.push(layout::Point {
            ns: BEGUN_NS + after_ns,
            resident_bytes,
            live_bytes,
            ..Zeroable::zeroed()
        });
        self
    }

    /// Anything else.
    pub fn change(&mut self, change: impl FnOnce(&mut Profile)) -> &mut Self {
        change(&mut self.profile);
        self
    }

    /// The profile file as a file has it.
    pub fn bytes(&self) -> Vec<u8> {
        let mut profile = self.profile.clone();
        integrity::seal(&mut profile);
        profile.to_bytes()
    }

    /// The profile file, read back; its program was killed.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::read(&self.bytes(), reading())
            .expect("a profile file that was just made can be read")
    }
}

/// When made-up profile files are read.
pub fn reading() -> Reading {
    Reading {
        alive: false,
        monotonic_ns: READ_NS,
        unix_ns: 1_700_000_100_000_000_000,
        pid: 4242,
        exited: None,
        // It did not live on after its last word.
        ran_until_ns: Some(0),
    }
}

/// A sample's weight in the profile file's units.
struct Fixed {
    bytes: u64,
    blocks: u64,
    variance: u64,
}

impl Fixed {
    fn of(size: u64, interval: u64) -> Fixed {
        let weight = Amount::of_sample(size, interval);
        Fixed {
            bytes: weight.bytes.round() as u64,
            blocks: (weight.blocks * f64::from(BLOCK_UNIT)).round() as u64,
            variance: (weight.variance / f64::from(1u32 << VARIANCE_SHIFT)).round() as u64,
        }
    }
}

fn keep_peak(site: &mut layout::Site, control: &layout::Control) {
    if site.peak_of != control.peak_number {
        site.peak_of = control.peak_number;
        site.peak_bytes = site.allocated_bytes - site.freed_bytes;
        site.peak_blocks = site.allocated_blocks - site.freed_blocks;
    }
}
