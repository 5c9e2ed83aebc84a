//! What the profile file is made of. Amounts are bytes, times are seconds.

use std::collections::{BTreeMap, HashMap};

use profile_file::{Clearing, Snapshot, Symbols, layout};
use serde::Serialize;

use crate::leaks::finding::{self, Finding, Limit};
use crate::leaks::text::{before_clearing, reason};
use crate::leaks::trend::{self, Trend};
use crate::leaks::verdict::Rules;
use crate::leaks::{self, Suppressions};

/// Sites beyond these are summed up: a page of a hundred thousand rows helps no reader.
const MOST_SITES: usize = 1000;

#[derive(Serialize)]
pub struct Page {
    pub name: String,
    program: String,
    pid: u64,
    state: &'static str,
    command: String,
    version: String,
    options: String,
    system: String,
    page_size: u32,
    processors: u32,
    begun_unix: f64,
    taken_unix: f64,
    seconds: f64,
    interval: u64,
    samples: usize,
    marks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    nothing_because: Option<String>,
    warnings: Vec<String>,
    /// All that is live grows, though no site alone may do so beyond doubt.
    #[serde(skip_serializing_if = "Option::is_none")]
    grows: Option<Trend>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<Limit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heap: Option<Heap>,
    timeline: Vec<Point>,
    classes: Vec<Class>,
    pub sites: Vec<Site>,
    more_sites: usize,
    more_live: f64,
}

/// The allocator's memory, split; and the whole process.
#[derive(Serialize)]
struct Heap {
    resident: u64,
    mapped: u64,
    threads: u64,
    age: f64,
    /// Name, bytes, what it is. The parts have memory behind them, as far as the allocator knows.
    parts: Vec<(&'static str, u64, &'static str)>,
}

#[derive(Serialize)]
struct Point {
    at: f64,
    resident: u64,
    live: u64,
    cached: u64,
    dirty: u64,
    free: u64,
}

#[derive(Default, Serialize)]
struct Class {
    size: u64,
    slabs: u64,
    live: u64,
    cached: u64,
    free: u64,
    occupancy: [u64; 4],
}

#[derive(Serialize)]
pub struct Site {
    #[serde(flatten)]
    finding: Finding,
    reason: &'static str,
    mean_size: f64,
    peak_bytes: f64,
    short_lived_bytes: f64,
    freed_at_age: [f64; layout::AGES],
    /// Births of the live samples: bytes in each of forty parts of the program's life.
    births: Vec<f64>,
    threads: usize,
}

/// Parts of the program's life, for the births.
const PARTS: usize = 40;

impl Page {
    pub fn of(snapshot: &Snapshot, cleared: Option<&Clearing>) -> Page {
        let header = &snapshot.profile.header;
        let program = snapshot.program();
        let process = snapshot.process.as_ref();
        let mut symbols = Symbols::new(snapshot);
        let mut sites = sites(snapshot, &mut symbols);
        let skipped = finding::skipped(sites.iter().map(|site| &site.finding), &snapshot.naming);
        let rest: Vec<Site> = sites.split_off(sites.len().min(MOST_SITES));
        Page {
            name: format!(
                "{} ({})",
                program.rsplit('/').next().unwrap_or_default(),
                snapshot.pid()
            ),
            pid: snapshot.pid(),
            state: leaks::state(snapshot),
            command: process.map_or(String::new(), |p| p.command_line.join(" ")),
            version: snapshot.version(),
            options: snapshot.options(),
            system: process.map_or(String::new(), |p| p.system.clone()),
            page_size: header.page_size,
            processors: header.cpus,
            begun_unix: header.begun_unix_ns as f64 / 1e9,
            taken_unix: header.begun_unix_ns as f64 / 1e9 + snapshot.running_ns() as f64 / 1e9,
            seconds: snapshot.running_ns() as f64 / 1e9,
            interval: snapshot.interval(),
            samples: snapshot.samples.len(),
            marks: snapshot.profile.control.mark,
            nothing_because: snapshot.why_empty(),
            warnings: cleared
                .map(before_clearing)
                .into_iter()
                .chain(snapshot.warnings.iter().map(ToString::to_string))
                .chain(skipped)
                .chain(symbols.warnings().iter().cloned())
                .collect(),
            grows: trend::of_snapshot(snapshot).filter(Trend::grows),
            limit: Limit::tightest(snapshot),
            heap: heap(snapshot),
            timeline: timeline(snapshot),
            classes: classes(snapshot.rows()),
            more_sites: rest.len(),
            more_live: rest.iter().map(|site| site.finding.live_bytes).sum(),
            sites,
            program,
        }
    }
}

fn sites(snapshot: &Snapshot, symbols: &mut Symbols) -> Vec<Site> {
    let (suppressions, rules) = (Suppressions::default(), Rules::default());
    let found = finding::examine(snapshot, symbols, None, None, &suppressions, &rules);
    let begun = snapshot.profile.header.begun_ns;
    let life = snapshot.running_ns().max(1) as f64;
    let mut births: HashMap<u32, Vec<f64>> = HashMap::new();
    let mut threads: HashMap<u32, Vec<u32>> = HashMap::new();
    for sample in &snapshot.samples {
        let part = sample.born_ns.saturating_sub(begun) as f64 / life * PARTS as f64;
        let parts = births
            .entry(sample.site)
            .or_insert_with(|| vec![0.0; PARTS]);
        parts[(part as usize).min(PARTS - 1)] += sample.weight.bytes;
        threads.entry(sample.site).or_default().push(sample.thread);
    }
    found
        .into_iter()
        .filter_map(|finding| {
            let site = snapshot.site(finding.site)?;
            let mut threads = threads.remove(&finding.site).unwrap_or_default();
            threads.sort_unstable();
            threads.dedup();
            Some(Site {
                reason: reason(&finding),
                mean_size: site.allocated.mean_size(),
                peak_bytes: site.peak.bytes,
                short_lived_bytes: site.short_lived.bytes,
                freed_at_age: site.freed_at_age,
                births: births.remove(&finding.site).unwrap_or_default(),
                threads: threads.len(),
                finding,
            })
        })
        .collect()
}

fn heap(snapshot: &Snapshot) -> Option<Heap> {
    let f = snapshot.profile.statistics.as_deref()?;
    Some(Heap {
        resident: f.resident_bytes,
        mapped: f.mapped_bytes,
        threads: f.threads,
        age: snapshot.statistics_age_ns().unwrap_or(0) as f64 / 1e9,
        parts: vec![
            ("live", f.live_bytes, "blocks that the program holds"),
            ("huge", f.huge_bytes, "live blocks above 2 MiB"),
            (
                "free",
                f.free_bytes.saturating_sub(f.purged_in_slabs_bytes),
                "free blocks in slabs that are in use",
            ),
            (
                "cached",
                f.cached_bytes,
                "freed blocks cached for the next request",
            ),
            (
                "dirty",
                f.dirty_bytes,
                "free slots that wait to be returned to the OS",
            ),
            (
                "records",
                f.metadata_bytes + f.observer_bytes,
                "what the allocator and its observer need themselves",
            ),
        ],
    })
}

fn timeline(snapshot: &Snapshot) -> Vec<Point> {
    let begun = snapshot.profile.header.begun_ns;
    snapshot
        .profile
        .timeline
        .iter()
        .map(|point| Point {
            at: point.ns.saturating_sub(begun) as f64 / 1e9,
            resident: point.resident_bytes,
            live: point.live_bytes + point.huge_bytes,
            cached: point.cached_bytes,
            dirty: point.dirty_bytes,
            free: point.free_bytes,
        })
        .collect()
}

/// Slots for samples are rows of their own; for whom wonders where the memory is, they are of their size.
fn classes(rows: &[layout::Row]) -> Vec<Class> {
    let mut by_size: BTreeMap<u64, Class> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.slabs > 0 && row.size > 0) {
        let class = by_size.entry(row.size).or_default();
        class.size = row.size;
        class.slabs += row.slabs;
        class.live += row.live * row.size;
        class.cached += row.cached * row.size;
        class.free += row.free * row.size;
        for (sum, slabs) in class.occupancy.iter_mut().zip(row.occupancy) {
            *sum += slabs;
        }
    }
    by_size.into_values().collect()
}

#[cfg(test)]
mod tests {
    use profile_file::testing::ProfileBuilder;

    use super::*;

    #[test]
    fn that_all_of_it_grows_is_on_the_page() {
        let page = |each: u64| {
            let mut profile = ProfileBuilder::new(512 << 10);
            profile.site(&[1]);
            for second in 0..100 {
                profile.point(second * 1_000_000_000, 1 << 30, (1 << 20) + second * each);
            }
            serde_json::to_value(Page::of(&profile.snapshot(), None)).unwrap()
        };
        let rate = page(1 << 20)["grows"]["rate"].as_f64().unwrap();
        assert!((rate / f64::from(1 << 20) - 1.0).abs() < 0.05, "{rate}");
        assert!(page(0)["grows"].is_null());
    }
}
