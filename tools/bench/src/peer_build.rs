//! Compiles a peer from the sources that a crate carries, or takes it out of a wheel.
//!
//! Neither touches the crate's own build script: those build static libraries for Rust programs, with other names and
//! flags than a drop-in needs. The sources come from the cargo home, where `cargo fetch` unpacks them.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use serde::Deserialize;

use crate::peers::{Built, CommonFlags, Peer};

/// Where cargo put a crate's sources, and its version with build metadata.
struct Source {
    folder: PathBuf,
    version: String,
}

/// Building takes minutes, in which a line now and then says that something happens, and what.
pub fn say(what: &str) {
    eprintln!("bench: {what}");
}

pub fn from_crate(
    root: &Path,
    place: &Path,
    common: &CommonFlags,
    peer: &Peer,
) -> anyhow::Result<Built> {
    let crate_name = peer.crate_name.as_deref().context("no crate")?;
    say(&format!(
        "{}: cargo looks for the sources in crate {crate_name}",
        peer.name
    ));
    let source = locate(root, crate_name)?;
    let version = read_version(&source, peer)?;
    let library = place.join(format!("{}.so", peer.name));
    let flags = match &peer.configure {
        Some(arguments) => configure_and_make(&source, place, peer, arguments, &version, &library)?,
        None => compile_and_link(&source, place, common, peer, &library)?,
    };
    Ok(Built {
        name: peer.name.clone(),
        version: match &peer.version_note {
            Some(note) => format!("{note} {version}"),
            None => version,
        },
        library,
        origin: format!("crate {crate_name} {}", source.version),
        compiler: first_line(Command::new("cc").arg("--version")),
        flags,
        entry: String::new(),
    })
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    manifest_path: PathBuf,
}

/// Asks cargo, which fetches what is missing at the versions of the lock file, and knows where it keeps things.
fn locate(root: &Path, crate_name: &str) -> anyhow::Result<Source> {
    let out = Command::new("cargo")
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--manifest-path",
        ])
        .arg(root.join("bench/peers/Cargo.toml"))
        .output()
        .context("cannot run cargo")?;
    ensure!(
        out.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&out.stderr).trim()
    );
    let metadata: Metadata = serde_json::from_slice(&out.stdout)?;
    let package = metadata
        .packages
        .into_iter()
        .find(|package| package.name == crate_name)
        .ok_or_else(|| anyhow!("bench/peers/Cargo.toml does not name the crate {crate_name}"))?;
    let folder = package
        .manifest_path
        .parent()
        .context("a manifest without a directory")?
        .to_owned();
    Ok(Source {
        folder,
        version: package.version,
    })
}

fn read_version(source: &Source, peer: &Peer) -> anyhow::Result<String> {
    let Some(rule) = &peer.version else {
        return Ok(source.version.clone());
    };
    let text = match &rule.file {
        Some(file) => {
            std::fs::read_to_string(source.folder.join(file)).with_context(|| file.clone())?
        }
        None => source.version.clone(),
    };
    version_by_pattern(&text, &rule.pattern)
}

/// The groups joined by dots, each as a number: MI_MALLOC_VERSION 30302 reads as 3, 03, 02 and becomes 3.3.2.
fn version_by_pattern(text: &str, pattern: &str) -> anyhow::Result<String> {
    let found = regex::Regex::new(pattern)?
        .captures(text)
        .ok_or_else(|| anyhow!("no version by {pattern:?}"))?;
    let parts: Vec<String> = found
        .iter()
        .skip(1)
        .flatten()
        .map(|part| {
            part.as_str()
                .parse::<u64>()
                .map_or_else(|_| part.as_str().to_owned(), |n| n.to_string())
        })
        .collect();
    Ok(parts.join("."))
}

fn compile_and_link(
    source: &Source,
    place: &Path,
    common: &CommonFlags,
    peer: &Peer,
    library: &Path,
) -> anyhow::Result<String> {
    let files = expand(&source.folder, &peer.sources, &peer.exclude)?;
    ensure!(!files.is_empty(), "no sources found");
    let objects = place.join("objects").join(&peer.name);
    std::fs::create_dir_all(&objects)?;
    let includes: Vec<String> = peer
        .includes
        .iter()
        .map(|dir| format!("-I{}", source.folder.join(dir).display()))
        .collect();
    let is_cxx = files
        .iter()
        .any(|file| file.extension().is_some_and(|e| e == "cc"));
    let compiler = if is_cxx { "c++" } else { "cc" };
    let flags: Vec<&String> = if is_cxx { &common.cxx } else { &common.c }
        .iter()
        .chain(&peer.flags)
        .collect();

    let object_of = |file: &Path| {
        let mut hasher = DefaultHasher::new();
        (file, &flags).hash(&mut hasher);
        objects.join(format!("{:016x}.o", hasher.finish()))
    };
    say(&format!("{}: compiling {} files", peer.name, files.len()));
    in_parallel(&peer.name, &files, |file| {
        let object = object_of(file);
        if object.exists() {
            return Ok(());
        }
        // Under a name of its own first: an interrupted compilation must not leave half an object behind.
        let draft = object.with_extension("part");
        let mut command = Command::new(compiler);
        command
            .args(&flags)
            .args(&includes)
            .arg("-c")
            .arg(file)
            .arg("-o")
            .arg(&draft);
        execute(&mut command).with_context(|| file.display().to_string())?;
        Ok(std::fs::rename(&draft, &object)?)
    })?;
    let mut link = Command::new(compiler);
    link.arg("-shared")
        .arg("-o")
        .arg(library)
        .args(files.iter().map(|file| object_of(file)))
        .args(&peer.link);
    execute(&mut link)?;
    let words: Vec<&str> = flags.iter().map(|flag| flag.as_str()).collect();
    Ok(format!("{compiler} {}", words.join(" ")))
}

/// Files that match the patterns, without those whose path inside the crate contains an excluded word.
fn expand(folder: &Path, patterns: &[String], exclude: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for pattern in patterns {
        let whole = folder.join(pattern);
        for file in glob::glob(&whole.to_string_lossy())?.filter_map(Result::ok) {
            let inside = file
                .strip_prefix(folder)
                .unwrap_or(&file)
                .to_string_lossy()
                .into_owned();
            if !exclude.iter().any(|word| inside.contains(word.as_str())) && !files.contains(&file)
            {
                files.push(file);
            }
        }
    }
    Ok(files)
}

/// How long compiling may go on without a word.
const QUIET: Duration = Duration::from_secs(10);

/// True once in each `quiet`, for one caller.
fn is_time(last_line: &Mutex<Instant>, quiet: Duration) -> bool {
    let mut last = last_line
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let due = last.elapsed() >= quiet;
    if due {
        *last = Instant::now();
    }
    due
}

/// Two compilers at a time, at the lowest priority: building peers is never what somebody waits for most.
fn in_parallel(
    name: &str,
    files: &[PathBuf],
    work: impl Fn(&Path) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let last_line = Mutex::new(Instant::now());
    let failure: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(file) = files.get(at) else { break };
                    if is_time(&last_line, QUIET) {
                        say(&format!("{name}: file {} of {}", at + 1, files.len()));
                    }
                    if let Err(error) = work(file) {
                        // The first failure ends the work of both: the counter jumps past the end.
                        next.store(files.len(), Ordering::Relaxed);
                        failure
                            .lock()
                            .unwrap_or_else(std::sync::PoisonError::into_inner)
                            .get_or_insert(error);
                    }
                }
            });
        }
    });
    failure
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .map_or(Ok(()), Err)
}

/// For projects that only their own build system can build. The tree is copied, as cargo's copy has to stay as it is.
fn configure_and_make(
    source: &Source,
    place: &Path,
    peer: &Peer,
    arguments: &[String],
    version: &str,
    library: &Path,
) -> anyhow::Result<String> {
    let work = place.join("objects").join(&peer.name);
    std::fs::create_dir_all(&work)?;
    copy_into(
        &source.folder.join(peer.tree.as_deref().unwrap_or(".")),
        &work,
    )?;
    if let Some(overlay) = &peer.overlay {
        copy_into(&source.folder.join(overlay), &work)?;
    }
    let arguments: Vec<String> = arguments
        .iter()
        .map(|a| a.replace("{version}", version))
        .collect();
    say(&format!("{}: configure, then make", peer.name));
    let heard = |step: &str, at: &str| say(&format!("{}: {step}: {at}", peer.name));
    execute_heard(
        Command::new("sh")
            .arg("./configure")
            .args(&arguments)
            .current_dir(&work),
        QUIET,
        |at| heard("configure", at),
    )?;
    execute_heard(
        Command::new("make")
            .arg("-j2")
            .args(&peer.make)
            .current_dir(&work),
        QUIET,
        |at| heard("make", at),
    )?;
    let product = peer.product.as_deref().context("no product")?;
    std::fs::copy(work.join(product), library).with_context(|| product.to_owned())?;
    Ok(format!("configure {}", arguments.join(" ")))
}

fn copy_into(from: &Path, to: &Path) -> anyhow::Result<()> {
    execute(Command::new("cp").arg("-R").arg(from.join(".")).arg(to))?;
    execute(Command::new("chmod").arg("-R").arg("u+w").arg(to))
}

/// A wheel is a zip archive; Python, whose package it is, both fetches and opens it.
pub fn from_wheel(place: &Path, wheel: &str, peer: &Peer) -> anyhow::Result<Built> {
    let work = place.join("objects").join(&peer.name);
    std::fs::create_dir_all(&work)?;
    say(&format!("{}: pip downloads the wheel {wheel}", peer.name));
    let mut fetch = Command::new("python3");
    fetch
        .args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary",
            ":all:",
            "-d",
        ])
        .arg(&work)
        .arg(wheel);
    execute(&mut fetch)?;
    let archive = glob::glob(&work.join("*.whl").to_string_lossy())?
        .filter_map(Result::ok)
        .last()
        .context("pip brought no wheel")?;
    execute(
        Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .arg(&archive)
            .arg(&work),
    )?;
    let member = peer.member.as_deref().context("no member")?;
    let library = place.join(format!("{}.so", peer.name));
    std::fs::copy(work.join(member), &library).with_context(|| member.to_owned())?;
    let file = archive
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    Ok(Built {
        name: peer.name.clone(),
        version: file.split('-').nth(1).unwrap_or_default().to_owned(),
        library,
        origin: format!("wheel {wheel}"),
        compiler: "the packager's".into(),
        flags: "the packager's".into(),
        entry: String::new(),
    })
}

/// Runs to the end; what it printed on stderr becomes the error, cut to what fits on a screen.
fn execute(command: &mut Command) -> anyhow::Result<()> {
    let out = command
        .output()
        .with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
    if out.status.success() {
        return Ok(());
    }
    bail!(failure(command, &out.stderr))
}

/// The same for a build system, which takes minutes. Once in each `quiet`, `heard` gets the line that it printed last.
fn execute_heard(
    command: &mut Command,
    quiet: Duration,
    heard: impl Fn(&str),
) -> anyhow::Result<()> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
    let stdout = child.stdout.take().context("no stdout")?;
    let mut stderr = child.stderr.take().context("no stderr")?;
    // Both are read at once: a full pipe would stop the command.
    let complaints = std::thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).map(|_| text)
    });
    let last_line = Mutex::new(Instant::now());
    for line in BufReader::new(stdout).split(b'\n') {
        if is_time(&last_line, quiet) {
            heard(&in_brief(&String::from_utf8_lossy(&line?)));
        }
    }
    let complaints = complaints
        .join()
        .map_err(|_| anyhow!("its stderr could not be read"))??;
    if child.wait()?.success() {
        return Ok(());
    }
    bail!(failure(command, &complaints))
}

/// A compiler's whole command is of no use on a screen; its last word is the file.
fn in_brief(line: &str) -> String {
    const SCREEN: usize = 70;
    let line = line.trim();
    if line.chars().count() <= SCREEN {
        return line.to_owned();
    }
    let last = line.rsplit(' ').next().unwrap_or_default();
    last.chars().take(SCREEN).collect()
}

fn failure(command: &Command, stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let head: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .take(4)
        .collect();
    format!(
        "{} failed: {}",
        command.get_program().to_string_lossy(),
        head.join("; ")
    )
}

fn first_line(command: &mut Command) -> String {
    let text = command
        .output()
        .map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
        .unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_by_pattern() {
        let header = "#define MI_MALLOC_VERSION 30302   // major + 2 digits minor";
        assert_eq!(
            version_by_pattern(header, r"MI_MALLOC_VERSION\s+(\d)(\d\d)(\d\d)").unwrap(),
            "3.3.2"
        );
        assert_eq!(
            version_by_pattern("0.7.1+5.3.1-0-g81034", r"\+(\d+)\.(\d+)\.(\d+)").unwrap(),
            "5.3.1"
        );
        assert!(version_by_pattern("none here", r"(\d+)").is_err());
    }

    /// What `execute_heard` makes known of a shell script, and how that ended.
    fn heard_of(script: &str, quiet: Duration) -> (Vec<String>, anyhow::Result<()>) {
        let said = Mutex::new(Vec::new());
        let mut command = Command::new("sh");
        let ended = execute_heard(command.args(["-c", script]), quiet, |at| {
            said.lock().unwrap().push(at.to_owned());
        });
        (said.into_inner().unwrap(), ended)
    }

    #[test]
    fn a_build_system_is_heard_while_it_runs() {
        let compile = format!("cc {} -c src/arena.c", "-O3 ".repeat(30));
        let script = format!("echo '  checking for ld... yes'; echo '{compile}'");
        let (said, ended) = heard_of(&script, Duration::ZERO);
        ended.unwrap();
        assert_eq!(said, ["checking for ld... yes", "src/arena.c"]);

        let (said, ended) = heard_of(&script, Duration::MAX);
        ended.unwrap();
        assert!(said.is_empty(), "{said:?}");
    }

    #[test]
    fn what_a_build_system_complains_of_is_the_error() {
        let much = "for i in $(seq 20000); do echo a line of stdout; done";
        let script = format!("{much}; echo 'no such file' >&2; exit 3");
        let (_, ended) = heard_of(&script, Duration::MAX);
        assert_eq!(ended.unwrap_err().to_string(), "sh failed: no such file");
    }

    #[test]
    fn patterns_expand_and_exclude() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.cc", "b.cc", "b_test.cc", "c.h"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let files = expand(
            folder.path(),
            &["*.cc".into(), "a.cc".into()],
            &["_test".into()],
        )
        .unwrap();
        let names: Vec<_> = files
            .iter()
            .map(|f| f.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["a.cc", "b.cc"]);
    }
}
