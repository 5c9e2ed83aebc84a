//! A program of a scene, as a child of this command, with a directory of its own.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

/// No program takes longer to begin or to end. It is a limit for what hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a program is: the distribution's own before what a version manager put first on the path.
pub fn find(name: &str, package: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = vec!["/usr/bin".into(), "/usr/sbin".into()];
    places.extend(env::split_paths(&path));
    places
        .iter()
        .map(|place| place.join(name))
        .find(|file| file.is_file())
        .with_context(|| missing(name, package))
}

/// What is said of a program that is not there.
pub fn missing(name: &str, package: &str) -> String {
    format!("{name} is missing; on Debian it comes with: apt-get install {package}")
}

/// The first line that a program says of itself; some say it as an error.
pub fn version(program: &Path, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    let text = output.map(|output| [output.stdout, output.stderr].concat());
    let text = text.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// A running program. Dropping it ends the process and removes the directory.
pub struct Program {
    name: String,
    child: Child,
    directory: TempDir,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Program {
    /// Starts a command in `directory`. What it says as errors is kept in a file there, and is shown only when it fails.
    pub fn start(mut command: Command, name: &str, directory: TempDir) -> Result<Self> {
        let log = File::create(directory.path().join("program.log"))
            .context("cannot make a file for what the program says")?;
        let mut child = command
            .current_dir(directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            input: child.stdin.take(),
            output: child.stdout.take().map(BufReader::new),
            child,
            directory,
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The next line of what the program prints.
    pub fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if let Some(output) = &mut self.output {
            output.read_line(&mut line).context("cannot read a line")?;
        }
        if line.is_empty() {
            bail!("{} ended: {}", self.name, self.said());
        }
        Ok(line.trim_end().to_owned())
    }

    /// Gives the program a line of input, and waits for its answer.
    pub fn ask(&mut self, question: &str) -> Result<String> {
        if let Some(input) = &mut self.input {
            writeln!(input, "{question}").context("the program reads no more")?;
        }
        self.line()
    }

    /// Tries again and again until the program is ready. It has to live until then.
    pub fn until(&mut self, mut ready: impl FnMut(&Path) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !ready(self.directory.path()) {
            if let Some(status) = self.child.try_wait().context("cannot watch the program")? {
                bail!("{} ended with {status}: {}", self.name, self.said());
            }
            if Instant::now() > deadline {
                bail!(
                    "{} does not answer after {} s: {}",
                    self.name,
                    PATIENCE.as_secs(),
                    self.said()
                );
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Ends the program by a signal that it knows, and waits until it is gone.
    pub fn end_by(mut self, signal: rustix::process::Signal) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).context("cannot end the program")?;
        self.wait_for_end()
    }

    /// Waits for a program that was asked to end, or that ends when it gets no more input.
    pub fn end(mut self) -> Result<()> {
        self.wait_for_end()
    }

    fn wait_for_end(&mut self) -> Result<()> {
        self.input = None;
        self.output = None;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self
                .child
                .try_wait()
                .context("cannot wait for the program")?
            {
                // A server that was asked to end by a signal may say that this was the reason.
                if status.code().is_some_and(|code| code != 0) {
                    bail!("{} ended with {status}: {}", self.name, self.said());
                }
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        bail!("{} does not end", self.name)
    }

    /// The last of what the program complained about.
    pub fn said(&self) -> String {
        let log = fs::read(self.directory.path().join("program.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // After an end the process was waited for, and these do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn directory() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("freehold-demo-")
        .tempdir()
        .context("cannot make a directory for the program")
}
