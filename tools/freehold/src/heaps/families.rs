//! Heaps as families of metrics. A heap comes and goes, and its address says nothing to a board; so those of one path of names
//! are one series.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use profile_file::Heaps;
use profile_file::heaps::Figures;

/// Paths that have series of their own; the heaps of all others are in one more.
const PATHS_MOST: usize = 1000;
const OTHERS: &str = "(others)";

/// What the heaps of one path have together.
#[derive(Default)]
struct Series {
    heaps: u64,
    own: Figures,
    /// With all heaps below them.
    whole: Figures,
    /// None: it is not known of one of them.
    requested: Option<f64>,
    taken: u64,
    peak: u64,
    soft_limit: u64,
    hard_limit: u64,
    refusals: u64,
}

/// The least limit that there is; 0: none.
fn least(one: u64, other: u64) -> u64 {
    match (one, other) {
        (0, limit) | (limit, 0) => limit,
        (one, other) => one.min(other),
    }
}

fn series(heaps: &Heaps) -> BTreeMap<String, Series> {
    let mut found: BTreeMap<String, Series> = BTreeMap::new();
    for (at, heap) in heaps.list.iter().enumerate() {
        let mut path = heaps.path(at);
        if found.len() >= PATHS_MOST && !found.contains_key(&path) {
            path = OTHERS.to_owned();
        }
        let it = found.entry(path).or_default();
        let sum = if it.heaps == 0 {
            Some(0.0)
        } else {
            it.requested
        };
        it.requested = sum
            .zip(heap.requested)
            .map(|(sum, amount)| sum + amount.bytes);
        it.heaps += 1;
        it.own += heap.own;
        it.whole += heap.whole;
        it.taken = it.taken.saturating_add(heap.taken);
        it.peak = it.peak.max(heap.peak);
        it.soft_limit = least(it.soft_limit, heap.soft_limit);
        it.hard_limit = least(it.hard_limit, heap.hard_limit);
        it.refusals = it.refusals.saturating_add(heap.refusals);
    }
    found
}

struct Family {
    name: &'static str,
    unit: Option<&'static str>,
    help: &'static str,
    value: fn(&Series) -> Option<u64>,
}

const fn gauge(
    name: &'static str,
    unit: Option<&'static str>,
    help: &'static str,
    value: fn(&Series) -> Option<u64>,
) -> Family {
    Family {
        name,
        unit,
        help,
        value,
    }
}

const BYTES: Option<&str> = Some("bytes");

const FAMILIES: [Family; 13] = [
    gauge(
        "heaps",
        None,
        "Heaps of the program of that path of names.",
        |s| Some(s.heaps),
    ),
    gauge(
        "heap_resident_bytes",
        BYTES,
        "Memory behind these heaps, without those below them.",
        |s| Some(s.own.resident),
    ),
    gauge(
        "heap_live_bytes",
        BYTES,
        "Live blocks of these heaps, without those below them.",
        |s| Some(s.own.live),
    ),
    gauge("heap_blocks", None, "The number of these blocks.", |s| {
        Some(s.own.blocks)
    }),
    gauge(
        "heap_subtree_resident_bytes",
        BYTES,
        "Memory behind these heaps and all heaps below them.",
        |s| Some(s.whole.resident),
    ),
    gauge(
        "heap_subtree_live_bytes",
        BYTES,
        "Live blocks of these heaps and of all heaps below them.",
        |s| Some(s.whole.live),
    ),
    gauge(
        "heap_subtree_blocks",
        None,
        "The number of these blocks.",
        |s| Some(s.whole.blocks),
    ),
    gauge(
        "heap_requested_bytes",
        BYTES,
        "What the program asked for, of these live blocks, by their samples; missing where they cannot tell.",
        |s| s.requested.map(|bytes| bytes.round() as u64),
    ),
    gauge(
        "heap_taken_bytes",
        BYTES,
        "What counts for the limits of these heaps, with those below them.",
        |s| Some(s.taken),
    ),
    gauge(
        "heap_peak_bytes",
        BYTES,
        "The most that one of these heaps has ever taken.",
        |s| Some(s.peak),
    ),
    gauge(
        "heap_limit_soft_bytes",
        BYTES,
        "The least soft limit of these heaps; 0 is none.",
        |s| Some(s.soft_limit),
    ),
    gauge(
        "heap_limit_hard_bytes",
        BYTES,
        "The least hard limit of these heaps; 0 is none.",
        |s| Some(s.hard_limit),
    ),
    gauge(
        "heap_refusals",
        None,
        "Times that a hard limit of these heaps, as long as they live, was in the way.",
        |s| Some(s.refusals),
    ),
];

/// Writes all families; none without a heap.
pub fn write(out: &mut String, heaps: &Heaps, escape: fn(&str) -> String) {
    let series = series(heaps);
    if series.is_empty() {
        return;
    }
    for family in &FAMILIES {
        let _ = write!(
            out,
            "# HELP freehold_{0} {1}\n# TYPE freehold_{0} gauge\n",
            family.name, family.help
        );
        if let Some(unit) = family.unit {
            let _ = writeln!(out, "# UNIT freehold_{} {unit}", family.name);
        }
        for (path, it) in &series {
            let Some(value) = (family.value)(it) else {
                continue;
            };
            let path = escape(path);
            let _ = writeln!(out, "freehold_{}{{heap=\"{path}\"}} {value}", family.name);
        }
    }
    if heaps.left_out != 0 {
        let _ = write!(
            out,
            "# HELP freehold_heaps_left_out Heaps that are in no series, for want of room.\n\
             # TYPE freehold_heaps_left_out gauge\nfreehold_heaps_left_out {}\n",
            heaps.left_out
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::*;
    use profile_file::heaps::Heap;

    #[test]
    fn heaps_of_one_path_are_one_series() {
        let found = series(&tree());
        let query = &found["tenant/query"];
        assert_eq!((query.heaps, query.own.resident), (2, 72 << 10));
        assert_eq!(query.taken, (72 << 10) + 2 * 65536);
        assert_eq!(query.peak, (64 << 10) + 131_072);
        assert_eq!(found["tenant"].hard_limit, 64 << 20);
        assert_eq!(found["(unnamed)"].heaps, 1);
        let tenant = &found["tenant"];
        assert_eq!(tenant.whole, tenant.own + query.own);
        assert_eq!(query.whole, query.own);
    }

    #[test]
    fn paths_are_bounded_and_no_heap_is_lost() {
        let heap = |address| Heap {
            address,
            name: address.to_string(),
            own: Figures {
                resident: 1,
                live: 1,
                blocks: 1,
            },
            ..Heap::default()
        };
        let found = series(&Heaps::of((1..=1500).map(heap).collect(), 0));
        assert_eq!(found.len(), PATHS_MOST + 1);
        assert_eq!(found[OTHERS].heaps, 500);
        assert_eq!(found.values().map(|it| it.own.blocks).sum::<u64>(), 1500);
    }
}
