//! `freehold trace import`: what the other tools themselves write of a program whose calls are known.

mod observed;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use observed::{command, compile, text};
use profile_file::testing::skip;
use serde_json::Value;

/// 1,000 blocks of 100 to 1,099 bytes, every second one freed at once; ten reallocs; a calloc of 21 bytes.
const PROGRAM: &str = r#"
#include <mcheck.h>
#include <stdlib.h>
static void *volatile kept[1000], *volatile grown, *volatile cleared;
int main(void) {
    mtrace();
    for (int i = 0; i < 1000; i++) {
        kept[i] = malloc(100 + i);
        if (i % 2) free(kept[i]);
    }
    grown = malloc(10000);
    for (int i = 1; i <= 10; i++) grown = realloc(grown, 10000 + i * 5000);
    cleared = calloc(3, 7);
    for (int i = 0; i < 1000; i += 2) free(kept[i]);
    free(grown);
    free(cleared);
    muntrace();
    return 0;
}
"#;

/// Live at the peak: the even ones of the thousand, and what had grown, and the 21 bytes.
const PEAK: u64 = 500 * 100 + (999 - 1) / 2 * 500 + 60_000 + 21;

fn import(file: &Path, trace: &Path) -> Output {
    Command::new(command())
        .args(["trace", "import"])
        .arg(file)
        .arg("-o")
        .arg(trace)
        .output()
        .unwrap()
}

/// What `freehold trace info` says of the import.
fn imported(file: &Path) -> Value {
    let trace = file.with_extension("trace");
    let output = import(file, &trace);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let info = Command::new(command())
        .args(["trace", "info", "--json"])
        .arg(&trace)
        .output()
        .unwrap();
    serde_json::from_slice(&info.stdout).unwrap_or_else(|_| panic!("{}", text(&info.stderr)))
}

fn malloc_debug() -> Option<PathBuf> {
    let lib = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let places = [lib.as_str(), "/usr/lib64", "/lib64", "/usr/lib"];
    let mut files = places
        .map(|place| Path::new(place).join("libc_malloc_debug.so.0"))
        .into_iter();
    files.find(|file| file.is_file())
}

#[test]
fn glibcs_own_mtrace_is_read() {
    let Some(debug) = malloc_debug() else {
        skip("glibcs_own_mtrace_is_read: no libc_malloc_debug.so.0, which mtrace needs");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "calls", PROGRAM, &["-fno-builtin"]);
    let log = directory.path().join("calls.mtrace");
    let ran = Command::new(program)
        .env("LD_PRELOAD", debug)
        .env("MALLOC_TRACE", &log)
        .status()
        .unwrap();
    assert!(ran.success());
    let said = imported(&log);
    // It may have noted what libc allocated for itself, which is little.
    let written = std::fs::read_to_string(&log).unwrap();
    let signs = |sign: &str| written.lines().filter(|line| line.contains(sign)).count() as u64;
    let tally = &said["tally"];
    assert!(signs(" + ") >= 1002, "{written}");
    assert_eq!(tally["calls"]["malloc"], signs(" + "));
    assert_eq!(tally["calls"]["realloc"], 10);
    let missing = said["losses"]["unknown_frees"].as_u64().unwrap();
    assert_eq!(
        tally["calls"]["free"].as_u64().unwrap() + missing,
        signs(" - ")
    );
    let peak = tally["peak_bytes"].as_u64().unwrap();
    assert!((PEAK..PEAK + 10_000).contains(&peak), "{peak}, not {PEAK}");
}

#[test]
fn heaptracks_own_files_are_read() {
    if Command::new("heaptrack").arg("--version").output().is_err() {
        skip("heaptracks_own_files_are_read: heaptrack is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "calls", PROGRAM, &["-fno-builtin"]);
    for (name, options) in [("raw", &["--raw"][..]), ("interpreted", &[])] {
        let output = Command::new("heaptrack")
            .args(options)
            .arg("-o")
            .arg(directory.path().join(name))
            .arg(&program)
            .output()
            .unwrap();
        let files = std::fs::read_dir(directory.path()).unwrap();
        let mut paths = files.map(|file| file.unwrap().path());
        let is_it = |path: &PathBuf| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with(name)
        };
        let Some(file) = paths.find(is_it) else {
            panic!("{}", text(&output.stderr));
        };
        let said = imported(&file);
        let tally = &said["tally"];
        // Reallocs are releases and allocations to it, and libstdc++ has 72 KiB of its own.
        let mallocs = tally["calls"]["malloc"].as_u64().unwrap();
        assert!((1012..1100).contains(&mallocs), "{name}: {mallocs}");
        assert_eq!(tally["calls"]["realloc"], Value::Null);
        let peak = tally["peak_bytes"].as_u64().unwrap();
        assert!((PEAK..PEAK + 100_000).contains(&peak), "{name}: {peak}");
        assert!(said["losses"]["lost"] == 0, "{said}");
    }
}

#[test]
fn a_packed_text_is_unpacked_and_a_wrong_one_leaves_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("text.gz");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed
        .write_all(b"1: malloc 0x10 100\n2: free 0x10\n")
        .unwrap();
    std::fs::write(&file, packed.finish().unwrap()).unwrap();
    let said = imported(&file);
    assert_eq!(said["tally"]["ops"], 2);
    assert_eq!(said["tally"]["threads"], 2);

    let trace = file.with_extension("trace");
    let before = std::fs::read(&trace).unwrap();
    for (content, part) in [
        (&b"1: malloc 0x10 100\n2: frea 0x10\n"[..], "line 2: `frea`"),
        (b"GIF89a", "name it with --format"),
        (b"\x1F\x8Bnothing", "other.txt"),
        (b"\x28\xB5\x2F\xFDnothing", "other.txt"),
    ] {
        let other = directory.path().join("other.txt");
        std::fs::write(&other, content).unwrap();
        let output = import(&other, &trace);
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(said.contains(part), "{said}");
        assert_eq!(std::fs::read(&trace).unwrap(), before);
    }
}
