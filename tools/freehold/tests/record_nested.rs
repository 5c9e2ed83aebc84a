//! What an allocator calls while it allocates: its own calls are not the program's, those of the program's handlers are.

mod observed;

use observed::{command, compile, text};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Rounds of an allocation that fails, with a handler that allocates and frees, and then an exception.
const HANDLER: &str = r#"
#include <cstdio>
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

/// Records it, and says what the trace has.
fn recorded(program: &Path, options: &[&str], argument: &str, freehold: &str) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let output = Command::new(command())
        .args(["record", "-o"])
        .arg(&trace)
        .args(options)
        .arg("--")
        .arg(program)
        .arg(argument)
        .env("FREEHOLD", freehold)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = Command::new(command())
        .args(["trace", "info", "--json"])
        .arg(&trace)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn count(info: &Value, name: &str) -> i64 {
    info["tally"]["calls"][name].as_i64().unwrap_or(0)
}

/// libstdc++'s operator new calls malloc, and one cannot tell that from what a handler calls: all of it is left out. Freehold's
/// calls nobody, so the handler and the exception are there.
#[test]
fn what_a_handler_does_is_recorded_where_it_can_be_told() {
    let directory = tempfile::tempdir().unwrap();
    let flags = [
        "-xc++",
        "-std=c++17",
        "-O0",
        "-Wl,--no-as-needed",
        "-lstdc++",
    ];
    let program = compile(directory.path(), "handler", HANDLER, &flags);
    for (allocator, each, unknown) in [("system", 0, 10), ("freehold", 2, 0)] {
        let none = recorded(&program, &["--on", allocator], "0", "");
        let ten = recorded(&program, &["--on", allocator], "10", "");
        let more = |name| count(&ten, name) - count(&none, name);
        assert_eq!(more("malloc"), 10 * each, "{allocator}: {ten:#}");
        let losses = |info: &Value| info["losses"]["unknown_frees"].as_i64().unwrap();
        assert_eq!(
            losses(&ten) - losses(&none),
            unknown,
            "{allocator}: {ten:#}"
        );
    }
}

#[test]
fn a_thread_of_the_allocator_is_not_the_programs() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "frees", FREES, &[]);
    let info = recorded(&program, &[], "", "purge=background");
    assert_eq!(count(&info, "thread-start"), 0, "{info:#}");
    assert!(count(&info, "malloc") >= 64, "{info:#}");
}
