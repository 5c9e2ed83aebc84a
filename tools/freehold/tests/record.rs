//! `freehold record` and `freehold trace`: the counts of a trace are those that the program made of its own calls.

mod observed;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use observed::{answer, command, compile, counted, is_beside, text};
use serde_json::Value;

type Counts = BTreeMap<String, u64>;

struct Place {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Place {
    /// None, and said, where there is no recorder: in a build without the libraries.
    fn new(what: &str) -> Option<Self> {
        let files = ["libfreehold-record.so", "libfreehold.so"];
        if !is_beside(what, &files) {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let program = counted(directory.path());
        Some(Self { directory, program })
    }

    fn trace(&self) -> PathBuf {
        self.directory.path().join("out.trace")
    }

    fn command(&self, options: &[&str], arguments: &[&str]) -> Command {
        let mut record = Command::new(command());
        record
            .args(["record", "--json", "-o"])
            .arg(self.trace())
            .args(options)
            .arg("--")
            .arg(&self.program)
            .args(arguments);
        record
    }

    fn record(&self, options: &[&str], arguments: &[&str]) -> Output {
        self.command(options, arguments).output().unwrap()
    }
}

fn info(trace: &Path) -> Value {
    let output = Command::new(command())
        .args(["trace", "info", "--json"])
        .arg(trace)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn said(output: &Output) -> Counts {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn counts(info: &Value) -> Counts {
    serde_json::from_value(info["tally"]["calls"].clone()).unwrap()
}

fn nothing_lost(info: &Value) {
    let losses: Counts = serde_json::from_value(info["losses"].clone()).unwrap();
    assert!(losses.values().all(|count| *count == 0), "{losses:?}");
}

/// libc allocates once for each thread; nothing else may differ.
fn same(program: &Counts, trace: &Counts) {
    for (name, count) in program {
        let found = trace.get(name).copied().unwrap_or(0);
        let threads = program["thread-start"];
        let libc = if name == "calloc" { threads } else { 0 };
        assert_eq!(found, count + libc, "{name}: {program:?} {trace:?}");
    }
    assert_eq!(
        trace.get("thread-end").copied().unwrap_or(0),
        program["thread-start"]
    );
}

#[test]
fn counts_are_the_programs_own() {
    let Some(place) = Place::new("counts_are_the_programs_own") else {
        return;
    };
    for allocator in ["system", "freehold"] {
        let output = place.record(&["--on", allocator], &["threads", "4"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let info = info(&place.trace());
        same(&said(&output), &counts(&info));
        nothing_lost(&info);
        assert_eq!(info["tally"]["threads"], 5);
        assert_eq!(info["header"]["allocator"], allocator);
    }
}

/// Threads that share blocks, slabs and regions: a release that came after the next allocation of its address would be
/// counted as missed, and the allocation's own as unknown.
#[test]
fn the_order_at_each_address_is_the_true_one() {
    let Some(place) = Place::new("the_order_at_each_address_is_the_true_one") else {
        return;
    };
    for allocator in ["system", "freehold"] {
        let output = place.record(&["--on", allocator], &["pass", "4"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let info = info(&place.trace());
        same(&said(&output), &counts(&info));
        nothing_lost(&info);
    }
}

/// Blocks whose notes have one place in the recorder's table: what a thread knows of the one says nothing of the other.
#[test]
fn blocks_that_are_far_apart_keep_their_order() {
    let Some(place) = Place::new("blocks_that_are_far_apart_keep_their_order") else {
        return;
    };
    let directory = place.directory.path();
    let far = include_str!("../../../tests/record/far.c");
    let flags = ["-shared", "-fPIC", "-fno-builtin", "-pthread"];
    let far = compile(directory, "far.so", far, &flags);
    let alias = include_str!("../../../tests/record/alias.c");
    let alias = compile(directory, "alias", alias, &["-fno-builtin", "-pthread"]);
    let output = Command::new(command())
        .args(["record", "--json", "-o"])
        .arg(place.trace())
        .arg("--on")
        .args([far.as_path(), Path::new("--"), alias.as_path()])
        // All calls are close, so that many share a stamp.
        .env("FREEHOLD_RECORD_CLOSE", "1000000000000000")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let info = info(&place.trace());
    assert!(counts(&info)["malloc"] >= 202, "{info}");
    nothing_lost(&info);
}

#[test]
fn what_was_recorded_before_sigkill_is_kept() {
    let Some(place) = Place::new("what_was_recorded_before_sigkill_is_kept") else {
        return;
    };
    let output = place.record(&[], &["kill", "3"]);
    assert_eq!(output.status.code(), Some(128 + 9));
    let info = info(&place.trace());
    same(&said(&output), &counts(&info));
    nothing_lost(&info);
}

#[test]
fn a_forked_child_has_a_trace_of_its_own() {
    let Some(place) = Place::new("a_forked_child_has_a_trace_of_its_own") else {
        return;
    };
    let output = place.record(&["--all"], &["fork", "2"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    same(&said(&output), &counts(&info(&place.trace())));
    assert_eq!(counts(&info(&place.trace()))["fork"], 1);
    let summary: Value = serde_json::from_slice(&output.stderr).unwrap();
    let child = summary["traces"][1]["file"].as_str().unwrap();
    let child = counts(&info(Path::new(child)));
    assert_eq!((child["malloc"], child["free"]), (500, 500));
}

/// libc caches the stacks of threads that ended, and frees what was theirs when it drops one: those are no calls of ours.
#[test]
fn a_thousand_threads_are_recorded() {
    let Some(place) = Place::new("a_thousand_threads_are_recorded") else {
        return;
    };
    let output = place.record(&["--on", "system"], &["threads", "1000"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let info = info(&place.trace());
    let (mut program, mut trace) = (said(&output), counts(&info));
    let frees = [&mut program, &mut trace].map(|counts| counts.remove("free").unwrap());
    assert!(
        (frees[0]..=frees[0] + 1000).contains(&frees[1]),
        "{frees:?}"
    );
    same(&program, &trace);
    nothing_lost(&info);
    assert_eq!(info["tally"]["threads"], 1001);
}

const OPERATORS: &str = r#"
#include <cstddef>
#include <new>
struct alignas(64) Wide { char c[64]; };
int main() {
    for (int i = 0; i < 100; i++) {
        delete new int(i);
        delete[] new char[40];
        delete new Wide;
        ::operator delete(new (std::nothrow) int);
    }
    int caught = 0;
    for (int i = 0; i < 10; i++) {
        try {
            volatile std::size_t huge = ~std::size_t(0) / 4;
            char *volatile block = static_cast<char *>(::operator new(huge));
            (void)block;
        } catch (const std::bad_alloc &) {
            caught++;
        }
    }
    for (int i = 0; i < 50; i++) ::operator delete(::operator new(8));
    return caught == 10 ? 0 : 1;
}
"#;

const CPP: &[&str] = &[
    "-xc++",
    "-std=c++17",
    "-O0",
    "-Wl,--no-as-needed",
    "-lstdc++",
];

/// After an exception has passed through it, the recorder goes on as before.
#[test]
fn operators_are_recorded_and_may_throw() {
    let Some(place) = Place::new("operators_are_recorded_and_may_throw") else {
        return;
    };
    let program = compile(place.directory.path(), "operators", OPERATORS, CPP);
    for allocator in ["system", "freehold"] {
        let place = Place {
            directory: tempfile::tempdir().unwrap(),
            program: program.clone(),
        };
        let output = place.record(&["--on", allocator], &[]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let counts = counts(&info(&place.trace()));
        assert_eq!((counts["new"], counts["new-aligned"]), (350, 100));
        let deleted = ["delete", "delete-sized"].map(|name| counts.get(name).copied().unwrap_or(0));
        assert_eq!(deleted.iter().sum::<u64>(), 450);
    }
}

/// Rounds of an allocation that fails, with a handler that allocates and frees, and then an exception.
const HANDLER: &str = r#"
#include <cstdlib>
#include <new>
static void handler() {
    free(malloc(10));
    std::set_new_handler(nullptr);
}
int main(int, char **argument) {
    int rounds = atoi(argument[1]), caught = 0;
    for (int i = 0; i < rounds; i++) {
        std::set_new_handler(handler);
        try {
            volatile std::size_t huge = ~std::size_t(0) / 4;
            char *volatile block = static_cast<char *>(::operator new(huge));
            (void)block;
        } catch (const std::bad_alloc &) {
            caught++;
        }
    }
    return caught == rounds ? 0 : 1;
}
"#;

/// libstdc++'s operator new calls malloc, and one cannot tell that from what a handler calls: all of it is left out. Freehold's
/// calls nobody, so the handler and the exception are there.
#[test]
fn what_a_handler_does_is_recorded_where_it_can_be_told() {
    let Some(mut place) = Place::new("what_a_handler_does_is_recorded_where_it_can_be_told") else {
        return;
    };
    place.program = compile(place.directory.path(), "handler", HANDLER, CPP);
    let recorded = |allocator: &str, rounds: &str| {
        let output = place.record(&["--on", allocator], &[rounds]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        info(&place.trace())
    };
    for (allocator, each, unknown) in [("system", 0, 10), ("freehold", 2, 0)] {
        let (none, ten) = (recorded(allocator, "0"), recorded(allocator, "10"));
        let more = |what: &str| {
            ten.pointer(what).unwrap().as_u64().unwrap()
                - none.pointer(what).unwrap().as_u64().unwrap()
        };
        assert_eq!(
            more("/tally/calls/malloc"),
            10 * each,
            "{allocator}: {ten:#}"
        );
        assert_eq!(
            more("/losses/unknown_frees"),
            unknown,
            "{allocator}: {ten:#}"
        );
    }
}

/// Frees memory until a thread is there that the program has not started.
const FREES: &str = r#"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int threads(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    while (readdir(tasks)) count++;
    closedir(tasks);
    return count - 2;
}
int main(void) {
    static char *blocks[20000];
    for (int turn = 0; turn < 100 && threads() < 2; turn++) {
        for (int i = 0; i < 20000; i++) {
            size_t size = 1 + 7919 * i % 3000;
            blocks[i] = memset(malloc(size), 1, size);
        }
        for (int i = 0; i < 20000; i++) {
            free(blocks[i]);
        }
        usleep(20000);
    }
    return threads() == 2 ? 0 : 1;
}
"#;

/// It is no thread of the program's.
#[test]
fn a_thread_of_the_allocator_is_not_recorded() {
    let Some(mut place) = Place::new("a_thread_of_the_allocator_is_not_recorded") else {
        return;
    };
    place.program = compile(place.directory.path(), "frees", FREES, &[]);
    let mut command = place.command(&[], &[]);
    let output = command
        .env("FREEHOLD", "purge=background")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let counts = counts(&info(&place.trace()));
    assert!(
        counts["malloc"] >= 20_000 && !counts.contains_key("thread-start"),
        "{counts:?}"
    );
}

/// An allocator that takes long, and says at the end what share of the CPU time its calls took, by the CPU's own clock.
const SLOW_ALLOCATOR: &str = r#"
#include <stddef.h>
#include <stdio.h>
#include <time.h>
void *__libc_malloc(size_t);
void *__libc_realloc(void *, size_t);
void *__libc_calloc(size_t, size_t);
void __libc_free(void *);
static double inside;
static int calls;
static double cpu(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}
static void *slowly(size_t size) {
    double began = cpu(CLOCK_THREAD_CPUTIME_ID);
    for (volatile int i = 0; i < 8000; i++) {
    }
    void *block = __libc_malloc(size);
    inside += cpu(CLOCK_THREAD_CPUTIME_ID) - began;
    calls++;
    return block;
}
void *malloc(size_t size) { return slowly(size); }
void *_Znwm(size_t size) { return slowly(size); }
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return __libc_realloc(old, size); }
void free(void *block) { __libc_free(block); }
void _ZdlPv(void *block) { __libc_free(block); }
__attribute__((destructor)) static void say(void) {
    double whole = cpu(CLOCK_PROCESS_CPUTIME_ID);
    // Half of each reading of the clock is outside what the two have measured, and yet in the call.
    double began = cpu(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < 1000; i++) {
        cpu(CLOCK_THREAD_CPUTIME_ID);
    }
    double reading = (cpu(CLOCK_THREAD_CPUTIME_ID) - began) / 1001;
    double share = (inside + calls * reading) / whole;
    printf("%.4f\n", share);
    fflush(stdout);
}
"#;

const SLOWLY_ALLOCATING: &str = r#"
#include <stddef.h>
#include <stdlib.h>
void *_Znwm(size_t);
void _ZdlPv(void *);
int main(int argc, char **argv) {
    int operators = argv[argc - 1][0] == 'n';
    for (int i = 0; i < 30000; i++) {
        for (volatile int j = 0; j < 12000; j++) {
        }
        if (operators) {
            _ZdlPv(_Znwm(64));
        } else {
            free(malloc(64));
        }
    }
}
"#;

/// The share of time in the allocator, from one call in 241, is within five hundredths of what the allocator counts itself.
/// In one of three tries: on a busy machine a call may have waited for its CPU.
#[test]
fn the_share_of_the_allocator_is_what_it_counts_itself() {
    let Some(mut place) = Place::new("the_share_of_the_allocator_is_what_it_counts_itself") else {
        return;
    };
    let directory = place.directory.path();
    let flags = ["-fno-builtin", "-shared", "-fPIC"];
    let slow = compile(directory, "slow.so", SLOW_ALLOCATOR, &flags);
    let flags = ["-fno-builtin", "-Wl,--no-as-needed", "-lstdc++"];
    let program = compile(directory, "slowly", SLOWLY_ALLOCATING, &flags);
    place.program = program;
    let near = |call: &str| {
        let output = place.record(&["--on", slow.to_str().unwrap()], &[call]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let own: f64 = text(&output.stdout).trim().parse().unwrap();
        let said: Value = serde_json::from_slice(&output.stderr).unwrap();
        let estimated = said["allocator_share"].as_f64().unwrap();
        println!("{call}: {estimated:.4} estimated, {own:.4} counted by the allocator");
        (0.2..0.6).contains(&own) && (estimated - own).abs() < 0.05
    };
    for call in ["malloc", "new"] {
        assert!((0..3).any(|_| near(call)), "{call}: see above");
    }
}

/// A program that becomes another has a recording for each, and all are those of one process.
#[test]
fn exec_begins_a_trace_of_its_own() {
    let Some(place) = Place::new("exec_begins_a_trace_of_its_own") else {
        return;
    };
    let output = Command::new(command())
        .args(["record", "--json", "--on", "system", "-o"])
        .arg(place.trace())
        .args(["--", "sh", "-c", "exec \"$0\" threads 2"])
        .arg(&place.program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    same(&said(&output), &counts(&info(&place.trace())));
}

/// A daemon closes all descriptors, and has one of its own with the number of the recording's. 60,000 records need more blocks.
const DAEMON: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    free(malloc(24));
    for (int i = 3; i < 64; i++) {
        close(i);
    }
    for (int i = 3; i < 64; i++) {
        if (open(argv[argc - 1], O_CREAT | O_RDWR, 0600) < 0) {
            return 1;
        }
    }
    for (int i = 0; i < 30000; i++) {
        free(malloc(24));
    }
    return 0;
}
"#;

#[test]
fn a_program_that_closes_our_descriptor_keeps_its_files() {
    let Some(mut place) = Place::new("a_program_that_closes_our_descriptor_keeps_its_files") else {
        return;
    };
    place.program = compile(place.directory.path(), "daemon", DAEMON, &["-fno-builtin"]);
    let log = place.directory.path().join("log");
    let output = place.record(&[], &[log.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(std::fs::metadata(&log).unwrap().len(), 0);
    let info = info(&place.trace());
    nothing_lost(&info);
    assert!(counts(&info)["malloc"] >= 30_000);
}

/// A pool of two blocks is always full: what is not recorded is counted, and what waits is whole.
#[test]
fn what_is_lost_is_counted() {
    let Some(place) = Place::new("what_is_lost_is_counted") else {
        return;
    };
    for how in ["wait", "drop", "ring"] {
        let options = ["--when-full", how, "--blocks", "2"];
        let output = place.record(&options, &["loop", "100000"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let info = info(&place.trace());
        let losses: Counts = serde_json::from_value(info["losses"].clone()).unwrap();
        let recorded: u64 = counts(&info).values().sum();
        // A release that the compiler put in, and one that it left out, are each one of the records or none.
        let seen = recorded + losses["lost"] + losses["unknown_frees"] - losses["missed_frees"];
        assert_eq!(seen, 200_000, "{how}: {info}");
        if how == "wait" {
            nothing_lost(&info);
        } else {
            assert!(losses["lost"] > 0, "{how} lost nothing");
        }
    }
}

#[test]
fn the_text_form_comes_in_and_parts_go_out() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("text"), "a 100 7\na 1000 9\nr 7\na 50 7\nr 9\nr 7\n").unwrap();
    let trace = |arguments: &[&str], from: &str, to: &str| {
        let output = Command::new(command())
            .arg("trace")
            .args(arguments)
            .arg(at(from))
            .arg("-o")
            .arg(at(to))
            .output()
            .unwrap();
        (output.status.success(), text(&output.stderr))
    };
    assert!(trace(&["import"], "text", "whole").0);
    assert_eq!(info(&at("whole"))["tally"]["peak_bytes"], 1100);
    assert!(trace(&["cut", "--from", "2", "--count", "2"], "whole", "part").0);
    let part = info(&at("part"));
    assert_eq!(part["tally"]["ops"], 4);
    assert_eq!(part["tally"]["live_bytes"], 1050);
    let (fine, complaint) = trace(&["cut", "--from", "6"], "whole", "behind");
    assert!(
        !fine && complaint.contains("ends with operation 5"),
        "{complaint}"
    );
    assert!(!at("behind").exists());
    assert!(trace(&["anonymize"], "whole", "other").0);
    assert_eq!(info(&at("other"))["tally"]["peak_bytes"], 104 + 1024);
    let back = answer(&["trace", "dump", "--text", at("part").to_str().unwrap()]);
    assert_eq!(back, "a 100 0\na 1000 1\nr 0\na 50 0\n");
    std::fs::write(at("text"), "a 100 7\nr 8\n").unwrap();
    let (fine, complaint) = trace(&["import"], "text", "refused");
    assert!(!fine && complaint.contains("line 2"), "{complaint}");
    assert!(!at("refused").exists());
}
