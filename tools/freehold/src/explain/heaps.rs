//! `freehold explain --heaps`: the tree of heaps that a program has made.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use profile_file::{Control, Heaps, Snapshot, Target};
use serde::Serialize;

use super::sources::explain_failure;
use crate::heaps::{HeapData, LEGEND, SHOWN, data, headings, lines, summary};
use crate::output::print;

/// Columns of the table.
const WIDTH: usize = 100;
/// A program that has just begun may not have said where its records are: asked, it does at its next slow path.
const PATIENCE: Duration = Duration::from_millis(300);

#[derive(Serialize)]
struct Data<'a> {
    program: String,
    pid: u64,
    heaps: Vec<HeapData<'a>>,
    left_out: u64,
}

pub fn run(word: Option<&str>, json: bool) -> Result<ExitCode> {
    let target = Target::find_or_only(word).map_err(|error| explain_failure(error.into(), word))?;
    if let Some(control) = target
        .profile_path()
        .and_then(|path| Control::open(path).ok())
    {
        control.refresh(PATIENCE);
    }
    let held = target.hold()?;
    let snapshot = held.read()?;
    let heaps = held.heaps(&snapshot)?;
    if json {
        let data = Data {
            program: snapshot.program(),
            pid: snapshot.pid(),
            heaps: data(&heaps),
            left_out: heaps.left_out,
        };
        print(&(serde_json::to_string_pretty(&data)? + "\n"))?;
    } else {
        print(&render(&snapshot, &heaps))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn render(snapshot: &Snapshot, heaps: &Heaps) -> String {
    let program = snapshot.program();
    let name = program.rsplit('/').next().unwrap_or_default();
    let who = format!("{name}, process {}", snapshot.pid());
    if heaps.list.is_empty() {
        return format!("{who}: it has no heaps (fh_heap_new)\n");
    }
    let table = lines(heaps, WIDTH, SHOWN).join("\n");
    format!(
        "{who}: {}\n\n{}\n{table}\n\n{LEGEND}\n",
        summary(heaps),
        headings(WIDTH)
    )
}
