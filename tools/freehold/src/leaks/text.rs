//! The answer for a person: what leaks, what only grows, what was left out and why, and what to type next.

use std::fmt::Write;

use profile_file::Clearing;

use super::Answer;
use super::finding::Finding;
use super::gate::SHORTEST_SECONDS;
use super::trend::Trend;
use super::verdict::{Doubt, TOO_MANY_LOST, Verdict};
use crate::wording::{self, bytes, count, duration, estimate, plural};

/// Callers that are shown of each site.
const CALLERS: usize = 6;
/// Sites that are shown of what is no leak.
const OTHERS: usize = 5;

pub fn render(answer: &Answer) -> String {
    let mut out = String::new();
    heading(&mut out, answer);
    if answer.at_exit {
        at_exit(&mut out, answer);
    } else {
        verdicts(&mut out, answer);
    }
    for text in &answer.unused_suppressions {
        let _ = writeln!(out, "The suppression leak:{text} matched nothing.");
    }
    for note in answer.warnings.iter().chain(&answer.skipped) {
        let _ = writeln!(out, "Note: {note}.");
    }
    if answer.checks {
        check(&mut out, answer);
    }
    next(&mut out, answer);
    out
}

fn heading(out: &mut String, answer: &Answer) {
    let name = answer.program.rsplit('/').next().unwrap_or_default();
    let _ = write!(
        out,
        "{name} ({}, {}), observed for {}",
        answer.pid,
        answer.state,
        duration(answer.observed_seconds)
    );
    if let Some(seconds) = answer.watched_seconds {
        let _ = write!(out, ", watched for {}", duration(seconds));
    }
    let _ = writeln!(
        out,
        "; {} of {}, {}\n",
        plural(answer.live_samples, "live sample", "live samples"),
        plural(answer.sites.len(), "site", "sites"),
        wording::sampling(answer.interval)
    );
    if let Some(cleared) = &answer.cleared {
        let _ = writeln!(
            out,
            "{}. The verdict is about the moment before.\n",
            cleared.sentence()
        );
    }
}

/// What an answer is about if the program cleared up at its end.
pub fn before_clearing(cleared: &Clearing) -> String {
    format!("{}; this is the state before", cleared.sentence())
}

fn verdicts(out: &mut String, answer: &Answer) {
    let open: Vec<&Finding> = answer
        .sites
        .iter()
        .filter(|site| site.suppressed_by.is_none())
        .collect();
    let suspects: Vec<&&Finding> = open.iter().filter(|site| site.is_suspect()).collect();
    if let Some(reason) = &answer.nothing_because {
        let _ = writeln!(out, "No leak found: {reason}.");
    } else if suspects.is_empty() && answer.lost_share > TOO_MANY_LOST {
        let _ = writeln!(out, "No verdict, because {}.", lost(answer.lost_share));
    } else if suspects.is_empty() {
        // Something does grow: see what follows.
        let none = match answer.trend.is_some_and(|trend| trend.grows()) {
            true => "No call site alone is a likely leak:",
            false => "No leak found, because",
        };
        let _ = writeln!(out, "{none} {}.", why_none(answer, &open));
    } else {
        let likely = suspects
            .iter()
            .filter(|s| s.verdict == Verdict::LikelyLeak)
            .count();
        let others = suspects.len() - likely;
        let both = [
            (likely, "likely leak", "likely leaks"),
            (others, "suspicion", "suspicions"),
        ];
        let said: Vec<String> = both
            .into_iter()
            .filter(|(n, ..)| *n > 0)
            .map(|(n, one, many)| plural(n, one, many))
            .collect();
        let _ = writeln!(out, "{}:", said.join(" and "));
    }
    if suspects.is_empty() {
        whole(out, answer);
    }
    for site in &suspects {
        suspect(out, site, answer);
    }
    growing(out, answer, &open);
    others(out, answer, &open);
    scanned(out, answer);
}

/// Growth that no site alone has the samples for, or that speaks against a leak everywhere.
fn whole(out: &mut String, answer: &Answer) {
    if let Some(trend) = answer.trend.filter(Trend::grows) {
        let _ = writeln!(
            out,
            "Live memory as a whole grows, by {} for {}: in no site alone beyond doubt.",
            wording::rate(trend.rate, trend.error),
            duration(trend.seconds)
        );
        if let Some(spread) = &answer.spread {
            let _ = writeln!(out, "Most by {}.", spread.sentence());
        }
    }
}

fn growing(out: &mut String, answer: &Answer, open: &[&Finding]) {
    let growing: Vec<&&Finding> = open
        .iter()
        .filter(|site| site.verdict == Verdict::Growing && !site.is_suspect())
        .collect();
    if growing.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nGrowing, but not called a leak:");
    for site in growing.iter().take(shown(answer)) {
        one_line(out, site);
    }
    more(out, growing.len(), shown(answer));
}

fn scanned(out: &mut String, answer: &Answer) {
    let Some(scan) = &answer.scan else { return };
    let _ = writeln!(
        out,
        "\nOf all live blocks {} ({}) cannot be reached from the program's variables. {} were searched in {}; the\n\
         program was held up for {}.",
        count(scan.unreachable_blocks as f64),
        bytes(scan.unreachable_bytes as f64),
        bytes(scan.searched_bytes as f64),
        duration(scan.seconds),
        duration(scan.held_up)
    );
    if scan.skipped_bytes > 0 {
        let _ = writeln!(
            out,
            "{} of shared memory were not searched.",
            bytes(scan.skipped_bytes as f64)
        );
    }
}

/// Why it is unknown whether anything grows.
pub fn lost(share: f64) -> String {
    format!(
        "{} % of the samples of live blocks are lost, so what grows may not be seen: the profile file had no room for them. \
         Choose its directory with `freehold run --keep DIR`, or take fewer samples with --sample",
        (100.0 * share).ceil()
    )
}

/// "None" needs a reason too.
fn why_none(answer: &Answer, open: &[&Finding]) -> String {
    if answer.observed_seconds < SHORTEST_SECONDS {
        return format!(
            "{} is too short an observation: growth needs a second at least",
            duration(answer.observed_seconds)
        );
    }
    if open.is_empty() {
        return "every site is suppressed".to_owned();
    }
    let judged = |verdict| open.iter().filter(|s| s.verdict == verdict).count();
    if judged(Verdict::Unknown) == open.len() {
        return format!(
            "no site has the samples for a verdict (16 survivors at least, {} are live in all): watch for longer with \
             --for, or sample more often",
            answer.live_samples
        );
    }
    let kinds = [
        (
            Verdict::Steady,
            "site frees what becomes old, or does not grow",
            "sites free what becomes old, or do not grow",
        ),
        (
            Verdict::Stopped,
            "grew and stopped, as caches do",
            "grew and stopped, as caches do",
        ),
        (
            Verdict::Growing,
            "grows in a way that speaks against a leak",
            "grow in a way that speaks against a leak",
        ),
        (
            Verdict::Unknown,
            "has too few samples to tell",
            "have too few samples to tell",
        ),
    ];
    let parts: Vec<String> = kinds
        .into_iter()
        .filter(|(verdict, ..)| judged(*verdict) > 0)
        .map(|(verdict, one, many)| plural(judged(verdict), one, many))
        .collect();
    parts.join(", ")
}

fn suspect(out: &mut String, site: &Finding, answer: &Answer) {
    let live = format!(
        "live {} in {}",
        estimate(site.live_bytes, site.live_error),
        wording::blocks(&count(site.live_blocks))
    );
    let likely = site
        .growth
        .as_ref()
        .filter(|_| site.verdict == Verdict::LikelyLeak);
    match likely {
        Some(growth) => {
            let rate = wording::rate(growth.bytes_per_second, growth.bytes_per_second_error);
            let _ = writeln!(out, "\n  {rate}   {live}");
        }
        None => {
            let _ = writeln!(out, "\n  {live}");
        }
    }
    stack(out, site);
    if let Some(growth) = likely {
        let _ = writeln!(
            out,
            "    why   grew by {} in {} ({:.1} sigma) and goes on; of what got older than {}, {:.1} % is alive",
            estimate(growth.bytes, growth.error),
            duration(growth.seconds),
            growth.sigma,
            duration(growth.old_from),
            100.0 * growth.old_alive
        );
        if let (Some((soon, late)), Some(limit)) = (growth.until_limit, &answer.limit) {
            let _ = writeln!(
                out,
                "    then  {} of {} is reached in {} to {}",
                limit.what,
                bytes(limit.bytes as f64),
                duration(soon),
                duration(late)
            );
        }
    }
    evidence(out, site);
}

/// What marks, reachability and the watch have to say.
fn evidence(out: &mut String, site: &Finding) {
    if let Some(kept) = site.kept.filter(|_| site.is_kept()) {
        let _ = writeln!(
            out,
            "    kept  {} from {}, each alive two marks later",
            estimate(kept.bytes, kept.error),
            plural(kept.epochs_that_left as usize, "epoch", "epochs")
        );
    }
    if let Some(reach) = site.reach.filter(|_| site.has_unreachable()) {
        let _ = writeln!(
            out,
            "    lost  nothing points to {} of it ({})",
            estimate(reach.unreachable_bytes, reach.unreachable_error),
            plural(reach.unreachable_samples, "sample", "samples")
        );
    }
    if let Some(series) = &site.watched {
        let curve: Vec<f64> = series.points.iter().map(|point| point.bytes).collect();
        let _ = writeln!(
            out,
            "    seen  {} while watched  {}",
            change(series.change, series.error),
            sparkline(&curve, 24)
        );
    }
}

fn change(value: f64, error: f64) -> String {
    if value == 0.0 && error == 0.0 {
        return "no change".to_owned();
    }
    let sign = if value >= 0.0 { "+" } else { "" };
    format!("{sign}{}", estimate(value, error))
}

fn stack(out: &mut String, site: &Finding) {
    let _ = writeln!(out, "    at    {}", named(site));
    let callers = site.call_site.callers();
    for frame in callers.iter().take(CALLERS) {
        let place = frame
            .short_place()
            .unwrap_or_else(|| frame.module_name().to_owned());
        let _ = writeln!(out, "          {}  {place}", frame.function);
    }
    if callers.len() > CALLERS {
        let _ = writeln!(out, "          … {} more", callers.len() - CALLERS);
    }
}

fn named(site: &Finding) -> String {
    format!("{}  {}", site.function, site.call_site.short_place())
}

/// A verdict's reason, in a few words.
pub fn reason(site: &Finding) -> &'static str {
    match site.doubt {
        Some(Doubt::Slowing) => "slows down, as a cache that fills",
        Some(Doubt::Uneven) => "in bursts",
        Some(Doubt::Stopped) => "stopped",
        Some(Doubt::OldIsFreed) => "what becomes old is freed",
        Some(Doubt::WithinError) => "no growth beyond the error",
        Some(Doubt::TooFew) => "too few samples",
        Some(Doubt::Lost) => "too many samples of live blocks are lost",
        Some(Doubt::TooShort) => "a cache that fills up may look like this for half a minute",
        None => "grows, goes on, and what is old stays",
    }
}

fn one_line(out: &mut String, site: &Finding) {
    let _ = writeln!(
        out,
        "  {:>20}  {}  ({})",
        estimate(site.live_bytes, site.live_error),
        named(site),
        reason(site)
    );
}

fn shown(answer: &Answer) -> usize {
    if answer.all { usize::MAX } else { OTHERS }
}

fn more(out: &mut String, all: usize, shown: usize) {
    if all > shown {
        let _ = writeln!(out, "  … and {} more (--all)", all - shown);
    }
}

/// The sum of live bytes over sites, as an estimate.
fn live_of(sites: &[&Finding]) -> String {
    let live: f64 = sites.iter().map(|site| site.live_bytes).sum();
    let variance: f64 = sites.iter().map(|site| site.live_error.powi(2)).sum();
    estimate(live, variance.sqrt())
}

/// The rest: named one by one only on demand.
fn others(out: &mut String, answer: &Answer, open: &[&Finding]) {
    let unknown = if answer.lost_share > TOO_MANY_LOST {
        "Too many samples are lost to tell"
    } else {
        "Too few samples to tell"
    };
    for (verdict, title) in [
        (Verdict::Stopped, "Grew and stopped"),
        (Verdict::Steady, "Steady"),
        (Verdict::Unknown, unknown),
    ] {
        let sites: Vec<&Finding> = open
            .iter()
            .filter(|site| site.verdict == verdict && !site.is_suspect())
            .copied()
            .collect();
        if sites.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "\n{title}: {}, {} live{}",
            plural(sites.len(), "site", "sites"),
            live_of(&sites),
            if answer.all { ":" } else { "." }
        );
        if answer.all {
            sites.iter().for_each(|site| one_line(out, site));
        }
    }
    suppressed(out, answer);
}

fn suppressed(out: &mut String, answer: &Answer) {
    let sites: Vec<&Finding> = answer
        .sites
        .iter()
        .filter(|site| site.suppressed_by.is_some())
        .collect();
    if !sites.is_empty() {
        let _ = writeln!(
            out,
            "\nSuppressed: {}, {} live.",
            plural(sites.len(), "site", "sites"),
            live_of(&sites)
        );
    }
}

fn at_exit(out: &mut String, answer: &Answer) {
    let mut left: Vec<&Finding> = answer
        .sites
        .iter()
        .filter(|site| site.live_samples > 0 && site.suppressed_by.is_none())
        .collect();
    left.sort_by(|a, b| b.live_bytes.total_cmp(&a.live_bytes));
    let end = if answer.state == "killed" {
        "When it was killed"
    } else {
        "At its end"
    };
    if left.is_empty() {
        let _ = writeln!(
            out,
            "{end} nothing was live, because {}.",
            why_empty(answer)
        );
    } else {
        let _ = writeln!(
            out,
            "{end} {} were live, from {}:",
            live_of(&left),
            plural(left.len(), "site", "sites")
        );
    }
    let most = if answer.all { usize::MAX } else { 2 * OTHERS };
    for site in left.iter().take(most) {
        let _ = writeln!(
            out,
            "\n  live {} in {}",
            estimate(site.live_bytes, site.live_error),
            wording::blocks(&count(site.live_blocks))
        );
        stack(out, site);
    }
    more(out, left.len(), most);
    suppressed(out, answer);
    if answer.interval > 1 {
        let _ = writeln!(
            out,
            "\nOne byte in {} is sampled, so small remains may be missing. Run with sample=1 to see every block.",
            wording::plain_count(answer.interval)
        );
    }
}

fn why_empty(answer: &Answer) -> String {
    if let Some(reason) = &answer.nothing_because {
        return reason.clone();
    }
    if answer.sites.iter().any(|s| s.live_samples > 0) {
        "all of it is suppressed".to_owned()
    } else {
        "every block that was sampled had been freed".to_owned()
    }
}

fn check(out: &mut String, answer: &Answer) {
    let outcome = &answer.outcome;
    let _ = writeln!(
        out,
        "\nCheck {}: {}, {}.",
        match outcome.code() {
            0 => "passed",
            1 => "FAILED",
            _ => "without an answer",
        },
        plural(outcome.sites, "site counts", "sites count"),
        bytes(outcome.bytes)
    );
    if let (2, Some(reason)) = (outcome.code(), &outcome.unanswered) {
        let _ = writeln!(out, "  {reason}.");
    }
}

fn next(out: &mut String, answer: &Answer) {
    let word = &answer.word;
    let running = answer.state == "running";
    let line = if answer.nothing_because.is_some() && running {
        format!("freehold doctor {}", answer.pid)
    } else if running && !answer.sites.iter().any(Finding::is_suspect) {
        format!("freehold leaks {word} --for 5m")
    } else {
        format!("freehold report {word} -o report.html")
    };
    let _ = writeln!(out, "\nNext: {line}");
}

/// A curve of so many cells.
pub fn sparkline(values: &[f64], cells: usize) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().fold(0.0, f64::max);
    let cells = cells.min(values.len());
    (0..cells)
        .map(|cell| {
            // The last value of each part: the end of the curve has to be now.
            let place = ((cell + 1) * values.len() / cells).saturating_sub(1);
            let level = if most > 0.0 {
                (values[place] / most * 7.0).round() as usize
            } else {
                0
            };
            LEVELS[level.min(7)]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_ends_with_now() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0, 4.0], 8), "▁▃▅█");
        assert_eq!(sparkline(&[1.0, 9.0, 1.0, 0.0], 2), "█▁");
        assert_eq!(sparkline(&[], 8), "");
    }
}
