//! What the library says about its heap at the end of a program, made short.

/// How many size classes are shown.
const SHOWN: usize = 8;

/// Keeps of the library's table the size classes that hold the most memory, in the order of their size, and
/// everything that is no row of a class.
pub fn shorten(text: &str) -> String {
    let mut sizes: Vec<f64> = text.lines().filter_map(bytes_in_slabs).collect();
    sizes.sort_by(|a, b| b.total_cmp(a));
    let least = sizes.get(SHOWN).copied().unwrap_or(-1.0);
    let mut out = String::new();
    let mut left_out = 0;
    for line in text.lines() {
        match bytes_in_slabs(line) {
            Some(bytes) if bytes <= least => left_out += 1,
            Some(_) => push_line(&mut out, line),
            None => {
                if left_out > 0 {
                    push_line(
                        &mut out,
                        &format!(
                            "  and {left_out} smaller ones (FREEHOLD=stats=1 prints them all)"
                        ),
                    );
                    left_out = 0;
                }
                push_line(&mut out, line);
            }
        }
    }
    out
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

/// For the row of a size class, `  16 B  130  528214  1640  0  8.0 MiB  8.1 MiB  99%`, the memory of its
/// slabs; for any other line nothing.
fn bytes_in_slabs(line: &str) -> Option<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, .., number, unit, percent] = words[..] else {
        return None;
    };
    percent.strip_suffix('%')?;
    words[0].parse::<f64>().ok()?;
    let scale = match unit {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_told_from_a_line() {
        assert_eq!(
            bytes_in_slabs("  16 B  1  39  11  0  624 B  64 KiB  0%"),
            Some(65536.0)
        );
        assert_eq!(
            bytes_in_slabs("  live   126.8 MiB   in 15 blocks that the program holds"),
            None
        );
        assert_eq!(bytes_in_slabs(""), None);
    }

    #[test]
    fn the_largest_rows_and_all_other_lines_stay() {
        let mut text = String::from("heading\n");
        for i in 1..=20 {
            text.push_str(&format!(
                "  {i} B  1  2  3  4  5 B  {} KiB  9%\n",
                if i % 2 == 0 { i } else { 0 }
            ));
        }
        text.push_str("  live  1 B\n");
        let short = shorten(&text);
        assert_eq!(
            short
                .lines()
                .filter(|line| bytes_in_slabs(line).is_some())
                .count(),
            SHOWN
        );
        assert!(short.starts_with("heading\n"));
        assert!(short.contains("\n  20 B"));
        assert!(
            short.ends_with(
                "  and 12 smaller ones (FREEHOLD=stats=1 prints them all)\n  live  1 B\n"
            )
        );
    }

    #[test]
    fn a_short_table_stays_whole() {
        let text = "  16 B  1  39  11  0  624 B  0 KiB  0%\n  live  1 B\n";
        assert_eq!(shorten(text), text);
    }
}
