//! `freehold diff`: what grew between two snapshots, and whether that could be chance.

mod compare;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args as ClapArgs;
use profile_file::{Snapshot, Target, View, human};
use serde::Serialize;

use crate::naming::NamingArgs;
use crate::output::print;
use crate::profile::ViewArgs;
use crate::profile::group::{By, Key};
use crate::profile::json::{About, Note, Statistics, notes};
use crate::profile::stacks::Stacks;
use crate::profile::text::{Table, describe, heading};
use compare::{Change, Side, Verdict, compare, same_process, sigmas};

/// What grew between two snapshots, with error bars.
#[derive(ClapArgs)]
#[command(after_help = "Example:\n  \
    freehold profile my-server --save before.fhs    keep what is there now\n  \
    freehold diff before.fhs my-server              and see what has grown since\n  \
    freehold diff before.fhs after.fhs --by module --json")]
pub struct Args {
    /// The earlier: a saved snapshot, a profile file, a PID or a program's name
    #[arg(value_name = "BEFORE")]
    before: String,
    /// The later one
    #[arg(value_name = "AFTER")]
    after: String,
    /// Put call sites together by this
    #[arg(long, value_enum, default_value = "site", value_name = "WHAT")]
    by: By,
    #[command(flatten)]
    view: ViewArgs,
    /// Show so many
    #[arg(short = 'n', long = "most", default_value_t = 20, value_name = "N")]
    most: usize,
    /// Show also what changed within its error
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    naming: NamingArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let before = args.naming.of(Target::find(&args.before)?.read()?);
    let after = args.naming.of(Target::find(&args.after)?.read()?);
    let before = Side {
        stacks: Stacks::of(&before),
        snapshot: &before,
    };
    let after = Side {
        stacks: Stacks::of(&after),
        snapshot: &after,
    };
    let view = args.view.view();
    let (whole, mut changes) = compare(&before, &after, args.by, view);
    let hidden = if args.all {
        0
    } else {
        let all = changes.len();
        changes.retain(|change| change.verdict() != Verdict::WithinError);
        all - changes.len()
    };
    if args.json {
        print(&(json(&before, &after, &whole, &changes, args)? + "\n"))?;
    } else {
        print(&text(&before, &after, &whole, &changes, hidden, args))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Seconds between the two; none if they have no clock in common, or the first is the later.
fn seconds_between(before: &Snapshot, after: &Snapshot) -> Option<f64> {
    let (from, to) = (before.now_ns(), after.now_ns());
    (same_process(before, after) && to > from).then(|| (to - from) as f64 / 1e9)
}

fn signed(bytes: f64) -> String {
    let text = human::bytes(bytes);
    if bytes > 0.0 {
        format!("+{text}")
    } else {
        text
    }
}

fn signed_count(number: f64) -> String {
    let text = human::count(number);
    if number > 0.0 && text != "0" {
        format!("+{text}")
    } else {
        text
    }
}

fn with_error(change: &Change) -> String {
    let sign = if change.bytes() > 0.0 { "+" } else { "" };
    format!("{sign}{}", human::estimate(change.bytes(), change.error()))
}

fn text(
    before: &Side,
    after: &Side,
    whole: &Change,
    changes: &[Change],
    hidden: usize,
    args: &Args,
) -> String {
    let mut text = format!(
        "before: {}after:  {}",
        heading(before.snapshot),
        heading(after.snapshot)
    );
    text.push_str(&format!(
        "{}: {} → {}, {}",
        describe(args.view.view()),
        human::bytes(whole.before.bytes),
        human::bytes(whole.after.bytes),
        with_error(whole)
    ));
    if let Some(seconds) = seconds_between(before.snapshot, after.snapshot) {
        text.push_str(&format!(
            " in {} ({} a minute)",
            human::duration((seconds * 1e9) as u64),
            signed(whole.bytes() / seconds * 60.0)
        ));
    }
    text.push('\n');
    let resident = |side: &Side| {
        side.snapshot
            .profile
            .statistics
            .as_ref()
            .map_or(0, |f| f.resident_bytes)
    };
    if resident(before) != 0 && resident(after) != 0 {
        let (was, is) = (resident(before) as f64, resident(after) as f64);
        text.push_str(&format!(
            "Resident: {} → {}, {}\n",
            human::bytes(was),
            human::bytes(is),
            signed(is - was)
        ));
    }
    text.push('\n');
    if !changes.is_empty() {
        text.push_str(&table(changes, args.most).text());
    }
    if changes.len() > args.most {
        text.push_str(&format!(
            "  … and {} more (-n shows more)\n",
            changes.len() - args.most
        ));
    }
    if changes.is_empty() && hidden == 0 {
        text.push_str("Neither has anything to compare.\n");
    } else if changes.is_empty() {
        text.push_str(&format!(
            "None of {hidden} changed by more than its error (--all shows them).\n"
        ));
    } else if hidden != 0 {
        text.push_str(&format!(
            "  … and {hidden} that changed within their error (--all shows them)\n"
        ));
    }
    text.push_str(&remarks(before, after, args));
    text
}

fn table(changes: &[Change], most: usize) -> Table {
    let mut table = Table::new(&["change", "±", "", "before", "after", "blocks", "where"]);
    for change in changes.iter().take(most) {
        let error = change.error();
        table.row(
            vec![
                signed(change.bytes()),
                if error == 0.0 {
                    "exact".to_owned()
                } else {
                    human::bytes(error)
                },
                change.verdict().text().to_owned(),
                human::bytes(change.before.bytes),
                human::bytes(change.after.bytes),
                signed_count(change.blocks()),
                change.key.text(),
            ],
            Vec::new(),
        );
    }
    table
}

/// What was odd, and what to do next.
fn remarks(before: &Side, after: &Side, args: &Args) -> String {
    let mut text = String::new();
    if !same_process(before.snapshot, after.snapshot) {
        text.push_str(
            "note: these are two processes: call sites are compared by name, and errors are those of both\n",
        );
    } else if before.snapshot.now_ns() > after.snapshot.now_ns() {
        text.push_str("note: the first is the later one: what grew is shown as shrunk\n");
    }
    for (name, side) in [("before", before), ("after", after)] {
        let notes = side.snapshot.warnings.iter().map(|warning| &warning.text);
        let skipped = side.stacks.skipped.sentence();
        for note in notes.chain(&side.stacks.warnings).chain(&skipped) {
            text.push_str(&format!("note ({name}): {note}\n"));
        }
    }
    text.push_str(&format!(
        "\nnext: freehold leaks {0}\n      freehold profile {0} --stacks\n",
        args.after
    ));
    text
}

#[derive(Serialize)]
struct ChangeOut<'a> {
    #[serde(flatten)]
    key: &'a Key,
    verdict: Verdict,
    bytes: f64,
    error: f64,
    /// None if the change is exact.
    sigmas: Option<f64>,
    blocks: f64,
    before: Statistics,
    after: Statistics,
}

impl<'a> From<&'a Change> for ChangeOut<'a> {
    fn from(change: &'a Change) -> Self {
        ChangeOut {
            key: &change.key,
            verdict: change.verdict(),
            bytes: change.bytes(),
            error: change.error(),
            sigmas: Some(sigmas(change.bytes(), change.error())).filter(|s| s.is_finite()),
            blocks: change.blocks(),
            before: change.before.into(),
            after: change.after.into(),
        }
    }
}

#[derive(Serialize)]
struct DiffOut<'a> {
    before: About,
    after: About,
    same_process: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    view: View,
    by: By,
    whole: ChangeOut<'a>,
    changes: Vec<ChangeOut<'a>>,
    /// Functions that no site is named after.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<String>,
    notes_before: Vec<Note>,
    notes_after: Vec<Note>,
}

fn json(
    before: &Side,
    after: &Side,
    whole: &Change,
    changes: &[Change],
    args: &Args,
) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&DiffOut {
        before: About::of(before.snapshot),
        after: About::of(after.snapshot),
        same_process: same_process(before.snapshot, after.snapshot),
        seconds: seconds_between(before.snapshot, after.snapshot),
        view: args.view.view(),
        by: args.by,
        whole: whole.into(),
        changes: changes
            .iter()
            .take(args.most)
            .map(ChangeOut::from)
            .collect(),
        skipped: after.stacks.skipped.sentence(),
        notes_before: notes(before.snapshot, &before.stacks.warnings),
        notes_after: notes(after.snapshot, &after.stacks.warnings),
    })
}
