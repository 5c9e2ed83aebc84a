//! Describes the machine, because a figure without it says little.

use std::path::Path;
use std::process::Command;

use crate::memory;
use crate::record::Machine;

pub fn describe(root: &Path) -> Machine {
    let processors = read("/proc/cpuinfo");
    let value = |key: &str| {
        let line = processors.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    Machine {
        processor: value("model name").unwrap_or_else(|| "unknown".into()),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: memory::field(&read("/proc/meminfo"), "MemTotal:").unwrap_or(0),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        system: quoted(&read("/etc/os-release"), "PRETTY_NAME="),
        libc: output(Command::new("getconf").arg("GNU_LIBC_VERSION")),
        compiler: output(Command::new("cc").arg("--version")),
        transparent_huge_pages: huge_pages(),
        virtual_machine: value("flags")
            .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        load_before: read("/proc/loadavg")
            .split(' ')
            .next()
            .and_then(|load| load.parse().ok())
            .unwrap_or(0.0),
        revision: output(
            Command::new("git")
                .args(["rev-parse", "--short=12", "HEAD"])
                .current_dir(root),
        ),
    }
}

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// The mode in force is the word in brackets: "always [madvise] never".
fn huge_pages() -> String {
    let text = read(HUGE_PAGES);
    text.split(['[', ']'])
        .nth(1)
        .unwrap_or("unknown")
        .to_owned()
}

/// Holds another mode of huge pages for as long as it lives, then puts the old one back.
pub struct HugePageMode {
    before: String,
}

impl HugePageMode {
    pub fn set(mode: &str) -> anyhow::Result<Self> {
        let before = huge_pages();
        std::fs::write(HUGE_PAGES, mode).map_err(|error| {
            anyhow::anyhow!("cannot set the huge page mode (only root can): {error}")
        })?;
        Ok(Self { before })
    }
}

impl Drop for HugePageMode {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and the mode before was valid.
        let _ = std::fs::write(HUGE_PAGES, &self.before);
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn quoted(text: &str, key: &str) -> String {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap_or_default();
    line.trim_matches('"').to_owned()
}

fn output(command: &mut Command) -> String {
    let text = command
        .output()
        .map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
        .unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_owned()
}
