//! What `freehold run` says of the time that is spent in the allocator, against what the program finds out by itself.

mod observed;

use std::process::Command;

use observed::*;
use profile_file::testing::skip;
use serde_json::Value;

/// Works and allocates by turns. A timer of its CPU time asks where it is: in the library's code, or not.
const PROGRAM: &str = r#"#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
static uintptr_t begin, end;
static volatile sig_atomic_t looks, inside;
static void look(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    ucontext_t *at = context;
#ifdef __x86_64__
    uintptr_t place = at->uc_mcontext.gregs[REG_RIP];
#else
    uintptr_t place = at->uc_mcontext.pc;
#endif
    looks++;
    inside += place >= begin && place < end;
}
static void *work(void *arg) {
    int rounds = atoi(arg);
    while (clock() < 4 * CLOCKS_PER_SEC) {
        void *p[1000];
        for (int k = 0; k < 1000; k++) p[k] = malloc(16 + k % 300);
        for (int k = 0; k < 1000; k++) free(p[k]);
        for (volatile int k = 0; k < rounds; k++) {}
    }
    return NULL;
}
static void say(void) {
    setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    printf("%f\n", (double)inside / (double)looks);
}
int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[2], "short")) {
        for (int i = 0; i < 300; i++) {
            if (fork() == 0) {
                for (clock_t start = clock(); clock() - start < CLOCKS_PER_SEC / 500;) free(malloc(100));
                _exit(0);
            }
            wait(NULL);
        }
        return 0;
    }
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char rights[8];
        if (strstr(line, "libfreehold") && sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && rights[2] == 'x')
            begin = from, end = to;
    }
    fclose(maps);
    struct sigaction action = {.sa_sigaction = look, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    struct itimerval each = {{0, 4000}, {0, 4000}};
    setitimer(ITIMER_PROF, &each, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, work, argv[1]);
    atexit(say);
    // The process goes on without its first thread.
    if (argc > 2) pthread_exit(NULL);
    work(argv[1]);
    pthread_join(thread, NULL);
    return 0;
}
"#;

/// Here and in the program a look is by chance, and the program's timer ticks as rarely as the kernel's clock.
const NEAR: f64 = 0.1;

#[test]
fn the_share_is_what_the_program_finds_out_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "shared", PROGRAM, &["-O1", "-pthread"]);
    let program = program.to_str().unwrap();
    let mut shares = Vec::new();
    for rounds in ["1000", "30000"] {
        let shell = format!("{program} {rounds}; exit 0");
        // Of a process that a shell starts it is the same.
        for command in [
            &[program, rounds][..],
            &["sh", "-c", &shell],
            &[program, rounds, "leader"],
        ] {
            let output = Command::new(observed::command())
                .args(["run", "--json", "--"])
                .args(command)
                .env_remove("LD_PRELOAD")
                .env_remove("FREEHOLD")
                .output()
                .unwrap();
            let own: f64 = text(&output.stdout).trim().parse().unwrap();
            let said = text(&output.stderr);
            let said: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
            if said["allocator_share_unknown"] == "not_allowed" {
                skip("the kernel lets nobody look where a program is (perf_event_open)");
                return;
            }
            println!("{command:?}: {own:.3} by itself, {said}");
            let share = said["allocator_share"]["share"].as_f64().unwrap();
            assert!((share - own).abs() < NEAR, "{own} by itself: {said}");
            shares.push(share);
        }
    }
    // Not the same whatever the program does.
    assert!(shares[0] > shares[3] + 0.1, "{shares:?}");
}

/// Each is over before the first look, so what was seen is not what there was.
#[test]
fn of_many_short_processes_nothing_is_said() {
    if !is_allowed() {
        return skip("the kernel lets nobody look where a program is (perf_event_open)");
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "shared", PROGRAM, &["-O1", "-pthread"]);
    let run = Observed::start(&["--json"], &[program.to_str().unwrap(), "1", "short"]);
    let (code, said, _) = run.end();
    assert_eq!(code, 0);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["allocator_share_unknown"], "short_processes", "{said}");
}

fn is_allowed() -> bool {
    let run = Observed::start(&["--json"], &["true"]);
    !run.end().1.contains("not_allowed")
}

#[test]
fn the_share_is_said_with_its_error() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "shared", PROGRAM, &["-O1", "-pthread"]);
    let run = Observed::start(&[], &[program.to_str().unwrap(), "1000"]);
    let (code, said, _) = run.end();
    assert_eq!(code, 0);
    if !said.contains("in the allocator") && !is_allowed() {
        skip("the kernel lets nobody look where a program is (perf_event_open)");
        return;
    }
    let words: Vec<&str> = said.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "±").unwrap();
    let number = |at: usize| words[at].parse::<f64>().unwrap();
    assert!(
        number(at - 1) > 5.0 && (0.1..20.0).contains(&number(at + 1)),
        "{said}"
    );
}
