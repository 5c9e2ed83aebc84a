//! The one small table.

use std::fmt::Write as _;

use super::measure::Sample;
use super::server::Allocator;

/// The middle of the values, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    }
}

/// Wall, CPU, peak and after, each the median over the rounds; times in seconds, memory in MiB.
fn medians(samples: &[Sample]) -> [f64; 4] {
    const MIB: f64 = 1024.0 * 1024.0;
    let of = |figure: fn(&Sample) -> f64| median(samples.iter().map(figure).collect());
    [
        of(|sample| sample.wall.as_secs_f64()),
        of(|sample| sample.cpu.as_secs_f64()),
        of(|sample| sample.peak as f64 / MIB),
        of(|sample| sample.after as f64 / MIB),
    ]
}

/// A row for each allocator, then the last one against each of the others.
pub fn render(allocators: &[Allocator], samples: &[Vec<Sample>]) -> String {
    let names: Vec<&str> = allocators
        .iter()
        .map(|allocator| allocator.name.as_str())
        .collect();
    let statistics: Vec<[f64; 4]> = samples.iter().map(|samples| medians(samples)).collect();
    render_figures(&names, &statistics)
}

fn render_figures(names: &[&str], statistics: &[[f64; 4]]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<34} {:>9} {:>9} {:>11} {:>11}",
        "allocator", "wall", "CPU", "peak", "after"
    );
    for (name, [wall, cpu, peak, after]) in names.iter().zip(statistics) {
        let _ = writeln!(
            out,
            "{name:<34} {wall:>7.2} s {cpu:>7.2} s {peak:>7.1} MiB {after:>7.1} MiB"
        );
    }
    if let (Some((last, rest)), Some((ours, others))) =
        (names.split_last(), statistics.split_last())
    {
        for (name, theirs) in rest.iter().zip(others) {
            let ratio: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
            let label = format!("{last} / {}", name.split(" (").next().unwrap_or(name));
            let _ = writeln!(
                out,
                "{label:<34} {:>9.2} {:>9.2} {:>11.2} {:>11.2}",
                ratio[0], ratio[1], ratio[2], ratio[3]
            );
        }
    }
    out
}

/// 1234567 as 1,234,567.
pub fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_reads_well() {
        let statistics = [
            [5.0, 4.0, 400.0, 200.0],
            [4.5, 3.5, 390.0, 50.0],
            [4.0, 3.0, 300.0, 10.0],
        ];
        let text = render_figures(
            &["system (glibc)", "jemalloc (as packaged)", "Freehold"],
            &statistics,
        );
        insta::assert_snapshot!(text, @r"
        allocator                               wall       CPU        peak       after
        system (glibc)                        5.00 s    4.00 s   400.0 MiB   200.0 MiB
        jemalloc (as packaged)                4.50 s    3.50 s   390.0 MiB    50.0 MiB
        Freehold                              4.00 s    3.00 s   300.0 MiB    10.0 MiB
        Freehold / system                       0.80      0.75        0.75        0.05
        Freehold / jemalloc                     0.89      0.86        0.77        0.20
        ");
    }

    #[test]
    fn the_median_needs_no_order() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(thousands(7), "7");
        assert_eq!(thousands(1_234), "1,234");
        assert_eq!(thousands(12_345_678), "12,345,678");
    }
}
