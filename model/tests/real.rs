//! The code that ships, explored. `FREEHOLD_SOAK` (seconds a scenario) asks for the long form.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

use freehold_model::explore::{Bounds, MOST_STEPS, every_interleaving, random_interleavings};
use freehold_model::scenarios::{self, Entry};

/// Seconds that one scenario may take in the long form.
fn soak() -> Option<u64> {
    std::env::var("FREEHOLD_SOAK").ok()?.parse().ok()
}

/// One scenario; whether all of it was explored.
fn explore(entry: &Entry) -> bool {
    let bounds = match soak() {
        Some(seconds) => Bounds {
            preemptions: entry.preemptions.map(|n| n + 1),
            seconds,
            steps: MOST_STEPS,
        },
        None => Bounds {
            preemptions: entry.preemptions,
            seconds: 3600, // `make test` gives it only what others leave of the CPUs
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
    outcome.complete
}

/// As many scenarios at once as there are CPUs; who is done takes the next.
#[test]
fn every_structure() {
    let only = std::env::var("FREEHOLD_MODEL_ONLY").unwrap_or_default();
    let mut asked = scenarios::all();
    asked.retain(|entry| entry.name.contains(&only));
    assert!(
        !asked.is_empty(),
        "no scenario is called anything with {only:?}"
    );
    let next = AtomicUsize::new(0);
    let unfinished = Mutex::new(vec![]);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(entry) = asked.get(next.fetch_add(1, Relaxed)) {
                    if !explore(entry) {
                        unfinished.lock().unwrap().push(entry.name);
                    }
                }
            });
        }
    });
    let unfinished = unfinished.into_inner().unwrap();
    assert!(
        unfinished.is_empty() || soak().is_some(),
        "no answer in time: {unfinished:?}"
    );
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
