//! The figures that steer the project, printed at the end of every run.
//!
//! First the geometric mean, over all rows, of our ratio to the best peer of that row, in CPU time and in peak RSS.
//! Beside it the same means against one reference (mimalloc 3), whose weak rows are marked, and the worst single row.

use std::fmt::Write;

use crate::figures::{FAST, Figures, Metric};
use crate::record::{Origin, Workload};
use crate::statistics::{Ratio, Verdict, geometric_mean};

/// What the project aims at; see the page on benchmarks.
pub const AIM_BEST_CPU: f64 = 1.00;
pub const AIM_BEST_RSS: f64 = 1.10;
pub const AIM_CPU: f64 = 0.80;
pub const AIM_RSS: f64 = 0.50;
pub const AIM_WORST: f64 = 1.03;
pub const AIM_WORST_FULL: f64 = 1.10;
/// A row in which we have more than this many times the memory of the leanest fast peer is explained in the page on benchmarks.
pub const HEAVY: f64 = 1.3;

/// A mean of ratios, and over how many rows it was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Mean {
    pub value: Option<f64>,
    pub rows: usize,
}

impl Mean {
    fn of(ratios: &[f64]) -> Self {
        Self {
            value: geometric_mean(ratios),
            rows: ratios.len(),
        }
    }
}

/// One allocator's standing over the whole suite.
pub struct Standing {
    pub allocator: String,
    pub label: String,
    /// Against the best peer of each row.
    pub best_cpu: Mean,
    pub best_rss: Mean,
    /// The same, and the peer of each round was chosen by the other rounds; over the rows that have two or more.
    pub held_out_cpu: Mean,
    pub held_out_rss: Mean,
    /// Against the leanest of those that are fast in each row.
    pub fast_rss: Mean,
    /// Against the reference.
    pub cpu: Mean,
    pub rss: Mean,
    pub faults: Mean,
    /// The same without the rows that the reference's weakness decides.
    pub cpu_unmarked: Mean,
    pub rss_unmarked: Mean,
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

/// One row beside its best peers: time, memory and page faults together, so that none is bought blindly with another.
pub struct Row {
    pub workload: String,
    pub cpu: Option<Against>,
    pub rss: Option<Against>,
    /// Page faults of ours, and of the peer that had the fewest.
    pub faults: Option<(f64, f64)>,
}

pub struct Steering {
    pub reference: String,
    pub ours: Option<Standing>,
    pub worst: Option<Against>,
    pub aim_worst: f64,
    /// All workloads where the noise separates ours from a better peer, the worst first: where the work is.
    pub losses: Vec<Against>,
    /// All workloads where ours has more than `HEAVY` times the memory of the leanest fast peer, the worst first.
    pub heavy: Vec<Against>,
    /// All rows, the one with the worst CPU time first.
    pub rows: Vec<Row>,
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
    let rows = ours.map_or_else(Vec::new, |name| rows(figures, name));
    let cpu: Vec<&Against> = rows.iter().filter_map(|row| row.cpu.as_ref()).collect();
    Steering {
        // The figure is the largest ratio, separable or not; the list has only what is sure.
        worst: cpu.first().map(|against| (*against).clone()),
        aim_worst: match record.settings.mode.as_str() {
            "full" => AIM_WORST_FULL,
            _ => AIM_WORST,
        },
        losses: cpu
            .into_iter()
            .filter(|against| against.ratio.verdict() == Verdict::More)
            .cloned()
            .collect(),
        heavy: ours.map_or_else(Vec::new, |name| heavy(figures, name)),
        ours: ours.map(|name| standing(figures, name, "Freehold", &reference)),
        reference: record
            .allocator(&reference)
            .map_or(reference, |a| a.label.clone()),
        rows,
        standings,
    }
}

fn standing(figures: &Figures, name: &str, label: &str, reference: &str) -> Standing {
    let ratios = |metric| -> Vec<(&Workload, Ratio)> {
        figures
            .measured()
            .filter_map(|w| Some((w, figures.ratio(&w.name, name, reference, metric)?)))
            .collect()
    };
    let all = |ratios: &[(&Workload, Ratio)]| -> Vec<f64> {
        ratios.iter().map(|(_, ratio)| ratio.value).collect()
    };
    let unmarked = |metric, ratios: &[(&Workload, Ratio)]| -> Vec<f64> {
        ratios
            .iter()
            .filter(|(w, _)| !figures.reference_is_weak(&w.name, metric))
            .map(|(_, ratio)| ratio.value)
            .collect()
    };
    let best = |metric| -> Vec<f64> {
        let row = |w: &Workload| against_best(figures, name, &w.name, metric);
        figures
            .measured()
            .filter_map(row)
            .map(|against| against.ratio.value)
            .collect()
    };
    let held_out = |metric| -> Vec<f64> {
        figures
            .measured()
            .filter_map(|w| figures.held_out_ratio(&w.name, name, metric))
            .collect()
    };
    let (cpu, rss) = (ratios(Metric::Cpu), ratios(Metric::PeakRss));
    let count = |verdict| cpu.iter().filter(|(_, r)| r.verdict() == verdict).count();
    Standing {
        allocator: name.to_owned(),
        label: label.to_owned(),
        best_cpu: Mean::of(&best(Metric::Cpu)),
        best_rss: Mean::of(&best(Metric::PeakRss)),
        held_out_cpu: Mean::of(&held_out(Metric::Cpu)),
        held_out_rss: Mean::of(&held_out(Metric::PeakRss)),
        fast_rss: Mean::of(&fast_ratios(figures, name)),
        cpu: Mean::of(&all(&cpu)),
        rss: Mean::of(&all(&rss)),
        faults: Mean::of(&all(&ratios(Metric::Faults))),
        cpu_unmarked: Mean::of(&unmarked(Metric::Cpu, &cpu)),
        rss_unmarked: Mean::of(&unmarked(Metric::PeakRss, &rss)),
        faster: count(Verdict::Less),
        equal: count(Verdict::Same),
        slower: count(Verdict::More),
        failed: figures
            .measured()
            .filter(|w| figures.failure(&w.name, name).is_some())
            .count(),
    }
}

/// Against the best peer of a workload. The best of many is partly luck, which makes these ratios harder on us than the
/// truth. Figures::held_out_ratio has none of that luck, and is printed beside their mean.
fn against_best(figures: &Figures, name: &str, workload: &str, metric: Metric) -> Option<Against> {
    let peer = figures.best_peer(workload, metric)?;
    Some(Against {
        workload: workload.to_owned(),
        peer: peer.label.clone(),
        ratio: figures.ratio(workload, name, &peer.name, metric)?,
    })
}

/// Peak RSS against the leanest fast peer of each row.
fn against_lean(figures: &Figures, name: &str) -> Vec<Against> {
    let row = |w: &Workload| {
        let peer = figures.leanest_fast_peer(&w.name)?;
        Some(Against {
            workload: w.name.clone(),
            peer: peer.label.clone(),
            ratio: figures.ratio(&w.name, name, &peer.name, Metric::PeakRss)?,
        })
    };
    figures.measured().filter_map(row).collect()
}

fn fast_ratios(figures: &Figures, name: &str) -> Vec<f64> {
    let rows = against_lean(figures, name);
    rows.iter().map(|against| against.ratio.value).collect()
}

fn heavy(figures: &Figures, ours: &str) -> Vec<Against> {
    let mut rows = against_lean(figures, ours);
    rows.retain(|against| against.ratio.value > HEAVY);
    rows.sort_by(|a, b| b.ratio.value.total_cmp(&a.ratio.value));
    rows
}

fn rows(figures: &Figures, ours: &str) -> Vec<Row> {
    let faults = |workload: &str| {
        let fewest = figures.best_peer(workload, Metric::Faults)?;
        let of = |name: &str| Some(figures.summary(workload, name, Metric::Faults)?.median);
        Some((of(ours)?, of(&fewest.name)?))
    };
    let mut rows: Vec<Row> = figures
        .measured()
        .map(|w| Row {
            workload: w.name.clone(),
            cpu: against_best(figures, ours, &w.name, Metric::Cpu),
            rss: against_best(figures, ours, &w.name, Metric::PeakRss),
            faults: faults(&w.name),
        })
        .collect();
    let worse = |row: &Row| row.cpu.as_ref().map_or(0.0, |against| against.ratio.value);
    rows.sort_by(|a, b| worse(b).total_cmp(&worse(a)));
    rows
}

fn show(mean: Mean) -> String {
    mean.value
        .map_or_else(|| "n/a".to_owned(), |v| format!("{v:.2}"))
}

pub fn render(steering: &Steering) -> String {
    let mut text = String::new();
    let against = &steering.reference;
    let names = steering.standings.iter().map(|s| s.label.chars().count());
    let width = names.max().unwrap_or(0).max(20);
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "Over all that was measured, geometric means (lower is better): against {against} = 1.00, then against the best peer of each row"
    );
    let _ = writeln!(
        text,
        "  {:<width$} {:>6} {:>6} {:>6}   {:>8} {:>8}   {:>6} {:>5} {:>6} {:>6}",
        "", "CPU", "RSS", "faults", "best CPU", "best RSS", "faster", "equal", "slower", "failed"
    );
    for s in &steering.standings {
        let _ = writeln!(
            text,
            "  {:<width$} {:>6} {:>6} {:>6}   {:>8} {:>8}   {:>6} {:>5} {:>6} {:>6}",
            s.label,
            show(s.cpu),
            show(s.rss),
            show(s.faults),
            show(s.best_cpu),
            show(s.best_rss),
            s.faster,
            s.equal,
            s.slower,
            s.failed
        );
    }
    // Without any peer, as where modes of ours are compared, there is nothing to steer by.
    if let Some(ours) = steering.ours.as_ref().filter(|o| o.best_rss.rows > 0) {
        text.push_str(&the_figures(steering, ours));
        text.push_str(&losses(steering));
        text.push_str(&heavy_rows(steering));
    }
    text
}

fn the_figures(steering: &Steering, ours: &Standing) -> String {
    let mut text = String::from("\nThe figures that steer Freehold\n");
    let held_out = |mean: Mean| match mean.rows {
        0 => String::new(),
        rows => format!(
            "; {} where other rounds choose the peer, {rows} workloads",
            show(mean)
        ),
    };
    let mut line = |what: &str, mean: Mean, aim: f64, note: &str| {
        let _ = writeln!(
            text,
            "  {what:<44} {:>5}  (aim {aim:.2}, {} workloads{note})",
            show(mean),
            mean.rows
        );
    };
    line(
        "CPU time against the best peer of each row",
        ours.best_cpu,
        AIM_BEST_CPU,
        &held_out(ours.held_out_cpu),
    );
    line(
        "peak RSS against the best peer of each row",
        ours.best_rss,
        AIM_BEST_RSS,
        &held_out(ours.held_out_rss),
    );
    let against = &steering.reference;
    let note = |all: Mean, unmarked: Mean| match all.rows - unmarked.rows {
        0 => String::new(),
        marked => format!("; {} without the {marked} marked !", show(unmarked)),
    };
    line(
        &format!("CPU time against {against}"),
        ours.cpu,
        AIM_CPU,
        &note(ours.cpu, ours.cpu_unmarked),
    );
    line(
        &format!("peak RSS against {against}"),
        ours.rss,
        AIM_RSS,
        &note(ours.rss, ours.rss_unmarked),
    );
    let _ = writeln!(
        text,
        "  {:<44} {:>5}  ({} workloads; fast: at most {FAST:.0} times the fastest peer's CPU time)",
        "peak RSS against the leanest fast peer",
        show(ours.fast_rss),
        ours.fast_rss.rows
    );
    let _ = match &steering.worst {
        Some(w) => {
            let sure = if w.ratio.verdict() == Verdict::Same {
                ", within the noise"
            } else {
                ""
            };
            writeln!(
                text,
                "  {:<44} {:>5.2}  (aim {:.2}: {} against {}{sure})",
                "worst single row against its best peer",
                w.ratio.value,
                steering.aim_worst,
                w.workload,
                w.peer
            )
        }
        None => writeln!(text, "  worst single row against its best peer n/a"),
    };
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

/// CPU time, and what it was bought with: the row's peak RSS and page faults beside it.
fn losses(steering: &Steering) -> String {
    if steering.losses.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\nWhere Freehold needs more CPU time than the best peer ({} workloads)\n",
        steering.losses.len()
    );
    for loss in steering.losses.iter().take(SHOWN) {
        let Ratio {
            value, low, high, ..
        } = loss.ratio;
        let row = steering.rows.iter().find(|r| r.workload == loss.workload);
        let _ = writeln!(
            text,
            "  {:<28} {value:5.2}  ({low:.2} to {high:.2}) against {}{}",
            loss.workload,
            loss.peer,
            row.map_or_else(String::new, beside)
        );
    }
    text
}

/// The most memory beside a fast peer's.
fn heavy_rows(steering: &Steering) -> String {
    if steering.heavy.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\nWhere Freehold has more than {HEAVY} times the memory of the leanest fast peer ({} workloads)\n",
        steering.heavy.len()
    );
    for row in steering.heavy.iter().take(SHOWN) {
        let _ = writeln!(
            text,
            "  {:<28} {:5.2}  against {}",
            row.workload, row.ratio.value, row.peer
        );
    }
    text
}

/// "; RSS 0.80 against glibc; 1200 page faults, fewest 366".
fn beside(row: &Row) -> String {
    let mut text = String::new();
    if let Some(rss) = &row.rss {
        let _ = write!(text, "; RSS {:.2} against {}", rss.ratio.value, rss.peer);
    }
    if let Some((ours, fewest)) = row.faults {
        let _ = write!(text, "; {ours:.0} page faults, fewest {fewest:.0}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::example;

    #[test]
    fn the_figures_of_a_small_run() {
        let mut record = example(&[
            ("mimalloc3", &[1.0, 1.0, 1.0, 1.0]),
            ("freehold", &[0.5, 0.5, 0.5, 0.5]),
            ("jemalloc", &[0.4, 0.4, 0.4, 0.4]),
        ]);
        record.allocators[0].label = "mimalloc 3".into();
        let steering = steer(&Figures::new(&record));
        let ours = steering.ours.as_ref().unwrap();
        assert_eq!((ours.cpu.value, ours.rss.value), (Some(0.5), Some(0.5)));
        let against_best = ours.best_cpu.value.unwrap();
        assert!((against_best - 1.25).abs() < 1e-9, "{against_best}");
        let worst = steering.worst.as_ref().unwrap();
        assert!((worst.ratio.value - 1.25).abs() < 1e-9);
        assert_eq!(worst.peer, "JEMALLOC");
        insta::assert_snapshot!(render(&steering));
    }

    /// The leanest peer takes three times as long as the fastest, so it is not what our memory is held against.
    #[test]
    fn a_slow_peer_is_not_the_leanest_fast_one() {
        let mut record = example(&[
            ("mimalloc3", &[1.0, 1.0]),
            ("freehold", &[0.5, 0.5]),
            ("glibc", &[3.0, 3.0]),
            ("jemalloc", &[2.0, 2.0]),
        ]);
        let memory = [
            ("mimalloc3", 40),
            ("freehold", 14),
            ("glibc", 5),
            ("jemalloc", 10),
        ];
        for run in &mut record.runs {
            let of = memory.iter().find(|(name, _)| *name == run.allocator);
            run.peak_rss = of.unwrap().1 << 20;
        }
        let steering = steer(&Figures::new(&record));
        let ours = steering.ours.as_ref().unwrap();
        assert!((ours.best_rss.value.unwrap() - 2.8).abs() < 1e-6);
        assert!((ours.fast_rss.value.unwrap() - 1.4).abs() < 1e-6);
        let heavy: Vec<_> = steering.heavy.iter().map(|a| a.peer.as_str()).collect();
        assert_eq!(heavy, ["JEMALLOC"]);
        assert!(render(&steering).contains("1.40  against JEMALLOC"));
        // As fast as the fastest or twice as slow is fast; a little more is not.
        for run in record.runs.iter_mut().filter(|r| r.allocator == "jemalloc") {
            run.cpu = 2.01;
        }
        let steering = steer(&Figures::new(&record));
        let lean = steering.ours.as_ref().unwrap().fast_rss.value.unwrap();
        assert!((lean - 14.0 / 40.0).abs() < 1e-6, "{lean}");
        assert!(steering.heavy.is_empty());
    }

    /// Two rows. In the first, another peer than in the second is the best; in the second the reference is weak.
    #[test]
    fn the_best_peer_is_that_of_each_row_and_weak_rows_are_left_out() {
        let one = [
            ("mimalloc3", 1.0),
            ("freehold", 0.8),
            ("glibc", 2.0),
            ("jemalloc", 4.0),
        ];
        let two = [
            ("mimalloc3", 9.0),
            ("freehold", 0.9),
            ("glibc", 1.0),
            ("jemalloc", 1.8),
        ];
        let times = |row: &[(&'static str, f64)]| -> Vec<(&'static str, [f64; 2])> {
            row.iter()
                .map(|(name, cpu)| (*name, [*cpu, *cpu]))
                .collect()
        };
        let of = |row: &[(&'static str, [f64; 2])]| {
            let cells: Vec<(&str, &[f64])> = row.iter().map(|(n, t)| (*n, &t[..])).collect();
            example(&cells)
        };
        let (mut record, mut second) = (of(&times(&one)), of(&times(&two)));
        second.workloads[0].name = "weak".into();
        for run in &mut second.runs {
            run.workload = "weak".into();
        }
        record.workloads.append(&mut second.workloads);
        record.runs.append(&mut second.runs);
        let figures = Figures::new(&record);
        assert!(!figures.reference_is_weak("w", Metric::Cpu));
        assert!(figures.reference_is_weak("weak", Metric::Cpu));
        let steering = steer(&figures);
        let ours = steering.ours.as_ref().unwrap();
        let near = |mean: Mean, rows: usize, value: f64| {
            assert_eq!(mean.rows, rows);
            assert!(
                (mean.value.unwrap() - value).abs() < 1e-6,
                "{mean:?} is not {value}"
            );
        };
        near(ours.best_cpu, 2, (0.8_f64 * 0.9).sqrt());
        near(ours.best_rss, 2, (0.8_f64 * 0.9).sqrt());
        near(ours.cpu, 2, (0.8_f64 * 0.1).sqrt());
        near(ours.cpu_unmarked, 1, 0.8);
        // In the first row only mimalloc and glibc are fast, in the second glibc and jemalloc; the leanest is the fastest in both.
        near(ours.fast_rss, 2, (0.8_f64 * 0.9).sqrt());
        // A peer's own mean against the best is 1 where it is that peer itself.
        let glibc = steering.standings.iter().find(|s| s.allocator == "glibc");
        near(glibc.unwrap().best_cpu, 2, 2.0_f64.sqrt());
        let names: Vec<_> = steering.rows.iter().map(|r| r.workload.as_str()).collect();
        assert_eq!(names, ["weak", "w"], "the worst first");
        assert_eq!(steering.rows[0].faults, Some((9000.0, 10000.0)));
        insta::assert_snapshot!(render(&steering));
    }
}
