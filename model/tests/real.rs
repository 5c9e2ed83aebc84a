//! The code that ships, explored. `FREEHOLD_SOAK` (seconds a scenario) asks for the long form.

use std::time::Instant;

use freehold_model::explore::{Bounds, MOST_STEPS, every_interleaving, random_interleavings};
use freehold_model::scenarios;

/// Seconds that one scenario may take in the long form.
fn soak() -> Option<u64> {
    std::env::var("FREEHOLD_SOAK").ok()?.parse().ok()
}

fn explore(part: usize, parts: usize) {
    let mut unfinished = vec![];
    let only = std::env::var("FREEHOLD_MODEL_ONLY").unwrap_or_default();
    assert!(
        scenarios::all()
            .iter()
            .any(|entry| entry.name.contains(&only)),
        "no scenario is called anything with {only:?}"
    );
    for (number, entry) in scenarios::all().into_iter().enumerate() {
        if number % parts != part || !entry.name.contains(&only) {
            continue;
        }
        let bounds = match soak() {
            Some(seconds) => Bounds {
                preemptions: entry.preemptions.map(|n| n + 1),
                seconds,
                steps: MOST_STEPS,
            },
            None => Bounds {
                preemptions: entry.preemptions,
                seconds: 600,
                steps: MOST_STEPS,
            },
        };
        let begun = Instant::now();
        let outcome = every_interleaving("real", &entry.scenario, bounds);
        eprintln!(
            "{}: {} runs, {:.1} s, {}{:?}",
            entry.name,
            outcome.runs,
            begun.elapsed().as_secs_f64(),
            if outcome.complete {
                "complete, preemptions ≤ "
            } else {
                "NOT complete, preemptions ≤ "
            },
            bounds.preemptions,
        );
        if let Some(finding) = outcome.finding {
            panic!("{}: {finding}", entry.name);
        }
        if !outcome.complete {
            unfinished.push(entry.name);
        }
    }
    assert!(
        unfinished.is_empty() || soak().is_some(),
        "no answer in time: {unfinished:?}"
    );
}

#[test]
fn every_structure_first_half() {
    explore(0, 2);
}

#[test]
fn every_structure_second_half() {
    explore(1, 2);
}

#[test]
fn long_random_programs() {
    let (seeds, iterations) = if soak().is_some() {
        (2_000, 200)
    } else {
        (40, 25)
    };
    for seed in 1..=seeds {
        let outcome =
            random_interleavings("real", &scenarios::random_program(seed, 12), iterations);
        if let Some(finding) = outcome.finding {
            panic!("seed {seed}: {finding}");
        }
        assert!(
            outcome.runs == iterations,
            "seed {seed}: only {} runs",
            outcome.runs
        );
    }
}
