//! `freehold record --flight` and `freehold trace flight`: what a program leaves when it dies is its last records.

mod observed;

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use observed::{command, counted, is_beside, text};
use serde_json::Value;

type Counts = BTreeMap<String, u64>;

struct Place {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Place {
    /// None, and said, where there is no recorder: in a build without the libraries.
    fn new(what: &str) -> Option<Self> {
        let files = ["libfreehold-record.so", "libfreehold.so"];
        if !is_beside(what, &files) {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let program = counted(directory.path());
        Some(Self { directory, program })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn flight(&self, size: &str, arguments: &[&str]) -> Command {
        let mut made = Command::new(command());
        made.args(["record", "--flight", size, "-o"])
            .arg(self.at("flight"))
            .arg("--")
            .arg(&self.program)
            .args(arguments);
        made
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.at("flight")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn show(&self, recording: &str, options: &[&str]) -> Output {
        freehold(
            &[
                &["trace", "flight", self.at(recording).to_str().unwrap()],
                options,
            ]
            .concat(),
        )
    }

    /// The trace's calls and losses; the trace was replayed, and each block checked.
    fn compiled(&self, recording: &str) -> (Counts, Counts, String) {
        let trace = self.at("end.trace");
        let trace = trace.to_str().unwrap();
        let output = self.show(recording, &["-o", trace]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let replay = freehold(&["replay", trace, "--on", "freehold", "--verify"]);
        assert!(replay.status.success(), "{}", text(&replay.stderr));
        let info = freehold(&["trace", "info", "--json", trace]);
        let info: Value = serde_json::from_slice(&info.stdout).unwrap();
        assert_eq!(info["header"]["origin"], "flight");
        (
            serde_json::from_value(info["tally"]["calls"].clone()).unwrap(),
            serde_json::from_value(info["losses"].clone()).unwrap(),
            text(&output.stdout),
        )
    }
}

fn freehold(arguments: &[&str]) -> Output {
    Command::new(command()).args(arguments).output().unwrap()
}

/// libc allocates once for each thread; nothing else may differ.
fn same(output: &Output, trace: &Counts) {
    let program: Counts = serde_json::from_slice(&output.stdout).unwrap();
    for (name, count) in &program {
        let libc = if name == "calloc" {
            program["thread-start"]
        } else {
            0
        };
        assert_eq!(trace[name], count + libc, "{name}: {program:?} {trace:?}");
    }
}

#[test]
fn a_program_that_died_has_left_every_call() {
    let Some(place) = Place::new("a_program_that_died_has_left_every_call") else {
        return;
    };
    for (mode, signal) in [("kill", 9), ("abort", 6)] {
        let output = place.flight("4m", &[mode, "3"]).output().unwrap();
        assert_eq!(output.status.signal(), Some(signal));
        let (calls, losses, _) = place.compiled("flight");
        same(&output, &calls);
        assert!(losses.values().all(|count| *count == 0), "{losses:?}");
        std::fs::remove_dir_all(place.at("flight")).unwrap();
    }
}

/// As a person types it: without a directory, and later the number of the process that died.
#[test]
fn a_process_is_found_by_its_number() {
    let Some(place) = Place::new("a_process_is_found_by_its_number") else {
        return;
    };
    let child = Command::new(command())
        .args(["record", "--flight", "1m", "--"])
        .arg(&place.program)
        .args(["kill", "3"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let process = child.id().to_string();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(9));
    let said = text(&output.stderr);
    let directory = said
        .split_whitespace()
        .find(|word| word.contains("/freehold-flight-"))
        .unwrap_or_else(|| panic!("{said}"));
    let trace = place.at("end.trace");
    let found = freehold(&["trace", "flight", &process, "-o", trace.to_str().unwrap()]);
    let all = freehold(&["trace", "flight"]);
    let replay = |limit: &str| {
        let replayed = freehold(&[
            "replay",
            "--until-end",
            &process,
            "--on",
            "freehold",
            "--repeats",
            "1",
            "--limit",
            limit,
            "--json",
        ]);
        assert!(replayed.status.success(), "{}", text(&replayed.stderr));
        let said = text(&replayed.stderr);
        assert!(said.contains("operations: the last"), "{said}");
        serde_json::from_slice::<Value>(&replayed.stdout).unwrap()
    };
    let (roomy, tight) = (replay("1g"), replay("4k"));
    let table = freehold(&[
        "replay",
        "--until-end",
        &process,
        "--on",
        "freehold",
        "--repeats",
        "1",
        "--limit",
        "4k",
    ]);
    std::fs::remove_dir_all(directory).unwrap();
    assert!(found.status.success(), "{}", text(&found.stderr));
    let info = freehold(&["trace", "info", "--json", trace.to_str().unwrap()]);
    let info: Value = serde_json::from_slice(&info.stdout).unwrap();
    let calls: Counts = serde_json::from_value(info["tally"]["calls"].clone()).unwrap();
    same(&output, &calls);
    assert!(text(&all.stdout).contains(&format!(": process {process}, ")));
    let peak = roomy["trace"]["peak_bytes"].as_u64().unwrap();
    assert_eq!(info["tally"]["peak_bytes"].as_u64(), Some(peak));
    assert_eq!(roomy["below_limit"], serde_json::json!(["freehold"]));
    assert_eq!(tight["below_limit"], serde_json::json!([]));
    let said = text(&table.stdout);
    assert!(
        said.contains("Below 4,096 B of resident memory: none"),
        "{said}"
    );

    let gone = freehold(&["trace", "flight", &process]);
    assert_eq!(gone.status.code(), Some(2));
    let said = text(&gone.stderr);
    assert!(
        said.contains(&format!("no process {process} has left records")),
        "{said}"
    );
}

#[test]
fn a_killed_child_has_a_file_of_its_own() {
    let Some(place) = Place::new("a_killed_child_has_a_file_of_its_own") else {
        return;
    };
    let output = place.flight("4m", &["fork-kill", "2"]).output().unwrap();
    assert_eq!(output.status.signal(), Some(9));
    // Of a directory the largest is taken, which is the parent's.
    same(&output, &place.compiled("flight").0);
    let list = text(&place.show("flight", &[]).stdout);
    assert_eq!(list.matches(": process ").count(), 2, "{list}");
    let files = place.files();
    assert_eq!(files.len(), 2);
    let child = files.iter().map(|file| {
        let (calls, _, _) = place.compiled(file.to_str().unwrap());
        (calls["malloc"], calls["free"])
    });
    assert_eq!(child.filter(|counts| *counts == (500, 500)).count(), 1);
}

/// A ring of 16 blocks has room for 130,944 words: of records, of some stamps, and the last block may be empty.
#[test]
fn a_ring_that_wraps_keeps_the_last_records() {
    let Some(place) = Place::new("a_ring_that_wraps_keeps_the_last_records") else {
        return;
    };
    let output = place
        .flight("1m", &["loop-kill", "100000"])
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(9));
    let (calls, losses, said) = place.compiled("flight");
    let recorded: u64 = calls.values().sum();
    assert!((105_000..=130_944).contains(&recorded), "{calls:?}");
    let seen = recorded + losses["lost"] + losses["unknown_frees"] - losses["missed_frees"];
    assert_eq!(seen, 200_000, "{calls:?} {losses:?}");
    assert!(said.contains("lost records"), "{said}");
    assert!(said.contains("its peak is too low"), "{said}");
}

#[test]
fn threads_whose_start_was_overwritten_are_replayed() {
    let Some(place) = Place::new("threads_whose_start_was_overwritten_are_replayed") else {
        return;
    };
    let output = place.flight("1m", &["kill", "60"]).output().unwrap();
    assert_eq!(output.status.signal(), Some(9));
    let (_, losses, _) = place.compiled("flight");
    assert!(losses["lost"] > 0, "{losses:?}");
}

#[test]
fn a_program_that_runs_is_left_alone() {
    let Some(place) = Place::new("a_program_that_runs_is_left_alone") else {
        return;
    };
    let mut child = place
        .flight("1m", &["wait", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // What it says comes after its last call.
    let mut first = [0];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    let early = place.show("flight", &[]);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(early.status.code(), Some(2));
    assert!(
        text(&early.stderr).contains("still runs"),
        "{}",
        text(&early.stderr)
    );
    assert!(place.show("flight", &[]).status.success());
}

#[test]
fn a_size_that_cannot_be_is_refused() {
    for (size, why) in [
        ("0", "keeps 1m to 64g"),
        ("1k", "keeps 1m to 64g"),
        ("65g", "keeps 1m to 64g"),
        ("x", "a size looks like"),
    ] {
        let output = freehold(&["record", "--flight", size, "--", "true"]);
        assert_eq!(output.status.code(), Some(2), "{size}");
        assert!(
            text(&output.stderr).contains(why),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_command_that_is_not_there_leaves_no_directory() {
    let Some(place) = Place::new("a_command_that_is_not_there_leaves_no_directory") else {
        return;
    };
    let to = place.at("flight");
    let to = to.to_str().unwrap();
    let output = freehold(&[
        "record",
        "--flight",
        "1m",
        "-o",
        to,
        "--",
        "/no/such/program",
    ]);
    assert_eq!(output.status.code(), Some(127));
    assert!(!place.at("flight").exists());
}

#[test]
fn a_file_that_is_not_whole_says_so() {
    let Some(place) = Place::new("a_file_that_is_not_whole_says_so") else {
        return;
    };
    place.flight("1m", &["loop-kill", "9000"]).output().unwrap();
    let whole = std::fs::read(&place.files()[0]).unwrap();
    let with = |offset: u64, bytes: &[u8], length: usize| {
        let mut file = std::fs::File::create(place.at("bad.raw")).unwrap();
        file.write_all(&whole[..length]).unwrap();
        file.seek(SeekFrom::Start(offset)).unwrap();
        file.write_all(bytes).unwrap();
        let trace = place.at("bad.trace");
        place.show("bad.raw", &["-o", trace.to_str().unwrap()])
    };
    for (offset, bytes, length, why) in [
        (0, &b""[..], 100, "unfinished or no recording"),
        (
            0,
            &[0; 8][..],
            whole.len(),
            "died before it had written the header",
        ),
        (
            0,
            &b"FHTRACES"[..],
            whole.len(),
            "does not begin with FHRAWREC",
        ),
        (8, &[9][..], whole.len(), "version 9"),
        (
            16,
            &[0; 8][..],
            whole.len(),
            "corrupt: 0 blocks at offset 16",
        ),
        (16, &[255; 8][..], whole.len(), "corrupt: "),
        (0, &b""[..], whole.len() - 1, "corrupt: "),
    ] {
        let output = with(offset, bytes, length);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("bad.raw") && said.contains(why), "{said}");
        assert!(!place.at("bad.trace").exists());
    }
    // The first block begins with no stamp: that block is left out, and the others are not.
    let output = with(8192 + 64, &[255; 8], whole.len());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("1 block is damaged"), "{said}");
}
