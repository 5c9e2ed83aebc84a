//! What a stripped program's call sites are called: by the names that it still has, by those close by, or by debug
//! information that is fetched.

mod observed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use observed::{Observed, command, compile, installed, text};
use profile_file::testing::skip;
use serde_json::Value;

/// `hidden_load` is in no table of exported symbols; `shown_start` is.
const PROGRAM: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *kept[64];
__attribute__((noinline)) static void *hidden_load(size_t n) { void *p = malloc(n); memset(p, 1, n); return p; }
__attribute__((noinline)) void *shown_start(size_t n) { void *p = hidden_load(n); memset(p, 2, 8); return p; }
int main(void) {
    for (int i = 0; i < 64; i++) kept[i] = shown_start(100000);
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
"#;

fn tool(directory: &Path, words: &[&str]) {
    let done = Command::new(words[0])
        .args(&words[1..])
        .current_dir(directory)
        .output()
        .unwrap_or_else(|error| panic!("{words:?}: {error}"));
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
}

/// The program, stripped, and beside it `whole.debug` with its debug information.
fn stripped(directory: &Path) -> PathBuf {
    let program = compile(
        directory,
        "whole",
        PROGRAM,
        &["-rdynamic", "-Wl,--build-id"],
    );
    tool(
        directory,
        &["objcopy", "--only-keep-debug", "whole", "whole.debug"],
    );
    tool(directory, &["strip", "--strip-all", "whole"]);
    program
}

fn build_id(program: &Path) -> String {
    let bytes = fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let id = object::Object::build_id(&file).unwrap().unwrap();
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn start(program: &Path) -> (Observed, String) {
    let mut run = Observed::start(&["--sample", "1"], &[program.to_str().unwrap()]);
    assert_eq!(run.line(), "ready");
    let pid = run.pid().to_string();
    (run, pid)
}

/// `freehold profile`, with these variables.
fn profile(pid: &str, options: &[&str], variables: &[(&str, &str)]) -> (String, String) {
    let output: Output = Command::new(command())
        .args(["profile", "--json", pid])
        .args(options)
        .env_remove("DEBUGINFOD_URLS")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &found["groups"][0];
    let line = first["line"].as_u64().unwrap_or(0);
    (
        format!("{} {line}", first["function"].as_str().unwrap()),
        found["notes"].to_string(),
    )
}

#[test]
fn where_only_an_exported_function_is_close_that_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let (run, pid) = start(&stripped(directory.path()));
    let (site, _) = profile(&pid, &[], &[]);
    assert!(site.starts_with("whole+0x"), "{site}");
    assert!(site.ends_with(", near shown_start 0"), "{site}");
    run.end();
}

/// As distributions do it that ship names, and no debug information, with each program.
#[test]
fn compressed_names_are_read() {
    if !installed("xz") {
        return skip("no xz (package xz-utils)");
    }
    let directory = tempfile::tempdir().unwrap();
    let program = stripped(directory.path());
    let here = directory.path();
    tool(
        here,
        &[
            "objcopy",
            "--remove-section=.debug*",
            "whole.debug",
            "names",
        ],
    );
    tool(here, &["xz", "names"]);
    tool(
        here,
        &[
            "objcopy",
            "--add-section",
            ".gnu_debugdata=names.xz",
            "whole",
        ],
    );
    let (run, pid) = start(&program);
    let (site, notes) = profile(&pid, &[], &[]);
    assert_eq!(site, "hidden_load 0");
    assert!(!notes.contains("could not be read"), "{notes}");
    run.end();
}

/// A section that is not what it says it is names nothing, and ends nothing.
#[test]
fn damaged_compressed_names_are_none() {
    let directory = tempfile::tempdir().unwrap();
    let program = stripped(directory.path());
    fs::write(
        directory.path().join("names.xz"),
        b"\xfd7zXZ\0 and then nothing of the kind",
    )
    .unwrap();
    tool(
        directory.path(),
        &[
            "objcopy",
            "--add-section",
            ".gnu_debugdata=names.xz",
            "whole",
        ],
    );
    let (run, pid) = start(&program);
    let (site, _) = profile(&pid, &[], &[]);
    assert!(site.ends_with(", near shown_start 0"), "{site}");
    run.end();
}

/// A stand-in for elfutils' client: it knows one build-id.
#[test]
fn debug_information_is_fetched_only_if_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let program = stripped(directory.path());
    let tools = directory.path().join("tools");
    fs::create_dir(&tools).unwrap();
    let client = tools.join("debuginfod-find");
    let answer = format!(
        "#!/bin/sh\n[ \"$1 $2\" = 'debuginfo {}' ] || {{ echo 'Server query failed: No such file' >&2; exit 1; }}\necho '{}'\n",
        build_id(&program),
        directory.path().join("whole.debug").display()
    );
    fs::write(&client, answer).unwrap();
    tool(directory.path(), &["chmod", "+x", client.to_str().unwrap()]);
    let path = format!("{}:/usr/bin:/bin", tools.display());
    let known = [
        ("PATH", path.as_str()),
        ("DEBUGINFOD_URLS", "http://127.0.0.1:9"),
    ];
    let (run, pid) = start(&program);

    let (site, _) = profile(&pid, &[], &known);
    assert!(site.starts_with("whole+0x"), "{site}");
    assert_eq!(profile(&pid, &["--debuginfod"], &known).0, "hidden_load 5");
    let (site, notes) = profile(&pid, &["--debuginfod"], &known[..1]);
    assert!(site.starts_with("whole+0x"), "{site}");
    assert!(notes.contains("DEBUGINFOD_URLS is not set"), "{notes}");
    let without = [("PATH", "/nonexistent"), known[1]];
    let (_, notes) = profile(&pid, &["--debuginfod"], &without);
    assert!(notes.contains("there is no debuginfod-find"), "{notes}");
    // What is of another build is not believed.
    fs::copy("/bin/true", directory.path().join("whole.debug")).unwrap();
    let (site, notes) = profile(&pid, &["--debuginfod"], &known);
    assert!(site.starts_with("whole+0x"), "{site}");
    assert!(notes.contains("of another build"), "{notes}");
    run.end();
}

/// The client itself, with a directory in the place of a server.
#[test]
fn elfutils_client_fetches_debug_information() {
    if !installed("debuginfod-find") {
        return skip("no debuginfod-find (package debuginfod)");
    }
    let directory = tempfile::tempdir().unwrap();
    let program = stripped(directory.path());
    let place = directory.path().join("buildid").join(build_id(&program));
    fs::create_dir_all(&place).unwrap();
    fs::copy(
        directory.path().join("whole.debug"),
        place.join("debuginfo"),
    )
    .unwrap();
    let url = format!("file://{}/", directory.path().display());
    let cache = directory.path().join("cache");
    let variables = [
        ("DEBUGINFOD_URLS", url.as_str()),
        ("DEBUGINFOD_CACHE_PATH", cache.to_str().unwrap()),
    ];
    let (run, pid) = start(&program);
    assert_eq!(
        profile(&pid, &["--debuginfod"], &variables).0,
        "hidden_load 5"
    );
    run.end();
}
