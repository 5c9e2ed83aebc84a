//! `freehold profile` and `diff` on real programs under the real library: lines, counts and bytes that are known.

mod observed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use observed::{Observed, answer, compile, installed, text, wait_for};
use profile_file::testing::skip;
use serde_json::Value;

/// Each line that allocates has a number of its own; the program tells when it is done, and waits.
const KNOWN: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *keep[1000];
__attribute__((noinline)) static void *make_table(size_t n) { return calloc(n, 8); }
__attribute__((noinline)) static char *copy_name(int i) { char b[40]; snprintf(b, sizeof b, "name-%03d", i); return strdup(b); }
__attribute__((noinline)) static void churn(void) { for (int i = 0; i < 1000; i++) { char *volatile p = malloc(100); p[0] = 1; free(p); } }
__attribute__((noinline)) static void *aligned(void) { return aligned_alloc(64, 640); }
__attribute__((noinline)) static void *shrunk(void) { void *volatile p = malloc(5000000); return realloc(p, 3000000); }
__attribute__((noinline)) static void *tiny(void) { void *volatile p = malloc(1); return p; }
int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    setvbuf(stdin, NULL, _IONBF, 0);
    for (int i = 0; i < 100; i++) keep[i] = make_table(512);
    for (int i = 0; i < 50; i++) keep[100 + i] = copy_name(i);
    churn();
    for (int i = 0; i < 7; i++) keep[200 + i] = aligned();
    keep[300] = shrunk();
    for (int i = 0; i < 200; i++) keep[500 + i] = tiny();
    puts("ready");
    getchar();
    for (int i = 0; i < 40; i++) free(keep[i]);
    for (int i = 0; i < 30; i++) keep[400 + i] = make_table(1024);
    puts("later");
    getchar();
    return 0;
}
"#;

fn profile(word: &str, options: &[&str]) -> Value {
    let arguments = [&["profile", "--json"], options, &[word]].concat();
    serde_json::from_str(&answer(&arguments)).unwrap()
}

/// Bytes and blocks of each function in a view.
fn of_function(profile: &Value, function: &str, view: &str) -> (u64, u64) {
    let groups = profile["groups"].as_array().unwrap();
    let mut sum = (0.0, 0.0);
    for group in groups.iter().filter(|group| group["function"] == function) {
        sum.0 += group[view]["bytes"].as_f64().unwrap();
        sum.1 += group[view]["blocks"].as_f64().unwrap();
    }
    (sum.0 as u64, sum.1 as u64)
}

fn line_of(profile: &Value, function: &str) -> (String, u64) {
    let groups = profile["groups"].as_array().unwrap();
    let group = groups
        .iter()
        .find(|group| group["function"] == function)
        .unwrap_or_else(|| {
            panic!("{function} is not in {groups:#?}");
        });
    let file = Path::new(group["file"].as_str().unwrap());
    (
        file.file_name().unwrap().to_str().unwrap().to_owned(),
        group["line"].as_u64().unwrap(),
    )
}

fn no_notes(profile: &Value) {
    assert_eq!(profile["notes"], serde_json::json!([]));
}

fn known(directory: &Path) -> (Observed, String) {
    let program = compile(directory, "known", KNOWN, &[]);
    let mut observed = Observed::start(&["--sample", "1"], &[program.to_str().unwrap()]);
    assert_eq!(observed.line(), "ready");
    let pid = observed.pid().to_string();
    (observed, pid)
}

#[test]
fn each_line_has_its_bytes_and_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let (observed, pid) = known(directory.path());
    let live = profile(&pid, &[]);
    no_notes(&live);
    assert_eq!(live["about"]["exact"], true);
    assert_eq!(of_function(&live, "make_table", "live"), (100 * 4096, 100));
    assert_eq!(of_function(&live, "copy_name", "live"), (50 * 9, 50));
    assert_eq!(of_function(&live, "aligned", "live"), (7 * 640, 7));
    assert_eq!(of_function(&live, "shrunk", "live"), (3_000_000, 1));
    assert_eq!(of_function(&live, "tiny", "live"), (200, 200));
    assert_eq!(of_function(&live, "churn", "live"), (0, 0));
    for (function, line) in [
        ("make_table", 5),
        ("copy_name", 6),
        ("aligned", 8),
        ("shrunk", 9),
    ] {
        assert_eq!(
            line_of(&live, function),
            ("known.c".to_owned(), line),
            "{function}"
        );
    }
    let all = profile(&pid, &["--allocated"]);
    assert_eq!(of_function(&all, "churn", "allocated"), (100_000, 1000));
    assert_eq!(of_function(&all, "churn", "freed"), (100_000, 1000));
    assert_eq!(line_of(&all, "churn"), ("known.c".to_owned(), 7));
    let peak = profile(&pid, &["--peak"]);
    assert_eq!(of_function(&peak, "shrunk", "peak"), (5_000_000, 1));
    observed.end();
}

#[test]
fn what_was_killed_is_told_to_the_byte() {
    let directory = tempfile::tempdir().unwrap();
    let (observed, pid) = known(directory.path());
    let before = profile(&pid, &[]);
    let killed = Command::new("kill").args(["-KILL", &pid]).status().unwrap();
    assert!(killed.success());
    let path: PathBuf = observed.profile_files().remove(0);
    let (_, _, _pages) = observed.end();
    let after = profile(path.to_str().unwrap(), &[]);
    assert_eq!(after["about"]["alive"], false);
    assert_eq!(after["about"]["ended_by_itself"], false);
    no_notes(&after);
    assert_eq!(after["groups"], before["groups"]);
}

#[test]
fn a_difference_is_exact_and_a_saved_file_stands_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (mut observed, pid) = known(directory.path());
    let saved = directory.path().join("before.fhs");
    profile(&pid, &["--save", saved.to_str().unwrap()]);
    observed.say("\n");
    assert_eq!(observed.line(), "later");
    let text = answer(&["diff", "--json", saved.to_str().unwrap(), &pid]);
    let diff: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(diff["same_process"], true);
    assert_eq!(diff["whole"]["bytes"], f64::from(30 * 8192 - 40 * 4096));
    let changes = diff["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0]["function"], "make_table");
    assert_eq!(changes[0]["verdict"], "grew");
    assert_eq!(changes[0]["blocks"], -10.0);
    observed.end();
    fs::remove_file(directory.path().join("known")).unwrap();
    let alone = profile(saved.to_str().unwrap(), &[]);
    assert_eq!(line_of(&alone, "make_table"), ("known.c".to_owned(), 5));
}

/// Threads that allocate and free at random, and then stand still: the truth is known to the program.
const THREADS: &str = r#"#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
enum { SLOTS = 2000, ROUNDS = 100000 };
static unsigned long long held[4];
static void *work(void *arg) {
    unsigned seed = (unsigned)(size_t)arg + 1;
    static __thread void *slot[SLOTS];
    static __thread size_t size[SLOTS];
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 1664525u + 1013904223u;
        unsigned at = (seed >> 8) % SLOTS;
        free(slot[at]);
        size[at] = 16u << ((seed >> 20) % 8);
        slot[at] = malloc(size[at]);
    }
    for (int i = 0; i < SLOTS; i++) if (slot[i]) held[(size_t)arg] += size[i];
    return NULL;
}
int main(void) {
    pthread_t t[4];
    for (size_t i = 0; i < 4; i++) pthread_create(&t[i], NULL, work, (void *)i);
    for (size_t i = 0; i < 4; i++) pthread_join(t[i], NULL);
    printf("%llu\n", held[0] + held[1] + held[2] + held[3]);
    fflush(stdout);
    getchar();
    return 0;
}
"#;

#[test]
fn sums_of_samples_are_the_truth_within_their_error() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "threads", THREADS, &[]);
    let mut observed = Observed::start(&["--sample", "8k"], &[program.to_str().unwrap()]);
    let truth: f64 = observed.line().parse().unwrap();
    let it = profile(&observed.pid().to_string(), &["--by", "function"]);
    no_notes(&it);
    let (bytes, error) = {
        let groups = it["groups"].as_array().unwrap();
        let group = groups
            .iter()
            .find(|group| group["function"] == "work")
            .unwrap();
        (
            group["live"]["bytes"].as_f64().unwrap(),
            group["live"]["error"].as_f64().unwrap(),
        )
    };
    assert!(error > 0.0 && error < 0.2 * truth);
    assert!(
        (bytes - truth).abs() < 5.0 * error,
        "{bytes} ± {error}, truly {truth}"
    );
    observed.end();
}

#[test]
fn a_program_that_goes_on_can_be_read_at_any_moment() {
    let directory = tempfile::tempdir().unwrap();
    let source = THREADS.replace("ROUNDS = 100000", "ROUNDS = 30000000");
    let program = compile(directory.path(), "busy", &source, &[]);
    let observed = Observed::start(&["--sample", "4k"], &[program.to_str().unwrap()]);
    let pid = observed.pid().to_string();
    wait_for("the first samples", || {
        (profile(&pid, &[])["about"]["samples"].as_u64()? > 100).then_some(())
    });
    for _ in 0..6 {
        let it = profile(&pid, &["--by", "function"]);
        for note in it["notes"].as_array().unwrap() {
            // Sums and samples are of slightly different moments, and that is said; nothing is called damaged.
            assert_eq!(note["concern"], "moving", "{note}");
        }
        let live = it["totals"]["live"]["bytes"].as_f64().unwrap();
        assert!(live < 64e6, "{live}");
    }
    let killed = Command::new("kill").args(["-KILL", &pid]).status().unwrap();
    assert!(killed.success());
    observed.end();
}

#[test]
fn containers_of_cpp_are_passed_over() {
    if !installed("c++") {
        return skip("no c++ (package g++)");
    }
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("boxes.cc");
    let program = directory.path().join("boxes");
    let text_of = "#include <cstdio>\n#include <map>\n#include <string>\n#include <vector>\n\
        namespace shop {\n\
        struct Order { std::vector<int> items; std::string name; };\n\
        std::map<int, Order> orders;\n\
        __attribute__((noinline)) void place(int n) { orders[n].items.resize(1000); orders[n].name[0] = 0; }\n\
        __attribute__((noinline)) int *raw() { int *p = new int[2500]; p[7] = 1; return p; }\n\
        }\n\
        int main() { for (int i = 0; i < 20; i++) shop::place(i); int *p = shop::raw(); std::puts(\"ready\"); \
        std::fflush(stdout); std::getchar(); delete[] p; }\n";
    fs::write(&source, text_of).unwrap();
    let made = Command::new("c++")
        .args(["-g", "-O2", "-std=c++17"])
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    let mut observed = Observed::start(&["--sample", "1"], &[program.to_str().unwrap()]);
    assert_eq!(observed.line(), "ready");
    let it = profile(&observed.pid().to_string(), &[]);
    let place = of_function(&it, "shop::place(int)", "live");
    assert!(place.0 >= 20 * 4000 && place.1 == 40, "{place:?} in {it:#}");
    assert_eq!(line_of(&it, "shop::place(int)"), ("boxes.cc".to_owned(), 8));
    assert_eq!(of_function(&it, "shop::raw()", "live"), (10_000, 1));
    observed.end();
}

#[test]
fn collections_of_rust_are_passed_over() {
    if !installed("rustc") {
        return skip("no rustc");
    }
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("lists.rs");
    let program = directory.path().join("lists");
    let text_of = "use std::io::Read;\n\
        #[inline(never)]\n\
        fn lines(n: usize) -> Vec<String> {\n\
        (0..n).map(|i| format!(\"line number {i:05}\")).collect()\n\
        }\n\
        fn main() {\n\
        let kept = lines(100);\n\
        println!(\"ready\");\n\
        let _ = std::io::stdin().read(&mut [0]);\n\
        assert_eq!(kept.len(), 100);\n\
        }\n";
    fs::write(&source, text_of).unwrap();
    let made = Command::new("rustc")
        .args(["-g", "-O", "--edition", "2021"])
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    let mut observed = Observed::start(&["--sample", "1"], &[program.to_str().unwrap()]);
    assert_eq!(observed.line(), "ready");
    let it = profile(&observed.pid().to_string(), &["--by", "function"]);
    let groups = it["groups"].as_array().unwrap();
    let blocks: f64 = groups
        .iter()
        .filter(|group| {
            group["function"]
                .as_str()
                .unwrap()
                .starts_with("lists::lines")
        })
        .map(|group| group["live"]["blocks"].as_f64().unwrap())
        .sum();
    // A hundred texts, and the list of them.
    assert_eq!(blocks, 101.0, "{it:#}");
    observed.end();
}
