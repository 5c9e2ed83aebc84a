//! The explanation as a person reads it.

use std::fmt::Write as _;

use super::explanation::{Explanation, Line, PinnedClass};
use crate::amounts::{bytes, duration};
use crate::wording::plural;

/// Widest label that is lined up; longer ones push their line out.
const LABEL: usize = 50;

pub fn render(it: &Explanation) -> String {
    let mut out = heading(it);
    if !it.freehold.is_empty() {
        group(
            &mut out,
            "Freehold",
            it.freehold_bytes,
            &it.freehold,
            it.resident_bytes,
        );
    }
    group(
        &mut out,
        "Not Freehold",
        it.other_bytes,
        &it.other,
        it.resident_bytes,
    );
    out.push_str("\n  = said by the kernel, ~ counted or estimated (± how far it may be off)\n");
    if !it.fragmented_classes.is_empty() {
        out.push_str("\nFree space in partly used slabs, by size:\n");
        for class in &it.fragmented_classes {
            pinned(&mut out, class);
        }
    }
    if !it.notes.is_empty() {
        out.push('\n');
        for note in &it.notes {
            let _ = writeln!(out, "Note: {note}.");
        }
    }
    let _ = writeln!(out, "\n{}", it.verdict.sentence);
    if !it.verdict.change.is_empty() {
        out.push_str("What would change it:\n");
        for line in &it.verdict.change {
            let _ = writeln!(out, "  {line}");
        }
    }
    out
}

fn heading(it: &Explanation) -> String {
    let name = it.program.rsplit('/').next().unwrap_or_default();
    let mut out = name.to_owned();
    if let Some(pid) = it.pid {
        let _ = write!(out, ", process {pid}");
    }
    if let Some(version) = &it.version {
        let _ = write!(out, ", under Freehold {version}");
    }
    let _ = write!(out, ": {} resident", bytes(it.resident_bytes));
    if !it.alive {
        out.push_str(" when it was last counted");
    }
    if let Some(seconds) = it.seconds_before_end {
        let _ = write!(out, ", {} before its end", duration(seconds));
    }
    if it.swapped_bytes > 0 {
        let _ = write!(out, ", and {} swapped out", bytes(it.swapped_bytes));
    }
    out.push('\n');
    out
}

fn group(out: &mut String, title: &str, sum: u64, lines: &[Line], whole: u64) {
    let _ = writeln!(out, "\n  {}", row(title, ' ', sum as i64, whole, LABEL + 2));
    let mut lines: Vec<&Line> = lines.iter().collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.bytes));
    for line in lines {
        let mark = if line.exact { '=' } else { '~' };
        let _ = write!(
            out,
            "    {}",
            row(&line.label, mark, line.bytes, whole, LABEL)
        );
        match line.error_bytes {
            Some(error) if error > 0 => {
                let _ = writeln!(out, "  ± {}", bytes(error));
            }
            _ => out.push('\n'),
        }
        if !line.detail.is_empty() && line.bytes >= (whole / 100) as i64 {
            let _ = writeln!(out, "        {}", line.detail.join(", "));
        }
    }
}

fn signed(amount: i64) -> String {
    let sign = if amount < 0 { "−" } else { "" };
    format!("{sign}{}", bytes(amount.unsigned_abs()))
}

fn row(label: &str, mark: char, amount: i64, whole: u64, width: usize) -> String {
    let percent = amount as f64 * 100.0 / whole.max(1) as f64;
    format!(
        "{label:<width$}{mark} {:>10}  {percent:>5.1} %",
        signed(amount)
    )
}

fn pinned(out: &mut String, class: &PinnedClass) {
    let _ = writeln!(
        out,
        "  blocks of {:>6}: {} free in {} {:.0} % live",
        class.size,
        bytes(class.free_bytes),
        plural(class.slabs as usize, "slab that is", "slabs that are"),
        class.live_share * 100.0
    );
    for site in &class.sites {
        let _ = writeln!(
            out,
            "      kept by {} ({} live)",
            site.name,
            bytes(site.live_bytes)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::explanation::PinningSite;
    use super::super::verdict::{Finding, Verdict};
    use super::*;

    fn line(label: &str, bytes: i64, error: Option<u64>) -> Line {
        Line {
            part: "part",
            label: label.to_owned(),
            bytes,
            exact: error.is_none(),
            error_bytes: error,
            detail: Vec::new(),
        }
    }

    #[test]
    fn an_explanation_with_everything() {
        let mut code = line("code of the program and its libraries", 9 << 20, None);
        code.detail = vec!["libc.so.6 1.8 MiB".to_owned(), "server 1.2 MiB".to_owned()];
        let it = Explanation {
            program: "/usr/bin/server".to_owned(),
            pid: Some(4711),
            alive: true,
            seconds_before_end: None,
            version: Some("0.1.0".to_owned()),
            resident_bytes: 110 << 20,
            swapped_bytes: 3 << 20,
            freehold_bytes: 100 << 20,
            counted_bytes: 100 << 20,
            freehold: vec![
                line("free space in partly used slabs", 10 << 20, Some(0)),
                line("live: what the program asked for", 90 << 20, Some(2 << 20)),
            ],
            other_bytes: 10 << 20,
            other: vec![code, line("stacks of threads", 1 << 20, None)],
            fragmented_classes: vec![PinnedClass {
                size: 304,
                slabs: 132,
                free_bytes: 8 << 20,
                live_share: 0.061,
                sites: vec![PinningSite {
                    name: "cache_insert (index.c:8)".to_owned(),
                    live_bytes: 1 << 19,
                }],
            }],
            notes: vec!["the allocator's statistics are 2.8 s old".to_owned()],
            verdict: Verdict {
                finding: Finding::Fine,
                sentence: "Fine.".to_owned(),
                change: vec!["freehold profile 4711".to_owned()],
            },
        };
        insta::assert_snapshot!(render(&it), @r"
        server, process 4711, under Freehold 0.1.0: 110.0 MiB resident, and 3.0 MiB swapped out

          Freehold                                               100.0 MiB   90.9 %
            live: what the program asked for                  ~   90.0 MiB   81.8 %  ± 2.0 MiB
            free space in partly used slabs                   ~   10.0 MiB    9.1 %

          Not Freehold                                            10.0 MiB    9.1 %
            code of the program and its libraries             =    9.0 MiB    8.2 %
                libc.so.6 1.8 MiB, server 1.2 MiB
            stacks of threads                                 =    1.0 MiB    0.9 %

          = said by the kernel, ~ counted or estimated (± how far it may be off)

        Free space in partly used slabs, by size:
          blocks of    304: 8.0 MiB free in 132 slabs that are 6 % live
              kept by cache_insert (index.c:8) (512.0 KiB live)

        Note: the allocator's statistics are 2.8 s old.

        Fine.
        What would change it:
          freehold profile 4711
        ");
    }
}
