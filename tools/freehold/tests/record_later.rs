//! `freehold record PID`: of a program that runs already, what it does from then on until the command ends.

mod observed;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use observed::{command, compile, library, text};
use profile_file::testing::skip;
use serde_json::Value;

/// A program that `freehold run --recordable` has started.
struct Ready {
    run: Child,
    said: BufReader<std::process::ChildStdout>,
    asks: ChildStdin,
    _place: tempfile::TempDir,
}

impl Ready {
    fn start(options: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let source = include_str!("../../../tests/record/ready.c");
        let flags = ["-D_GNU_SOURCE", "-fno-builtin", "-pthread"];
        let program = compile(place.path(), "ready", source, &flags);
        let mut run = Command::new(command())
            .args(["run", "--keep"])
            .arg(place.path().join("kept"))
            .args(options)
            .arg("--")
            .arg(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (said, asks) = (run.stdout.take().unwrap(), run.stdin.take().unwrap());
        let said = BufReader::new(said);
        let _place = place;
        Self {
            run,
            said,
            asks,
            _place,
        }
    }

    fn expect(&mut self, wanted: &str) {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), wanted);
    }

    fn say(&mut self) {
        self.asks.write_all(b"\n").unwrap();
    }

    /// The program is the command's only child.
    fn pid(&self) -> String {
        let own = self.run.id();
        let path = format!("/proc/{own}/task/{own}/children");
        let children = std::fs::read_to_string(path).unwrap();
        children.split_whitespace().next().unwrap().to_owned()
    }
}

fn info(trace: &Path) -> Value {
    let output = Command::new(command())
        .args(["trace", "info", "--json"])
        .arg(trace)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

fn is_built() -> bool {
    library().with_file_name("libfreehold-record.so").is_file()
}

#[test]
fn a_program_that_runs_is_recorded_until_the_command_ends() {
    if !is_built() {
        skip(
            "a_program_that_runs_is_recorded_until_the_command_ends: no recorder in the build directory",
        );
        return;
    }
    let mut ready = Ready::start(&["--recordable"]);
    ready.expect("early");
    let (pid, place) = (ready.pid(), tempfile::tempdir().unwrap());
    let trace = place.path().join("now.trace");
    let mut record = Command::new(command())
        .args(["record", "-o"])
        .arg(&trace)
        .arg(&pid)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(record.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.contains("is recorded until Ctrl-C"), "{line}");
    ready.say();
    ready.expect("recorded");
    let own = rustix::process::Pid::from_raw(record.id() as i32).unwrap();
    rustix::process::kill_process(own, rustix::process::Signal::INT).unwrap();
    told.read_to_string(&mut line).unwrap();
    assert!(record.wait().unwrap().success(), "{line}");
    ready.say();
    ready.expect("late");
    assert!(ready.run.wait().unwrap().success());

    // Before it 500 blocks and 100 pairs, behind it 1,000 pairs: neither is in the trace.
    let info = info(&trace);
    let calls = &info["tally"]["calls"];
    assert_eq!(
        (&calls["malloc"], &calls["free"]),
        (&1100.into(), &1100.into()),
        "{info}"
    );
    let losses = &info["losses"];
    assert_eq!(
        (&losses["unknown_frees"], &losses["lost"]),
        (&500.into(), &0.into())
    );
    assert_eq!(
        (&info["tally"]["threads"], &losses["missed_frees"]),
        (&2.into(), &0.into())
    );
    assert_eq!(info["header"]["allocator"], "freehold");
}

/// Says when it is ready, and answers each line with 50,000 pairs and a line.
const PAIRS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    puts("ready");
    fflush(stdout);
    while (getchar() == '\n') {
        for (int i = 0; i < 50000; i++) {
            void *volatile block = malloc(64);
            free(block);
        }
        puts("done");
        fflush(stdout);
    }
}
"#;

/// The ring is as large as was said, also where the command decides later that it is one.
#[test]
fn a_ring_that_is_asked_for_later_keeps_its_size() {
    if !is_built() {
        skip("a_ring_that_is_asked_for_later_keeps_its_size: no recorder in the build directory");
        return;
    }
    const BLOCKS: u64 = 4;
    let place = tempfile::tempdir().unwrap();
    let program = compile(place.path(), "pairs", PAIRS, &["-fno-builtin"]);
    let mut run = Command::new(&program)
        .env(
            "LD_PRELOAD",
            library().with_file_name("libfreehold-record.so"),
        )
        .env("FREEHOLD_RECORD", place.path())
        .env("FREEHOLD_RECORD_LATER", "1")
        .env("FREEHOLD_RECORD_BLOCKS", BLOCKS.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(run.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let trace = place.path().join("ring.trace");
    let mut record = Command::new(command())
        .args(["record", "--when-full", "ring", "-o"])
        .arg(&trace)
        .arg(run.id().to_string())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(record.stderr.take().unwrap());
    told.read_line(&mut line).unwrap();
    assert!(line.contains("is recorded until"), "{line}");
    run.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    said.read_line(&mut line).unwrap();
    let own = rustix::process::Pid::from_raw(record.id() as i32).unwrap();
    rustix::process::kill_process(own, rustix::process::Signal::INT).unwrap();
    told.read_to_string(&mut line).unwrap();
    assert!(record.wait().unwrap().success(), "{line}");
    drop(run.stdin.take());
    assert!(run.wait().unwrap().success());
    let info = info(&trace);
    let (kept, lost) = (&info["tally"]["ops"], &info["losses"]["lost"]);
    assert!(kept.as_u64().unwrap() <= BLOCKS * 65536 / 8, "{info:#}");
    assert!(lost.as_u64().unwrap() > 50_000, "{info:#}");
}

/// What is not ready, was recorded or is not there is told so, and how it would be.
#[test]
fn a_program_that_cannot_be_recorded_is_told_so() {
    if !is_built() {
        skip("a_program_that_cannot_be_recorded_is_told_so: no recorder in the build directory");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let trace = place.path().join("now.trace");
    let record = |pid: &str, options: &[&str]| {
        let output = Command::new(command())
            .args(["record", "--for", "10ms", "-o"])
            .arg(&trace)
            .args(options)
            .arg(pid)
            .output()
            .unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let mut plain = Ready::start(&[]);
    plain.expect("early");
    let (code, said) = record(&plain.pid(), &[]);
    assert!(
        code == Some(2) && said.contains("run --recordable"),
        "{said}"
    );
    let mut ready = Ready::start(&["--recordable"]);
    ready.expect("early");
    // Nothing is allocated in this time.
    let (code, said) = record(&ready.pid(), &[]);
    assert!(code == Some(2) && said.contains("made no call"), "{said}");
    let (code, said) = record(&ready.pid(), &[]);
    assert!(
        code == Some(2) && said.contains("recorded already"),
        "{said}"
    );
    let (code, said) = record("4194305", &[]);
    assert!(code == Some(2) && said.contains("no process"), "{said}");
    let output = Command::new(command())
        .args(["record", "--for", "1s", "true"])
        .output()
        .unwrap();
    assert!(text(&output.stderr).contains("--for is for a process"));
    // Without their input they end by themselves.
    for mut one in [plain, ready] {
        drop(one.asks);
        one.run.wait().unwrap();
    }
}
