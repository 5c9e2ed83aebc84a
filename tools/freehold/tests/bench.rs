//! `freehold bench` as an installed command: what the suite needs and is missing is said.

use std::process::{Command, Stdio};

fn bench(directory: &std::path::Path) -> String {
    let output = Command::new(assert_cmd::cargo::cargo_bin("freehold"))
        .args(["bench", "--quick"])
        .current_dir(directory)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn outside_of_the_source_tree_it_says_what_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let said = bench(directory.path());
    for word in [
        "bench/peers/peers.toml",
        "build/bench",
        "make workloads",
        "--root DIR",
    ] {
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn in_a_source_tree_without_workloads_it_says_how_to_make_them() {
    let directory = tempfile::tempdir().unwrap();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for file in ["bench/peers/peers.toml", "bench/real/real.toml"] {
        let copy = directory.path().join(file);
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::copy(format!("{root}/{file}"), copy).unwrap();
    }
    let said = bench(directory.path());
    assert!(said.contains("run `make workloads` in"), "{said}");
}

#[test]
fn who_stops_reading_its_list_is_told_of_no_error() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("freehold"))
        .args(["bench", "list", "--root", root])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
