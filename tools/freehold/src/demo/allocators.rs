//! The rows of the table: the same program, as it was packaged, under one allocator after the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A way to run a program.
pub struct Allocator {
    pub name: String,
    /// What is preloaded; nothing leaves the program as it was packaged.
    pub preload: Option<PathBuf>,
    pub freehold: bool,
    /// What the program finds in `FREEHOLD`.
    pub options: Option<String>,
}

/// For a program that uses the allocator of its C library.
pub fn usual(library: &Path) -> Vec<Allocator> {
    vec![plain(), freehold(library)]
}

/// The program as it is.
pub fn plain() -> Allocator {
    Allocator {
        name: "system (glibc)".to_owned(),
        preload: None,
        freehold: false,
        options: None,
    }
}

/// For a program that may be linked with jemalloc. The C library, preloaded, comes before it.
pub fn beside_jemalloc(library: &Path, program: &str) -> Result<Vec<Allocator>> {
    let mut list = usual(library);
    if links_jemalloc(program)? {
        let libc = mapped_file("libc.so.6").context("cannot tell where the system's libc is")?;
        list[0].preload = Some(libc);
        list.insert(
            1,
            Allocator {
                name: "jemalloc (as packaged)".to_owned(),
                ..plain()
            },
        );
    }
    Ok(list)
}

pub fn freehold(library: &Path) -> Allocator {
    Allocator {
        name: "Freehold".to_owned(),
        preload: Some(library.to_owned()),
        freehold: true,
        options: None,
    }
}

impl Allocator {
    /// A command that begins under this allocator, whatever this command itself was started with.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_remove("LD_PRELOAD").env_remove("FREEHOLD");
        if let Some(library) = &self.preload {
            command.env("LD_PRELOAD", library);
        }
        if let Some(options) = &self.options {
            command.env("FREEHOLD", options);
        }
        command
    }

    /// A comparison that runs under the wrong allocator is worse than none.
    pub fn check(&self, pid: u32, program: &str) -> Result<()> {
        let maps =
            fs::read_to_string(format!("/proc/{pid}/maps")).context("the program is gone")?;
        match (self.freehold, maps.contains("libfreehold")) {
            (true, false) => {
                bail!("{program} does not run under Freehold; ask `freehold doctor {program}`")
            }
            (false, true) => bail!(
                "{program} runs under Freehold where it should not: is the library in /etc/ld.so.preload?"
            ),
            _ => Ok(()),
        }
    }
}

/// The loader names every library of a program before it is started; the program is asked, not assumed.
fn links_jemalloc(program: &str) -> Result<bool> {
    let output = Command::new(program)
        .arg("--version")
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .output()
        .with_context(|| format!("cannot ask the loader about {program}"))?;
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
