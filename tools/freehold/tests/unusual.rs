//! What a user's shell, machine or trace may do to a command: signals, a standard error that is full, threads that cannot be
//! had, a command within a command, calls that most programs never make.

mod observed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use observed::{command, compile, imported, is_beside, library, text, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const REPLAYER: [&str; 2] = ["freehold-replayer", "libfreehold.so"];
const RECORDER: [&str; 2] = ["libfreehold-record.so", "libfreehold.so"];

fn run(arguments: &[&str]) -> Output {
    Command::new(command()).args(arguments).output().unwrap()
}

/// The command, to which signals come: what starts the tests may have set them to be ignored.
fn signalled() -> Command {
    let mut env = Command::new("env");
    env.arg("--default-signal=INT,TERM,HUP").arg(command());
    env
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

/// The processes that this one has started.
fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    children
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect()
}

fn is_there(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

/// glibc and Freehold free the block then, and return no other.
#[test]
fn a_realloc_to_nothing_frees_once() {
    if !is_beside("a_realloc_to_nothing_frees_once", &REPLAYER) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let lines = "1: malloc 0x10 64\n1: realloc 0x20 0x10 0\n1: free 0x20\n1: malloc 0x30 100\n";
    let trace = imported(directory.path(), lines);
    let output = run(&[
        "replay",
        trace.to_str().unwrap(),
        "--on",
        "system,freehold",
        "--verify",
        "--json",
    ]);
    assert!(output.status.success(), "{}", text(&output.stdout));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    for one in said["allocators"].as_array().unwrap() {
        assert_eq!(one["runs"][0]["calls"], 4, "{one:#}");
    }
}

/// The first thread frees what was there before the recording, and nothing of that is in the trace.
#[test]
fn a_thread_that_only_frees_unknown_blocks_has_no_number() {
    let directory = tempfile::tempdir().unwrap();
    let trace = imported(directory.path(), "7: free 0x10\n8: malloc 0x20 16\n");
    let output = run(&["trace", "info", "--json", trace.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(said.to_string().contains("\"malloc\":1"), "{said:#}");
}

#[test]
fn sizes_that_do_not_add_up_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let lines: String = (0..1 << 17)
        .map(|id| format!("a 4611686018427387904 {id}\n"))
        .collect();
    let trace = imported(directory.path(), &lines);
    let output = run(&["trace", "info", trace.to_str().unwrap()]);
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("2^64 bytes"), "{complaint}");
}

/// No thread can be had, and no other waits for its operations.
#[test]
fn a_replay_without_threads_ends() {
    if !is_beside("a_replay_without_threads_ends", &REPLAYER) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <errno.h>\nint pthread_create(void) { return EAGAIN; }\n";
    let refuses = compile(
        directory.path(),
        "refuses.so",
        source,
        &["-shared", "-fPIC"],
    );
    let trace = imported(
        directory.path(),
        "1: malloc 0x10 64\n2: malloc 0x20 64\n1: free 0x20\n",
    );
    let file = directory.path().join("prepared");
    for order in ["total", "deps"] {
        let prepared = run(&[
            "replay",
            trace.to_str().unwrap(),
            "--order",
            order,
            "--prepare",
            file.to_str().unwrap(),
        ]);
        assert!(prepared.status.success(), "{}", text(&prepared.stderr));
        let mut replayer = Command::new(library().with_file_name("freehold-replayer"))
            .arg(&file)
            .env("LD_PRELOAD", &refuses)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let status = wait_for("its end", || replayer.try_wait().unwrap());
        let output = replayer.wait_with_output().unwrap();
        let complaint = text(&output.stderr);
        assert_eq!(status.code(), Some(3), "{order}: {complaint}");
        assert!(complaint.contains("cannot be created"), "{complaint}");
    }
}

/// What a loader does and reading the file takes is not the allocator's.
#[test]
fn the_cpu_time_is_that_of_the_operations() {
    if !is_beside("the_cpu_time_is_that_of_the_operations", &REPLAYER) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let trace = imported(directory.path(), "a 16 1\n");
    let arguments = [
        "replay",
        trace.to_str().unwrap(),
        "--on",
        "freehold",
        "--order",
        "total",
    ];
    let output = run(&[&arguments[..], &["--json", "--repeats", "9"]].concat());
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = said["allocators"][0]["runs"].as_array().unwrap();
    let time = |run: &Value, of: &str| run[of].as_u64().unwrap();
    // One thread works and the other waits; a clock may be read late.
    let within = |run: &&Value| time(run, "cpu_ns") <= time(run, "ns") + time(run, "ns") / 4;
    assert!(runs.iter().filter(within).count() >= 5, "{runs:#?}");
}

/// It is one run of three, and the exit code says so.
#[test]
fn a_single_run_that_went_wrong_is_in_the_table() {
    if !is_beside("a_single_run_that_went_wrong_is_in_the_table", &REPLAYER) {
        return;
    }
    let source = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
void *__libc_malloc(size_t);
static long runs;
__attribute__((constructor)) static void count(void) {
    int file = open(getenv("RUNS"), O_CREAT | O_WRONLY | O_APPEND, 0600);
    struct stat about;
    if (file < 0 || write(file, ".", 1) != 1 || fstat(file, &about) != 0) abort();
    runs = (long)about.st_size;
    close(file);
}
void *malloc(size_t n) { return n == 777 && runs == 2 ? NULL : __libc_malloc(n); }
"#;
    let directory = tempfile::tempdir().unwrap();
    let fails = compile(
        directory.path(),
        "fails.so",
        source,
        &["-shared", "-fPIC", "-fno-builtin"],
    );
    let trace = imported(directory.path(), "a 777 1\nr 1\n");
    let output = Command::new(command())
        .args([
            "replay",
            trace.to_str().unwrap(),
            "--verify",
            "--limit",
            "1g",
            "--on",
        ])
        .arg(&fails)
        .env("RUNS", directory.path().join("runs"))
        .output()
        .unwrap();
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{table}");
    assert!(table.contains("1 calls failed"), "{table}");
    assert!(table.contains("of resident memory: none"), "{table}");
}

#[test]
fn a_full_standard_error_changes_no_exit_code() {
    if !is_beside("a_full_standard_error_changes_no_exit_code", &RECORDER) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("kept");
    let trace = directory.path().join("trace");
    // `ls` allocates, or there would be nothing to record.
    for (program, code) in [(&["ls", "/"], 0), (&["ls", "/no/such"], 2)] {
        let commands: [&[&str]; 2] = [
            &["run", "--keep", kept.to_str().unwrap()],
            &["record", "-o", trace.to_str().unwrap()],
        ];
        for arguments in commands {
            let full = fs::File::options().write(true).open("/dev/full").unwrap();
            let status = Command::new(command())
                .args(arguments)
                .args(program)
                .stderr(full)
                .status()
                .unwrap();
            assert_eq!(status.code(), Some(code), "{arguments:?}");
        }
    }
}

/// The inner command's program has the variables of the outer one.
#[test]
fn a_recording_within_a_program_that_could_be_recorded_has_something() {
    let what = "a_recording_within_a_program_that_could_be_recorded_has_something";
    if !is_beside(what, &RECORDER) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (kept, trace) = (
        directory.path().join("kept"),
        directory.path().join("inner.trace"),
    );
    let output = Command::new(command())
        .args([
            "run",
            "--recordable",
            "--keep",
            kept.to_str().unwrap(),
            "--",
        ])
        .arg(command())
        .args(["record", "-o", trace.to_str().unwrap(), "ls", "/"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = run(&["trace", "info", "--json", trace.to_str().unwrap()]);
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    let allocations = &said["tally"]["allocations"];
    assert!(
        allocations.as_u64().is_some_and(|count| count > 0),
        "{said:#}"
    );
}

/// Ctrl-C, and what it is by hand: the program is ended, and nothing of the command is left.
#[test]
fn a_check_that_is_interrupted_leaves_nothing() {
    if !is_beside("a_check_that_is_interrupted_leaves_nothing", &RECORDER) {
        return;
    }
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let directory = tempfile::tempdir().unwrap();
        let mut check = signalled()
            .args(["fail", "--timeout", "600", "sleep", "600"])
            .env("TMPDIR", directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let asleep = |pid: &u32| {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm"));
            comm.is_ok_and(|comm| comm.trim_end() == "sleep")
        };
        let program = wait_for("the program", || {
            children(check.id()).into_iter().find(asleep)
        });
        send(&check, signal);
        let status = wait_for("its end", || check.try_wait().unwrap());
        assert_eq!(status.code(), Some(code));
        wait_for("the program's end", || (!is_there(program)).then_some(()));
        assert!(is_empty(directory.path()), "{signal:?}: something is left");
    }
}

#[test]
fn a_replay_that_is_interrupted_leaves_nothing() {
    if !is_beside("a_replay_that_is_interrupted_leaves_nothing", &REPLAYER) {
        return;
    }
    let (directory, used) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lines: String = (0..20_000)
        .map(|id| format!("a 16 {id}\nr {id}\n"))
        .collect();
    let trace = imported(directory.path(), &lines);
    for advise in [&[][..], &["--advise"]] {
        let mut replay = signalled()
            .args([
                "replay",
                trace.to_str().unwrap(),
                "--on",
                "freehold",
                "--repeats",
                "1000",
            ])
            .args(advise)
            .env("TMPDIR", used.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("a run", || {
            (!children(replay.id()).is_empty()).then_some(())
        });
        send(&replay, Signal::INT);
        let status = wait_for("its end", || replay.try_wait().unwrap());
        assert_eq!(status.code(), Some(130));
        assert!(is_empty(used.path()), "something is left");
    }
}

/// The terminal is gone; the program's own business is whether it goes on.
#[test]
fn a_recording_survives_its_terminal() {
    if !is_beside("a_recording_survives_its_terminal", &RECORDER) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let trace: PathBuf = directory.path().join("trace");
    let mut record = signalled()
        .args(["record", "-o", trace.to_str().unwrap(), "sleep", "1"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the program", || {
        (!children(record.id()).is_empty()).then_some(())
    });
    send(&record, Signal::HUP);
    let status = wait_for("its end", || record.try_wait().unwrap());
    assert!(status.success(), "{status}");
    assert!(trace.exists());
}
