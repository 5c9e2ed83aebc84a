//! `freehold profile` on profile files whose every number is known.

mod command;
mod made_up;

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use command::command;
use made_up::Program;
use profile_file::testing::skip;
use serde_json::Value;

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

    fn profile(&self, interval: u64) -> PathBuf {
        let path = self.directory.path().join("freehold-4242");
        std::fs::write(&path, self.program.table(interval).bytes()).unwrap();
        path
    }
}

fn freehold(args: &[&str], file: &Path) -> String {
    let output = Command::new(command())
        .args(args)
        .arg(file)
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{error}");
    assert_eq!(error, "");
    String::from_utf8(output.stdout)
        .unwrap()
        .replace(file.parent().unwrap().to_str().unwrap(), "[directory]")
}

#[test]
fn every_block_counted() {
    let bench = Bench::new();
    insta::assert_snapshot!(freehold(&["profile"], &bench.profile(1)));
}

#[test]
fn sampled_with_error_bars_and_stacks() {
    let bench = Bench::new();
    insta::assert_snapshot!(freehold(
        &["profile", "--allocated", "--stacks"],
        &bench.profile(512 << 10)
    ));
}

#[test]
fn by_other_things() {
    let bench = Bench::new();
    let profile = bench.profile(1);
    let mut all = String::new();
    for by in ["function", "file", "module", "stack"] {
        all += &format!(
            "── {by}\n{}",
            freehold(&["profile", "--by", by, "-n", "2"], &profile)
        );
    }
    insta::assert_snapshot!(all);
}

#[test]
fn json_is_exact() {
    let bench = Bench::new();
    let text = freehold(&["profile", "--json", "--short-lived"], &bench.profile(1));
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["about"]["exact"], true);
    let group = &json["groups"][0];
    assert_eq!(json["groups"].as_array().unwrap().len(), 1);
    assert_eq!(group["function"], "parse_row");
    assert_eq!(group["file"], "/src/table.c");
    assert_eq!(group["line"], 3);
    assert_eq!(group["short-lived"]["bytes"], 5120.0);
    assert_eq!(group["short-lived"]["blocks"], 20.0);
    assert_eq!(group["live"]["bytes"], 0.0);
    assert_eq!(
        json["totals"]["live"]["bytes"],
        (20 * 65_536 + 10 * 4096) as f64
    );
}

#[test]
fn collapsed_stacks() {
    let bench = Bench::new();
    insta::assert_snapshot!(freehold(&["profile", "--collapsed"], &bench.profile(1)), @r"
    main;load_table 1310720
    main;cache_insert 40960
    ");
}

#[test]
fn a_saved_snapshot_says_the_same_when_program_and_page_are_gone() {
    let bench = Bench::new();
    let profile = bench.profile(512 << 10);
    let saved = bench.directory.path().join("kept.fhs");
    let before = freehold(
        &["profile", "--json", "--save", saved.to_str().unwrap()],
        &profile,
    );
    std::fs::remove_file(&profile).unwrap();
    std::fs::remove_file(&bench.program.path).unwrap();
    let after = freehold(&["profile", "--json"], &saved);
    assert_eq!(before, after);
}

#[test]
fn a_program_that_was_replaced_lends_no_names() {
    let bench = Bench::new();
    let path = bench.directory.path().join("freehold-4242");
    let mut profile = bench.program.table(1);
    profile.change(|profile| {
        profile.modules[0].build_id_bytes = 20;
        profile.modules[0].build_id[..20].copy_from_slice(&[7; 20]);
    });
    std::fs::write(&path, profile.bytes()).unwrap();
    let text = freehold(&["profile"], &path);
    assert!(text.contains("table+0x"), "{text}");
    assert!(
        text.contains("was changed since the program loaded it"),
        "{text}"
    );
}

#[test]
fn nothing_sampled_is_said_with_its_reason() {
    let bench = Bench::new();
    let path = bench.directory.path().join("freehold-4242");
    std::fs::write(&path, bench.program.profile(512 << 10).bytes()).unwrap();
    insta::assert_snapshot!(freehold(&["profile"], &path));
}

#[test]
fn what_is_not_there_is_named() {
    for (word, text) in [
        ("999999999", "there is no process 999999999"),
        (
            "no-such-program-runs",
            "no program called \"no-such-program-runs\" runs",
        ),
        ("/nowhere/at/all", "/nowhere/at/all: No such file"),
        ("/dev/null", "is not a file"),
        (env!("CARGO_MANIFEST_PATH"), "which is less than its header"),
        ("1", "process 1 ("),
    ] {
        let output = Command::new(command())
            .args(["profile", word])
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{word}: {error}");
        assert!(error.contains(text), "{word}: {error}");
    }
}

#[test]
fn pprof_has_what_go_reads() {
    let bench = Bench::new();
    let out = bench.directory.path().join("heap.pb.gz");
    freehold(
        &["profile", "--pprof", out.to_str().unwrap()],
        &bench.profile(1),
    );
    let Ok(output) = std::process::Command::new("go")
        .args(["tool", "pprof", "-top"])
        .arg(&out)
        .output()
    else {
        return skip("no go (package golang-go)");
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("Type: inuse_space"), "{text}");
    assert!(
        text.contains("1280kB") && text.contains("load_table"),
        "{text}"
    );
}

#[test]
fn the_flame_graph_needs_nothing_from_outside() {
    let bench = Bench::new();
    let out = bench.directory.path().join("flame.html");
    freehold(
        &["profile", "--html", out.to_str().unwrap()],
        &bench.profile(1),
    );
    let profile = std::fs::read_to_string(&out).unwrap();
    for word in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!profile.contains(word), "{word}");
    }
    let data = profile
        .split("id=\"data\">")
        .nth(1)
        .unwrap()
        .split("</script>")
        .next()
        .unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    // main, load_table, parse_row, cache_insert
    assert_eq!(data["nodes"].as_array().unwrap().len(), 4);
}

#[test]
fn the_flame_graphs_script_is_sound() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/profile/flame/flame.js");
    let Ok(output) = std::process::Command::new("node")
        .args(["--check", script])
        .output()
    else {
        return skip("no node (package nodejs)");
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
