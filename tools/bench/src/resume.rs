//! Going on with a record: what is missing of its rounds is measured, with the same libraries on the same machine.
//!
//! A full run of three rounds takes hours. A machine that is free for one of them at a time can have it in pieces: each ratio is
//! between runs of one group, which follow each other within seconds, so it does not matter when the group was measured.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, ensure};

use crate::machine;
use crate::record::{Allocator, Machine, Origin, Record, Workload};
use crate::selection::Selection;

/// The record with its complete groups. An error names what is not as it was.
pub fn load(
    path: &Path,
    root: &Path,
    selection: &Selection,
    allocators: &[Allocator],
) -> anyhow::Result<Record> {
    let mut record = Record::load(path)?;
    let whose = path.display();
    ensure!(
        record.settings.mode == selection.mode,
        "{whose} is of the {} suite, and this is the {} one",
        record.settings.mode,
        selection.mode
    );
    same_machine(&record.machine, &machine::describe(root)).with_context(|| whose.to_string())?;
    for workload in &record.workloads {
        same_workload(workload, &selection.workloads).with_context(|| whose.to_string())?;
    }
    same_allocators(&record, root, allocators).with_context(|| whose.to_string())?;
    drop_incomplete(&mut record);
    Ok(record)
}

fn same_machine(then: &Machine, now: &Machine) -> anyhow::Result<()> {
    let key = |m: &Machine| format!("{}, {} cores, {}", m.processor, m.cores, m.kernel);
    ensure!(
        key(then) == key(now),
        "it was measured on {}, and this is {}",
        key(then),
        key(now)
    );
    Ok(())
}

fn same_workload(then: &Workload, now: &[Workload]) -> anyhow::Result<()> {
    let found = now.iter().find(|workload| workload.name == then.name);
    let found = found.with_context(|| {
        format!(
            "its workload {} is not among those that were asked for",
            then.name
        )
    })?;
    ensure!(
        found.program == then.program && found.args == then.args,
        "the workload {} has had other arguments since",
        then.name
    );
    Ok(())
}

fn same_allocators(record: &Record, root: &Path, now: &[Allocator]) -> anyhow::Result<()> {
    let names = |all: &[Allocator]| {
        let names: Vec<&str> = all.iter().map(|a| a.name.as_str()).collect();
        names.join(",")
    };
    ensure!(
        names(&record.allocators) == names(now),
        "it has the allocators {}, and those asked for are {}",
        names(&record.allocators),
        names(now)
    );
    for (then, now) in record.allocators.iter().zip(now) {
        ensure!(
            then.built_with == now.built_with && then.options == now.options,
            "{} was built in another way, or has other options",
            then.name
        );
        let file = file_of(now, root);
        let Some(file) = file else { continue };
        let modified = std::fs::metadata(&file)
            .and_then(|about| about.modified())
            .with_context(|| file.display().to_string())?;
        let modified = modified
            .duration_since(UNIX_EPOCH)
            .map_or(0, |t| t.as_secs());
        ensure!(
            modified <= record.started,
            "{} was built after it began, and all rounds must be of one library",
            file.display()
        );
    }
    Ok(())
}

/// What the allocator's library was built as. Ours is measured as a copy, which is as young as the run.
fn file_of(allocator: &Allocator, root: &Path) -> Option<PathBuf> {
    match allocator.origin {
        Origin::System => None,
        Origin::Ours => Some(root.join("build/libfreehold.so")),
        _ => Some(PathBuf::from(&allocator.library)),
    }
}

/// A group is measured whole or not at all; the one that an interruption cut is done again.
fn drop_incomplete(record: &mut Record) {
    let complete = groups(record);
    record
        .runs
        .retain(|run| complete.contains(&(run.workload.clone(), run.round)));
}

/// Workloads and rounds of which every allocator has a run, or failed in one before.
pub fn groups(record: &Record) -> HashSet<(String, usize)> {
    let mut begun = HashSet::new();
    let mut there = HashSet::new();
    for run in &record.runs {
        begun.insert((run.workload.clone(), run.round));
        there.insert((run.workload.as_str(), run.round, run.allocator.as_str()));
    }
    begun.retain(|(workload, round)| {
        record.allocators.iter().all(|allocator| {
            there.contains(&(workload.as_str(), *round, allocator.name.as_str()))
                || record.runs.iter().any(|run| {
                    run.workload == *workload
                        && run.allocator == allocator.name
                        && run.round < *round
                        && !run.outcome.is_ok()
                })
        })
    });
    begun
}
