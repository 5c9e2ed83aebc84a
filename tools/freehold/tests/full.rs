//! A profile file that there is no room for, from the beginning or later: every command says so, and none takes what is
//! missing for freed or for never allocated.

mod observed;

use std::fs;
use std::path::Path;

use observed::*;
use serde_json::Value;

/// Holds 20 MiB, and 130 MiB more after a line of input; then as much again, until there is no more input.
const GROWS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *held[1000000];
static int count;

__attribute__((noinline)) static void early(int blocks) {
    while (blocks-- > 0) memset(held[count++] = malloc(1000), 1, 1000);
}

__attribute__((noinline)) static void later(int blocks) {
    while (blocks-- > 0) memset(held[count++] = malloc(1000), 1, 1000);
}

int main(void) {
    early(20000);
    puts("early");
    fflush(stdout);
    while (getchar() != EOF) {
        later(130000);
        puts("later");
        fflush(stdout);
    }
    return 0;
}
"#;

/// What a command says of `word`, on both outputs; of a report, the page.
fn said(directory: &Path, question: &[&str]) -> String {
    let output = freehold(question);
    let page = directory.join("report.html");
    text(&output.stdout) + &text(&output.stderr) + &fs::read_to_string(page).unwrap_or_default()
}

fn everything_says_so(directory: &Path, word: &str) {
    let page = directory.join("report.html").display().to_string();
    for question in [
        vec!["profile", word],
        vec!["profile", word, "--json"],
        vec!["leaks", word, "--for", "0"],
        vec!["leaks", word, "--for", "0", "--json"],
        vec!["explain", word],
        vec!["explain", word, "--json"],
        vec!["top", word, "--once"],
        vec!["top", word, "--once", "--json"],
        vec!["report", word, "--output", &page],
        vec!["diff", word, word, "--all"],
        vec!["metrics", word],
    ] {
        let said = said(directory, &question);
        let words = ["not entered for want of room", "of the samples are lost"];
        assert!(
            words.iter().any(|word| said.contains(word)),
            "{question:?} says nothing of it:\n{said}"
        );
    }
}

fn no_answer_is_wrong(word: &str) {
    let leaks = text(&freehold(&["leaks", word, "--for", "0"]).stdout);
    assert!(
        leaks.contains("No verdict, because 8") && !leaks.contains("No leak found"),
        "{leaks}"
    );
    let check = freehold(&["leaks", word, "--for", "0", "--fail-on", "likely"]);
    assert_eq!(check.status.code(), Some(2), "{}", text(&check.stdout));
    let explained = answer(&["explain", word]);
    // Whether the heap grew the allocator's counts say, of which none is lost: two seconds of them, on a slow machine, are enough.
    assert!(
        !explained.contains("Fine:") || explained.contains("has not grown beyond doubt"),
        "{explained}"
    );
    for wrong in [
        "no call site is a likely leak",
        "Fragmentation:",
        "were freed since",
    ] {
        assert!(!explained.contains(wrong), "{wrong}\n{explained}");
    }
    // What was live, 150 MB of blocks of 1,000 bytes, is within one error bar; that is as old as the allocator's count.
    let profile: Value = serde_json::from_str(&answer(&["profile", word, "--json"])).unwrap();
    let live = &profile["totals"]["live"];
    let (bytes, error) = (
        live["bytes"].as_f64().unwrap(),
        live["error"].as_f64().unwrap(),
    );
    assert!(
        (bytes - 150e6).abs() < 1.1 * error && bytes < 60e6,
        "{bytes} ± {error}"
    );
}

#[test]
fn a_place_that_fills_up_later_is_said_by_every_command() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "grows", GROWS, &[]);
    let program = program.to_str().unwrap();
    let mut run = Observed::start_with(&["--sample", "4k"], &[program], |command| {
        limit_files(command, 448 << 10);
    });
    assert_eq!(run.line(), "early");
    run.say("\n");
    assert_eq!(run.line(), "later");
    let pid = run.pid().to_string();
    everything_says_so(directory.path(), &pid);
    let saved = directory.path().join("then.freehold").display().to_string();
    answer(&["profile", &pid, "--save", &saved]);
    everything_says_so(directory.path(), &saved);
    run.say("\n");
    assert_eq!(run.line(), "later");
    let changed = answer(&["diff", &saved, &pid, "--all"]);
    assert!(
        !changed.contains("exact") && !changed.contains("shrank"),
        "{changed}"
    );
    let (code, told, profiles) = run.end();
    assert_eq!(code, 0);
    assert!(told.contains("% of the samples are lost"), "{told}");
    let peak = told.split("heap at most ").nth(1).unwrap();
    assert!(peak.split(',').next().unwrap().contains('±'), "{told}");
    let left = profiles.path().join(format!("freehold-{pid}"));
    let left = left.to_str().unwrap();
    everything_says_so(directory.path(), left);
}

#[test]
fn what_is_missing_is_neither_freed_nor_no_leak() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "grows", GROWS, &[]);
    let program = program.to_str().unwrap();
    let mut run = Observed::start_with(&["--sample", "4k"], &[program], |command| {
        limit_files(command, 448 << 10);
    });
    assert_eq!(run.line(), "early");
    run.say("\n");
    assert_eq!(run.line(), "later");
    no_answer_is_wrong(&run.pid().to_string());
    let pid = run.pid();
    let (_, _, profiles) = run.end();
    let left = profiles.path().join(format!("freehold-{pid}"));
    no_answer_is_wrong(left.to_str().unwrap());
}

/// Holds blocks of one size and then of another one, of which the slots of samples are nearly twice as large. Says how many bytes it
/// asked for.
const TURNS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    size_t early = atoi(argv[1]), all = atoi(argv[2]), held = 0;
    (void)argc;
    for (size_t i = 0; i < all; i++) {
        size_t n = i < early ? 1000 : 1100;
        memset(malloc(n), 1, n);
        held += n;
    }
    printf("%zu\n", held);
    fflush(stdout);
    return getchar() == EOF;
}
"#;

/// A part of an explanation: its bytes, and how far they may be off.
fn part(explained: &Value, name: &str) -> (f64, f64) {
    let lines = explained["freehold"].as_array().unwrap();
    let line = lines.iter().find(|line| line["part"] == name);
    line.map_or((0.0, 0.0), |line| {
        let error = line["error_bytes"].as_f64().unwrap_or(0.0);
        (line["bytes"].as_f64().unwrap(), error)
    })
}

/// `explain` and the live total of `profile`, of the program after so many blocks, with a profile file of `limit` bytes at most;
/// and what it holds.
fn turned(sample: &str, blocks: [&str; 2], limit: Option<u64>) -> (Value, Value, f64) {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "turns", TURNS, &[]);
    let program = [program.to_str().unwrap(), blocks[0], blocks[1]];
    let mut run = Observed::start_with(&["--sample", sample], &program, |command| {
        if let Some(limit) = limit {
            limit_files(command, limit);
        }
    });
    let held: f64 = run.line().parse().unwrap();
    let pid = run.pid().to_string();
    settle(run.pid());
    let explained = serde_json::from_str(&answer(&["explain", &pid, "--json"])).unwrap();
    let profile: Value = serde_json::from_str(&answer(&["profile", &pid, "--json"])).unwrap();
    run.end();
    (explained, profile, held)
}

/// Of how many samples how many were lost, as the notes of an explanation say it.
fn lost(explained: &Value) -> (f64, f64) {
    let notes = explained["notes"].as_array().unwrap();
    let note = notes.iter().filter_map(Value::as_str);
    let mut note = note.filter_map(|note| note.split_once(" samples were not entered"));
    let (numbers, _) = note.next().unwrap();
    let (lost, all) = numbers.split_once(" of ").unwrap();
    (lost.parse().unwrap(), all.parse().unwrap())
}

/// What the program holds beside the blocks that it tells of, and what caches have: the count of these may be off by as much.
const BESIDE: f64 = 262_144.0;

/// The samples that were entered are of blocks that came first, and do not stand for the others.
#[test]
fn what_is_live_is_explained_although_nine_of_ten_samples_are_lost() {
    let (explained, profile, held) = turned("4k", ["20000", "150000"], Some(448 << 10));
    assert!(lost(&explained).0 > 20000.0, "{explained:#}");
    let (live, error) = part(&explained, "live");
    assert!(
        (live - held).abs() <= error + BESIDE && error < held / 8.0,
        "{live} ± {error}, held {held}: {explained:#}"
    );
    let total = &profile["totals"]["live"];
    let (bytes, error) = (
        total["bytes"].as_f64().unwrap(),
        total["error"].as_f64().unwrap(),
    );
    assert!(
        (bytes - held).abs() <= error && error < 1.2 * held,
        "{bytes} ± {error}, held {held}"
    );
}

/// One sample in some hundred is lost. The rest say what was asked for nearly as well as all of them.
#[test]
fn a_small_loss_is_a_small_error() {
    // About 3,840 have room, whatever is left over of their stacks and sites.
    let (explained, profile, held) = turned("4k", ["0", "17300"], Some(448 << 10));
    let (lost, all) = lost(&explained);
    assert!(lost > 0.0 && lost < 0.15 * all, "{lost} of {all}");
    let total = &profile["totals"]["live"];
    let (bytes, error) = (
        total["bytes"].as_f64().unwrap(),
        total["error"].as_f64().unwrap(),
    );
    // Three times the error of chance, and what a share of the sum is.
    assert!(
        (bytes - held).abs() <= 3.0 * error && error < held * (0.02 + 1.2 * lost / all),
        "{bytes} ± {error}, held {held}, lost {lost} of {all}"
    );
    let (live, error) = part(&explained, "live");
    assert!(
        (live - held).abs() <= error + BESIDE && error < held / 100.0,
        "{live} ± {error}, held {held}: {explained:#}"
    );
}

/// What the slots of sampled blocks have beyond their classes comes from observing. The rounding is the program's.
#[test]
fn rounding_does_not_depend_on_how_many_are_sampled() {
    let [often, seldom] = ["4k", "512k"].map(|sample| {
        let (explained, _, held) = turned(sample, ["50000", "150000"], None);
        let (live, error) = part(&explained, "live");
        assert!(
            (live - held).abs() <= 3.0 * error + BESIDE,
            "{sample}: {live} ± {error}, held {held}: {explained:#}"
        );
        explained
    });
    let ((often_bytes, often_error), (seldom_bytes, seldom_error)) =
        (part(&often, "rounding"), part(&seldom, "rounding"));
    assert!(
        (often_bytes - seldom_bytes).abs() <= 4.0 * often_error.hypot(seldom_error) + BESIDE,
        "{often:#} {seldom:#}"
    );
    let rooms = [&often, &seldom].map(|of| part(of, "sample_room").0);
    assert!(rooms[0] > 10e6 && rooms[1] < 1e6, "{rooms:?}");
}

#[test]
fn an_end_that_cannot_be_noted_is_told_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("kept");
    // The place of the record is taken, as one without room is.
    let script = r#"rm "$0/run.json" && mkdir "$0/run.json" && exit 7"#;
    let kept = kept.to_str().unwrap();
    let output = freehold(&["run", "--keep", kept, "--", "sh", "-c", script, kept]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{told}");
    assert!(told.contains("how it ended is not kept: "), "{told}");
    assert!(told.contains("ended by itself with exit code 7"), "{told}");
}
