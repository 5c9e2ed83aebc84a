//! The tables in the terminal: what the machine is, a table for each metric, failures, and the steering figures.

use std::fmt::Write;

use crate::figures::{Figures, Metric, Summary, WEAK};
use crate::record::{Record, Workload, label_with_version};
use crate::statistics::{Ratio, Verdict};
use crate::steering;

const NAME_WIDTH: usize = 26;

pub fn render(record: &Record) -> String {
    let figures = Figures::new(record);
    let mut text = heading(record);
    // Wall time is on the page; here it would be a third table that says the same with more noise.
    for metric in [Metric::Cpu, Metric::PeakRss, Metric::Faults] {
        text.push('\n');
        text.push_str(&metric_table(&figures, metric));
    }
    text.push_str(&failures(&figures));
    text.push('\n');
    text.push_str(&steering::render(&steering::steer(&figures)));
    text
}

fn heading(record: &Record) -> String {
    let machine = &record.machine;
    let mut text = String::new();
    let place = if machine.virtual_machine {
        ", virtual machine"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "{}, {} cores, {}{place}; kernel {}, {}; huge pages: {}; load before the start {:.1}",
        machine.processor,
        machine.cores,
        bytes(machine.memory_bytes as f64),
        machine.kernel,
        machine.system,
        machine.transparent_huge_pages,
        machine.load_before
    );
    let names: Vec<String> = record.allocators.iter().map(label_with_version).collect();
    let _ = writeln!(text, "{}", names.join(", "));
    let state = if record.interrupted {
        " (interrupted)"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "{} workloads, up to {} rounds in {:.0} s{state}",
        record.workloads.len(),
        record.settings.repeats,
        record.seconds
    );
    for skipped in &record.skipped {
        let _ = writeln!(text, "skipped {}: {}", skipped.name, skipped.reason);
    }
    text
}

/// A row a workload: the reference's value, then each other allocator's ratio to it. `*` marks rank 1 (shared when
/// the noise does not separate), `=` what the noise does not separate from the reference.
fn metric_table(figures: &Figures, metric: Metric) -> String {
    let record = figures.record;
    let reference = &record.settings.reference;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: value for {reference}, ratio to it for the others (* first or not separable from it, = not separable from {reference}, ? one run only, ! {reference} takes {WEAK:.0} times the median of its peers or more)",
        metric.title()
    );
    let _ = write!(text, "{:<NAME_WIDTH$}", "");
    for allocator in &record.allocators {
        let _ = write!(text, " {:>10}", column_name(&allocator.name));
    }
    text.push('\n');
    for workload in figures.measured() {
        let ranks = figures.ranks(&workload.name, metric);
        let _ = write!(
            text,
            "{:<NAME_WIDTH$}",
            clip(&row_name(workload, record), NAME_WIDTH)
        );
        for allocator in &record.allocators {
            let star = if ranks.get(allocator.name.as_str()) == Some(&1) {
                "*"
            } else {
                ""
            };
            let cell = cell(figures, &workload.name, &allocator.name, metric);
            let _ = write!(text, " {:>10}", format!("{cell}{star}"));
        }
        text.push('\n');
    }
    text
}

/// Threads beyond the cores measure over-subscription, not scaling; the row says so.
pub fn row_name(workload: &Workload, record: &Record) -> String {
    let beyond = workload
        .threads
        .is_some_and(|threads| threads > record.machine.cores);
    if beyond && record.machine.cores > 0 {
        format!("{} (>cores)", workload.name)
    } else {
        workload.name.clone()
    }
}

pub fn cell(figures: &Figures, workload: &str, allocator: &str, metric: Metric) -> String {
    if let Some(outcome) = figures.failure(workload, allocator) {
        return outcome.word().to_owned();
    }
    let Some(summary) = figures.summary(workload, allocator, metric) else {
        return "-".into();
    };
    let reference = &figures.record.settings.reference;
    if allocator == reference {
        let weak = figures.reference_is_weak(workload, metric);
        return format!("{}{}", value(summary, metric), if weak { "!" } else { "" });
    }
    match figures.ratio(workload, allocator, reference, metric) {
        Some(ratio) => ratio_cell(ratio),
        // The reference failed here, or the values are too small for a ratio: the value itself is left.
        None => value(summary, metric),
    }
}

pub fn ratio_cell(ratio: Ratio) -> String {
    let same = if ratio.verdict() == Verdict::Same {
        "="
    } else {
        ""
    };
    format!("{:.2}{same}", ratio.value)
}

fn value(summary: Summary, metric: Metric) -> String {
    match metric {
        Metric::PeakRss => bytes(summary.median),
        Metric::Cpu | Metric::Wall => seconds(summary.median),
        Metric::Faults => count(summary.median),
    }
}

pub fn count(value: f64) -> String {
    match value {
        v if v < 1e5 => format!("{v:.0}"),
        v if v < 1e7 => format!("{:.0} k", v / 1e3),
        v => format!("{:.1} M", v / 1e6),
    }
}

pub fn seconds(value: f64) -> String {
    if value < 0.1 {
        format!("{:.1} ms", value * 1e3)
    } else {
        format!("{value:.3} s")
    }
}

pub fn bytes(value: f64) -> String {
    const KIB: f64 = 1024.0;
    match value {
        v if v < KIB * KIB => format!("{:.0} KiB", v / KIB),
        v if v < KIB * KIB * KIB * 10.0 => format!("{:.1} MiB", v / KIB / KIB),
        v => format!("{:.1} GiB", v / KIB / KIB / KIB),
    }
}

/// What fits above a column. Modes of one library differ in what stands behind the @.
pub fn column_name(name: &str) -> String {
    clip(name.split_once('@').map_or(name, |(_, mode)| mode), 10)
}

fn clip(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

fn failures(figures: &Figures) -> String {
    let mut text = String::new();
    for workload in figures.measured() {
        for allocator in &figures.record.allocators {
            if let Some(outcome) = figures.failure(&workload.name, &allocator.name) {
                let _ = writeln!(
                    text,
                    "  {} under {}: {} {}",
                    workload.name,
                    allocator.name,
                    outcome.word(),
                    outcome.reason()
                );
            }
        }
    }
    if text.is_empty() {
        text
    } else {
        format!("\nFailed runs (these have no figures above)\n{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Outcome, Skipped, example};

    #[test]
    fn a_table_shows_ratios_noise_and_failures() {
        let mut record = example(&[
            ("mimalloc3", &[1.0, 1.01, 0.99, 1.0, 1.0]),
            ("freehold", &[0.5, 0.51, 0.5, 0.49, 0.5]),
            ("jemalloc", &[1.02, 0.99, 1.0, 1.01, 0.98]),
            ("broken", &[0.01, 0.01, 0.01, 0.01, 0.01]),
        ]);
        record.runs.last_mut().unwrap().outcome = Outcome::Crash("signal: 11".into());
        record.skipped.push(Skipped {
            name: "tbb".into(),
            reason: "not installed".into(),
        });
        insta::assert_snapshot!(render(&record));
    }

    #[test]
    fn units_follow_the_size() {
        assert_eq!(bytes(2048.0), "2 KiB");
        assert_eq!(bytes(3.5 * 1024.0 * 1024.0), "3.5 MiB");
        assert_eq!(column_name("mimalloc-debian"), "mimalloc-d");
        assert_eq!(column_name("freehold@thp=never"), "thp=never");
        assert_eq!(count(99_999.0), "99999");
        assert_eq!(count(1_133_280.0), "1133 k");
        assert_eq!(count(25e6), "25.0 M");
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(seconds(1.2345), "1.234 s");
    }
}
