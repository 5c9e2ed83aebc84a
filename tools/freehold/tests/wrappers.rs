//! Call sites are named after whom the memory is for: not after a program's own malloc, nor after what `--skip` names.

mod observed;

use observed::{Observed, answer, compile, installed};
use profile_file::testing::skip;
use serde_json::Value;

const PROGRAM: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *kept[64];
__attribute__((noinline)) static void *app_malloc(size_t n) { void *p = malloc(n); memset(p, 1, n); return p; }
__attribute__((noinline)) static void *table_create(size_t n) { void *p = app_malloc(n); memset(p, 2, 8); return p; }
__attribute__((noinline)) static void *open_session(void) { void *p = table_create(100000); memset(p, 3, 8); return p; }
__attribute__((noinline)) static void *read_page(void) { void *p = app_malloc(50000); memset(p, 4, 8); return p; }
int main(void) {
    for (int i = 0; i < 64; i += 2) kept[i] = open_session(), kept[i + 1] = read_page();
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
"#;

fn functions(profile: &Value) -> Vec<&str> {
    profile["groups"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|group| group["function"].as_str())
        .collect()
}

fn profile(word: &str, options: &[&str]) -> Value {
    let arguments = [&["profile", "--json"], options, &[word]].concat();
    serde_json::from_str(&answer(&arguments)).unwrap()
}

const BY_NAME: &str = "the callers of allocation wrappers by their names (app_malloc)";
const BY_BOTH: &str = "(app_malloc) and of --skip (table_create)";

#[test]
fn sites_are_named_after_the_callers_of_wrappers() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "wrapped", PROGRAM, &[]);
    let mut run = Observed::start(&["--sample", "1"], &[program.to_str().unwrap()]);
    assert_eq!(run.line(), "ready");
    let pid = run.pid().to_string();

    // The summary of a run names them as one wants, too.
    for (options, name) in [
        (&[][..], "table_create"),
        (&["--skip", "^table_"], "open_session"),
    ] {
        let words = [
            &["run", "--sample", "1"],
            options,
            &[program.to_str().unwrap()],
        ]
        .concat();
        let said = observed::text(&observed::freehold(&words).stderr);
        assert!(said.contains(&format!("by {name} ")), "{said}");
    }

    let usual = profile(&pid, &[]);
    assert_eq!(functions(&usual)[..2], ["table_create", "read_page"]);
    assert!(usual["skipped"].as_str().unwrap().contains(BY_NAME));
    let skipping = profile(&pid, &["--skip", "^table_"]);
    assert_eq!(functions(&skipping)[..2], ["open_session", "read_page"]);
    assert!(skipping["skipped"].as_str().unwrap().contains(BY_BOTH));

    // Each command that names sites says both.
    let saved = directory.path().join("saved.fhs");
    let saved = saved.to_str().unwrap();
    answer(&["profile", "--save", saved, &pid]);
    for arguments in [
        &["profile", &pid][..],
        &["leaks", &pid, "--for", "0"],
        &["leaks", &pid, "--for", "0", "--json"],
        &["report", &pid, "--json"],
        &["diff", saved, &pid, "--all"],
        &["diff", saved, &pid, "--all", "--json"],
    ] {
        let said = answer(arguments);
        assert!(said.contains(BY_NAME), "{arguments:?}: {said}");
        let said = answer(&[arguments, &["--skip", "^table_"]].concat());
        assert!(said.contains(BY_BOTH), "{arguments:?}: {said}");
    }
    let screen = answer(&["top", "--once", &pid, "--skip", "^table_"]);
    assert!(screen.contains("open_session"), "{screen}");
    run.end();

    let said = observed::complaint(&["profile", saved, "--skip", "("], 2);
    assert!(said.contains("--skip"), "{said}");
}

/// An encoder takes nearly all that it has through one function of its own.
#[test]
fn the_memory_of_ffmpeg_is_not_that_of_a_wrapper() {
    if !installed("ffmpeg") {
        return skip("ffmpeg is not installed");
    }
    let mut run = Observed::start(
        &["--sample", "16k"],
        &[
            "ffmpeg",
            "-v",
            "error",
            "-f",
            "lavfi",
            "-i",
            "testsrc=size=640x360:duration=2",
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-f",
            "null",
            "-",
        ],
    );
    drop(run.input.take());
    let file = run.profiles.path().to_owned();
    let (code, said, _profiles) = run.end();
    if code != 0 {
        return skip(&format!("ffmpeg does not encode here: {said}"));
    }
    let found = profile(file.to_str().unwrap(), &["--peak"]);
    for function in functions(&found) {
        assert!(!function.ends_with("_malloc"), "{found:#}");
    }
}
