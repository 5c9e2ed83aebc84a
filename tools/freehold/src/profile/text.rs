//! The top list as a person reads it.

use profile_file::{Amount, Snapshot, View, human};

use super::group::Group;
use super::stacks::Stacks;
use crate::wording;

/// How many frames of the biggest stack `--stacks` shows.
const MOST_FRAMES: usize = 12;

/// Columns, each as wide as its widest cell; all but the last to the right.
pub struct Table {
    rows: Vec<Vec<String>>,
    /// What follows a row, indented.
    below: Vec<Vec<String>>,
}

impl Table {
    pub fn new(head: &[&str]) -> Table {
        Table {
            rows: vec![head.iter().map(|word| (*word).to_owned()).collect()],
            below: vec![Vec::new()],
        }
    }

    pub fn row(&mut self, cells: Vec<String>, below: Vec<String>) {
        self.rows.push(cells);
        self.below.push(below);
    }

    pub fn text(&self) -> String {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            self.rows
                .iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let indent: usize = widths[..columns - 1].iter().sum::<usize>() + 2 * columns;
        let mut text = String::new();
        for (row, below) in self.rows.iter().zip(&self.below) {
            for (cell, width) in row.iter().zip(&widths).take(columns - 1) {
                text.push_str(&format!("  {cell:>width$}"));
            }
            text.push_str(&format!("  {}", row[columns - 1]));
            text.push('\n');
            for line in below {
                text.push_str(&format!("{:indent$}{line}\n", ""));
            }
        }
        text
    }
}

/// Who, since when, how exact.
pub fn heading(snapshot: &Snapshot) -> String {
    let program = snapshot.program();
    let name = program.rsplit('/').next().unwrap_or(&program);
    format!("{name} ({}\n", about(snapshot).replacen(',', "),", 1))
}

/// The heading without the program's name.
pub fn about(snapshot: &Snapshot) -> String {
    let state = if snapshot.is_alive() {
        "running for"
    } else if snapshot.ended_by_itself() {
        "ended after"
    } else if snapshot.was_killed() {
        "killed (or crashed) after"
    } else {
        "ended or killed after"
    };
    let control = &snapshot.profile.control;
    let exactness = wording::sampling(control.interval);
    format!(
        "pid {}, {state} {} · {exactness} · {} samples",
        snapshot.pid(),
        human::duration(snapshot.running_ns()),
        human::count(control.taken as f64),
    )
}

/// An amount with its error, if it has one.
pub fn amount(amount: Amount) -> String {
    human::estimate(amount.bytes, amount.error())
}

/// What a view's blocks are.
pub fn describe(view: View) -> &'static str {
    match view {
        View::Live => "Live blocks",
        View::Allocated => "All blocks since the beginning",
        View::Freed => "Freed blocks",
        View::Peak => "Blocks that lived at the peak",
        View::ShortLived => "Blocks freed within a millisecond",
    }
}

/// The whole answer.
pub fn report(
    snapshot: &Snapshot,
    stacks: &Stacks,
    groups: &[Group],
    view: View,
    most: usize,
    with_stacks: bool,
) -> String {
    let mut text = heading(snapshot);
    if let Some(reason) = snapshot.why_empty() {
        text.push_str(&format!("{reason}.\n"));
        return text;
    }
    let total = snapshot.total(view);
    text.push_str(&format!(
        "{}: {} in {}\n",
        describe(view),
        amount(total),
        wording::blocks(&human::count(total.blocks))
    ));
    let others: Vec<String> = View::ALL
        .iter()
        .filter(|other| **other != view)
        .map(|other| {
            format!(
                "{} {}",
                other.name(),
                human::bytes(snapshot.total(*other).bytes)
            )
        })
        .collect();
    text.push_str(&format!("(of the others: {})\n\n", others.join(", ")));
    if groups.is_empty() {
        text.push_str(&format!(
            "No sample is {}: see the other views above.\n",
            view.name()
        ));
        return text;
    }
    let mut table = Table::new(&["bytes", "±", "share", "blocks", "where"]);
    for group in groups.iter().take(most) {
        let sum = group.amount(view);
        let error = sum.error();
        table.row(
            vec![
                human::bytes(sum.bytes),
                if error == 0.0 {
                    "exact".to_owned()
                } else {
                    human::bytes(error)
                },
                human::share(sum.bytes, total.bytes),
                human::count(sum.blocks),
                group.key.text(),
            ],
            if with_stacks {
                biggest_stack(stacks, group, view)
            } else {
                Vec::new()
            },
        );
    }
    text.push_str(&table.text());
    if groups.len() > most {
        let rest: f64 = groups[most..]
            .iter()
            .map(|group| group.amount(view).bytes)
            .sum();
        text.push_str(&format!(
            "  … and {} more with {} together (-n shows more)\n",
            groups.len() - most,
            human::bytes(rest)
        ));
    }
    text
}

/// The stack of the group's entry that has most, from the named function outwards.
fn biggest_stack(stacks: &Stacks, group: &Group, view: View) -> Vec<String> {
    let biggest = group
        .entries
        .iter()
        .map(|&number| &stacks.entries[number])
        .max_by(|a, b| a.amount(view).bytes.total_cmp(&b.amount(view).bytes));
    let Some(entry) = biggest else {
        return Vec::new();
    };
    let begin = entry.culprit.map_or(0, |place| place + 1);
    let mut lines: Vec<String> = entry.frames[begin..]
        .iter()
        .take(MOST_FRAMES)
        .map(|&place| {
            let frame = &stacks.frames[place];
            let place = frame
                .short_place()
                .unwrap_or_else(|| frame.module_name().to_owned());
            format!("← {}  {place}", frame.function)
        })
        .collect();
    if entry.frames.len() - begin > MOST_FRAMES {
        lines.push(format!(
            "← … {} more",
            entry.frames.len() - begin - MOST_FRAMES
        ));
    } else if entry.cut {
        lines.push("← … (the walk ended here)".to_owned());
    }
    lines
}
