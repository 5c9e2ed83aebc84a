//! Two profiles side by side: what changed, and by how much it could have changed by chance.

use std::collections::{HashMap, HashSet};

use profile_file::{Amount, Snapshot, View};
use serde::Serialize;

use crate::profile::group::{self, By, Group, Key};
use crate::profile::stacks::Stacks;

/// From so many standard deviations on a change is taken for certain: of 10,000 call sites that did not change, less
/// than one looks as if it had.
pub const CERTAIN: f64 = 4.0;
/// From so many on it is worth showing.
pub const LIKELY: f64 = 2.0;

/// What is to be thought of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Grew,
    ProbablyGrew,
    WithinError,
    ProbablyShrank,
    Shrank,
}

impl Verdict {
    pub fn of(change: f64, error: f64) -> Verdict {
        let sigmas = sigmas(change, error);
        match (sigmas.abs(), sigmas > 0.0) {
            (CERTAIN.., true) => Verdict::Grew,
            (CERTAIN.., false) => Verdict::Shrank,
            (LIKELY.., true) => Verdict::ProbablyGrew,
            (LIKELY.., false) => Verdict::ProbablyShrank,
            _ => Verdict::WithinError,
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Verdict::Grew => "grew",
            Verdict::ProbablyGrew => "grew?",
            Verdict::WithinError => "–",
            Verdict::ProbablyShrank => "shrank?",
            Verdict::Shrank => "shrank",
        }
    }
}

/// A change in standard deviations. Without an error any change is certain.
pub fn sigmas(change: f64, error: f64) -> f64 {
    if change == 0.0 {
        0.0
    } else if error > 0.0 {
        change / error
    } else {
        change.signum() * f64::INFINITY
    }
}

/// One group in both.
pub struct Change {
    pub key: Key,
    pub before: Amount,
    pub after: Amount,
    /// Of the change in bytes: less than that of both sums if blocks are in both.
    pub variance: f64,
}

impl Change {
    pub fn bytes(&self) -> f64 {
        self.after.bytes - self.before.bytes
    }

    pub fn blocks(&self) -> f64 {
        self.after.blocks - self.before.blocks
    }

    pub fn error(&self) -> f64 {
        self.variance.max(0.0).sqrt()
    }

    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.bytes(), self.error())
    }
}

/// A snapshot with its names.
pub struct Side<'a> {
    pub snapshot: &'a Snapshot,
    pub stacks: Stacks,
}

/// The two are of one process, so that they have blocks in common.
pub fn same_process(one: &Snapshot, two: &Snapshot) -> bool {
    let (a, b) = (&one.profile.header, &two.profile.header);
    (a.pid, a.process_start, a.begun_ns, a.begun_unix_ns)
        == (b.pid, b.process_start, b.begun_ns, b.begun_unix_ns)
}

/// All groups of either, those that changed most first; the whole is the first of the pair.
pub fn compare(before: &Side, after: &Side, by: By, view: View) -> (Change, Vec<Change>) {
    let common = same_process(before.snapshot, after.snapshot);
    let mut pairs: HashMap<Key, [Option<Group>; 2]> = HashMap::new();
    for (side, stacks) in [&before.stacks, &after.stacks].into_iter().enumerate() {
        for group in group::all(stacks, by) {
            let key = group.key.clone();
            pairs.entry(key).or_default()[side] = Some(group);
        }
    }
    let variances = common.then(|| Shared::of(before.snapshot, after.snapshot));
    let mut whole = Change {
        key: Key::default(),
        before: before.snapshot.total(view),
        after: after.snapshot.total(view),
        variance: 0.0,
    };
    let mut changes = Vec::with_capacity(pairs.len());
    for (key, [old, new]) in pairs {
        let amount = |group: &Option<Group>| {
            group
                .as_ref()
                .map_or_else(Amount::default, |g| g.amount(view))
        };
        let (was, is) = (amount(&old), amount(&new));
        let variance = match (&variances, view) {
            (Some(shared), View::Live) => {
                let sites = |side: &Side, group: &Option<Group>| -> Vec<u32> {
                    let entries = group.iter().flat_map(|g| &g.entries);
                    entries
                        .map(|&entry| side.snapshot.sites[entry].number)
                        .collect()
                };
                // A site's number is the same in both profile files of one process.
                let mut numbers: HashSet<u32> = sites(before, &old).into_iter().collect();
                numbers.extend(sites(after, &new));
                let sampled: f64 = numbers.iter().map(|number| shared.variance(*number)).sum();
                sampled + shared.lost * (was.bytes + is.bytes)
            }
            // What was counted before is counted in both, with the same luck.
            (Some(_), View::Allocated | View::Freed | View::ShortLived) => {
                (is.variance - was.variance).abs()
            }
            _ => was.variance + is.variance,
        };
        whole.variance += variance;
        if !(was.is_zero() && is.is_zero()) {
            changes.push(Change {
                key,
                before: was,
                after: is,
                variance,
            });
        }
    }
    changes.sort_by(|a, b| {
        let order = b.bytes().abs().total_cmp(&a.bytes().abs());
        order.then_with(|| a.key.cmp(&b.key))
    });
    (whole, changes)
}

/// Variances of the change in live bytes, by site: of samples that are only in one of the two. Those in both count the
/// same in both, so nothing about them is uncertain.
struct Shared {
    by_site: HashMap<u32, f64>,
    /// What samples that were lost between the two add to it, by live bytes in either.
    lost: f64,
}

impl Shared {
    fn of(before: &Snapshot, after: &Snapshot) -> Shared {
        let names = |snapshot: &Snapshot| -> HashSet<(u64, u64)> {
            snapshot
                .samples
                .iter()
                .map(|sample| (sample.address, sample.born_ns))
                .collect()
        };
        let (old, new) = (names(before), names(after));
        let mut by_site: HashMap<u32, f64> = HashMap::new();
        for (snapshot, other) in [(before, &new), (after, &old)] {
            for sample in &snapshot.samples {
                if !other.contains(&(sample.address, sample.born_ns)) {
                    *by_site.entry(sample.site).or_default() += sample.weight.variance;
                }
            }
        }
        Shared {
            by_site,
            lost: lost_between(before, after),
        }
    }

    fn variance(&self, site: u32) -> f64 {
        self.by_site.get(&site).copied().unwrap_or(0.0)
    }
}

/// Blocks whose samples were lost may have come and gone between the two, at any site. What both miss, neither has.
fn lost_between(before: &Snapshot, after: &Snapshot) -> f64 {
    let (old, new) = (before.missing(), after.missing());
    let change = (new.allocated - old.allocated)
        .abs()
        .max((new.live - old.live).abs())
        .max((new.freed - old.freed).abs());
    let whole = before.total(View::Live).bytes + after.total(View::Live).bytes;
    if whole > 0.0 {
        change * change / whole
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_judged_by_its_error() {
        assert_eq!(Verdict::of(0.0, 0.0), Verdict::WithinError);
        assert_eq!(Verdict::of(1.0, 0.0), Verdict::Grew);
        assert_eq!(Verdict::of(-1.0, 0.0), Verdict::Shrank);
        assert_eq!(Verdict::of(30.0, 10.0), Verdict::ProbablyGrew);
        assert_eq!(Verdict::of(-40.0, 10.0), Verdict::Shrank);
        assert_eq!(Verdict::of(19.0, 10.0), Verdict::WithinError);
    }
}
