//! Finds the workloads: the programs of `build/bench`, which say by `--list` what they can do, and the real programs
//! and recorded traces of `bench/real/real.toml`.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;

use crate::record::{Skipped, Workload};

pub struct Found {
    pub workloads: Vec<Workload>,
    pub skipped: Vec<Skipped>,
}

impl Found {
    /// Whether all commands are there; if not, says so.
    fn can_run(&mut self, name: &str, needs: &[String]) -> bool {
        let missing = needs.iter().find(|command| !is_command(command));
        if let Some(missing) = missing {
            self.skipped.push(Skipped {
                name: name.to_owned(),
                reason: format!("the command {missing} is not installed"),
            });
        }
        missing.is_none()
    }
}

/// Says what is missing where the suite's own programs are not compiled: a run would be of the real programs alone.
pub fn are_built(root: &Path) -> anyhow::Result<()> {
    let folder = root.join("build/bench");
    anyhow::ensure!(
        folder.is_dir(),
        "{} is missing, where the compiled workloads are: run `make workloads` in {} first",
        folder.display(),
        root.display()
    );
    Ok(())
}

/// All workloads: the real programs first, because they decide (and a run whose time is used up should not lack them),
/// then each family in the order in which its program lists the variants.
pub fn find(root: &Path) -> anyhow::Result<Found> {
    let mut found = Found {
        workloads: Vec::new(),
        skipped: Vec::new(),
    };
    real_programs(root, &mut found)?;
    let pattern = root.join("build/bench/*");
    for path in glob::glob(&pattern.to_string_lossy())?.filter_map(Result::ok) {
        let family = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !path.is_file() || path.extension().is_some() || family == "launcher" {
            continue;
        }
        match variants(&path, &family) {
            Ok(list) => found.workloads.extend(list),
            Err(error) => found.skipped.push(Skipped {
                name: family,
                reason: format!("{error:#}"),
            }),
        }
    }
    Ok(found)
}

/// Those of `freehold bench pools`, which are no part of the suite: other allocators have no pools.
pub fn find_pools(root: &Path) -> anyhow::Result<Found> {
    let program = root.join("build/bench-pools/pools");
    anyhow::ensure!(
        program.is_file(),
        "{} is not there; `make workloads` builds it",
        program.display()
    );
    Ok(Found {
        workloads: variants(&program, "pools")?,
        skipped: Vec::new(),
    })
}

fn variants(path: &Path, family: &str) -> anyhow::Result<Vec<Workload>> {
    let out = Command::new(path)
        .arg("--list")
        .output()
        .context("cannot run --list")?;
    anyhow::ensure!(out.status.success(), "--list failed with {}", out.status);
    let text = String::from_utf8(out.stdout)?;
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| variant(path, family, line))
        .collect()
}

/// One line of a listing: name, arguments, quick or full, with tabs between.
fn variant(path: &Path, family: &str, line: &str) -> anyhow::Result<Workload> {
    let mut parts = line.split('\t');
    let (name, args, kind) = (parts.next(), parts.next(), parts.next());
    let (Some(name), Some(args), Some(kind)) = (name, args, kind) else {
        anyhow::bail!("listing line without three parts: {line:?}");
    };
    anyhow::ensure!(
        matches!(kind, "quick" | "full"),
        "neither quick nor full: {line:?}"
    );
    let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
    Ok(Workload {
        name: name.to_owned(),
        family: family.to_owned(),
        program: path.to_string_lossy().into_owned(),
        threads: threads_of(&args),
        args,
        quick: kind == "quick",
        real: false,
        setup: None,
        verify: None,
        places_library: false,
    })
}

/// Thousands of threads are threads over time (churn), or sleepers; neither belongs on a scaling curve.
const MOST_THREADS: usize = 999;

fn threads_of(args: &[String]) -> Option<usize> {
    let value = args.iter().find_map(|arg| {
        arg.strip_prefix("threads=")
            .or_else(|| arg.strip_prefix("t="))
    })?;
    value
        .parse()
        .ok()
        .filter(|threads| *threads <= MOST_THREADS)
}

/// One real program. The commands are lines for `sh`, run in a scratch directory of their own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Real {
    name: String,
    /// Commands that have to be there; otherwise the workload is skipped, saying which is missing.
    needs: Vec<String>,
    #[serde(default)]
    quick: bool,
    /// Run once, without any library, before the first measurement: makes the input.
    setup: Option<String>,
    command: String,
    /// Run after each measurement; what it prints on stdout is the checksum, and its failure is the run's.
    verify: Option<String>,
    /// The command sets LD_PRELOAD by itself, from the variable BENCH_PRELOAD (a server and its client, say).
    #[serde(default)]
    places_library: bool,
}

/// Of a recorded trace, so many are replayed.
const OPERATIONS: u64 = 400_000;

/// What a real program asked of malloc, recorded once and then replayed by the workload `trace`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trace {
    name: String,
    needs: Vec<String>,
    #[serde(default)]
    quick: bool,
    setup: Option<String>,
    /// Operations to pass over, so that the trace is of the work and not of the start.
    #[serde(default)]
    skip: u64,
    command: String,
}

impl Trace {
    /// Records in the scratch directory. Of several processes the one with the most calls counts.
    fn recording(&self) -> String {
        let setup = self.setup.as_deref().unwrap_or("true");
        let (name, skip, command) = (&self.name, self.skip, &self.command);
        format!(
            "{setup}\n\
             \"$BENCH_COMMAND\" record --on system -o {name}.whole -- {command} && \
             \"$BENCH_COMMAND\" trace cut --from {skip} --count {OPERATIONS} {name}.whole -o {name}.part >/dev/null && \
             \"$BENCH_COMMAND\" trace dump --text {name}.part >{name}.trace && rm {name}.whole {name}.part"
        )
    }
}

/// From the replayer's one line of JSON to the lines that a workload prints. It measures itself: the kernel would count the file
/// that it replays to what is resident.
const ANSWER: &str = r#"s/^{"ns":\([0-9]*\),"cpu_ns":\([0-9]*\),"calls":\([0-9]*\),.*"failed":0,"wrong":0,.*"peak":\([0-9]*\),"before".*/wall_s \1e-9\ncpu_s \2e-9\npeak_rss \4\ncheck \3\nok/p"#;

/// A trace of the corpus, with its threads, replayed by the command's own replayer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Corpus {
    /// Its file, without the ending.
    trace: String,
    #[serde(default)]
    quick: bool,
}

impl Corpus {
    /// The process that is measured only replays: reading the trace and arranging its threads was done before.
    fn workload(self, root: &Path) -> Workload {
        let trace = &self.trace;
        Workload {
            name: format!("trace-{trace}"),
            family: "trace".into(),
            program: "sh".into(),
            args: vec![
                "-c".into(),
                format!(
                    "\"{}\" {trace}.prepared | sed -n '{ANSWER}'",
                    root.join("build/freehold-replayer").display()
                ),
            ],
            quick: self.quick,
            real: false,
            threads: None,
            setup: Some(format!(
                "\"$BENCH_COMMAND\" replay --prepare {trace}.prepared \"$BENCH_REAL/../../corpus/{trace}.trace\""
            )),
            verify: None,
            places_library: false,
        }
    }
}

/// What it works on, for a list. The line that a trace of the corpus is replayed by tells a reader nothing.
pub fn what(workload: &Workload) -> String {
    match workload.name.strip_prefix("trace-") {
        _ if workload.real => "real program".to_owned(),
        Some(trace) if workload.program == "sh" => format!("corpus/{trace}.trace"),
        _ => workload.args.join(" "),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RealFile {
    #[serde(default)]
    real: Vec<Real>,
    #[serde(default)]
    trace: Vec<Trace>,
    #[serde(default)]
    corpus: Vec<Corpus>,
}

fn real_programs(root: &Path, found: &mut Found) -> anyhow::Result<()> {
    let path = root.join("bench/real/real.toml");
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Ok(());
    };
    let file: RealFile = toml::from_str(&text).with_context(|| format!("in {}", path.display()))?;
    for trace in file.trace {
        if found.can_run(&trace.name, &trace.needs) {
            found.workloads.push(Workload {
                setup: Some(trace.recording()),
                args: vec![format!("file={}.trace", trace.name), "passes=40".into()],
                name: trace.name,
                family: "trace".into(),
                program: root
                    .join("build/bench/trace")
                    .to_string_lossy()
                    .into_owned(),
                quick: trace.quick,
                real: false,
                threads: None,
                verify: None,
                places_library: false,
            });
        }
    }
    let corpus = file.corpus.into_iter().map(|one| one.workload(root));
    found.workloads.extend(corpus);
    for real in file.real {
        if !found.can_run(&real.name, &real.needs) {
            continue;
        }
        found.workloads.push(Workload {
            name: real.name,
            family: "real".into(),
            program: "sh".into(),
            // exec: the measured process is the program itself, not a shell that waits for it.
            args: vec!["-c".into(), real.command],
            quick: real.quick,
            real: true,
            threads: None,
            setup: real.setup,
            verify: real.verify,
            places_library: real.places_library,
        });
    }
    Ok(())
}

fn is_command(name: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else {
        return false;
    };
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_line_becomes_a_workload() {
        let workload = variant(
            Path::new("/b/larson"),
            "larson",
            "larson-8t\tthreads=8 rounds=50\tquick",
        )
        .unwrap();
        assert_eq!(workload.name, "larson-8t");
        assert_eq!(workload.args, ["threads=8", "rounds=50"]);
        assert_eq!(workload.threads, Some(8));
        assert!(workload.quick);
        assert!(variant(Path::new("/b/x"), "x", "only-a-name").is_err());
        assert!(variant(Path::new("/b/x"), "x", "a\tb\tsometimes").is_err());
    }

    #[test]
    fn the_real_programs_of_the_repository_are_well_formed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut found = Found {
            workloads: Vec::new(),
            skipped: Vec::new(),
        };
        real_programs(&root, &mut found).unwrap();
        assert!(found.workloads.len() + found.skipped.len() > 5);
        let node = found.workloads.iter().find(|one| one.name == "trace-node");
        assert_eq!(node.map(|one| one.family.as_str()), Some("trace"));
        assert_eq!(node.map(what).as_deref(), Some("corpus/node.trace"));
        for one in found
            .workloads
            .iter()
            .filter(|one| one.program == "sh" && one.family == "trace")
        {
            let file = format!("corpus/{}.trace", one.name.trim_start_matches("trace-"));
            assert!(root.join(&file).is_file(), "there is no {file}");
        }
    }
}
