//! Looks into a record: the values of a cell, ratios between two allocators, who is best.
//!
//! A cell is one workload under one allocator. A cell with any failed run has no figures at all: what crashed once in
//! five runs must not look like something that was fast in the other four.

use std::collections::HashMap;

use crate::record::{Allocator, Origin, Outcome, Record, Run, Workload};
use crate::statistics::{
    Noise, Ratio, Verdict, geometric_mean, median, minimum, paired_ratio, residual_noise, spread,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    Cpu,
    Wall,
    PeakRss,
    Faults,
}

/// How often the median of its fellow peers the reference has to need before its weakness, and not our strength, is
/// said to decide the row.
pub const WEAK: f64 = 3.0;

/// A peer is fast in a row if its CPU time there is at most this many times that of the fastest peer. Memory is easily saved by
/// one that asks the kernel for every block.
pub const FAST: f64 = 2.0;

impl Metric {
    pub fn of(self, run: &Run) -> f64 {
        match self {
            Self::Cpu => run.cpu,
            Self::Wall => run.wall,
            Self::PeakRss => run.peak_rss as f64,
            Self::Faults => (run.minor_faults + run.major_faults) as f64,
        }
    }

    /// Below this a value says more about the clock than about the program: the kernel accounts CPU time by
    /// its scheduler's ticks of some hundred microseconds.
    fn least(self) -> f64 {
        match self {
            Self::Cpu | Self::Wall => 0.005,
            Self::PeakRss => 0.0,
            // The start of a process costs a hundred or so, whatever its allocator does.
            Self::Faults => 50.0,
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Cpu => "CPU time",
            Self::Wall => "wall time",
            Self::PeakRss => "peak RSS",
            Self::Faults => "page faults",
        }
    }
}

pub struct Figures<'a> {
    pub record: &'a Record,
    /// By workload, then by allocator.
    cells: HashMap<&'a str, HashMap<&'a str, Vec<&'a Run>>>,
}

/// The summary of a cell for one metric.
#[derive(Debug, Clone, Copy)]
pub struct Summary {
    pub median: f64,
    pub minimum: f64,
    pub spread: f64,
}

impl<'a> Figures<'a> {
    pub fn new(record: &'a Record) -> Self {
        let mut cells: HashMap<&str, HashMap<&str, Vec<&Run>>> = HashMap::new();
        for run in &record.runs {
            cells
                .entry(&run.workload)
                .or_default()
                .entry(&run.allocator)
                .or_default()
                .push(run);
        }
        for runs in cells.values_mut().flat_map(HashMap::values_mut) {
            runs.sort_by_key(|run| run.round);
        }
        Self { record, cells }
    }

    pub fn runs(&self, workload: &str, allocator: &str) -> &[&'a Run] {
        self.cells
            .get(workload)
            .and_then(|row| row.get(allocator))
            .map_or(&[], Vec::as_slice)
    }

    /// The first failure of the cell, if there is one.
    pub fn failure(&self, workload: &str, allocator: &str) -> Option<&'a Outcome> {
        self.runs(workload, allocator)
            .iter()
            .map(|run| &run.outcome)
            .find(|outcome| !outcome.is_ok())
    }

    /// The good runs; none when the cell failed.
    fn good(&self, workload: &str, allocator: &str) -> &[&'a Run] {
        if self.failure(workload, allocator).is_some() {
            &[]
        } else {
            self.runs(workload, allocator)
        }
    }

    pub fn summary(&self, workload: &str, allocator: &str, metric: Metric) -> Option<Summary> {
        let values: Vec<f64> = self
            .good(workload, allocator)
            .iter()
            .map(|run| metric.of(run))
            .collect();
        Some(Summary {
            median: median(&values)?,
            minimum: minimum(&values)?,
            spread: spread(&values)?,
        })
    }

    /// How one allocator stands to another, over the rounds that both have. None when one has no figures, or the
    /// figures are too small to mean anything.
    pub fn ratio(&self, workload: &str, ours: &str, theirs: &str, metric: Metric) -> Option<Ratio> {
        let (mut numerators, mut denominators) = (Vec::new(), Vec::new());
        for run in self.good(workload, ours) {
            let other = self
                .good(workload, theirs)
                .iter()
                .find(|other| other.round == run.round);
            if let Some(other) = other {
                numerators.push(metric.of(run));
                denominators.push(metric.of(other));
            }
        }
        let smallest = median(&numerators)?.min(median(&denominators)?);
        if smallest < metric.least() {
            return None;
        }
        paired_ratio(&numerators, &denominators, self.noise(workload, metric))
    }

    /// What the whole group tells of the noise, over the rounds that all its allocators have.
    fn noise(&self, workload: &str, metric: Metric) -> Option<Noise> {
        let names = self.record.allocators.iter().map(|a| a.name.as_str());
        let rows: Vec<&[&Run]> = names
            .map(|name| self.good(workload, name))
            .filter(|runs| !runs.is_empty())
            .collect();
        let in_all = |round: usize| {
            rows.iter()
                .all(|runs| runs.iter().any(|run| run.round == round))
        };
        let common = |runs: &&[&Run]| -> Vec<f64> {
            runs.iter()
                .filter(|run| in_all(run.round))
                .map(|run| metric.of(run))
                .collect()
        };
        residual_noise(&rows.iter().map(common).collect::<Vec<_>>())
    }

    /// The peer with the lowest median. Ancestors and ours do not count, nor what was given by path.
    pub fn best_peer(&self, workload: &str, metric: Metric) -> Option<&'a Allocator> {
        self.peer_medians(workload, metric)
            .into_iter()
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(allocator, _)| allocator)
    }

    /// The peer with the lowest peak RSS of those that are fast in this row. Times below what can be told apart are all fast.
    pub fn leanest_fast_peer(&self, workload: &str) -> Option<&'a Allocator> {
        let times = self.peer_medians(workload, Metric::Cpu);
        let lowest = times.iter().map(|(_, time)| *time).min_by(f64::total_cmp)?;
        let most = FAST * lowest.max(Metric::Cpu.least());
        let is_fast = |peer: &Allocator| {
            let mut of_it = times.iter().filter(|(a, _)| a.name == peer.name);
            of_it.any(|(_, time)| *time <= most)
        };
        self.peer_medians(workload, Metric::PeakRss)
            .into_iter()
            .filter(|(peer, _)| is_fast(peer))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(allocator, _)| allocator)
    }

    fn peers(&self) -> impl Iterator<Item = &'a Allocator> {
        let is_peer =
            |a: &&Allocator| matches!(a.origin, Origin::Peer | Origin::System | Origin::Package);
        self.record.allocators.iter().filter(is_peer)
    }

    fn peer_medians(&self, workload: &str, metric: Metric) -> Vec<(&'a Allocator, f64)> {
        self.peers()
            .filter_map(|a| Some((a, self.summary(workload, &a.name, metric)?.median)))
            .collect()
    }

    /// Ours against the best peer, and the peer is chosen by other rounds than the one in which the two are compared.
    ///
    /// Of several that are equally fast the lowest figure is one that was lucky, and it is compared just where it was. So among
    /// equals the plain ratio is above 1, the more so the noisier they are. Here luck does not last from one round to the next.
    /// The geometric mean over the rounds; None with fewer than two.
    pub fn held_out_ratio(&self, workload: &str, ours: &str, metric: Metric) -> Option<f64> {
        let without = |peer: &Allocator, round: usize| {
            let values = self.good(workload, &peer.name).iter();
            let others = values.filter(|run| run.round != round);
            median(&others.map(|run| metric.of(run)).collect::<Vec<_>>())
        };
        let in_round = |name: &str, round: usize| {
            let found = self.good(workload, name).iter().find(|r| r.round == round);
            found.map(|run| metric.of(run))
        };
        let of_round = |run: &&Run| {
            let medians = self
                .peers()
                .filter_map(|a| Some((a, without(a, run.round)?)));
            let (best, _) = medians.min_by(|a, b| a.1.total_cmp(&b.1))?;
            let (own, theirs) = (metric.of(run), in_round(&best.name, run.round)?);
            (own.min(theirs) >= metric.least()).then_some(own / theirs)
        };
        let ratios: Vec<f64> = self
            .good(workload, ours)
            .iter()
            .filter_map(of_round)
            .collect();
        geometric_mean(&ratios).filter(|_| ratios.len() > 1)
    }

    /// True where the reference needs several times what its fellow peers need: a ratio to it says more about the
    /// reference than about us. With fewer than two others nobody can tell.
    pub fn reference_is_weak(&self, workload: &str, metric: Metric) -> bool {
        let reference = &self.record.settings.reference;
        let medians = self.peer_medians(workload, metric);
        let (own, others): (Vec<_>, Vec<_>) =
            medians.into_iter().partition(|(a, _)| a.name == *reference);
        let others: Vec<f64> = others.into_iter().map(|(_, median)| median).collect();
        match (own.first(), median(&others)) {
            (Some((_, own)), Some(middle)) if others.len() >= 2 && middle >= metric.least() => {
                *own >= WEAK * middle
            }
            _ => false,
        }
    }

    /// Ranks from 1 on. Who is not separated by the noise from the leader of a rank shares it.
    pub fn ranks(&self, workload: &str, metric: Metric) -> HashMap<&'a str, usize> {
        let mut standing: Vec<(&str, f64)> = self
            .record
            .allocators
            .iter()
            .filter_map(|a| {
                Some((
                    a.name.as_str(),
                    self.summary(workload, &a.name, metric)?.median,
                ))
            })
            .collect();
        standing.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut ranks = HashMap::new();
        let mut leader: Option<(&str, usize)> = None;
        for (position, (name, _)) in standing.iter().enumerate() {
            let (_, rank) = match leader {
                Some((first, rank)) if !self.is_more(workload, name, first, metric) => {
                    (first, rank)
                }
                _ => *leader.insert((name, position + 1)),
            };
            ranks.insert(*name, rank);
        }
        ranks
    }

    fn is_more(&self, workload: &str, ours: &str, theirs: &str, metric: Metric) -> bool {
        self.ratio(workload, ours, theirs, metric)
            .is_some_and(|ratio| ratio.verdict() == Verdict::More)
    }

    /// The workloads of which any allocator has a run, in the order of the record.
    pub fn measured(&self) -> impl Iterator<Item = &'a Workload> {
        let seen = |w: &Workload| {
            self.record
                .allocators
                .iter()
                .any(|a| !self.runs(&w.name, &a.name).is_empty())
        };
        self.record
            .workloads
            .iter()
            .filter(move |workload| seen(workload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::example;

    #[test]
    fn a_cell_with_one_failure_has_no_figures() {
        let mut record = example(&[("a", &[1.0, 1.0, 1.0]), ("b", &[0.1, 0.1, 0.1])]);
        record.runs.last_mut().unwrap().outcome = Outcome::Timeout;
        let figures = Figures::new(&record);
        assert!(figures.summary("w", "b", Metric::Cpu).is_none());
        assert!(figures.ratio("w", "b", "a", Metric::Cpu).is_none());
        assert_eq!(figures.failure("w", "b"), Some(&Outcome::Timeout));
        assert_eq!(figures.best_peer("w", Metric::Cpu).unwrap().name, "a");
    }

    #[test]
    fn a_reference_that_all_others_beat_by_far_is_weak() {
        let row = |reference: f64| {
            let record = example(&[
                ("mimalloc3", &[reference, reference]),
                ("freehold", &[0.1, 0.1]),
                ("glibc", &[1.0, 1.0]),
                ("jemalloc", &[1.2, 1.2]),
            ]);
            Figures::new(&record).reference_is_weak("w", Metric::Cpu)
        };
        // The others' median is 1.1; ours does not count.
        assert!(row(3.4));
        assert!(!row(3.2));
        let alone = example(&[("mimalloc3", &[9.0]), ("glibc", &[1.0])]);
        assert!(!Figures::new(&alone).reference_is_weak("w", Metric::Cpu));
    }

    /// Two peers that are equally fast: by the lowest median one of them would always have been lucky.
    #[test]
    fn luck_of_a_round_does_not_choose_the_peer_of_that_round() {
        let record = example(&[
            ("glibc", &[0.5, 1.0]),
            ("jemalloc", &[1.0, 0.5]),
            ("freehold", &[1.0, 1.0]),
        ]);
        let figures = Figures::new(&record);
        let of = |figures: &Figures, name: &str| figures.held_out_ratio("w", name, Metric::Cpu);
        // Round 0 is compared with the peer that was lucky in round 1, and the other way round.
        assert_eq!(of(&figures, "freehold"), Some(1.0));
        let once = example(&[("glibc", &[1.0]), ("freehold", &[1.0])]);
        assert_eq!(of(&Figures::new(&once), "freehold"), None);
        let behind = example(&[
            ("glibc", &[1.0, 1.1]),
            ("jemalloc", &[3.0, 3.0]),
            ("freehold", &[2.0, 2.2]),
        ]);
        let ratio = of(&Figures::new(&behind), "freehold").unwrap();
        assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
    }

    #[test]
    fn ratios_pair_rounds_by_number() {
        let mut record = example(&[("a", &[1.0, 9.0, 1.0]), ("b", &[2.0, 2.0, 2.0])]);
        record
            .runs
            .retain(|run| !(run.allocator == "a" && run.round == 1));
        let ratio = Figures::new(&record)
            .ratio("w", "b", "a", Metric::Cpu)
            .unwrap();
        assert_eq!((ratio.pairs, ratio.value), (2, 2.0));
    }

    #[test]
    fn ranks_are_shared_within_the_noise() {
        let noisy: (&str, &[f64]) = ("b", &[1.03, 0.97, 1.01, 1.0, 1.02]);
        let record = example(&[
            ("a", &[1.0, 1.01, 0.99, 1.0, 1.0]),
            noisy,
            ("c", &[1.5, 1.51, 1.49, 1.5, 1.5]),
        ]);
        let ranks = Figures::new(&record).ranks("w", Metric::Cpu);
        assert_eq!((ranks["a"], ranks["b"], ranks["c"]), (1, 1, 3));
    }
}
