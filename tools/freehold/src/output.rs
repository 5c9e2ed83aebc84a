//! What a command prints as its answer, and beside it.

use std::fmt::Arguments;
use std::io::{self, IsTerminal, Write};

use anyhow::{Context, Result};

/// Says something beside the answer, on the standard error. That its reader is gone, or its disk full, is no error: the command still
/// has an answer to give, and the exit code of a program to pass on.
pub fn tell(text: Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}

macro_rules! tell {
    ($($argument:tt)*) => { $crate::output::tell(format_args!($($argument)*)) };
}

macro_rules! tell_line {
    ($($argument:tt)*) => { $crate::output::tell(format_args!("{}\n", format_args!($($argument)*))) };
}

/// Prints to the standard output, at once: on a terminal with what matters set off. A reader who has seen enough (`| head`)
/// is no error; a full disk is one.
pub fn print(text: &str) -> Result<()> {
    if wants_colours() && io::stdout().is_terminal() {
        return write(painted(text).as_bytes()).map(|_| ());
    }
    write(text.as_bytes()).map(|_| ())
}

/// Neither the person (NO_COLOR) nor the terminal is against colours.
pub fn wants_colours() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !unwanted && !dumb
}

const BOLD: &str = "1";
const RED: &str = "1;31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// Beginnings of lines that are set off, and how; of each the part up to the colon.
const BEGINNINGS: [(&str, &str); 13] = [
    ("Next:", BOLD),
    ("Verdict:", BOLD),
    ("Note:", YELLOW),
    ("note:", YELLOW),
    ("What would change it:", BOLD),
    ("Check passed:", GREEN),
    ("Check FAILED:", RED),
    ("Check without an answer:", YELLOW),
    ("A likely leak:", RED),
    ("Fragmentation:", YELLOW),
    ("Retention:", YELLOW),
    ("Not ours:", YELLOW),
    ("Fine:", GREEN),
];

fn style(text: &str, code: &str) -> String {
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// The first line bold, and what a person looks for in a colour. JSON stays as it is.
fn painted(text: &str) -> String {
    if text.starts_with(['{', '[']) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 64);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let known = BEGINNINGS.iter().find(|(word, _)| line.starts_with(word));
        let end = line.trim_end_matches('\n').len();
        let finding = line[..end].ends_with(':')
            && (line.contains("likely leak") || line.contains("suspicion"));
        if let Some((word, code)) = known {
            out += &style(word, code);
            out += &line[word.len()..];
        } else if finding || (number == 0 && end > 0) {
            out += &style(&line[..end], if finding { RED } else { BOLD });
            out += &line[end..];
        } else {
            out += line;
        }
    }
    out
}

/// As [`print`], and says whether somebody is still there to read: a command that prints again and again stops if not.
pub fn write(bytes: &[u8]) -> Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to the standard output"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_person_looks_for_is_set_off() {
        assert_eq!(
            painted("server (4711)\n\n1 likely leak:\n\n  +1 MiB/s\nNote: old.\n"),
            "\x1b[1mserver (4711)\x1b[0m\n\n\x1b[1;31m1 likely leak:\x1b[0m\n\n  +1 MiB/s\n\x1b[33mNote:\x1b[0m old.\n"
        );
        assert_eq!(painted("{\n}\n"), "{\n}\n");
    }
}
