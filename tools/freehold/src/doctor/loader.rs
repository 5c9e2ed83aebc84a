//! The loader's own word. glibc's loader can be asked to load and bind a program with a preloaded library
//! and to tell what it did, without starting the program. That is the one answer that no reading of files
//! can beat: it knows the search paths, the versions of symbols and the order of libraries.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::report::{Finding, Report};
use super::trial;

/// Asks `loader` to bind `program` with `library` preloaded, and adds what it says to the report.
pub fn ask(report: &mut Report, loader: &str, program: &Path, library: &Path) -> Result<()> {
    let output = Command::new(loader)
        .arg(program)
        // Not by --preload: what LD_PRELOAD names already would come first, as it does not where Freehold is started.
        .env("LD_PRELOAD", trial::preload(library))
        // What ldd -r sets: load, bind every symbol, print, and stop before the first instruction.
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .env("LD_WARN", "yes")
        .env("LD_BIND_NOW", "yes")
        .env("LD_DEBUG", "bindings")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run the loader {loader}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let loaded = String::from_utf8_lossy(&output.stdout);
    for finding in judge(&said, &loaded, program, library) {
        report.add(finding);
    }
    Ok(())
}

/// Reads the loader's account of which file was bound to whose malloc.
fn judge(said: &str, loaded: &str, program: &Path, library: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let missing = loaded
        .lines()
        .chain(said.lines())
        .find(|line| line.contains("=> not found"));
    if let Some(line) = missing {
        findings.push(Finding::blocks(
            "loader",
            format!("a library is missing: {}", line.trim()),
        ));
    }
    let library = library.display().to_string();
    if let Some(line) = said
        .lines()
        .find(|line| line.contains("cannot be preloaded") && line.contains(&library))
    {
        findings.push(Finding::blocks("loader", line.trim().to_owned()));
        return findings;
    }

    let bindings: Vec<Binding> = said.lines().filter_map(malloc_binding).collect();
    findings.push(judge_bindings(
        &bindings,
        &program.display().to_string(),
        &library,
    ));
    findings
}

/// A program that takes malloc's address may have an entry of its own by that name, which others are bound to
/// and which only jumps on to wherever the program's own malloc is bound: such a detour is not in the way.
fn judge_bindings(bindings: &[Binding], program: &str, library: &str) -> Finding {
    let detour = bindings
        .iter()
        .any(|binding| binding.from == program && binding.to == library);
    let reaches_us =
        |binding: &&Binding| binding.to == library || (detour && binding.to == program);
    let ours = bindings.iter().filter(reaches_us).count();
    match bindings.iter().find(|binding| !reaches_us(binding)) {
        Some(other) => {
            let owner = if other.to == program {
                "the program itself"
            } else {
                other.to
            };
            Finding::blocks(
                "loader",
                format!("the loader binds malloc of {} to {owner}", other.from),
            )
        }
        None if ours > 0 => {
            let files = if ours == 1 { "file" } else { "files" };
            Finding::ok(
                "loader",
                format!("the loader binds malloc of {ours} {files} to Freehold"),
            )
        }
        None => Finding::note(
            "loader",
            "the loader accepts Freehold, but nothing here asks for malloc",
        ),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Binding<'a> {
    from: &'a str,
    to: &'a str,
}

/// `4711: binding file A [0] to B [0]: normal symbol `malloc' [VERSION]`.
fn malloc_binding(line: &str) -> Option<Binding<'_>> {
    if !line.contains("symbol `malloc'") {
        return None;
    }
    let (_, rest) = line.split_once("binding file ")?;
    let (from, rest) = rest.split_once(" [0] to ")?;
    let (to, _) = rest.split_once(" [0]: ")?;
    Some(Binding { from, to })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::Level;

    const LIBRARY: &str = "/opt/libfreehold.so";

    fn verdict(said: &str, loaded: &str) -> Vec<Finding> {
        judge(said, loaded, Path::new("/bin/app"), Path::new(LIBRARY))
    }

    #[test]
    fn a_binding_is_read() {
        let line = "  57:\tbinding file /bin/app [0] to /opt/x.so [0]: normal symbol `malloc' [GLIBC_2.2.5]";
        assert_eq!(
            malloc_binding(line),
            Some(Binding {
                from: "/bin/app",
                to: "/opt/x.so"
            })
        );
        assert_eq!(malloc_binding(&line.replace("malloc", "malloc_trim")), None);
    }

    #[test]
    fn everybody_bound_to_us_is_fine() {
        let line =
            format!("1: binding file /bin/app [0] to {LIBRARY} [0]: normal symbol `malloc'\n");
        let findings = verdict(&line.repeat(2), "");
        assert_eq!(
            findings,
            [Finding::ok(
                "loader",
                "the loader binds malloc of 2 files to Freehold"
            )]
        );
    }

    #[test]
    fn one_bound_elsewhere_is_not() {
        let said = "1: binding file /lib/a.so [0] to /bin/app [0]: normal symbol `malloc'";
        let findings = verdict(said, "");
        assert_eq!(findings[0].level, Level::Blocks);
        assert!(findings[0].text.ends_with("to the program itself"));
    }

    #[test]
    fn a_detour_through_the_program_arrives() {
        let said = format!(
            "1: binding file /lib/a.so [0] to /bin/app [0]: normal symbol `malloc'\n\
             1: binding file /bin/app [0] to {LIBRARY} [0]: normal symbol `malloc'\n"
        );
        assert_eq!(
            verdict(&said, ""),
            [Finding::ok(
                "loader",
                "the loader binds malloc of 2 files to Freehold"
            )]
        );
    }

    #[test]
    fn refusals_of_the_loader_are_passed_on() {
        let said = format!(
            "ERROR: ld.so: object '{LIBRARY}' from --preload cannot be preloaded (why): ignored."
        );
        assert_eq!(verdict(&said, "")[0].level, Level::Blocks);
        let findings = verdict("", "\tlibgone.so.1 => not found");
        assert_eq!(
            findings[0].text,
            "a library is missing: libgone.so.1 => not found"
        );
    }
}
