//! `freehold bench` as an installed command: what the suite needs and is missing is said.

mod command;

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use command::command;

fn bench(directory: &std::path::Path) -> String {
    let output = Command::new(command())
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

/// What a source tree is known by, and nothing else of it.
fn lists() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for file in ["bench/peers/peers.toml", "bench/real/real.toml"] {
        let copy = directory.path().join(file);
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::copy(format!("{root}/{file}"), copy).unwrap();
    }
    directory
}

#[test]
fn in_a_source_tree_without_workloads_it_says_how_to_make_them() {
    let directory = lists();
    let said = bench(directory.path());
    assert!(said.contains("run `make workloads` in"), "{said}");
}

#[test]
fn who_stops_reading_its_list_is_told_of_no_error() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut child = Command::new(command())
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

/// A source tree with one workload, which is never run.
fn tree() -> tempfile::TempDir {
    let directory = lists();
    let workloads = directory.path().join("build/bench");
    std::fs::create_dir_all(&workloads).unwrap();
    let one = workloads.join("one");
    std::fs::write(&one, "#!/bin/sh\nprintf 'one\\tsize=1\\tquick\\n'\n").unwrap();
    std::fs::set_permissions(&one, std::fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// What `freehold bench` complains about, with the code 2.
fn complaint(words: &[&str]) -> String {
    let output = Command::new(command())
        .arg("bench")
        .args(words)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
    said
}

#[test]
fn what_is_in_the_way_of_its_directory_is_named() {
    let tree = tree();
    let root = tree.path().to_str().unwrap();
    let file = tree.path().join("file");
    std::fs::write(&file, "old").unwrap();
    let file = file.to_str().unwrap();
    let deeper = format!("{file}/deeper");
    for out in [file, &deeper] {
        let said = complaint(&["--root", root, "-a", "glibc", "--out", out]);
        assert_eq!(
            said,
            format!(
                "freehold: --out: cannot make the directory {out}: {file} is there, and is no directory: name another place\n"
            )
        );
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "old");
}

#[test]
fn what_is_not_there_is_named() {
    let tree = tree();
    let root = tree.path().to_str().unwrap();
    let nowhere = format!("{root}/no/such");
    let said = complaint(&["list", "--root", &nowhere]);
    assert!(
        said.starts_with(&format!("freehold: --root {nowhere}: ")),
        "{said}"
    );
    let said = complaint(&["peers", "--root", root, "no-such"]);
    assert!(
        said.starts_with("freehold: there is no peer no-such; there are "),
        "{said}"
    );
    let options = ["-a", "glibc", "--reference", "no-such"];
    let said = complaint(&[&["--root", root][..], &options].concat());
    assert!(said.contains("--reference no-such is not among"), "{said}");
}

#[test]
fn numbers_that_mean_nothing_are_refused() {
    for option in [
        "--repeats=0",
        "--repeats=99999999999",
        "--timeout=0",
        "--timeout=-3",
        "--timeout=nan",
        "--budget=-1",
        "--budget=inf",
    ] {
        let said = complaint(&[option]);
        assert!(said.contains("invalid value"), "{option}: {said}");
    }
}
