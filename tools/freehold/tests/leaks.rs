//! `leaks`, `top` and `report` against a real program under the real library: three leaks among a million blocks.

mod observed;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use observed::command;
use profile_file::testing::skip;
use tempfile::TempDir;

/// The program with its profile file; it is ended with its test.
struct Planted {
    directory: TempDir,
    child: Child,
    ended: bool,
}

impl Planted {
    /// Starts it and waits until it has run for so many seconds.
    fn run_for(seconds: u32) -> Planted {
        let directory = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/planted.c");
        let program = directory.path().join("planted");
        let made = Command::new("cc")
            .args(["-g", "-O2", "-std=gnu11", "-fno-omit-frame-pointer"])
            .arg(source)
            .arg("-o")
            .arg(&program)
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let profiles = directory.path().join("pages");
        fs::create_dir(&profiles).unwrap();
        let mut child = Command::new(&program)
            .arg(seconds.to_string())
            .env("LD_PRELOAD", observed::library())
            .env(
                "FREEHOLD",
                format!("observe=1,sample=2k,page={}", profiles.display()),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        Planted {
            directory,
            child,
            ended: false,
        }
    }

    fn profile(&self) -> PathBuf {
        let profiles = self.directory.path().join("pages");
        let mut entries = fs::read_dir(profiles).unwrap();
        entries
            .next()
            .expect("the library made a profile file")
            .unwrap()
            .path()
    }

    /// Waits until it has gone round so many times more: it sleeps once a round, which the kernel counts. On a busy
    /// machine no time says how far it has come.
    fn goes_on_for(&self, rounds: u64) {
        let sleeps = || -> u64 {
            let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.unwrap().trim().parse().unwrap()
        };
        let (begin, end) = (sleeps(), Instant::now() + Duration::from_secs(120));
        while sleeps() < begin + rounds {
            assert!(Instant::now() < end, "the program stands still");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The program ends by itself, and leaves its profile file.
    fn end(&mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
        self.ended = true;
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.ended = true;
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn freehold(arguments: &[&str]) -> Output {
    Command::new(command()).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Functions and places of all sites with this verdict, sorted.
fn called(json: &Output, verdict: &str) -> Vec<String> {
    let answer: serde_json::Value = serde_json::from_slice(&json.stdout).expect("it is JSON");
    let mut names: Vec<String> = answer["sites"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|site| site["verdict"] == verdict)
        .map(|site| {
            let place = site["place"].as_str().unwrap_or("");
            let file = place.rsplit('/').next().unwrap_or("");
            format!("{} {file}", site["function"].as_str().unwrap())
        })
        .collect();
    names.sort();
    // The compiler may have made several calls out of one.
    names.dedup();
    names
}

/// The line of the source that holds this word.
fn line_with(word: &str) -> usize {
    let source = include_str!("programs/planted.c");
    1 + source
        .lines()
        .position(|line| line.contains(word))
        .expect("it is there")
}

/// The three, as they should be reported.
fn planted_leaks() -> Vec<String> {
    let line = line_with;
    let mut all = vec![
        format!("leak_session planted.c:{}", line("malloc(400)")),
        format!("leak_name planted.c:{}", line("strdup(")),
        format!("handle_request planted.c:{}", line("malloc(600)")),
    ];
    all.sort();
    all
}

#[test]
fn three_planted_leaks_are_found_with_file_and_line_and_none_is_invented() {
    let mut program = Planted::run_for(8);
    let profile = program.profile();
    let profile = profile.to_str().unwrap();

    let live = freehold(&["leaks", profile, "--for", "1s", "--json"]);
    assert_eq!(
        called(&live, "likely_leak"),
        planted_leaks(),
        "{}",
        text(&live)
    );

    // What is left of a program that was killed says the same.
    program.kill();
    let dead = freehold(&["leaks", profile, "--json"]);
    assert_eq!(
        called(&dead, "likely_leak"),
        planted_leaks(),
        "{}",
        text(&dead)
    );
    let cache = called(&dead, "stopped");
    assert!(
        cache.iter().any(|name| name.starts_with("fill_cache ")),
        "the cache grew and stopped: {cache:?}"
    );
    let answer: serde_json::Value = serde_json::from_slice(&dead.stdout).unwrap();
    let blocks: f64 = answer["sites"]
        .as_array()
        .unwrap()
        .iter()
        .map(|site| site["allocated_bytes"].as_f64().unwrap() / 300.0)
        .sum();
    assert!(blocks > 1e6, "among a million blocks: {blocks}");

    // The check for CI, with and without the leaks that one knows of.
    let failing = freehold(&["leaks", profile, "--fail-on", "likely"]);
    assert_eq!(failing.status.code(), Some(1), "{}", text(&failing));
    let known = program.directory.path().join("known.txt");
    fs::write(&known, "leak:^leak_\nleak:handle_request\n").unwrap();
    let known = known.to_str().unwrap();
    let passing = freehold(&[
        "leaks",
        profile,
        "--fail-on",
        "likely",
        "--suppressions",
        known,
    ]);
    assert_eq!(passing.status.code(), Some(0), "{}", text(&passing));
}

#[test]
fn what_is_live_at_the_end_is_counted_there() {
    let mut program = Planted::run_for(1);
    let profile = program.profile();
    let profile = profile.to_str().unwrap();
    let running = freehold(&["leaks", profile, "--exit"]);
    assert_eq!(running.status.code(), Some(2));
    assert!(text(&running).contains("still runs"), "{}", text(&running));
    program.end();
    let ended = freehold(&["leaks", profile, "--exit", "--fail-on", "any"]);
    assert_eq!(ended.status.code(), Some(1), "{}", text(&ended));
    assert!(text(&ended).contains("At its end"), "{}", text(&ended));
    let generous = freehold(&["leaks", profile, "--exit", "--fail-on", "4g"]);
    assert_eq!(generous.status.code(), Some(0), "{}", text(&generous));
}

#[test]
fn marks_tell_what_outlives_two_of_them() {
    let program = Planted::run_for(1);
    let profile = program.profile();
    let profile = profile.to_str().unwrap();
    for mark in 1..=4 {
        let said = freehold(&["leaks", profile, "--mark"]);
        assert!(
            text(&said).contains(&format!("Mark {mark} is set")),
            "{}",
            text(&said)
        );
        program.goes_on_for(3000);
    }
    let found = freehold(&["leaks", profile, "--for", "0", "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    let kept = |function: &str| {
        let sites = answer["sites"].as_array().unwrap();
        let site = sites.iter().find(|site| site["function"] == function);
        site.and_then(|site| site["kept"]["epochs_that_left"].as_u64())
    };
    assert_eq!(kept("leak_session"), Some(2), "{}", text(&found));
    assert_eq!(kept("turn_queue"), None, "the queue has gone round since");
}

#[test]
fn what_the_program_cannot_find_any_more_is_told_from_what_it_holds() {
    let program = Planted::run_for(1);
    let profile = program.profile();
    let profile = profile.to_str().unwrap();
    // What is younger than a tenth of a second is not judged.
    thread::sleep(Duration::from_millis(200));
    let arguments = [
        "leaks",
        profile,
        "--reachability",
        "--patience",
        "60s",
        "--for",
        "0",
    ];
    let found = freehold(&[&arguments[..], &["--json"]].concat());
    let answer: serde_json::Value =
        serde_json::from_slice(&found.stdout).unwrap_or_else(|_| panic!("{}", text(&found)));
    let unreachable = |function: &str| {
        let sites = answer["sites"].as_array().unwrap();
        let site = sites.iter().find(|site| site["function"] == function);
        let site = site.unwrap_or_else(|| panic!("no {function}: {}", text(&found)));
        site["reach"]["unreachable_bytes"].as_f64()
    };
    // Every block but the last few has been dropped; the cache and the queue are in variables.
    for leak in ["leak_session", "handle_request"] {
        assert!(unreachable(leak).unwrap() > 0.0, "{}", text(&found));
    }
    for held in ["fill_cache", "turn_queue"] {
        assert_eq!(unreachable(held).unwrap_or(0.0), 0.0, "{}", text(&found));
    }
    assert!(
        answer["scan"]["unreachable_blocks"].as_u64().unwrap() > 0,
        "{}",
        text(&found)
    );
    let said = freehold(&arguments);
    assert!(
        text(&said).contains("cannot be reached from the program's variables"),
        "{}",
        text(&said)
    );
}

#[test]
fn a_report_of_a_program_that_runs_is_one_page() {
    let program = Planted::run_for(2);
    let profile = program.profile();
    let html = program.directory.path().join("heap.html");
    let said = freehold(&[
        "report",
        profile.to_str().unwrap(),
        "-o",
        html.to_str().unwrap(),
    ]);
    assert!(said.status.success(), "{}", text(&said));
    assert!(text(&said).starts_with(html.to_str().unwrap()));
    let html = fs::read_to_string(html).unwrap();
    for inside in ["leak_session", "planted.c:", "\"timeline\":[{"] {
        assert!(html.contains(inside), "{inside}");
    }
}

#[test]
fn top_prints_plain_screens_and_json() {
    let program = Planted::run_for(2);
    let profile = program.profile();
    let profile = profile.to_str().unwrap();
    let once = freehold(&["top", profile, "--once", "--every", "200ms"]);
    let screen = text(&once);
    assert!(
        once.status.success() && !screen.contains('\x1b'),
        "{screen}"
    );
    for part in [
        "planted ",
        "running",
        "LIVE",
        "leak_session  planted.c:",
        "threads 1",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let json = freehold(&["top", profile, "--once", "--json", "--every", "200ms"]);
    let object: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(object["state"], "running");
    assert!(object["allocated_per_second"].as_f64().unwrap() > 0.0);
    assert!(object["resident_bytes"].as_u64().unwrap() > 1 << 20);
}

/// A terminal of its own, by tmux.
struct Terminal {
    socket: String,
}

impl Terminal {
    fn open(command: &str) -> Option<Terminal> {
        let socket = format!("freehold-test-{}", std::process::id());
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", &socket, "-f", "/dev/null", "new-session", "-d"])
            .args(["-x", "80", "-y", "24", command])
            .env_remove("TMUX");
        match tmux.status() {
            Ok(status) if status.success() => Some(Terminal { socket }),
            _ => None,
        }
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-L", &self.socket])
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Waits until the screen shows this.
    fn shows(&self, wanted: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if screen.contains(wanted) {
                return;
            }
            assert!(Instant::now() < end, "{wanted:?} never came:\n{screen}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn top_in_a_terminal_obeys_its_keys_and_outlives_the_program() {
    let mut program = Planted::run_for(1);
    let profile = program.profile();
    let command = command();
    let line = format!(
        "{} top {} --every 200ms; sleep 60",
        command.display(),
        profile.display()
    );
    let Some(terminal) = Terminal::open(&line) else {
        return skip("tmux does not run here");
    };
    terminal.shows("leak_session");
    terminal.press("Enter");
    terminal.shows("freed at the age of");
    terminal.press("c");
    terminal.shows("size classes");
    terminal.press("?");
    terminal.shows("set a mark in the program");
    terminal.press("Escape");
    terminal.shows("sites by live");
    terminal.press("m");
    terminal.shows("mark 1 is set");
    terminal.shows("CHANGE");
    terminal.press("/");
    "cache"
        .chars()
        .for_each(|letter| terminal.press(&letter.to_string()));
    terminal.press("Enter");
    terminal.shows("1 site by live with \"cache\"");
    program.end();
    terminal.shows("The program has ended");
    let mut rest = String::new();
    let out = program.child.stdout.as_mut().unwrap();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "nobody wrote into the program's output");
}
