//! The trial: the command is really started under Freehold, for as long as it takes to hear the greeting
//! that `FREEHOLD=verbose=1` asks for.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::deepbind;
use super::report::Finding;

/// The greeting comes before `main`; a program that has not greeted by then will not.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it may run on afterwards: programs open their plug-ins when they start.
const LOADING: Duration = Duration::from_secs(1);

/// Starts `command` with `library` preloaded, in a process group of its own so that it can be ended with
/// all its children, and reports whether Freehold greeted, and what it said about libraries that were opened.
pub fn run(command: &[OsString], library: &Path) -> Result<Vec<Finding>> {
    let name = &command[0];
    let mut child = Command::new(name)
        .args(&command[1..])
        .env("LD_PRELOAD", preload(library))
        .env("FREEHOLD", options())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", Path::new(name).display()))?;
    let stderr = child.stderr.take().context("the child has no stderr")?;
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        // Bytes, since a program may write anything to its stderr.
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            if send
                .send(String::from_utf8_lossy(&line).into_owned())
                .is_err()
            {
                break;
            }
        }
    });
    let greeting = wait_for_greeting(&receive);
    let opened = match greeting {
        Some(_) => libraries_opened(&receive),
        None => Vec::new(),
    };
    end(&mut child);
    let mut findings = vec![match greeting {
        Some(line) => Finding::ok("trial", format!("started, and it said: {line}")),
        None => Finding::blocks("trial", "started, but Freehold did not greet"),
    }];
    findings.extend(deepbind::in_trial(&opened));
    Ok(findings)
}

/// The libraries for which RTLD_DEEPBIND was dropped, until stderr is closed or the time is over.
fn libraries_opened(lines: &mpsc::Receiver<String>) -> Vec<String> {
    let deadline = std::time::Instant::now() + LOADING;
    let mut opened = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) => opened.extend(deepbind::dropped_for(&line).map(str::to_owned)),
            Err(_) => return opened,
        }
    }
}

/// The first line by which Freehold announces itself, or nothing once stderr is closed or patience is over.
fn wait_for_greeting(lines: &mpsc::Receiver<String>) -> Option<String> {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) if is_greeting(&line) => return Some(line),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

/// The greeting names the version; complaints about options do not.
fn is_greeting(line: &str) -> bool {
    line.starts_with("freehold") && line.contains(env!("CARGO_PKG_VERSION"))
}

/// Ends the process group of a child that we started. It may be gone already, which is as good.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
}

/// `library`, and behind it what is preloaded already.
pub fn preload(library: &Path) -> OsString {
    let rest = env::var_os("LD_PRELOAD");
    joined(library.as_os_str().to_owned(), rest, ":")
}

/// The options that are set already, and last, so that it counts, the wish for a greeting.
fn options() -> OsString {
    match env::var_os("FREEHOLD").filter(|set| !set.is_empty()) {
        Some(set) => joined(set, Some("verbose=1".into()), ","),
        None => "verbose=1".into(),
    }
}

/// `first`, and what was set before behind it.
fn joined(mut first: OsString, rest: Option<OsString>, between: &str) -> OsString {
    if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
        first.push(between);
        first.push(rest);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_before_stays_behind() {
        assert_eq!(joined("a".into(), None, ":"), "a");
        assert_eq!(joined("a".into(), Some("".into()), ":"), "a");
        assert_eq!(joined("a".into(), Some("b:c".into()), ":"), "a:b:c");
    }

    #[test]
    fn only_the_greeting_is_one() {
        assert!(is_greeting(concat!(
            "freehold ",
            env!("CARGO_PKG_VERSION"),
            " is active"
        )));
        assert!(!is_greeting("freehold: unknown option \"foo\""));
        assert!(!is_greeting("starting"));
    }

    #[test]
    fn lines_before_the_greeting_are_skipped() {
        let (send, receive) = mpsc::channel();
        send.send("noise".to_owned()).unwrap();
        send.send(concat!("freehold: version ", env!("CARGO_PKG_VERSION")).to_owned())
            .unwrap();
        assert!(wait_for_greeting(&receive).is_some());
        drop(send);
        assert!(wait_for_greeting(&receive).is_none());
    }
}
