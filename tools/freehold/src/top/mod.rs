//! `freehold top`: a program's heap, live, by call site.
//!
//! [`model`] is what is known, [`screen`] and [`panes`] draw it, [`keys`] change it. The profile file of the program
//! is only read, except for the marks and the wish for fresh statistics.

mod keys;
mod model;
mod panes;
mod pick;
mod plain;
mod rows;
mod screen;
#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use profile_file::{Control, Heaps, HeapsError, Held, Snapshot, Target, process};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use keys::Wish;
use model::Model;
use screen::Theme;

use crate::leaks::{judged, parse_time};
use crate::naming::NamingArgs;

/// Shows the heap of a running program: live sites with error bars, rates, ages and trends.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold top                 the observed program, or a list to choose from\n  \
    freehold top 4711            a process; press ? for the keys\n  \
    freehold top server --once   one plain screen, for scripts\n  \
    freehold top 4711 --json     an object for each refresh, one a line\n\n\
    Colours follow NO_COLOR.")]
pub struct Args {
    /// The process, by number or name; a run, a profile file or saved snapshot also works.
    #[arg(value_name = "PID|NAME|FILE")]
    target: Option<String>,

    /// Time between two looks.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    every: Duration,

    /// Print one plain screen and end.
    #[arg(long, conflicts_with = "batch")]
    once: bool,

    /// Print a plain screen at each refresh.
    #[arg(long)]
    batch: bool,

    /// Print a JSON object at each refresh, one a line; with --once a single one.
    #[arg(long, conflicts_with = "batch")]
    json: bool,

    /// Sites that plain screens and JSON show.
    #[arg(long, value_name = "N", default_value_t = 20)]
    sites: usize,

    #[command(flatten)]
    naming: NamingArgs,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let interactive = !(args.once || args.batch || args.json)
        && std::io::stdout().is_terminal()
        && std::io::stdin().is_terminal();
    let target = match (&args.target, interactive) {
        (None, true) => match pick::choose()? {
            Some(target) => target,
            None => return Ok(ExitCode::SUCCESS),
        },
        (word, _) => Target::find_or_only(word.as_deref())?,
    };
    let mut feed = Feed::open(
        target,
        args.every.max(Duration::from_millis(50)),
        &args.naming,
    )?;
    if interactive {
        let mut terminal = ratatui::init();
        let outcome = converse(&mut terminal, &mut feed);
        ratatui::restore();
        outcome?;
    } else {
        plain::print(&mut feed, args)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A program and the model of it.
pub struct Feed {
    profile: Held,
    control: Option<Control>,
    every: Duration,
    looked: Instant,
    pub model: Model,
}

/// What is resident needs no answer of the program: the kernel knows it, also of one that sleeps and counts nothing.
fn with_resident_now(mut snapshot: Snapshot) -> Snapshot {
    let now = process::resident(snapshot.pid()).filter(|_| snapshot.is_alive());
    if let (Some(statistics), Some(bytes)) = (&mut snapshot.profile.statistics, now) {
        statistics.resident_bytes = bytes;
    }
    snapshot
}

/// The heaps that the program has made. Of one that has ended none are left, and the last that were read stay.
fn heaps_of(profile: &Held, snapshot: &Snapshot) -> Result<Heaps, String> {
    match profile.heaps(snapshot) {
        Err(HeapsError::Gone) => Ok(Heaps::default()),
        heaps => heaps.map_err(|reason| reason.to_string()),
    }
}

impl Feed {
    fn open(target: Target, every: Duration, naming: &NamingArgs) -> Result<Feed> {
        // Without the right to write one can look, but not ask for fresh statistics.
        let control = target
            .profile_path()
            .and_then(|path| Control::open(path).ok());
        if let Some(control) = &control {
            control.refresh(Duration::from_millis(30));
        }
        let profile = target.hold()?;
        let (snapshot, cleared) = judged(naming.of(profile.read()?));
        let mut model = Model::new(with_resident_now(snapshot), target.word());
        model.gone = !model.snapshot.is_alive();
        model.cleared = cleared;
        model.heaps = heaps_of(&profile, &model.snapshot);
        Ok(Feed {
            control,
            every,
            looked: Instant::now(),
            model,
            profile,
        })
    }

    /// Reads the profile file again. What its program held when it ended, before it cleared up, stays on the screen.
    fn look(&mut self) {
        self.looked = Instant::now();
        if self.model.gone {
            return;
        }
        match self.profile.read() {
            Ok(snapshot) => {
                let (snapshot, cleared) = judged(snapshot);
                self.model.gone = !snapshot.is_alive();
                self.model.cleared = cleared;
                if snapshot.is_alive() {
                    self.model.heaps = heaps_of(&self.profile, &snapshot);
                }
                self.model.take(with_resident_now(snapshot));
            }
            Err(_) => self.model.gone = true,
        }
        if let Some(control) = &self.control {
            control.ask();
        }
    }

    fn due(&self) -> Duration {
        self.every.saturating_sub(self.looked.elapsed())
    }

    fn mark(&mut self) {
        let Some(control) = self.control.as_ref().filter(|_| !self.model.gone) else {
            self.model.message =
                Some("no mark: it needs a program that runs, and its owner's rights".to_owned());
            return;
        };
        let mark = control.set_mark();
        self.model.set_baseline(format!("mark {mark}"));
        self.model.message = Some(format!(
            "mark {mark} is set; what outlives two marks: freehold leaks {}",
            self.model.word
        ));
    }

    fn save(&mut self) {
        let mut snapshot = self.model.snapshot.clone();
        snapshot.heaps = self.model.heaps.clone().ok();
        let message = match free_name(&self.model).and_then(|path| {
            snapshot.save(&path)?;
            Ok(path)
        }) {
            Ok(path) => {
                let path = path.display().to_string();
                self.model.set_baseline(path.clone());
                format!(
                    "written to {path}; compare: freehold diff {path} {}",
                    self.model.word
                )
            }
            Err(error) => format!("not written: {error:#}"),
        };
        self.model.message = Some(message);
    }
}

/// A file name in this directory that is not taken.
fn free_name(model: &Model) -> Result<PathBuf> {
    let program = model.snapshot.program();
    let name = program.rsplit('/').next().unwrap_or("program");
    (1..10_000)
        .map(|number| PathBuf::from(format!("{name}-{}-{number}.freehold", model.snapshot.pid())))
        .find(|path| !path.exists())
        .context("this directory has ten thousand snapshots already")
}

/// Draws, waits for a key or the next look, until the person leaves.
fn converse(terminal: &mut DefaultTerminal, feed: &mut Feed) -> Result<()> {
    let theme = Theme::of_environment();
    loop {
        terminal.draw(|frame| screen::draw(frame, &feed.model, theme))?;
        if event::poll(feed.due().max(Duration::from_millis(10)))? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => {
                    match keys::press(&mut feed.model, key) {
                        Wish::Quit => return Ok(()),
                        Wish::Refresh => feed.look(),
                        Wish::Mark => feed.mark(),
                        Wish::Save => feed.save(),
                        Wish::Nothing => {}
                    }
                }
                _ => {}
            }
        } else if !feed.model.paused {
            feed.look();
        }
        if feed.due().is_zero() && feed.model.paused {
            // Nothing to wait for but keys.
            feed.looked = Instant::now();
        }
    }
}
