//! Amounts as a person writes them.

/// 1.5 MiB: three digits at most before the point, one behind it, none of plain bytes.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// 0.3 s, 12 s, 4 min 10 s, 3 h 7 min.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..10 => format!("{:.1} s", seconds.max(0.0)),
        10..120 => format!("{whole} s"),
        120..7200 => format!("{} min {} s", whole / 60, whole % 60),
        7200..172_800 => format!("{} h {} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} days {} h", whole / 86_400, whole / 3600 % 24),
    }
}

/// Reads `512k`, `4M`, `1g` or plain bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" | "kb" => 1 << 10,
        "m" | "mib" | "mb" => 1 << 20,
        "g" | "gib" | "gb" => 1u64 << 30,
        _ => return Err("a size looks like 4096, 512k, 4m or 1g".to_owned()),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| "a size looks like 4096, 512k, 4m or 1g".to_owned())
}

/// The highest resident size of this process so far.
pub fn own_peak() -> u64 {
    procfs::process::Process::myself()
        .and_then(|me| me.status())
        .ok()
        .and_then(|status| status.vmhwm)
        .map_or(0, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_unit_that_fits() {
        let say = |n: u64| bytes(n);
        assert_eq!(say(0), "0 B");
        assert_eq!(say(1023), "1023 B");
        assert_eq!(say(1024), "1.0 KiB");
        assert_eq!(say((1 << 20) - 1), "1.0 MiB");
        assert_eq!(say(1536 << 20), "1.5 GiB");
        assert_eq!(say(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn durations_are_short() {
        let all: Vec<String> = [0.04, 9.96, 59.0, 250.0, 11_220.0, 200_000.0]
            .iter()
            .map(|&s| duration(s))
            .collect();
        assert_eq!(
            all,
            [
                "0.0 s",
                "10 s",
                "59 s",
                "4 min 10 s",
                "3 h 7 min",
                "2 days 7 h"
            ]
        );
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("512k"), Ok(512 << 10));
        assert_eq!(parse_bytes("4M"), Ok(4 << 20));
        assert_eq!(parse_bytes("1"), Ok(1));
        assert!(parse_bytes("many").is_err());
        assert!(parse_bytes("").is_err());
        assert!(parse_bytes("99999999999g").is_err());
        assert!(parse_bytes("4 m").is_err());
    }
}
