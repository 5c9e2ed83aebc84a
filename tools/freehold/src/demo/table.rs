//! The one small table, and the same as bars for a terminal.

use std::fmt::Write as _;

use super::measure::Sample;

const MIB: f64 = 1024.0 * 1024.0;

/// The columns: what a run is compared by.
pub const COLUMNS: [&str; 4] = ["wall", "CPU", "peak", "after"];

/// Wall, CPU, peak and after; times in seconds, memory in MiB.
pub fn figures(sample: &Sample) -> [Option<f64>; 4] {
    [
        Some(sample.wall.as_secs_f64()),
        Some(sample.cpu.as_secs_f64()),
        Some(sample.peak as f64 / MIB),
        sample.after.map(|after| after as f64 / MIB),
    ]
}

/// The middle of the values, or the mean of the two in the middle.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// Of each column the median over the rounds.
fn medians(samples: &[Sample]) -> [Option<f64>; 4] {
    std::array::from_fn(|column| {
        median(
            samples
                .iter()
                .filter_map(|sample| figures(sample)[column])
                .collect(),
        )
    })
}

fn cell(column: usize, value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if column < 2 => format!("{value:.2} s"),
        Some(value) => format!("{value:.1} MiB"),
    }
}

fn line(label: &str, cells: [String; 4]) -> String {
    let [wall, cpu, peak, after] = cells;
    format!("{label:<34} {wall:>9} {cpu:>9} {peak:>11} {after:>11}\n")
}

/// A row for each allocator, then the last one against each of the others.
pub fn render(names: &[&str], samples: &[Vec<Sample>]) -> String {
    let figures: Vec<[Option<f64>; 4]> = samples.iter().map(|runs| medians(runs)).collect();
    let mut out = line("allocator", COLUMNS.map(str::to_owned));
    for (name, row) in names.iter().zip(&figures) {
        out += &line(
            name,
            std::array::from_fn(|column| cell(column, row[column])),
        );
    }
    if let (Some((last, rest)), Some((ours, others))) = (names.split_last(), figures.split_last()) {
        for (name, theirs) in rest.iter().zip(others) {
            let ratio = |column: usize| match (ours[column], theirs[column]) {
                (Some(a), Some(b)) if b > 0.0 => format!("{:.2}", a / b),
                _ => "-".to_owned(),
            };
            let label = format!("{} / {}", short(last), short(name));
            out += &line(&label, std::array::from_fn(ratio));
        }
    }
    out
}

/// A name without what is in parentheses.
pub fn short(name: &str) -> &str {
    name.split(" (").next().unwrap_or(name)
}

/// For each column but the wall time a bar for each allocator; with colours, the shortest is green.
pub fn bars(names: &[&str], samples: &[Vec<Sample>], colours: bool) -> String {
    const WIDTH: f64 = 40.0;
    let figures: Vec<[Option<f64>; 4]> = samples.iter().map(|runs| medians(runs)).collect();
    let mut out = String::new();
    for (column, title) in COLUMNS.iter().enumerate().skip(1) {
        let values: Vec<f64> = figures.iter().filter_map(|row| row[column]).collect();
        let longest = values.iter().copied().fold(0.0, f64::max);
        let shortest = values.iter().copied().fold(f64::INFINITY, f64::min);
        if values.len() != names.len() || longest <= 0.0 {
            continue;
        }
        for (row, (name, value)) in names.iter().zip(&values).enumerate() {
            let bar = "█".repeat((value / longest * WIDTH).ceil() as usize);
            let (on, off) = match colours && *value == shortest {
                true => ("\x1b[32m", "\x1b[0m"),
                false => ("", ""),
            };
            let title = if row == 0 { title } else { "" };
            let _ = writeln!(
                out,
                "{title:<6} {:<9} {on}{bar}{off} {}",
                short(name),
                cell(column, Some(*value))
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
pub mod tests {
    use super::*;
    use std::time::Duration;

    pub fn sample(wall: f64, cpu: f64, peak: u64, after: Option<u64>) -> Sample {
        Sample {
            wall: Duration::from_secs_f64(wall),
            cpu: Duration::from_secs_f64(cpu),
            peak: peak << 20,
            after: after.map(|after| after << 20),
        }
    }

    const NAMES: [&str; 3] = ["system (glibc)", "jemalloc (as packaged)", "Freehold"];

    fn three() -> [Vec<Sample>; 3] {
        [
            vec![sample(5.0, 4.0, 400, Some(200))],
            vec![sample(4.5, 3.5, 390, Some(50))],
            vec![sample(4.0, 3.0, 300, Some(10))],
        ]
    }

    #[test]
    fn the_table_reads_well() {
        insta::assert_snapshot!(render(&NAMES, &three()), @r"
        allocator                               wall       CPU        peak       after
        system (glibc)                        5.00 s    4.00 s   400.0 MiB   200.0 MiB
        jemalloc (as packaged)                4.50 s    3.50 s   390.0 MiB    50.0 MiB
        Freehold                              4.00 s    3.00 s   300.0 MiB    10.0 MiB
        Freehold / system                       0.80      0.75        0.75        0.05
        Freehold / jemalloc                     0.89      0.86        0.77        0.20
        ");
    }

    #[test]
    fn a_program_that_has_ended_has_no_memory_after() {
        let runs = [
            vec![sample(2.0, 2.0, 200, None)],
            vec![sample(1.0, 1.0, 100, None)],
        ];
        insta::assert_snapshot!(render(&["system (glibc)", "Freehold"], &runs), @r"
        allocator                               wall       CPU        peak       after
        system (glibc)                        2.00 s    2.00 s   200.0 MiB           -
        Freehold                              1.00 s    1.00 s   100.0 MiB           -
        Freehold / system                       0.50      0.50        0.50           -
        ");
    }

    #[test]
    fn bars_are_as_long_as_the_figures() {
        let plain = bars(&NAMES, &three(), false);
        let lengths: Vec<usize> = plain
            .lines()
            .map(|line| line.matches('█').count())
            .collect();
        assert_eq!(lengths, [40, 35, 30, 40, 39, 30, 40, 10, 2]);
        assert!(!plain.contains('\x1b'));
        let coloured = bars(&NAMES, &three(), true);
        assert_eq!(coloured.matches("\x1b[32m").count(), 3);
    }

    #[test]
    fn the_median_needs_no_order() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(thousands(7), "7");
        assert_eq!(thousands(1_234), "1,234");
        assert_eq!(thousands(12_345_678), "12,345,678");
    }
}
