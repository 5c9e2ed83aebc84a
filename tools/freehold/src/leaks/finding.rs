//! What is found out about each call site of a snapshot: how much lives, since when, whether it is a leak.

use std::collections::HashMap;

use profile_file::{Naming, Skipped, Snapshot, Symbols, View};
use serde::Serialize;

use super::reachability::{Reach, Scan};
use super::suppressions::Suppressions;
use super::verdict::{Doubt, Growth, History, LiveSample, Rules, Verdict, judge};
use super::watch::{Series, Watch};
use crate::call_site::{CallSite, FrameData};
use crate::explain::sites;
use crate::wording::plural;

/// A call site with its verdict. Amounts are estimates in bytes, times are seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub site: u32,
    pub verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    pub function: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    pub live_bytes: f64,
    pub live_error: f64,
    pub live_blocks: f64,
    pub live_samples: usize,
    pub allocated_bytes: f64,
    pub freed_bytes: f64,
    /// The ages of the live samples.
    pub median_age: f64,
    pub oldest_age: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth: Option<GrowthData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched: Option<Series>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reach: Option<Reach>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppressed_by: Option<String>,
    pub stack: Vec<FrameData>,
    #[serde(skip)]
    pub call_site: CallSite,
}

/// [`Growth`], in words that need no other field.
#[derive(Clone, Debug, Serialize)]
pub struct GrowthData {
    pub bytes: f64,
    pub error: f64,
    pub sigma: f64,
    pub seconds: f64,
    pub bytes_per_second: f64,
    pub bytes_per_second_error: f64,
    pub old_from: f64,
    pub old_alive: f64,
    pub survivors: usize,
    /// Seconds until the tightest limit is reached at this rate, if there is one: soonest and latest by the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_limit: Option<(f64, f64)>,
}

/// Blocks of closed epochs that are alive two marks later.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Kept {
    pub bytes: f64,
    pub error: f64,
    pub samples: usize,
    /// Epochs that are two marks old, and how many of them left something.
    pub epochs: u64,
    pub epochs_that_left: u64,
}

impl Finding {
    /// Something that a person should look at, for whatever reason.
    pub fn is_suspect(&self) -> bool {
        self.verdict == Verdict::LikelyLeak || self.has_unreachable() || self.is_kept()
    }

    /// Each epoch that is old enough left something behind.
    pub fn is_kept(&self) -> bool {
        self.kept
            .is_some_and(|kept| kept.epochs_that_left == kept.epochs && kept.samples >= 3)
    }

    pub fn has_unreachable(&self) -> bool {
        self.reach
            .is_some_and(|reach| reach.unreachable_bytes > 0.0)
    }
}

/// A limit of memory, and how much of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limit {
    pub what: &'static str,
    pub bytes: u64,
    pub used: u64,
}

impl Limit {
    /// The limit that will be met first.
    pub fn tightest(snapshot: &Snapshot) -> Option<Limit> {
        let statistics = snapshot.profile.statistics.as_ref()?;
        [
            (
                "the container's limit",
                statistics.group_limit,
                statistics.group_used,
            ),
            (
                "the limit that was set",
                statistics.limit_hard,
                statistics.limit_in_use,
            ),
        ]
        .into_iter()
        .filter(|(_, bytes, _)| *bytes > 0 && *bytes < 1 << 60)
        .map(|(what, bytes, used)| Limit { what, bytes, used })
        .min_by_key(|limit| limit.bytes.saturating_sub(limit.used))
    }

    /// Seconds until it is reached, with a rate and its error of two sigma.
    fn reached_in(&self, rate: f64, error: f64) -> Option<(f64, f64)> {
        let left = self.bytes.saturating_sub(self.used) as f64;
        let slow = rate - 2.0 * error;
        (slow > 0.0).then(|| (left / (rate + 2.0 * error), left / slow))
    }
}

/// Everything about one snapshot, the biggest growth first. What made names missing is in `symbols` then.
pub fn examine(
    snapshot: &Snapshot,
    symbols: &mut Symbols,
    watch: Option<&Watch>,
    scan: Option<&Scan>,
    suppressions: &Suppressions,
    rules: &Rules,
) -> Vec<Finding> {
    let mut samples: HashMap<u32, Vec<&profile_file::LiveSample>> = HashMap::new();
    for sample in &snapshot.samples {
        samples.entry(sample.site).or_default().push(sample);
    }
    let limit = Limit::tightest(snapshot);
    let lost = snapshot.missing().share;
    let mut found: Vec<Finding> = snapshot
        .sites
        .iter()
        .map(|site| {
            let samples = samples.remove(&site.number).unwrap_or_default();
            let history = history(snapshot, site, &samples);
            let judgement = judge(&history, snapshot.now_ns(), rules).with_lost(lost);
            let call_site = CallSite::of(snapshot, symbols, site.node);
            let mut ages: Vec<u64> = samples.iter().map(|s| s.age_ns).collect();
            ages.sort_unstable();
            let age = |place: Option<&u64>| place.map_or(0.0, |ns| *ns as f64 / 1e9);
            Finding {
                site: site.number,
                verdict: judgement.verdict,
                doubt: judgement.doubt,
                function: call_site.function().to_owned(),
                place: call_site.place(),
                live_bytes: site.live.bytes,
                live_error: site.live.error(),
                live_blocks: site.live.blocks,
                live_samples: samples.len(),
                allocated_bytes: site.amount(View::Allocated).bytes,
                freed_bytes: site.freed.bytes,
                median_age: age(ages.get(ages.len() / 2)),
                oldest_age: age(ages.last()),
                growth: judgement.growth.map(|g| growth_data(&g, limit)),
                watched: watch.and_then(|watch| watch.of_site(site.number)),
                kept: kept(snapshot.profile.control.mark, &samples),
                reach: scan.and_then(|scan| scan.of_samples(&samples)),
                suppressed_by: suppressions.matching(&call_site.frames).map(str::to_owned),
                stack: call_site.data(),
                call_site,
            }
        })
        .collect();
    found.sort_by(|a, b| {
        let rank = |f: &Finding| (f.suppressed_by.is_some(), f.verdict, !f.is_suspect());
        rank(a)
            .cmp(&rank(b))
            .then(weight(b).total_cmp(&weight(a)))
            .then(a.site.cmp(&b.site))
    });
    found
}

/// The likely leaks of a snapshot, the fastest first: what [`examine`] finds, without the names.
pub fn likely(snapshot: &Snapshot) -> Vec<(u32, Growth)> {
    let mut samples: HashMap<u32, Vec<&profile_file::LiveSample>> = HashMap::new();
    for sample in &snapshot.samples {
        samples.entry(sample.site).or_default().push(sample);
    }
    let rules = Rules::default();
    let mut found: Vec<(u32, Growth)> = snapshot
        .sites
        .iter()
        .filter_map(|site| {
            let samples = samples.remove(&site.number)?;
            let judgement = judge(
                &history(snapshot, site, &samples),
                snapshot.now_ns(),
                &rules,
            );
            let growth = judgement
                .growth
                .filter(|_| judgement.verdict == Verdict::LikelyLeak)?;
            Some((site.number, growth))
        })
        .collect();
    found.sort_by(|a, b| b.1.rate().0.total_cmp(&a.1.rate().0));
    found
}

/// Which functions these sites are not named after, in a sentence.
pub fn skipped<'a>(
    findings: impl IntoIterator<Item = &'a Finding>,
    naming: &Naming,
) -> Option<String> {
    let mut skipped = Skipped::default();
    for finding in findings {
        finding.call_site.add_skipped(&mut skipped, naming);
    }
    skipped.sentence()
}

/// All likely leaks together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Leaking {
    /// The fastest.
    pub site: String,
    pub sites: usize,
    pub bytes_per_second: f64,
    pub bytes_per_second_error: f64,
    /// Of the fastest.
    pub seconds: f64,
}

impl Leaking {
    pub fn of(snapshot: &Snapshot, symbols: &mut Symbols) -> Option<Leaking> {
        let found = likely(snapshot);
        let (number, growth) = found.first()?;
        let variance: f64 = found.iter().map(|(_, g)| g.rate().1.powi(2)).sum();
        Some(Leaking {
            site: sites::name(snapshot, symbols, *number)
                .unwrap_or_else(|| "a place without a stack".to_owned()),
            sites: found.len(),
            bytes_per_second: found.iter().map(|(_, g)| g.rate().0).sum(),
            bytes_per_second_error: variance.sqrt(),
            seconds: growth.seconds(),
        })
    }

    /// session_new (server.c:120) and 2 more sites
    pub fn who(&self) -> String {
        match self.sites {
            1 => self.site.clone(),
            n => format!(
                "{} and {}",
                self.site,
                plural(n - 1, "more site", "more sites")
            ),
        }
    }
}

/// What a finding is worth among those of the same verdict.
fn weight(finding: &Finding) -> f64 {
    match (&finding.verdict, &finding.growth) {
        (Verdict::LikelyLeak | Verdict::Growing, Some(growth)) => growth.bytes_per_second,
        _ => finding.live_bytes,
    }
}

pub fn history(
    snapshot: &Snapshot,
    site: &profile_file::Site,
    samples: &[&profile_file::LiveSample],
) -> History {
    History {
        begun_ns: snapshot.process_begun_ns(),
        live: samples
            .iter()
            .map(|sample| LiveSample {
                born_ns: sample.born_ns,
                weight: sample.weight.bytes,
            })
            .collect(),
        freed_at_age: site.freed_at_age,
        mean_weight: site.allocated.bytes / (site.allocated.samples.max(1) as f64),
        first_ns: site.first_ns,
    }
}

fn growth_data(growth: &Growth, limit: Option<Limit>) -> GrowthData {
    let (rate, error) = growth.rate();
    GrowthData {
        bytes: growth.bytes,
        error: growth.error,
        sigma: growth.sigma(),
        seconds: growth.seconds(),
        bytes_per_second: rate,
        bytes_per_second_error: error,
        old_from: growth.age_ns as f64 / 1e9,
        old_alive: growth.survival,
        survivors: growth.survivors,
        until_limit: limit.and_then(|limit| limit.reached_in(rate, error)),
    }
}

/// Marks: epoch 0 is before the first mark, when programs set themselves up, and is no leak.
fn kept(mark: u64, samples: &[&profile_file::LiveSample]) -> Option<Kept> {
    let old_enough = 1..mark.checked_sub(1)?;
    if old_enough.is_empty() {
        return None;
    }
    let mut kept = Kept {
        epochs: old_enough.end - old_enough.start,
        ..Kept::default()
    };
    let mut variance = 0.0;
    let mut epochs: Vec<u64> = Vec::new();
    for sample in samples.iter().filter(|s| old_enough.contains(&s.mark)) {
        kept.bytes += sample.weight.bytes;
        variance += sample.weight.variance;
        kept.samples += 1;
        epochs.push(sample.mark);
    }
    epochs.sort_unstable();
    epochs.dedup();
    kept.error = variance.sqrt();
    kept.epochs_that_left = epochs.len() as u64;
    (kept.samples > 0).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile_file::testing::{BEGUN_NS, ProfileBuilder};

    const SECOND: u64 = 1_000_000_000;

    fn examine_plain(profile: &ProfileBuilder) -> Vec<Finding> {
        let snapshot = profile.snapshot();
        examine(
            &snapshot,
            &mut Symbols::new(&snapshot),
            None,
            None,
            &Suppressions::default(),
            &Rules::default(),
        )
    }

    #[test]
    fn a_leak_comes_first_with_its_rate_and_the_time_that_is_left() {
        let mut profile = ProfileBuilder::new(512 << 10);
        let (leak, steady) = (profile.site(&[1, 9]), profile.site(&[2, 9]));
        for second in 0..100 {
            profile.allocate(leak, 1000, second * SECOND);
            let block = profile.allocate(steady, 4 << 20, second * SECOND);
            profile.free(block, 1000);
        }
        profile.statistics(|statistics| {
            statistics.group_limit = 1 << 30;
            statistics.group_used = 512 << 20;
        });
        // The last word of a program that was killed.
        profile.point(100 * SECOND, 1, 1);
        let found = examine_plain(&profile);
        assert_eq!(
            (found[0].site, found[0].verdict),
            (leak, Verdict::LikelyLeak)
        );
        let growth = found[0].growth.as_ref().unwrap();
        assert!((growth.bytes_per_second / 524_788.0 - 1.0).abs() < 0.05);
        // Half a GiB at half a MiB a second: a thousand seconds, and the error of a hundred samples.
        let (soon, late) = growth.until_limit.unwrap();
        assert!(soon < 1023.0 && 1023.0 < late && soon > 700.0 && late < 1500.0);
        assert_eq!(found[1].verdict, Verdict::Steady);
    }

    #[test]
    fn a_program_is_as_old_as_its_process_and_not_as_its_first_block() {
        let verdict = |seconds_before: u64| {
            let mut profile = ProfileBuilder::new(64 << 10);
            let site = profile.site(&[1]);
            for tenth in 0..60 {
                profile.allocate(site, 1000, tenth * SECOND / 10);
            }
            let ticks =
                (BEGUN_NS / SECOND - seconds_before) * rustix::param::clock_ticks_per_second();
            profile.change(|profile| profile.header.process_start = ticks);
            let found = examine_plain(&profile);
            (found[0].verdict, found[0].doubt)
        };
        assert_eq!(verdict(1), (Verdict::LikelyLeak, None));
        assert_eq!(verdict(10), (Verdict::Growing, Some(Doubt::TooShort)));
    }

    #[test]
    fn what_outlives_two_marks_in_every_epoch_is_kept() {
        let mut profile = ProfileBuilder::new(512 << 10);
        let site = profile.site(&[1]);
        let other = profile.site(&[2]);
        profile.allocate(site, 100, 0);
        for mark in 1..=5 {
            profile.change(|profile| profile.control.mark = mark);
            profile.allocate(site, 100, mark * SECOND);
            if mark == 4 {
                profile.allocate(other, 100, mark * SECOND);
            }
        }
        let found = examine_plain(&profile);
        let of = |number| found.iter().find(|f| f.site == number).unwrap();
        let kept = of(site).kept.unwrap();
        assert_eq!(
            (kept.epochs, kept.epochs_that_left, kept.samples),
            (3, 3, 3)
        );
        assert!(of(site).is_kept() && of(site).is_suspect());
        assert!(of(other).kept.is_none(), "two marks have not passed yet");
    }
}
