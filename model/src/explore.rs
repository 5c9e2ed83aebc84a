//! The two explorers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::core::Core;
use crate::memory::{self, LEARNT_AN_ADDRESS as LEARNT, Mode};
use crate::program::{Hand, Scenario, Step, verify};

/// What an exploration found out.
#[derive(Debug)]
pub struct Outcome {
    /// Runs of the last, complete pass.
    pub runs: usize,
    /// The whole space within the bound was explored.
    pub complete: bool,
    /// The first thing that went wrong.
    pub finding: Option<String>,
}

/// How far loom goes.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// Most preemptions in a run; None for every interleaving.
    pub preemptions: Option<usize>,
    /// Where to stop without an answer.
    pub seconds: u64,
    /// Beyond so many steps a run is taken for one that does not end: a finding.
    pub steps: usize,
}

/// More steps than any scenario has whose threads end; it is the memory of the machine that asks for a bound.
pub const MOST_STEPS: usize = 100_000;

/// A finding is a panic that both explorers carry out of the C code. Nobody wants to see each of them with its stack: the
/// outcome has the text.
fn be_quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        if std::env::var_os("FREEHOLD_MODEL_TRACE").is_none() {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                if !EXPLORING.get() {
                    usual(info);
                }
            }));
        }
    });
}

thread_local! {
    static EXPLORING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs the prologue alone. Returns each thread's hand and the class map's bytes.
fn prologue(core: &Core, scenario: &Scenario) -> (Vec<Hand>, Vec<u8>) {
    memory::start_image();
    memory::share_bytes(scenario.has_guests());
    // SAFETY: no arguments to get wrong.
    memory::begin_threads(unsafe { (core.no_bins)() }, unsafe { (core.no_thread)() });
    // SAFETY: likewise. The scenario before this one may have set a limit.
    unsafe {
        (core.limit_install)(0, 0, None);
    }
    let mut hands = vec![Hand::default(); scenario.threads.len() + 1];
    for &(who, step) in &scenario.prologue {
        memory::i_am(who);
        if let Step::Pass(to) = step {
            let passed = hands[who].part_with();
            hands[to].receive(passed);
        } else if let Step::Share(to) = step {
            hands[to].shared = hands[who].share();
        } else if let Step::HardShare(to) = step {
            hands[to].shared_hardened = hands[who].share_hardened();
        } else {
            hands[who].step(core, step);
        }
    }
    (hands, memory::seal_image())
}

/// The message of a panic, whoever raised it.
fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_default()
}

/// One run under the explorer of this mode: threads, then the equations.
fn run(core: Core, scenario: &Scenario, hands: &[Hand], class_bytes: &[u8], mode: Mode) {
    memory::start_run(mode, class_bytes);
    hands.iter().for_each(Hand::announce);
    // std's own lock: it is taken when a thread is over, so it never makes anybody wait.
    let after: Arc<Mutex<Vec<Hand>>> =
        Arc::new(Mutex::new(vec![hands[scenario.threads.len()].clone()]));
    let threads = scenario.threads.iter().zip(hands).enumerate();
    let bodies = threads.map(|(number, (steps, hand))| {
        let (steps, mut hand, after) = (steps.clone(), hand.clone(), after.clone());
        move || {
            memory::i_am(number);
            for step in steps {
                hand.step(&core, step);
            }
            after.lock().expect("no thread panics with it").push(hand);
        }
    });
    if mode == Mode::Loom {
        let handles: Vec<_> = bodies.map(loom::thread::spawn).collect();
        handles
            .into_iter()
            .for_each(|handle| handle.join().expect("a thread of the model"));
    } else {
        let handles: Vec<_> = bodies.map(shuttle::thread::spawn).collect();
        handles
            .into_iter()
            .for_each(|handle| handle.join().expect("a thread of the model"));
    }
    if memory::learnt_an_address() {
        panic!("{LEARNT}");
    }
    memory::set_mode(Mode::Verify);
    let after = after.lock().expect("no thread panics with it");
    verify(&core, &after, scenario.has_caches());
    memory::set_mode(mode);
}

/// Explores with loom. Begins again whenever a run has met a word that the earlier ones had not.
///
/// With few preemptions first: most words are met there, and beginning again costs little.
pub fn every_interleaving(variant: &str, scenario: &Scenario, bounds: Bounds) -> Outcome {
    be_quiet();
    EXPLORING.set(true);
    let outcome = explore_with_loom(variant, scenario, bounds);
    EXPLORING.set(false);
    outcome
}

/// The bounds on preemptions, one after the other, that end with this one.
fn passes(last: Option<usize>) -> Vec<Option<usize>> {
    let before = 0..last.unwrap_or(3);
    before.map(Some).chain([last]).collect()
}

fn explore_with_loom(variant: &str, scenario: &Scenario, bounds: Bounds) -> Outcome {
    let core = Core::load(variant);
    let scenario = Arc::new(scenario.clone());
    let begun = Instant::now();
    let first = catch_unwind(AssertUnwindSafe(|| prologue(&core, &scenario)));
    let (hands, class_bytes) = match first {
        Ok((hands, bytes)) => (Arc::new(hands), Arc::new(bytes)),
        Err(panic) => {
            return Outcome {
                runs: 0,
                complete: false,
                finding: Some(text_of(&*panic)),
            };
        }
    };
    let mut passes = passes(bounds.preemptions).into_iter().peekable();
    loop {
        let preemptions = passes.peek().copied().flatten();
        let runs = Arc::new(AtomicUsize::new(0));
        let left = Duration::from_secs(bounds.seconds).saturating_sub(begun.elapsed());
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = preemptions;
        builder.max_threads = scenario.threads.len() + 1;
        builder.max_branches = bounds.steps;
        builder.max_duration = Some(left);
        let (scenario, hands, class_bytes, counter) = (
            scenario.clone(),
            hands.clone(),
            class_bytes.clone(),
            runs.clone(),
        );
        let result = catch_unwind(AssertUnwindSafe(|| {
            builder.check(move || {
                counter.fetch_add(1, Ordering::Relaxed);
                run(core, &scenario, &hands, &class_bytes, Mode::Loom);
            })
        }));
        let runs = runs.load(Ordering::Relaxed);
        let late = begun.elapsed().as_secs() >= bounds.seconds;
        match result {
            Ok(()) => {
                passes.next();
                if late || passes.peek().is_none() {
                    return Outcome {
                        runs,
                        complete: !late,
                        finding: None,
                    };
                }
            }
            Err(panic) => {
                let text = text_of(&*panic);
                if text != LEARNT {
                    return Outcome {
                        runs,
                        complete: false,
                        finding: Some(text),
                    };
                }
                if late {
                    return Outcome {
                        runs,
                        complete: false,
                        finding: None,
                    };
                }
            }
        }
    }
}

/// Explores so many random schedules with shuttle.
pub fn random_interleavings(variant: &str, scenario: &Scenario, iterations: usize) -> Outcome {
    be_quiet();
    EXPLORING.set(true);
    let outcome = explore_with_shuttle(variant, scenario, iterations);
    EXPLORING.set(false);
    outcome
}

fn explore_with_shuttle(variant: &str, scenario: &Scenario, iterations: usize) -> Outcome {
    let core = Core::load(variant);
    let (hands, class_bytes) = prologue(&core, scenario);
    let (scenario, hands, class_bytes) = (scenario.clone(), Arc::new(hands), Arc::new(class_bytes));
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = runs.clone();
    let result = catch_unwind(AssertUnwindSafe(|| {
        shuttle::check_random(
            move || {
                counter.fetch_add(1, Ordering::Relaxed);
                run(core, &scenario, &hands, &class_bytes, Mode::Shuttle);
            },
            iterations,
        )
    }));
    let runs = runs.load(Ordering::Relaxed);
    match result {
        Ok(()) => Outcome {
            runs,
            complete: true,
            finding: None,
        },
        Err(panic) => Outcome {
            runs,
            complete: false,
            finding: Some(text_of(&*panic)),
        },
    }
}
