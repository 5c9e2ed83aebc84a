//! Runs one workload under one allocator in a fresh process, by way of the static launcher.
//!
//! The launcher is a few lines of C (`bench/launcher/launcher.c`, which says why it exists); it is compiled here when
//! it is missing or older than its source, because nothing else ever needs it.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::{Context, ensure};
use rustix::fs::FlockOperation;
use serde::Deserialize;

use crate::files;
use crate::output;
use crate::record::{Allocator, Outcome, Run, Workload};

/// The launcher that is running now, for the handler of Ctrl-C; 0 when none is.
static RUNNING: AtomicI32 = AtomicI32::new(0);

pub struct Launcher {
    program: PathBuf,
    scratch: PathBuf,
    timeout_ms: u64,
    /// Held for as long as this lives: see `exclusive`.
    _lock: File,
}

/// The launcher's answer, field by field as it writes it.
#[derive(Debug, Deserialize)]
struct Answer {
    how: String,
    code: i32,
    wall_ns: u64,
    user_us: u64,
    system_us: u64,
    peak_rss: u64,
    minor_faults: u64,
    major_faults: u64,
    switches_voluntary: u64,
    switches_forced: u64,
}

/// What came out of the three pipes.
struct Spoken {
    answer: String,
    stdout: String,
    stderr: String,
}

impl Launcher {
    pub fn prepare(root: &Path, timeout_seconds: f64) -> anyhow::Result<Self> {
        let source = root.join("bench/launcher/launcher.c");
        let program = root.join("build/launcher/launcher");
        let scratch = root.join("build/bench-scratch");
        files::make_directory(&scratch)?;
        if is_older(&program, &source) {
            files::make_directory(&root.join("build/launcher"))?;
            let mut compile = Command::new("cc");
            compile
                .args(["-std=c11", "-O2", "-static", "-o"])
                .arg(&program)
                .arg(&source);
            let out = compile.output().context("cannot run cc")?;
            ensure!(
                out.status.success(),
                "cannot compile the launcher: {}",
                String::from_utf8_lossy(&out.stderr)
            );
        }
        Ok(Self {
            _lock: exclusive(&scratch)?,
            program,
            scratch,
            timeout_ms: (timeout_seconds * 1000.0) as u64,
        })
    }

    /// The input of a real program is made once, under the system's allocator.
    pub fn set_up(&self, workload: &Workload) -> anyhow::Result<()> {
        let Some(line) = &workload.setup else {
            return Ok(());
        };
        let out = self.shell(line)?;
        ensure!(
            out.status.success(),
            "set-up failed: {}",
            last_line(&String::from_utf8_lossy(&out.stderr))
        );
        Ok(())
    }

    fn shell(&self, line: &str) -> anyhow::Result<std::process::Output> {
        Ok(Command::new("sh")
            .args(["-c", line])
            .current_dir(&self.scratch)
            .env("BENCH_REAL", self.real())
            .env("BENCH_COMMAND", std::env::current_exe()?)
            .output()?)
    }

    /// Where the scripts of the real programs are.
    fn real(&self) -> PathBuf {
        self.scratch.join("../../bench/real")
    }

    /// One measured run. Everything that can go wrong with the workload is an outcome; an error means that the
    /// harness itself could not do its work.
    pub fn measure(
        &self,
        workload: &Workload,
        allocator: &Allocator,
        round: usize,
    ) -> anyhow::Result<Run> {
        let spoken = self.launch(workload, allocator)?;
        let answer: Answer = serde_json::from_str(&spoken.answer)
            .with_context(|| format!("no answer from the launcher: {}", spoken.stderr.trim()))?;
        let mut run = raw_run(workload, allocator, round, &answer);
        run.outcome = match outcome_of(&answer, &spoken) {
            Outcome::Ok => self.take_output(workload, &spoken.stdout, &mut run),
            other => other,
        };
        Ok(run)
    }

    fn launch(&self, workload: &Workload, allocator: &Allocator) -> anyhow::Result<Spoken> {
        let library = match (allocator.library.as_str(), workload.places_library) {
            ("", false) => "-".to_owned(),
            (path, false) => path.to_owned(),
            (path, true) => format!("={path}"),
        };
        // The answer comes back through the launcher's standard input, the one descriptor besides output and error
        // that a child can be given without unsafe code.
        let (mut answer, theirs) = UnixStream::pair()?;
        let mut command = Command::new(&self.program);
        command
            .args([
                "0",
                &self.timeout_ms.to_string(),
                &library,
                &workload.program,
            ])
            .args(&workload.args)
            .env("BENCH_REAL", self.real())
            .env_remove("LD_PRELOAD")
            .current_dir(&self.scratch)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Not in the terminal's foreground group: Ctrl-C is ours to pass on, after the record is safe.
            .process_group(0);
        if !allocator.options.is_empty() {
            command.env("FREEHOLD", &allocator.options);
        }
        let mut child = command.spawn().context("cannot start the launcher")?;
        // The command holds our copy of the other end of the pair; the answer ends only when it is gone.
        drop(command);
        RUNNING.store(i32::try_from(child.id()).unwrap_or(0), Ordering::SeqCst);
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        let spoken = std::thread::scope(|scope| {
            let out = scope.spawn(|| read_all(stdout));
            let err = scope.spawn(|| read_all(stderr));
            let mut text = String::new();
            // An unreadable answer shows itself when it is parsed.
            let _ = answer.read_to_string(&mut text);
            Spoken {
                answer: text,
                stdout: out.join().unwrap_or_default(),
                stderr: err.join().unwrap_or_default(),
            }
        });
        RUNNING.store(0, Ordering::SeqCst);
        child.wait()?;
        Ok(spoken)
    }

    /// Reads the figures. A real program prints none of ours; its checksum is what its verifying command prints.
    fn take_output(&self, workload: &Workload, stdout: &str, run: &mut Run) -> Outcome {
        if workload.real && !stdout.trim_end().ends_with("ok") {
            return self.verify(workload, run);
        }
        let mut output = match output::parse(stdout) {
            Ok(output) => output,
            Err(error) => return Outcome::Failed(format!("unreadable output: {error:#}")),
        };
        if !output.finished {
            return Outcome::Failed("ended without the line \"ok\"".into());
        }
        // The process figures stay beside these in the record.
        run.wall = output.take("wall_s").unwrap_or(run.wall);
        run.cpu = output.take("cpu_s").unwrap_or(run.cpu);
        if let Some(peak) = output.take("peak_rss") {
            run.peak_rss = peak as u64;
        }
        run.check = output.check;
        run.figures = output.figures;
        run.series = output.series;
        self.verify(workload, run)
    }

    fn verify(&self, workload: &Workload, run: &mut Run) -> Outcome {
        let Some(line) = &workload.verify else {
            return Outcome::Ok;
        };
        match self.shell(line) {
            Ok(out) if out.status.success() => {
                run.check = String::from_utf8_lossy(&out.stdout)
                    .trim()
                    .chars()
                    .take(64)
                    .collect();
                Outcome::Ok
            }
            Ok(out) => Outcome::Failed(format!(
                "its result is wrong: {}",
                last_line(&String::from_utf8_lossy(&out.stderr))
            )),
            Err(error) => Outcome::Failed(format!("cannot verify: {error:#}")),
        }
    }
}

/// Ends the run that is under way; called from the handler of Ctrl-C. The launcher kills its child and answers.
pub fn interrupt() {
    if let Some(pid) = rustix::process::Pid::from_raw(RUNNING.load(Ordering::SeqCst)) {
        // It may have ended in between, which is just as well.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

fn raw_run(workload: &Workload, allocator: &Allocator, round: usize, answer: &Answer) -> Run {
    let (user, system) = (answer.user_us as f64 * 1e-6, answer.system_us as f64 * 1e-6);
    let wall = answer.wall_ns as f64 * 1e-9;
    Run {
        workload: workload.name.clone(),
        allocator: allocator.name.clone(),
        round,
        outcome: Outcome::Ok,
        wall,
        cpu: user + system,
        process_wall: wall,
        user,
        system,
        peak_rss: answer.peak_rss,
        minor_faults: answer.minor_faults,
        major_faults: answer.major_faults,
        switches_voluntary: answer.switches_voluntary,
        switches_forced: answer.switches_forced,
        check: String::new(),
        figures: std::collections::BTreeMap::new(),
        series: std::collections::BTreeMap::new(),
    }
}

fn outcome_of(answer: &Answer, spoken: &Spoken) -> Outcome {
    let said = last_line(&spoken.stderr);
    match (answer.how.as_str(), answer.code) {
        ("exited", 0) if spoken.stderr.contains("cannot be preloaded") => Outcome::Failed(said),
        // A mode that is misspelt would be the default one under another name.
        ("exited", 0)
            if spoken.stderr.contains("freehold: unknown option")
                || spoken.stderr.contains("has bad value") =>
        {
            Outcome::Failed(said)
        }
        ("exited", 0) => Outcome::Ok,
        ("timeout", _) => Outcome::Timeout,
        ("signalled", signal) => {
            let name = std::process::ExitStatus::from_raw(signal).to_string();
            Outcome::Crash(if said.is_empty() {
                name
            } else {
                format!("{name}: {said}")
            })
        }
        (how, code) => Outcome::Failed(format!("{how} with code {code}: {said}")),
    }
}

/// Lossy on purpose: a crashing program may print anything.
fn read_all(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn last_line(text: &str) -> String {
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim()
        .chars()
        .take(200)
        .collect()
}

/// Two runs at once would measure each other, and overwrite each other's files. The second waits for the first; the
/// kernel takes the lock back when a run dies.
fn exclusive(scratch: &Path) -> anyhow::Result<File> {
    let lock = File::create(scratch.join("lock"))
        .with_context(|| format!("cannot write {}/lock", scratch.display()))?;
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        eprintln!("bench: another run is under way; waiting for it");
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    }
    Ok(lock)
}

fn is_older(product: &Path, source: &Path) -> bool {
    let time = |path: &Path| path.metadata().and_then(|data| data.modified());
    match (time(product), time(source)) {
        (Ok(product), Ok(source)) => product < source,
        _ => true,
    }
}
