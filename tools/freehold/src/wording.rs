//! Estimates as a person reads them: with what they may be off by, and no digits that mean nothing.

use profile_file::human;
pub use profile_file::human::estimate;

/// Three digits that mean something: 1.23, 12.3, 123.
fn digits(value: f64) -> String {
    match value.abs() {
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// 12.3 MiB, as every command writes it.
pub fn bytes(bytes: f64) -> String {
    human::bytes(bytes)
}

/// +1.2 ± 0.3 MiB/s, or by the minute, hour or day where that is the readable number.
pub fn rate(per_second: f64, error: f64) -> String {
    let (word, factor) = [("s", 1.0), ("min", 60.0), ("h", 3600.0), ("day", 86_400.0)]
        .into_iter()
        .find(|(_, factor)| per_second.abs() * factor >= 10_240.0)
        .unwrap_or(("day", 86_400.0));
    let sign = if per_second >= 0.0 { "+" } else { "" };
    let per = format!("/{word}");
    let amount = human::estimate_per(per_second * factor, error * factor, &per);
    format!("{sign}{amount}")
}

/// 1,234 · 56.7 k · 1.23 M
pub fn count(number: f64) -> String {
    match number.abs() {
        n if n < 9_999.5 => human::count(number),
        n if n < 999_500.0 => format!("{} k", digits(number / 1e3)),
        n if n < 999_500_000.0 => format!("{} M", digits(number / 1e6)),
        _ => format!("{} G", digits(number / 1e9)),
    }
}

/// All digits: 524,288
pub fn plain_count(number: u64) -> String {
    human::count(number as f64)
}

/// 340 µs · 12 ms · 3.4 s · 12 min 3 s · 5 h 12 min · 3 d 4 h, as every command writes it.
pub fn duration(seconds: f64) -> String {
    human::duration((seconds.max(0.0) * 1e9) as u64)
}

/// The same in at most five characters, for columns.
pub fn short_duration(seconds: f64) -> String {
    match seconds {
        s if s < 0.000_999_5 => format!("{:.0}µs", s * 1e6),
        s if s < 0.995 => format!("{:.0}ms", s * 1e3),
        s if s < 9.95 => format!("{s:.1}s"),
        s if s < 119.5 => format!("{s:.0}s"),
        s if s < 7170.0 => format!("{:.0}m", s / 60.0),
        s if s < 172_800.0 => format!("{:.0}h", s / 3600.0),
        s => format!("{:.0}d", s / 86_400.0),
    }
}

/// 1 block, 2 blocks, of a count as it is written
pub fn blocks(count: &str) -> String {
    let word = if count == "1" { "block" } else { "blocks" };
    format!("{count} {word}")
}

/// 1 site, 2 sites
/// How exact it is: one sample in 512.0 KiB.
pub fn sampling(interval: u64) -> String {
    match interval {
        0 => "sampling is off".to_owned(),
        1 => "every block counted".to_owned(),
        mean => format!("one sample in {}", bytes(mean as f64)),
    }
}

pub fn plural(number: usize, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        human::count(number as f64),
        if number == 1 { one } else { many }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_rates_are_said_by_the_hour_or_day() {
        let mib = 1024.0 * 1024.0;
        assert_eq!(rate(1.2 * mib, 0.3 * mib), "+1.2 ± 0.3 MiB/s");
        assert_eq!(rate(100.0, 10.0), "+352 ± 35 KiB/h");
        assert_eq!(rate(0.1, 0.0), "+8,640 B/day");
    }

    #[test]
    fn columns_have_durations_of_five_characters() {
        assert_eq!(short_duration(723.0), "12m");
        assert_eq!(short_duration(0.25), "250ms");
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!(count(1234.0), "1,234");
        assert_eq!(count(56_700.0), "56.7 k");
        assert_eq!(plural(1, "site", "sites"), "1 site");
        assert_eq!(plural(1200, "site", "sites"), "1,200 sites");
    }
}
