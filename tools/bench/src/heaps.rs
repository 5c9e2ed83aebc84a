//! `freehold bench heaps`: what it takes to make a place for blocks, to fill it, and to end it as a whole.
//!
//! `build/bench-heaps/heaps` has all forms (`bench/heaps/heaps.cc`). The rows `heap-…` are what each allocator itself calls
//! a heap or an arena; the others are places over plain malloc, or no place at all. They are scheduled and recorded like
//! all other workloads; here is what they are called, and how their figures are shown.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::figures::Figures;
use crate::record::{Allocator, Origin, Record, Skipped, Workload, label_with_version};
use crate::statistics::median;
use crate::table;
use crate::workloads::Found;

/// What the record of such a run says of itself.
pub const MODE: &str = "heaps";

/// Blocks of a place, the word for it in names, and how often one is made.
const SIZES: [(&str, &str, &str); 3] = [
    ("10", "10", "20000"),
    ("1000", "1000", "1000"),
    ("1000000", "1m", "3"),
];

/// What is in front of the number in a name, and the arguments.
const FORMS: [(&str, &str); 9] = [
    ("heap", "form=heap"),
    ("heap-quota", "form=heap quota=1"),
    ("heap-scope", "form=heap scope=1"),
    ("heap-quota-scope", "form=heap quota=1 scope=1"),
    ("private", "form=private"),
    ("frame", "form=frame"),
    ("apr", "form=apr"),
    ("monotonic", "form=monotonic"),
    ("single", "form=single"),
];

/// The figures of a run, and what they are called. A document has the first and the last.
const SHOWN: [(&str, &str); 4] = [
    ("ns_per_op", "whole"),
    ("begin_ns", "make"),
    ("fill_ns", "fill"),
    ("end_ns", "end"),
];

/// The aims: a heap with ten blocks takes half of what mimalloc's takes, and ending 10^6 blocks a twentieth of freeing them.
const AIM_SMALL: f64 = 0.5;
const AIM_END: f64 = 0.05;

/// A cell without a figure: there is no such place.
const NONE: &str = "-";

pub fn find(root: &Path) -> anyhow::Result<Found> {
    let program = root.join("build/bench-heaps/heaps");
    ensure!(
        program.is_file(),
        "{} is not there; `make workloads` builds it",
        program.display()
    );
    let mut found = Found {
        workloads: Vec::new(),
        skipped: Vec::new(),
    };
    let missing = missing_apr(&program)?;
    for (blocks, word, rounds) in SIZES {
        for (form, args) in FORMS {
            let name = format!("{form}-{word}");
            if let (Some(reason), "apr") = (&missing, form) {
                found.skipped.push(Skipped {
                    name,
                    reason: reason.clone(),
                });
                continue;
            }
            let numbers = [format!("blocks={blocks}"), format!("rounds={rounds}")];
            let args = args.split(' ').map(str::to_owned).chain(numbers);
            found.workloads.push(Workload {
                name,
                family: form.to_owned(),
                program: program.to_string_lossy().into_owned(),
                args: args.collect(),
                quick: true,
                real: false,
                threads: None,
                setup: None,
                verify: None,
                places_library: false,
            });
        }
    }
    Ok(found)
}

/// Why there are no APR pools here, as the program says it. None: there are.
fn missing_apr(program: &Path) -> anyhow::Result<Option<String>> {
    let out = Command::new(program)
        .args(["form=apr", "blocks=1", "rounds=1"])
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(
        out.status.success(),
        "{} failed: {}",
        program.display(),
        String::from_utf8_lossy(&out.stderr).trim()
    );
    let is_absent = String::from_utf8_lossy(&out.stdout).contains("absent 1");
    let said = String::from_utf8_lossy(&out.stderr);
    let why = said.trim().trim_start_matches("heaps: ").to_owned();
    Ok(is_absent.then_some(why))
}

type Cell = Result<f64, &'static str>;

/// One line of the table: a step of one form, under each allocator. In nanoseconds, or the word for what went wrong.
struct Line<'a> {
    workload: &'a str,
    shown: &'static str,
    cells: Vec<Cell>,
}

fn lines<'a>(figures: &Figures<'a>) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    for workload in figures.measured() {
        for (key, shown) in SHOWN {
            let cell = |a: &Allocator| cell(figures, &workload.name, &a.name, key);
            let cells: Vec<_> = figures.record.allocators.iter().map(cell).collect();
            if cells.iter().any(|cell| *cell != Err(NONE)) {
                lines.push(Line {
                    workload: &workload.name,
                    shown,
                    cells,
                });
            }
        }
    }
    lines
}

/// The median over the rounds.
fn cell(figures: &Figures, workload: &str, allocator: &str, key: &str) -> Cell {
    if let Some(outcome) = figures.failure(workload, allocator) {
        return Err(outcome.word());
    }
    let runs = figures.runs(workload, allocator).iter();
    let values: Vec<f64> = runs.filter_map(|r| r.figures.get(key).copied()).collect();
    median(&values).ok_or(NONE)
}

/// How our heaps stand: to the best heap of a peer for each number of blocks, and their end to freeing one by one.
fn verdict(record: &Record, lines: &[Line]) -> String {
    let ours = record
        .allocators
        .iter()
        .position(|a| a.origin == Origin::Ours);
    let Some(ours) = ours else {
        return String::new();
    };
    let line = |name: &str, shown: &str| {
        lines
            .iter()
            .find(|line| line.workload == name && line.shown == shown)
    };
    let own = |name: &str, shown: &str| line(name, shown)?.cells[ours].ok();
    let mut text = String::new();
    for (_, word, _) in SIZES {
        let name = format!("heap-{word}");
        let Some(row) = line(&name, "whole") else {
            continue;
        };
        let peers = record.allocators.iter().zip(&row.cells);
        let best = peers
            .filter(|(a, _)| matches!(a.origin, Origin::Peer | Origin::Package))
            .filter_map(|(a, cell)| Some((a, cell.ok()?)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        if let (Ok(own), Some((peer, best))) = (row.cells[ours], best) {
            let aim = if word == "10" {
                format!(" (aim {AIM_SMALL:.2} of mimalloc's)")
            } else {
                String::new()
            };
            let _ = writeln!(
                text,
                "{name}: Freehold takes {:.2} times what the best peer takes, {}{aim}.",
                own / best,
                peer.label
            );
        }
    }
    if let (Some(end), Some(freeing)) = (own("heap-1m", "end"), own("single-1m", "end")) {
        let _ = writeln!(
            text,
            "Ending a heap of 10^6 blocks takes {:.3} of freeing them one by one (aim {AIM_END:.3}).",
            end / freeing
        );
    }
    text
}

fn show(cell: Cell) -> String {
    match cell {
        Ok(ns) if ns < 1e4 => format!("{ns:.0}"),
        Ok(ns) if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        Ok(ns) => format!("{:.1} ms", ns / 1e6),
        Err(word) => word.to_owned(),
    }
}

fn title(record: &Record) -> String {
    format!(
        "Time to make, fill and end a place for blocks of 16 to 128 bytes, in ns, median of {} rounds",
        record.settings.repeats
    )
}

pub fn render(record: &Record) -> String {
    let figures = Figures::new(record);
    let lines = lines(&figures);
    let names: Vec<String> = record.allocators.iter().map(label_with_version).collect();
    let mut text = format!("{}\n{}\n{:<27}", names.join(", "), title(record), "");
    for allocator in &record.allocators {
        let _ = write!(text, " {:>10}", table::column_name(&allocator.name));
    }
    text.push('\n');
    for line in &lines {
        let _ = write!(text, "{:<21} {:<5}", line.workload, line.shown);
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

/// The same as Markdown, without the steps between, and the lowest of each line in bold.
pub fn markdown(record: &Record) -> String {
    let figures = Figures::new(record);
    let lines = lines(&figures);
    let mut text = format!("{}.\n\n| place | |", title(record));
    for allocator in &record.allocators {
        let _ = write!(text, " {} |", allocator.label);
    }
    let _ = writeln!(
        text,
        "\n|---|---|{}",
        "---|".repeat(record.allocators.len())
    );
    let is_kept = |line: &&Line| matches!(line.shown, "whole" | "end");
    for line in lines.iter().filter(is_kept) {
        let good = line.cells.iter().filter_map(|c| c.ok());
        let lowest = good.min_by(f64::total_cmp);
        let _ = write!(text, "| {} | {} |", line.workload, line.shown);
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
    use crate::record::{Outcome, Run, example};

    /// Each row of two forms and two sizes, with figures that are the allocator's factor.
    fn timed(allocators: &[(&str, f64)]) -> Record {
        let times: Vec<(&str, &[f64])> = allocators
            .iter()
            .map(|(name, _)| (*name, &[1.0, 1.0, 1.0][..]))
            .collect();
        let mut record = example(&times);
        record.settings.repeats = 3;
        let (runs, workload) = (
            std::mem::take(&mut record.runs),
            record.workloads.pop().unwrap(),
        );
        for (name, base) in [
            ("heap-10", 500.0),
            ("heap-1m", 2e7),
            ("single-1m", 9e7),
            ("heap-quota-10", 600.0),
        ] {
            record.workloads.push(Workload {
                name: name.into(),
                ..workload.clone()
            });
            for run in &runs {
                let factor = allocators.iter().find(|a| a.0 == run.allocator).unwrap().1;
                // The system has no heaps, and nobody else has limits.
                let is_absent = (run.allocator == "glibc" && name.starts_with("heap"))
                    || (run.allocator != "freehold" && name.contains("quota"));
                // One round of three is disturbed; the median does not show it.
                let disturbed = if run.round == 1 { 1000.0 } else { 1.0 };
                let mut run = Run {
                    workload: name.into(),
                    ..run.clone()
                };
                let figure = |share: f64| base * factor * share * disturbed;
                if is_absent {
                    run.figures.insert("absent".into(), 1.0);
                } else {
                    for (i, (key, _)) in SHOWN.iter().enumerate() {
                        run.figures
                            .insert((*key).into(), figure(1.0 / 4_f64.powi(i as i32)));
                    }
                }
                record.runs.push(run);
            }
        }
        for allocator in &mut record.allocators {
            if allocator.name == "glibc" {
                allocator.origin = Origin::System;
            }
        }
        record
    }

    #[test]
    fn every_form_has_its_steps_and_what_is_absent_is_a_dash() {
        let mut record = timed(&[
            ("freehold", 1.0),
            ("glibc", 0.5),
            ("mimalloc", 3.0),
            ("broken", 5.0),
        ]);
        record.runs.last_mut().unwrap().outcome = Outcome::Crash("signal: 11".into());
        record.skipped.push(Skipped {
            name: "apr-10".into(),
            reason: "libapr-1.so.0 is not installed".into(),
        });
        insta::assert_snapshot!(render(&record));
        insta::assert_snapshot!(markdown(&record));
    }

    #[test]
    fn the_verdict_is_of_heaps_and_of_peers_alone() {
        let record = timed(&[("freehold", 1.0), ("glibc", 0.1), ("mimalloc", 4.0)]);
        let text = verdict(&record, &lines(&Figures::new(&record)));
        assert!(
            text.contains("heap-10: Freehold takes 0.25 times"),
            "{text}"
        );
        assert!(text.contains("MIMALLOC (aim 0.50 of mimalloc's)"), "{text}");
        assert!(text.contains("takes 0.222 of freeing"), "{text}");
        let without = timed(&[("glibc", 1.0)]);
        assert_eq!(verdict(&without, &lines(&Figures::new(&without))), "");
    }

    #[test]
    fn units_follow_the_time() {
        assert_eq!(show(Ok(812.4)), "812");
        assert_eq!(show(Ok(12_345.6)), "12.3 us");
        assert_eq!(show(Ok(57_569_947.0)), "57.6 ms");
        assert_eq!(show(Err(NONE)), "-");
    }
}
