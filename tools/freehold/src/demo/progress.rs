//! How far it is: a bar on a terminal, one line where there is none.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    pub fn new(runs: usize, what: &str) -> Self {
        if !stderr().is_terminal() {
            tell_line!("freehold demo: {what}, {runs} runs");
            return Self { bar: None };
        }
        let bar = ProgressBar::new(runs as u64);
        // The template is a constant, so a mistake in it shows at the first use; the default is no disaster.
        if let Ok(style) =
            ProgressStyle::with_template("{bar:30.green/black} {pos}/{len} runs  {elapsed}  {msg}")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar: Some(bar) }
    }

    pub fn at(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
    }

    pub fn step(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
