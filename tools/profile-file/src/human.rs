//! Statistics as a person reads them.

/// Bytes in the unit that fits: exact below 10 KiB.
pub fn bytes(bytes: f64) -> String {
    let size = bytes.abs();
    if size < 10_240.0 {
        return format!("{} B", count(bytes));
    }
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes / 1024.0;
    let mut unit = 0;
    while value.abs() >= 1023.95 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

/// 12.3 ± 0.4 MiB: an amount with what it may be off by, and no digits that mean nothing. Where one unit does not show both,
/// each has its own: 12.3 MiB ± 40.0 KiB. Without an error if there is none. The only one that writes this.
pub fn estimate(value: f64, error: f64) -> String {
    estimate_per(value, error, "")
}

/// The same of an amount per time, with `/s` or the like behind each unit.
pub fn estimate_per(value: f64, error: f64, per: &str) -> String {
    if error <= 0.0 {
        return format!("{}{per}", bytes(value));
    }
    let (name, size) = unit(value.abs().max(error));
    let part = error / size;
    if size > 1.0 && part < 0.095 {
        return format!("{}{per} ± {}{per}", bytes(value), bytes(error));
    }
    let places = usize::from(part < 9.95 && size > 1.0);
    format!("{:.places$} ± {part:.places$} {name}{per}", value / size)
}

/// The unit in which an amount has one to four digits before the point, and its size.
fn unit(bytes: f64) -> (&'static str, f64) {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut size = 1.0;
    for name in units {
        if bytes.abs() / size < 1023.5 {
            return (name, size);
        }
        size *= 1024.0;
    }
    ("PiB", size / 1024.0)
}

/// A number with its thousands set apart; rounded to a whole one.
pub fn count(number: f64) -> String {
    let whole = format!("{:.0}", number.abs());
    let mut text = String::new();
    if number < 0.0 && whole != "0" {
        text.push('-');
    }
    for (place, digit) in whole.chars().enumerate() {
        if place != 0 && (whole.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time span, in at most two units.
pub fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", ns / 1_000),
        1_000_000..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => match seconds {
            0..10 => format!("{:.1} s", ns as f64 / 1e9),
            10..60 => format!("{seconds} s"),
            60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
            3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
            _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
        },
    }
}

/// A share of a whole; a dash if the whole is nothing.
pub fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 {
        format!("{:.1} %", 100.0 * part / whole)
    } else {
        "–".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_decides_the_digits_of_its_value() {
        let mib = 1024.0 * 1024.0;
        assert_eq!(estimate(12.34 * mib, 0.4 * mib), "12.3 ± 0.4 MiB");
        assert_eq!(estimate(-12.34 * mib, 0.4 * mib), "-12.3 ± 0.4 MiB");
        assert_eq!(estimate(812.0 * mib, 30.0 * mib), "812 ± 30 MiB");
        assert_eq!(estimate(0.0, 700.0), "0 ± 700 B");
        assert_eq!(estimate(12.0 * mib, 0.0), "12.0 MiB");
        assert_eq!(estimate(12.0 * mib, 20480.0), "12.0 MiB ± 20.0 KiB");
        let rate = estimate_per(12.0 * mib, 20480.0, "/s");
        assert_eq!(rate, "12.0 MiB/s ± 20.0 KiB/s");
    }

    #[test]
    fn figures_read_well() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(1234.0), "1,234 B");
        assert_eq!(bytes(10_240.0), "10.0 KiB");
        assert_eq!(bytes(1048576.0 * 1023.99), "1.0 GiB");
        assert_eq!(bytes(-3.5 * 1048576.0), "-3.5 MiB");
        assert_eq!(count(1234567.4), "1,234,567");
        assert_eq!(count(-0.2), "0");
        assert_eq!(duration(1_500_000_000), "1.5 s");
        assert_eq!(duration(90_000_000_000), "1 min 30 s");
        assert_eq!(duration(u64::MAX), "213503 d 23 h");
        assert_eq!(share(1.0, 3.0), "33.3 %");
        assert_eq!(share(1.0, 0.0), "–");
    }
}
