//! `freehold run --check`: the reports of a checked program have functions and lines, and the rest is as it was.

mod observed;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use observed::*;

const PROGRAM: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define NAMED __attribute__((noinline))
static char *volatile block;
NAMED static void allocates(void) {
    block = malloc(100);
}
NAMED static void frees_first(void) {
    free(block);
}
NAMED static void frees_again(void) {
    free(block);
}
int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "daemon") == 0) {
        if (fork() == 0) { close(1); sleep(60); }
        return 5;
    }
    fprintf(stderr, "a line of its own\n");
    printf("output\n");
    fflush(stdout);
    allocates();
    frees_first();
    frees_again();
    return 3;
}
"#;

fn run(options: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(
        directory.path(),
        "twice",
        PROGRAM,
        &["-w", "-g", "-O1", "-fno-builtin"],
    );
    let done = Command::new(command())
        .args(["run", "--check", "--library"])
        .arg(library())
        .arg(program)
        .args(arguments)
        .env("FREEHOLD", options)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (done.status.code(), text(&done.stdout), text(&done.stderr))
}

#[test]
fn a_report_names_the_three_places() {
    let (code, output, said) = run("", &[]);
    assert_eq!(code, Some(128 + libc::SIGABRT), "{said}");
    assert_eq!(output, "output\n");
    assert!(said.starts_with("a line of its own\n"), "{said}");
    let mut rest = said.as_str();
    for (what, line) in [
        ("allocated at", "allocates at twice.c:8 ("),
        ("freed at", "frees_first at twice.c:11 ("),
        ("found at", "frees_again at twice.c:14 ("),
    ] {
        rest = &rest[rest
            .find(what)
            .unwrap_or_else(|| panic!("no {what}: {said}"))..];
        let frame = rest.find(line);
        assert!(
            frame.is_some_and(|at| at < 400),
            "no {line} behind {what}: {said}"
        );
    }
}

#[test]
fn the_exit_code_is_the_programs_and_its_options_stay() {
    let (code, _, said) = run("on_error=report", &[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("double free"), "{said}");
}

#[test]
fn what_keeps_the_pipe_open_is_not_waited_for() {
    let begun = Instant::now();
    let (code, _, said) = run("", &["daemon"]);
    assert_eq!(code, Some(5), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn two_ways_at_once_are_refused() {
    let said = complaint(&["run", "--check", "--guard", "true"], 2);
    assert!(said.contains("--guard"), "{said}");
}
