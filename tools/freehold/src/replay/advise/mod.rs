//! `freehold replay --advise`: what each option of Freehold would save or cost, and where another allocator wins.
//!
//! [`judge`] decides what is a difference and what is chance.

mod judge;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde::Serialize;
use trace_file::Tally;

use super::prepare::Prepared;
use super::process::{Contender, Replayer, Run};
use super::{Args, how, once};
use crate::interrupt;
use crate::output;
use crate::wording::{bytes, plain_count, plural};
use judge::{Effect, MEASURES, Measure, compare_all};

/// Options that can change time or memory, with their values. Those that buy safety are not here: a user who set them
/// wants them. A limit is not here: below what a program needs, its calls fail.
const OPTIONS: [(&str, &[&str]); 3] = [
    ("purge", &["budget", "eager", "lazy", "background"]),
    ("thp", &["auto", "never", "always"]),
    ("double_free", &["call", "flush"]),
];

pub const ROUNDS: u32 = 7;
/// With five, chance gives the same sign in each round once in sixteen times.
const FEWEST_ROUNDS: u32 = 5;

#[derive(Debug, Serialize)]
struct Tried {
    name: String,
    runs: Vec<Run>,
    /// Against Freehold as it is.
    effects: Vec<Effect>,
    died: Option<String>,
    says: String,
}

impl Tried {
    fn failed(&self) -> bool {
        self.died.is_some() || self.runs.iter().any(|run| run.failed + run.wrong > 0)
    }

    fn part(&self, which: fn(&Effect) -> bool) -> Vec<&Effect> {
        self.effects.iter().filter(|one| which(one)).collect()
    }
}

#[derive(Debug, Serialize)]
struct Advice {
    /// What the options are set in addition to.
    base: String,
    as_it_is: Vec<Run>,
    /// The same once more in each round: what differs is chance.
    again: Vec<Run>,
    options: Vec<Tried>,
    others: Vec<Tried>,
    verdict: Vec<String>,
}

struct Candidate {
    name: String,
    replayer: Replayer,
    contender: Contender,
    runs: Vec<Run>,
    died: Option<String>,
}

impl Candidate {
    fn run(&mut self, file: &Path) {
        if self.died.is_none() {
            match once(&self.replayer, &self.contender, file, None) {
                Ok(run) => self.runs.push(run),
                Err(error) => self.died = Some(format!("{error:#}")),
            }
        }
    }
}

/// Every value that is not in force already. The first of each option is the default.
fn settings(base: &str) -> Vec<String> {
    let in_force = |key: &str, usual: &'static str| {
        let given = base
            .split([',', ';'])
            .rev()
            .filter_map(|one| one.split_once('='));
        let mut values = given.filter(|(name, _)| *name == key);
        values.next().map_or(usual.to_owned(), |one| one.1.into())
    };
    let mut all = Vec::new();
    for (key, values) in OPTIONS {
        let now = in_force(key, values[0]);
        let others = values.iter().filter(|value| **value != now);
        all.extend(others.map(|value| format!("{key}={value}")));
    }
    all
}

pub fn run(args: &Args, sum: &Tally, prepared: &Prepared) -> Result<ExitCode> {
    let rounds = args.repeats.unwrap_or(ROUNDS);
    if rounds < FEWEST_ROUNDS {
        bail!("--advise needs --repeats {FEWEST_ROUNDS} or more, to tell a difference from chance");
    }
    let advice = measure(args, rounds, prepared)?;
    if args.json {
        let all = serde_json::json!({"trace": sum, "rounds": rounds, "advice": advice});
        output::print(&format!("{all}\n"))?;
    } else {
        output::print(&text(&advice, sum, rounds))?;
    }
    let failed = advice.options.iter().chain(&advice.others);
    Ok(ExitCode::from(u8::from(
        failed.into_iter().any(Tried::failed),
    )))
}

fn candidates(args: &Args, base: &str) -> Result<Vec<Candidate>> {
    let freehold = args.library.as_deref();
    let candidate = |name: &str, allocator: &str, options: Option<String>| -> Result<Candidate> {
        Ok(Candidate {
            name: name.to_owned(),
            replayer: Replayer::new(freehold, options)?,
            contender: Contender::new(allocator, freehold)?,
            runs: Vec::new(),
            died: None,
        })
    };
    let mut all = vec![
        candidate("as it is", "freehold", args.set.clone())?,
        candidate("as it is, again", "freehold", args.set.clone())?,
    ];
    for setting in settings(base) {
        let comma = if base.is_empty() { "" } else { "," };
        let options = Some(format!("{base}{comma}{setting}"));
        all.push(candidate(&setting, "freehold", options)?);
    }
    for name in args.on.iter().filter(|name| *name != "freehold") {
        let label = crate::allocator::label(name);
        all.push(candidate(&label, name, None)?);
    }
    Ok(all)
}

fn measure(args: &Args, rounds: u32, prepared: &Prepared) -> Result<Advice> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("prepared");
    prepared.write(&file, how(args))?;
    let base = args.set.clone();
    let base = base
        .or_else(|| std::env::var("FREEHOLD").ok())
        .unwrap_or_default();
    let mut all = candidates(args, &base)?;
    // The first process of all reads files that no other has to.
    once(&all[0].replayer, &all[0].contender, &file, None)?;
    for round in 0..rounds as usize {
        // Another one begins each time: a place in the row is no advantage.
        for place in 0..all.len() {
            let number = (place + round) % all.len();
            all[number].run(&file);
            interrupt::check()?;
        }
    }
    let mut all = all.into_iter();
    let (as_it_is, again) = (all.next().expect("a base"), all.next().expect("a twin"));
    if let Some(why) = as_it_is.died.or(again.died) {
        bail!("freehold as it is: {why}");
    }
    let mut advice = Advice {
        base,
        as_it_is: as_it_is.runs,
        again: again.runs,
        options: Vec::new(),
        others: Vec::new(),
        verdict: Vec::new(),
    };
    let settings = settings(&advice.base).len();
    for (number, one) in all.enumerate() {
        advice.add(one.name, one.runs, one.died, number < settings);
    }
    advice.verdict = verdict(&advice.options);
    Ok(advice)
}

impl Advice {
    fn add(&mut self, name: String, runs: Vec<Run>, died: Option<String>, is_option: bool) {
        let effects = match died {
            None => compare_all(&self.as_it_is, &self.again, &runs),
            Some(_) => Vec::new(),
        };
        let mut tried = Tried {
            name,
            runs,
            effects,
            died,
            says: String::new(),
        };
        if is_option {
            tried.says = option_sentence(&tried);
            self.options.push(tried);
        } else {
            tried.says = self.other_sentence(&tried);
            self.others.push(tried);
        }
    }

    /// What Freehold's options do about a win of another allocator: with which it is no longer one, or what remains.
    fn answer(&self, other: &Tried, measure: Measure) -> String {
        let chance = judge::chance(measure, &self.as_it_is, &self.again);
        let saves = |one: &Effect| one.measure == measure && one.saves();
        let helpful = self
            .options
            .iter()
            .filter(|option| !option.failed() && option.effects.iter().any(saves));
        let (mut level, mut nearest): (Vec<&str>, Option<(f64, &str)>) = (Vec::new(), None);
        for option in helpful {
            let left = judge::compare(measure, &option.runs, chance, &other.runs);
            if !left.saves() {
                level.push(&option.name);
            } else if nearest.is_none_or(|(least, _)| -left.change < least) {
                nearest = Some((-left.change, &option.name));
            }
        }
        match nearest {
            _ if !level.is_empty() => {
                format!("with {} Freehold does not lose here", level.join(" or "))
            }
            Some((left, name)) => {
                format!("with {name} it still wins, by {}", measure.written(left))
            }
            None => "no option of Freehold changes that".to_owned(),
        }
    }

    fn other_sentence(&self, other: &Tried) -> String {
        if let Some(sentence) = failure(other) {
            return sentence;
        }
        let name = &other.name;
        let (wins, losses) = (other.part(Effect::saves), other.part(Effect::costs));
        if wins.is_empty() && losses.is_empty() {
            return format!(
                "{name} and Freehold as it is are level: nothing stands out from chance."
            );
        }
        let mut out = String::new();
        for one in &wins {
            let answer = self.answer(other, one.measure);
            let _ = write!(
                out,
                "{name} wins: it needs {} less; {answer}. ",
                amount(one)
            );
        }
        if wins.is_empty() {
            let _ = write!(out, "{name} wins nowhere. ");
        }
        if !losses.is_empty() {
            let _ = write!(out, "{name} needs more: {}.", list(&losses));
        }
        out.trim_end().to_owned()
    }
}

/// As `Effect::written`, for another allocator: nothing is taken away from Freehold.
fn amount(effect: &Effect) -> String {
    effect.written().replacen(" of the ", " of ", 1)
}

fn list(effects: &[&Effect]) -> String {
    let all: Vec<String> = effects.iter().map(|one| amount(one)).collect();
    match all.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

fn failure(tried: &Tried) -> Option<String> {
    if let Some(why) = &tried.died {
        return Some(format!("{}: the replay ended early: {why}.", tried.name));
    }
    let calls: u64 = tried.runs.iter().map(|run| run.failed + run.wrong).sum();
    (calls > 0).then(|| format!("{}: {calls} calls failed, so it is not judged.", tried.name))
}

fn option_sentence(tried: &Tried) -> String {
    if let Some(sentence) = failure(tried) {
        return sentence;
    }
    let (saves, costs) = (tried.part(Effect::saves), tried.part(Effect::costs));
    let name = &tried.name;
    let mut out = match (saves.is_empty(), costs.is_empty()) {
        (true, true) => format!("{name} changes nothing that stands out from chance."),
        (false, true) => format!("{name} saves {}, and costs nothing.", list(&saves)),
        (true, false) => format!("{name} costs {}, and saves nothing.", list(&costs)),
        (false, false) => format!("{name} saves {}. It costs {}.", list(&saves), list(&costs)),
    };
    if name == "double_free=flush" && !saves.is_empty() {
        out += " A second free is then found later.";
    }
    out
}

fn verdict(options: &[Tried]) -> Vec<String> {
    let fine: Vec<&Tried> = options.iter().filter(|one| !one.failed()).collect();
    let names = |costs: bool| -> Vec<&str> {
        let some = fine.iter().filter(|one| {
            !one.part(Effect::saves).is_empty() && one.part(Effect::costs).is_empty() != costs
        });
        some.map(|one| one.name.as_str()).collect()
    };
    let (free, dear) = (names(false), names(true));
    let mut out = Vec::new();
    if !free.is_empty() {
        out.push(format!("Worth a try: {}.", free.join(", ")));
    }
    if !dear.is_empty() {
        out.push(format!(
            "A trade, one measure against another: {}.",
            dear.join(", ")
        ));
    }
    if out.is_empty() {
        out.push("No option saves anything here: leave Freehold as it is.".to_owned());
    }
    out
}

fn row(out: &mut String, name: &str, runs: &[Run], effects: &[Effect]) {
    let _ = write!(out, "{name:20}");
    for measure in MEASURES {
        let stands_out = effects
            .iter()
            .any(|one| one.measure == measure && one.stands_out);
        let value = measure.written(measure.median(runs));
        let _ = write!(out, " {value:>13}{}", if stands_out { '*' } else { ' ' });
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
}

fn text(advice: &Advice, sum: &Tally, rounds: u32) -> String {
    let mut out = format!(
        "{} operations of {}; at the peak {} live; {rounds} rounds, each with all of these in turn\n\n",
        plain_count(sum.ops),
        plural(sum.threads as usize, "thread", "threads"),
        bytes(sum.peak_bytes as f64)
    );
    let _ = writeln!(
        out,
        "{:20} {:>13}  {:>13}  {:>13}  {:>13}  {:>13}",
        "Freehold, or another", "wall", "CPU", "peak RSS", "mean RSS", "at end"
    );
    row(&mut out, "as it is", &advice.as_it_is, &[]);
    row(&mut out, "as it is, again", &advice.again, &[]);
    for one in advice.options.iter().chain(&advice.others) {
        if one.died.is_none() {
            row(&mut out, &one.name, &one.runs, &one.effects);
        }
    }
    out.push_str("Medians; * stands out from chance. In brackets below: the middle round; the least to the most.\n\n");
    let sentences = advice.options.iter().chain(&advice.others);
    for sentence in sentences.map(|one| &one.says).chain(&advice.verdict) {
        out.push_str(sentence);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::judge::tests::runs;
    use super::*;

    fn advice(options: &[(&str, Vec<Run>)], others: &[(&str, Vec<Run>)]) -> Advice {
        let base = runs(&[100, 101, 102], 20);
        let mut made = Advice {
            base: String::new(),
            as_it_is: base.clone(),
            again: base,
            options: Vec::new(),
            others: Vec::new(),
            verdict: Vec::new(),
        };
        for (list, is_option) in [(options, true), (others, false)] {
            for (name, runs) in list {
                made.add((*name).to_owned(), runs.clone(), None, is_option);
            }
        }
        made.verdict = verdict(&made.options);
        made
    }

    #[test]
    fn what_is_in_force_is_not_tried() {
        let all = settings("");
        assert!(all.contains(&"purge=eager".to_owned()) && !all.contains(&"purge=budget".into()));
        let all = settings("thp=always,purge=lazy,purge=eager");
        assert!(all.contains(&"purge=budget".to_owned()) && all.contains(&"purge=lazy".into()));
        assert!(!all.contains(&"purge=eager".to_owned()) && !all.contains(&"thp=always".into()));
        let all = settings("purge=eager;thp=never");
        assert!(!all.contains(&"purge=eager".to_owned()) && !all.contains(&"thp=never".into()));
        assert!(all.contains(&"thp=auto".to_owned()));
    }

    #[test]
    fn an_option_says_what_it_saves_and_what_it_costs() {
        let made = advice(&[("purge=eager", runs(&[120, 121, 122], 10))], &[]);
        assert_eq!(
            made.options[0].says,
            "purge=eager saves 10.0 MiB of RSS at the end (50 %; 50 to 50 %). It costs 20.0 ms of wall time \
             (20 %; 20 to 20 %) and 20.0 ms of CPU time (20 %; 20 to 20 %)."
        );
        assert_eq!(
            made.verdict,
            ["A trade, one measure against another: purge=eager."]
        );
    }

    #[test]
    fn where_nothing_helps_it_says_so() {
        let made = advice(&[("thp=never", runs(&[101, 100, 102], 20))], &[]);
        let says = "thp=never changes nothing that stands out from chance.";
        assert_eq!(made.options[0].says, says);
        let verdict = "No option saves anything here: leave Freehold as it is.";
        assert_eq!(made.verdict, [verdict]);
    }

    #[test]
    fn another_allocator_that_wins_is_named() {
        let faster = ("swift", runs(&[50, 50, 50], 20));
        let made = advice(&[("thp=never", runs(&[100, 101, 102], 20))], &[faster]);
        let says = &made.others[0].says;
        assert!(says.starts_with("swift wins: it needs 51.0 ms of wall time"));
        assert!(says.contains("no option of Freehold changes that"));
        let eager = ("purge=eager", runs(&[100, 101, 102], 10));
        let made = advice(&[eager], &[("tiny", runs(&[100, 101, 102], 1))]);
        let says = &made.others[0].says;
        assert!(
            says.contains("with purge=eager it still wins, by 9.0 MiB"),
            "{says}"
        );
        let smaller = ("small", runs(&[100, 101, 102], 5));
        let made = advice(
            &[("purge=eager", runs(&[100, 101, 102], 5))],
            &[smaller, ("large", runs(&[100, 101, 102], 90))],
        );
        let says = &made.others[0].says;
        assert!(
            says.contains("with purge=eager Freehold does not lose"),
            "{says}"
        );
        let says = &made.others[1].says;
        assert!(says.starts_with("large wins nowhere. large needs more: 70.0 MiB of RSS"));
    }
}
