//! Does the profile file make sense? What refers to nowhere is put right so that no other module has to check again, and sums
//! that the profile file has twice are compared. Each finding is a warning.

use std::collections::HashMap;

use crate::amount::{Amount, View};
use crate::counted;
use crate::human;
use crate::layout::{self, SectionKind};
use crate::profile::Profile;
use crate::snapshot::{Module, Snapshot};
use crate::warning::Warning;

/// Every parent is smaller than its child afterwards, so that every way leads to the root.
pub fn mend_nodes(profile: &mut Profile, warnings: &mut Vec<Warning>) {
    let mut wrong = 0u64;
    for (number, node) in profile.nodes.iter_mut().enumerate() {
        if number == 0 {
            continue;
        }
        if node.parent as usize >= number {
            node.parent = 0;
            node.flags |= layout::NODE_CUT;
            wrong += 1;
        }
    }
    if wrong != 0 {
        warnings.push(Warning::damaged(format!(
            "{wrong} stack frames have a caller that cannot be: their stacks are shown cut there"
        )));
    }
}

/// Every point of the timeline has a time afterwards: one without was being written, or hurt.
pub fn mend_timeline(profile: &mut Profile) {
    profile.timeline.retain(|point| point.ns != 0);
}

/// Every site names a node that is there afterwards.
pub fn mend_sites(profile: &mut Profile, warnings: &mut Vec<Warning>) {
    let nodes = profile.nodes.len() as u64;
    let mut lost = 0u64;
    for site in profile.sites.iter_mut().skip(1) {
        if u64::from(site.node) >= nodes.max(1) {
            site.node = 0;
            lost += 1;
        }
    }
    if lost != 0 {
        warnings.push(Warning::damaged(format!(
            "{lost} call sites have a stack that is not in the profile file: they are shown without one"
        )));
    }
}

/// Every site's heap has a name afterwards, and every parent of a name is before it.
pub fn mend_heap_names(profile: &mut Profile, warnings: &mut Vec<Warning>) {
    let mut lost = 0u64;
    for (number, heap) in profile.heap_names.iter_mut().enumerate() {
        if heap.parent as usize >= number.max(1) {
            heap.parent = 0;
            lost += 1;
        }
    }
    for site in profile.sites.iter_mut().skip(1) {
        let known = site.heap == 0
            || site.heap == layout::HEAP_NO_ROOM
            || (site.heap as usize) < profile.heap_names.len();
        if !known {
            site.heap = layout::HEAP_NO_ROOM;
            lost += 1;
        }
    }
    if lost != 0 {
        warnings.push(Warning::damaged(format!(
            "{lost} names of heaps are not in the profile file: their blocks count as those of heaps without a name"
        )));
    }
    let dropped = profile.header.section[layout::SectionKind::Heaps as usize].dropped;
    if dropped != 0 {
        warnings.push(Warning::incomplete(format!(
            "{dropped} samples are of heaps for whose names there was no room: the profile file keeps {} names",
            layout::HEAPS_MOST
        )));
    }
}

/// Every live sample names a site that is there afterwards; others go.
pub fn mend_samples(profile: &mut Profile, warnings: &mut Vec<Warning>) {
    let sites = profile.sites.len();
    let before = profile.samples.len();
    profile
        .samples
        .retain(|sample| sample.site != 0 && (sample.site as usize) < sites);
    let gone = before - profile.samples.len();
    // What is left of others is found by chance, and is not missed.
    profile
        .traces
        .retain(|trace| trace.is_trace() && trace.site != 0 && (trace.site as usize) < sites);
    if gone != 0 {
        warnings.push(Warning::damaged(format!(
            "{gone} live samples name a call site that is not in the profile file: they are left out"
        )));
    }
}

/// The modules that can be.
pub fn modules(profile: &Profile, warnings: &mut Vec<Warning>) -> Vec<Module> {
    let mut wrong = 0u64;
    let mut modules = Vec::new();
    for raw in &profile.modules {
        if raw.begin == 0 && raw.end == 0 {
            continue;
        }
        let id = raw.build_id.get(..raw.build_id_bytes as usize);
        if raw.begin >= raw.end || id.is_none() {
            wrong += 1;
            continue;
        }
        modules.push(Module {
            begin: raw.begin,
            end: raw.end,
            bias: raw.bias,
            unloaded_ns: raw.unloaded(),
            build_id: id.unwrap_or_default().to_vec(),
            path: layout::text(&raw.path),
        });
    }
    if wrong != 0 {
        warnings.push(Warning::damaged(format!(
            "{wrong} modules have an impossible place or build-id: addresses in them stay without names"
        )));
    }
    modules
}

/// A site does not free more than it allocated.
fn negative(snapshot: &Snapshot, warnings: &mut Vec<Warning>) {
    let mut count = 0u64;
    let mut bytes = 0.0;
    for site in snapshot.profile.sites.iter().skip(1) {
        if site.freed_bytes > site.allocated_bytes
            || site.freed_blocks > site.allocated_blocks
            || site.freed_samples > site.allocated_samples
            || site.freed_variance > site.allocated_variance
        {
            count += 1;
            bytes += site.freed_bytes.saturating_sub(site.allocated_bytes) as f64;
        }
    }
    if count != 0 && matters(snapshot, bytes, snapshot.profile.control.live_bytes as f64) {
        let text =
            format!("{count} call sites freed more than they allocated: they are shown as 0 live");
        warnings.push(odd(snapshot, text));
    }
}

/// A disagreement of a program that runs is only that of the moments at which its parts were read: below a hundredth of
/// the whole it is not worth a word. Of one that is gone everything is.
fn matters(snapshot: &Snapshot, apart: f64, whole: f64) -> bool {
    !snapshot.is_alive() || apart > 0.01 * whole
}

/// Compares what the profile file says twice.
pub fn reconcile(snapshot: &mut Snapshot) {
    let mut warnings = Vec::new();
    negative(snapshot, &mut warnings);
    live_sums(snapshot, &mut warnings);
    freed_sums(snapshot, &mut warnings);
    counts(snapshot, &mut warnings);
    peak(snapshot, &mut warnings);
    shortcomings(snapshot, &mut warnings);
    statistics(snapshot, &mut warnings);
    warnings.extend(counted::compare(snapshot));
    snapshot.warnings.append(&mut warnings);
}

/// Sums are kept in whole bytes by arithmetic without floating point: a thousandth is theirs, and a byte a sample.
fn near(one: f64, two: f64, samples: u64) -> bool {
    (one - two).abs() <= 1e-3 * one.max(two) + samples as f64 + 1.0
}

/// Allocated minus freed is what the live samples make.
fn live_sums(snapshot: &Snapshot, warnings: &mut Vec<Warning>) {
    let mut by_site: HashMap<u32, Amount> = HashMap::new();
    for sample in &snapshot.samples {
        *by_site.entry(sample.site).or_default() += sample.weight;
    }
    let unit = f64::from(1u32 << layout::VARIANCE_SHIFT);
    let mut apart = 0u64;
    let mut total = 0.0;
    let mut worst = (0.0, 0u32, 0.0, 0.0);
    for site in &snapshot.sites {
        let counted = by_site.get(&site.number).copied().unwrap_or_default();
        let (said, found) = (site.live, counted);
        let agree = near(said.bytes, found.bytes, said.samples.max(found.samples))
            && (said.blocks - found.blocks).abs()
                <= 1e-3 * found.blocks + (1 + found.samples) as f64 / f64::from(layout::BLOCK_UNIT)
            && (said.variance - found.variance).abs()
                <= 1e-2 * found.variance + unit * (1 + found.samples) as f64
            && said.samples == found.samples;
        if !agree {
            apart += 1;
            let distance = (said.bytes - found.bytes).abs();
            total += distance;
            if distance >= worst.0 {
                worst = (distance, site.number, said.bytes, found.bytes);
            }
        }
    }
    if apart == 0 || !matters(snapshot, total, snapshot.total(View::Live).bytes) {
        return;
    }
    let (_, number, said, found) = worst;
    let text = format!(
        "{apart} of {} call sites do not agree with their live samples (worst: site {number}, {said:.0} bytes by its \
         sums, {found:.0} by its samples)",
        snapshot.sites.len()
    );
    warnings.push(if snapshot.is_alive() {
        Warning::moving(format!(
            "{text}: the program went on while its profile file was read"
        ))
    } else {
        Warning::disagrees(format!(
            "{text}: it died in the middle of an entry, or the profile file is damaged"
        ))
    });
}

/// What was freed is what was freed at some age. Both were added to with the same numbers, so they are equal.
fn freed_sums(snapshot: &Snapshot, warnings: &mut Vec<Warning>) {
    let mut apart = 0u64;
    let mut distance = 0.0;
    for site in &snapshot.sites {
        let by_age: f64 = site.freed_at_age.iter().sum();
        if site.freed.bytes != by_age {
            apart += 1;
            distance += (site.freed.bytes - by_age).abs();
        }
    }
    if apart != 0 && matters(snapshot, distance, snapshot.total(View::Freed).bytes) {
        let text = format!("{apart} call sites freed other sums than their ages add up to");
        warnings.push(odd(snapshot, text));
    }
}

/// The number of samples, by the control words and by the sites.
fn counts(snapshot: &Snapshot, warnings: &mut Vec<Warning>) {
    let control = &snapshot.profile.control;
    let entered: u64 = snapshot
        .sites
        .iter()
        .fold(0u64, |sum, site| sum.saturating_add(site.allocated.samples));
    let said = control.taken.saturating_sub(control.lost_samples);
    if said != entered && matters(snapshot, said.abs_diff(entered) as f64, said as f64) {
        let text = format!(
            "{said} samples were entered by the profile file's count, {entered} by its call sites'"
        );
        warnings.push(odd(snapshot, text));
    }
}

/// The peak, as a whole and by sites.
fn peak(snapshot: &Snapshot, warnings: &mut Vec<Warning>) {
    let control = &snapshot.profile.control;
    let by_site = snapshot.total(View::Peak);
    // Both are sums of the same whole numbers, but threads that reach a peak together may see it a little apart.
    let (whole, parts) = (control.peak_bytes as f64, by_site.bytes);
    let apart = (whole - parts).abs();
    if apart > 1e-3 * whole.max(parts) + 16.0 && matters(snapshot, apart, whole) {
        let text = format!(
            "the peak was {} bytes as a whole, {:.0} by call sites",
            control.peak_bytes, by_site.bytes
        );
        warnings.push(odd(snapshot, text));
    }
}

/// A disagreement: of a program that runs it is only its going on.
fn odd(snapshot: &Snapshot, text: String) -> Warning {
    if snapshot.is_alive() {
        Warning::moving(format!(
            "{text}: the program went on while its profile file was read"
        ))
    } else {
        Warning::disagrees(text)
    }
}

fn lost_samples(snapshot: &Snapshot) -> String {
    let mut text = format!(
        "of {} samples were not entered for want of room: all sums are short by them, and their error bars wide",
        snapshot.profile.control.taken
    );
    if let Some(statistics) = &snapshot.profile.statistics {
        let counted = statistics.live_bytes.saturating_add(statistics.huge_bytes);
        let live = human::bytes(counted as f64);
        text += &format!(". The allocator itself counted {live} of live blocks");
        let age = snapshot.statistics_age_ns().unwrap_or(0);
        if age > 1_000_000_000 {
            text += &format!(", {} ago", human::duration(age));
        }
    }
    text
}

/// What the library itself noted.
fn shortcomings(snapshot: &Snapshot, warnings: &mut Vec<Warning>) {
    let control = &snapshot.profile.control;
    let mut note = |count: u64, text: &str| {
        if count != 0 {
            warnings.push(Warning::incomplete(format!("{count} {text}")));
        }
    };
    note(control.lost_samples, &lost_samples(snapshot));
    note(
        control.lost_stacks,
        "samples have no stack for want of room: they stand under the root",
    );
    note(
        control.unknown_frees,
        "sampled blocks were freed that have no sample (lost, or born before a fork)",
    );
    for kind in [SectionKind::Modules, SectionKind::Nodes, SectionKind::Sites] {
        let dropped = snapshot.profile.header.section[kind as usize].dropped;
        note(
            dropped,
            &format!("{} did not fit into the profile file", kind.name()),
        );
    }
    if snapshot.profile.header.inherited != 0 {
        warnings.push(Warning::incomplete(
            "the program was forked from an observed one: blocks of before the fork are not in the profile",
        ));
    }
}

/// Statistics that no heap could have.
fn statistics(snapshot: &Snapshot, warnings: &mut Vec<Warning>) {
    let Some(statistics) = &snapshot.profile.statistics else {
        return;
    };
    if statistics.rows > layout::CLASSES as u64 {
        warnings.push(Warning::damaged(format!(
            "the statistics claim {} size classes; {} are read",
            statistics.rows,
            layout::CLASSES
        )));
    }
    let counted = |row: &&layout::Row| row.slabs > 0;
    let unknown = snapshot.rows().iter().filter(counted);
    let unknown = unknown.filter(|row| row.class_use().is_none()).count();
    if unknown != 0 {
        warnings.push(Warning::damaged(format!(
            "{unknown} size classes do not say whose blocks they have: they are left out where that matters"
        )));
    }
    if statistics.taken_ns > snapshot.reading.monotonic_ns && snapshot.reading.monotonic_ns != 0 {
        warnings.push(Warning::disagrees(
            "the statistics were taken in the future".to_owned(),
        ));
    }
}
