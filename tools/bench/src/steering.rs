//! The three figures that steer the project, printed at the end of every run:
//! geometric mean of processor time and of peak RSS over the suite against the reference (mimalloc 3), and the worst
//! single workload against the best peer of that workload.

use std::fmt::Write;

use crate::figures::{Figures, Metric};
use crate::record::{Origin, Workload};
use crate::statistics::{Ratio, Verdict, geometric_mean};

/// What the project aims at; see the page on benchmarks.
pub const AIM_CPU: f64 = 0.80;
pub const AIM_RSS: f64 = 0.50;
pub const AIM_WORST: f64 = 1.03;

/// One allocator's standing over the whole suite, relative to the reference.
pub struct Standing {
    pub allocator: String,
    pub label: String,
    pub cpu: Option<f64>,
    pub rss: Option<f64>,
    /// Over how many workloads each mean was taken.
    pub cpu_count: usize,
    pub rss_count: usize,
    /// Workloads where the noise separates it from the reference, and where it does not.
    pub faster: usize,
    pub equal: usize,
    pub slower: usize,
    pub failed: usize,
}

/// Ours against the best peer of one workload.
#[derive(Clone)]
pub struct Against {
    pub workload: String,
    pub peer: String,
    pub ratio: Ratio,
}

pub struct Steering {
    pub reference: String,
    pub ours: Option<Standing>,
    pub worst: Option<Against>,
    /// All workloads where the noise separates ours from a better peer, the worst first: where the work is.
    pub losses: Vec<Against>,
    pub standings: Vec<Standing>,
}

/// Ours is the allocator of that origin, or, in a run without it, nothing.
pub fn steer(figures: &Figures) -> Steering {
    let record = figures.record;
    let reference = record.settings.reference.clone();
    let standings: Vec<Standing> = record
        .allocators
        .iter()
        .map(|a| standing(figures, &a.name, &a.label, &reference))
        .collect();
    let ours = record
        .allocators
        .iter()
        .find(|a| a.origin == Origin::Ours)
        .map(|a| a.name.as_str());
    let mut against = ours.map_or_else(Vec::new, |name| against_best(figures, name));
    let is_loss = |a: &Against| a.ratio.verdict() == Verdict::More;
    let (mut losses, rest): (Vec<Against>, Vec<Against>) = against.drain(..).partition(is_loss);
    // The figure is the largest ratio, separable or not; the list has only what is sure.
    let worst = losses
        .iter()
        .chain(&rest)
        .max_by(|a, b| a.ratio.value.total_cmp(&b.ratio.value))
        .cloned();
    losses.sort_by(|a, b| b.ratio.value.total_cmp(&a.ratio.value));
    Steering {
        worst,
        losses,
        ours: ours.map(|name| standing(figures, name, "Freehold", &reference)),
        reference: record
            .allocator(&reference)
            .map_or(reference, |a| a.label.clone()),
        standings,
    }
}

fn standing(figures: &Figures, name: &str, label: &str, reference: &str) -> Standing {
    let ratios = |metric| -> Vec<Ratio> {
        figures
            .measured()
            .filter_map(|w| figures.ratio(&w.name, name, reference, metric))
            .collect()
    };
    let mean = |ratios: &[Ratio]| {
        geometric_mean(&ratios.iter().map(|ratio| ratio.value).collect::<Vec<_>>())
    };
    let (cpu, rss) = (ratios(Metric::Cpu), ratios(Metric::PeakRss));
    let count = |verdict| {
        cpu.iter()
            .filter(|ratio| ratio.verdict() == verdict)
            .count()
    };
    Standing {
        allocator: name.to_owned(),
        label: label.to_owned(),
        cpu: mean(&cpu),
        rss: mean(&rss),
        cpu_count: cpu.len(),
        rss_count: rss.len(),
        faster: count(Verdict::Less),
        equal: count(Verdict::Same),
        slower: count(Verdict::More),
        failed: figures
            .measured()
            .filter(|w| figures.failure(&w.name, name).is_some())
            .count(),
    }
}

/// Processor time against the best peer of each workload. The best of many is partly luck, which makes these ratios
/// harder on us than the truth; that is the right side to err on.
fn against_best(figures: &Figures, ours: &str) -> Vec<Against> {
    let one = |workload: &Workload| {
        let peer = figures.best_peer(&workload.name, Metric::Cpu)?;
        let ratio = figures.ratio(&workload.name, ours, &peer.name, Metric::Cpu)?;
        Some(Against {
            workload: workload.name.clone(),
            peer: peer.label.clone(),
            ratio,
        })
    };
    figures.measured().filter_map(one).collect()
}

fn show(value: Option<f64>) -> String {
    value.map_or_else(|| "  n/a".to_owned(), |v| format!("{v:5.2}"))
}

pub fn render(steering: &Steering) -> String {
    let mut text = String::new();
    let against = &steering.reference;
    let show =
        |value: Option<f64>| value.map_or_else(|| "  n/a".to_owned(), |v| format!("{v:5.2}"));
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "Over all that was measured, geometric means against {against} = 1.00 (lower is better)"
    );
    let _ = writeln!(
        text,
        "  {:<20} {:>6} {:>6}   {:>6} {:>5} {:>6} {:>6}",
        "", "CPU", "RSS", "faster", "equal", "slower", "failed"
    );
    for s in &steering.standings {
        let _ = writeln!(
            text,
            "  {:<20} {:>6} {:>6}   {:>6} {:>5} {:>6} {:>6}",
            s.label,
            show(s.cpu),
            show(s.rss),
            s.faster,
            s.equal,
            s.slower,
            s.failed
        );
    }
    if let Some(ours) = &steering.ours {
        text.push_str(&three_figures(steering, ours));
        text.push_str(&losses(&steering.losses));
    }
    text
}

fn three_figures(steering: &Steering, ours: &Standing) -> String {
    let against = &steering.reference;
    let mut text = String::new();
    let _ = writeln!(text, "\nThe three figures that steer Freehold");
    let _ = writeln!(
        text,
        "  CPU time against {against}    {}  (aim {AIM_CPU:.2}, {} workloads)",
        show(ours.cpu),
        ours.cpu_count
    );
    let _ = writeln!(
        text,
        "  peak RSS against {against}    {}  (aim {AIM_RSS:.2}, {} workloads)",
        show(ours.rss),
        ours.rss_count
    );
    match &steering.worst {
        Some(w) => {
            let sure = if w.ratio.verdict() == Verdict::Same {
                ", within the noise"
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "  worst against the best peer  {:5.2}  (aim {AIM_WORST:.2}: {} against {}{sure})",
                w.ratio.value, w.workload, w.peer
            );
        }
        None => text.push_str("  worst against the best peer    n/a\n"),
    }
    if ours.failed > 0 {
        let _ = writeln!(
            text,
            "  {} workloads failed under Freehold and are in none of these figures",
            ours.failed
        );
    }
    text
}

/// How many losses the terminal shows; the page has all.
const SHOWN: usize = 12;

fn losses(losses: &[Against]) -> String {
    if losses.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\nWhere Freehold needs more CPU time than the best peer ({} workloads)\n",
        losses.len()
    );
    for loss in losses.iter().take(SHOWN) {
        let Ratio {
            value, low, high, ..
        } = loss.ratio;
        let _ = writeln!(
            text,
            "  {:<28} {value:5.2}  ({low:.2} to {high:.2}) against {}",
            loss.workload, loss.peer
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::example;

    #[test]
    fn the_three_figures_of_a_small_run() {
        let mut record = example(&[
            ("mimalloc3", &[1.0, 1.0, 1.0, 1.0]),
            ("freehold", &[0.5, 0.5, 0.5, 0.5]),
            ("jemalloc", &[0.4, 0.4, 0.4, 0.4]),
        ]);
        record.allocators[0].label = "mimalloc 3".into();
        let steering = steer(&Figures::new(&record));
        let ours = steering.ours.as_ref().unwrap();
        assert_eq!((ours.cpu, ours.rss), (Some(0.5), Some(0.5)));
        let worst = steering.worst.as_ref().unwrap();
        assert!((worst.ratio.value - 1.25).abs() < 1e-9);
        assert_eq!(worst.peer, "JEMALLOC");
        insta::assert_snapshot!(render(&steering));
    }
}
