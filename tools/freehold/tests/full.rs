//! A profile file that there is no room for, from the beginning or later: every command says so, and none takes what is
//! missing for freed or for never allocated.

mod observed;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use observed::*;
use rustix::process::{Resource, Rlimit, setrlimit};
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

/// No file that this command or what it starts writes becomes longer: as in a directory that is full, but without the right
/// to mount one.
fn limit_files(command: &mut Command, bytes: u64) {
    let limit = Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    // SAFETY: one system call, between fork and exec.
    unsafe {
        command.pre_exec(move || Ok(setrlimit(Resource::Fsize, limit)?));
    }
}

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
    for wrong in [
        "Fine:",
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
