//! What `/proc` says about a process: does it run, is it the one that made a profile file, and what is in its memory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Mappings of a process, as text, are kept up to this; a program has some hundreds of lines.
const MOST_TEXT: usize = 16 << 20;

/// The profile file's clock, now.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The calendar's clock, now.
pub fn unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |age| age.as_nanos() as u64)
}

/// The directory of a process.
pub fn directory(pid: u64) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// The text of a file below `/proc`. The kernel writes names as they are, and cuts a program's after 15 bytes: what is no UTF-8 in
/// them is replaced, and hides nothing else.
pub fn text_of(path: &Path) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The words of `/proc/PID/stat` behind the program's name, from field 3 on: the name may itself contain blanks and brackets.
pub fn stat_words(pid: u64) -> Option<Vec<String>> {
    let text = text_of(&directory(pid).join("stat")).ok()?;
    let rest = &text[text.rfind(')')? + 1..];
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// When a process started, in ticks since boot: field 22 of its `stat`. Tells apart two that had the same number.
pub fn start_ticks(pid: u64) -> Option<u64> {
    stat_words(pid)?.get(22 - 3)?.parse().ok()
}

/// Its resident memory in bytes, as the kernel counts it now.
pub fn resident(pid: u64) -> Option<u64> {
    let text = fs::read_to_string(directory(pid).join("statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// It is there and is not a zombie.
pub fn runs(pid: u64) -> bool {
    stat_words(pid).is_some_and(|words| !matches!(words[0].as_str(), "Z" | "X"))
}

/// The program's file.
pub fn program(pid: u64) -> Option<PathBuf> {
    fs::read_link(directory(pid).join("exe")).ok()
}

/// The command and its arguments.
pub fn command_line(pid: u64) -> Vec<String> {
    let Ok(bytes) = fs::read(directory(pid).join("cmdline")) else {
        return Vec::new();
    };
    bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// All processes that one may see.
pub fn all() -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        if let Some(pid) = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        {
            found.push(pid);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// What `/proc` said about a process when a snapshot was taken. The texts are the kernel's own: a command that
/// explains memory reads them as it would read the files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessFacts {
    pub pid: u64,
    pub command_line: Vec<String>,
    /// `/proc/PID/status`
    pub status: String,
    /// `/proc/PID/smaps_rollup`
    pub smaps_rollup: String,
    /// `/proc/PID/smaps`
    pub smaps: String,
    /// `/proc/PID/limits`
    pub limits: String,
    /// `/proc/PID/cgroup`
    pub cgroup: String,
    /// `/proc/PID/environ`, of this only FREEHOLD and LD_PRELOAD: the rest is the program's own business.
    pub environment: Vec<String>,
    /// The machine's page size and number of CPUs.
    pub page_size: u64,
    pub processors: u64,
    /// The kernel: release and machine.
    pub system: String,
}

impl ProcessFacts {
    /// Reads them. A file that may not be read leaves its text empty.
    pub fn capture(pid: u64) -> ProcessFacts {
        let base = directory(pid);
        let text = |name: &str| {
            let mut bytes = fs::read(base.join(name)).unwrap_or_default();
            if bytes.len() > MOST_TEXT {
                let end = bytes[..=MOST_TEXT].iter().rposition(|byte| *byte == b'\n');
                bytes.truncate(end.unwrap_or(0));
            }
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let environment = fs::read(base.join("environ")).unwrap_or_default();
        let environment = environment
            .split(|byte| *byte == 0)
            .map(String::from_utf8_lossy)
            .filter(|word| word.starts_with("FREEHOLD") || word.starts_with("LD_PRELOAD="))
            .map(|word| word.into_owned())
            .collect();
        let uname = rustix::system::uname();
        ProcessFacts {
            pid,
            command_line: command_line(pid),
            status: text("status"),
            smaps_rollup: text("smaps_rollup"),
            smaps: text("smaps"),
            limits: text("limits"),
            cgroup: text("cgroup"),
            environment,
            page_size: rustix::param::page_size() as u64,
            processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
            system: format!(
                "{} {}",
                uname.release().to_string_lossy(),
                uname.machine().to_string_lossy()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn this_process_runs_and_has_a_beginning() {
        let me = u64::from(std::process::id());
        assert!(runs(me));
        assert!(start_ticks(me).unwrap() > 0);
        assert!(all().unwrap().contains(&me));
        assert!(!command_line(me).is_empty());
        assert!(!runs(u64::MAX));
    }

    /// A copy of a program under such a name, and so a mapping with it.
    #[test]
    fn names_that_are_no_text_hide_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join(OsStr::from_bytes(b"caf\xe9"));
        fs::copy("/bin/sleep", &program).unwrap();
        let mut child = Command::new(&program).arg("60").spawn().unwrap();
        let pid = u64::from(child.id());
        let (alive, begun, facts) = (runs(pid), start_ticks(pid), ProcessFacts::capture(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(alive && begun.is_some());
        assert!(facts.status.contains("VmRSS") && facts.smaps.contains("Rss:"));
    }

    #[test]
    fn facts_of_this_process_have_its_memory() {
        let facts = ProcessFacts::capture(u64::from(std::process::id()));
        assert!(facts.status.contains("VmRSS"));
        assert!(facts.smaps.contains("Rss:"));
        assert!(facts.processors >= 1);
    }
}
