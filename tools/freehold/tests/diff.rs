//! `freehold diff` on profile files whose every number is known.

mod command;
mod made_up;

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use command::command;
use made_up::Program;
use profile_file::testing::ProfileBuilder;
use serde_json::Value;

const MS: u64 = 1_000_000;

struct Bench {
    directory: tempfile::TempDir,
    program: Program,
}

impl Bench {
    fn new() -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let program = Program::build(directory.path());
        Bench { directory, program }
    }

    fn write(&self, name: &str, profile: &ProfileBuilder) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, profile.bytes()).unwrap();
        path
    }

    /// A profile file at two moments: the cache has grown by `more` blocks between them.
    fn grown(&self, interval: u64, more: u64) -> [PathBuf; 2] {
        let mut profile = self.program.table(interval);
        let before = self.write("before", &profile);
        let cache = profile.site(&self.program.stack(&["cache_insert", "main"]));
        for number in 0..more {
            profile.allocate(cache, 4096, (1000 + number) * MS);
        }
        [before, self.write("after", &profile)]
    }
}

fn diff(args: &[&str], [before, after]: &[PathBuf; 2]) -> String {
    let output = Command::new(command())
        .arg("diff")
        .args(args)
        .arg(before)
        .arg(after)
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{error}");
    let directory: &Path = before.parent().unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .replace(directory.to_str().unwrap(), "[directory]")
}

#[test]
fn exact_growth() {
    let bench = Bench::new();
    insta::assert_snapshot!(diff(&[], &bench.grown(1, 50)));
}

#[test]
fn sampled_growth_has_an_error_bar_of_new_samples_only() {
    let bench = Bench::new();
    let profiles = bench.grown(512 << 10, 50);
    insta::assert_snapshot!(diff(&[], &profiles));
    let json: Value = serde_json::from_str(&diff(&["--json"], &profiles)).unwrap();
    assert_eq!(json["same_process"], true);
    let change = &json["changes"][0];
    assert_eq!(change["function"], "cache_insert");
    assert_eq!(change["verdict"], "grew");
    // Fifty samples of their own luck: a seventh of the sum, however many were there before.
    let (bytes, error) = (
        change["bytes"].as_f64().unwrap(),
        change["error"].as_f64().unwrap(),
    );
    assert!(
        (bytes / error - 50f64.sqrt()).abs() < 0.1,
        "{bytes} {error}"
    );
}

#[test]
fn chance_is_not_called_growth() {
    let bench = Bench::new();
    // Two processes that hold about as much: one sample more is within the error.
    let first = bench.program.table(512 << 10);
    let mut second = bench.program.table(512 << 10);
    let cache = second.site(&bench.program.stack(&["cache_insert", "main"]));
    second.allocate(cache, 4096, 900 * MS);
    second.change(|profile| profile.header.pid = 5555);
    let profiles = [bench.write("one", &first), bench.write("two", &second)];
    insta::assert_snapshot!(diff(&[], &profiles));
    assert!(diff(&["--all"], &profiles).contains("cache_insert"));
}
