//! PostgreSQL, asked large questions by eight connections, which then stay open and idle, as those of a pool do.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::allocators::{self, Allocator};
use super::measure::{Meter, Sample};
use super::program::{self, Program};
use super::scene::{Scene, percent};

const CONNECTIONS: usize = 8;
const ROUNDS: usize = 4;
const REST: Duration = Duration::from_secs(3);
const DONE: &str = "all is answered";

pub struct Postgres {
    programs: PathBuf,
    version: String,
    /// The database, in a place that the server's user can reach.
    place: TempDir,
    user: Option<User>,
    rounds: usize,
}

/// Whom the server runs as, because it refuses to run as root.
#[derive(Clone, Copy)]
struct User {
    uid: u32,
    gid: u32,
}

impl Postgres {
    pub fn new(size: u32) -> Result<Self> {
        let programs =
            newest_programs().with_context(|| program::missing("postgres", "postgresql"))?;
        let place = program::directory()?;
        let user = match rustix::process::geteuid().is_root() {
            true => Some(server_user(
                &fs::read_to_string("/etc/passwd").unwrap_or_default(),
            )?),
            false => None,
        };
        let scene = Self {
            version: program::version(&programs.join("postgres"), "--version"),
            programs,
            place,
            user,
            rounds: percent(ROUNDS, size),
        };
        scene.make_database()?;
        Ok(scene)
    }

    fn as_user(&self, mut command: Command) -> Command {
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command.current_dir(self.place.path());
        command
    }

    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command
            .env("PGHOST", self.place.path())
            .env("PGUSER", "demo")
            .env("PGDATABASE", "postgres")
            .env_remove("LD_PRELOAD")
            .env_remove("FREEHOLD");
        self.as_user(command)
    }

    fn make_database(&self) -> Result<()> {
        if let Some(user) = self.user {
            std::os::unix::fs::chown(self.place.path(), Some(user.uid), Some(user.gid))
                .context("cannot give the directory to the server's user")?;
        }
        let made = self
            .tool("initdb")
            .args(["-D", "data", "-A", "trust", "-U", "demo", "-N"])
            .args(["--locale=C", "-E", "UTF8"])
            .output()
            .context("cannot run initdb")?;
        if !made.status.success() {
            bail!("initdb: {}", String::from_utf8_lossy(&made.stderr));
        }
        let server = self.start(&allocators::plain())?;
        let mut connection = Connection::open(self)?;
        connection.ask(include_str!("scenes/tables.sql"))?;
        drop(connection);
        server.end_by(rustix::process::Signal::INT)
    }

    fn start(&self, allocator: &Allocator) -> Result<Program> {
        let preload = match &allocator.preload {
            Some(library) => Some(self.reachable(library)?),
            None => None,
        };
        let mut command = Allocator {
            name: allocator.name.clone(),
            preload,
            freehold: allocator.freehold,
            options: allocator.options.clone(),
        }
        .command(self.programs.join("postgres"));
        command
            .arg("-D")
            .arg(self.place.path().join("data"))
            .args(["-c", "listen_addresses=", "-c", "fsync=off"])
            .args(["-c", "work_mem=16MB", "-c", "shared_buffers=64MB"])
            .args([
                "-c",
                "max_parallel_workers_per_gather=0",
                "-c",
                "autovacuum=off",
            ])
            .arg("-c")
            .arg(format!(
                "unix_socket_directories={}",
                self.place.path().display()
            ));
        let log = program::directory()?;
        let command = self.as_user(command);
        if self.user.is_some() {
            fs::set_permissions(log.path(), fs::Permissions::from_mode(0o755))
                .context("cannot open the directory to the server's user")?;
        }
        let mut server = Program::start(command, "postgres", log)?;
        server.until(|_| {
            let ready = self.tool("pg_isready").arg("-q").status();
            ready.is_ok_and(|status| status.success())
        })?;
        allocator.check(server.pid(), "postgres")?;
        Ok(server)
    }

    /// A copy of the library where the server's user can read it: a build directory may be closed to others.
    fn reachable(&self, library: &Path) -> Result<PathBuf> {
        let copy = self.place.path().join("libfreehold.so");
        if !copy.exists() {
            fs::copy(library, &copy).context("cannot copy the library")?;
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))
                .context("cannot open the library to the server's user")?;
        }
        Ok(copy)
    }
}

/// One client, by psql.
struct Connection {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Connection {
    fn open(scene: &Postgres) -> Result<Self> {
        let mut child = scene
            .tool("psql")
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run psql")?;
        let answers = child.stdout.take().context("psql has an output")?;
        Ok(Self {
            child,
            answers: BufReader::new(answers),
        })
    }

    /// Asks, and reads answers until all are there.
    fn ask(&mut self, questions: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().context("psql has an input")?;
        writeln!(input, "{questions}\n\\echo {DONE}").context("psql reads no more")?;
        let mut line = String::new();
        while line.trim_end() != DONE {
            line.clear();
            if self
                .answers
                .read_line(&mut line)
                .context("cannot read an answer")?
                == 0
            {
                bail!("a question was refused");
            }
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn newest_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    versions
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("bin/postgres").is_file() && path.join("bin/psql").is_file())
        .max_by_key(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.parse::<u32>().unwrap_or(0)
        })
        .map(|path| path.join("bin"))
}

/// The user that the package made for the server.
fn server_user(passwd: &str) -> Result<User> {
    let line = passwd
        .lines()
        .find(|line| line.starts_with("postgres:"))
        .context(
            "the user postgres is missing; the package postgresql makes it, and the server does not run as root",
        )?;
    let fields: Vec<&str> = line.split(':').collect();
    let number = |place: usize| fields.get(place).and_then(|field| field.parse().ok());
    match (number(2), number(3)) {
        (Some(uid), Some(gid)) => Ok(User { uid, gid }),
        _ => bail!("the user postgres has no number"),
    }
}

impl Scene for Postgres {
    fn describe(&self) -> String {
        format!(
            "{}, as packaged: {CONNECTIONS} connections, each asks six large questions {} times",
            self.version, self.rounds
        )
    }

    fn after(&self) -> Option<&'static str> {
        Some("when the connections have been idle for 3 s")
    }

    fn memory(&self) -> usize {
        500 << 20
    }

    fn whose_peak(&self) -> &'static str {
        "`peak` is the most memory that all its processes had at once, what they share counted once"
    }

    fn run(&self, allocator: &Allocator) -> Result<Sample> {
        let server = self.start(allocator)?;
        let mut connections: Vec<Connection> = (0..CONNECTIONS)
            .map(|_| Connection::open(self))
            .collect::<Result<_>>()?;
        let mut meter = Meter::of_tree(server.pid())?;
        thread::scope(|scope| -> Result<()> {
            let asking: Vec<_> = connections
                .iter_mut()
                .map(|connection| {
                    scope.spawn(move || {
                        (0..self.rounds)
                            .try_for_each(|_| connection.ask(include_str!("scenes/questions.sql")))
                    })
                })
                .collect();
            for asked in asking {
                asked.join().expect("a client does not panic")?;
            }
            Ok(())
        })?;
        meter.work_is_done();
        thread::sleep(REST);
        let sample = meter.read()?;
        drop(connections);
        server.end_by(rustix::process::Signal::INT)?;
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_found() {
        let user =
            server_user("root:x:0:0::/:\npostgres:x:106:113:Server,,,:/var:/bin/sh\n").unwrap();
        assert_eq!((user.uid, user.gid), (106, 113));
        assert!(server_user("root:x:0:0::/:\n").is_err());
    }
}
