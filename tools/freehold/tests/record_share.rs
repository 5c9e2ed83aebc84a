//! The share of time in the allocator that `record` and `run` say, against a profiler, on a real program: Python whose every
//! object comes from malloc.

mod observed;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use observed::{command, compile, library, text};
use profile_file::testing::{skip, skip_part};
use serde_json::Value;

/// A profiler, preloaded: a timer of the process's CPU time asks where it is, in the library's code or not.
const PROFILER: &str = r#"#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
static uintptr_t begin, end;
static volatile sig_atomic_t all, inside;
static void look(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    ucontext_t *at = context;
#ifdef __x86_64__
    uintptr_t place = at->uc_mcontext.gregs[REG_RIP];
#else
    uintptr_t place = at->uc_mcontext.pc;
#endif
    all++;
    inside += place >= begin && place < end;
}
__attribute__((constructor)) static void start(void) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char rights[8];
        if (strstr(line, "libfreehold.so") && sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && rights[2] == 'x')
            begin = from, end = to;
    }
    fclose(maps);
    if (begin == 0) return; // the command itself
    struct sigaction action = {.sa_sigaction = look, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &(struct itimerval){{0, 4000}, {0, 4000}}, NULL);
}
__attribute__((destructor)) static void say(void) {
    if (begin == 0) return;
    setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    printf("%d %d\n", (int)inside, (int)all);
    fflush(stdout);
}
"#;

/// Most of it is not the allocator's, as in most programs.
const WORK: &str = "
import json
for turn in range(5):
    text = json.dumps([{'k%d' % i: [i, str(i), {'x': i / 3}]} for i in range(20000)])
    json.loads(text)
";

/// A hundred looks, each by chance, have a standard error of 0.035; the recorder's own samples have less.
const NEAR: f64 = 0.1;
const FEWEST_LOOKS: u32 = 80;

fn python() -> Option<String> {
    let output = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| text(&output.stdout).trim().to_owned())
}

/// None if the machine gave the profiler too few looks to say anything.
fn own_share(output: &Output) -> Option<f64> {
    let said = text(&output.stdout);
    let numbers: Vec<u32> = said
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    let [inside, all] = numbers[..] else {
        panic!("{said}: {}", text(&output.stderr));
    };
    println!("the profiler: {inside} of {all} looks in the library");
    (all >= FEWEST_LOOKS).then(|| f64::from(inside) / f64::from(all))
}

/// What the command says and what the profiler has seen; None, and said, where that cannot be found out.
fn compare(how: &[&str], python: &str, profiler: &Path) -> Option<(f64, f64)> {
    let output = Command::new(command())
        .args(how)
        .args([python, "-c", WORK])
        .env("PYTHONMALLOC", "malloc")
        .env("LD_PRELOAD", profiler)
        .env_remove("FREEHOLD")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stderr).unwrap();
    if said["allocator_share_unknown"] == "not_allowed" {
        skip_part("the kernel lets nobody look where a program is (perf_event_open)");
        return None;
    }
    let Some(own) = own_share(&output) else {
        skip_part("the profiler's timer gave too few looks");
        return None;
    };
    let share = &said["allocator_share"];
    let share = share["share"].as_f64().or(share.as_f64()).unwrap();
    println!("{}: {share:.3} said, {own:.3} by the profiler", how[0]);
    Some((share, own))
}

#[test]
fn the_share_is_a_profilers() {
    library();
    let Some(python) = python() else {
        return skip("no python3");
    };
    let directory = tempfile::tempdir().unwrap();
    let flags = ["-shared", "-fPIC"];
    let profiler = compile(directory.path(), "profiler.so", PROFILER, &flags);
    let trace = directory.path().join("out.trace");
    let trace = trace.to_str().unwrap();
    for how in [
        &["record", "--json", "-o", trace, "--"][..],
        &["run", "--json", "--"],
    ] {
        // By chance a try may be off: one in three is near.
        let near = (0..3).find_map(|_| match compare(how, &python, &profiler) {
            Some((share, own)) => ((share - own).abs() < NEAR && own > 0.02).then_some(true),
            None => Some(false),
        });
        assert!(near.is_some(), "{}: see above", how[0]);
    }
}
