//! What `top` knows: the last snapshot, what came before it, and what the person chose to see.

use std::collections::{HashMap, VecDeque};

use profile_file::{Clearing, Heaps, LiveSample, Snapshot, Symbols};

use crate::call_site::CallSite;
use crate::leaks::finding::history;
use crate::leaks::text::before_clearing;
use crate::leaks::verdict::{Rules, judge};

use super::rows::{Row, Stack, rows};

/// Snapshots that the curves go back.
pub const HISTORY: usize = 120;

/// What the list is sorted by; the biggest first, and names from A to Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Live,
    Rate,
    Change,
    Age,
    Name,
}

impl Sort {
    pub const ALL: [Sort; 5] = [Sort::Live, Sort::Rate, Sort::Change, Sort::Age, Sort::Name];

    pub fn name(self) -> &'static str {
        match self {
            Sort::Live => "live",
            Sort::Rate => "rate",
            Sort::Change => "change",
            Sort::Age => "age",
            Sort::Name => "name",
        }
    }

    pub fn next(self) -> Sort {
        let place = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(place + 1) % Self::ALL.len()]
    }
}

/// The lower half of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    Sites,
    Details,
    Classes,
    Heaps,
    Help,
}

/// Sums of one moment that become rates and curves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    pub at_ns: u64,
    pub resident: f64,
    pub live: f64,
    pub allocated: f64,
    pub freed: f64,
}

/// Live bytes by site that later ones are compared with.
struct Baseline {
    name: String,
    live: HashMap<u32, f64>,
}

pub struct Model {
    pub snapshot: Snapshot,
    pub symbols: Symbols,
    /// Every call site; the rows put together those of one line.
    stacks: Vec<Stack>,
    pub rows: Vec<Row>,
    pub points: VecDeque<Point>,
    pub sort: Sort,
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    pub selected: usize,
    /// Which of the selected row's stacks the details show.
    pub stack: usize,
    pub pane: Pane,
    pub paused: bool,
    /// The program cannot be read any more.
    pub gone: bool,
    /// The heaps that the program has made, or why they are not known.
    pub heaps: Result<Heaps, String>,
    /// What it freed at its end; what is shown is the moment before.
    pub cleared: Option<Clearing>,
    pub message: Option<String>,
    /// How it would be named to another command.
    pub word: String,
    curves: HashMap<u32, VecDeque<f64>>,
    allocated: HashMap<u32, f64>,
    call_sites: HashMap<u32, CallSite>,
    baseline: Option<Baseline>,
}

impl Model {
    pub fn new(snapshot: Snapshot, word: String) -> Model {
        let symbols = Symbols::new(&snapshot);
        let mut model = Model {
            symbols,
            stacks: Vec::new(),
            rows: Vec::new(),
            points: VecDeque::new(),
            sort: Sort::Live,
            filter: String::new(),
            typing: false,
            selected: 0,
            stack: 0,
            pane: Pane::Sites,
            paused: false,
            gone: false,
            heaps: Ok(Heaps::default()),
            cleared: None,
            message: None,
            word,
            curves: HashMap::new(),
            allocated: HashMap::new(),
            call_sites: HashMap::new(),
            baseline: None,
            snapshot: snapshot.clone(),
        };
        model.seed(&snapshot);
        model.take(snapshot);
        model
    }

    /// The profile file's own timeline is older than this command: the curve of what is resident begins with it.
    fn seed(&mut self, snapshot: &Snapshot) {
        let timeline = &snapshot.profile.timeline;
        let begin = timeline.len().saturating_sub(HISTORY / 2);
        for point in &timeline[begin..] {
            self.points.push_back(Point {
                at_ns: point.ns,
                resident: point.resident_bytes as f64,
                live: point.live_bytes as f64,
                ..Point::default()
            });
        }
    }

    /// What it is about if the program cleared up, what was odd in the profile file, and what made names missing.
    pub fn notes(&self) -> Vec<String> {
        let odd = self.snapshot.warnings.iter().map(ToString::to_string);
        let about = self.cleared.iter().map(before_clearing);
        about
            .chain(odd)
            .chain(self.symbols.warnings().iter().cloned())
            .collect()
    }

    /// Takes a new snapshot over.
    pub fn take(&mut self, mut snapshot: Snapshot) {
        snapshot.naming = self.snapshot.naming.clone();
        self.symbols.update(&snapshot);
        let now = snapshot.now_ns();
        let statistics = snapshot.profile.statistics.as_deref();
        let point = Point {
            at_ns: now,
            resident: statistics.map_or(0.0, |f| f.resident_bytes as f64),
            live: statistics.map_or(0.0, |f| (f.live_bytes + f.huge_bytes) as f64),
            allocated: snapshot.sites.iter().map(|s| s.allocated.bytes).sum(),
            freed: snapshot.sites.iter().map(|s| s.freed.bytes).sum(),
        };
        push(&mut self.points, point);
        // Before there is a second look, the rate is that of the program's whole life.
        let seconds = if self.allocated.is_empty() {
            snapshot.running_ns() as f64 / 1e9
        } else {
            now.saturating_sub(self.snapshot.now_ns()) as f64 / 1e9
        };
        let chosen = self.chosen_by_hand();
        self.snapshot = snapshot;
        self.stacks = self.make_stacks(seconds.max(1e-3));
        self.allocated = self
            .snapshot
            .sites
            .iter()
            .map(|site| (site.number, site.allocated.bytes))
            .collect();
        self.arrange_around(chosen);
    }

    fn make_stacks(&mut self, seconds: f64) -> Vec<Stack> {
        let mut samples: HashMap<u32, Vec<&LiveSample>> = HashMap::new();
        for sample in &self.snapshot.samples {
            samples.entry(sample.site).or_default().push(sample);
        }
        let now = self.snapshot.now_ns();
        let rules = Rules::default();
        self.snapshot
            .sites
            .iter()
            .map(|site| {
                let curve = self.curves.entry(site.number).or_default();
                push(curve, site.live.bytes);
                let before = self.allocated.get(&site.number).copied().unwrap_or(0.0);
                let live = samples.remove(&site.number).unwrap_or_default();
                let call_site = self
                    .call_sites
                    .entry(site.number)
                    .or_insert_with(|| CallSite::of(&self.snapshot, &mut self.symbols, site.node));
                let baseline = self.baseline.as_ref();
                Stack {
                    site: site.number,
                    call_site: call_site.clone(),
                    live: site.live,
                    rate: (site.allocated.bytes - before).max(0.0) / seconds,
                    change: baseline
                        .map(|b| site.live.bytes - b.live.get(&site.number).unwrap_or(&0.0)),
                    ages: live.iter().map(|sample| sample.age_ns).collect(),
                    curve: curve.iter().copied().collect(),
                    freed_at_age: site.freed_at_age,
                    allocated: site.allocated,
                    freed: site.freed,
                    judgement: judge(&history(&self.snapshot, site, &live), now, &rules),
                }
            })
            .collect()
    }

    /// The site that a person moved to; the first row is nobody's choice, whatever stands there.
    fn chosen_by_hand(&self) -> Option<u32> {
        let moved = self.selected > 0 || self.pane == Pane::Details;
        self.chosen().filter(|_| moved).map(Row::site)
    }

    /// Puts the rows in order. The site that was chosen stays selected, wherever it moves to.
    pub fn arrange(&mut self) {
        let chosen = self.chosen_by_hand();
        self.arrange_around(chosen);
    }

    fn arrange_around(&mut self, chosen: Option<u32>) {
        self.rows = rows(&self.stacks, &self.filter, self.sort);
        if let Some(site) = chosen {
            let place = self.rows.iter().position(|row| row.has_site(site));
            self.selected = place.unwrap_or(self.selected);
        }
        self.clamp();
    }

    pub fn chosen(&self) -> Option<&Row> {
        self.rows.get(self.selected)
    }

    /// The stack of the selected row that the details show, and its place among them.
    pub fn chosen_stack(&self) -> Option<(usize, &Stack)> {
        let row = self.chosen()?;
        let place = self.stack.min(row.stacks.len() - 1);
        Some((place, &row.stacks[place]))
    }

    /// Goes to another stack of the selected row.
    pub fn turn(&mut self, step: isize) {
        let last = self.chosen().map_or(0, |row| row.stacks.len() - 1);
        self.stack = self.stack.min(last).saturating_add_signed(step).min(last);
    }

    pub fn select(&mut self, step: isize) {
        self.selected = self.selected.saturating_add_signed(step);
        self.stack = 0;
        self.clamp();
    }

    fn clamp(&mut self) {
        let last = self.rows.len().saturating_sub(1);
        self.selected = self.selected.min(last);
    }

    /// From now on the changes are those since now.
    pub fn set_baseline(&mut self, name: String) {
        let live = self
            .snapshot
            .sites
            .iter()
            .map(|site| (site.number, site.live.bytes))
            .collect();
        self.baseline = Some(Baseline { name, live });
        self.stacks
            .iter_mut()
            .for_each(|stack| stack.change = Some(0.0));
        self.arrange();
    }

    pub fn clear_baseline(&mut self) {
        self.baseline = None;
        self.stacks.iter_mut().for_each(|stack| stack.change = None);
        self.arrange();
    }

    pub fn baseline_name(&self) -> Option<&str> {
        self.baseline
            .as_ref()
            .map(|baseline| baseline.name.as_str())
    }

    /// Bytes a second that were allocated and freed between the last two looks of this command.
    pub fn rates(&self) -> Option<(f64, f64)> {
        let mut latest = self.points.iter().rev();
        let (last, before) = (latest.next()?, latest.next()?);
        let seconds = last.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        (before.allocated > 0.0 && seconds > 0.0).then(|| {
            (
                (last.allocated - before.allocated).max(0.0) / seconds,
                (last.freed - before.freed).max(0.0) / seconds,
            )
        })
    }

    /// running, ended or killed; gone: its profile file cannot be read any more.
    pub fn state(&self) -> &'static str {
        if self.gone && self.snapshot.is_alive() {
            "ended"
        } else {
            crate::leaks::state(&self.snapshot)
        }
    }
}

fn push<T>(queue: &mut VecDeque<T>, value: T) {
    if queue.len() == HISTORY {
        queue.pop_front();
    }
    queue.push_back(value);
}
