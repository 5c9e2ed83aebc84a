//! The tables as Markdown, for the documentation: `freehold bench report RECORD.json --markdown`.
//!
//! Figures in a document that were typed by hand are wrong after a week; these are pasted from a record as they are.

use std::fmt::Write;

use crate::figures::{Figures, Metric};
use crate::record::{Record, label_with_version};
use crate::steering::{self, Standing};
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
    for metric in [Metric::Cpu, Metric::PeakRss] {
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
        "| | CPU | peak RSS | faster | equal | slower | failed |\n|---|---|---|---|---|---|---|\n",
    );
    let show = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| format!("{v:.2}"));
    for s in standings {
        // A commit for a version would be out of date with the commit that brings the document.
        let name = record
            .allocator(&s.allocator)
            .filter(|a| a.origin != crate::record::Origin::Ours);
        let name = name.map_or_else(|| s.label.clone(), label_with_version);
        let (cpu, rss) = (show(s.cpu), show(s.rss));
        let _ = writeln!(
            text,
            "| {name} | {cpu} | {rss} | {} | {} | {} | {} |",
            s.faster, s.equal, s.slower, s.failed
        );
    }
    text
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
