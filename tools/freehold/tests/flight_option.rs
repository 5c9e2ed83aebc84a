//! `FREEHOLD=flight=64m`: the library alone, without a command, keeps the last records of the program that it is in.

mod observed;

use std::collections::BTreeMap;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use observed::{command, compile, text};
use profile_file::testing::skip;
use serde_json::Value;

struct Place {
    directory: tempfile::TempDir,
    build: PathBuf,
    program: PathBuf,
}

impl Place {
    /// None, and said, where there is no recorder: in a build without the libraries.
    fn new(what: &str) -> Option<Self> {
        let built = command();
        let mut above = built.ancestors().skip(1).take(4);
        let Some(build) = above.find(|it| it.join("libfreehold-record.so").is_file()) else {
            skip(&format!("{what}: no recorder in the build directory"));
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        let source = include_str!("../../../tests/record/again.c");
        let flags = ["-D_GNU_SOURCE", "-fno-builtin"];
        let program = compile(directory.path(), "again", source, &flags);
        Some(Self {
            build: build.to_owned(),
            directory,
            program,
        })
    }

    fn library(&self) -> PathBuf {
        self.build.join("libfreehold.so")
    }

    /// The program with these options, and with `library` preloaded.
    fn with(&self, options: &str, library: &Path, program: &Path) -> Command {
        let mut made = Command::new(program);
        made.env("FREEHOLD", options).env("LD_PRELOAD", library);
        made
    }

    /// With its records in the place itself.
    fn kept(&self, options: &str) -> Command {
        let page = format!("{options},page={}", self.directory.path().display());
        self.with(&page, &self.library(), &self.program)
    }

    /// Directories of records in the place.
    fn records(&self) -> Vec<PathBuf> {
        records_in(self.directory.path())
    }
}

fn records_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let named = |path: &PathBuf| path.to_string_lossy().contains("freehold-flight-");
    paths.filter(named).collect()
}

fn freehold(arguments: &[&str]) -> Output {
    Command::new(command()).args(arguments).output().unwrap()
}

/// The lines of the program that begin so.
fn lines<'a>(said: &'a str, begin: &str) -> Vec<&'a str> {
    said.lines()
        .filter_map(|line| line.strip_prefix(begin))
        .collect()
}

/// The calls in the trace that is made of these records, and the allocator that the trace names.
fn calls(recording: &str, trace: &Path) -> (BTreeMap<String, u64>, String) {
    let trace = trace.to_str().unwrap();
    let output = freehold(&["trace", "flight", recording, "-o", trace]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let info = freehold(&["trace", "info", "--json", trace]);
    let info: Value = serde_json::from_slice(&info.stdout).unwrap();
    let allocator = info["header"]["allocator"].as_str().unwrap().to_owned();
    let calls = info["tally"]["calls"].clone();
    (serde_json::from_value(calls).unwrap(), allocator)
}

#[test]
fn a_program_that_died_has_left_its_calls_and_was_started_as_it_was_meant() {
    let Some(place) = Place::new("a_program_that_died_has_left_its_calls") else {
        return;
    };
    for mode in ["kill", "vfork"] {
        let output = place
            .kept("flight=1m")
            .arg0("another name")
            .args([mode, "", "a b", "--", "-o"])
            .output()
            .unwrap();
        let said = text(&output.stdout);
        assert_eq!(output.status.signal(), Some(9), "{}", text(&output.stderr));
        assert_eq!(
            lines(&said, "word "),
            ["another name", mode, "", "a b", "--", "-o"]
        );
        assert_eq!(lines(&said, "name "), ["again"]);
        let left = place.records();
        assert_eq!(left.len(), 1, "{mode}: {left:?}");
        let trace = place.directory.path().join("end.trace");
        let (calls, allocator) = calls(left[0].to_str().unwrap(), &trace);
        assert_eq!((calls["malloc"], calls["free"]), (1000, 1000), "{mode}");
        assert_eq!(allocator, "freehold");
        std::fs::remove_dir_all(&left[0]).unwrap();
    }
}

/// Without a directory that was asked for: in memory, and found by the process's number.
#[test]
fn who_died_is_found_by_its_number_and_who_ended_leaves_nothing() {
    let Some(place) = Place::new("who_died_is_found_by_its_number") else {
        return;
    };
    let number = |output: &Output| lines(&text(&output.stdout), "number ")[0].to_owned();
    let run = |words: &[&str]| {
        let mut made = place.with("flight=1m", &place.library(), &place.program);
        made.args(words).output().unwrap()
    };
    let died = run(&["kill"]);
    let replayed = freehold(&[
        "replay",
        "--until-end",
        &number(&died),
        "--on",
        "freehold",
        "--repeats",
        "1",
        "--limit",
        "1g",
        "--json",
    ]);
    let left = PathBuf::from(format!("/dev/shm/freehold-flight-{}", number(&died)));
    std::fs::remove_dir_all(left).unwrap();
    assert!(replayed.status.success(), "{}", text(&replayed.stderr));
    let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!(replayed["below_limit"], serde_json::json!(["freehold"]));

    for words in [
        &["clear"][..],
        &["exit"][..],
        &["_exit"],
        &["exec", "exit"],
        &["exec", "exec", "_exit"],
    ] {
        let ended = run(words);
        let code = ended.status.code();
        assert!([Some(0), Some(3)].contains(&code), "{words:?}: {code:?}");
        let number = number(&ended);
        let left: Vec<_> = records_in(Path::new("/dev/shm"))
            .into_iter()
            .filter(|path| path.ends_with(format!("freehold-flight-{number}")))
            .collect();
        assert!(left.is_empty(), "{words:?}: {left:?}");
    }
    // A daemon whose parent ended meanwhile, and was the last one in the directory.
    let gone = place.directory.path().join("freehold-flight-1");
    let both = format!(
        "{}:{}",
        place.build.join("libfreehold-record.so").display(),
        place.library().display()
    );
    let died = place
        .with("", Path::new(&both), &place.program)
        .env("FREEHOLD_RECORD", &gone)
        .env("FREEHOLD_RECORD_KEEP", "0")
        .arg("kill")
        .output()
        .unwrap();
    assert_eq!(text(&died.stderr), "");
    assert_eq!(std::fs::read_dir(&gone).unwrap().count(), 1);
    std::fs::remove_dir_all(gone).unwrap();

    // What page says stays, of each program.
    let ended = place
        .kept("flight=1m")
        .args(["exec", "exit"])
        .output()
        .unwrap();
    assert!(ended.status.success());
    let left = place.records();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(std::fs::read_dir(&left[0]).unwrap().count(), 2);
}

#[test]
fn a_script_is_started_again_as_a_script() {
    let Some(place) = Place::new("a_script_is_started_again_as_a_script") else {
        return;
    };
    let script = place.directory.path().join("script");
    let source = "#!/bin/sh -e\necho \"word $0\"; for w; do echo \"word $w\"; done; kill -9 $$\n";
    std::fs::write(&script, source).unwrap();
    Command::new("chmod")
        .arg("+x")
        .arg(&script)
        .status()
        .unwrap();
    let page = format!("flight=1m,page={}", place.directory.path().display());
    let mut made = place.with(&page, &place.library(), &script);
    let output = made.args(["a", "", "b c"]).output().unwrap();
    let said = text(&output.stdout);
    assert_eq!(
        lines(&said, "word "),
        [script.to_str().unwrap(), "a", "", "b c"]
    );
    assert_eq!(place.records().len(), 1);
}

/// What is recorded from within such a program is the command's, which reads it after the program's end.
#[test]
fn a_recording_from_within_such_a_program_is_whole() {
    let Some(place) = Place::new("a_recording_from_within_such_a_program_is_whole") else {
        return;
    };
    let record = |options: &[&str], to: &Path| {
        let output = Command::new(command())
            .arg("record")
            .args(options)
            .arg("-o")
            .arg(to)
            .arg("--")
            .arg(&place.program)
            .arg("exit")
            .env("FREEHOLD_RECORD_KEEP", "0")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    let trace = place.directory.path().join("within.trace");
    record(&[], &trace);
    let info = freehold(&["trace", "info", "--json", trace.to_str().unwrap()]);
    let info: Value = serde_json::from_slice(&info.stdout).unwrap();
    assert_eq!(info["tally"]["calls"]["malloc"], 1000);
    let kept = place.directory.path().join("kept");
    record(&["--flight", "1m"], &kept);
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 1);
}

/// `freehold run` keeps the records beside the profile file.
#[test]
fn under_run_the_records_are_beside_the_profile_file() {
    let Some(place) = Place::new("under_run_the_records_are_beside_the_profile_file") else {
        return;
    };
    let keep = place.directory.path().join("kept");
    let output = Command::new(command())
        .args(["run", "--keep"])
        .arg(&keep)
        .arg("--")
        .arg(&place.program)
        .arg("kill")
        .env("FREEHOLD", "flight=1m")
        .output()
        .unwrap();
    let said = text(&output.stdout);
    let number = lines(&said, "number ")[0];
    let left = keep.join(format!("freehold-flight-{number}"));
    let trace = place.directory.path().join("end.trace");
    assert_eq!(calls(left.to_str().unwrap(), &trace).0["malloc"], 1000);
    assert!(keep.join(format!("freehold-{number}")).is_file());
}

/// What cannot be recorded runs on, and says why.
#[test]
fn what_cannot_be_recorded_runs_on_and_says_why() {
    let Some(place) = Place::new("what_cannot_be_recorded_runs_on_and_says_why") else {
        return;
    };
    let alone = place.directory.path().join("alone.so");
    std::fs::copy(place.library(), &alone).unwrap();
    let whole = place.library();
    for (options, library, why) in [
        ("flight=1m", &alone, "no libfreehold-record.so in "),
        (
            "flight=1m,page=/no/such/place",
            &whole,
            "cannot make /no/such/place/freehold-flight-",
        ),
        ("flight=65g", &whole, "no more than 64g of records are kept"),
        (
            "flight=1k",
            &whole,
            "option \"flight\" has bad value \"1k\"",
        ),
    ] {
        let output = place
            .with(options, library, &place.program)
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert!(
            output.status.success() && said.contains(why),
            "{options}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{options}: {said}");
        assert_eq!(lines(&text(&output.stdout), "mallocs "), ["1000"]);
    }
    assert!(place.records().is_empty());

    // A program that loads the library later must not begin again: it would do twice what it has done.
    let source = "#include <dlfcn.h>\n#include <stdio.h>\nint main(int argc, char **argv) {\n\
                  puts(\"begun\"); fflush(stdout); return !dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL); }\n";
    let later = compile(place.directory.path(), "later", source, &["-ldl"]);
    let output = Command::new(later)
        .arg(&whole)
        .env("FREEHOLD", "flight=1m")
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "begun\n");
    let said = text(&output.stderr);
    assert!(
        said.contains("is not the program's from its start"),
        "{said}"
    );

    // Nor one that asks for it while it runs.
    let source = "#include <stdio.h>\nint fh_option_set(const char *, const char *);\nint main(void) {\n\
                  printf(\"%d %d\\n\", fh_option_set(\"flight\", \"1m\"), fh_option_set(\"flight\", \"0\")); }\n";
    let linked = [
        format!("-L{}", place.build.display()),
        "-Wl,--no-as-needed".to_owned(),
        "-lfreehold".to_owned(),
    ];
    let flags: Vec<&str> = linked.iter().map(String::as_str).collect();
    let asks = compile(place.directory.path(), "asks", source, &flags);
    let output = Command::new(asks)
        .env("LD_LIBRARY_PATH", &place.build)
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "-1 0\n", "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("flight is for the start of a program"));
}

/// A program that is linked with the library and has nothing preloaded.
#[test]
fn a_program_that_is_linked_is_recorded_too() {
    let Some(place) = Place::new("a_program_that_is_linked_is_recorded_too") else {
        return;
    };
    let source = include_str!("../../../tests/record/again.c");
    let linked = [
        format!("-L{}", place.build.display()),
        "-Wl,--no-as-needed".to_owned(),
        "-lfreehold".to_owned(),
        "-D_GNU_SOURCE".to_owned(),
        "-fno-builtin".to_owned(),
    ];
    let flags: Vec<&str> = linked.iter().map(String::as_str).collect();
    let program = compile(place.directory.path(), "linked", source, &flags);
    let output = Command::new(program)
        .arg("kill")
        .env(
            "FREEHOLD",
            format!("flight=1m,page={}", place.directory.path().display()),
        )
        .env("LD_LIBRARY_PATH", &place.build)
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(9), "{}", text(&output.stderr));
    let left = place.records();
    let trace = place.directory.path().join("end.trace");
    assert_eq!(calls(left[0].to_str().unwrap(), &trace).0["malloc"], 1000);
}
