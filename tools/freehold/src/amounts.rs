//! Amounts as a person writes them.

use profile_file::human;

/// 1.5 MiB, as every command writes it.
pub fn bytes(bytes: u64) -> String {
    human::bytes(bytes as f64)
}

/// 0.3 s, 12 s, 4 min 10 s, 3 h 7 min.
pub fn duration(seconds: f64) -> String {
    human::duration((seconds.max(0.0) * 1e9) as u64)
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
