//! `freehold run --guard`: a touch of a guard is explained with its three places.

mod observed;

use observed::*;
use serde_json::Value;

/// Commits the misuse that it is told, each part of it in a line of its own. While a program is observed, `guard=1` chooses most
/// blocks and not all; a guarded one holds no byte more than was asked for.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <malloc.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char *volatile block;
static volatile char seen;
__attribute__((noinline)) static void makes(void) { do block = malloc(100); while (malloc_usable_size(block) != 100); seen = 0; } /* line 9 */
__attribute__((noinline)) static void frees(void) { free(block); seen = 1; } /* line 10 */
__attribute__((noinline)) static void reads(long i) { seen = block[i]; } /* line 11 */
__attribute__((noinline)) static void writes(long i) { block[i] = 1; } /* line 12 */
int main(int argc, char **argv) {
    const char *what = argv[argc - 1];
    if (!strcmp(what, "child")) {
        if (fork() != 0) return wait(NULL) < 0;
        what = "free";
    }
    makes();
    if (!strcmp(what, "free")) { frees(); reads(3); }
    while ((long)block % 4096 == 0) makes();
    if (!strcmp(what, "over")) writes(112);
    while ((long)block % 4096 != 0) makes();
    if (!strcmp(what, "under")) reads(-5);
    return 0;
}
"#;

fn run(what: &str) -> (i32, String) {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "guarded", PROGRAM, &[]);
    let program = program.to_str().unwrap();
    let (code, said, _profiles) = Observed::start(&["--guard=1"], &[program, what]).end();
    (code, said)
}

#[test]
fn the_three_places_are_named() {
    for (what, wanted) in [
        (
            "free",
            "use after free, 3 bytes into a block of 100 bytes: allocated at guarded.c:9, freed at guarded.c:10, \
             read at guarded.c:11",
        ),
        (
            "over",
            "overflow, byte 112 of a block of 100 bytes: allocated at guarded.c:9, written at guarded.c:12",
        ),
        (
            "under",
            "underflow, 5 bytes before a block of 100 bytes: allocated at guarded.c:9, read at guarded.c:11",
        ),
    ] {
        let (code, said) = run(what);
        assert_eq!(code, 128 + 11, "{said}");
        assert!(said.contains(&format!("freehold: {wanted}\n")), "{said}");
        assert!(said.contains("crashed with SIGSEGV"), "{said}");
    }
}

#[test]
fn nothing_is_said_of_a_program_without_a_fault() {
    let (code, said) = run("nothing");
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains("allocated at"), "{said}");
}

#[test]
fn a_childs_fault_has_its_name() {
    let (code, said) = run("child");
    assert_eq!(code, 0, "{said}");
    let line = said
        .lines()
        .find(|line| line.contains("read at guarded.c:11"))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(line.starts_with("freehold: guarded ("), "{line}");
}

#[test]
fn json_has_the_stacks() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "guarded", PROGRAM, &[]);
    let program = program.to_str().unwrap();
    let (_, said, _profiles) = Observed::start(&["--guard=1", "--json"], &[program, "free"]).end();
    let line = said.lines().last().unwrap();
    let summary: Value =
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {said}"));
    let fault = &summary["faults"][0];
    assert_eq!(fault["kind"], "use after free", "{fault}");
    assert_eq!(fault["offset"], 3, "{fault}");
    assert_eq!(fault["block_bytes"], 100, "{fault}");
    for (place, function) in [
        ("allocated", "makes"),
        ("freed", "frees"),
        ("touched", "reads"),
    ] {
        let stack = fault[place]["stack"].as_array().unwrap();
        assert!(
            stack.iter().any(|frame| frame["function"] == function),
            "{place}: {fault}"
        );
        assert!(
            stack.iter().any(|frame| frame["function"] == "main"),
            "{place}: {fault}"
        );
    }
}
