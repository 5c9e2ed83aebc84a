//! What is to be measured: the workloads that the command line's patterns leave, and how often and how long.

use anyhow::ensure;

use crate::args::{HugePages, RunArgs};
use crate::record::{Settings, Skipped, Workload};
use crate::workloads::Found;

pub struct Selection {
    pub workloads: Vec<Workload>,
    pub skipped: Vec<Skipped>,
    /// What the record says that it is of: quick, full, latency or heaps.
    pub mode: String,
    pub repeats: usize,
    /// Seconds after which no further group begins; infinite for no limit.
    pub budget: f64,
    pub timeout: f64,
    pub reference: String,
    pub patterns: Vec<String>,
    pub warm: bool,
    pub huge_pages: Option<HugePages>,
}

impl Selection {
    pub fn from_args(args: &RunArgs, found: Found) -> anyhow::Result<Self> {
        let keep = |workload: &Workload| {
            (args.full || workload.quick)
                && !(args.no_real && workload.real)
                && (args.threads.is_empty()
                    || workload.threads.is_some_and(|n| args.threads.contains(&n)))
                && selected(&workload.name, &workload.family, &args.patterns)
        };
        let workloads: Vec<Workload> = found.workloads.into_iter().filter(keep).collect();
        ensure!(
            !workloads.is_empty(),
            "no workload is left; `freehold bench list` shows what there is"
        );
        let budget = args
            .budget
            .unwrap_or(if args.full { 5100.0 } else { 540.0 });
        Ok(Self {
            workloads,
            skipped: found.skipped,
            mode: if args.full { "full" } else { "quick" }.into(),
            repeats: args.repeats.map_or(5, usize::from),
            budget: if budget > 0.0 { budget } else { f64::INFINITY },
            timeout: args.timeout.unwrap_or(if args.full { 120.0 } else { 30.0 }),
            reference: args.reference.clone().unwrap_or_default(),
            patterns: args.patterns.clone(),
            warm: !args.no_warm,
            huge_pages: args.thp,
        })
    }

    pub fn settings(&self, warmed_bytes: u64) -> Settings {
        Settings {
            mode: self.mode.clone(),
            repeats: self.repeats,
            // JSON has no infinity.
            budget_seconds: if self.budget.is_finite() {
                self.budget
            } else {
                0.0
            },
            timeout_seconds: self.timeout,
            warmed_bytes,
            reference: self.reference.clone(),
            patterns: self.patterns.clone(),
        }
    }
}

/// A name is in when one of the plain patterns matches it (or there is none) and no pattern with a leading `!` does.
fn selected(name: &str, family: &str, patterns: &[String]) -> bool {
    let hit = |pattern: &str| matches(name, pattern) || family == pattern;
    let (out, into): (Vec<&String>, Vec<&String>) = patterns
        .iter()
        .partition(|pattern| pattern.starts_with('!'));
    (into.is_empty() || into.iter().any(|pattern| hit(pattern)))
        && !out.iter().any(|pattern| hit(&pattern[1..]))
}

/// The pieces between the stars, in order, anywhere in the name: "rep*2t" finds "replace-16-255-2t".
fn matches(name: &str, pattern: &str) -> bool {
    let mut rest = name;
    pattern.split('*').all(|piece| match rest.find(piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_select_and_exclude() {
        let patterns =
            |words: &[&str]| -> Vec<String> { words.iter().map(|w| (*w).to_owned()).collect() };
        assert!(selected(
            "replace-16-255-2t",
            "random_replace",
            &patterns(&["rep*2t"])
        ));
        assert!(selected(
            "replace-16-255-2t",
            "random_replace",
            &patterns(&["random_replace"])
        ));
        assert!(!selected("larson-8t", "larson", &patterns(&["rep*2t"])));
        assert!(selected("larson-8t", "larson", &[]));
        assert!(!selected("larson-8t", "larson", &patterns(&["!larson"])));
        assert!(selected("hello", "hello", &patterns(&["!larson"])));
    }
}
