//! Programs that free everything at their end: every command judges the state before, as it would have judged the living
//! program, and says so. How a program ended is told only as far as it is known.

mod observed;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use observed::*;
use profile_file::testing::{skip, skip_part};
use serde_json::Value;
use tempfile::TempDir;

/// Grows for three seconds and until a line comes, says how much it holds, frees all of it, and ends in the way that is
/// asked for; `idle` stands still until a signal comes.
const PROGRAM: &str = r#"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 30000
#define MOST 3000000
static char *held[MOST];

__attribute__((noinline)) static char *grow(size_t n) { char *p = malloc(n); memset(p, 1, n); return p; }

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    struct timespec next;
    size_t sum = 0;
    int n = 0;
    setvbuf(stdout, NULL, _IONBF, 0); /* a buffer of its own would be live at the end */
    struct pollfd line = {0, POLLIN, 0};
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (; n < MOST; n++) {
        held[n] = grow(1000);
        sum += 1000;
        for (int k = 0; k < 20; k++) free(grow(500));
        if (n == BLOCKS * 2 / 3) printf("growing\n");
        if (n % 12 != 0) continue;
        /* By the clock, so that it grows as evenly on a busy machine. */
        next.tv_nsec += 1000000;
        if (next.tv_nsec >= 1000000000) next.tv_sec++, next.tv_nsec -= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        if (n >= BLOCKS && poll(&line, 1, 0) > 0) break;
    }
    printf("%zu\n", sum);
    for (int i = 0; i <= n; i++) free(held[i]);
    if (!strcmp(how, "idle")) printf("idle\n"), poll(NULL, 0, 60000);
    if (!strcmp(how, "_exit")) _exit(0);
    if (!strcmp(how, "abort")) abort();
    return 0;
}
"#;

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&answer(arguments)).unwrap()
}

/// The first site of an answer.
fn first(answer: &Value) -> (&str, &str, f64, f64) {
    let site = &answer["sites"][0];
    (
        site["function"].as_str().unwrap(),
        site["verdict"].as_str().unwrap(),
        site["live_bytes"].as_f64().unwrap(),
        site["live_error"].as_f64().unwrap(),
    )
}

/// It is the leak, and as large as the program says.
fn is_the_leak(what: &str, answer: &Value, held: f64) {
    let (function, verdict, live, error) = first(answer);
    assert_eq!(
        (function, verdict),
        ("grow", "likely_leak"),
        "{what}: {answer:#}"
    );
    assert!(
        (live - held).abs() < 5.0 * error,
        "{what}: {live} ± {error}, and the program held {held}"
    );
}

fn start(how: &str) -> (TempDir, Observed) {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "clears", PROGRAM, &[]);
    let mut run = Observed::start(&["--sample", "4k"], &[program.to_str().unwrap(), how]);
    assert_eq!(run.line(), "growing");
    (directory, run)
}

/// The profile file that a program left.
fn profile_in(directory: &TempDir) -> PathBuf {
    let entries = std::fs::read_dir(directory.path()).unwrap();
    let mut files = entries.map(|entry| entry.unwrap().path());
    let named = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("freehold-")
    };
    files.find(named).expect("a profile file is left")
}

#[test]
fn all_commands_judge_the_state_before_the_clearing_up() {
    let (_directory, mut run) = start("");
    let pid = run.pid().to_string();
    wait_for("the leak", || {
        let live = json(&["leaks", &pid, "--for", "0", "--json"]);
        (first(&live).0 == "grow" && first(&live).1 == "likely_leak").then_some(())
    });
    assert_eq!(
        json(&["explain", &pid, "--json"])["verdict"]["finding"],
        "growth"
    );
    run.say("\n");
    let held: f64 = run.line().parse().unwrap();
    let (code, said, profiles) = run.end();
    assert_eq!(code, 0);
    for part in [
        "; likely leak: grow (clears.c:",
        " were freed only in the last ",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(said.contains("next: freehold leaks "), "{said}");
    let file = profile_in(&profiles);
    let profile = file.to_str().unwrap();
    let dead = json(&["leaks", profile, "--json"]);
    assert_eq!(dead["state"], "ended");
    is_the_leak("leaks", &dead, held);
    let cleared = dead["cleared"]["bytes"].as_f64().unwrap();
    let error = dead["cleared"]["error"].as_f64().unwrap();
    assert!(
        (cleared - held).abs() < 5.0 * error,
        "{cleared} ± {error} of {held}"
    );
    let text = freehold(&["leaks", profile, "--fail-on", "likely"]);
    assert_eq!(
        text.status.code(),
        Some(1),
        "{}",
        observed::text(&text.stdout)
    );
    is_the_leak("top", &json(&["top", profile, "--once", "--json"]), held);
    is_the_leak("report", &json(&["report", profile, "--json"]), held);
    let explained = json(&["explain", profile, "--json"]);
    assert_eq!(explained["verdict"]["finding"], "growth", "{explained:#}");
    // What is live at the end is another question, and has another answer.
    let exit = json(&["leaks", profile, "--exit", "--json"]);
    assert_eq!(exit["outcome"]["sites"], 0, "{exit:#}");
    let profile = json(&["profile", profile, "--json"]);
    assert!(profile["totals"]["live"]["bytes"].as_f64().unwrap_or(0.0) < held / 100.0);
}

#[test]
fn a_program_that_ends_while_it_is_watched_is_judged_before_that() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "clears", PROGRAM, &[]);
    // Its profile file is removed when it ends: the one who watches has to hold on to it.
    let mut child = Command::new(&program)
        .env("LD_PRELOAD", library())
        .env("FREEHOLD", "observe=1,sample=4k")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert_eq!(lines.next().unwrap().unwrap(), "growing");
    let mut watcher = Command::new(command());
    watcher.args(["leaks", &child.id().to_string(), "--for", "60s", "--json"]);
    let watcher = watcher.stdout(Stdio::piped()).spawn().unwrap();
    let open = format!("/proc/{}/fd", watcher.id());
    let profile = format!("freehold-{}", child.id());
    wait_for("the watcher, which holds the profile file", || {
        let files = std::fs::read_dir(&open).ok()?;
        let mut links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        links.find(|link| link.to_string_lossy().contains(&profile))
    });
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let held: f64 = lines.next().unwrap().unwrap().parse().unwrap();
    assert!(child.wait().unwrap().success());
    let output = watcher.wait_with_output().unwrap();
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    is_the_leak("watched", &seen, held);
    assert!(
        seen["cleared"]["bytes"].as_f64().unwrap() > held / 2.0,
        "{seen:#}"
    );
}

#[test]
fn an_end_is_told_as_far_as_it_is_known() {
    for (how, state) in [("_exit", "ended"), ("abort", "killed")] {
        let (_directory, mut run) = start(how);
        run.say("\n");
        let held = run.line().parse().unwrap();
        let (_, _, profiles) = run.end();
        let file = profile_in(&profiles);
        let found = json(&["leaks", file.to_str().unwrap(), "--json"]);
        assert_eq!(found["state"], state, "{how}");
        is_the_leak(how, &found, held);
        // Nobody knows who has only the profile file.
        let alone = file.with_file_name("elsewhere");
        std::fs::create_dir(&alone).unwrap();
        let copy = alone.join(file.file_name().unwrap());
        std::fs::copy(&file, &copy).unwrap();
        let found = json(&["leaks", copy.to_str().unwrap(), "--json"]);
        assert_eq!(found["state"], "ended or killed", "{how}");
    }
}

#[test]
fn a_python_program_that_leaks_and_ends_normally_does_not_pass() {
    let script = "import time\nkept = []\nfor i in range(2500):\n    kept.append(bytearray(10000))\n    time.sleep(0.001)\nprint(len(kept) * 10000)\n";
    if !installed("python3") {
        return skip("python3 is not installed");
    }
    let mut run = Observed::start(&["--sample", "16k"], &["python3", "-c", script]);
    let held: f64 = run.line().parse().unwrap();
    let (_, _, profiles) = run.end();
    let file = profile_in(&profiles);
    let output = freehold(&[
        "leaks",
        file.to_str().unwrap(),
        "--fail-on",
        "likely",
        "--json",
    ]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{found:#}");
    let leak = &found["sites"][0];
    let (live, error) = (
        leak["live_bytes"].as_f64().unwrap(),
        leak["live_error"].as_f64().unwrap(),
    );
    assert!(
        (live - held).abs() < 5.0 * error + held / 50.0,
        "{live} ± {error} of {held}"
    );
}

/// Nothing is said to grow, or to leak, of a program that freed all and stood still since.
fn says_no_growth(what: &str, said: &str) {
    let said = said.replace("no call site is a likely leak", "");
    for wrong in ["likely leak", "grows by", "grew by", "freed only"] {
        assert!(!said.contains(wrong), "{what} says {wrong}: {said}");
    }
}

#[test]
fn what_was_freed_before_an_idle_time_neither_grows_nor_was_freed_at_the_end() {
    let (_directory, mut run) = start("idle");
    let pid = run.pid().to_string();
    std::thread::sleep(Duration::from_secs(2));
    run.say("\n");
    let held: f64 = run.line().parse().unwrap();
    assert_eq!(run.line(), "idle");
    // It says nothing any more. For how long it has run is known all the same.
    for wait in [0, 2, 3] {
        std::thread::sleep(Duration::from_secs(wait));
        says_no_growth("leaks", &answer(&["leaks", &pid, "--for", "0"]));
        let explained = json(&["explain", &pid, "--json"]);
        assert_ne!(explained["verdict"]["finding"], "growth", "{explained:#}");
    }
    let ran = json(&["leaks", &pid, "--for", "0", "--json"])["observed_seconds"].clone();
    let ran = ran.as_f64().unwrap();
    let process = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let (code, said, profiles) = run.end();
    assert_eq!(code, 128 + 15);
    says_no_growth("run", &said);
    let file = profile_in(&profiles);
    let profile = file.to_str().unwrap();
    for command in ["leaks", "explain", "profile"] {
        says_no_growth(command, &answer(&[command, profile]));
    }
    // Nor is the room of what it freed said to lie between blocks that are live.
    let explained = json(&["explain", profile, "--json"]);
    assert_eq!(
        explained["verdict"]["finding"], "ended",
        "{held}: {explained:#}"
    );
    says_no_growth("top", &answer(&["top", profile, "--once"]));
    the_moment_is_named(profile, held);
    let found = json(&["leaks", profile, "--json"]);
    assert_eq!(found["state"], "killed");
    assert!(
        found["observed_seconds"].as_f64().unwrap() >= ran,
        "{found:#}"
    );
    assert!(found["cleared"].is_null(), "{found:#}");
    // Who has only the profile file does not know when it ended, and is told so.
    let alone = file.with_file_name("elsewhere");
    std::fs::create_dir(&alone).unwrap();
    let copy = alone.join(file.file_name().unwrap());
    std::fs::copy(&file, &copy).unwrap();
    let copy = copy.to_str().unwrap();
    for words in [
        ["leaks", copy].to_vec(),
        ["explain", copy].to_vec(),
        ["profile", copy].to_vec(),
        ["top", copy, "--once"].to_vec(),
        ["report", copy, "--json"].to_vec(),
    ] {
        let said = answer(&words);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains("Whether it ended then, or stood still, is not known"),
            "{words:?}: {said}"
        );
    }
}

/// A part of the allocator's memory, in bytes. 0: it is not said.
fn part(explained: &Value, name: &str) -> f64 {
    let lines = explained["freehold"].as_array().unwrap().iter();
    let mut bytes = lines
        .filter(|line| line["part"] == name)
        .map(|line| line["bytes"].as_f64().unwrap());
    bytes.next().unwrap_or(0.0)
}

/// What was counted before the last frees is said to be of then, and what became of it to be unknown.
fn the_moment_is_named(profile: &str, held: f64) {
    let explained = json(&["explain", profile, "--json"]);
    let metrics = freehold(&["metrics", profile]);
    let said = observed::text(&metrics.stderr);
    assert!(said.contains(" before its end"), "{said}");
    let families = observed::text(&metrics.stdout);
    let value = |name: &str| {
        let line = families.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse::<f64>().unwrap()
    };
    // A thread that is interrupted while it frees may count once more in the midst of it, or after it.
    let counted = value("freehold_live_bytes ");
    if counted < held * 0.2 {
        skip_part("it was counted again after it freed: nothing was freed since");
    }
    let freed = part(&explained, "freed_since");
    assert!(
        counted < held * 1.2 && (freed - counted).abs() < held * 0.1,
        "{counted} of {held}: {explained:#}"
    );
    assert!(
        part(&explained, "free_in_slabs") < held * 0.2,
        "{held}: {explained:#}"
    );
    let list = explained["fragmented_classes"].as_array().unwrap().iter();
    let listed: f64 = list
        .map(|class| class["free_bytes"].as_f64().unwrap())
        .sum();
    assert!(listed < held * 0.2, "{held}: {explained:#}");
    let text = answer(&["explain", profile]);
    let heading = text.lines().next().unwrap();
    assert!(
        heading.contains(" resident when it was last counted, ")
            && heading.ends_with(" before its end"),
        "{text}"
    );
    let top = answer(&["top", profile, "--once"]);
    let line = top.lines().find(|line| line.contains("RSS ")).unwrap();
    assert!(
        line.contains("counted ") && line.contains(" before the end"),
        "{top}"
    );
    assert!(
        value("freehold_statistics_age_seconds ") > 2.0,
        "{families}"
    );
    assert_eq!(value("freehold_process_running "), 0.0);
}

#[test]
fn every_command_says_that_much_was_freed_just_before_the_end() {
    let (_directory, mut run) = start("");
    run.say("\n");
    run.line();
    let (_, _, profiles) = run.end();
    let file = profile_in(&profiles);
    let profile = file.to_str().unwrap();
    let lists: [(&[&str], &str); 4] = [
        (&["profile", profile], "this is the state after"),
        (&["top", profile, "--once"], "this is the state before"),
        (&["explain", profile], "this is the state before"),
        (
            &["leaks", profile],
            "The verdict is about the moment before",
        ),
    ];
    for (words, about) in lists {
        let said = answer(words);
        assert!(
            said.contains(" were freed only in the last ") && said.contains(about),
            "{words:?}: {said}"
        );
    }
    let notes = |words: &[&str]| json(words)["notes"].to_string();
    for (words, about) in [
        (
            ["profile", profile, "--json"].to_vec(),
            "this is the state after",
        ),
        (
            ["top", profile, "--once", "--json"].to_vec(),
            "this is the state before",
        ),
        (
            ["explain", profile, "--json"].to_vec(),
            "this is the state before",
        ),
    ] {
        assert!(
            notes(&words).contains(about),
            "{words:?}: {}",
            notes(&words)
        );
    }
}
