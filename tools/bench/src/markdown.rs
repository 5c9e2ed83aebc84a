//! The tables as Markdown, for the documentation: `freehold bench report RECORD.json --markdown`.
//!
//! Figures in a document that were typed by hand are wrong after a week; these are pasted from a record as they are.

use std::fmt::Write;

use crate::figures::{FAST, Figures, Metric, WEAK};
use crate::record::{Record, label_with_version};
use crate::steering::{self, Against, HEAVY, Mean, Row, Standing, Steering};
use crate::table;

pub fn render(record: &Record) -> String {
    let figures = Figures::new(record);
    let steering = steering::steer(&figures);
    let machine = &record.machine;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}, {} cores{}, kernel {}, {}, huge pages: {}; {} workloads, {:.0} s.\n",
        machine.processor,
        machine.cores,
        if machine.virtual_machine {
            ", virtual machine"
        } else {
            ""
        },
        machine.kernel,
        machine.system,
        machine.transparent_huge_pages,
        record.workloads.len(),
        record.seconds
    );
    let _ = writeln!(
        text,
        "Over all that was measured, geometric means against {} = 1.00:\n",
        steering.reference
    );
    text.push_str(&standings(record, &steering.standings));
    text.push_str(&held_out(steering.ours.as_ref()));
    text.push_str(&weak_rows(&figures, &steering.reference));
    text.push_str(&beside_fast_peers(&steering));
    if !steering.losses.is_empty() {
        text.push_str(
            "\nWhere Freehold needs more CPU time than the best peer of that workload:\n\n",
        );
        text.push_str("| workload | ratio | best peer |\n|---|---|---|\n");
        for loss in &steering.losses {
            let _ = writeln!(
                text,
                "| {} | {:.2} | {} |",
                loss.workload, loss.ratio.value, loss.peer
            );
        }
    }
    text.push_str(&against_the_best(&steering.rows));
    for metric in [Metric::Cpu, Metric::PeakRss, Metric::Faults] {
        let _ = writeln!(
            text,
            "\n{} for each workload, ratio to {}:\n",
            metric.title(),
            steering.reference
        );
        text.push_str(&metric_table(&figures, metric));
    }
    text
}

fn standings(record: &Record, standings: &[Standing]) -> String {
    let mut text = String::from(
        "| | CPU | peak RSS | page faults | CPU, best peer = 1 | RSS, best peer = 1 | faster | equal | slower | failed |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    let show = |mean: Mean| {
        mean.value
            .map_or_else(|| "–".to_owned(), |v| format!("{v:.2}"))
    };
    for s in standings {
        // A commit for a version would be out of date with the commit that brings the document.
        let name = record
            .allocator(&s.allocator)
            .filter(|a| a.origin != crate::record::Origin::Ours);
        let name = name.map_or_else(|| s.label.clone(), label_with_version);
        let means = [s.cpu, s.rss, s.faults, s.best_cpu, s.best_rss].map(show);
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} |",
            means.join(" | "),
            s.faster,
            s.equal,
            s.slower,
            s.failed
        );
    }
    text
}

/// What is left of our ratio to the best peer when that peer is not the luckiest of the same rounds.
fn held_out(ours: Option<&Standing>) -> String {
    match ours {
        Some(Standing {
            held_out_cpu:
                Mean {
                    value: Some(cpu),
                    rows,
                },
            held_out_rss: Mean {
                value: Some(rss), ..
            },
            ..
        }) => format!(
            "\nThe peer of each round chosen by other rounds: Freehold has {cpu:.2} of its CPU time, {rss:.2} of its memory ({rows} workloads).\n"
        ),
        _ => String::new(),
    }
}

/// Memory beside peers that do not pay for theirs with twice the time.
fn beside_fast_peers(steering: &Steering) -> String {
    let mean = steering.ours.as_ref().and_then(|ours| ours.fast_rss.value);
    let Some(mean) = mean else {
        return String::new();
    };
    let mut text = format!(
        "\nOf peers that take at most {FAST:.0} times the CPU time of the fastest, Freehold has {mean:.2} of the leanest one's memory"
    );
    for (i, row) in steering.heavy.iter().enumerate() {
        let _ = write!(
            text,
            "{} {} {:.2} ({})",
            if i == 0 {
                format!("; above {HEAVY}:")
            } else {
                ",".to_owned()
            },
            row.workload,
            row.ratio.value,
            row.peer
        );
    }
    text + ".\n"
}

/// Names the rows that the reference's weakness decides; nothing when there is none.
fn weak_rows(figures: &Figures, reference: &str) -> String {
    let weak = |metric| -> Vec<&str> {
        let names = figures.measured().map(|w| w.name.as_str());
        names
            .filter(|name| figures.reference_is_weak(name, metric))
            .collect()
    };
    let mut text = String::new();
    for metric in [Metric::Cpu, Metric::PeakRss] {
        let names = weak(metric);
        if !names.is_empty() {
            let _ = writeln!(
                text,
                "\nIn {}, {reference} takes {WEAK:.0} times the median of its peers or more in: {}.",
                metric.title(),
                names.join(", ")
            );
        }
    }
    text
}

/// Each row beside the best peers of that row, with what the time was bought with.
fn against_the_best(rows: &[Row]) -> String {
    let mut text = String::from(
        "\nFreehold beside the best peer of each workload:\n\n\
         | workload | CPU | best peer | peak RSS | best peer | page faults | fewest |\n|---|---|---|---|---|---|---|\n",
    );
    let show = |against: &Option<Against>| match against {
        Some(a) => format!("{} | {}", table::ratio_cell(a.ratio), a.peer),
        None => "– | –".to_owned(),
    };
    for row in rows {
        let faults = row.faults.map_or_else(
            || "– | –".to_owned(),
            |(ours, fewest)| format!("{} | {}", table::count(ours), table::count(fewest)),
        );
        let _ = writeln!(
            text,
            "| {} | {} | {} | {faults} |",
            row.workload,
            show(&row.cpu),
            show(&row.rss)
        );
    }
    if rows.is_empty() { String::new() } else { text }
}

fn metric_table(figures: &Figures, metric: Metric) -> String {
    let record = figures.record;
    let mut text = String::from("| workload |");
    for allocator in &record.allocators {
        let _ = write!(text, " {} |", allocator.label);
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(record.allocators.len()));
    for workload in figures.measured() {
        let ranks = figures.ranks(&workload.name, metric);
        let _ = write!(text, "| {} |", table::row_name(workload, record));
        for allocator in &record.allocators {
            let cell = table::cell(figures, &workload.name, &allocator.name, metric);
            let first = ranks.get(allocator.name.as_str()) == Some(&1) && !cell.ends_with('?');
            let _ = if first {
                write!(text, " **{cell}** |")
            } else {
                write!(text, " {cell} |")
            };
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::example;

    #[test]
    fn tables_are_markdown() {
        let record = example(&[
            ("mimalloc3", &[1.0, 1.01, 0.99, 1.0, 1.0]),
            ("freehold", &[1.5, 1.51, 1.5, 1.49, 1.5]),
            ("jemalloc", &[1.02, 0.99, 1.0, 1.01, 0.98]),
        ]);
        insta::assert_snapshot!(render(&record));
    }
}
