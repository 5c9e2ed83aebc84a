//! What a trace says of the program's own memory, and whether a replay needs as much: within a tenth, or the reason is said.

mod observed;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use observed::{answer, command, compile, library, text};
use profile_file::testing::skip;
use serde_json::Value;

/// Blocks of 46 MiB in all, which are written; then it stays there for a moment: GROW [mapped | untouched].
const PROGRAM: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    enum { BLOCKS = 30000 };
    char **blocks = malloc(BLOCKS * sizeof *blocks);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = memset(malloc(100 + i % 3000), 1, 100 + i % 3000);
    }
    if (!strcmp(mode, "mapped")) {
        char *own = mmap(NULL, 40 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(own, 1, 40 << 20);
    }
    if (!strcmp(mode, "untouched")) {
        char *volatile large = malloc(60 << 20);
        large[0] = 1;
    }
    usleep(30000);
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}
"#;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        library(); // or it says what to build
        let directory = tempfile::tempdir().unwrap();
        Self { directory }
    }

    fn trace(&self) -> PathBuf {
        self.directory.path().join("out.trace")
    }

    fn record(&self, on: &str, words: &[&str]) -> Value {
        let output = Command::new(command())
            .args(["record", "--json", "--on", on, "-o"])
            .arg(self.trace())
            .arg("--")
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        info(&self.trace())
    }

    fn replay(&self, on: &str, options: &[&str]) -> Value {
        let trace = self.trace();
        let words = [
            "replay",
            trace.to_str().unwrap(),
            "--on",
            on,
            "--repeats",
            "3",
        ];
        let more: Vec<&str> = words.iter().chain(options).copied().collect();
        serde_json::from_str(&answer(&[&more[..], &["--json"]].concat())).unwrap()
    }
}

fn info(trace: &Path) -> Value {
    let said = answer(&["trace", "info", "--json", trace.to_str().unwrap()]);
    serde_json::from_str(&said).unwrap()
}

fn mebibytes(value: &Value) -> f64 {
    value.as_f64().unwrap() / f64::from(1 << 20)
}

#[test]
fn a_programs_memory_is_recorded_and_reproduced() {
    let place = Place::new();
    let program = compile(place.directory.path(), "grow", PROGRAM, &["-fno-builtin"]);
    let program = program.to_str().unwrap();
    for on in ["system", "freehold"] {
        let info = place.record(on, &[program]);
        let resident = &info["resident"];
        let grew = mebibytes(&resident["peak"]) - mebibytes(&resident["base"]);
        // The blocks alone have 46.1 MiB. The recorder's own memory and its tables would be 1 to 20 MiB more.
        assert!((46.0..52.0).contains(&grew), "{on}: {resident}");
        assert!(resident["samples"].as_u64().unwrap() >= 10, "{resident}");
        let replay = place.replay(on, &[]);
        let it = &replay["reproduced"];
        assert_eq!(it["within"], true, "{it}");
        assert!(it["difference"].as_f64().unwrap().abs() < 0.1, "{it}");
        assert_eq!(it["reasons"], serde_json::json!([]));
    }
    let trace = place.trace();
    let trace = trace.to_str().unwrap();
    let page = place.directory.path().join("page.html");
    let words = [
        "replay",
        trace,
        "--on",
        "freehold",
        "--repeats",
        "1",
        "--order",
        "time",
    ];
    let said = answer(&[&words[..], &["--html", page.to_str().unwrap()]].concat());
    assert!(said.contains("The program itself grew by"), "{said}");
    assert!(said.contains("on freehold, its replay by"), "{said}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("The program itself grew by") && page.contains("the program itself"));
    let other = answer(&["replay", trace, "--on", "system", "--repeats", "1"]);
    assert!(
        other.contains("on freehold, which was not replayed"),
        "{other}"
    );
}

#[test]
fn a_reason_is_said_where_it_is_not() {
    let place = Place::new();
    let program = compile(place.directory.path(), "grow", PROGRAM, &["-fno-builtin"]);
    let program = program.to_str().unwrap();
    for (mode, sign, reason) in [
        ("mapped", -1.0, "in mappings that had no block"),
        ("untouched", 1.0, "did not write to all that it allocated"),
    ] {
        place.record("freehold", &[program, mode]);
        let replay = place.replay("freehold", &[]);
        let it = &replay["reproduced"];
        assert_eq!(it["within"], false, "{it}");
        assert!(it["difference"].as_f64().unwrap() * sign > 0.1, "{it}");
        assert!(it["reasons"][0].as_str().unwrap().contains(reason), "{it}");
    }
}

/// sqlite3 on a table in memory.
#[test]
fn a_real_program_is_reproduced_or_the_reason_is_said() {
    let place = Place::new();
    let rows = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/real/rows.sql");
    let read = format!(".read {}", rows.display());
    let words = [
        "sqlite3",
        "-init",
        "/dev/null",
        ":memory:",
        ".parameter init",
    ];
    if Command::new("sqlite3").arg("--version").output().is_err() {
        return skip("no sqlite3");
    }
    for on in ["system", "freehold"] {
        place.record(
            on,
            &[&words[..], &[".parameter set @n 40000", &read]].concat(),
        );
        let replay = place.replay(on, &[]);
        let it = &replay["reproduced"];
        println!("sqlite3 on {on}: {it}");
        let within = it["within"].as_bool().unwrap();
        assert!(mebibytes(&it["program"]) > 5.0, "{it}");
        assert_eq!(within, it["reasons"].as_array().unwrap().is_empty(), "{it}");
        assert!(
            within || it["difference"].as_f64().unwrap().abs() < 0.5,
            "{it}"
        );
    }
}

/// A trace from another tool, a part of one, and one from before have none; and that is said.
#[test]
fn what_was_not_recorded_is_said() {
    let place = Place::new();
    let lines = place.directory.path().join("text");
    std::fs::write(&lines, "a 100 7\nr 7\n").unwrap();
    let trace = place.trace();
    let (lines, trace) = (lines.to_str().unwrap(), trace.to_str().unwrap());
    answer(&["trace", "import", lines, "-o", trace]);
    let said = answer(&["replay", trace, "--on", "system", "--repeats", "1"]);
    assert!(said.contains("was not recorded in this trace"), "{said}");
    assert!(answer(&["trace", "info", trace]).contains("The program's own memory: not recorded"));
    let info = place.record("system", &["sh", "-c", ":"]);
    assert!(info["resident"].is_null() || info["resident"]["samples"].as_u64() > Some(0));
    let part = place.directory.path().join("part.trace");
    let part = part.to_str().unwrap();
    for how in [&["cut"][..], &["anonymize"]] {
        answer(&[&["trace"], how, &[trace, "-o", part]].concat());
        assert!(self::info(Path::new(part))["resident"].is_null());
    }
}
