//! `freehold record` over what programs do rarely: each was a fault that somebody found.

mod observed;

use std::path::PathBuf;
use std::process::{Command, Output};

use observed::{command, compile, library, text};
use profile_file::testing::skip;
use serde_json::Value;

struct Odd {
    place: tempfile::TempDir,
    program: PathBuf,
}

impl Odd {
    fn new(what: &str) -> Option<Self> {
        if !library().with_file_name("libfreehold-record.so").is_file() {
            skip(&format!("{what}: no recorder in the build directory"));
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        let source = include_str!("../../../tests/record/odd.c");
        let flags = ["-D_GNU_SOURCE", "-fno-builtin", "-pthread"];
        let program = compile(place.path(), "odd", source, &flags);
        Some(Self { place, program })
    }

    fn trace(&self) -> PathBuf {
        self.place.path().join("odd.trace")
    }

    /// A recorder that waits for ever is ended, and has no success then.
    fn record(&self, options: &[&str], arguments: &[&str]) -> Output {
        let output = Command::new("timeout")
            .arg("120")
            .arg(command())
            .args(["record", "-o"])
            .arg(self.trace())
            .args(options)
            .arg("--")
            .arg(&self.program)
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        output
    }

    fn trace_verb(&self, words: &[&str]) -> Output {
        Command::new(command())
            .arg("trace")
            .args(words)
            .arg(self.trace())
            .output()
            .unwrap()
    }

    fn info(&self) -> Value {
        serde_json::from_slice(&self.trace_verb(&["info", "--json"]).stdout).unwrap()
    }
}

fn nothing_lost(info: &Value) {
    let losses = &info["losses"];
    for kind in ["lost", "unknown_frees", "missed_frees"] {
        assert_eq!(losses[kind], 0, "{kind} in {info:#}");
    }
}

/// A release of NULL is none, also where a call was refused and so NULL was what it returned.
#[test]
fn a_release_of_nothing_is_not_recorded() {
    let Some(odd) = Odd::new("a_release_of_nothing_is_not_recorded") else {
        return;
    };
    for allocator in ["system", "freehold"] {
        odd.record(&["--on", allocator], &["nulls"]);
        let info = odd.info();
        nothing_lost(&info);
        assert_eq!(info["losses"]["failed"], 1, "{info:#}");
        assert_eq!(info["tally"]["calls"]["free"], 2000, "{info:#}");
    }
}

/// Each thread has a block of its own: where there are fewer the recorder must not wait for what nobody makes.
#[test]
fn more_threads_live_than_there_is_room() {
    let Some(odd) = Odd::new("more_threads_live_than_there_is_room") else {
        return;
    };
    for (options, threads) in [(&["--blocks", "2"][..], 40), (&[], 1100)] {
        odd.record(options, &["crowd", &threads.to_string()]);
        let info = odd.info();
        nothing_lost(&info);
        assert_eq!(info["tally"]["threads"], threads + 1, "{info:#}");
    }
}

/// glibc's fork calls what pthread_atfork has registered, and its _Fork does not.
#[test]
fn a_child_of_bare_fork_does_not_write_into_its_parents_recording() {
    let what = "a_child_of_bare_fork_does_not_write_into_its_parents_recording";
    let Some(odd) = Odd::new(what) else {
        return;
    };
    odd.record(&["--all"], &["alone"]);
    let mut allocations = Vec::new();
    for entry in std::fs::read_dir(odd.place.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains(".trace") {
            let output = Command::new(command())
                .args(["trace", "info", "--json"])
                .arg(&path)
                .output()
                .unwrap();
            let info: Value = serde_json::from_slice(&output.stdout).unwrap();
            nothing_lost(&info);
            allocations.push(info["tally"]["calls"]["malloc"].as_u64().unwrap());
        }
    }
    allocations.sort_unstable();
    assert_eq!(allocations, [501, 20000]);
}

#[test]
fn a_thread_of_c11_has_a_start() {
    let Some(odd) = Odd::new("a_thread_of_c11_has_a_start") else {
        return;
    };
    odd.record(&[], &["thrd"]);
    let info = odd.info();
    nothing_lost(&info);
    assert_eq!(info["tally"]["threads"], 11);
    let dump = text(&odd.trace_verb(&["dump"]).stdout);
    assert_eq!(dump.matches("thread-start").count(), 10, "{dump}");
}

/// A recording that failed does not cost an older one.
#[test]
fn what_is_there_stays_when_nothing_is_recorded() {
    let Some(odd) = Odd::new("what_is_there_stays_when_nothing_is_recorded") else {
        return;
    };
    odd.record(&[], &["thrd"]);
    let before = std::fs::read(odd.trace()).unwrap();
    let not_a_program = Command::new(command())
        .args(["record", "-o"])
        .arg(odd.trace())
        .arg("/no/such/program")
        .output()
        .unwrap();
    assert_eq!(not_a_program.status.code(), Some(127));
    assert_eq!(std::fs::read(odd.trace()).unwrap(), before);
}

/// A file that may not become so large would be a signal, which ends the program.
#[test]
fn a_limit_of_file_sizes_does_not_end_the_program() {
    let Some(odd) = Odd::new("a_limit_of_file_sizes_does_not_end_the_program") else {
        return;
    };
    let line = format!(
        "ulimit -f 10000; exec {} record -o {} sh -c 'echo it runs'",
        command().display(),
        odd.trace().display()
    );
    let output = Command::new("bash").args(["-c", &line]).output().unwrap();
    let complaint = text(&output.stderr);
    assert_eq!(text(&output.stdout), "it runs\n", "{complaint}");
    assert!(
        complaint.contains("cannot make the recording: File too large"),
        "{complaint}"
    );
}
