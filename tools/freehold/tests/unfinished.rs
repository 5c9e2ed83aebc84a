//! `leaks --reachability` when patience is over before the scan: what is known by then is said, and that it is not all.

mod observed;

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use observed::*;
use profile_file::layout::{SCAN_OFFSET, SCAN_RUNNING, Scan};
use profile_file::testing::skip;
use rustix::process::{Pid, Signal, kill_process};

/// A list of 96 MiB, in a program that goes on to allocate.
const LIST: &str = r#"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static void *head;

int main(void) {
    for (int i = 0; i < 1500000; i++) {
        void **node = malloc(64);
        *node = head;
        head = node;
    }
    puts("ready");
    fflush(stdout);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (poll(&input, 1, 1) == 0) {
        void *volatile p = malloc(300000);
        free(p);
    }
    return 0;
}
"#;

/// A word of the answer to a scan.
fn word(file: &File, field: usize) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, SCAN_OFFSET + field as u64)
        .unwrap();
    u64::from_le_bytes(bytes)
}

/// Asks, and stops the program's copy while it looks. None: it was faster.
fn asked_and_stopped(file: &File, pid: &str) -> Option<(Output, Pid)> {
    let last = word(file, offset_of!(Scan, number));
    let mut asking = Command::new(command())
        .args([
            "leaks",
            pid,
            "--for",
            "0",
            "--reachability",
            "--patience",
            "2s",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let running = || {
        word(file, offset_of!(Scan, number)) != last
            && word(file, offset_of!(Scan, state)) == SCAN_RUNNING
    };
    let mut stopped = None;
    while stopped.is_none() && asking.try_wait().unwrap().is_none() {
        let copy = word(file, offset_of!(Scan, pid)) as i32;
        // Some of it should be known by then.
        let begun = word(file, offset_of!(Scan, reached_so_far)) > 0;
        if running() && begun && copy > 1 {
            stopped = Pid::from_raw(copy).filter(|it| kill_process(*it, Signal::STOP).is_ok());
        }
        thread::sleep(Duration::from_micros(200));
    }
    let output = asking.wait_with_output().unwrap();
    let copy = stopped?;
    if running() {
        return Some((output, copy));
    }
    let _ = kill_process(copy, Signal::CONT);
    None
}

#[test]
fn what_a_scan_has_found_so_far_is_said_when_patience_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "list", LIST, &[]);
    let mut run = Observed::start(&[], &[program.to_str().unwrap()]);
    assert_eq!(run.line(), "ready");
    let pid = run.pid().to_string();
    let profile = run.profiles.path().join(format!("freehold-{pid}"));
    let file = File::open(profile).unwrap();
    let found = (0..20).find_map(|_| asked_and_stopped(&file, &pid));
    let Some((output, copy)) = found else {
        return skip("the scan was never slow enough to be stopped");
    };
    let said = text(&output.stdout);
    kill_process(copy, Signal::CONT).unwrap();
    assert!(
        said.contains("the scan was not finished after 2.0 s")
            && said.contains("of live blocks can be reached for certain, of the other"),
        "{said}{}",
        text(&output.stderr)
    );
    assert!(!said.contains("cannot be reached"), "{said}");
    // The question was not answered.
    assert_eq!(output.status.code(), Some(2), "{said}");
    // With time it is.
    let whole = wait_for("a whole scan", || {
        let whole = freehold(&["leaks", &pid, "--for", "0", "--reachability"]);
        (whole.status.code() != Some(2)).then_some(whole)
    });
    assert!(
        text(&whole.stdout).contains("cannot be reached from the program's variables"),
        "{}",
        text(&whole.stdout)
    );
    run.end();
}
