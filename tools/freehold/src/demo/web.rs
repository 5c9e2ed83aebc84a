//! Web servers in several languages that keep what they are given, and the clients that give it to them.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::allocators::{self, Allocator};
use super::measure::{Meter, Sample};
use super::program::{self, Program};
use super::random::Random;
use super::scene::{Scene, percent};
use super::table::thousands;
use super::tour;

const CLIENTS: usize = 8;
const REST: Duration = Duration::from_secs(3);
/// Servers keep 300 documents, so of these the older ones are replaced.
const NAMES: usize = 1_000;

/// How long the bodies are that clients send.
enum Lengths {
    All(usize),
    Between(usize, usize),
}

pub struct Web {
    program: PathBuf,
    version: String,
    what: &'static str,
    file: &'static str,
    source: &'static str,
    options: &'static [&'static str],
    lengths: Lengths,
    requests: usize,
    memory: usize,
    text: Vec<u8>,
    /// What works is a child of the process that is started.
    has_workers: bool,
    /// It reads documents from files instead of keeping those that come, and is told its port.
    has_files: bool,
}

/// What is the same in most of them.
fn usual(program: PathBuf, version: String, size: u32) -> Web {
    Web {
        program,
        version,
        what: "a web server that keeps 300 bodies of 100,000 bytes",
        file: "",
        source: "",
        options: &[],
        lengths: Lengths::All(100_000),
        requests: percent(16_000, size),
        memory: 100 << 20,
        text: text(),
        has_workers: false,
        has_files: false,
    }
}

impl Web {
    pub fn python(size: u32) -> Result<Self> {
        let program = program::find("python3", "python3")?;
        let version = program::version(&program, "--version");
        Ok(Self {
            file: "server.py",
            source: include_str!("scenes/server.py"),
            ..usual(program, version, size)
        })
    }

    pub fn gunicorn(size: u32) -> Result<Self> {
        let program = program::find("gunicorn", "gunicorn")?;
        let version = program::version(&program, "--version");
        Ok(Self {
            what: "one worker with 8 threads, which keeps 300 bodies of 100,000 bytes",
            file: "wsgi.py",
            source: include_str!("scenes/wsgi.py"),
            options: &["wsgi:app", "--config"],
            has_workers: true,
            ..usual(program, version, size)
        })
    }

    /// By the Python that it is installed for, because the program makes its own socket.
    pub fn uvicorn(size: u32) -> Result<Self> {
        let command = program::find("uvicorn", "uvicorn")?;
        let version = program::version(&command, "--version");
        Ok(Self {
            file: "asgi.py",
            source: include_str!("scenes/asgi.py"),
            ..usual(command.with_file_name("python3"), version, size)
        })
    }

    pub fn ruby(size: u32) -> Result<Self> {
        let program = program::find("ruby", "ruby")?;
        let version = program::version(&program, "--version");
        Ok(Self {
            file: "server.rb",
            source: include_str!("scenes/server.rb"),
            ..usual(program, version, size)
        })
    }

    pub fn node(size: u32) -> Result<Self> {
        let program = program::find("node", "nodejs")?;
        let version = format!("Node {}", program::version(&program, "--version"));
        Ok(Self {
            what: "a web server that keeps 300 documents of 1 to 300 KB and sends them compressed",
            file: "server.js",
            source: include_str!("scenes/server.js"),
            options: &["--expose-gc"],
            lengths: Lengths::Between(1_000, 300_000),
            requests: percent(6_000, size),
            memory: 200 << 20,
            ..usual(program, version, size)
        })
    }

    pub fn java(size: u32) -> Result<Self> {
        let program = program::find("java", "default-jdk-headless")?;
        let version = program::version(&program, "--version");
        Ok(Self {
            what: "a web server that keeps 300 documents of 1 to 300 KB and sends them compressed",
            file: "Server.java",
            source: include_str!("scenes/Server.java"),
            options: &["-Xmx256m"],
            lengths: Lengths::Between(1_000, 300_000),
            requests: percent(6_000, size),
            memory: 400 << 20,
            ..usual(program, version, size)
        })
    }

    pub fn nginx(size: u32) -> Result<Self> {
        let program = program::find("nginx", "nginx-light")?;
        let version = program::version(&program, "-v");
        Ok(Self {
            what: "documents of 1 to 300 KB, which are sent compressed",
            file: "nginx.conf",
            source: include_str!("scenes/nginx.conf"),
            options: &["-p", ".", "-c"],
            lengths: Lengths::Between(1_000, 300_000),
            requests: percent(6_000, size),
            has_files: true,
            ..usual(program, version, size)
        })
    }

    /// One client: three of four requests bring a document, the fourth asks for one.
    fn client(&self, port: u16, number: usize) -> Result<()> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .build()
            .into();
        let mut random = Random::new(number as u64);
        for request in 0..self.requests / CLIENTS {
            let url = format!("http://127.0.0.1:{port}/{}", random.below(NAMES));
            let length = self.length(&mut random);
            let start = random.below(self.text.len() - length);
            let response = match request % 4 {
                3 => agent.get(&url).header("Accept-Encoding", "gzip").call(),
                _ => agent.put(&url).send(&self.text[start..start + length]),
            };
            let mut response = response.context("the server does not answer")?;
            if !matches!(response.status().as_u16(), 200 | 201 | 404) {
                bail!("the server answers with {}", response.status());
            }
            response
                .body_mut()
                .read_to_vec()
                .context("the server does not send all of its answer")?;
        }
        Ok(())
    }

    /// The server, ready for clients, and its port.
    fn start(&self, allocator: &Allocator) -> Result<(Program, u16)> {
        let directory = program::directory()?;
        let file = directory.path().join(self.file);
        let mut source = self.source.to_owned();
        let mut port = 0;
        if self.has_files {
            port = free_port()?;
            source = source.replace("PORT", &port.to_string());
            self.write_documents(&directory.path().join("documents"))
                .context("cannot write the documents")?;
        }
        fs::write(&file, source).context("cannot write the server's program")?;
        let mut command = allocator.command(&self.program);
        command.args(self.options).arg(file);
        let mut server = Program::start(command, self.file, directory)?;
        if self.has_files {
            server.until(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())?;
        } else {
            let said = server.line()?;
            port = said.parse().context("the server did not say its port")?;
        }
        Ok((server, port))
    }

    /// The names that clients ask for, with documents of lengths as clients have them.
    fn write_documents(&self, place: &Path) -> std::io::Result<()> {
        let mut random = Random::new(NAMES as u64);
        fs::create_dir(place)?;
        for name in 0..NAMES {
            let length = self.length(&mut random);
            fs::write(place.join(name.to_string()), &self.text[..length])?;
        }
        Ok(())
    }

    fn length(&self, random: &mut Random) -> usize {
        match self.lengths {
            Lengths::All(length) => length,
            Lengths::Between(low, high) => low + random.below(high - low),
        }
    }

    fn play(&self, port: u16) -> Result<()> {
        thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| scope.spawn(move || self.client(port, number)))
                .collect();
            for client in clients {
                client.join().expect("a client does not panic")?;
            }
            Ok(())
        })
    }
}

/// A port that nobody has at this moment.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("there is no free port")?;
    Ok(listener.local_addr()?.port())
}

/// Words, as documents have them: compression has something to do.
fn text() -> Vec<u8> {
    let mut random = Random::new(2_000);
    let mut text = Vec::with_capacity(1 << 20);
    while text.len() < 1 << 20 {
        text.extend_from_slice(format!("word{} ", random.below(5_000)).as_bytes());
    }
    text
}

impl Scene for Web {
    fn describe(&self) -> String {
        format!(
            "{}, as packaged: {}, {} requests over {CLIENTS} connections",
            self.version,
            self.what,
            thousands(self.requests)
        )
    }

    fn after(&self) -> Option<&'static str> {
        Some(match self.has_files {
            true => "3 s after the last request",
            false => "3 s after all of them were dropped",
        })
    }

    fn whose_peak(&self) -> &'static str {
        match self.has_workers {
            true => {
                "`peak` is the most memory that it and its worker had at once, what they share counted once"
            }
            false => "`peak` is the most memory that it had at once",
        }
    }

    fn memory(&self) -> usize {
        self.memory
    }

    fn run(&self, allocator: &Allocator) -> Result<Sample> {
        let (server, port) = self.start(allocator)?;
        allocator.check(server.pid(), self.file)?;
        let mut meter = match self.has_workers {
            true => Meter::of_tree(server.pid())?,
            false => Meter::of_one(server.pid())?,
        };
        self.play(port)?;
        ureq::delete(&format!("http://127.0.0.1:{port}/"))
            .call()
            .context("the server does not drop its documents")?;
        meter.work_is_done();
        thread::sleep(REST);
        let sample = meter.read()?;
        server.end_by(rustix::process::Signal::TERM)?;
        Ok(sample)
    }

    /// Clients come again and again meanwhile.
    fn tour(&self, library: &Path) -> Result<()> {
        let observed = Allocator {
            options: Some("observe=1".to_owned()),
            ..allocators::freehold(library)
        };
        let (server, port) = self.start(&observed)?;
        self.play(port)?;
        let stop_working = AtomicBool::new(false);
        thread::scope(|scope| -> Result<()> {
            let work = scope.spawn(|| -> Result<()> {
                while !stop_working.load(Ordering::Relaxed) {
                    self.play(port)?;
                }
                Ok(())
            });
            let shown = tour::show(server.pid());
            stop_working.store(true, Ordering::Relaxed);
            work.join()
                .expect("a client does not panic")
                .context("the server's work during the tour")?;
            shown
        })?;
        server.end_by(rustix::process::Signal::TERM)
    }
}
