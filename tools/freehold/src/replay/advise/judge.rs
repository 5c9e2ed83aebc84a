//! Whether a difference is one: pure arithmetic on the runs of two contenders that ran in turn.

use serde::Serialize;

use super::super::median;
use super::super::process::Run;
use crate::wording::bytes;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    Wall,
    Cpu,
    Peak,
    Mean,
    End,
}

pub const MEASURES: [Measure; 5] = [
    Measure::Wall,
    Measure::Cpu,
    Measure::Peak,
    Measure::Mean,
    Measure::End,
];

/// Below this part of the figure nobody changes an option for it.
const LEAST_PART: f64 = 0.02;
/// A process that starts takes other times by as much.
const LEAST_NS: f64 = 1e6;
/// The kernel's count of resident pages may be behind by 64 pages for each CPU.
const LEAST_BYTES: f64 = 512.0 * 1024.0;

impl Measure {
    pub fn of(self, run: &Run) -> f64 {
        match self {
            Self::Wall => run.ns as f64,
            Self::Cpu => run.cpu_ns as f64,
            Self::Peak => run.peak_rss() as f64,
            Self::End => run.after.saturating_sub(run.before) as f64,
            Self::Mean => {
                let above = |point: &(u64, u64)| point.1.saturating_sub(run.before) as f64;
                run.points.iter().map(above).sum::<f64>() / run.points.len().max(1) as f64
            }
        }
    }

    pub fn median(self, runs: &[Run]) -> f64 {
        median(runs.iter().map(|run| self.of(run)).collect())
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall time",
            Self::Cpu => "CPU time",
            Self::Peak => "peak RSS",
            Self::Mean => "mean RSS",
            Self::End => "RSS at the end",
        }
    }

    fn least(self) -> f64 {
        match self {
            Self::Wall | Self::Cpu => LEAST_NS,
            Self::Peak | Self::Mean | Self::End => LEAST_BYTES,
        }
    }

    pub fn written(self, value: f64) -> String {
        match self {
            Self::Wall | Self::Cpu => format!("{:.1} ms", value / 1e6),
            Self::Peak | Self::Mean | Self::End => bytes(value),
        }
    }
}

/// How a measure differs from what it is compared with. Nanoseconds or bytes; less is better in all of them.
#[derive(Debug, Clone, Serialize)]
pub struct Effect {
    pub measure: Measure,
    /// The medians of both.
    pub from: f64,
    pub to: f64,
    /// The differences of the two runs of each round: the median one, the least and the greatest.
    pub change: f64,
    pub low: f64,
    pub high: f64,
    /// The largest difference between two that are the same: what chance does.
    pub chance: f64,
    /// It has the same sign in each round, is beyond what chance does, and is large enough to matter.
    pub stands_out: bool,
}

impl Effect {
    pub fn saves(&self) -> bool {
        self.stands_out && self.change < 0.0
    }

    pub fn costs(&self) -> bool {
        self.stands_out && self.change > 0.0
    }

    /// 3.1 MiB of the peak RSS (12 %; 11 to 13 %)
    pub fn written(&self) -> String {
        let (near, far) = if self.change < 0.0 {
            (-self.high, -self.low)
        } else {
            (self.low, self.high)
        };
        let amount = self.measure.written(self.change.abs());
        let name = self.measure.name();
        if self.from < self.measure.least() {
            let (near, far) = (self.measure.written(near), self.measure.written(far));
            return format!("{amount} of the {name} ({near} to {far})");
        }
        let part = |value: f64| 100.0 * value / self.from;
        let (middle, near, far) = (part(self.change.abs()), part(near), part(far));
        format!("{amount} of the {name} ({middle:.0} %; {near:.0} to {far:.0} %)")
    }
}

/// The differences of the two runs of each round.
fn differences(measure: Measure, one: &[Run], two: &[Run]) -> Vec<f64> {
    let pairs = one.iter().zip(two);
    pairs
        .map(|(one, two)| measure.of(two) - measure.of(one))
        .collect()
}

/// The largest difference between two that are the same.
pub fn chance(measure: Measure, base: &[Run], again: &[Run]) -> f64 {
    differences(measure, base, again)
        .iter()
        .fold(0.0, |most: f64, one| most.max(one.abs()))
}

/// The runs of each are in the order of the rounds.
pub fn compare(measure: Measure, base: &[Run], chance: f64, other: &[Run]) -> Effect {
    let all = differences(measure, base, other);
    let low = all.iter().copied().fold(f64::INFINITY, f64::min);
    let high = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (from, change) = (measure.median(base), median(all));
    let enough = change.abs() > chance
        && change.abs() >= from * LEAST_PART
        && change.abs() >= measure.least();
    Effect {
        measure,
        from,
        to: measure.median(other),
        change,
        low,
        high,
        chance,
        stands_out: low * high > 0.0 && enough,
    }
}

/// `again` are more runs of `base`.
pub fn compare_all(base: &[Run], again: &[Run], other: &[Run]) -> Vec<Effect> {
    MEASURES
        .map(|measure| compare(measure, base, chance(measure, base, again), other))
        .to_vec()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Runs that took these milliseconds, with so many MiB at the end.
    pub fn runs(ms: &[u64], end: u64) -> Vec<Run> {
        ms.iter()
            .map(|ms| Run {
                ns: ms * 1_000_000,
                cpu_ns: ms * 1_000_000,
                calls: 1,
                bytes: 1,
                failed: 0,
                wrong: 0,
                peak_live: 1,
                peak: 100 << 20,
                before: 1 << 20,
                after: (end + 1) << 20,
                worst: 1,
                addresses: 0,
                points: vec![(0, 1 << 20), (1, 41 << 20)],
                times: Vec::new(),
            })
            .collect()
    }

    fn compare(measure: Measure, base: &[Run], again: &[Run], other: &[Run]) -> Effect {
        super::compare(measure, base, chance(measure, base, again), other)
    }

    #[test]
    fn a_difference_in_every_round_stands_out() {
        let (base, again) = (runs(&[100, 103, 99], 9), runs(&[101, 101, 102], 9));
        let faster = compare(Measure::Cpu, &base, &again, &runs(&[80, 84, 78], 9));
        assert!(faster.saves() && !faster.costs());
        assert_eq!(
            faster.written(),
            "20.0 ms of the CPU time (20 %; 19 to 21 %)"
        );
        let slower = compare(Measure::Cpu, &base, &again, &runs(&[120, 120, 120], 9));
        assert!(slower.costs());
    }

    #[test]
    fn one_round_that_says_otherwise_is_enough_against_it() {
        let (base, again) = (runs(&[100, 100, 100], 9), runs(&[100, 100, 100], 9));
        let mixed = compare(Measure::Cpu, &base, &again, &runs(&[50, 50, 101], 9));
        assert!(!mixed.stands_out);
    }

    #[test]
    fn what_chance_does_as_well_does_not_stand_out() {
        let (base, again) = (runs(&[100, 100, 100], 9), runs(&[100, 130, 100], 9));
        let smaller = compare(Measure::Cpu, &base, &again, &runs(&[80, 80, 80], 9));
        assert!(!smaller.stands_out);
    }

    #[test]
    fn what_is_too_small_to_matter_does_not_stand_out() {
        let base = runs(&[100, 100, 100], 9);
        assert!(!compare(Measure::Cpu, &base, &base, &runs(&[99, 99, 99], 9)).stands_out);
        let base = runs(&[2, 2, 2], 9);
        let mut faster = runs(&[1, 1, 1], 9);
        assert!(compare(Measure::Wall, &base, &base, &faster).stands_out);
        for run in &mut faster {
            run.ns += 1;
        }
        assert!(!compare(Measure::Wall, &base, &base, &faster).stands_out);
    }

    #[test]
    fn a_share_of_nothing_is_not_written() {
        let base = runs(&[1, 1, 1], 0);
        let more = compare(Measure::End, &base, &base, &runs(&[1, 1, 1], 8));
        assert_eq!(
            more.written(),
            "8.0 MiB of the RSS at the end (8.0 MiB to 8.0 MiB)"
        );
    }

    #[test]
    fn the_mean_is_of_the_curve_above_its_beginning() {
        assert_eq!(Measure::Mean.of(&runs(&[1], 0)[0]), f64::from(20u32 << 20));
    }
}
