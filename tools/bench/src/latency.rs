//! `freehold bench latency`: how long a single call of malloc or free takes, up to the longest.
//!
//! The programs of `build/bench-latency` are those of the suite, compiled so that they time each call of their measured
//! section (`bench/workloads/latency.h`). They are scheduled and recorded like all others; here is what they are called,
//! and how their figures are shown.

use std::fmt::Write;
use std::path::Path;

use crate::figures::Figures;
use crate::record::{Allocator, Origin, Record, Workload, label_with_version};
use crate::statistics::median;
use crate::table;
use crate::workloads::Found;

/// What the record of such a run says of itself.
pub const MODE: &str = "latency";

/// The aims: ours is the lowest at p99.99 in half of the rows, and never takes more than twice what the best takes.
const AIM_SHARE: f64 = 0.5;
const AIM_WORST: f64 = 2.0;

/// Name, program, arguments, and whether the short form has it. Up to ten million calls each. First those of W9, then the
/// classics (cache-scratch and cache-thrash measure writes, and have too few calls), then those that users complain about.
const WORKLOADS: [(&str, &str, &str, bool); 22] = [
    (
        "replace",
        "random_replace",
        "live=1000000 min=16 max=255 n=5000000",
        true,
    ),
    ("bursts", "bursts", "threads=2 batches=8000", true),
    (
        "larson",
        "larson",
        "threads=2 generations=25 rounds=100000",
        true,
    ),
    (
        "phases",
        "phases",
        "total=512m phases=5 min=16 max=1024 random=1",
        true,
    ),
    (
        "threadtest",
        "threadtest",
        "threads=2 blocks=30000 size=64 rounds=160",
        false,
    ),
    (
        "linux-scalability",
        "pairs",
        "threads=2 size=512 n=5000000",
        false,
    ),
    ("xmalloc", "xmalloc", "pairs=1 batches=40000", false),
    ("sh6-like", "lifetimes", "threads=1 rounds=5000", false),
    (
        "sh8-like",
        "lifetimes",
        "threads=2 rounds=2500 shared=1",
        false,
    ),
    (
        "mstress",
        "mstress",
        "threads=2 phases=120 load=20000",
        false,
    ),
    (
        "handover",
        "handover",
        "from=1 to=1 size=64 n=5000000",
        false,
    ),
    (
        "retire",
        "handover",
        "from=3 to=1 min=64 max=1024 queue=262144 hold=237500 n=3000000",
        true,
    ),
    ("burst", "spike", "total=1024m min=16 max=512 sleep=0", true),
    (
        "replace-4000",
        "random_replace",
        "live=200000 min=16 max=4000 n=2000000",
        false,
    ),
    ("ring-16KiB", "rings", "size=16k n=5000000", false),
    ("ring-128KiB", "rings", "size=128k n=1000000", false),
    ("ring-1MiB", "rings", "size=1m n=1000000", false),
    ("ring-16MiB", "rings", "size=16m n=200000", false),
    ("drift", "drift", "volume=96m phases=60", false),
    ("sparse", "sparse", "total=1024m then=512m alive=100", false),
    (
        "idle-threads",
        "idle_threads",
        "threads=1000 blocks=40",
        false,
    ),
    ("cold-start", "cold_start", "total=200000000", true),
];

const CALLS: [&str; 2] = ["malloc", "free"];
const SHOWN: [&str; 5] = ["p50", "p99", "p99.9", "p99.99", "max"];
const JUDGED: &str = "p99.99";
/// A cell without a figure: no such call was made.
const NONE: &str = "-";

pub fn find(root: &Path) -> anyhow::Result<Found> {
    let folder = root.join("build/bench-latency");
    let workload = |(name, program, args, quick): (&str, &str, &str, bool)| Workload {
        name: name.to_owned(),
        family: program.to_owned(),
        program: folder.join(program).to_string_lossy().into_owned(),
        args: args.split_whitespace().map(str::to_owned).collect(),
        quick,
        real: false,
        threads: None,
        setup: None,
        verify: None,
        places_library: false,
    };
    anyhow::ensure!(
        folder.is_dir(),
        "{} is not there; `make workloads` builds it",
        folder.display()
    );
    Ok(Found {
        workloads: WORKLOADS.map(workload).to_vec(),
        skipped: Vec::new(),
    })
}

/// One line of the table: a percentile of one call in one workload, under each allocator.
struct Line<'a> {
    workload: &'a str,
    call: &'static str,
    shown: &'static str,
    /// Nanoseconds, or the word for what went wrong.
    cells: Vec<Result<f64, &'static str>>,
}

fn lines<'a>(figures: &Figures<'a>) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    for workload in figures.measured() {
        for call in CALLS {
            for shown in SHOWN {
                let cell = |a: &Allocator| cell(figures, &workload.name, &a.name, call, shown);
                let cells: Vec<_> = figures.record.allocators.iter().map(cell).collect();
                // A process that exits without freeing has no times of free.
                if cells.iter().all(|cell| *cell == Err(NONE)) {
                    continue;
                }
                lines.push(Line {
                    workload: &workload.name,
                    call,
                    shown,
                    cells,
                });
            }
        }
    }
    lines
}

/// The median over the rounds. The longest call of a round is often the machine's doing, and in one round only.
fn cell(
    figures: &Figures,
    workload: &str,
    allocator: &str,
    call: &str,
    shown: &str,
) -> Result<f64, &'static str> {
    if let Some(outcome) = figures.failure(workload, allocator) {
        return Err(outcome.word());
    }
    let key = format!("{call}_{shown}_ns");
    let runs = figures.runs(workload, allocator).iter();
    let values: Vec<f64> = runs.filter_map(|r| r.figures.get(&key).copied()).collect();
    median(&values).ok_or(NONE)
}

/// How ours stands at p99.99: in how many rows it is the lowest, and the row where the best peer is furthest ahead.
struct Verdict {
    rows: usize,
    lowest: usize,
    /// Rows beyond what is aimed at.
    beyond: usize,
    worst: f64,
    worst_where: String,
}

fn judge(record: &Record, lines: &[Line]) -> Option<Verdict> {
    let ours = record
        .allocators
        .iter()
        .position(|a| a.origin == Origin::Ours)?;
    let is_peer =
        |a: &Allocator| matches!(a.origin, Origin::Peer | Origin::System | Origin::Package);
    let mut verdict = Verdict {
        rows: 0,
        lowest: 0,
        beyond: 0,
        worst: 0.0,
        worst_where: String::new(),
    };
    for line in lines.iter().filter(|line| line.shown == JUDGED) {
        let peers = record.allocators.iter().zip(&line.cells);
        let best = peers
            .filter(|(a, _)| is_peer(a))
            .filter_map(|(a, cell)| Some((a, cell.ok()?)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let (Ok(own), Some((peer, best))) = (line.cells[ours], best) else {
            continue;
        };
        verdict.rows += 1;
        verdict.lowest += usize::from(own <= best);
        // A call below the clock's own noise has no ratio worth the name.
        let ratio = own.max(1.0) / best.max(1.0);
        verdict.beyond += usize::from(ratio > AIM_WORST);
        if ratio > verdict.worst {
            verdict.worst = ratio;
            verdict.worst_where =
                format!("{} of {} against {}", line.call, line.workload, peer.label);
        }
    }
    (verdict.rows > 0).then_some(verdict)
}

fn verdict(record: &Record, lines: &[Line]) -> String {
    judge(record, lines).map_or_else(String::new, |v| {
        format!(
            "{JUDGED}: Freehold is the lowest in {} of {} rows (aim {:.0} %), and takes at most {:.2} times what the best peer takes (aim {AIM_WORST:.2}): {}. In {} rows it is beyond that aim.\n",
            v.lowest,
            v.rows,
            AIM_SHARE * 100.0,
            v.worst,
            v.worst_where,
            v.beyond
        )
    })
}

fn show(cell: Result<f64, &'static str>) -> String {
    match cell {
        Ok(ns) if ns < 100.0 => format!("{ns:.1}"),
        Ok(ns) if ns < 1e6 => format!("{ns:.0}"),
        Ok(ns) => format!("{:.1} ms", ns / 1e6),
        Err(word) => word.to_owned(),
    }
}

fn clock_cost(figures: &Figures) -> String {
    let runs = figures.record.runs.iter();
    let costs: Vec<f64> = runs
        .filter_map(|run| run.figures.get("clock_cost_ns").copied())
        .collect();
    median(&costs).map_or_else(String::new, |ns| {
        format!("; {ns:.0} ns for the clock are taken off")
    })
}

pub fn render(record: &Record) -> String {
    let figures = Figures::new(record);
    let lines = lines(&figures);
    let names: Vec<String> = record.allocators.iter().map(label_with_version).collect();
    let mut text = format!(
        "{}\nTime of a single call in ns, median of {} rounds{}\n",
        names.join(", "),
        record.settings.repeats,
        clock_cost(&figures)
    );
    let _ = write!(text, "{:<31}", "");
    for allocator in &record.allocators {
        let _ = write!(text, " {:>10}", table::column_name(&allocator.name));
    }
    text.push('\n');
    for line in &lines {
        let _ = write!(
            text,
            "{:<17} {:<6} {:<6}",
            line.workload, line.call, line.shown
        );
        for cell in &line.cells {
            let _ = write!(text, " {:>10}", show(*cell));
        }
        text.push('\n');
    }
    for skipped in &record.skipped {
        let _ = writeln!(text, "skipped {}: {}", skipped.name, skipped.reason);
    }
    text.push_str(&verdict(record, &lines));
    text
}

/// The same as Markdown, the lowest of each line in bold.
pub fn markdown(record: &Record) -> String {
    let figures = Figures::new(record);
    let lines = lines(&figures);
    let mut text = format!(
        "Time of a single call in ns, median of {} rounds{}.\n\n| workload | call | |",
        record.settings.repeats,
        clock_cost(&figures)
    );
    for allocator in &record.allocators {
        let _ = write!(text, " {} |", allocator.label);
    }
    let _ = writeln!(
        text,
        "\n|---|---|---|{}",
        "---|".repeat(record.allocators.len())
    );
    for line in &lines {
        let lowest = line
            .cells
            .iter()
            .filter_map(|c| c.ok())
            .min_by(f64::total_cmp);
        let _ = write!(
            text,
            "| {} | {} | {} |",
            line.workload, line.call, line.shown
        );
        for cell in &line.cells {
            let _ = if cell.ok() == lowest && lowest.is_some() {
                write!(text, " **{}** |", show(*cell))
            } else {
                write!(text, " {} |", show(*cell))
            };
        }
        text.push('\n');
    }
    text.push('\n');
    text.push_str(&verdict(record, &lines));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Outcome, example};

    fn timed(allocators: &[(&str, f64)]) -> Record {
        let times: Vec<(&str, &[f64])> = allocators
            .iter()
            .map(|(name, _)| (*name, &[1.0, 1.0, 1.0][..]))
            .collect();
        let mut record = example(&times);
        record.settings.repeats = 3;
        for run in &mut record.runs {
            let (_, ns) = allocators
                .iter()
                .find(|(name, _)| *name == run.allocator)
                .unwrap();
            // One round of three is disturbed; the median does not show it.
            let disturbed = if run.round == 1 { 1000.0 } else { 1.0 };
            for (call, factor) in [("malloc", 1.0), ("free", 0.5)] {
                for (i, shown) in SHOWN.iter().enumerate() {
                    let value = ns * factor * 10_f64.powi(i as i32) * disturbed;
                    run.figures.insert(format!("{call}_{shown}_ns"), value);
                }
            }
            run.figures.insert("clock_cost_ns".into(), 22.0);
        }
        record
    }

    #[test]
    fn every_line_has_a_figure_for_each_allocator() {
        let mut record = timed(&[
            ("freehold", 30.0),
            ("glibc", 12.0),
            ("jemalloc", 40.0),
            ("broken", 1.0),
        ]);
        record.runs.last_mut().unwrap().outcome = Outcome::Crash("signal: 11".into());
        insta::assert_snapshot!(render(&record));
        insta::assert_snapshot!(markdown(&record));
    }

    #[test]
    fn the_verdict_counts_rows_and_finds_the_worst() {
        let of = |ours: f64| {
            let record = timed(&[("freehold", ours), ("glibc", 12.0), ("jemalloc", 40.0)]);
            judge(&record, &lines(&Figures::new(&record))).unwrap()
        };
        let behind = of(30.0);
        assert_eq!((behind.rows, behind.lowest, behind.beyond), (2, 0, 2));
        assert!((behind.worst - 2.5).abs() < 1e-9, "{}", behind.worst);
        assert_eq!(behind.worst_where, "malloc of w against GLIBC");
        let ahead = of(6.0);
        assert_eq!((ahead.rows, ahead.lowest, ahead.beyond), (2, 2, 0));
        let without = timed(&[("glibc", 12.0)]);
        assert!(judge(&without, &lines(&Figures::new(&without))).is_none());
    }

    #[test]
    fn a_call_that_was_not_made_has_no_line() {
        let mut record = timed(&[("freehold", 30.0), ("glibc", 12.0)]);
        for run in &mut record.runs {
            run.figures.retain(|key, _| !key.starts_with("free_"));
        }
        let figures = Figures::new(&record);
        let lines = lines(&figures);
        assert_eq!(lines.len(), SHOWN.len());
        assert!(lines.iter().all(|line| line.call == "malloc"));
        assert_eq!(judge(&record, &lines).unwrap().rows, 1);
    }

    /// Every program is compiled with its timer, and no name is there twice.
    #[test]
    fn the_build_makes_each_program() {
        let list = include_str!("../../../bench/CMakeLists.txt");
        let timed = list
            .lines()
            .find_map(|line| line.strip_prefix("set(timed "));
        let timed: Vec<&str> = timed.unwrap().trim_end_matches(')').split(' ').collect();
        for (name, program, _, _) in WORKLOADS {
            assert!(timed.contains(&program), "{program}");
            assert_eq!(
                WORKLOADS.iter().filter(|w| w.0 == name).count(),
                1,
                "{name}"
            );
        }
    }

    #[test]
    fn units_follow_the_time() {
        assert_eq!(show(Ok(12.34)), "12.3");
        assert_eq!(show(Ok(12_345.6)), "12346");
        assert_eq!(show(Ok(57_569_947.0)), "57.6 ms");
        assert_eq!(show(Err("crash")), "crash");
    }
}
