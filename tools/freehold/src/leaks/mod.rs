//! `freehold leaks`: does it leak, where, how fast, and when is the memory at its end?
//!
//! [`verdict`] has the statistics, [`finding`] applies them to a profile file, [`watch`] looks at a live program over
//! a time, [`reachability`] asks the program itself, [`gate`] is the check for continuous integration.

pub mod finding;
mod gate;
mod reachability;
#[cfg(test)]
mod simulation;
pub mod spread;
pub mod suppressions;
pub mod text;
pub mod trend;
pub mod verdict;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use profile_file::{Clearing, Control, Snapshot, Symbols, Target};
use serde::Serialize;

use crate::naming::NamingArgs;
use crate::output::print;
use finding::{Finding, Limit};
use gate::{FailOn, Outcome};
use reachability::{Scan, Unfinished};
use spread::Spread;
pub use suppressions::Suppressions;
use trend::Trend;
use verdict::{Rules, Verdict};
use watch::Watch;

/// Tells leaks from caches and noise: a verdict for each call site, with rates and error bars.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold leaks 4711                     watch a process for ten seconds, then say what leaks\n  \
    freehold leaks server --for 5m          for longer: slow leaks need time\n  \
    freehold leaks page.freehold            what a program left, or a saved snapshot\n  \
    freehold leaks 4711 --mark              set a mark; what outlives two marks is shown by the next look\n  \
    freehold leaks 4711 --reachability      ask the program which blocks it cannot find any more\n  \
    freehold leaks profile file --exit --fail-on any --suppressions known.txt    a check for CI\n\n\
    A likely leak grows by more than 4 sigma, goes on growing, and what is old is nearly all alive. A cache that\n\
    grows and stops is none.\n\n\
    Exit code: 0, 1 if --fail-on found what it looks for, 2 the question could not be answered; with --fail-on also if too\n\
    little was sampled or seen to say that there is none.")]
pub struct Args {
    /// The process, by number or name; or a run, a profile file or snapshot file. Without it: the one observed program.
    #[arg(value_name = "PID|NAME|FILE")]
    target: Option<String>,

    /// How long to watch a live process, such as 30s, 5m or 0 for a single look.
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    length: Duration,

    /// Set a mark and end. Blocks carry the number of marks before their birth.
    #[arg(long, conflicts_with_all = ["reachability", "exit", "fail_on"])]
    mark: bool,

    /// Ask the program to look, in a fork of itself, for blocks that nothing points to.
    #[arg(long, conflicts_with = "exit")]
    reachability: bool,

    /// How long to wait for the program's answer. Else it is ten seconds, and longer for a large program.
    #[arg(long, value_name = "TIME", requires = "reachability", value_parser = parse_time)]
    patience: Option<Duration>,

    /// The question is what is live at the end of a program that ended.
    #[arg(long)]
    exit: bool,

    /// End with 1 if there is a `likely` leak, `any` growth (with --exit: anything live), or more than so many BYTES.
    #[arg(long, value_name = "likely|any|BYTES")]
    fail_on: Option<FailOn>,

    /// Known leaks, as for LeakSanitizer: lines of leak:PATTERN.
    #[arg(long, value_name = "FILE")]
    suppressions: Option<PathBuf>,

    /// Only blocks of heaps (`fh_heap_new`) with this name, or path of names, and of those below them.
    #[arg(long, value_name = "NAME")]
    heap: Option<String>,

    /// Show all sites, also those without a suspicion.
    #[arg(long)]
    all: bool,

    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    naming: NamingArgs,
}

/// Everything that is known, for text and JSON alike.
#[derive(Serialize)]
pub struct Answer {
    pub pid: u64,
    pub program: String,
    /// running, ended, killed, or one of the last two
    pub state: &'static str,
    pub observed_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched_seconds: Option<f64>,
    /// Mean bytes between samples.
    pub interval: u64,
    pub live_samples: usize,
    /// Of the live blocks' samples, the part that there was no room for.
    pub lost_share: f64,
    pub marks: u64,
    pub at_exit: bool,
    /// What was freed at the end: the verdicts are about the moment before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleared: Option<Clearing>,
    /// Of all that is live, by the allocator's own counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trend: Option<Trend>,
    /// If that grows, and no site alone does so beyond doubt: the line whose sites do so together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<Scan>,
    /// What there is of a scan that was not finished in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<Unfinished>,
    /// With --fail-on: whether it failed. Always: what counts under the rule.
    pub outcome: Outcome,
    /// Why there is nothing to judge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nothing_because: Option<String>,
    pub warnings: Vec<String>,
    /// Functions that no site is named after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    pub unused_suppressions: Vec<String>,
    pub sites: Vec<Finding>,
    #[serde(skip)]
    pub word: String,
    #[serde(skip)]
    pub all: bool,
    #[serde(skip)]
    pub checks: bool,
}

impl Answer {
    /// The question after what cannot be reached has no whole answer. What else was found stands.
    fn unfinish(&mut self, unfinished: Unfinished) {
        let reason = &mut self.outcome.unanswered;
        reason.get_or_insert_with(|| "the scan was not finished".to_owned());
        self.warnings.push(unfinished.text());
        self.unfinished = Some(unfinished);
    }
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let suppressions = match &args.suppressions {
        Some(path) => Suppressions::read(path)?,
        None => Suppressions::default(),
    };
    let target = Target::find_or_only(args.target.as_deref())?;
    if args.mark {
        return set_mark(&target);
    }
    let running = matches!(target, Target::Live { .. });
    if args.exit && running {
        bail!(
            "process {} still runs; --exit is about what is left at the end. Start it with `freehold run`, and look at \
             what it leaves",
            target.word()
        );
    }
    let (snapshot, watch) = look(args, &target, running)?;
    let mut snapshot = args.naming.of(snapshot);
    let mut unfinished = None;
    if args.reachability {
        unfinished = reachability::ask(&target, args.patience)?;
        snapshot = args.naming.of(target.read()?);
    }
    let mut cleared = None;
    if !args.exit {
        (snapshot, cleared) = judged(snapshot);
    }
    if let Some(heap) = &args.heap {
        snapshot.keep_heaps(heap)?;
    }
    let mut answer = answer(args, &target, &snapshot, watch.as_ref(), &suppressions);
    answer.cleared = cleared;
    if let Some(unfinished) = unfinished {
        answer.unfinish(unfinished);
    }
    if args.json {
        print(&(serde_json::to_string_pretty(&answer)? + "\n"))?;
    } else {
        print(&text::render(&answer))?;
    }
    Ok(ExitCode::from(answer.outcome.code()))
}

/// The snapshot to judge. A live program is watched for a while.
fn look(args: &Args, target: &Target, running: bool) -> Result<(Snapshot, Option<Watch>)> {
    if !running || args.length.is_zero() {
        return Ok((target.read()?, None));
    }
    let (snapshot, watch) = watch::watch(target, args.length)?;
    Ok((snapshot, Some(watch)))
}

/// What verdicts are about, in every command: of a program that cleared up at its end the state before that, else what
/// was read.
pub fn judged(snapshot: Snapshot) -> (Snapshot, Option<Clearing>) {
    match snapshot.before_clearing() {
        Some((before, clearing)) => (before, Some(clearing)),
        None => (snapshot, None),
    }
}

fn set_mark(target: &Target) -> Result<ExitCode> {
    let path = target
        .profile_path()
        .context("a mark can only be set in a program that runs")?;
    let mark = Control::open(path)?.set_mark();
    let next = match mark {
        1 | 2 => format!(
            "Set {} more after another request, level or cycle each; then: freehold leaks {}",
            3 - mark,
            target.word()
        ),
        _ => format!(
            "What was born between mark 1 and mark {} should be gone by now: freehold leaks {}",
            mark - 1,
            target.word()
        ),
    };
    print(&format!(
        "Mark {mark} is set: what is born from now on carries it.\n{next}\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn answer(
    args: &Args,
    target: &Target,
    snapshot: &Snapshot,
    watch: Option<&Watch>,
    suppressions: &Suppressions,
) -> Answer {
    let scan = args.reachability.then(|| Scan::of(snapshot)).flatten();
    let mut symbols = Symbols::new(snapshot);
    let sites = finding::examine(
        snapshot,
        &mut symbols,
        watch,
        scan.as_ref(),
        suppressions,
        &Rules::default(),
    );
    let mut outcome = gate::check(&sites, args.fail_on, args.exit);
    if args.fail_on.is_some() {
        outcome.unanswered = gate::unanswered(snapshot, args.exit, args.reachability);
    }
    let used = |text: &str| {
        sites
            .iter()
            .any(|site| site.suppressed_by.as_deref() == Some(text))
    };
    let trend = trend::of_snapshot(snapshot);
    let alone = sites
        .iter()
        .any(|site| site.verdict == Verdict::LikelyLeak && site.suppressed_by.is_none());
    let whole = trend.filter(|trend| trend.grows() && !alone);
    let spread = whole.and_then(|_| Spread::of(snapshot, &mut symbols));
    let is_known = |site: &Finding| site.suppressed_by.is_some() && site.growth.is_some();
    if args.fail_on.is_some() && !args.exit && whole.is_some() && !sites.iter().any(is_known) {
        outcome.unanswered.get_or_insert_with(|| {
            "live memory as a whole grows, and no call site does so alone".to_owned()
        });
    }
    Answer {
        pid: snapshot.pid(),
        program: snapshot.program(),
        state: state(snapshot),
        observed_seconds: snapshot.running_ns() as f64 / 1e9,
        watched_seconds: watch.map(Watch::seconds),
        interval: snapshot.interval(),
        live_samples: snapshot.samples.len(),
        lost_share: snapshot.missing().share,
        marks: snapshot.profile.control.mark,
        at_exit: args.exit,
        cleared: None,
        trend,
        spread,
        limit: Limit::tightest(snapshot),
        scan,
        unfinished: None,
        outcome,
        nothing_because: snapshot.why_empty(),
        warnings: snapshot
            .warnings
            .iter()
            .map(ToString::to_string)
            .chain(symbols.warnings().iter().cloned())
            .collect(),
        skipped: finding::skipped(&sites, &snapshot.naming),
        unused_suppressions: suppressions
            .texts()
            .filter(|text| !used(text))
            .map(str::to_owned)
            .collect(),
        sites,
        word: target.word(),
        all: args.all,
        checks: args.fail_on.is_some(),
    }
}

/// What has become of the program.
pub fn state(snapshot: &Snapshot) -> &'static str {
    if snapshot.is_alive() {
        "running"
    } else if snapshot.ended_by_itself() {
        "ended"
    } else if snapshot.was_killed() {
        "killed"
    } else {
        "ended or killed"
    }
}

/// 500ms, 10s, 5m, 1h, or seconds.
pub fn parse_time(word: &str) -> Result<Duration, String> {
    let split = word
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(word.len());
    let (number, unit) = word.split_at(split);
    let factor = match unit {
        "ms" => Some(0.001),
        "" | "s" => Some(1.0),
        "m" | "min" => Some(60.0),
        "h" => Some(3600.0),
        _ => None,
    };
    let seconds = number.parse::<f64>().ok().zip(factor).map(|(n, f)| n * f);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("{word:?} is no time; say 500ms, 10s, 5m or 1h"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use profile_file::SymbolTable;
    use profile_file::testing::ProfileBuilder;

    use super::*;
    use crate::call_site::tests::frame;

    #[test]
    fn an_answer_reads_well() {
        let text = |words: &[&str], suppressions: &str, profile: &Snapshot| {
            let args = Line::parse_from([&["leaks"], words].concat()).args;
            let list = Suppressions::parse(suppressions).unwrap();
            let target = Target::Saved {
                file: "server.freehold".into(),
            };
            text::render(&answer(&args, &target, profile, None, &list))
        };
        let profile = example();
        insta::assert_snapshot!("leaks", text(&[], "leak:interned\nleak:nobody\n", &profile));
        insta::assert_snapshot!("all", text(&["--all"], "", &profile));
        insta::assert_snapshot!("exit", text(&["--exit", "--fail-on", "1m"], "", &profile));
        let empty = ProfileBuilder::default().snapshot();
        insta::assert_snapshot!("nothing", text(&["--fail-on", "any"], "", &empty));
    }

    #[test]
    fn the_check_fails_for_what_it_is_asked_and_not_for_what_is_suppressed() {
        let outcome = |fail_on: &str, at_exit: bool, suppressions: &str| {
            let list = Suppressions::parse(suppressions).unwrap();
            let snapshot = example();
            let mut symbols = Symbols::new(&snapshot);
            let rules = Rules::default();
            let sites = finding::examine(&snapshot, &mut symbols, None, None, &list, &rules);
            gate::check(&sites, Some(fail_on.parse().unwrap()), at_exit).failed
        };
        assert!(outcome("likely", false, ""));
        assert!(!outcome("likely", false, "leak:session"));
        assert!(
            outcome("any", true, "leak:session"),
            "the cache is live at the end"
        );
        assert!(!outcome(
            "any",
            true,
            "leak:session\nleak:interned\nleak:Cache"
        ));
        assert!(outcome("1m", false, "") && !outcome("1g", false, ""));
    }

    #[test]
    fn growth_of_the_whole_passes_no_check_and_is_not_called_none() {
        let profile = |each: u64| {
            let mut profile = ProfileBuilder::new(512 << 10);
            // No stack has the samples for a verdict.
            for second in 0..100 {
                let site = profile.site(&[0x100, 0x1000 + second]);
                profile.allocate(site, 1000, second * 1_000_000_000);
                profile.point(second * 1_000_000_000, 1 << 30, (1 << 20) + second * each);
            }
            profile.snapshot()
        };
        let asked = |snapshot: &Snapshot, words: &[&str]| {
            let args = Line::parse_from([&["leaks"], words].concat()).args;
            let target = Target::Saved {
                file: "server.freehold".into(),
            };
            answer(&args, &target, snapshot, None, &Suppressions::default())
        };
        let grows = asked(&profile(1 << 20), &["--fail-on", "likely"]);
        assert_eq!(grows.outcome.code(), 2);
        let text = text::render(&grows);
        assert!(!text.contains("No leak found"), "{text}");
        assert!(text.contains("live memory as a whole grows"), "{text}");
        let stays = asked(&profile(0), &["--fail-on", "likely"]);
        assert_eq!(stays.outcome.code(), 0);
        // Only what was asked for is answered.
        let exit = asked(&profile(1 << 20), &["--exit", "--fail-on", "1g"]);
        assert_eq!(exit.outcome.unanswered, None);
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// A server that leaks sessions, has a full cache, and some names that are never freed.
    fn example() -> Snapshot {
        const SECOND: u64 = 1_000_000_000;
        let mut profile = ProfileBuilder::default();
        let main = 0x900;
        let leak = profile.site(&[0x100, 0x101, main]);
        let cache = profile.site(&[0x200, main]);
        let names = profile.site(&[0x300, main]);
        let noise = profile.site(&[0x400, 0x101, main]);
        for second in 0..100 {
            profile.allocate(leak, 4096, second * SECOND);
            if second < 30 {
                profile.allocate(cache, 1 << 20, second * SECOND);
            }
            if second < 3 {
                profile.allocate(names, 30, second * SECOND);
            }
            let block = profile.allocate(noise, 100, second * SECOND);
            profile.free(block, 5_000);
        }
        profile.statistics(|statistics| {
            statistics.group_limit = 1 << 30;
            statistics.group_used = 700 << 20;
        });
        let mut snapshot = profile.snapshot();
        let functions = [
            (0x100, "session_new", 120),
            (0x101, "accept_connection", 80),
            (0x200, "Cache::insert(Key const&)", 44),
            (0x300, "interned_name", 9),
            (0x400, "parse_header", 200),
            (main, "main", 12),
        ];
        let frames = functions.map(|(at, name, line)| (at, vec![frame(name, line)]));
        snapshot.symbols = Some(SymbolTable {
            frames: frames.into_iter().collect(),
            warnings: Vec::new(),
        });
        snapshot
    }

    #[test]
    fn what_made_names_missing_is_said() {
        let mut snapshot = example();
        let why = "/usr/lib/gone.so is not on this machine: no names from it";
        let names = snapshot.symbols.as_mut().unwrap();
        names.warnings.push(why.to_owned());
        let args = Line::parse_from(["leaks"]).args;
        let target = Target::Saved {
            file: "server.freehold".into(),
        };
        let answer = answer(&args, &target, &snapshot, None, &Suppressions::default());
        assert!(text::render(&answer).contains(why));
        assert!(serde_json::to_string(&answer).unwrap().contains(why));
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(parse_time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_time("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_time("1.5m"), Ok(Duration::from_secs(90)));
        assert!(parse_time("soon").is_err());
        assert!(parse_time("10 days").is_err());
        assert!(parse_time("1e99h").is_err());
    }
}
