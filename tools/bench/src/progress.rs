//! The progress bar, and plain lines where there is no terminal to draw it on.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

pub struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    done: usize,
    /// No run takes longer than this.
    budget: f64,
    begun: Instant,
    last_line: Instant,
}

/// How often a line appears where no bar can be drawn: in a build log, say.
const QUIET: Duration = Duration::from_secs(30);

impl Progress {
    pub fn new(total: usize, budget: f64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total as u64);
            let style = "{bar:30.green/black} {pos}/{len} runs  {elapsed} gone, {msg}";
            // The template is a constant, so a mistake in it shows at the first use; the default is no disaster.
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Self {
            bar,
            total,
            done: 0,
            budget,
            begun: Instant::now(),
            last_line: Instant::now(),
        }
    }

    pub fn at(&self, workload: &str, allocator: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!(
                "about {:.0} s left  {workload} / {allocator}",
                self.seconds_left()
            ));
        }
    }

    pub fn step(&mut self) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
        } else if self.last_line.elapsed() >= QUIET {
            self.last_line = Instant::now();
            eprintln!("bench: {}", self.line());
        }
    }

    /// By the average so far, but never beyond the budget.
    fn seconds_left(&self) -> f64 {
        let gone = self.begun.elapsed().as_secs_f64();
        let at_this_rate =
            gone / self.done.max(1) as f64 * self.total.saturating_sub(self.done) as f64;
        at_this_rate.min((self.budget - gone).max(0.0))
    }

    fn line(&self) -> String {
        let gone = self.begun.elapsed().as_secs_f64();
        format!(
            "{} of {} runs, {gone:.0} s gone, about {:.0} s left",
            self.done,
            self.total,
            self.seconds_left()
        )
    }

    /// Runs that will not happen: a repeat of what failed, or a round beyond the budget.
    pub fn forget(&mut self, runs: usize) {
        self.total = self.total.saturating_sub(runs);
        if let Some(bar) = &self.bar {
            bar.set_length(self.total as u64);
        }
    }

    /// A word in between, above the bar.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("bench: {text}")),
            None => eprintln!("bench: {text}"),
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
