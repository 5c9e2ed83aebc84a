//! The heaps of a program (`fh_heap_new`), as `explain --heaps`, `top` and `metrics` show them.

pub mod families;

use profile_file::heaps::{Figures, Heap, Heaps};
use serde::Serialize;

use crate::wording::{bytes, count, plain_count, plural};

/// Heaps that a table for a person shows; the others are summed up.
pub const SHOWN: usize = 100;

/// From this width on a table has all columns.
const WIDE: usize = 100;

/// A heap, as JSON has it.
#[derive(Serialize)]
pub struct HeapData<'a> {
    name: &'a str,
    /// The names from the outermost heap to this one.
    path: String,
    address: String,
    parent: Option<String>,
    depth: usize,
    #[serde(flatten)]
    own: Figures,
    /// What the program asked for, by samples; none: they cannot tell.
    requested_bytes: Option<f64>,
    requested_error_bytes: Option<f64>,
    with_below: Figures,
    taken_bytes: u64,
    peak_bytes: u64,
    soft_limit_bytes: Option<u64>,
    hard_limit_bytes: Option<u64>,
    refusals: u64,
}

fn limit(bytes: u64) -> Option<u64> {
    (bytes != 0).then_some(bytes)
}

pub fn data(heaps: &Heaps) -> Vec<HeapData<'_>> {
    let address = |heap: &Heap| format!("{:#x}", heap.address);
    let heap_data = |(at, heap)| {
        let heap: &Heap = heap;
        HeapData {
            name: &heap.name,
            path: heaps.path(at),
            address: address(heap),
            parent: heap.parent.map(|parent| address(&heaps.list[parent])),
            depth: heap.depth,
            own: heap.own,
            requested_bytes: heap.requested.map(|amount| amount.bytes),
            requested_error_bytes: heap.requested.map(|amount| amount.error()),
            with_below: heap.whole,
            taken_bytes: heap.taken,
            peak_bytes: heap.peak,
            soft_limit_bytes: limit(heap.soft_limit),
            hard_limit_bytes: limit(heap.hard_limit),
            refusals: heap.refusals,
        }
    };
    heaps.list.iter().enumerate().map(heap_data).collect()
}

/// One line: how many there are, and what they have.
pub fn summary(heaps: &Heaps) -> String {
    let total = heaps.total();
    let mut text = format!(
        "{}: {} resident, {} live in {}",
        plural(heaps.list.len(), "heap", "heaps"),
        bytes(total.resident as f64),
        bytes(total.live as f64),
        plural(total.blocks as usize, "block", "blocks"),
    );
    if heaps.left_out != 0 {
        text += &format!("; {} more are not among them", plain_count(heaps.left_out));
    }
    text
}

/// What the columns mean.
pub const LEGEND: &str = "RESIDENT, LIVE and BLOCKS are of a heap alone, and so is REQUESTED: what the program asked for, by samples (~: \
     an estimate, ?: they cannot tell).\nTAKEN is what counts for limits, and PEAK the most that was: with all heaps below it.";

/// The headings of [`lines`].
pub fn headings(width: usize) -> String {
    let more = if width >= WIDE {
        format!("{:>12}{:>11}", "REQUESTED", "TAKEN")
    } else {
        String::new()
    };
    format!(
        "{:>10}{:>11}{more}{:>11}{:>11}{:>11}{:>8}  HEAP",
        "RESIDENT", "LIVE", "PEAK", "SOFT", "HARD", "BLOCKS"
    )
}

fn requested(heap: &Heap) -> String {
    match heap.requested {
        None => "?".to_owned(),
        // A few samples may say more than the blocks have.
        Some(amount) if amount.error() > 0.0 => {
            format!("~{}", bytes(amount.bytes.min(heap.own.live as f64)))
        }
        Some(amount) => bytes(amount.bytes),
    }
}

fn line(heap: &Heap, width: usize) -> String {
    let amount = |value: u64| bytes(value as f64);
    let limited = |value: u64| {
        if value == 0 {
            "–".to_owned()
        } else {
            amount(value)
        }
    };
    let more = if width >= WIDE {
        format!("{:>12}{:>11}", requested(heap), amount(heap.taken))
    } else {
        String::new()
    };
    let start = format!(
        "{:>10}{:>11}{more}{:>11}{:>11}{:>11}{:>8}  {}",
        amount(heap.own.resident),
        amount(heap.own.live),
        amount(heap.peak),
        limited(heap.soft_limit),
        limited(heap.hard_limit),
        count(heap.own.blocks as f64),
        "  ".repeat(heap.depth.min(20)),
    );
    // A name is the program's: it may have anything in it, and stays on one line.
    let name: String = heap
        .shown_name()
        .chars()
        .map(|letter| if letter.is_control() { '�' } else { letter })
        .collect();
    start + &name
}

/// The tree, a line for each heap; what there is no room for is summed up in the last one.
pub fn lines(heaps: &Heaps, width: usize, most: usize) -> Vec<String> {
    let whole = heaps.list.len();
    let shown = if whole > most {
        most.saturating_sub(1)
    } else {
        whole
    };
    let mut lines: Vec<String> = heaps.list[..shown]
        .iter()
        .map(|heap| line(heap, width))
        .collect();
    if shown < whole {
        let rest = heaps.list[shown..]
            .iter()
            .fold(Figures::default(), |sum, heap| sum + heap.own);
        lines.push(format!(
            "{:>10}{:>11}  in {} more, with {}",
            bytes(rest.resident as f64),
            bytes(rest.live as f64),
            plural(whole - shown, "heap", "heaps"),
            plural(rest.blocks as usize, "block", "blocks"),
        ));
    }
    lines
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use profile_file::Amount;

    /// A tenant with two queries, and a heap without a name.
    pub fn tree() -> Heaps {
        let heap = |address, parent_address, name: &str, resident: u64| Heap {
            address,
            parent_address,
            name: name.to_owned(),
            own: Figures {
                resident,
                live: resident - 4096,
                blocks: resident / 512,
            },
            taken: resident + 65536,
            peak: resident + 131_072,
            ..Heap::default()
        };
        let mut found = vec![
            heap(0x10000, 0, "tenant", 1 << 20),
            heap(0x20000, 0x10000, "query", 64 << 10),
            heap(0x30000, 0x10000, "query", 8 << 10),
            heap(0x40000, 0, "", 12 << 10),
        ];
        found[0].soft_limit = 48 << 20;
        found[0].hard_limit = 64 << 20;
        Heaps::of(found, 0)
    }

    #[test]
    fn the_tree_is_shown_in_order() {
        let text = [vec![summary(&tree()), headings(80)], lines(&tree(), 80, 10)].concat();
        insta::assert_snapshot!(text.join("\n"), @r"
        4 heaps: 1.1 MiB resident, 1.1 MiB live in 2,216 blocks
          RESIDENT       LIVE       PEAK       SOFT       HARD  BLOCKS  HEAP
           1.0 MiB 1020.0 KiB    1.1 MiB   48.0 MiB   64.0 MiB   2,048  tenant
          64.0 KiB   60.0 KiB  192.0 KiB          –          –     128    query
           8,192 B    4,096 B  136.0 KiB          –          –      16    query
          12.0 KiB    8,192 B  140.0 KiB          –          –      24  (unnamed)
        ");
    }

    #[test]
    fn what_there_is_no_room_for_is_summed_up() {
        let shown = lines(&tree(), 110, 2);
        insta::assert_snapshot!(shown.join("\n"), @r"
         1.0 MiB 1020.0 KiB           ?    1.1 MiB    1.1 MiB   48.0 MiB   64.0 MiB   2,048  tenant
        84.0 KiB   72.0 KiB  in 3 heaps more, with 168 blocks
        ");
    }

    #[test]
    fn what_was_asked_for_is_an_estimate_exact_or_unknown() {
        let mut heap = tree().list[0].clone();
        assert_eq!(requested(&heap), "?");
        let mut amount = Amount {
            bytes: 2048.0,
            ..Amount::default()
        };
        heap.requested = Some(amount);
        assert_eq!(requested(&heap), "2,048 B");
        amount.variance = 100.0;
        heap.requested = Some(amount);
        assert_eq!(requested(&heap), "~2,048 B");
        heap.own.live = 2000;
        assert_eq!(requested(&heap), "~2,000 B");
    }

    #[test]
    fn a_name_stays_on_its_line() {
        let mut heaps = tree();
        heaps.list[0].name = "two\nlines\u{1b}[2J".to_owned();
        assert!(lines(&heaps, 80, 10)[0].ends_with("two�lines�[2J"));
    }

    #[test]
    fn json_has_every_figure_and_the_parent() {
        let text = serde_json::to_value(data(&tree())).unwrap();
        assert_eq!(text[1]["path"], "tenant/query");
        assert_eq!(text[1]["parent"], "0x10000");
        assert_eq!(text[0]["hard_limit_bytes"], 64 << 20);
        assert_eq!(text[1]["hard_limit_bytes"], serde_json::Value::Null);
        assert_eq!(
            text[0]["with_below"]["resident_bytes"],
            (1 << 20) + (72 << 10)
        );
        assert_eq!(text[0]["requested_bytes"], serde_json::Value::Null);
        assert_eq!(text[3]["name"], "");
        assert_eq!(text[3]["live_bytes"], 8 << 10);
    }
}
