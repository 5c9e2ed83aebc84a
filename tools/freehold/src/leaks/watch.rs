//! Looks at a live program again and again, so that growth is seen and not only concluded.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use profile_file::{Control, Snapshot, Target};
use serde::Serialize;

/// Looks a watch takes, apart from the first.
const LOOKS: u32 = 40;
/// The shortest time between two of them.
const LEAST_PAUSE: Duration = Duration::from_millis(50);

/// Live bytes of every site at each look.
#[derive(Default)]
pub struct Watch {
    begun_ns: u64,
    sites: HashMap<u32, Vec<Point>>,
    looks: usize,
    first: HashMap<(u32, u64, u64), f64>,
    change: HashMap<u32, Change>,
}

/// Live bytes of a site at a time, which is in seconds since the watch began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    pub at: f64,
    pub bytes: f64,
    pub error: f64,
}

#[derive(Clone, Copy, Default)]
struct Change {
    bytes: f64,
    squares: f64,
}

/// What was seen of one site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    pub seconds: f64,
    /// Live bytes at the end less those at the beginning. The error is that of blocks that came or went only: what
    /// was there all the time says nothing about change.
    pub change: f64,
    pub error: f64,
    pub points: Vec<Point>,
}

impl Watch {
    pub fn add(&mut self, snapshot: &Snapshot) {
        let now = snapshot.now_ns();
        if self.looks == 0 {
            self.begun_ns = now;
            self.first = weights(snapshot);
        }
        self.looks += 1;
        for site in &snapshot.sites {
            let points = self.sites.entry(site.number).or_default();
            points.push(Point {
                at: now.saturating_sub(self.begun_ns) as f64 / 1e9,
                bytes: site.live.bytes,
                error: site.live.error(),
            });
        }
    }

    /// Compares the last look with the first.
    pub fn finish(&mut self, last: &Snapshot) {
        self.change.clear();
        let mut now = weights(last);
        for (block, before) in &self.first {
            let difference = now.remove(block).unwrap_or(0.0) - before;
            self.change.entry(block.0).or_default().add(difference);
        }
        for (block, weight) in now {
            self.change.entry(block.0).or_default().add(weight);
        }
    }

    /// Length, in seconds.
    pub fn seconds(&self) -> f64 {
        let ends = self.sites.values().filter_map(|points| points.last());
        ends.map(|point| point.at).fold(0.0, f64::max)
    }

    pub fn of_site(&self, site: u32) -> Option<Series> {
        let points = self.sites.get(&site)?;
        let end = points.last()?.at;
        let change = self.change.get(&site).copied().unwrap_or_default();
        (self.looks > 1).then(|| Series {
            seconds: end,
            change: change.bytes,
            error: change.squares.sqrt(),
            points: points.clone(),
        })
    }
}

impl Change {
    fn add(&mut self, difference: f64) {
        self.bytes += difference;
        self.squares += difference * difference;
    }
}

/// What each live sample stands for. A block is told by its address and birth: an address is used again.
fn weights(snapshot: &Snapshot) -> HashMap<(u32, u64, u64), f64> {
    snapshot
        .samples
        .iter()
        .map(|s| ((s.site, s.address, s.born_ns), s.weight.bytes))
        .collect()
}

/// Watches a live program for so long, and gives the last snapshot. If it ends meanwhile, what was seen of it counts.
pub fn watch(target: &Target, length: Duration) -> Result<(Snapshot, Watch)> {
    let control = target
        .profile_path()
        .and_then(|path| Control::open(path).ok());
    let mut watch = Watch::default();
    // A profile file that vanishes from its directory is that of a program that ended by itself: it is read to the end.
    let profile = target.hold()?;
    let mut last = profile.read()?;
    watch.add(&last);
    let begin = Instant::now();
    let pause = (length / LOOKS).max(LEAST_PAUSE);
    let mut shown = Progress::new(&last, length);
    while begin.elapsed() < length && last.is_alive() {
        thread::sleep(pause.min(length.saturating_sub(begin.elapsed())));
        if let Some(control) = &control {
            control.ask();
        }
        let Ok(next) = profile.read() else { break };
        if !next.is_alive() {
            // What it held before it cleared up is what was watched.
            last = super::judged(next.clone()).0;
            watch.add(&last);
            watch.finish(&last);
            shown.clear();
            return Ok((next, watch));
        }
        watch.add(&next);
        last = next;
        shown.update(begin.elapsed());
    }
    shown.clear();
    watch.finish(&last);
    Ok((last, watch))
}

/// A line that says what one waits for, on a terminal only.
struct Progress {
    text: String,
    length: Duration,
    shown: bool,
}

impl Progress {
    fn new(snapshot: &Snapshot, length: Duration) -> Progress {
        let program = snapshot.program();
        let name = program.rsplit('/').next().unwrap_or_default();
        let mut progress = Progress {
            text: format!("watching {name} ({})", snapshot.pid()),
            length,
            shown: std::io::stderr().is_terminal(),
        };
        progress.update(Duration::ZERO);
        progress
    }

    fn update(&mut self, elapsed: Duration) {
        if self.shown {
            let left = self.length.saturating_sub(elapsed).as_secs_f64().ceil();
            tell!("\r\x1b[K{}, {left:.0} s to go", self.text);
            let _ = std::io::stderr().flush();
        }
    }

    fn clear(&mut self) {
        if self.shown {
            tell!("\r\x1b[K");
            let _ = std::io::stderr().flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile_file::testing::ProfileBuilder;

    #[test]
    fn what_was_there_all_the_time_adds_no_error_to_the_change() {
        let mut profile = ProfileBuilder::new(512 << 10);
        let site = profile.site(&[1]);
        for _ in 0..1000 {
            profile.allocate(site, 64, 0);
        }
        profile.point(1_000_000_000, 1, 1);
        let mut watch = Watch::default();
        watch.add(&profile.snapshot());
        assert_eq!(watch.of_site(site), None, "one look is no watch");
        profile.allocate(site, 64, 2_000_000_000);
        profile.point(3_000_000_000, 1, 1);
        let last = profile.snapshot();
        watch.add(&last);
        watch.finish(&last);
        let series = watch.of_site(site).unwrap();
        assert!((series.change - 524_320.0).abs() < 1.0, "{}", series.change);
        assert!(
            (series.error - 524_320.0).abs() < 1.0,
            "one sample, one sigma"
        );
        assert_eq!(series.points.len(), 2);
        assert_eq!(series.seconds, 2.0);
    }
}
