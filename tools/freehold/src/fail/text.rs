//! The answer for a person.

use std::fmt::Write;

use super::outcome::Outcome;
use super::{Answer, Finding};
use crate::amounts::duration;
use crate::wording::plural;

pub fn of(answer: &Answer, all: bool) -> String {
    let mut text = String::new();
    for found in answer.found() {
        say(&mut text, found);
    }
    if all {
        let rest = answer.results.iter();
        for result in rest.filter(|result| !result.outcome.is_finding()) {
            say(&mut text, result);
        }
    }
    for note in &answer.notes {
        let _ = writeln!(text, "Note: {note}.");
    }
    text + &summary(answer)
}

/// In a word, and the rest of the sentence.
fn words(outcome: &Outcome) -> (&'static str, String) {
    match outcome {
        Outcome::Crash { by } => ("crash", format!("ended by {by}")),
        Outcome::Misuse { report } => ("misuse", report.clone()),
        Outcome::Hang => ("hang", "did not end".to_owned()),
        Outcome::Leak { blocks, bytes } => (
            "leak",
            format!(
                "went on, and has {} more at its end, of {bytes} bytes",
                plural(*blocks as usize, "block", "blocks")
            ),
        ),
        Outcome::Silent { code } => ("silent", format!("exit code {code}, without a word")),
        Outcome::WrongOutput => (
            "output",
            "went on without a word, and its output is another".to_owned(),
        ),
        Outcome::Refused { code } => ("refused", format!("exit code {code}, and a message")),
        Outcome::Aborted => ("aborted", "SIGABRT, and a message".to_owned()),
        Outcome::Survived => ("survived", "went on".to_owned()),
        Outcome::NotMet => ("not met", "the program did not come there".to_owned()),
    }
}

fn say(text: &mut String, result: &Finding) {
    let (word, rest) = words(&result.outcome);
    let site = &result.call_site;
    let _ = writeln!(text, "{word:9}{rest}");
    let _ = writeln!(
        text,
        "         no memory for {} bytes in {} ({})",
        result.bytes,
        site.function(),
        site.short_place()
    );
    for frame in site.callers().iter().take(6) {
        let place = frame
            .short_place()
            .unwrap_or_else(|| frame.module_name().to_owned());
        let _ = writeln!(text, "           from {} ({place})", frame.function);
    }
    let _ = writeln!(text, "         again: {}\n", result.again);
}

fn summary(answer: &Answer) -> String {
    let count = |wanted: fn(&Outcome) -> bool| {
        answer
            .results
            .iter()
            .filter(|result| wanted(&result.outcome))
            .count()
    };
    let found = answer.found().count();
    let suppressed = answer
        .results
        .iter()
        .filter(|result| result.outcome.is_finding() && result.suppressed_by.is_some())
        .count();
    let mut parts = Vec::new();
    for (number, what) in [
        (count(|o| *o == Outcome::Survived), "survived"),
        (
            count(|o| matches!(o, Outcome::Refused { .. } | Outcome::Aborted)),
            "refused with a message",
        ),
        (count(|o| *o == Outcome::NotMet), "not met again"),
        (suppressed, "suppressed"),
        (answer.left_out, "not tried"),
    ] {
        if number != 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    let verdict = match found {
        0 => "Nothing found".to_owned(),
        1 => "1 site is not survived".to_owned(),
        n => format!("{n} sites are not survived"),
    };
    let others = if parts.is_empty() {
        String::new()
    } else {
        format!(": {}", parts.join(", "))
    };
    format!(
        "{verdict} of {}{others}. {} of {} in {}.\n",
        plural(answer.sites, "site", "sites"),
        plural(answer.runs, "run", "runs"),
        answer.command.first().map_or("", String::as_str),
        duration(answer.seconds)
    )
}
