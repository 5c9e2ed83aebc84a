//! The rows of the list: one for each line of the program that allocates, with all stacks that lead to it.

use std::cmp::Ordering;
use std::collections::HashMap;

use profile_file::{Amount, Frame, layout};

use super::model::Sort;
use crate::call_site::CallSite;
use crate::explain::sites::line_of;
use crate::leaks::verdict::{Judgement, Verdict};

/// A call site: one stack, and what is known of it.
#[derive(Clone, Debug)]
pub struct Stack {
    pub site: u32,
    pub call_site: CallSite,
    pub live: Amount,
    /// Allocated bytes a second since the last snapshot.
    pub rate: f64,
    /// Live bytes less those of the baseline.
    pub change: Option<f64>,
    /// Of the live samples, in nanoseconds.
    pub ages: Vec<u64>,
    /// Live bytes at each look, the last at the end.
    pub curve: Vec<f64>,
    pub freed_at_age: [f64; layout::AGES],
    pub allocated: Amount,
    pub freed: Amount,
    pub judgement: Judgement,
}

impl Stack {
    /// Is this text, in small letters, in one of its frames?
    fn has(&self, wanted: &str) -> bool {
        self.call_site.frames.iter().any(|frame| {
            frame.function.to_lowercase().contains(wanted)
                || frame
                    .place()
                    .is_some_and(|place| place.to_lowercase().contains(wanted))
                || frame.module.to_lowercase().contains(wanted)
        })
    }
}

/// A line of the program, with the sums over its stacks.
#[derive(Clone, Debug)]
pub struct Row {
    /// The largest first.
    pub stacks: Vec<Stack>,
    pub live: Amount,
    pub rate: f64,
    pub change: Option<f64>,
    /// Median age of the live samples, in seconds.
    pub age: Option<f64>,
    pub curve: Vec<f64>,
}

impl Row {
    fn of(mut stacks: Vec<Stack>) -> Row {
        stacks.sort_by(|a, b| {
            let order = b.live.bytes.total_cmp(&a.live.bytes);
            order.then(a.site.cmp(&b.site))
        });
        let mut ages: Vec<u64> = stacks
            .iter()
            .flat_map(|stack| &stack.ages)
            .copied()
            .collect();
        ages.sort_unstable();
        Row {
            live: stacks.iter().map(|stack| stack.live).sum(),
            rate: stacks.iter().map(|stack| stack.rate).sum(),
            change: stacks.iter().map(|stack| stack.change).sum(),
            age: ages.get(ages.len() / 2).map(|ns| *ns as f64 / 1e9),
            curve: sum_of_curves(&stacks),
            stacks,
        }
    }

    /// How the line is called: as its largest stack says.
    pub fn call_site(&self) -> &CallSite {
        &self.stacks[0].call_site
    }

    pub fn site(&self) -> u32 {
        self.stacks[0].site
    }

    pub fn has_site(&self, site: u32) -> bool {
        self.stacks.iter().any(|stack| stack.site == site)
    }

    /// The stack that leaks, if one does, as `leaks` judges each by itself; else the largest one.
    pub fn judged(&self) -> &Stack {
        let leak = |stack: &&Stack| stack.judgement.verdict == Verdict::LikelyLeak;
        self.stacks.iter().find(leak).unwrap_or(&self.stacks[0])
    }

    fn order(&self, other: &Row, sort: Sort) -> Ordering {
        let (a, b) = (self, other);
        let by = match sort {
            Sort::Live => b.live.bytes.total_cmp(&a.live.bytes),
            Sort::Rate => b.rate.total_cmp(&a.rate),
            Sort::Change => b.change.unwrap_or(0.0).total_cmp(&a.change.unwrap_or(0.0)),
            Sort::Age => b.age.unwrap_or(0.0).total_cmp(&a.age.unwrap_or(0.0)),
            Sort::Name => a.call_site().function().cmp(b.call_site().function()),
        };
        by.then(a.site().cmp(&b.site()))
    }
}

/// The curves end together; one that is shorter began later.
fn sum_of_curves(stacks: &[Stack]) -> Vec<f64> {
    let length = stacks.iter().map(|stack| stack.curve.len()).max();
    let mut sum = vec![0.0; length.unwrap_or(0)];
    for stack in stacks {
        for (all, one) in sum.iter_mut().rev().zip(stack.curve.iter().rev()) {
            *all += one;
        }
    }
    sum
}

/// The rows of those stacks that have the text of the filter in them.
pub fn rows(stacks: &[Stack], filter: &str, sort: Sort) -> Vec<Row> {
    let wanted = filter.to_lowercase();
    let mut lines: HashMap<Option<Frame>, Vec<Stack>> = HashMap::new();
    for stack in stacks
        .iter()
        .filter(|stack| wanted.is_empty() || stack.has(&wanted))
    {
        let line = stack.call_site.frame().cloned().map(line_of);
        lines.entry(line).or_default().push(stack.clone());
    }
    let mut rows: Vec<Row> = lines.into_values().map(Row::of).collect();
    rows.sort_by(|a, b| a.order(b, sort));
    rows
}
