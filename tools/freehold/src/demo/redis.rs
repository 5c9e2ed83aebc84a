//! redis-server, filled with an index of files. Its records are replaced, grown and deleted in random order, and then all of
//! them are dropped at once, as a service does when its burst is over.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::allocators::{self, Allocator};
use super::commands::{self, Script};
use super::measure::{Meter, Sample};
use super::program::{self, Program};
use super::scene::{Scene, percent};
use super::{session, tour};
use crate::doctor;

const PROGRAM: &str = "redis-server";
const FILES: usize = 80_000;
const REST: Duration = Duration::from_secs(3);

pub struct Redis {
    program: PathBuf,
    version: String,
    script: Script,
}

impl Redis {
    pub fn new(size: u32) -> Result<Self> {
        let program = program::find(PROGRAM, "redis-server")?;
        if let Some(why) = bound_to_its_allocator(&program) {
            bail!("{why}; `freehold demo python` is another server");
        }
        let said = program::version(&program, "--version");
        let number = said.split_whitespace().find_map(|w| w.strip_prefix("v="));
        Ok(Self {
            version: format!("{PROGRAM} {}", number.unwrap_or("of unknown version")),
            program,
            script: commands::make(percent(FILES, size)),
        })
    }

    /// Starts a server that listens on a socket in a directory of its own, keeps nothing on disk, frees what was
    /// deleted in its background threads, and waits until it answers.
    ///
    /// Redis can also read its connections in threads of their own (io-threads), but those wait for each other
    /// by spinning: on two cores, with clients on the same machine, the same run then took 2.3 or 6.0 seconds
    /// under any allocator, as chance had it.
    fn start(&self, allocator: &Allocator) -> Result<Program> {
        let directory = program::directory()?;
        let mut command = allocator.command(&self.program);
        command
            .args(["--port", "0", "--save", "", "--appendonly", "no"])
            .args(["--loglevel", "warning", "--logfile", "/dev/null"])
            .args(["--lazyfree-lazy-user-del", "yes"])
            .args(["--lazyfree-lazy-server-del", "yes"])
            .arg("--unixsocket")
            .arg(socket(directory.path()));
        let mut server = Program::start(command, PROGRAM, directory)?;
        server.until(|directory| UnixStream::connect(socket(directory)).is_ok())?;
        allocator.check(server.pid(), PROGRAM)?;
        Ok(server)
    }
}

/// Why no other allocator can be put under this program. Redis 8 has blocks of jemalloc's own, so that it would crash.
pub fn bound_to_its_allocator(program: &Path) -> Option<String> {
    let data = fs::read(program).ok()?;
    let own = doctor::bound_to_jemalloc(&data);
    let functions = own.join(", ");
    let program = program.display();
    (!own.is_empty()).then(|| {
        format!(
            "{program} calls jemalloc's own {functions}, so no other allocator can be preloaded"
        )
    })
}

fn socket(directory: &Path) -> PathBuf {
    directory.join("redis.sock")
}

/// Asks the server to end as a service would. It closes the connection instead of a reply.
fn stop(server: Program) -> Result<()> {
    let _ = session::one(&socket(server.directory()), &["SHUTDOWN", "NOSAVE"]);
    server.end()
}

impl Scene for Redis {
    fn describe(&self) -> String {
        format!("{}, as packaged: {}", self.version, self.script.describe())
    }

    fn after(&self) -> Option<&'static str> {
        Some("3 s after all records were deleted")
    }

    fn memory(&self) -> usize {
        self.script.input_bytes * 2
    }

    fn allocators(&self, library: &Path) -> Result<Vec<Allocator>> {
        allocators::beside_jemalloc(library, &self.program.display().to_string())
    }

    fn run(&self, allocator: &Allocator) -> Result<Sample> {
        let server = self.start(allocator)?;
        let socket = socket(server.directory());
        let mut meter = Meter::of_one(server.pid())?;
        session::play(&socket, &self.script.fill)?;
        session::play(&socket, &self.script.churn)?;
        session::one(&socket, &["FLUSHALL", "ASYNC"])?;
        meter.work_is_done();
        thread::sleep(REST);
        let sample = meter.read()?;
        stop(server)?;
        Ok(sample)
    }

    /// The records are changed again and again meanwhile: whether memory grows shows only in a server that works.
    fn tour(&self, library: &Path) -> Result<()> {
        let observed = Allocator {
            options: Some("observe=1".to_owned()),
            ..allocators::freehold(library)
        };
        let server = self.start(&observed)?;
        let socket = socket(server.directory());
        // Also the changes once: a server that is still growing would be told from a leak only after minutes.
        session::play(&socket, &self.script.fill)?;
        session::play(&socket, &self.script.churn)?;
        let again = [&self.script.churn[0], &commands::delete_queues()];
        let stop_working = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| -> Result<()> {
            let work = scope.spawn(|| -> Result<()> {
                while !stop_working.load(std::sync::atomic::Ordering::Relaxed) {
                    again
                        .iter()
                        .try_for_each(|stream| session::client(&socket, stream))?;
                }
                Ok(())
            });
            let shown = tour::show(server.pid());
            stop_working.store(true, std::sync::atomic::Ordering::Relaxed);
            work.join()
                .expect("a client does not panic")
                .context("the server's work during the tour")?;
            shown
        })?;
        stop(server)
    }
}
