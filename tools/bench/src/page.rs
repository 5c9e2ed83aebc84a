//! The HTML page of a run: one file, no network, nothing but what is in it.
//!
//! The page is a fixed frame (`page/frame.html`, `page/style.css`, `page/script.js`) around a block of JSON. All
//! statistics are done here, so that the page and the terminal can never disagree; the script only draws.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::figures::{Figures, Metric};
use crate::record::{Allocator, Machine, Outcome, Record, Run, Settings, Skipped, Workload};
use crate::statistics::{Ratio, Verdict, median};
use crate::steering::{self, Mean, Standing, Steering};

const FRAME: &str = include_str!("page/frame.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

#[derive(Serialize)]
struct Page<'a> {
    machine: &'a Machine,
    settings: &'a Settings,
    started: u64,
    seconds: f64,
    interrupted: bool,
    allocators: &'a [Allocator],
    skipped: &'a [Skipped],
    standings: Vec<StandingData>,
    steering: SteeringData,
    workloads: Vec<WorkloadData>,
}

#[derive(Serialize)]
struct StandingData {
    allocator: String,
    cpu: Option<f64>,
    rss: Option<f64>,
    faults: Option<f64>,
    best_cpu: Option<f64>,
    best_rss: Option<f64>,
    faster: usize,
    equal: usize,
    slower: usize,
    failed: usize,
}

#[derive(Serialize)]
struct SteeringData {
    best_cpu: Option<f64>,
    best_rss: Option<f64>,
    cpu: Option<f64>,
    rss: Option<f64>,
    worst: Option<f64>,
    worst_where: String,
    /// Workload, peer, and ratio of each sure loss, the worst first.
    losses: Vec<(String, String, f64)>,
    aims: [f64; 5],
}

#[derive(Serialize)]
struct WorkloadData {
    name: String,
    family: String,
    args: String,
    threads: Option<usize>,
    beyond_cores: bool,
    real: bool,
    /// The metrics in which the reference's weakness decides the row.
    weak: Vec<&'static str>,
    cells: BTreeMap<String, CellData>,
}

#[derive(Serialize)]
struct CellData {
    runs: usize,
    failure: Option<String>,
    reason: String,
    cpu: Option<MetricData>,
    rss: Option<MetricData>,
    wall: Option<MetricData>,
    faults: Option<MetricData>,
    /// Medians of all that was reported or counted besides.
    figures: BTreeMap<String, f64>,
    /// Of the first good run: means of curves would blur the steps that one looks for.
    series: BTreeMap<String, Vec<(f64, f64)>>,
}

#[derive(Serialize)]
struct MetricData {
    median: f64,
    minimum: f64,
    spread: f64,
    rank: usize,
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    same: bool,
}

/// What the script calls the metrics.
const METRICS: [(&str, Metric); 4] = [
    ("cpu", Metric::Cpu),
    ("rss", Metric::PeakRss),
    ("wall", Metric::Wall),
    ("faults", Metric::Faults),
];

pub fn render(record: &Record) -> anyhow::Result<String> {
    let figures = Figures::new(record);
    let steering = steering::steer(&figures);
    let page = Page {
        machine: &record.machine,
        settings: &record.settings,
        started: record.started,
        seconds: record.seconds,
        interrupted: record.interrupted,
        allocators: &record.allocators,
        skipped: &record.skipped,
        steering: SteeringData {
            best_cpu: of_ours(&steering, |ours| ours.best_cpu),
            best_rss: of_ours(&steering, |ours| ours.best_rss),
            cpu: of_ours(&steering, |ours| ours.cpu),
            rss: of_ours(&steering, |ours| ours.rss),
            worst: steering.worst.as_ref().map(|worst| worst.ratio.value),
            worst_where: steering.worst.as_ref().map_or(String::new(), |w| {
                format!("{} against {}", w.workload, w.peer)
            }),
            losses: steering
                .losses
                .iter()
                .map(|l| (l.workload.clone(), l.peer.clone(), l.ratio.value))
                .collect(),
            aims: [
                steering::AIM_BEST_CPU,
                steering::AIM_BEST_RSS,
                steering::AIM_CPU,
                steering::AIM_RSS,
                steering.aim_worst,
            ],
        },
        standings: steering
            .standings
            .into_iter()
            .map(StandingData::from)
            .collect(),
        workloads: figures
            .measured()
            .map(|workload| workload_data(&figures, workload))
            .collect(),
    };
    // Inside a script element only its end tag has a meaning; JSON allows the slash to be escaped.
    let data = serde_json::to_string(&page)?.replace("</", "<\\/");
    Ok(FRAME
        .replace("/*style*/", STYLE)
        .replace("/*script*/", SCRIPT)
        .replace("/*data*/", &data))
}

fn of_ours(steering: &Steering, mean: impl Fn(&Standing) -> Mean) -> Option<f64> {
    steering.ours.as_ref().and_then(|ours| mean(ours).value)
}

impl From<Standing> for StandingData {
    fn from(s: Standing) -> Self {
        Self {
            allocator: s.allocator,
            cpu: s.cpu.value,
            rss: s.rss.value,
            faults: s.faults.value,
            best_cpu: s.best_cpu.value,
            best_rss: s.best_rss.value,
            faster: s.faster,
            equal: s.equal,
            slower: s.slower,
            failed: s.failed,
        }
    }
}

fn workload_data(figures: &Figures, workload: &Workload) -> WorkloadData {
    let record = figures.record;
    let cells = record
        .allocators
        .iter()
        .filter(|a| !figures.runs(&workload.name, &a.name).is_empty())
        .map(|a| (a.name.clone(), cell_data(figures, &workload.name, &a.name)))
        .collect();
    WorkloadData {
        name: workload.name.clone(),
        family: workload.family.clone(),
        args: if workload.real {
            String::new()
        } else {
            workload.args.join(" ")
        },
        threads: workload.threads,
        beyond_cores: workload
            .threads
            .is_some_and(|threads| threads > record.machine.cores),
        real: workload.real,
        weak: METRICS
            .into_iter()
            .filter(|(_, metric)| figures.reference_is_weak(&workload.name, *metric))
            .map(|(key, _)| key)
            .collect(),
        cells,
    }
}

fn cell_data(figures: &Figures, workload: &str, allocator: &str) -> CellData {
    let runs = figures.runs(workload, allocator);
    let failure = figures.failure(workload, allocator);
    let good: &[&Run] = if failure.is_some() { &[] } else { runs };
    let metric = |metric| metric_data(figures, workload, allocator, metric);
    CellData {
        runs: runs.len(),
        failure: failure.map(|outcome| outcome.word().to_owned()),
        reason: failure.map_or(String::new(), |outcome: &Outcome| {
            outcome.reason().to_owned()
        }),
        cpu: metric(Metric::Cpu),
        rss: metric(Metric::PeakRss),
        wall: metric(Metric::Wall),
        faults: metric(Metric::Faults),
        figures: medians(good),
        series: good
            .first()
            .map(|run| run.series.clone())
            .unwrap_or_default(),
    }
}

fn metric_data(
    figures: &Figures,
    workload: &str,
    allocator: &str,
    metric: Metric,
) -> Option<MetricData> {
    let summary = figures.summary(workload, allocator, metric)?;
    let ratio: Option<Ratio> = figures.ratio(
        workload,
        allocator,
        &figures.record.settings.reference,
        metric,
    );
    // An interval without ends (a single pair) is none.
    let bounded = ratio.filter(|ratio| ratio.high.is_finite());
    Some(MetricData {
        median: summary.median,
        minimum: summary.minimum,
        spread: summary.spread,
        rank: figures
            .ranks(workload, metric)
            .get(allocator)
            .copied()
            .unwrap_or(0),
        ratio: ratio.map(|ratio| ratio.value),
        low: bounded.map(|ratio| ratio.low),
        high: bounded.map(|ratio| ratio.high),
        same: ratio.is_none_or(|ratio| ratio.verdict() == Verdict::Same),
    })
}

fn medians(runs: &[&Run]) -> BTreeMap<String, f64> {
    let keys: BTreeSet<&String> = runs.iter().flat_map(|run| run.figures.keys()).collect();
    let mut all: BTreeMap<String, f64> = keys
        .into_iter()
        .filter_map(|key| {
            let values: Vec<f64> = runs
                .iter()
                .filter_map(|run| run.figures.get(key).copied())
                .collect();
            Some((key.clone(), median(&values)?))
        })
        .collect();
    let mut counted = |name: &str, of: &dyn Fn(&Run) -> f64| {
        let values: Vec<f64> = runs.iter().map(|run| of(run)).collect();
        all.extend(median(&values).map(|value| (name.to_owned(), value)));
    };
    counted("user_s", &|run| run.user);
    counted("system_s", &|run| run.system);
    counted("faults", &|run| {
        (run.minor_faults + run.major_faults) as f64
    });
    counted("switches", &|run| {
        (run.switches_voluntary + run.switches_forced) as f64
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::example;

    #[test]
    fn the_page_is_one_file_without_network() {
        let record = example(&[("mimalloc3", &[1.0, 1.0]), ("freehold", &[0.5, 0.5])]);
        let html = render(&record).unwrap();
        assert!(html.contains("\"cpu\":0.5"), "the figures are in it");
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            assert!(
                !html
                    .replace("http://www.w3.org/2000/svg", "")
                    .contains(outside),
                "{outside}"
            );
        }
        assert!(
            !html.contains("/*data*/")
                && !html.contains("/*script*/")
                && !html.contains("/*style*/")
        );
    }

    #[test]
    fn text_of_a_failure_cannot_end_the_script() {
        let mut record = example(&[("mimalloc3", &[1.0])]);
        record.runs[0].outcome = Outcome::Failed("</script><b>".into());
        assert!(!render(&record).unwrap().contains("</script><b>"));
    }
}
