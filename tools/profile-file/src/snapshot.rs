//! A profile file, understood: sums by call site with error bars, ages, stacks, and whether it all adds up.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::amount::{Amount, SHORT_LIVED_BUCKETS, View};
use crate::bytes::Bytes;
use crate::check;
use crate::counted;
use crate::error::ReadError;
use crate::heaps::Heaps;
use crate::integrity;
use crate::layout::{self, AGES, BLOCK_UNIT, VARIANCE_SHIFT};
use crate::names;
use crate::naming::Naming;
use crate::possible;
use crate::process::ProcessFacts;
use crate::profile::Profile;
use crate::symbols::SymbolTable;
use crate::warning::{Concern, Warning};

/// When a profile file was read, and what had become of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The program ran at that moment.
    pub alive: bool,
    /// The clock of the profile file's times (CLOCK_MONOTONIC).
    pub monotonic_ns: u64,
    /// The calendar's clock.
    pub unix_ns: u64,
    /// The process as this command's side of any container calls it.
    pub pid: u64,
    /// Of a program that is gone, by who waited for it: it exited, or a signal ended it. None: that is not known.
    #[serde(default)]
    pub exited: Option<bool>,
    /// Of a program that is gone, by who waited for it or watched it: until then it ran, on the profile file's clock. None:
    /// nobody knows for how long it lived on after its last word.
    #[serde(default)]
    pub ran_until_ns: Option<u64>,
}

/// A file with code that the program had mapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    pub begin: u64,
    pub end: u64,
    /// Address = bias + address in the file's symbol table.
    pub bias: u64,
    /// When it was unloaded; none: still there.
    pub unloaded_ns: Option<u64>,
    pub build_id: Vec<u8>,
    pub path: String,
}

impl Module {
    pub fn contains(&self, address: u64) -> bool {
        (self.begin..self.end).contains(&address)
    }

    /// The path's last part.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    pub fn build_id_hex(&self) -> String {
        self.build_id
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// Who called whom: return addresses, the innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    pub addresses: Vec<u64>,
    /// The walk ended before the thread's beginning: outer callers are missing.
    pub cut: bool,
}

/// A call site, with all that was sampled there.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its number in the profile file; what [`layout::Sample::site`] names.
    pub number: u32,
    pub node: u32,
    /// The entry of its heaps' name in the profile file; 0: plain blocks.
    pub heap: u32,
    pub live: Amount,
    pub allocated: Amount,
    pub freed: Amount,
    pub peak: Amount,
    /// Freed within a millisecond.
    pub short_lived: Amount,
    /// Bytes by the age at which they were freed: bucket k is below 4^k µs.
    pub freed_at_age: [f64; AGES],
    /// When its first and its last sample were born, on the profile file's clock.
    pub first_ns: u64,
}

impl Site {
    pub fn amount(&self, view: View) -> Amount {
        match view {
            View::Live => self.live,
            View::Allocated => self.allocated,
            View::Freed => self.freed,
            View::Peak => self.peak,
            View::ShortLived => self.short_lived,
        }
    }
}

/// A block that lives and was sampled.
#[derive(Clone, Copy, Debug)]
pub struct LiveSample {
    pub address: u64,
    pub size: u64,
    pub interval: u64,
    pub born_ns: u64,
    pub age_ns: u64,
    pub site: u32,
    pub thread: u32,
    pub mark: u64,
    /// The number of the heap that the block is of; 0: none.
    pub heap: u32,
    /// The last scan's verdict; none: it said nothing about this block.
    pub reachable: Option<bool>,
    /// What it stands for.
    pub weight: Amount,
}

/// A profile file at one moment.
#[derive(Clone)]
pub struct Snapshot {
    /// The parts as they were in the file.
    pub profile: Profile,
    pub reading: Reading,
    pub modules: Vec<Module>,
    /// Sites that allocated, in the profile file's order.
    pub sites: Vec<Site>,
    /// Live samples, in the table's order.
    pub samples: Vec<LiveSample>,
    /// What was odd, in the order in which it was found.
    pub warnings: Vec<Warning>,
    /// Of the process: only in snapshots that were saved, or that were asked for it.
    pub process: Option<ProcessFacts>,
    /// Names of the addresses: only in snapshots that were saved.
    pub symbols: Option<SymbolTable>,
    /// The heaps that the program has made: only in snapshots that were saved while it ran, or that were asked for it.
    pub heaps: Option<Heaps>,
    /// The moment that this was made to be about; none: that of reading, or the last one.
    pub moment_ns: Option<u64>,
    /// How its call sites are to be named.
    pub naming: Naming,
}

impl Snapshot {
    /// Copies a profile file and understands it. Never fails over a part that is damaged: that is left out and said in
    /// [`Snapshot::warnings`].
    pub fn read(bytes: &(impl Bytes + ?Sized), reading: Reading) -> Result<Snapshot, ReadError> {
        let mut warnings = Vec::new();
        let profile = Profile::read(bytes, &mut warnings)?;
        Ok(Self::of_profile(profile, reading, warnings))
    }

    /// Understands a profile file that was copied already.
    pub fn of_profile(
        mut profile: Profile,
        reading: Reading,
        mut warnings: Vec<Warning>,
    ) -> Snapshot {
        integrity::check(&profile, reading.alive, &mut warnings);
        possible::leave_out(&mut profile, &mut warnings);
        check::mend_timeline(&mut profile);
        check::mend_nodes(&mut profile, &mut warnings);
        check::mend_sites(&mut profile, &mut warnings);
        check::mend_heap_names(&mut profile, &mut warnings);
        check::mend_samples(&mut profile, &mut warnings);
        let modules = check::modules(&profile, &mut warnings);
        let mut snapshot = Snapshot {
            modules,
            sites: Vec::new(),
            samples: Vec::new(),
            reading,
            profile,
            warnings,
            process: None,
            symbols: None,
            heaps: None,
            moment_ns: None,
            naming: Naming::default(),
        };
        snapshot.sites = snapshot
            .profile
            .sites
            .iter()
            .enumerate()
            .filter(|(_, site)| site.allocated_samples != 0 || site.allocated_bytes != 0)
            .map(|(number, site)| understand(number as u32, site, &snapshot.profile.control))
            .collect();
        let now = snapshot.now_ns();
        snapshot.samples = snapshot
            .profile
            .samples
            .iter()
            .map(|sample| live_sample(sample, now, &snapshot.profile.scan))
            .collect();
        check::reconcile(&mut snapshot);
        counted::widen(&mut snapshot);
        snapshot.say_what_is_odd_about_the_end();
        snapshot
    }

    /// Says in front of all else which file is damaged, if it is: who reads what follows has asked for a process, or for two
    /// files.
    pub(crate) fn name_the_damaged(&mut self, path: &Path) {
        let damaged = |warning: &Warning| warning.concern == Concern::Damaged;
        if self.warnings.iter().any(damaged) {
            let died = match self.is_alive() {
                true => "",
                false => ", or its program died while it wrote there",
            };
            let text = format!(
                "{} is damaged{died}: the notes say which figures not to believe",
                path.display()
            );
            self.warnings.insert(0, Warning::damaged(text));
        }
    }

    pub fn pid(&self) -> u64 {
        self.reading.pid
    }

    /// The program by its own name, with a path if one is known: see [`names::own`].
    pub fn program(&self) -> String {
        names::own_of_header(&self.profile.header)
    }

    /// The options it was started with, as in FREEHOLD=….
    pub fn options(&self) -> String {
        layout::text(&self.profile.header.options)
    }

    /// The version of the library in it.
    pub fn version(&self) -> String {
        layout::text(&self.profile.header.version)
    }

    /// It runs (at the moment of reading).
    pub fn is_alive(&self) -> bool {
        self.reading.alive
    }

    /// It ended by itself: its profile file has its last word, or who waited for it says so. `_exit` leaves no last word.
    pub fn ended_by_itself(&self) -> bool {
        self.profile.header.state == layout::STATE_ENDED || self.reading.exited == Some(true)
    }

    /// A signal ended it, as who waited for it says. Neither this, nor alive, nor ended by itself: it is not known.
    pub fn was_killed(&self) -> bool {
        self.reading.exited == Some(false)
    }

    /// When it ended is known: its last word is of that moment, or somebody waited for it or watched it.
    pub fn end_is_known(&self) -> bool {
        self.profile.header.state == layout::STATE_ENDED || self.reading.ran_until_ns.is_some()
    }

    /// The moment that this is about, on the profile file's clock: of reading if the program ran, else its end, as far as
    /// that is known: a program that stands still says nothing.
    pub fn now_ns(&self) -> u64 {
        if let Some(moment) = self.moment_ns {
            moment
        } else if self.reading.alive {
            self.reading.monotonic_ns
        } else {
            let until = self.reading.ran_until_ns.unwrap_or(0);
            self.last_word_ns().max(until)
        }
    }

    /// The last moment that the profile file tells of.
    pub fn last_word_ns(&self) -> u64 {
        let profile = &self.profile;
        let statistics = profile.statistics.as_ref().map_or(0, |f| f.taken_ns);
        let point = profile.timeline.last().map_or(0, |m| m.ns);
        let born = profile.samples.iter().map(|s| s.born_ns).max().unwrap_or(0);
        let freed = profile.traces.iter().map(|s| s.reached).max().unwrap_or(0);
        // A wild time in a damaged profile file must not make everything ancient: nothing is later than the reading.
        let last = statistics.max(point).max(born).max(freed);
        if self.reading.monotonic_ns > profile.header.begun_ns {
            last.min(self.reading.monotonic_ns)
        } else {
            last
        }
    }

    /// When the program itself began: its first block may have come much later.
    pub fn process_begun_ns(&self) -> u64 {
        let header = &self.profile.header;
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        // Since the machine started, with the time that it was suspended: then this is too late, and the profile file knows better.
        let started = u128::from(header.process_start) * 1_000_000_000 / u128::from(ticks);
        match u64::try_from(started) {
            Ok(started) if started > 0 => started.min(header.begun_ns),
            _ => header.begun_ns,
        }
    }

    /// For how long it was observed: since its first block.
    pub fn running_ns(&self) -> u64 {
        self.now_ns().saturating_sub(self.profile.header.begun_ns)
    }

    /// How old the statistics are at [`Snapshot::now_ns`]; none: there are none.
    pub fn statistics_age_ns(&self) -> Option<u64> {
        self.profile
            .statistics
            .as_ref()
            .map(|f| self.now_ns().saturating_sub(f.taken_ns))
    }

    /// Rows of the statistics that count.
    pub fn rows(&self) -> &[layout::Row] {
        match &self.profile.statistics {
            Some(statistics) => &statistics.row[..(statistics.rows as usize).min(layout::CLASSES)],
            None => &[],
        }
    }

    /// Mean bytes between samples, now; 0: nothing is sampled.
    pub fn interval(&self) -> u64 {
        self.profile.control.interval
    }

    /// Each block was sampled, so that all sums are exact.
    pub fn is_exact(&self) -> bool {
        self.interval() == 1 && self.sites.iter().all(|site| site.allocated.variance == 0.0)
    }

    /// The sum over all sites.
    pub fn total(&self, view: View) -> Amount {
        self.sites.iter().map(|site| site.amount(view)).sum()
    }

    /// The site of this number.
    pub fn site(&self, number: u32) -> Option<&Site> {
        // `sites` leaves out empty ones, but keeps the order of their numbers.
        let place = self
            .sites
            .binary_search_by_key(&number, |site| site.number)
            .ok()?;
        Some(&self.sites[place])
    }

    /// The stack that ends in this node. The innermost address comes first.
    pub fn stack(&self, node: u32) -> Stack {
        let nodes = &self.profile.nodes;
        let mut stack = Stack {
            addresses: Vec::new(),
            cut: node == 0,
        };
        let mut at = node as usize;
        // Each parent has a smaller number (`mend_nodes`), so this ends.
        while at != 0 {
            let Some(node) = nodes.get(at) else {
                stack.cut = true;
                break;
            };
            stack.addresses.push(node.address);
            stack.cut |= node.flags & layout::NODE_CUT != 0;
            at = node.parent as usize;
        }
        stack
    }

    /// The module that an address lies in; the latest loaded one if several were there one after the other.
    pub fn module(&self, address: u64) -> Option<&Module> {
        let mut unloaded = None;
        for module in self
            .modules
            .iter()
            .rev()
            .filter(|module| module.contains(address))
        {
            if module.unloaded_ns.is_none() {
                return Some(module);
            }
            unloaded.get_or_insert(module);
        }
        unloaded
    }

    /// The live samples of a site.
    pub fn samples_of(&self, site: u32) -> impl Iterator<Item = &LiveSample> {
        self.samples
            .iter()
            .filter(move |sample| sample.site == site)
    }

    /// A few words, for where there is no room for [`Snapshot::warnings`], if the sums must not be believed as they are.
    pub fn alarm(&self) -> Option<String> {
        counted::alarm(self)
    }

    /// What is missing because there was no room for samples.
    pub fn missing(&self) -> counted::Missing {
        counted::missing(self)
    }

    /// Why there is nothing to show, if there is nothing.
    pub fn why_empty(&self) -> Option<String> {
        if !self.sites.is_empty() {
            return None;
        }
        let control = &self.profile.control;
        let lost = control.lost_samples;
        Some(if control.interval == 0 {
            "0 samples, because sampling is switched off (the interval is 0)".to_owned()
        } else if lost != 0 {
            format!("0 samples, because the profile file had no room for any of {lost}")
        } else if control.taken != 0 {
            format!(
                "0 samples, although {} were taken: the profile file is damaged",
                control.taken
            )
        } else {
            format!(
                "0 samples, because the program allocated little so far: one sample is taken in {} on the average",
                crate::human::bytes(control.interval as f64)
            )
        })
    }
}

/// A live sample, with its age and weight.
pub(crate) fn live_sample(sample: &layout::Sample, now: u64, scan: &layout::Scan) -> LiveSample {
    let drawn = sample.drawn_size();
    // What counts is of the last scan, and about a block that was born before it.
    let judged = scan.state == layout::SCAN_DONE
        && scan.number != 0
        && sample.verdict() >> 1 == scan.number
        && sample.born_ns < scan.begun_ns;
    LiveSample {
        // Of a block that realloc was moving, the address as it was before.
        address: sample.address & !15,
        size: sample.size,
        interval: sample.drawn_interval(),
        born_ns: sample.born_ns,
        age_ns: now.saturating_sub(sample.born_ns),
        site: sample.site,
        thread: sample.thread,
        mark: u64::from(sample.mark),
        heap: sample.heap,
        reachable: judged.then_some(sample.verdict() & 1 == 1),
        weight: Amount::of_resized_sample(sample.size, drawn, sample.drawn_interval()),
    }
}

/// A site's sums, out of fixed point.
fn understand(number: u32, site: &layout::Site, control: &layout::Control) -> Site {
    let amount = |samples: u64, bytes: u64, blocks: u64, variance: u64| Amount {
        bytes: bytes as f64,
        blocks: blocks as f64 / f64::from(BLOCK_UNIT),
        variance: variance as f64 * f64::from(1u32 << VARIANCE_SHIFT),
        samples,
    };
    let allocated = amount(
        site.allocated_samples,
        site.allocated_bytes,
        site.allocated_blocks,
        site.allocated_variance,
    );
    let freed = amount(
        site.freed_samples,
        site.freed_bytes,
        site.freed_blocks,
        site.freed_variance,
    );
    let live = allocated - freed;
    let peak = if site.peak_of == control.peak_number {
        Amount {
            blocks: site.peak_blocks as f64 / f64::from(BLOCK_UNIT),
            ..allocated.part(site.peak_bytes as f64)
        }
    } else {
        live
    };
    let freed_at_age = site.freed_at_age.map(|bytes| bytes as f64);
    let short: f64 = freed_at_age[..SHORT_LIVED_BUCKETS].iter().sum();
    Site {
        number,
        node: site.node,
        heap: site.heap,
        live,
        allocated,
        freed,
        peak,
        short_lived: freed.part(short),
        freed_at_age,
        first_ns: site.first_ns,
    }
}
