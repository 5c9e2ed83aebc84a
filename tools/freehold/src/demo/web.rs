//! Web servers in Python and in Node that keep what they are given, and the clients that give it to them.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::allocators::Allocator;
use super::measure::{Meter, Sample};
use super::program::{self, Program};
use super::random::Random;
use super::scene::{Scene, percent};
use super::table::thousands;

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
}

impl Web {
    pub fn python(size: u32) -> Result<Self> {
        let program = program::find("python3", "python3")?;
        Ok(Self {
            version: program::version(&program, "--version"),
            program,
            what: "a web server that keeps 300 bodies of 100,000 bytes",
            file: "server.py",
            source: include_str!("scenes/server.py"),
            options: &[],
            lengths: Lengths::All(100_000),
            requests: percent(16_000, size),
            memory: 100 << 20,
            text: text(),
        })
    }

    pub fn node(size: u32) -> Result<Self> {
        let program = program::find("node", "nodejs")?;
        Ok(Self {
            version: format!("Node {}", program::version(&program, "--version")),
            program,
            what: "a web server that keeps 300 documents of 1 to 300 KB and sends them compressed",
            file: "server.js",
            source: include_str!("scenes/server.js"),
            options: &["--expose-gc"],
            lengths: Lengths::Between(1_000, 300_000),
            requests: percent(6_000, size),
            memory: 200 << 20,
            text: text(),
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
            let length = match self.lengths {
                Lengths::All(length) => length,
                Lengths::Between(low, high) => low + random.below(high - low),
            };
            let start = random.below(self.text.len() - length);
            let response = match request % 4 {
                3 => agent.get(&url).call(),
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
        Some("3 s after all of them were dropped")
    }

    fn memory(&self) -> usize {
        self.memory
    }

    fn run(&self, allocator: &Allocator) -> Result<Sample> {
        let directory = program::directory()?;
        let file = directory.path().join(self.file);
        fs::write(&file, self.source).context("cannot write the server's program")?;
        let mut command = allocator.command(&self.program);
        command.args(self.options).arg(file);
        let mut server = Program::start(command, self.file, directory)?;
        let port: u16 = server
            .line()?
            .parse()
            .context("the server did not say its port")?;
        allocator.check(server.pid(), self.file)?;
        let mut meter = Meter::of_one(server.pid())?;
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
}
