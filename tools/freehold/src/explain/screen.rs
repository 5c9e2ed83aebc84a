//! The explanation as a person reads it.

use std::fmt::Write as _;

use super::explanation::{Explanation, Line, PinnedClass};
use crate::amounts::bytes;

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
    let when = if it.alive {
        "resident"
    } else {
        "resident when it was last seen"
    };
    let _ = write!(out, ": {} {when}", bytes(it.resident_bytes));
    if it.swapped_bytes > 0 {
        let _ = write!(out, ", and {} swapped out", bytes(it.swapped_bytes));
    }
    out.push('\n');
    out
}

fn group(out: &mut String, title: &str, sum: u64, lines: &[Line], whole: u64) {
    let _ = writeln!(out, "\n  {}", row(title, ' ', sum, whole, LABEL + 2));
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
        if !line.detail.is_empty() && line.bytes >= whole / 100 {
            let _ = writeln!(out, "        {}", line.detail.join(", "));
        }
    }
}

fn row(label: &str, mark: char, amount: u64, whole: u64, width: usize) -> String {
    let percent = amount as f64 * 100.0 / whole.max(1) as f64;
    format!(
        "{label:<width$}{mark} {:>10}  {percent:>5.1} %",
        bytes(amount)
    )
}

fn pinned(out: &mut String, class: &PinnedClass) {
    let _ = writeln!(
        out,
        "  blocks of {:>6}: {} free in {} slabs that are {:.0} % live",
        class.size,
        bytes(class.free_bytes),
        class.slabs,
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
