//! The progress bar, and plain lines where there is no terminal to draw it on.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

pub struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    done: usize,
    begun: Instant,
    last_line: Instant,
}

/// How often a line appears where no bar can be drawn: in a build log, say.
const QUIET: Duration = Duration::from_secs(30);

impl Progress {
    pub fn new(total: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total as u64);
            let style =
                "{bar:30.green/black} {pos}/{len} runs  {elapsed} gone, about {eta} left  {msg}";
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
            begun: Instant::now(),
            last_line: Instant::now(),
        }
    }

    pub fn at(&self, workload: &str, allocator: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{workload} / {allocator}"));
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

    fn line(&self) -> String {
        let gone = self.begun.elapsed().as_secs_f64();
        let left = gone / self.done.max(1) as f64 * self.total.saturating_sub(self.done) as f64;
        format!(
            "{} of {} runs, {gone:.0} s gone, about {left:.0} s left",
            self.done, self.total
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
