//! A process that runs already: what `/proc` says about its libraries and its options.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::report::{Finding, Report};
use super::{allocators, elf};

/// Reports whether process `pid` runs under Freehold.
pub fn examine(pid: u32) -> Result<Report> {
    let directory = PathBuf::from(format!("/proc/{pid}"));
    if !directory.exists() {
        bail!("there is no process {pid}");
    }
    let read = |name: &str| {
        fs::read(directory.join(name))
            .with_context(|| format!("cannot look into process {pid} ({name})"))
    };
    let maps = read("maps")?;
    let environment = read("environ")?;
    let mut report = Report::for_process(pid);
    report.program = fs::read_link(directory.join("exe")).ok();
    // The file may have been replaced since; the link in /proc still opens what is running.
    let facts = fs::read(directory.join("exe"))
        .ok()
        .and_then(|data| elf::read(&data).ok());
    judge(
        &mut report,
        &mapped_files(&String::from_utf8_lossy(&maps)),
        &variables(&environment),
        facts.as_ref(),
    );
    Ok(report)
}

fn judge(
    report: &mut Report,
    files: &BTreeSet<String>,
    environment: &[(String, String)],
    facts: Option<&elf::Facts>,
) {
    let value = |name: &str| {
        environment
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    };
    report.kind = facts.map(elf::Facts::describe);
    if let Some(options) = value("FREEHOLD") {
        report.options = options
            .split(',')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
    }
    let defines = |name: &str| {
        facts.is_some_and(|f| {
            f.exports
                .iter()
                .chain(&f.symbols)
                .any(|symbol| symbol == name)
        })
    };
    report.linked_in = defines("fh_version");

    let library = files
        .iter()
        .find(|file| file_name(file).starts_with("libfreehold.so"));
    report.library = library.map(PathBuf::from);
    match library {
        _ if report.linked_in => {
            report.add(Finding::ok("maps", "Freehold is linked into the program"))
        }
        Some(file) if file.ends_with(" (deleted)") => {
            report.add(Finding::ok(
                "maps",
                format!("{file} is loaded; the file was replaced since"),
            ));
        }
        Some(file) => report.add(Finding::ok("maps", format!("{file} is loaded"))),
        None => {
            report.add(Finding::blocks("maps", "libfreehold.so is not loaded"));
            explain_absence(report, value("LD_PRELOAD"), facts);
        }
    }
    for file in files {
        if let Some(name) = allocators::by_file_name(file_name(file)) {
            report.add(Finding::note(
                "allocator",
                format!("{name} is loaded too ({file})"),
            ));
        }
    }
    if !report.linked_in && defines("malloc") {
        report.add(Finding::blocks(
            "allocator",
            "the program defines malloc itself, which comes first",
        ));
    }
}

/// Why the library may be missing, as far as it can be told afterwards.
fn explain_absence(report: &mut Report, preload: Option<&str>, facts: Option<&elf::Facts>) {
    match preload {
        Some(list) if list.contains("libfreehold") => {
            let text =
                format!("it was started with LD_PRELOAD={list}, which its loader did not follow");
            report.add(
                Finding::note("preload", text)
                    .advise("ask `freehold doctor -- CMD` for the reason"),
            );
        }
        _ => report.add(Finding::note(
            "preload",
            "it was started without LD_PRELOAD for Freehold",
        )),
    }
    if facts.is_some_and(|facts| facts.linkage == elf::Linkage::Static) {
        report.add(Finding::note("linkage", "the program is statically linked"));
    }
}

fn file_name(path: &str) -> &str {
    Path::new(path)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("")
}

/// The files that are mapped, each once. In `/proc/PID/maps` the path is the sixth field and may hold spaces.
fn mapped_files(maps: &str) -> BTreeSet<String> {
    maps.lines()
        .filter_map(|line| line.find('/').map(|start| line[start..].to_owned()))
        .collect()
}

/// The variables that a process was started with.
fn variables(environment: &[u8]) -> Vec<(String, String)> {
    environment
        .split(|&byte| byte == 0)
        .filter_map(|entry| {
            let entry = String::from_utf8_lossy(entry);
            entry
                .split_once('=')
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0-55d1 r-xp 00000000 fe:00 12 /usr/bin/my server
7f00-7f01 r--p 00000000 fe:00 13 /opt/f/libfreehold.so.0.1.0
7f01-7f02 r-xp 00001000 fe:00 13 /opt/f/libfreehold.so.0.1.0
7f03-7f04 r-xp 00001000 fe:00 14 /usr/lib/libjemalloc.so.2
7ffd-7ffe rw-p 00000000 00:00 0 [stack]
";

    fn report(maps: &str, environment: &[u8]) -> Report {
        let mut report = Report::for_process(42);
        judge(
            &mut report,
            &mapped_files(maps),
            &variables(environment),
            None,
        );
        report
    }

    #[test]
    fn each_file_is_listed_once() {
        let files = mapped_files(MAPS);
        assert_eq!(files.len(), 3);
        assert!(files.contains("/usr/bin/my server"));
    }

    #[test]
    fn a_process_under_freehold() {
        insta::assert_snapshot!(report(MAPS, b"HOME=/\0FREEHOLD=verbose=1,purge=eager\0").to_text(), @r"
          library   /opt/f/libfreehold.so.0.1.0
          options   verbose=1, purge=eager
          ok        /opt/f/libfreehold.so.0.1.0 is loaded
          note      jemalloc is loaded too (/usr/lib/libjemalloc.so.2)
        Yes: process 42 runs under Freehold.
        ");
    }

    #[test]
    fn a_process_whose_loader_ignored_the_wish() {
        insta::assert_snapshot!(report("", b"LD_PRELOAD=/opt/libfreehold.so\0").to_text(), @r"
          BLOCKS    libfreehold.so is not loaded
          note      it was started with LD_PRELOAD=/opt/libfreehold.so, which its loader did not follow
                    -> ask `freehold doctor -- CMD` for the reason
        No: process 42 does not run under Freehold.
        ");
    }

    #[test]
    fn the_embedding_library_is_not_the_drop_in() {
        let maps = "7f00-7f01 r-xp 0 fe:00 13 /opt/f/libfreehold-embed.so.0.1.0\n";
        assert!(!report(maps, b"").verdict());
    }
}
