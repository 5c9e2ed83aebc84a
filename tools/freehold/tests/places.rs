//! Where commands write: a place that cannot be is named, with what is in the way, and before a command has run for long.
//! What was there before stays, unless there is something in its place.

mod observed;

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use observed::*;
use tempfile::TempDir;

/// A trace of three blocks, a file that is in the way, and a directory.
struct Place {
    directory: TempDir,
    trace: String,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let trace = imported(directory.path(), "a 100 1\na 200 2\na 300 3\nr 2\n");
        fs::write(directory.path().join("file"), "old").unwrap();
        Self {
            trace: trace.display().to_string(),
            directory,
        }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// What is in the directory, by name and size.
    fn contents(&self) -> Vec<(PathBuf, u64)> {
        let mut found: Vec<_> = fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let size = fs::symlink_metadata(&path).unwrap().len();
                (path, size)
            })
            .collect();
        found.sort();
        found
    }
}

/// Commands that write a trace, without the place.
fn traces(trace: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["trace", "cut", trace, "-o"],
        vec!["trace", "anonymize", trace, "-o"],
        vec!["replay", trace, "--prepare"],
    ]
}

#[test]
fn what_is_in_the_way_of_a_trace_is_named_and_stays() {
    let place = Place::new();
    let directory = place.path("");
    let (deeper, missing) = (place.path("file/deeper"), place.path("no/such"));
    let cases = [
        (&directory, "it is a directory: name a file".to_owned()),
        (&deeper, format!("{} is no directory", place.path("file"))),
        (
            &missing,
            format!("there is no directory {}", place.path("no")),
        ),
    ];
    let before = place.contents();
    for mut command in traces(&place.trace) {
        for (path, why) in &cases {
            command.push(path);
            let told = complaint(&command, 2);
            assert_eq!(told, format!("freehold: cannot write {path}: {why}\n"));
            command.pop();
        }
    }
    assert_eq!(place.contents(), before);
}

#[test]
fn a_trace_is_written_into_a_pipe_and_the_pipe_stays() {
    let place = Place::new();
    let pipe = place.path("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    // Both ends open, so that writing to it does not wait for a reader.
    let _both_ends = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&pipe)
        .unwrap();
    for mut command in traces(&place.trace) {
        command.push(&pipe);
        answer(&command);
        let kind = fs::metadata(&pipe).unwrap().file_type();
        assert!(kind.is_fifo(), "{command:?} replaced the pipe");
    }
}

/// By a link, so that a command that replaces what it should write to replaces the link.
#[test]
fn a_full_disk_is_told_with_the_file_that_it_is_about() {
    let place = Place::new();
    let full = place.path("full");
    symlink("/dev/full", &full).unwrap();
    for mut command in traces(&place.trace) {
        command.push(&full);
        let told = complaint(&command, 2);
        assert_eq!(
            told,
            format!("freehold: cannot write {full}: No space left on device (os error 28)\n")
        );
    }
    assert!(Path::new(&full).is_symlink());
}

#[test]
fn what_a_trace_is_made_from_is_not_replaced_by_it() {
    let place = Place::new();
    // Another name of the same file.
    let again = place.path("again");
    symlink(&place.trace, &again).unwrap();
    let text = place.path("text");
    let trace = place.trace.as_str();
    let until = "rss/live > 0.1 on system";
    for command in [
        ["trace", "cut", "--count", "1", trace, "-o", &again].as_slice(),
        &["trace", "anonymize", trace, "-o", trace],
        &["trace", "import", &text, "-o", &text],
        &["shrink", trace, "--until", until, "-o", &again],
    ] {
        let before = place.contents();
        let told = complaint(command, 2);
        let named = command.last().unwrap();
        assert_eq!(
            told,
            format!(
                "freehold: {named} is what the new trace is made from, and would be lost: name another file with -o\n"
            )
        );
        assert_eq!(place.contents(), before);
    }
}

#[test]
fn a_place_that_cannot_be_is_told_before_anything_is_measured() {
    if !is_beside("replay", &["freehold-replayer"]) {
        return;
    }
    let place = Place::new();
    let nowhere = place.path("no/such");
    let trace = place.trace.as_str();
    for command in [
        ["replay", trace, "--on", "system", "--html", &nowhere].as_slice(),
        &["replay", trace, "--on", "system", "--film", &nowhere],
        // Without an end of the search, unless it does not begin.
        &[
            "shrink",
            trace,
            "--until",
            "crash on system",
            "-o",
            &nowhere,
        ],
    ] {
        let output = freehold(command);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {told}");
        assert_eq!(text(&output.stdout), "", "{command:?}");
        assert_eq!(
            told,
            format!(
                "freehold: cannot write {nowhere}: there is no directory {}\n",
                place.path("no")
            )
        );
    }
}

#[test]
fn what_is_in_the_way_of_a_directory_is_named() {
    let place = Place::new();
    let file = place.path("file");
    for directory in [file.clone(), place.path("file/deeper")] {
        for command in [
            ["run", "--keep", &directory, "true"].as_slice(),
            &["record", "--flight", "1m", "-o", &directory, "true"],
            &["manual", "--into", &directory],
        ] {
            let told = complaint(command, 2);
            assert!(
                told.starts_with(&format!("freehold: cannot make the directory {directory}"))
                    && told.ends_with(&format!(
                        "{file} is there, and is no directory: name another place\n"
                    )),
                "{command:?}: {told}"
            );
        }
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "old");
}

/// A recording that comes to nothing leaves the file as it was, and a link to no file a link to no file.
#[test]
fn a_recording_that_fails_changes_nothing() {
    if !is_beside("record", &["libfreehold-record.so"]) {
        return;
    }
    let place = Place::new();
    let link = place.path("link");
    symlink("later", &link).unwrap();
    for name in ["file", "link"] {
        let before = place.contents();
        let path = place.path(name);
        complaint(&["record", "-o", &path, "no-such-command"], 127);
        assert_eq!(place.contents(), before, "{name}");
    }
    // The disk is full when the trace is written.
    let full = place.path("full");
    symlink("/dev/full", &full).unwrap();
    let told = complaint(&["record", "-o", &full, "ls", "/"], 2);
    assert!(
        told.contains(&format!("cannot write {full}: No space left on device")),
        "{told}"
    );
}

/// What is read is named, too.
#[test]
fn what_cannot_be_read_is_named() {
    let place = Place::new();
    let directory = place.path("");
    let told = complaint(
        &["trace", "import", &directory, "-o", &place.path("new")],
        2,
    );
    assert_eq!(
        told,
        format!("freehold: {directory}: Is a directory (os error 21)\n")
    );
    let mut damaged = fs::read(&place.trace).unwrap();
    let block = damaged.windows(4).position(|it| it == b"BLOK").unwrap();
    damaged[block + 30] ^= 0x55;
    let file = place.path("damaged.trace");
    fs::write(&file, damaged).unwrap();
    for mut command in traces(&file) {
        let new = place.path("new");
        command.push(&new);
        let told = complaint(&command, 2);
        assert!(
            told.starts_with(&format!("freehold: {file}: ")),
            "{command:?}: {told}"
        );
        assert!(!Path::new(&new).exists());
    }
}
