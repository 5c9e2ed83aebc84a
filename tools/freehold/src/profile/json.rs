//! The profile for programs.

use profile_file::{Amount, Concern, Snapshot, View};
use serde::Serialize;

use super::group::{By, Group, Key};
use super::stacks::Stacks;

/// An amount; `error` is one standard deviation of `bytes`.
#[derive(Serialize)]
pub struct Statistics {
    pub bytes: f64,
    pub error: f64,
    pub blocks: f64,
    pub samples: u64,
}

impl From<Amount> for Statistics {
    fn from(amount: Amount) -> Self {
        Statistics {
            bytes: amount.bytes,
            error: amount.error(),
            blocks: amount.blocks,
            samples: amount.samples,
        }
    }
}

/// One amount for each view.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Views {
    live: Statistics,
    allocated: Statistics,
    freed: Statistics,
    peak: Statistics,
    short_lived: Statistics,
}

impl Views {
    pub fn of(amount: impl Fn(View) -> Amount) -> Views {
        Views {
            live: amount(View::Live).into(),
            allocated: amount(View::Allocated).into(),
            freed: amount(View::Freed).into(),
            peak: amount(View::Peak).into(),
            short_lived: amount(View::ShortLived).into(),
        }
    }
}

/// Which program, and how its profile file was read.
#[derive(Serialize)]
pub struct About {
    program: String,
    pid: u64,
    alive: bool,
    ended_by_itself: bool,
    library_version: String,
    running_seconds: f64,
    read_unix_ns: u64,
    interval: u64,
    exact: bool,
    samples: u64,
}

impl About {
    pub fn of(snapshot: &Snapshot) -> About {
        About {
            program: snapshot.program(),
            pid: snapshot.pid(),
            alive: snapshot.is_alive(),
            ended_by_itself: snapshot.ended_by_itself(),
            library_version: snapshot.version(),
            running_seconds: snapshot.running_ns() as f64 / 1e9,
            read_unix_ns: snapshot.reading.unix_ns,
            interval: snapshot.interval(),
            exact: snapshot.is_exact(),
            samples: snapshot.profile.control.taken,
        }
    }
}

#[derive(Serialize)]
pub struct Note {
    concern: Concern,
    text: String,
}

/// What was odd.
pub fn notes(snapshot: &Snapshot, names: &[String]) -> Vec<Note> {
    let profile = snapshot.warnings.iter().map(|w| Note {
        concern: w.concern,
        text: w.text.clone(),
    });
    let names = names.iter().map(|text| Note {
        concern: Concern::Incomplete,
        text: text.clone(),
    });
    profile.chain(names).collect()
}

#[derive(Serialize)]
struct GroupOut<'a> {
    #[serde(flatten)]
    key: &'a Key,
    share: f64,
    #[serde(flatten)]
    views: Views,
}

#[derive(Serialize)]
struct ProfileOut<'a> {
    about: About,
    view: View,
    by: By,
    #[serde(skip_serializing_if = "Option::is_none")]
    why_empty: Option<String>,
    totals: Views,
    groups: Vec<GroupOut<'a>>,
    left_out: usize,
    /// Functions that no site is named after.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<String>,
    notes: Vec<Note>,
}

/// The whole answer.
pub fn report(
    snapshot: &Snapshot,
    stacks: &Stacks,
    groups: &[Group],
    view: View,
    by: By,
    most: usize,
) -> serde_json::Result<String> {
    let total = snapshot.total(view).bytes;
    let out = ProfileOut {
        about: About::of(snapshot),
        view,
        by,
        why_empty: snapshot.why_empty(),
        totals: Views::of(|view| snapshot.total(view)),
        groups: groups
            .iter()
            .take(most)
            .map(|group| GroupOut {
                key: &group.key,
                share: if total > 0.0 {
                    group.amount(view).bytes / total
                } else {
                    0.0
                },
                views: Views::of(|view| group.amount(view)),
            })
            .collect(),
        left_out: groups.len().saturating_sub(most),
        skipped: stacks.skipped.sentence(),
        notes: notes(snapshot, &stacks.warnings),
    };
    serde_json::to_string_pretty(&out)
}
