//! The explanation: parts that add up to what is resident, notes, and the verdict.

use profile_file::layout;
use profile_file::{LiveSample, Skipped, Snapshot, Symbols};
use serde::Serialize;

use super::counts::{
    FRESH_NS, before_the_end, counted, everything, last_live, most_live, was_not_sampled,
};
use super::heap::{self, Counted, Sample};
use super::in_heaps;
use super::kinds::{self, Kind};
use super::mappings::Mapping;
use super::sites;
use super::sources::Sources;
use super::split::{self, Certainty, Split};
use super::verdict::{Facts, Verdict};
use crate::amounts::{bytes, duration};
use crate::leaks::finding::Leaking;
use crate::leaks::spread::Spread;
use crate::leaks::trend;

/// One line of the explanation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    pub part: &'static str,
    pub label: String,
    /// Below zero only of what is unexplained: less is there than was counted.
    pub bytes: i64,
    /// The kernel said it; otherwise it was counted or estimated, and may be off by `error_bytes`.
    pub exact: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_bytes: Option<u64>,
    /// What it is usually made of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub detail: Vec<String>,
}

/// Bytes of a line.
trait Amount {
    fn signed(self) -> i64;
}

impl Amount for u64 {
    fn signed(self) -> i64 {
        i64::try_from(self).unwrap_or(i64::MAX)
    }
}

impl Amount for i64 {
    fn signed(self) -> i64 {
        self
    }
}

impl Line {
    fn exact(part: &'static str, label: &str, bytes: impl Amount) -> Self {
        Self {
            part,
            label: label.to_owned(),
            bytes: bytes.signed(),
            exact: true,
            error_bytes: None,
            detail: Vec::new(),
        }
    }

    fn about(part: &'static str, label: &str, bytes: impl Amount, error: u64) -> Self {
        Self {
            exact: false,
            error_bytes: Some(error),
            ..Self::exact(part, label, bytes)
        }
    }
}

impl From<split::Part> for Line {
    fn from(part: split::Part) -> Self {
        match part.certainty {
            Certainty::Exact => Self::exact(part.key, part.label, part.bytes),
            Certainty::About(error) => Self::about(part.key, part.label, part.bytes, error),
        }
    }
}

/// A size class with much free space in its slabs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PinnedClass {
    pub size: u64,
    pub slabs: u64,
    pub free_bytes: u64,
    pub live_share: f64,
    pub sites: Vec<PinningSite>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PinningSite {
    pub name: String,
    pub live_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    pub program: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    pub alive: bool,
    /// Of a program that is gone, how long before its end all this was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_before_end: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub resident_bytes: u64,
    pub swapped_bytes: u64,
    /// Sum of `freehold`, then the lines; likewise `other`.
    pub freehold_bytes: u64,
    /// What was counted of it: all but what is unexplained.
    pub counted_bytes: u64,
    pub freehold: Vec<Line>,
    pub other_bytes: u64,
    pub other: Vec<Line>,
    pub fragmented_classes: Vec<PinnedClass>,
    pub notes: Vec<String>,
    pub verdict: Verdict,
}

/// Puts the sources together.
pub fn explain(sources: &Sources) -> Explanation {
    let mut work = Work::new(sources);
    work.freehold();
    work.others();
    work.finish()
}

/// What is resident of blocks above 2 MiB, and how far that may be off.
#[derive(Default)]
struct Huge {
    bytes: u64,
    error: u64,
}

struct Work<'a> {
    sources: &'a Sources,
    freehold: Vec<Line>,
    /// What is resident in the window beyond all that was counted, or short of it.
    unexplained: i64,
    other: Vec<Line>,
    notes: Vec<String>,
    counted: Counted,
    samples: Vec<Sample>,
    /// Resident bytes by kind; what is found to be Freehold's moves out of `Anonymous`.
    resident: Vec<(Kind, u64)>,
    kinds: Vec<Kind>,
}

impl<'a> Work<'a> {
    fn new(sources: &'a Sources) -> Self {
        let mappings: &[Mapping] = sources
            .memory
            .as_ref()
            .map_or(&[], |memory| &memory.mappings);
        let kinds = kinds::attribute(mappings, &sources.ours);
        let mut resident: Vec<(Kind, u64)> = Vec::new();
        for (mapping, &kind) in mappings.iter().zip(&kinds) {
            match resident.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, sum)) => *sum += mapping.resident,
                None => resident.push((kind, mapping.resident)),
            }
        }
        let mut counted = sources.snapshot.as_ref().map(counted).unwrap_or_default();
        in_heaps::take_out(&mut counted, &sources.share);
        Self {
            sources,
            freehold: Vec::new(),
            unexplained: 0,
            other: Vec::new(),
            notes: sources.notes.clone(),
            counted,
            samples: Vec::new(),
            resident,
            kinds,
        }
    }

    fn of_kind(&self, wanted: Kind) -> u64 {
        self.resident
            .iter()
            .find(|(kind, _)| *kind == wanted)
            .map_or(0, |(_, bytes)| *bytes)
    }

    /// Takes up to `bytes` out of the anonymous memory, and says how much that was.
    fn take(&mut self, bytes: u64) -> u64 {
        match self
            .resident
            .iter_mut()
            .find(|(kind, _)| *kind == Kind::Anonymous)
        {
            Some((_, left)) => {
                let taken = bytes.min(*left);
                *left -= taken;
                taken
            }
            None => 0,
        }
    }

    fn freehold(&mut self) {
        let Some(snapshot) = &self.sources.snapshot else {
            return self.freehold_from_outside();
        };
        let huge = self.sort_samples(snapshot);
        let known = self.sources.memory.is_some();
        self.catch_up(snapshot);
        let window = if known {
            self.of_kind(Kind::Window)
        } else {
            everything(&self.counted)
        };
        let huge = self.huge(snapshot, huge);
        let huge_bytes = self.push_huge(&huge, known.then_some(window));
        let in_heaps = in_heaps::parts(&self.sources.share);
        self.freehold.extend(in_heaps.into_iter().map(Line::from));
        // Where the kernel was not asked, `window` is the sum of all other parts.
        let window = if known {
            window.saturating_sub(huge_bytes + self.sources.share.resident())
        } else {
            window
        };
        let split = split::split(window, &self.counted, &self.samples);
        self.unexplained = split.unexplained;
        self.note_quality(snapshot, &split);
        for part in split.parts {
            // What the allocator has for itself is one line with what lies outside of the window.
            if part.bytes != 0 && part.key != "own" {
                self.freehold.push(part.into());
            }
        }
        self.records(snapshot, known);
    }

    /// A program that has not answered has not been in the allocator's slow paths; but it may have freed or taken much
    /// just before it went to sleep, after the last count.
    fn catch_up(&mut self, snapshot: &Snapshot) {
        // Of a program that is gone it is unknown how long it went on after the count.
        let fresh = snapshot.is_alive() && snapshot.statistics_age_ns().unwrap_or(0) < FRESH_NS;
        // Samples that were lost, or never taken, were not freed: only the count is whole.
        let short = snapshot.profile.control.lost_samples != 0 || snapshot.interval() == 0;
        if snapshot.profile.statistics.is_none() || fresh || short {
            return;
        }
        let gone = !snapshot.is_alive();
        let change = self
            .counted
            .catch_up(&self.samples, snapshot.interval(), gone);
        if change != 0 {
            let verb = if change < 0 { "freed" } else { "taken" };
            let unknown = match self.counted.freed_since {
                0 => "",
                _ => "; whether that was still resident at the end is not known",
            };
            self.notes.push(format!(
                "by the samples, {} were {verb} since the allocator counted{unknown}",
                bytes(change.unsigned_abs())
            ));
        }
    }

    /// Not observed: the sum is known, and no more.
    fn freehold_from_outside(&mut self) {
        let window = self.of_kind(Kind::Window);
        let records = self.of_kind(Kind::Records);
        if window + records > 0 {
            self.freehold
                .push(Line::exact("blocks", "blocks, in whatever state", window));
            self.freehold
                .push(Line::exact("metadata", "records about them", records));
            self.notes.push(
                "some records are among the anonymous memory: without the profile file they cannot be told"
                    .to_owned(),
            );
        }
    }

    /// Live samples go to `samples`; those of blocks above 2 MiB, which the allocator counts for themselves, are returned.
    fn sort_samples(&mut self, snapshot: &'a Snapshot) -> Vec<&'a LiveSample> {
        let mut huge = Vec::new();
        for sample in &snapshot.samples {
            // What lies in heaps is known from their own records.
            if sample.heap != 0 {
                continue;
            }
            if sample.size > u64::from(layout::HUGE) {
                huge.push(sample);
                continue;
            }
            let end = sample.address.saturating_add(sample.size);
            let class = heap::class_size(sample.size, &self.counted.classes);
            let beyond = end..sample.address.saturating_add(class);
            let pages = self.sources.pages.as_ref();
            let pages = pages.filter(|_| sample.size >= 4096);
            let there = |range| pages.and_then(|pages| pages.resident(range).ok());
            self.samples.push(Sample {
                size: sample.size,
                resident: there(&(sample.address..end)),
                beyond: there(&beyond),
                blocks: sample.weight.blocks,
                site: sample.site,
            });
        }
        huge
    }

    /// Blocks above 2 MiB count with what was touched of them. Nearly each of them is sampled, and the sample says where it
    /// is. Returns their bytes.
    fn huge(&self, snapshot: &Snapshot, samples: Vec<&LiveSample>) -> Huge {
        let Some(statistics) = &snapshot.profile.statistics else {
            return Huge::default();
        };
        let counted = statistics
            .huge_bytes
            .saturating_sub(self.sources.share.huge);
        if snapshot.interval() == 0 {
            return Huge {
                bytes: counted,
                error: counted / 2,
            };
        }
        // A block of this size is sampled all but always, so that the samples are of this moment and miss nearly
        // nothing.
        let (mut resident, mut error) = (0.0, 0.0);
        for sample in &samples {
            let range = sample.address..sample.address.saturating_add(sample.size);
            let pages = self
                .sources
                .pages
                .as_ref()
                .and_then(|pages| pages.resident(&range).ok());
            let there = pages.unwrap_or(sample.size) as f64;
            resident += sample.weight.blocks * there;
            error += (sample.weight.blocks - 1.0) * there
                + if pages.is_none() { there / 2.0 } else { 0.0 };
        }
        // How many there are the allocator has counted; of the samples then only the touched share is needed.
        let sampled: f64 = samples
            .iter()
            .map(|sample| sample.weight.blocks * sample.size as f64)
            .sum();
        let counted = counted as f64;
        let fresh = snapshot.statistics_age_ns().unwrap_or(u64::MAX) < FRESH_NS;
        if fresh && sampled > 0.0 && (0.5..2.0).contains(&(counted / sampled)) {
            let share = counted / sampled;
            (resident, error) = (resident * share, error * share.min(0.1));
        }
        if snapshot.profile.control.lost_samples != 0 && counted > sampled {
            // Without their samples it is unknown how much of them was touched.
            (resident, error) = (
                resident + (counted - sampled),
                error + (counted - sampled) / 2.0,
            );
        }
        Huge {
            bytes: resident.round() as u64,
            error: error.round() as u64,
        }
    }

    /// The line of blocks above 2 MiB, no longer than what is resident. Returns what it says.
    fn push_huge(&mut self, huge: &Huge, resident: Option<u64>) -> u64 {
        let bytes = resident.map_or(huge.bytes, |most| huge.bytes.min(most));
        if bytes > 0 {
            let label = "live: blocks above 2 MiB";
            let exact = resident.is_some() && bytes == huge.bytes && huge.error < bytes / 1000;
            self.freehold.push(if exact {
                Line::exact("huge_live", label, bytes)
            } else {
                Line::about("huge_live", label, bytes, huge.error)
            });
        }
        bytes
    }

    /// Metadata and the profiler's own.
    fn records(&mut self, snapshot: &Snapshot, known: bool) {
        let header = &snapshot.profile.header;
        let Some(statistics) = &snapshot.profile.statistics else {
            let rest = self.of_kind(Kind::Records);
            if rest > 0 {
                self.freehold
                    .push(Line::exact("metadata", "records about blocks", rest));
            }
            return self.profiler(header.metadata_bytes, 0, known);
        };
        let outside = statistics.metadata_bytes.saturating_sub(self.counted.own);
        let outside = if known { self.take(outside) } else { outside };
        let own = self.counted.own;
        let sum = self.of_kind(Kind::Records) + outside + own;
        self.freehold.push(Line::about(
            "metadata",
            "records about blocks, magazines, thread caches",
            sum,
            sum / 10,
        ));
        self.profiler(header.metadata_bytes, statistics.observer_bytes, known);
    }

    fn profiler(&mut self, page_bytes: u64, private: u64, known: bool) {
        let private = if known { self.take(private) } else { private };
        let profile = if known {
            self.of_kind(Kind::Profile)
        } else {
            page_bytes
        };
        if profile + private > 0 {
            let label = "the profiler's own: its profile file and records";
            self.freehold.push(if private == 0 && known {
                Line::exact("profiler", label, profile)
            } else {
                Line::about("profiler", label, profile + private, private / 10)
            });
        }
    }

    fn note_quality(&mut self, snapshot: &Snapshot, split: &Split) {
        if snapshot.profile.statistics.is_some() {
            let age = snapshot.statistics_age_ns().unwrap_or(0) as f64 / 1e9;
            if snapshot.is_alive() && age >= 1.0 {
                self.notes.push(format!(
                    "the allocator's statistics are {} old: the program has not been in its slow paths since",
                    duration(age)
                ));
            }
            let resident = self.sources.memory.as_ref().map_or(0, |m| m.resident);
            let (amount, less) = (split.unexplained.unsigned_abs(), split.unexplained < 0);
            if amount > resident / 50 && resident > 0 {
                self.notes.push(match less {
                    true => self.sources.less(&bytes(amount)),
                    false => format!(
                        "{} of memory were not counted: taken since, or not known",
                        bytes(amount)
                    ),
                });
            }
        } else {
            self.notes
                .push("the allocator has not counted anything yet".to_owned());
        }
        self.note_moments(snapshot);
        if split.untouched >= 1 << 20 {
            self.notes.push(format!(
                "{} of live blocks were never touched, so they are not in memory",
                bytes(split.untouched)
            ));
        }
        self.notes
            .extend(snapshot.warnings.iter().map(ToString::to_string));
    }

    /// The allocator's count and the kernel's sum are of two moments, between which a program may grow.
    fn note_moments(&mut self, snapshot: &Snapshot) {
        let (Some(memory), Some(statistics)) = (&self.sources.memory, &snapshot.profile.statistics)
        else {
            return;
        };
        let (then, now) = (statistics.resident_bytes, memory.resident);
        if !snapshot.is_alive() || then == 0 || then.abs_diff(now) <= now / 50 {
            return;
        }
        let apart = duration(memory.read_ns.abs_diff(statistics.taken_ns) as f64 / 1e9);
        let change = |grew| if grew { "grew" } else { "shrank" };
        let by = bytes(then.abs_diff(now));
        self.notes.push(if memory.read_ns >= statistics.taken_ns {
            let verb = change(now > then);
            format!("between the allocator's count and the kernel's, {apart} later, the process {verb} by {by}")
        } else {
            let verb = change(then > now);
            format!("between the kernel's count and the allocator's, {apart} later, the process {verb} by {by}")
        });
    }

    fn others(&mut self) {
        let Some(memory) = &self.sources.memory else {
            let statistics = self
                .sources
                .snapshot
                .as_ref()
                .and_then(|s| s.profile.statistics.as_ref());
            let whole = statistics.map_or(0, |statistics| statistics.resident_bytes);
            let ours: i64 = self.freehold.iter().map(|line| line.bytes).sum();
            let rest = whole.saturating_add_signed(-ours);
            let rest = if ours > whole as i64 { 0 } else { rest };
            if rest > 0 {
                self.other.push(Line::about(
                    "rest",
                    "everything else in the process",
                    rest,
                    rest / 10,
                ));
            }
            return;
        };
        for kind in Kind::OTHERS {
            let sum = self.of_kind(kind);
            if sum == 0 {
                continue;
            }
            let taken =
                kind == Kind::Anonymous && self.freehold.iter().any(|line| line.part == "metadata");
            let mut line = if taken {
                Line::about(kind.key(), kind.label(), sum, 0)
            } else {
                Line::exact(kind.key(), kind.label(), sum)
            };
            line.detail = kinds::detail(&memory.mappings, &self.kinds, kind);
            if let (true, Some(allocator)) = (kind == Kind::Anonymous, &self.sources.allocator) {
                line.detail.push(allocator.clone());
            }
            self.other.push(line);
        }
    }

    fn finish(mut self) -> Explanation {
        let sum = |lines: &[Line]| {
            let sum: i64 = lines.iter().map(|line| line.bytes).sum();
            sum.max(0) as u64
        };
        let (ours, others) = (sum(&self.freehold), sum(&self.other));
        let resident = match &self.sources.memory {
            Some(memory) => memory.resident,
            None => ours + others,
        };
        let later = self
            .sources
            .memory
            .as_ref()
            .map_or(resident, |it| it.summed);
        if later.abs_diff(resident) > resident / 50 {
            self.notes.push(format!(
                "the process changed while it was read: the parts are those of {}, a moment later there were {}",
                bytes(resident),
                bytes(later)
            ));
        }
        if others.abs_diff(resident.saturating_sub(ours)) > resident / 50 {
            self.notes.push(format!(
                "the parts add up to {}, the kernel's sum is {}",
                bytes(ours + others),
                bytes(resident)
            ));
        }
        let mut symbols = self.sources.snapshot.as_ref().map(Symbols::new);
        let (classes, skipped) = self.pinned(symbols.as_mut());
        self.notes.extend(skipped.sentence());
        let verdict = self
            .facts(ours, resident, &classes, symbols.as_mut())
            .verdict();
        let lookup = symbols.iter().flat_map(|symbols| symbols.warnings());
        self.notes.extend(lookup.cloned());
        let snapshot = self.sources.snapshot.as_ref();
        Explanation {
            program: self.sources.program.clone(),
            pid: self.sources.pid,
            alive: snapshot.is_none_or(Snapshot::is_alive),
            seconds_before_end: snapshot.and_then(before_the_end),
            version: snapshot.map(Snapshot::version),
            resident_bytes: resident,
            swapped_bytes: self
                .sources
                .memory
                .as_ref()
                .map_or(0, |memory| memory.swapped),
            freehold_bytes: ours,
            counted_bytes: ours.saturating_add_signed(-self.unexplained),
            freehold: self.freehold,
            other_bytes: others,
            other: self.other,
            fragmented_classes: classes,
            notes: self.notes,
            verdict,
        }
    }

    /// Classes with much free space, with the names of the call sites that hold on to them; and the functions that
    /// those are not named after.
    fn pinned(&self, symbols: Option<&mut Symbols>) -> (Vec<PinnedClass>, Skipped) {
        let mut skipped = Skipped::default();
        let (Some(snapshot), Some(symbols)) = (&self.sources.snapshot, symbols) else {
            return (Vec::new(), skipped);
        };
        let found = heap::pinned(&self.counted, &self.samples, 5);
        if found.is_empty() {
            return (Vec::new(), skipped);
        }
        let classes = found
            .into_iter()
            .map(|class| PinnedClass {
                size: class.size,
                slabs: class.slabs,
                free_bytes: class.free_bytes,
                live_share: class.live_share,
                sites: sites::keepers(snapshot, symbols, &class.sites, &mut skipped)
                    .into_iter()
                    .map(|(name, live_bytes)| PinningSite { name, live_bytes })
                    .collect(),
            })
            .collect();
        (classes, skipped)
    }

    fn facts(
        &self,
        ours: u64,
        resident: u64,
        classes: &[PinnedClass],
        symbols: Option<&mut Symbols>,
    ) -> Facts {
        let amount = |keys: &[&str]| {
            self.freehold
                .iter()
                .filter(|line| keys.contains(&line.part))
                .map(|line| line.bytes.max(0) as u64)
                .sum::<u64>()
        };
        // What was counted as free and is not there any more was returned to the OS.
        let gone = self.unexplained.min(0).unsigned_abs();
        let snapshot = self.sources.snapshot.as_ref();
        let statistics = snapshot.and_then(|snapshot| snapshot.profile.statistics.as_ref());
        let limit = statistics.and_then(|f| {
            [
                (f.limit_hard, f.limit_in_use),
                (f.group_limit, f.group_used),
            ]
            .into_iter()
            .filter(|(limit, _)| *limit > 0)
            .min_by_key(|(limit, used)| limit.saturating_sub(*used))
        });
        let ended = snapshot.is_some_and(|snapshot| !snapshot.is_alive());
        let trend = snapshot.and_then(trend::of_snapshot);
        let (mut leaking, mut spread) = (None, None);
        if let Some((snapshot, symbols)) = snapshot.zip(symbols) {
            leaking = Leaking::of(snapshot, symbols);
            spread = trend
                .filter(|trend| trend.grows() && leaking.is_none())
                .and_then(|_| Spread::of(snapshot, symbols));
        }
        Facts {
            word: self.sources.word.clone(),
            resident,
            ours,
            live: amount(&["live", "rounding", "huge_live", "heaps_live"]),
            fragmented: amount(&["free_in_slabs"]).saturating_sub(gone),
            retained: amount(&["cached", "dirty"]).saturating_sub(gone),
            free_in_heaps: in_heaps::free(&self.sources.share),
            others: self
                .other
                .iter()
                .filter_map(|line| {
                    let kind = Kind::OTHERS
                        .into_iter()
                        .find(|kind| kind.key() == line.part)?;
                    Some((kind, line.bytes.max(0) as u64))
                })
                .collect(),
            presence: self.sources.presence,
            trend,
            leaking,
            spread,
            peak: snapshot.map_or((0, 0), most_live),
            last: snapshot.map_or((0, 0), last_live),
            unsampled: snapshot.is_some_and(was_not_sampled),
            lost_share: snapshot.map_or(0.0, |snapshot| snapshot.missing().share),
            ended,
            limit,
            pinning: classes
                .first()
                .and_then(|class| class.sites.first())
                .map(|site| site.name.clone()),
            allocator: self.sources.allocator.clone(),
            eager: statistics.is_some_and(|statistics| statistics.purge_mode == 1),
        }
    }
}
