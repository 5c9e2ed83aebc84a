//! `freehold replay`: it does the operations of the trace, and notices an allocator that does not do its work.

mod observed;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use observed::{command, compile, text};
use profile_file::testing::skip;
use serde_json::Value;

/// An allocator over glibc's that spoils blocks: BREAK=shared gives the same one again and again, BREAK=dirty is a
/// calloc without zeros, BREAK=null refuses.
const BROKEN: &str = r#"
#include <stdlib.h>
#include <string.h>
void *__libc_malloc(size_t);
static char *mode(void) { char *text = getenv("BREAK"); return text ? text : ""; }
static void *last;
void *malloc(size_t n) {
    if (n == 777 && !strcmp(mode(), "null")) return NULL;
    if (n == 777 && !strcmp(mode(), "shared")) return last ? last : (last = __libc_malloc(n));
    return __libc_malloc(n);
}
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t m) {
    void *p = __libc_malloc(n * m);
    return memset(p, !strcmp(mode(), "dirty") && n * m == 777, n * m);
}
"#;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new(what: &str) -> Option<Self> {
        let built = command();
        let found = built.ancestors().skip(1).take(4).any(|directory| {
            directory.join("freehold-replayer").is_file()
                && directory.join("libfreehold-record.so").is_file()
                && directory.join("libfreehold.so").is_file()
        });
        if !found {
            skip(&format!("{what}: no replayer in the build directory"));
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        Some(Self { directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn imported(&self, lines: &str) -> PathBuf {
        std::fs::write(self.path("text"), lines).unwrap();
        let trace = self.path("text.trace");
        let import = Command::new(command())
            .args(["trace", "import"])
            .arg(self.path("text"))
            .arg("-o")
            .arg(&trace)
            .output()
            .unwrap();
        assert!(import.status.success(), "{}", text(&import.stderr));
        trace
    }

    /// A trace of four threads that hand blocks to each other.
    fn recorded(&self) -> PathBuf {
        let source = include_str!("../../../tests/record/counted.c");
        let flags = ["-D_GNU_SOURCE", "-fno-builtin", "-pthread"];
        let program = compile(self.directory.path(), "counted", source, &flags);
        let trace = self.path("threads.trace");
        let output = Command::new(command())
            .args(["record", "-o"])
            .arg(&trace)
            .arg(program)
            .args(["threads", "4"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        trace
    }
}

fn replay(trace: &Path, arguments: &[&str], broken: &str) -> Output {
    Command::new(command())
        .arg("replay")
        .arg(trace)
        .args(["--json", "--repeats", "1"])
        .args(arguments)
        .env("BREAK", broken)
        .output()
        .unwrap()
}

fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

/// Calls of the allocator in the trace.
fn calls(info: &Value) -> u64 {
    let calls = info["trace"]["calls"].as_object().unwrap();
    let others = ["thread-start", "thread-end", "trim", "fork"];
    let counted = calls
        .iter()
        .filter(|(name, _)| !others.contains(&name.as_str()));
    counted.map(|(_, count)| count.as_u64().unwrap()).sum()
}

#[test]
fn every_order_does_every_operation() {
    let Some(place) = Place::new("every_order_does_every_operation") else {
        return;
    };
    let trace = place.recorded();
    for order in ["deps", "time", "total"] {
        let options = ["--on", "system,freehold", "--verify", "--order", order];
        let output = replay(&trace, &options, "");
        let said = answer(&output);
        assert!(output.status.success(), "{order}: {said}");
        for one in said["allocators"].as_array().unwrap() {
            let run = &one["runs"][0];
            assert_eq!(run["calls"], calls(&said), "{order}");
            assert_eq!((&run["failed"], &run["wrong"]), (&0.into(), &0.into()));
            if order == "total" {
                assert_eq!(run["peak_live"], said["trace"]["peak_bytes"]);
            }
        }
    }
}

#[test]
fn an_allocator_that_does_not_do_its_work_is_found() {
    let Some(place) = Place::new("an_allocator_that_does_not_do_its_work_is_found") else {
        return;
    };
    let flags = ["-fPIC", "-shared", "-fno-builtin"];
    let broken = compile(place.directory.path(), "broken.so", BROKEN, &flags);
    let trace = place.imported("a 777 1\na 777 2\na 777 3\nr 1\nr 2\nr 3\n");
    let options = ["--on", broken.to_str().unwrap(), "--verify"];
    assert!(replay(&trace, &options, "").status.success());
    for (how, count) in [("null", "failed"), ("shared", "wrong")] {
        let output = replay(&trace, &options, how);
        assert_eq!(output.status.code(), Some(1), "{how}");
        assert!(answer(&output)["allocators"][0]["runs"][0][count].as_u64() > Some(0));
    }
}

#[test]
fn freeholds_options_reach_it() {
    let Some(place) = Place::new("freeholds_options_reach_it") else {
        return;
    };
    let trace = place.imported("a 200000000 1\nr 1\n");
    let options = ["--on", "freehold", "--touch", "none"];
    assert!(replay(&trace, &options, "").status.success());
    let limited = [&options[..], &["--set", "limit=64m"]].concat();
    let output = replay(&trace, &limited, "");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert_eq!(answer(&output)["allocators"][0]["runs"][0]["failed"], 1);
}
