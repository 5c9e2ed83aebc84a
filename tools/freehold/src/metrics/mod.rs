//! `freehold metrics`: the statistics of an observed program as OpenMetrics text, without a word to the program.
//!
//! Names and help texts are those that the library itself writes with `FREEHOLD=metrics=FILE`: both come from
//! `src/observe/contract.def`. So a board made for one shows the other. The samples, which only the profile file has,
//! are added, and so are the heaps that the program has made, which are read in its memory.

mod samples;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use profile_file::layout::{ClassUse, Row, Statistics};
use profile_file::statistics::{
    CLASS_STATISTICS, FAMILY_BUILD, FAMILY_OCCUPANCY, OCCUPANCY_SHARES, PURGE_MODES, STATISTICS,
    Statistic, THP_MODES, name_of,
};
use profile_file::{Concern, Control, Heaps, HeapsError, Snapshot, Target, output_file};
use samples::SAMPLES;

use crate::amounts::duration;
use crate::explain::counts::before_the_end;
use crate::heaps::families;

/// Prints the statistics of an observed program as OpenMetrics text.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold metrics 4711                                             once, to the standard output\n  \
    freehold metrics --output /var/lib/node_exporter/app.prom server  for a collector of text files\n\n\
    The file is replaced as a whole, so that no reader sees half of it. A program can also write it itself, without this\n\
    command: FREEHOLD=metrics=FILE.")]
pub struct Args {
    /// A process, a program's or a run's name, a profile file or a saved snapshot.
    #[arg(value_name = "PID|NAME|FILE")]
    subject: Option<String>,

    /// Write into this file.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The same families as JSON.
    #[arg(long)]
    json: bool,
}

/// How long a program may take to answer with fresh statistics.
const PATIENCE: Duration = Duration::from_millis(100);

pub fn run(args: &Args) -> Result<ExitCode> {
    let target = Target::find_or_only(args.subject.as_deref())?;
    if let Some(profile) = target.profile_path() {
        // Who may only read gets the statistics as they are.
        if let Ok(control) = Control::open(profile) {
            control.refresh(PATIENCE);
        }
    }
    let held = target.hold()?;
    let snapshot = held.read()?;
    // A collector has no place for them; and that a living program went on meanwhile is what it always does.
    for warning in &snapshot.warnings {
        if warning.concern != Concern::Moving || !snapshot.is_alive() {
            tell_line!("freehold: note: {warning}");
        }
    }
    if let Some(seconds) = before_the_end(&snapshot) {
        tell_line!(
            "freehold: note: the program has ended; it was counted {} before its end",
            duration(seconds)
        );
    }
    let heaps = match held.heaps(&snapshot) {
        Ok(heaps) => heaps,
        // Of a program that is gone there are none.
        Err(HeapsError::Gone) => Heaps::default(),
        Err(error) => {
            tell_line!("freehold: note: {error}");
            Heaps::default()
        }
    };
    let mut text = render(&snapshot, &heaps)?;
    if args.json {
        text = serde_json::to_string_pretty(&crate::families::to_json(&text))? + "\n";
    }
    match &args.output {
        None => crate::output::print(&text)?,
        Some(file) => output_file::replace(file, |into| into.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {}", file.display()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn render(snapshot: &Snapshot, heaps: &Heaps) -> Result<String> {
    let Some(statistics) = &snapshot.profile.statistics else {
        bail!(
            "the program has not counted its memory yet: there are no statistics in its profile file"
        );
    };
    let mut out = String::new();
    describe(&mut out, snapshot, statistics);
    for field in STATISTICS {
        head(&mut out, field);
        sample(&mut out, field, "", (field.value)(statistics));
    }
    for field in SAMPLES {
        head(&mut out, field);
        sample(&mut out, field, "", (field.value)(snapshot));
    }
    for field in CLASS_STATISTICS {
        head(&mut out, field);
        for (labels, row) in shown(snapshot) {
            sample(
                &mut out,
                field,
                &format!("{{{labels}}}"),
                (field.value)(row),
            );
        }
    }
    occupancy(&mut out, snapshot);
    families::write(&mut out, heaps, escape);
    out.push_str("# EOF\n");
    Ok(out)
}

fn describe(out: &mut String, snapshot: &Snapshot, statistics: &Statistics) {
    let purge = name_of(&PURGE_MODES, statistics.purge_mode);
    let thp = name_of(&THP_MODES, statistics.thp_mode);
    head(out, &FAMILY_BUILD);
    let _ = write!(
        out,
        "freehold_{build}{{version=\"{}\",purge=\"{purge}\",thp=\"{thp}\"}} 1\n\
         # HELP freehold_process Whose statistics these are.\n# TYPE freehold_process gauge\n\
         freehold_process{{pid=\"{}\",program=\"{}\"}} 1\n",
        escape(&snapshot.version()),
        snapshot.pid(),
        escape(&snapshot.program()),
        build = FAMILY_BUILD.name,
    );
    let _ = write!(
        out,
        "# HELP freehold_process_running 1: it runs; 0: it has ended, and these are its last statistics.\n\
         # TYPE freehold_process_running gauge\nfreehold_process_running {}\n\
         # HELP freehold_statistics_age_seconds How old these statistics are now, or at the end of a program that has ended.\n\
         # TYPE freehold_statistics_age_seconds gauge\n# UNIT freehold_statistics_age_seconds seconds\n\
         freehold_statistics_age_seconds {:.3}\n",
        u8::from(snapshot.is_alive()),
        snapshot.statistics_age_ns().unwrap_or(0) as f64 / 1e9,
    );
}

/// The value of a label may hold anything but these three as they are.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn head<T>(out: &mut String, field: &Statistic<T>) {
    let kind = if field.counter { "counter" } else { "gauge" };
    let _ = write!(
        out,
        "# HELP freehold_{0} {1}\n# TYPE freehold_{0} {kind}\n",
        field.name, field.help
    );
    if let Some(unit) = field.unit {
        let _ = writeln!(out, "# UNIT freehold_{} {unit}", field.name);
    }
}

fn sample<T>(out: &mut String, field: &Statistic<T>, labels: &str, value: u64) {
    let total = if field.counter { "_total" } else { "" };
    let _ = writeln!(out, "freehold_{}{total}{labels} {value}", field.name);
}

/// The classes that hold something of the program's, each with its labels. The allocator's own are left out.
fn shown(snapshot: &Snapshot) -> impl Iterator<Item = (String, &Row)> {
    let rows = snapshot.rows().iter().filter(|row| row.slabs > 0);
    rows.filter_map(|row| {
        let class_use = row.class_use().filter(|known| *known != ClassUse::Own)?;
        let size = if row.size == 0 {
            "large".to_owned()
        } else {
            row.size.to_string()
        };
        let labels = format!("size=\"{size}\",use=\"{}\"", class_use.name());
        Some((labels, row))
    })
}

fn occupancy(out: &mut String, snapshot: &Snapshot) {
    head(out, &FAMILY_OCCUPANCY);
    for (labels, row) in shown(snapshot) {
        for (below, slabs) in OCCUPANCY_SHARES.iter().zip(row.occupancy) {
            let _ = writeln!(
                out,
                "freehold_{}{{{labels},below=\"{below}\"}} {slabs}",
                FAMILY_OCCUPANCY.name
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile_file::testing::ProfileBuilder;
    use std::collections::BTreeMap;

    fn text() -> String {
        let mut profile = ProfileBuilder::new(4096);
        let site = profile.site(&[0x1000]);
        profile.allocate(site, 100, 10);
        profile.statistics(|f| {
            f.live_bytes = 4096;
            f.refills = 7;
            f.purge_mode = 1;
            f.rows = 5;
            f.row[3].size = 48;
            f.row[3].slabs = 2;
            f.row[3].live = 5;
            f.row[3].occupancy = [1, 0, 0, 1];
            (f.row[4].size, f.row[4].slabs, f.row[4].class_use) = (64, 1, ClassUse::Samples as u64);
            (f.row[2].size, f.row[2].slabs, f.row[2].class_use) = (256, 9, ClassUse::Own as u64);
        });
        render(&profile.snapshot(), &crate::heaps::tests::tree()).unwrap()
    }

    /// What OpenMetrics asks of a text, checked strictly: families in one piece, each with its type, names and units
    /// that fit, samples that are numbers, no sample twice, the end marked. Gives the samples.
    fn check(text: &str) -> BTreeMap<String, u64> {
        assert!(
            text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1,
            "{text}"
        );
        let mut samples = BTreeMap::new();
        let mut seen: Vec<String> = Vec::new();
        let (mut family, mut kind) = (String::new(), String::new());
        for line in text.lines().take_while(|line| *line != "# EOF") {
            if let Some(rest) = line.strip_prefix("# ") {
                let mut words = rest.splitn(3, ' ');
                let (what, name, value) = (
                    words.next().unwrap(),
                    words.next().unwrap(),
                    words.next().unwrap(),
                );
                if name != family {
                    assert_eq!(what, "HELP", "{line}");
                    assert!(!seen.contains(&name.to_owned()), "{name} twice");
                    seen.push(name.to_owned());
                    family = name.to_owned();
                    kind.clear();
                }
                match what {
                    "HELP" => assert!(value.ends_with('.'), "{line}"),
                    "TYPE" => kind = value.to_owned(),
                    "UNIT" => assert!(name.ends_with(&format!("_{value}")), "{line}"),
                    _ => panic!("{line}"),
                }
                continue;
            }
            let (name_and_labels, value) = line.rsplit_once(' ').unwrap();
            let name = name_and_labels.split('{').next().unwrap();
            assert!(
                name.bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{line}"
            );
            match kind.as_str() {
                "counter" => assert_eq!(name, format!("{family}_total"), "{line}"),
                "gauge" => assert_eq!(name, family, "{line}"),
                _ => panic!("{line} before its type"),
            }
            if let Some(labels) = name_and_labels.strip_prefix(&format!("{name}{{")) {
                let labels = labels.strip_suffix('}').unwrap();
                for label in labels.split("\",") {
                    assert!(label.contains("=\""), "{line}");
                }
            }
            assert!(
                samples
                    .insert(
                        name_and_labels.to_owned(),
                        value.parse::<f64>().unwrap() as u64
                    )
                    .is_none(),
                "{line} twice"
            );
        }
        samples
    }

    #[test]
    fn the_text_is_valid_and_says_what_the_figures_say() {
        let samples = check(&text());
        assert_eq!(samples["freehold_live_bytes"], 4096);
        assert_eq!(samples["freehold_refills_total"], 7);
        assert_eq!(
            samples["freehold_class_live{size=\"48\",use=\"program\"}"],
            5
        );
        assert_eq!(
            samples["freehold_class_slabs{size=\"64\",use=\"samples\"}"],
            1
        );
        assert_eq!(
            samples["freehold_class_occupancy_slabs{size=\"48\",use=\"program\",below=\"0.25\"}"],
            1
        );
        assert_eq!(samples["freehold_samples_total"], 1);
        assert_eq!(samples["freehold_heaps{heap=\"tenant/query\"}"], 2);
        assert_eq!(
            samples["freehold_heap_limit_hard_bytes{heap=\"tenant\"}"],
            64 << 20
        );
        assert!(
            !samples.keys().any(|name| name.contains("256")),
            "the allocator's own classes are not shown"
        );
        assert!(text().contains("purge=\"eager\",thp=\"auto\"} 1\n"));
    }

    #[test]
    fn without_figures_there_is_an_error_and_no_text() {
        let profile = ProfileBuilder::new(4096);
        let snapshot = Snapshot {
            profile: profile_file::Profile {
                statistics: None,
                ..profile.snapshot().profile
            },
            ..profile.snapshot()
        };
        assert!(
            render(&snapshot, &Heaps::default())
                .unwrap_err()
                .to_string()
                .contains("not counted")
        );
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escape("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
