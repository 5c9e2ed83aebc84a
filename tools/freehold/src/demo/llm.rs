//! A stand-in for a server of language models: weights come and are converted, requests grow and end, and memory is given
//! back by malloc_trim, which such servers call. No model is needed, and none is run.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::allocators::Allocator;
use super::measure::{Meter, Sample};
use super::program::{self, Program};
use super::scene::{Scene, percent};

const REST: Duration = Duration::from_secs(3);

pub struct Llm {
    program: PathBuf,
    version: String,
    size: u32,
}

impl Llm {
    pub fn new(size: u32) -> Result<Self> {
        let program = program::find("python3", "python3")?;
        Ok(Self {
            version: program::version(&program, "--version"),
            program,
            size,
        })
    }
}

impl Scene for Llm {
    fn describe(&self) -> String {
        format!(
            "{}, as packaged: a stand-in for a server of language models, {} MiB of weights, {} requests; it calls malloc_trim",
            self.version,
            percent(100, self.size),
            percent(4_000, self.size)
        )
    }

    fn after(&self) -> Option<&'static str> {
        Some("3 s after the weights were dropped")
    }

    fn memory(&self) -> usize {
        percent(300 << 20, self.size)
    }

    fn run(&self, allocator: &Allocator) -> Result<Sample> {
        let directory = program::directory()?;
        let file = directory.path().join("llm.py");
        fs::write(&file, include_str!("scenes/llm.py")).context("cannot write the program")?;
        let mut command = allocator.command(&self.program);
        command.arg(file).arg(self.size.to_string());
        let mut server = Program::start(command, "llm.py", directory)?;
        server.line()?;
        allocator.check(server.pid(), "llm.py")?;
        let mut meter = Meter::of_one(server.pid())?;
        for step in ["load", "serve", "unload"] {
            if server.ask(step)? != "done" {
                bail!("llm.py did not {step}: {}", server.said());
            }
        }
        meter.work_is_done();
        thread::sleep(REST);
        let sample = meter.read()?;
        server.end()?;
        Ok(sample)
    }
}
