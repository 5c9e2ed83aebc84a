//! `freehold shrink`: what is left of a trace shows the same, and is a trace.

mod observed;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use observed::{command, compile, imported, is_beside, text};
use serde_json::Value;

/// An allocator that dies when a block of 777 bytes is asked for while one of 555 is live.
const FRAGILE: &str = r#"
#include <stdlib.h>
void *__libc_malloc(size_t);
void __libc_free(void *);
static void *fatal;
void *malloc(size_t n) {
    if (n == 777 && fatal) abort();
    void *p = __libc_malloc(n);
    if (n == 555) fatal = p;
    return p;
}
void free(void *p) {
    if (p == fatal) fatal = NULL;
    __libc_free(p);
}
"#;

/// An allocator that takes a fifth of a second for a block of 777 bytes.
const SLOW: &str = r#"
#include <stdlib.h>
#include <unistd.h>
void *__libc_malloc(size_t);
void *malloc(size_t n) {
    if (n == 777) usleep(200000);
    return __libc_malloc(n);
}
"#;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new(what: &str) -> Option<Self> {
        let files = ["freehold-replayer", "libfreehold.so"];
        if !is_beside(what, &files) {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        Some(Self { directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn imported(&self, lines: &str) -> PathBuf {
        imported(self.directory.path(), lines)
    }
}

fn shrink(trace: &Path, arguments: &[&str]) -> Output {
    Command::new(command())
        .arg("shrink")
        .arg(trace)
        .args(arguments)
        .env_remove("FREEHOLD")
        .output()
        .unwrap()
}

fn json(arguments: &[&str], trace: &Path) -> Value {
    let output = Command::new(command())
        .args(arguments)
        .arg(trace)
        .arg("--json")
        .env_remove("FREEHOLD")
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

fn peaks(trace: &Path) -> (f64, f64, u64) {
    let said = json(
        &[
            "replay",
            "--on",
            "freehold",
            "--order",
            "total",
            "--repeats",
            "1",
        ],
        trace,
    );
    let run = &said["allocators"][0]["runs"][0];
    let rss = run["peak"].as_f64().unwrap() - run["before"].as_f64().unwrap();
    let live = said["trace"]["peak_bytes"].as_f64().unwrap();
    (rss, live, said["trace"]["ops"].as_u64().unwrap())
}

/// Four sizes, each as many blocks as fill 2 MiB, and of each every 16th stays: no page is free. Between them blocks that
/// come and go and change nothing.
fn planted() -> String {
    let (mut out, mut next) = (String::new(), 0u64);
    let mut others: Vec<u64> = Vec::new();
    for size in [256, 320, 384, 448] {
        let mut same = Vec::new();
        for number in 0..2_000_000 / size {
            next += 1;
            same.push(next);
            let _ = writeln!(out, "a {size} {next}");
            for step in 0..2 {
                next += 1;
                others.push(next);
                let _ = writeln!(
                    out,
                    "a {} {next}",
                    [40, 100, 700][(number + step) as usize % 3]
                );
                if others.len() > 100 {
                    let old = others.swap_remove(number as usize * 7 % 100);
                    let _ = writeln!(out, "r {old}");
                }
            }
        }
        for (_, id) in same.iter().enumerate().filter(|(place, _)| place % 16 != 0) {
            let _ = writeln!(out, "r {id}");
        }
    }
    for id in others {
        let _ = writeln!(out, "r {id}");
    }
    out
}

#[test]
fn a_planted_pattern_is_left() {
    let Some(place) = Place::new("a_planted_pattern_is_left") else {
        return;
    };
    let trace = place.imported(&planted());
    let (rss, live, whole) = peaks(&trace);
    assert!(rss > 2.0 * live, "{rss} of {live}: nothing to find");
    let small = place.path("out.trace");
    let limits = [
        "--trials",
        "120",
        "--for",
        "1h",
        "-o",
        small.to_str().unwrap(),
    ];
    let condition = ["--until", "rss/live > 2 on freehold"];
    let output = shrink(&trace, &[&condition[..], &limits].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (rss, live, left) = peaks(&small);
    assert!(left * 10 <= whole, "{left} of {whole}");
    // It had 1 MiB when it was judged, and has some pages more or less in each run.
    assert!(
        rss > 1.9 * live && rss >= 0.9 * (1 << 20) as f64,
        "{rss} of {live}"
    );
    let said = text(&output.stdout);
    assert!(said.contains("Next: freehold replay"), "{said}");
    assert!(said.contains("--on freehold --order total"), "{said}");
}

/// What shrink has made of our own findings: it is replayed without a fault, and needs no more than it did.
#[test]
fn our_own_findings_get_no_worse() {
    let Some(_place) = Place::new("our_own_findings_get_no_worse") else {
        return;
    };
    let findings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/findings");
    // Resident over live: 1.78, 1.49 to 1.89, and 1.28 seen.
    for (name, most) in [("growth", 2.1), ("turns", 2.3), ("threads", 1.6)] {
        let trace = findings.join(name).with_extension("trace");
        let (rss, live, _) = peaks(&trace);
        assert!(rss / live < most, "{name}: {:.2}", rss / live);
        let said = json(&["replay", "--on", "freehold", "--verify"], &trace);
        let runs = said["allocators"][0]["runs"].as_array().unwrap();
        assert!(!runs.is_empty(), "{said}");
        for run in runs {
            assert_eq!((&run["failed"], &run["wrong"]), (&0.into(), &0.into()));
        }
    }
}

#[test]
fn a_crash_comes_down_to_its_two_blocks() {
    let Some(place) = Place::new("a_crash_comes_down_to_its_two_blocks") else {
        return;
    };
    let flags = ["-fPIC", "-shared", "-fno-builtin"];
    let fragile = compile(place.directory.path(), "fragile.so", FRAGILE, &flags);
    let mut lines = String::new();
    for id in 1..=400 {
        let size = match id {
            90 => 555,
            300 => 777,
            _ => id,
        };
        let _ = writeln!(lines, "a {size} {id}");
        if id > 30 && id != 120 {
            let _ = writeln!(lines, "r {}", id - 30);
        }
    }
    let trace = place.imported(&lines);
    let condition = format!("crash on {}", fragile.display());
    let output = shrink(&trace, &["--until", &condition, "--for", "1h"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains("crash: SIGABRT"), "{said}");
    assert!(said.contains("No block can be left out any more"), "{said}");
    // Beside the trace, because no other place was named.
    let info = json(&["trace", "info"], &place.path("text.small.trace"));
    assert_eq!(info["tally"]["ops"], 2, "{said}");
    assert_eq!(info["tally"]["peak_bytes"], 555 + 777);
    // Nor does the whole one crash elsewhere.
    let output = shrink(&trace, &["--until", "crash on system"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("does not show it"));
}

#[test]
fn a_slow_call_is_found() {
    let Some(place) = Place::new("a_slow_call_is_found") else {
        return;
    };
    let flags = ["-fPIC", "-shared", "-fno-builtin"];
    let slow = compile(place.directory.path(), "slow.so", SLOW, &flags);
    let lines: String = (1..=60)
        .map(|id| format!("a {} {id}\n", if id == 41 { 777 } else { id }))
        .collect();
    let trace = place.imported(&lines);
    let condition = format!("time > 180ms on {}", slow.display());
    let output = shrink(&trace, &["--until", &condition, "--for", "1h"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    let info = json(&["trace", "info"], &place.path("text.small.trace"));
    assert_eq!(info["tally"]["ops"], 1, "{said}");
    assert_eq!(info["tally"]["peak_bytes"], 777);
    // Times are compared as the program's threads waited for each other.
    assert!(!said.contains("--order"), "{said}");
}

#[test]
fn what_cannot_be_asked_is_an_error_that_says_why() {
    let Some(place) = Place::new("what_cannot_be_asked_is_an_error_that_says_why") else {
        return;
    };
    let trace = place.imported("a 100 1\nr 1\n");
    for (arguments, part) in [
        (
            &["--until", "rss/live on freehold"][..],
            "nothing is compared",
        ),
        (&["--until", "crash on nowhere"], "nowhere was not found"),
        (
            &["--until", "crash on system", "--at-least", "1m"],
            "says nothing of a crash",
        ),
        (
            &["--until", "rss > 1m on system", "--at-least", "2ms"],
            "--at-least: `2ms`",
        ),
    ] {
        let output = shrink(&trace, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    // Of two operations the ratio is high, and says nothing.
    let output = shrink(&trace, &["--until", "rss/live > 2 on freehold"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(said.contains("is less than --at-least 1.0 MiB"), "{said}");
}
