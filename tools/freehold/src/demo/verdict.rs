//! What the table says, in words: how to read it, and what follows.

use super::measure::Sample;
use super::scene::Scene;
use super::table::{figures, median, short};

/// A difference below this is none, whatever the rounds agree on.
const CLEAR: f64 = 0.02;
/// One from here on is said even if only most of the rounds agree.
const LARGE: f64 = 0.1;
const CPU: usize = 1;
const PEAK: usize = 2;
const AFTER: usize = 3;
const WHAT: [(usize, &str); 3] = [
    (CPU, "CPU time"),
    (PEAK, "memory at the peak"),
    (AFTER, "memory after the work"),
];

/// Two sentences.
pub fn guide(scene: &dyn Scene, rounds: u32) -> String {
    let after = scene
        .after()
        .map(|when| format!(", `after` what it has {when}"))
        .unwrap_or_default();
    let rounds = match rounds {
        1 => "one round".to_owned(),
        many => format!("the median of {many} rounds in which the allocators took turns"),
    };
    format!(
        "How to read it: less is better, each figure is {rounds},\n\
         and a ratio below 1.00 says that Freehold needs less.\n\
         `CPU` is the program's own time, without that of its clients;\n\
         {}{after}.\n",
        scene.whose_peak()
    )
}

/// What Freehold needs less of, as much of, and more of than each of the others.
pub fn verdict(names: &[&str], samples: &[Vec<Sample>]) -> String {
    let (Some((last, rest)), Some((ours, others))) = (names.split_last(), samples.split_last())
    else {
        return String::new();
    };
    let clauses: Vec<String> = rest
        .iter()
        .zip(others)
        .map(|(name, theirs)| {
            let name = match short(name) {
                "system" => "the system's allocator",
                other => other,
            };
            format!("against {name}, {} {}", short(last), clause(ours, theirs))
        })
        .collect();
    format!("Verdict: {}.\n", clauses.join(";\n  "))
}

fn clause(ours: &[Sample], theirs: &[Sample]) -> String {
    let (mut less, mut same, mut more) = (Vec::new(), Vec::new(), Vec::new());
    for (column, what) in WHAT {
        let Some(difference) = compare(ours, theirs, column) else {
            continue;
        };
        let percent = ((difference.ratio - 1.0) * 100.0).abs().round();
        let often = match (difference.agree, difference.rounds) {
            (agree, rounds) if agree < rounds => format!(", in {agree} of {rounds} rounds"),
            _ => String::new(),
        };
        match (difference.is_clear(), difference.ratio < 1.0) {
            (false, _) => same.push(what.to_owned()),
            (true, true) => less.push(format!("{what} ({percent} % less{often})")),
            (true, false) => more.push(format!("{what} ({percent} % more{often})")),
        }
    }
    let parts: Vec<String> = [("wins in", less), ("loses in", more), ("is level in", same)]
        .iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(verb, list)| format!("{verb} {}", list.join(" and ")))
        .collect();
    parts.join(", ")
}

struct Difference {
    /// Of the medians.
    ratio: f64,
    /// Rounds on the side of the medians.
    agree: usize,
    rounds: usize,
}

impl Difference {
    /// Every round has to agree. Of a large difference most of them do: in one round a machine may do something else.
    fn is_clear(&self) -> bool {
        let size = (self.ratio - 1.0).abs();
        let all = self.agree == self.rounds;
        (all && size >= CLEAR) || (2 * self.agree > self.rounds && size >= LARGE)
    }
}

fn compare(ours: &[Sample], theirs: &[Sample], column: usize) -> Option<Difference> {
    let of = |samples: &[Sample]| -> Vec<f64> {
        samples
            .iter()
            .filter_map(|sample| figures(sample)[column])
            .collect()
    };
    let (ours, theirs) = (of(ours), of(theirs));
    let ratio = median(ours.clone())? / median(theirs.clone())?;
    let pairs = || ours.iter().zip(&theirs);
    Some(Difference {
        ratio,
        agree: pairs().filter(|(a, b)| (a < b) == (ratio < 1.0)).count(),
        rounds: pairs().count(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::sample;
    use super::*;

    #[test]
    fn a_loss_is_said() {
        let runs = [
            vec![sample(5.0, 4.0, 100, Some(200)); 3],
            vec![sample(4.0, 3.0, 107, Some(20)); 3],
        ];
        assert_eq!(
            verdict(&["system (glibc)", "Freehold"], &runs),
            "Verdict: against the system's allocator, Freehold wins in CPU time (25 % less) and \
             memory after the work (90 % less), loses in memory at the peak (7 % more).\n"
        );
    }

    #[test]
    fn rounds_that_do_not_agree_are_no_difference() {
        let runs = [
            vec![sample(1.0, 4.0, 100, None), sample(1.0, 4.0, 100, None)],
            vec![sample(1.0, 3.0, 101, None), sample(1.0, 4.1, 101, None)],
        ];
        assert_eq!(
            verdict(&["system (glibc)", "Freehold"], &runs),
            "Verdict: against the system's allocator, Freehold is level in CPU time and memory at the peak.\n"
        );
    }

    #[test]
    fn one_round_does_not_hide_a_large_difference() {
        let after = |mib| sample(1.0, 4.0, 100, Some(mib));
        let runs = [
            vec![after(208), after(208), after(208)],
            vec![after(29), after(225), after(27)],
        ];
        assert_eq!(
            verdict(&["system (glibc)", "Freehold"], &runs),
            "Verdict: against the system's allocator, Freehold wins in memory after the work (86 % less, in 2 of 3 rounds), \
             is level in CPU time and memory at the peak.\n"
        );
    }

    #[test]
    fn each_of_the_others_has_its_own() {
        let runs = [
            vec![sample(1.0, 4.0, 100, None)],
            vec![sample(1.0, 2.0, 100, None)],
            vec![sample(1.0, 3.0, 50, None)],
        ];
        assert_eq!(
            verdict(
                &["system (glibc)", "jemalloc (as packaged)", "Freehold"],
                &runs
            ),
            "Verdict: against the system's allocator, Freehold wins in CPU time (25 % less) and memory at the peak (50 % less);\n  \
             against jemalloc, Freehold wins in memory at the peak (50 % less), loses in CPU time (50 % more).\n"
        );
    }
}
