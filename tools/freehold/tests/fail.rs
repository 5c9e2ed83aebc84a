//! `freehold fail`: what becomes of a program when each of its sites gets no memory.

mod observed;

use std::collections::BTreeMap;

use observed::*;
use profile_file::testing::skip;
use serde_json::Value;

/// A function for each outcome, with an allocation of its own size.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define SITE __attribute__((noinline))
static void *volatile kept;
SITE static void refuses(void) { char *p = malloc(10); if (!p) { fprintf(stderr, "no memory\n"); exit(3); } free(p); }
SITE static void crashes(void) { char *p = malloc(20); p[0] = 1; free(p); }
SITE static void hangs(void) { void *p; while (!(p = malloc(30))) usleep(1000); free(p); }
SITE static void is_silent(void) { void *p = malloc(40); if (!p) exit(4); free(p); }
SITE static void leaks(void) {
    kept = malloc(50);
    void *p = malloc(60);
    if (!kept || !p) { if (!kept) free(p); write(2, "without\n", 8); return; }
    free(p);
    free(kept);
}
SITE static void is_wrong(void) { void *p = malloc(70); if (!p) return; write(1, "result\n", 7); free(p); }
SITE static void frees_twice(void) {
    char *p = malloc(80), *q = p ? realloc(p, 800) : NULL;
    if (p && !q) { free(p); free(p); }
    free(q);
}
SITE static void survives(void) { void *p = malloc(90); if (!p) write(2, "without\n", 8); free(p); }
SITE static void aborts(void) { void *p = malloc(95); if (!p) { write(2, "no memory\n", 10); abort(); } free(p); }
int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) abort();
    refuses(); crashes(); hangs(); is_silent(); leaks(); is_wrong(); frees_twice(); survives(); aborts();
    return 0;
}
"#;

struct Planted {
    directory: tempfile::TempDir,
    program: String,
}

fn planted() -> Planted {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(
        directory.path(),
        "planted",
        PROGRAM,
        &["-w", "-fno-builtin"],
    );
    Planted {
        program: program.to_str().unwrap().to_owned(),
        directory,
    }
}

fn outcomes(answer: &Value) -> BTreeMap<u64, String> {
    let results = answer["results"].as_array().unwrap();
    results
        .iter()
        .map(|result| {
            let outcome = result["outcome"].as_str().unwrap().to_owned();
            (result["bytes"].as_u64().unwrap(), outcome)
        })
        .collect()
}

#[test]
fn each_outcome_is_told_from_the_others() {
    let planted = planted();
    let output = freehold(&["fail", "--json", "--timeout", "2", &planted.program]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let wanted = [
        (10, "refused"),
        (20, "crash"),
        (30, "hang"),
        (40, "silent"),
        (50, "survived"),
        (60, "leak"),
        (70, "wrong_output"),
        (80, "survived"),
        (90, "survived"),
        (95, "aborted"),
        (800, "misuse"),
    ];
    let wanted: BTreeMap<u64, String> = wanted
        .into_iter()
        .map(|(bytes, outcome)| (bytes, outcome.to_owned()))
        .collect();
    assert_eq!(outcomes(&answer), wanted, "{answer:#}");
    let results = answer["results"].as_array().unwrap();
    let of = |bytes: u64| results.iter().find(|r| r["bytes"] == bytes).unwrap();
    assert_eq!(of(20)["by"], "SIGSEGV");
    assert_eq!(of(40)["code"], 4);
    assert_eq!(
        (&of(60)["live_blocks_more"], &of(60)["live_bytes_more"]),
        (&1.into(), &50.into())
    );
    assert!(of(800)["report"].as_str().unwrap().contains("double free"));
    assert_eq!(of(20)["stack"][0]["function"], "crashes");
    assert_eq!(of(20)["stack"][1]["function"], "main");
    assert_eq!(answer["sites"], 11);
    assert_eq!(answer["runs"], 13);

    // The command that is named does it again.
    let again = of(20)["again"].as_str().unwrap();
    let status = std::process::Command::new("sh")
        .args([
            "-c",
            &format!("{again} 2>{}/said", planted.directory.path().display()),
        ])
        .status()
        .unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    assert!(
        signal == Some(11) || status.code() == Some(128 + 11),
        "{status}"
    );
}

/// Operators new of a C++ program: what is caught, what nobody catches, and `nothrow` whose NULL is not looked at. A script starts
/// it by `exec`, which keeps the process: sites before and after it fail in their turn.
#[test]
fn a_script_that_becomes_a_program_in_another_language() {
    const PROGRAM: &str = r#"
#include <new>
#include <stdio.h>
#define SITE __attribute__((noinline)) static
static char *volatile kept;
SITE void catches() {
    try { kept = new char[1110]; delete[] kept; } catch (const std::bad_alloc &) { fputs("no memory\n", stderr); throw 3; }
}
SITE void lets_go() { kept = new char[2220]; delete[] kept; }
SITE void does_not_look() { kept = new (std::nothrow) char[3330]; kept[0] = 1; delete[] kept; }
int main() {
    try { catches(); } catch (int code) { return code; }
    lets_go();
    does_not_look();
    return 0;
}
"#;
    let directory = tempfile::tempdir().unwrap();
    let flags = ["-x", "c++", "-Wl,--no-as-needed", "-lstdc++"];
    let program = compile(directory.path(), "throws", PROGRAM, &flags);
    let script = directory.path().join("starts.sh");
    let words = format!("#!/bin/sh\nexec {}\n", program.display());
    std::fs::write(&script, words).unwrap();
    for command in [
        &[program.to_str().unwrap()][..],
        &["sh", script.to_str().unwrap()],
    ] {
        let output = freehold(&[&["fail", "--json", "--"][..], command].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let of = outcomes(&answer);
        for (bytes, outcome) in [(1110, "refused"), (2220, "aborted"), (3330, "crash")] {
            assert_eq!(
                of.get(&bytes).map(String::as_str),
                Some(outcome),
                "{answer:#}"
            );
        }
    }
}

#[test]
fn what_is_suppressed_is_not_found() {
    let planted = planted();
    let file = planted.directory.path().join("known");
    std::fs::write(
        &file,
        "# known\nfail:crashes\nfail:hangs\nfail:is_silent\nfail:leaks\nfail:is_wrong\nfail:frees_twice\n",
    )
    .unwrap();
    let known = file.to_str().unwrap();
    let said = answer(&[
        "fail",
        "--timeout",
        "2",
        "--suppressions",
        known,
        &planted.program,
    ]);
    assert!(said.starts_with("Nothing found of 11 sites: "), "{said}");
    assert!(said.contains("6 suppressed"), "{said}");
    std::fs::write(&file, "leak:crashes\n").unwrap();
    let said = complaint(&["fail", "--suppressions", known, &planted.program], 2);
    assert!(said.contains("is not fail:PATTERN"), "{said}");
}

#[test]
fn the_first_sites_alone() {
    let planted = planted();
    let said = answer(&["fail", "--sites", "1", &planted.program]);
    assert!(
        said.starts_with(
            "Nothing found of 11 sites: 1 refused with a message, 10 not tried. 3 runs of "
        ),
        "{said}"
    );
}

#[test]
fn a_program_that_cannot_be_judged_is_an_error() {
    let planted = planted();
    let said = complaint(&["fail", &planted.program, "abort"], 2);
    assert!(
        said.contains("was ended by SIGABRT though nothing failed"),
        "{said}"
    );
    let said = complaint(&["fail", "/no/such/program"], 2);
    assert!(said.contains("/no/such/program"), "{said}");
}

/// Programs that nobody here wrote: each site is judged, and the same again.
#[test]
fn real_programs() {
    for command in [
        &["jq", "-n", "[range(9)] | map(. * 2) | tostring"][..],
        &[
            "lua5.4",
            "-e",
            "local t = {} for i = 1, 50 do t[i] = i .. 'x' end print(#table.concat(t))",
        ],
        &[
            "sqlite3",
            ":memory:",
            "create table t(a); insert into t values(1), (2); select sum(a) from t",
        ],
    ] {
        if !installed(command[0]) {
            skip(&format!("{} is not here", command[0]));
            continue;
        }
        let ask = |_| {
            let arguments = [&["fail", "--json", "--sites", "25", "--"][..], command].concat();
            let output = freehold(&arguments);
            assert!(
                matches!(output.status.code(), Some(0 | 1)),
                "{command:?}: {}",
                text(&output.stderr)
            );
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
            let results = answer["results"].as_array().unwrap();
            let rows: Vec<(String, String)> = results
                .iter()
                .map(|r| (r["site"].to_string(), r["outcome"].to_string()))
                .collect();
            rows
        };
        let twice: Vec<_> = (0..2).map(ask).collect();
        assert_eq!(twice[0], twice[1], "{command:?}");
        assert_eq!(twice[0].len(), 25, "{command:?}");
        let met = twice[0]
            .iter()
            .filter(|(_, outcome)| outcome != "\"not_met\"");
        assert!(met.count() >= 24, "{command:?}: {:?}", twice[0]);
    }
}

#[test]
fn a_check_of_no_site_is_refused() {
    let told = complaint(&["fail", "--sites", "0", "true"], 2);
    assert!(told.contains("invalid value '0' for '--sites"), "{told}");
}
