//! redis-server as a child of this command, under a given allocator.

use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::session;

const PROGRAM: &str = "redis-server";
const PATIENCE: Duration = Duration::from_secs(10);

/// A way to run the server.
pub struct Allocator {
    pub name: String,
    /// What is preloaded; nothing leaves the program as it was packaged.
    preload: Option<PathBuf>,
    pub freehold: bool,
}

/// The rows of the table, the measure of all things first.
pub fn allocators(library: &Path) -> Result<Vec<Allocator>> {
    let libc = mapped_file("libc.so.6").context("cannot tell where the system's libc is")?;
    let mut list = vec![Allocator {
        // Debian links its Redis with jemalloc. The C library, preloaded, comes before it.
        name: "system (glibc)".to_owned(),
        preload: Some(libc),
        freehold: false,
    }];
    if links_jemalloc()? {
        list.push(Allocator {
            name: "jemalloc (as packaged)".to_owned(),
            preload: None,
            freehold: false,
        });
    }
    list.push(freehold(library));
    Ok(list)
}

pub fn freehold(library: &Path) -> Allocator {
    Allocator {
        name: "Freehold".to_owned(),
        preload: Some(library.to_owned()),
        freehold: true,
    }
}

/// What the server says about itself: `redis-server 7.0.15`.
pub fn version() -> Result<String> {
    let output = Command::new(PROGRAM)
        .arg("--version")
        .output()
        .with_context(|| format!("cannot run {PROGRAM}; `make demo` installs it"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix("v="));
    Ok(format!(
        "{PROGRAM} {}",
        number.unwrap_or("of unknown version")
    ))
}

/// The loader names every library of a program before it is started; Redis is asked, not assumed.
fn links_jemalloc() -> Result<bool> {
    let output = Command::new(PROGRAM)
        .arg("--version")
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .output()
        .with_context(|| format!("cannot ask the loader about {PROGRAM}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).contains("libjemalloc"))
}

/// The path of a library that this process itself has mapped.
fn mapped_file(name: &str) -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps
        .lines()
        .filter_map(|line| line.find('/').map(|start| &line[start..]))
        .find(|path| Path::new(path).file_name().is_some_and(|file| file == name))?;
    Some(PathBuf::from(path))
}

/// A running server with its directory. Dropping it ends the process and removes the directory.
pub struct Server {
    child: Child,
    directory: TempDir,
    socket: PathBuf,
}

impl Server {
    /// Starts a server that listens on a socket in a directory of its own, keeps nothing on disk, frees what was
    /// deleted in its background threads, and waits until it answers.
    ///
    /// Redis can also read its connections in threads of their own (io-threads), but those wait for each other
    /// by spinning: on two cores, with clients on the same machine, the same run then took 2.3 or 6.0 seconds
    /// under any allocator, as chance had it.
    pub fn start(allocator: &Allocator, variables: &[(&str, &str)]) -> Result<Self> {
        let directory = tempfile::tempdir().context("cannot make a directory for the server")?;
        let socket = directory.path().join("redis.sock");
        let mut command = Command::new(PROGRAM);
        command
            .current_dir(directory.path())
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--loglevel",
                "warning",
            ])
            .args([
                "--lazyfree-lazy-user-del",
                "yes",
                "--lazyfree-lazy-server-del",
                "yes",
            ])
            .arg("--unixsocket")
            .arg(&socket)
            .env_remove("LD_PRELOAD")
            .env_remove("FREEHOLD")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(library) = &allocator.preload {
            command.env("LD_PRELOAD", library);
        }
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {PROGRAM}"))?;
        let mut server = Self {
            child,
            directory,
            socket,
        };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// A comparison that runs under the wrong allocator is worse than none.
    pub fn check_freehold(&self) -> Result<()> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid()))
            .context("the server is gone")?;
        if !maps.contains("libfreehold") {
            bail!("{PROGRAM} does not run under Freehold; ask `freehold doctor -- {PROGRAM}`");
        }
        Ok(())
    }

    /// Asks the server to end as a service would, and returns what it wrote to stderr.
    pub fn stop(mut self) -> Result<String> {
        // The server closes the connection instead of a reply, so the answer to this is always an error.
        let _ = session::one(&self.socket, &["SHUTDOWN", "NOSAVE"]);
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr
                .read_to_string(&mut said)
                .context("cannot read what the server said")?;
        }
        let status = self.child.wait().context("cannot wait for the server")?;
        if !status.success() {
            bail!("{PROGRAM} ended with {status}: {said}");
        }
        Ok(said)
    }

    fn wait_until_it_listens(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(&self.socket).is_err() {
            if let Some(status) = self.child.try_wait().context("cannot watch the server")? {
                bail!(
                    "{PROGRAM} ended at once with {status}, in {}",
                    self.directory.path().display()
                );
            }
            if Instant::now() > deadline {
                bail!("{PROGRAM} does not answer after {} s", PATIENCE.as_secs());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a stop the process is gone and was waited for, and these do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
