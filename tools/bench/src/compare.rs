//! What changed from one run to another: `freehold bench compare BEFORE.json AFTER.json`.
//!
//! The two runs were not interleaved, so nothing pairs their values, and the machine may have been in another mood.
//! Two things help: the interval is that of unpaired samples, hence wider; and where both runs measured the
//! reference as well, the change of the reference itself is shown first, as the measure of that mood.

use std::fmt::Write;

use crate::figures::{Figures, Metric};
use crate::record::{Record, label_with_version};
use crate::statistics::{Ratio, Verdict, geometric_mean, unpaired_ratio};
use crate::table::ratio_cell;

pub fn render(before: &Record, after: &Record) -> String {
    let mut text = differences(before, after);
    let (then, now) = (Figures::new(before), Figures::new(after));
    for allocator in &after.allocators {
        let Some(earlier) = before.allocator(&allocator.name) else {
            continue;
        };
        let _ = writeln!(
            text,
            "\n{}, before {}",
            label_with_version(allocator),
            earlier.version
        );
        text.push_str(&one_allocator(&then, &now, &allocator.name));
    }
    text
}

/// What makes the comparison doubtful.
fn differences(before: &Record, after: &Record) -> String {
    let mut text = String::from(
        "Ratios after / before: below 1 is faster or smaller now; = is not separable from the noise.\n",
    );
    let (a, b) = (&before.machine, &after.machine);
    let pairs = [
        ("processor", &a.processor, &b.processor),
        ("kernel", &a.kernel, &b.kernel),
        ("libc", &a.libc, &b.libc),
        ("compiler", &a.compiler, &b.compiler),
        (
            "huge pages",
            &a.transparent_huge_pages,
            &b.transparent_huge_pages,
        ),
    ];
    for (what, then, now) in pairs.into_iter().filter(|(_, then, now)| then != now) {
        let _ = writeln!(text, "Beware, another {what}: {then} before, {now} now.");
    }
    text
}

fn one_allocator(then: &Figures, now: &Figures, name: &str) -> String {
    let mut rows = String::new();
    let mut means: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for workload in now.measured() {
        let metrics = [Metric::Cpu, Metric::PeakRss];
        let ratios = metrics.map(|metric| change(then, now, &workload.name, name, metric));
        for (mean, ratio) in means.iter_mut().zip(ratios) {
            mean.extend(ratio.map(|ratio| ratio.value));
        }
        // Rows without news would bury those with.
        let news = ratios
            .iter()
            .flatten()
            .any(|ratio| ratio.verdict() != Verdict::Same);
        let failed = now
            .failure(&workload.name, name)
            .or_else(|| then.failure(&workload.name, name));
        if let Some(outcome) = failed {
            let when = if now.failure(&workload.name, name).is_some() {
                "now"
            } else {
                "before"
            };
            let _ = writeln!(rows, "  {:<28} {} {when}", workload.name, outcome.word());
        } else if news {
            let [cpu, rss] = ratios.map(|ratio| ratio.map_or_else(|| "-".into(), ratio_cell));
            let _ = writeln!(rows, "  {:<28} {cpu:>8} {rss:>8}", workload.name);
        }
    }
    let [cpu, rss] = means.map(|mean| {
        geometric_mean(&mean).map_or_else(|| "-".into(), |value| format!("{value:.3}"))
    });
    format!(
        "  {:<28} {:>8} {:>8}\n{rows}  {:<28} {cpu:>8} {rss:>8}\n",
        "", "CPU", "RSS", "geometric mean of all"
    )
}

fn change(
    then: &Figures,
    now: &Figures,
    workload: &str,
    name: &str,
    metric: Metric,
) -> Option<Ratio> {
    let values = |figures: &Figures| -> Option<Vec<f64>> {
        figures.summary(workload, name, metric)?;
        Some(
            figures
                .runs(workload, name)
                .iter()
                .map(|run| metric.of(run))
                .collect(),
        )
    };
    unpaired_ratio(&values(now)?, &values(then)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::example;

    #[test]
    fn shows_what_changed_and_on_what() {
        let before = example(&[
            ("mimalloc3", &[1.0, 1.01, 0.99]),
            ("freehold", &[1.0, 1.0, 1.01]),
        ]);
        let mut after = example(&[
            ("mimalloc3", &[1.0, 0.99, 1.0]),
            ("freehold", &[0.8, 0.8, 0.81]),
        ]);
        after.machine.kernel = "6.18".into();
        insta::assert_snapshot!(render(&before, &after));
    }
}
