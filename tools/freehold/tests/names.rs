//! By which names a program is found, and shown: its own and not that of the file behind a link, a script's and not its
//! interpreter's, and that of a run.

mod observed;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use observed::{answer, command, compile, complaint, installed, wait_for};
use profile_file::testing::skip;
use serde_json::Value;

const HOLDER: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char *kept[64];
int main(void) {
    for (int i = 0; i < 64; i++) memset(kept[i] = malloc(100000), 1, 100000);
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
"#;

/// No other program on this machine has this name.
fn unique(stem: &str) -> String {
    format!("{stem}-{}", std::process::id())
}

/// A `freehold run` as a person types it: what it shows is kept where the user's runs are.
struct Run {
    runner: Child,
    input: Option<ChildStdin>,
    name: String,
    /// What it says at its end.
    said: tempfile::NamedTempFile,
}

impl Run {
    /// `name` is the one that the run is expected to have in the list, without the number behind it.
    fn start(program: &[&str], name: &str) -> Run {
        Self::start_with(&[], program, name)
    }

    fn start_with(options: &[&str], program: &[&str], name: &str) -> Run {
        let said = tempfile::NamedTempFile::new().unwrap();
        let mut runner = Command::new(command())
            .args(["run", "--sample", "4k"])
            .args(options)
            .arg("--")
            .args(program)
            .env_remove("LD_PRELOAD")
            .env_remove("FREEHOLD")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(said.reopen().unwrap())
            .spawn()
            .unwrap();
        let name = format!("{name}.{}", runner.id());
        let run = Run {
            input: runner.stdin.take(),
            name,
            runner,
            said,
        };
        wait_for("samples of the run", || {
            let found = observed::freehold(&["profile", "--json", &run.name]);
            let found: Value = serde_json::from_slice(&found.stdout).ok()?;
            (found["about"]["samples"].as_u64()? > 32).then_some(())
        });
        run
    }

    fn end(&mut self) {
        drop(self.input.take());
        assert!(self.runner.wait().unwrap().success());
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.runner.wait();
        observed::freehold(&["run", "--clean", &self.name]);
    }
}

/// What a command calls the program that it found by this name.
fn program_of(word: &str) -> String {
    let found: Value = serde_json::from_str(&answer(&["profile", "--json", word])).unwrap();
    found["about"]["program"].as_str().unwrap().to_owned()
}

/// Each command takes the name, and shows `own`.
fn every_command_takes(word: &str, own: &str) {
    let saved = tempfile::tempdir().unwrap();
    let page = saved.path().join("page.html");
    let page = page.to_str().unwrap();
    for arguments in [
        &["profile", word][..],
        &["explain", word],
        &["leaks", word, "--for", "0"],
        &["top", "--once", word],
        &["metrics", word],
        &["report", word, "-o", page],
        &["diff", word, word, "--all"],
        &["doctor", word],
    ] {
        let said = answer(arguments);
        assert!(
            said.contains(own) || arguments[0] == "doctor",
            "{arguments:?}: {said}"
        );
    }
}

fn link_to(directory: &Path, program: &Path, name: &str) -> PathBuf {
    let link = directory.join(name);
    symlink(program, &link).unwrap();
    link
}

#[test]
fn a_program_that_was_started_by_a_link_has_the_links_name() {
    let directory = tempfile::tempdir().unwrap();
    let (file, own) = (unique("file"), unique("link"));
    let program = compile(directory.path(), &file, HOLDER, &[]);
    let link = link_to(directory.path(), &program, &own);
    let mut run = Run::start(&[link.to_str().unwrap()], &own);
    every_command_takes(&own, &own);
    // The file's name still finds it, and the run's.
    for word in [&file, &run.name.clone()] {
        assert_eq!(program_of(word), link.to_str().unwrap());
    }
    run.end();
    // What it left is found by the same names.
    for word in [&own, &file, &run.name.clone()] {
        assert_eq!(program_of(word), link.to_str().unwrap());
    }
}

/// The data of a run that a person keeps elsewhere is found by the same names, and is never removed by us.
#[test]
fn a_run_that_is_kept_elsewhere_has_its_names() {
    let directory = tempfile::tempdir().unwrap();
    let own = unique("elsewhere");
    let program = compile(directory.path(), &own, HOLDER, &[]);
    let keep = directory.path().join("keep");
    let options = ["--keep", keep.to_str().unwrap()];
    let program = program.to_str().unwrap();
    let mut first = Run::start_with(&options, &[program], &own);
    assert_eq!(program_of(&own), program);
    first.end();
    let mut second = Run::start_with(&options, &[program], &own);
    second.end();
    let names = [&own, &second.name.clone()];
    for word in names {
        assert_eq!(program_of(word), program);
    }
    every_command_takes(&own, &own);

    let listed = answer(&["run", "--list"]);
    assert!(listed.contains(&second.name), "{listed}");
    // The second run wrote its record over that of the first.
    assert!(!listed.contains(&first.name), "{listed}");
    let said = answer(&["run", "--clean", &second.name]);
    assert!(said.starts_with("1 run removed, 0 B freed"), "{said}");
    assert!(!answer(&["run", "--list"]).contains(&own));
    let left = std::fs::read_dir(&keep).unwrap().count();
    assert_eq!(left, 3, "two profile files and a record");
}

#[test]
fn a_script_has_its_own_name() {
    let Some(python) = ["/usr/bin/python3", "/usr/local/bin/python3"]
        .into_iter()
        .find(|path| Path::new(path).is_file())
    else {
        return skip("python3 is not installed");
    };
    let directory = tempfile::tempdir().unwrap();
    let own = unique("app") + ".py";
    let script = directory.path().join(&own);
    let text = "import sys\nkept = [bytes(100000) for _ in range(100)]\nsys.stdin.read()\n";
    std::fs::write(&script, text).unwrap();
    let script = script.to_str().unwrap();
    let mut run = Run::start(&[python, "-u", script], &own);
    every_command_takes(&own, &own);
    let listed: Value = serde_json::from_str(&answer(&["run", "--list", "--json"])).unwrap();
    let names: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|run| run["name"].as_str())
        .collect();
    assert!(names.contains(&run.name.as_str()), "{names:?}");
    run.end();
    assert_eq!(program_of(&own), script);
    assert_eq!(program_of(&run.name.clone()), script);
}

/// The server that Debian installs as a link to `redis-check-rdb`, and that writes a title over its command line.
#[test]
fn redis_is_called_as_it_was_started() {
    if !installed("redis-server") {
        return skip("redis-server is not installed");
    }
    let directory = tempfile::tempdir().unwrap();
    let own = unique("redis-server");
    let server = Command::new("sh")
        .args(["-c", "command -v redis-server"])
        .output()
        .unwrap();
    let server = PathBuf::from(observed::text(&server.stdout).trim());
    let link = link_to(directory.path(), &server.canonicalize().unwrap(), &own);
    let socket = directory.path().join("socket");
    let mut run = Run::start(
        &[
            link.to_str().unwrap(),
            "--port",
            "0",
            "--unixsocket",
            socket.to_str().unwrap(),
            "--save",
            "",
        ],
        &own,
    );
    assert_eq!(program_of(&own), link.to_str().unwrap());
    assert!(answer(&["explain", &own]).starts_with(&own));
    let pid: Value = serde_json::from_str(&answer(&["profile", "--json", &own])).unwrap();
    let pid = pid["about"]["pid"].as_u64().unwrap();
    let ended = Command::new("kill").arg(pid.to_string()).status().unwrap();
    assert!(ended.success());
    run.end();
    assert_eq!(program_of(&own), link.to_str().unwrap());
}

/// A run of several processes stands for the one with the most memory, as its summary does.
#[test]
fn a_run_of_several_processes_is_the_largest() {
    let directory = tempfile::tempdir().unwrap();
    let own = unique("large");
    let program = compile(directory.path(), &own, HOLDER, &[]);
    let script = format!("env true; {}; env true", program.display());
    let run = Run::start(&["sh", "-c", &script], "sh");
    assert_eq!(program_of(&run.name), program.to_str().unwrap());
}

/// Few blocks of many stay, so that `explain` names who keeps the rest.
const SPARSE: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char *kept[200000];
int main(void) {
    for (int i = 0; i < 200000; i++) memset(kept[i] = malloc(100), 1, 100);
    for (int i = 0; i < 200000; i++) if (i % 64) free(kept[i]);
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
"#;

/// A program that was built again while it ran, with `from` changed to `to`. While it runs its file is still there for those who
/// ask the kernel, and has the names: `before` says the line. At its end they are nowhere. The run, ended, and what must be said.
fn built_again(
    directory: &Path,
    own: &str,
    source: &str,
    (from, to): (&str, &str),
    before: &str,
) -> (Run, String) {
    let program = compile(directory, own, source, &["-Wl,--build-id"]);
    let mut run = Run::start(&[program.to_str().unwrap()], own);
    std::fs::remove_file(&program).unwrap();
    let other = source.replace(from, to);
    assert_ne!(other, source);
    compile(directory, own, &other, &["-Wl,--build-id"]);
    let line = format!("{own}.c:6");
    wait_for("the line, while it runs", || {
        answer(&[before, own]).contains(&line).then_some(())
    });
    run.end();
    let wanted = format!(
        "{} was changed since the program loaded it",
        program.display()
    );
    (run, wanted)
}

/// Everything that a command says, on both of its outputs.
fn said_by(arguments: &[&str]) -> String {
    let output = observed::freehold(arguments);
    observed::text(&output.stdout) + &observed::text(&output.stderr)
}

#[test]
fn that_a_program_was_built_again_is_said_at_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let own = unique("rebuilt");
    let change = ("i < 64", "i < 63");
    let (run, wanted) = built_again(directory.path(), &own, HOLDER, change, "profile");
    for arguments in [
        &["profile", &own][..],
        &["profile", "--json", &own],
        &["leaks", &own, "--for", "0"],
        &["top", "--once", &own],
        &["diff", &own, &own],
    ] {
        let said = said_by(arguments);
        assert!(said.contains(&wanted), "{arguments:?}: {said}");
    }
    let page = directory.path().join("page.html");
    answer(&["report", &own, "-o", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&wanted), "report");
    let said = std::fs::read_to_string(run.said.path()).unwrap();
    assert!(said.contains(&wanted), "run: {said}");
}

#[test]
fn explain_says_that_a_program_was_built_again() {
    let directory = tempfile::tempdir().unwrap();
    let own = unique("sparse");
    let change = ("i % 64", "i % 63");
    let (_run, wanted) = built_again(directory.path(), &own, SPARSE, change, "explain");
    for arguments in [&["explain", &own][..], &["explain", "--json", &own]] {
        let said = said_by(arguments);
        assert!(said.contains(&wanted), "{arguments:?}: {said}");
    }
}

/// Somebody who stands where the program's file is, and means the process, which has ended without a trace.
#[test]
fn a_file_that_is_no_profile_file_is_not_what_was_meant() {
    let directory = tempfile::tempdir().unwrap();
    let own = unique("unused");
    compile(directory.path(), &own, HOLDER, &[]);
    let output = Command::new(command())
        .args(["profile", &own])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let said = observed::text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no program of this name runs"), "{said}");
    assert!(!said.contains("0x"), "{said}");
}

/// As from a variable of the shell that has no value.
#[test]
fn an_empty_name_is_nobodys() {
    for command in ["explain", "profile", "metrics", "leaks", "report", "doctor"] {
        let told = complaint(&[command, ""], 2);
        assert_eq!(
            told,
            "freehold: the name is empty: say a process's number, a program's name or a file\n",
            "{command}"
        );
    }
}
