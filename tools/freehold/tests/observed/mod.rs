//! Real programs under the real library, observed, for as long as a test looks at them.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use profile_file::testing::skip;
use rustix::process::{Resource, Rlimit, setrlimit};
use tempfile::TempDir;

/// No test waits longer for anything; it is a limit for what hangs, not a measurement.
pub const PATIENCE: Duration = Duration::from_secs(60);

#[path = "../command/mod.rs"]
mod under_test;
pub use under_test::command;

/// Runs the command to its end.
pub fn freehold(arguments: &[&str]) -> Output {
    Command::new(command())
        .args(arguments)
        .env_remove("LD_PRELOAD")
        .env_remove("FREEHOLD")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command says on its standard output; it must succeed.
pub fn answer(arguments: &[&str]) -> String {
    let output = freehold(arguments);
    assert!(
        output.status.success(),
        "freehold {arguments:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// What a command complains about; it must fail with this code.
pub fn complaint(arguments: &[&str], code: i32) -> String {
    let output = freehold(arguments);
    assert_eq!(
        output.status.code(),
        Some(code),
        "freehold {arguments:?}: {}",
        text(&output.stderr)
    );
    text(&output.stderr)
}

/// No file that this command or what it starts writes becomes longer: as in a directory that is full, but without the right
/// to mount one.
pub fn limit_files(command: &mut Command, bytes: u64) {
    let limit = Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    // SAFETY: one system call, between fork and exec.
    unsafe {
        command.pre_exec(move || Ok(setrlimit(Resource::Fsize, limit)?));
    }
}

/// Compiles a C program into `directory`.
pub fn compile(directory: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let file = directory.join(format!("{name}.c"));
    let program = directory.join(name);
    fs::write(&file, source).unwrap();
    let output = Command::new("cc")
        .args(["-g", "-O1", "-pthread", "-fno-omit-frame-pointer"])
        .args(flags)
        .arg(&file)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("a C compiler, which building Freehold needs too");
    assert!(output.status.success(), "{}", text(&output.stderr));
    program
}

/// False, and said, where the command has been built without these libraries and programs.
pub fn is_beside(what: &str, files: &[&str]) -> bool {
    let built = command();
    let found = built
        .ancestors()
        .skip(1)
        .take(4)
        .any(|directory| files.iter().all(|file| directory.join(file).is_file()));
    if !found {
        skip(&format!("{what}: no {} in the build directory", files[0]));
    }
    found
}

/// The program that counts its own calls.
pub fn counted(directory: &Path) -> PathBuf {
    let source = include_str!("../../../../tests/record/counted.c");
    let flags = ["-D_GNU_SOURCE", "-fno-builtin", "-pthread"];
    compile(directory, "counted", source, &flags)
}

/// A trace of the lines that `freehold trace import` reads.
pub fn imported(directory: &Path, lines: &str) -> PathBuf {
    let (written, trace) = (directory.join("text"), directory.join("text.trace"));
    fs::write(&written, lines).unwrap();
    let import = Command::new(command())
        .args(["trace", "import"])
        .arg(written)
        .arg("-o")
        .arg(&trace)
        .output()
        .unwrap();
    assert!(import.status.success(), "{}", text(&import.stderr));
    trace
}

/// Waits until `done` says so.
pub fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(result) = done() {
            return result;
        }
        assert!(Instant::now() < end, "{what} did not come");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A `freehold run`, with its profile files in a directory of the test's own.
pub struct Observed {
    pub runner: Child,
    pub input: Option<ChildStdin>,
    pub output: BufReader<ChildStdout>,
    errors: Option<ChildStderr>,
    pub profiles: TempDir,
}

impl Observed {
    pub fn start(options: &[&str], program: &[&str]) -> Self {
        Self::start_with(options, program, |_| {})
    }

    /// With something done to the command before it starts.
    pub fn start_with(
        options: &[&str],
        program: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) -> Self {
        let profiles = tempfile::tempdir_in(shared_memory()).unwrap();
        let mut run = Command::new(command());
        run.arg("run")
            .arg("--keep")
            .arg(profiles.path())
            .args(options)
            .arg("--")
            .args(program)
            .env_remove("LD_PRELOAD")
            .env_remove("FREEHOLD")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        prepare(&mut run);
        let mut runner = run.spawn().unwrap();
        Self {
            input: runner.stdin.take(),
            output: BufReader::new(runner.stdout.take().unwrap()),
            errors: runner.stderr.take(),
            runner,
            profiles,
        }
    }

    /// The next line that the program writes.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the program ended: {}", self.complaints());
        line.trim_end().to_owned()
    }

    pub fn say(&mut self, text: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// What is said on stderr, for those that cannot wait for its end.
    pub fn errors(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.errors.take().unwrap())
    }

    fn complaints(&mut self) -> String {
        let mut all = Vec::new();
        if let Some(mut errors) = self.errors.take() {
            let _ = errors.read_to_end(&mut all);
        }
        text(&all)
    }

    /// The profile files.
    pub fn profile_files(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = fs::read_dir(self.profiles.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                path.file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .starts_with("freehold-")
            })
            .collect();
        found.sort();
        found
    }

    /// The observed process with the most memory: wrappers have little.
    pub fn pid(&self) -> u32 {
        wait_for("an observed process", || {
            self.profile_files()
                .iter()
                .filter_map(|path| {
                    path.file_name()?
                        .to_str()?
                        .strip_prefix("freehold-")?
                        .parse::<u32>()
                        .ok()
                })
                .filter_map(|pid| Some((resident(pid)?, pid)))
                .max()
                .map(|(_, pid)| pid)
        })
    }

    /// The end: exit code, and what was said on stderr.
    pub fn end(mut self) -> (i32, String, TempDir) {
        drop(self.input.take());
        let said = self.complaints();
        let status = self.runner.wait().unwrap();
        (status.code().unwrap(), said, self.profiles)
    }
}

/// Where profile files are made in real life.
fn shared_memory() -> PathBuf {
    let place = PathBuf::from("/dev/shm");
    if place.is_dir() {
        place
    } else {
        std::env::temp_dir()
    }
}

/// Resident bytes of a process, as the kernel sums them up.
pub fn resident(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find(|line| line.starts_with("Rss:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// Waits until a process has stopped growing: half a second without a change.
pub fn settle(pid: u32) {
    let mut last = resident(pid);
    let mut since = Instant::now();
    wait_for("the process's rest", || {
        let now = resident(pid);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        (since.elapsed() > Duration::from_millis(500)).then_some(())
    });
}

/// True if a program is installed.
pub fn installed(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    })
}

/// The library that the command finds: beside it, or in the build directory around Cargo's own.
pub fn library() -> PathBuf {
    let command = command();
    let mut around = command.ancestors().skip(1).take(4);
    around
        .find_map(|directory| Some(directory.join("libfreehold.so")).filter(|file| file.is_file()))
        .unwrap_or_else(|| {
            panic!(
                "no libfreehold.so around {}: `make libs` builds it",
                command.display()
            )
        })
}
