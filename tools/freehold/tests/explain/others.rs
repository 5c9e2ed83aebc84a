//! Programs of others, each brought to a standstill with something in its memory. Their number of parts is their own
//! business; that the parts add up is ours.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use profile_file::testing::skip_part;

use crate::observed::*;
use crate::{Explained, MIB};

#[test]
fn programs_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let looked_at = [
        python(),
        sqlite(),
        redis(directory.path()),
        perl(),
        git(directory.path()),
        gcc(directory.path()),
        node(),
    ]
    .into_iter()
    .flatten()
    .count();
    assert!(looked_at > 0, "none of 7 programs is installed");
}

/// True if a program is installed; otherwise its part is noted as skipped.
fn has(program: &str) -> bool {
    let found = installed(program);
    if !found {
        skip_part(&format!("{program} is not installed"));
    }
    found
}

fn observe(name: &str, program: &[&str], input: &str) -> Option<Explained> {
    if !has(program[0]) {
        return None;
    }
    let mut run = Observed::start(&[], program);
    if !input.is_empty() {
        run.say(input);
    }
    assert_eq!(run.line(), "ready", "{name}");
    let it = Explained::of(name, run.pid());
    let pid = run.pid().to_string();
    // Ends it without its leave: not all of these end with their input.
    let _ = Command::new("kill").args(["-9", &pid]).status();
    let (code, said, _pages) = run.end();
    assert!(code == 137 || code == 0, "{name}: {code} {said}");
    Some(it)
}

fn python() -> Option<()> {
    let script = "import sys\nx = [str(i) * 20 for i in range(100000)]\nprint('ready', flush=True)\nsys.stdin.read()";
    let it = observe("python3", &["python3", "-c", script], "")?;
    // Strings of some hundred bytes come from Python's own arenas, which Freehold has, as mmap is called for them no
    // more than malloc is: either way most of this process is not its code.
    assert!(it.part("code") < it.resident / 2, "{:#}", it.json);
    Some(())
}

fn sqlite() -> Option<()> {
    let work = "create table t(a, b);\nwith recursive n(i) as (select 1 union all select i + 1 from n where i < 100000) \
                insert into t select i, hex(randomblob(50)) from n;\n.print ready\n";
    let it = observe("sqlite3", &["sqlite3"], work)?;
    assert!(
        it.json["freehold_bytes"].as_u64().unwrap() > 5 * MIB,
        "{:#}",
        it.json
    );
    Some(())
}

fn redis(directory: &Path) -> Option<()> {
    if !has("redis-server") || !has("redis-cli") {
        return None;
    }
    let socket = directory.join("socket");
    let socket = socket.to_str().unwrap();
    let run = Observed::start(
        &[],
        &[
            "redis-server",
            "--port",
            "0",
            "--save",
            "",
            "--enable-debug-command",
            "local",
            "--unixsocket",
            socket,
        ],
    );
    let ask = |words: &[&str]| {
        Command::new("redis-cli")
            .args(["-s", socket])
            .args(words)
            .stderr(Stdio::null())
            .output()
            .unwrap()
    };
    wait_for("the server", || {
        text(&ask(&["ping"]).stdout).contains("PONG").then_some(())
    });
    ask(&["debug", "populate", "100000", "key", "100"]);
    let it = Explained::of("redis-server", run.pid());
    assert!(it.part("live") > 5 * MIB, "{:#}", it.json);
    ask(&["shutdown", "nosave"]);
    run.end();
    Some(())
}

fn perl() -> Option<()> {
    let script = "$| = 1; my %h = map { $_ => 'x' x 50 } 1 .. 50000; print \"ready\\n\"; <STDIN>";
    let it = observe("perl", &["perl", "-e", script], "")?;
    assert!(it.part("live") > 2 * MIB, "{:#}", it.json);
    Some(())
}

fn git(directory: &Path) -> Option<()> {
    if !has("git") {
        return None;
    }
    let repository = directory.join("repository");
    let path = repository.to_str().unwrap();
    for words in [
        &["init", "-q", path][..],
        &["-C", path, "config", "core.bigFileThreshold", "1"],
    ] {
        assert!(Command::new("git").args(words).status().unwrap().success());
    }
    let mut run = Observed::start(&[], &["git", "-C", path, "cat-file", "--batch-check"]);
    run.say("0000000000000000000000000000000000000000\n");
    assert!(run.line().ends_with("missing"));
    Explained::of("git", run.pid());
    run.end();
    Some(())
}

/// The compiler proper, which waits in the middle of its input.
fn gcc(directory: &Path) -> Option<()> {
    if !has("gcc") {
        return None;
    }
    let asked = Command::new("gcc")
        .arg("-print-prog-name=cc1")
        .output()
        .unwrap();
    let cc1 = PathBuf::from(text(&asked.stdout).trim());
    if !cc1.is_file() {
        skip_part("gcc does not say where its cc1 is");
        return None;
    }
    let output = directory.join("out.s");
    let mut run = Observed::start(
        &[],
        &[
            cc1.to_str().unwrap(),
            "-quiet",
            "-o",
            output.to_str().unwrap(),
        ],
    );
    let source: String = (0..3000)
        .map(|i| format!("int f{i}(int x) {{ return x * {i} + 1; }}\n"))
        .collect();
    run.say(&source);
    Explained::of("gcc", run.pid());
    run.end();
    Some(())
}

/// Most of it is V8's, which maps for itself.
fn node() -> Option<()> {
    let script = "let keep = []; for (let i = 0; i < 1e5; i++) keep.push({i}); console.log('ready'); process.stdin.on('data', () => keep);";
    let it = observe("node", &["node", "-e", script], "")?;
    assert!(
        it.json["other_bytes"].as_u64().unwrap() > it.resident / 2,
        "{:#}",
        it.json
    );
    assert_eq!(it.finding(), "not_ours", "{:#}", it.json);
    Some(())
}
