//! Growth that is spread over many stacks. A function that is called in a thousand ways, as in a parser or an interpreter, has a
//! site for each of them, and none has the samples for a verdict. Together they may.

use std::collections::HashMap;

use profile_file::{LiveSample, Snapshot, Symbols};
use serde::Serialize;

use super::finding::history;
use super::verdict::{AGES, History, Rules, judge};
use crate::explain::sites;
use crate::wording;

/// The line whose sites grow most, taken together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub line: String,
    pub sites: usize,
    pub bytes_per_second: f64,
    pub bytes_per_second_error: f64,
}

impl Spread {
    /// None: no line grows beyond four standard deviations, or only one whose blocks are all of one site.
    pub fn of(snapshot: &Snapshot, symbols: &mut Symbols) -> Option<Spread> {
        let mut samples: HashMap<u32, Vec<&LiveSample>> = HashMap::new();
        for sample in &snapshot.samples {
            samples.entry(sample.site).or_default().push(sample);
        }
        let mut lines: HashMap<String, Vec<History>> = HashMap::new();
        for site in &snapshot.sites {
            let samples = samples.remove(&site.number).unwrap_or_default();
            if let Some(line) = sites::name(snapshot, symbols, site.number) {
                lines
                    .entry(line)
                    .or_default()
                    .push(history(snapshot, site, &samples));
            }
        }
        let rules = Rules::default();
        lines
            .into_iter()
            .filter_map(|(line, histories)| {
                let sites = histories.iter().filter(|it| !it.live.is_empty()).count();
                if sites < 2 {
                    return None;
                }
                let growth = judge(&together(&histories), snapshot.now_ns(), &rules).growth?;
                let (rate, error) = growth.rate();
                (growth.sigma() >= rules.sigma).then_some(Spread {
                    line,
                    sites,
                    bytes_per_second: rate,
                    bytes_per_second_error: error,
                })
            })
            .max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
    }

    /// leaf (many.c:7), at 417 sites together +6.6 ± 0.3 MiB/s
    pub fn sentence(&self) -> String {
        format!(
            "{}, at {} together {}",
            self.line,
            wording::plural(self.sites, "site", "sites"),
            wording::rate(self.bytes_per_second, self.bytes_per_second_error)
        )
    }
}

/// As if they were one site.
fn together(histories: &[History]) -> History {
    let mut sum = History {
        first_ns: histories.iter().map(|it| it.first_ns).min().unwrap_or(0),
        begun_ns: histories.iter().map(|it| it.begun_ns).min().unwrap_or(0),
        ..History::default()
    };
    let mut freed = 0.0;
    for it in histories {
        sum.live.extend_from_slice(&it.live);
        let of_it: f64 = it.freed_at_age.iter().sum();
        sum.mean_weight += it.mean_weight * of_it;
        freed += of_it;
        for age in 0..AGES {
            sum.freed_at_age[age] += it.freed_at_age[age];
        }
    }
    sum.mean_weight /= freed.max(1.0);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile_file::testing::ProfileBuilder;

    const SECOND: u64 = 1_000_000_000;

    fn grown(stacks: u64, kept: bool) -> Option<Spread> {
        let mut profile = ProfileBuilder::new(512 << 10);
        for second in 0..200 {
            let site = profile.site(&[0x10, 0x100 + second % stacks]);
            let block = profile.allocate(site, 1000, second * SECOND);
            if !kept {
                profile.free(block, 1_000_000);
            }
        }
        profile.point(200 * SECOND, 1, 1);
        let snapshot = profile.snapshot();
        Spread::of(&snapshot, &mut Symbols::new(&snapshot))
    }

    #[test]
    fn many_stacks_of_one_line_grow_together() {
        let spread = grown(100, true).unwrap();
        assert_eq!(spread.sites, 100);
        assert!((spread.bytes_per_second / 524_788.0 - 1.0).abs() < 0.05);
        assert!(
            spread.sentence().contains(", at 100 sites together +"),
            "{}",
            spread.sentence()
        );
    }

    #[test]
    fn what_is_freed_does_not_grow_and_one_stack_is_not_spread() {
        assert_eq!(grown(100, false), None);
        assert_eq!(grown(1, true), None);
    }
}
