//! Memory in a document: `freehold bench report RECORD.json --memory` prints a table of what each workload of a run had
//! resident, at each moment that it names; `--picture FILE.svg` draws what it had over time.

use std::fmt::Write;

use crate::figures::{Figures, Metric};
use crate::record::{Allocator, Record, Run};
use crate::statistics::median;

const MIB: f64 = 1_048_576.0;

/// Colours that can be told apart, ours first.
const COLOURS: [&str; 9] = [
    "#1b6ca8", "#b23a3a", "#2a9d5c", "#e08e1b", "#7b4fa3", "#8c6d46", "#d16ba5", "#5a5a5a",
    "#00a5a5",
];

// ---------------------------------------------------------------------------------------------------- table

/// A figure of a run, in the unit that the table shows; none when the run does not have it.
type Reader<'a> = Box<dyn Fn(&Run) -> Option<f64> + 'a>;

/// One line of the table for each figure of each workload, a column for each allocator, the lowest in bold.
pub fn table(record: &Record) -> String {
    let figures = Figures::new(record);
    let mut text = String::from("| workload | figure |");
    for allocator in &record.allocators {
        let _ = write!(text, " {} |", allocator.label);
    }
    let _ = writeln!(
        text,
        "\n|---|---|{}",
        "---|".repeat(record.allocators.len())
    );
    for workload in figures.measured() {
        let mut name = workload.name.as_str();
        for (title, digits, read) in lines_of(&figures, &workload.name) {
            let cells = record.allocators.iter().map(|allocator| {
                let runs = figures.runs(&workload.name, &allocator.name);
                let failed = figures.failure(&workload.name, &allocator.name);
                let values: Vec<f64> = runs.iter().filter_map(|run| read(run)).collect();
                failed.map_or_else(|| median(&values).ok_or("–"), |outcome| Err(outcome.word()))
            });
            let cells: Vec<_> = cells.collect();
            if cells.iter().all(|cell| *cell == Err("–")) {
                continue;
            }
            let _ = writeln!(text, "| {name} | {title} |{}", row(&cells, digits));
            name = "";
        }
    }
    text
}

/// The cells of a line: what is shown is compared, so that equal figures are all bold.
fn row(cells: &[Result<f64, &str>], digits: usize) -> String {
    let shown: Vec<String> = cells
        .iter()
        .map(|cell| cell.map_or_else(str::to_owned, |value| format!("{value:.digits$}")))
        .collect();
    let lowest = cells
        .iter()
        .zip(&shown)
        .filter_map(|(cell, text)| Some((cell.ok()?, text.clone())))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let mut line = String::new();
    for text in &shown {
        let first = lowest.as_ref().is_some_and(|(_, best)| best == text);
        let _ = if first {
            write!(line, " **{text}** |")
        } else {
            write!(line, " {text} |")
        };
    }
    line
}

/// What there is to say of a workload: its peak, its named moments in the order in which they come, its time.
fn lines_of<'a>(figures: &Figures, workload: &str) -> Vec<(String, usize, Reader<'a>)> {
    let mut lines: Vec<(String, usize, Reader)> = vec![(
        "peak, MiB".to_owned(),
        1,
        Box::new(|run| Some(run.peak_rss as f64 / MIB)),
    )];
    for moment in moments_of(figures, workload) {
        let spoken = moment.replace('_', " ");
        for (prefix, what) in [("rss@", "resident"), ("private_dirty@", "private dirty")] {
            let key = format!("{prefix}{moment}");
            let read = move |run: &Run| run.figures.get(&key).map(|bytes| bytes / MIB);
            lines.push((format!("{what}, {spoken}, MiB"), 1, Box::new(read)));
        }
    }
    lines.push((
        "CPU time, s".to_owned(),
        3,
        Box::new(|run| Some(Metric::Cpu.of(run))),
    ));
    lines
}

/// The order in which workloads come to their moments, by how the names begin.
const ORDER: [&str; 10] = [
    "start", "hello", "idle", "full", "fill", "sparse", "drift", "refill", "after", "end",
];

/// The names of the moments in the order in which they come: what is not known comes last, and of those that begin
/// alike, first the one without a number ("drifted", "drifted_0.2s"), but a trim ends what it belongs to.
fn moments_of(figures: &Figures, workload: &str) -> Vec<String> {
    let mut names: Vec<String> = figures
        .record
        .allocators
        .iter()
        .flat_map(|allocator| figures.runs(workload, &allocator.name))
        .flat_map(|run| run.figures.keys())
        .filter_map(|key| key.strip_prefix("rss@").map(str::to_owned))
        .collect();
    let number = |name: &str| -> f64 {
        let digits: String = name
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        let otherwise = if name.ends_with("trim") { 1e9 } else { -1.0 };
        digits.parse().unwrap_or(otherwise)
    };
    let place = |name: &str| {
        let known = ORDER.iter().position(|begin| name.starts_with(begin));
        known.unwrap_or(ORDER.len())
    };
    names.sort_by(|a, b| {
        let by_place = place(a).cmp(&place(b));
        by_place
            .then(number(a).total_cmp(&number(b)))
            .then(a.cmp(b))
    });
    names.dedup();
    names
}

// ---------------------------------------------------------------------------------------------------- picture

const WIDTH: f64 = 760.0;
const PANEL: f64 = 300.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 590.0;
const TOP: f64 = 36.0;
const HEIGHT: f64 = 210.0;

/// A panel for each workload that has a series of what was resident, one line an allocator. None if no workload has.
pub fn picture(record: &Record, wanted: &[String]) -> Option<String> {
    let figures = Figures::new(record);
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| name.starts_with(w));
    let panels: Vec<(&str, Vec<Line>)> = figures
        .measured()
        .filter(|workload| is_wanted(&workload.name))
        .map(|workload| (workload.name.as_str(), lines(&figures, &workload.name)))
        .filter(|(_, lines)| !lines.is_empty())
        .collect();
    if panels.is_empty() {
        return None;
    }
    let height = PANEL * panels.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (number, (name, lines)) in panels.iter().enumerate() {
        panel(&mut svg, name, lines, PANEL * number as f64);
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

struct Line<'a> {
    label: &'a str,
    colour: &'static str,
    ours: bool,
    points: &'a [(f64, f64)],
}

/// The first good run of each allocator that has a series: lines of several runs cannot be averaged, as each takes its
/// own time.
fn lines<'a>(figures: &Figures<'a>, workload: &str) -> Vec<Line<'a>> {
    let line = |(number, allocator): (usize, &'a Allocator)| {
        let runs = figures.runs(workload, &allocator.name);
        let run = runs.iter().find(|run| run.outcome.is_ok())?;
        let points = run.series.get("rss")?.as_slice();
        (points.len() > 1).then(|| Line {
            label: &allocator.label,
            colour: COLOURS[number % COLOURS.len()],
            ours: allocator.origin == crate::record::Origin::Ours,
            points,
        })
    };
    figures
        .record
        .allocators
        .iter()
        .enumerate()
        .filter_map(line)
        .collect()
}

/// A round step of which four to eight fit into a range.
fn step_for(range: f64) -> f64 {
    let power = 10f64.powf((range / 4.0).log10().floor());
    let fits = |step: &f64| range / step <= 8.0;
    [1.0, 2.0, 5.0]
        .map(|n| n * power)
        .into_iter()
        .find(fits)
        .unwrap_or(10.0 * power)
}

fn panel(svg: &mut String, name: &str, lines: &[Line], y: f64) {
    let points = || lines.iter().flat_map(|line| line.points);
    let end = points().fold(0.1, |most: f64, point| most.max(point.0));
    let top = points().fold(1.0, |most: f64, point| most.max(point.1 / MIB)) * 1.05;
    let x_of = |seconds: f64| LEFT + (RIGHT - LEFT) * seconds / end;
    let y_of = |mib: f64| y + TOP + HEIGHT * (1.0 - mib / top);
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"bold\">{name}: MiB resident over seconds</text>",
        y + 20.0
    );
    let step = step_for(top);
    for i in 0..=(top / step) as u32 {
        let (value, at) = (f64::from(i) * step, y_of(f64::from(i) * step));
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{RIGHT}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    let step = step_for(end);
    for i in 0..=(end / step) as u32 {
        let value = (f64::from(i) * step * 1000.0).round() / 1000.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{value}</text>",
            x_of(value),
            y + TOP + HEIGHT + 16.0
        );
    }
    // Ours last, above the others.
    for line in lines
        .iter()
        .filter(|l| !l.ours)
        .chain(lines.iter().filter(|l| l.ours))
    {
        let path: Vec<String> = line
            .points
            .iter()
            .map(|(seconds, bytes)| format!("{:.1},{:.1}", x_of(*seconds), y_of(bytes / MIB)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"/>",
            path.join(" "),
            line.colour,
            if line.ours { 3 } else { 1 }
        );
    }
    for (number, line) in lines.iter().enumerate() {
        let at = y + TOP + 12.0 + 18.0 * number as f64;
        let _ = writeln!(
            svg,
            "<line x1=\"{}\" y1=\"{:.1}\" x2=\"{}\" y2=\"{:.1}\" stroke=\"{}\" stroke-width=\"3\"/>\
             <text x=\"{}\" y=\"{at:.1}\">{}</text>",
            RIGHT + 14.0,
            at - 4.0,
            RIGHT + 34.0,
            at - 4.0,
            line.colour,
            RIGHT + 40.0,
            line.label
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::example;

    fn with_memory() -> Record {
        let mut record = example(&[("freehold", &[1.0, 3.0]), ("jemalloc", &[2.0])]);
        for (run, mib) in record.runs.iter_mut().zip([1.0, 3.0, 8.0]) {
            for (moment, share) in [("after_10s", 0.1), ("after_0.1s", 0.5), ("full", 1.0)] {
                run.figures
                    .insert(format!("rss@{moment}"), mib * share * MIB);
            }
            run.series
                .insert("rss".into(), vec![(0.0, 0.0), (0.5, mib * MIB), (1.5, MIB)]);
        }
        record
    }

    #[test]
    fn the_table_has_each_moment_in_order_and_the_lowest_in_bold() {
        insta::assert_snapshot!(table(&with_memory()));
    }

    #[test]
    fn a_failed_cell_shows_its_word() {
        let mut record = with_memory();
        record.runs[0].outcome = crate::record::Outcome::Timeout;
        assert!(table(&record).contains("| w | peak, MiB | time-out |"));
    }

    #[test]
    fn the_picture_has_a_line_for_each_allocator() {
        insta::assert_snapshot!(picture(&with_memory(), &[]).unwrap());
        assert!(picture(&with_memory(), &["other".into()]).is_none());
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(
            [step_for(7.9), step_for(800.0), step_for(0.9)],
            [1.0, 100.0, 0.2]
        );
    }
}
