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
