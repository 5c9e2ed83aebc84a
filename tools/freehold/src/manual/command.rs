//! Section 1: a page for the command, and one for each sub-command under the name that `git` has made usual.

use anyhow::Result;
use clap::Command;
use clap_mangen::Man;

use super::{Page, roff};

const EXIT_STATUS: &[(&str, &str)] = &[
    (
        "0",
        "The answer is yes, or the work is done. For run: the exit code of the program.",
    ),
    (
        "1",
        "The answer is no: it would not run, it leaks, a measurement failed.",
    ),
    (
        "2",
        "The question could not be answered, or was asked wrongly. A line on stderr says why.",
    ),
];

const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "FREEHOLD",
        "Options of the allocator, as key=value,key=value. See freehold(7).",
    ),
    (
        "LD_PRELOAD",
        "What run and doctor find here stays behind Freehold's library.",
    ),
    ("PATH", "Where run and doctor look for a program."),
    (
        "NO_COLOR",
        "If it is set and not empty, nothing has colours. The same holds for TERM=dumb.",
    ),
    (
        "XDG_RUNTIME_DIR, TMPDIR",
        "Where run keeps profile files when /dev/shm has too little room.",
    ),
    ("DEBUGINFOD_URLS", "The servers that --debuginfod asks."),
];

const FILES: &[(&str, &str)] = &[
    (
        "/dev/shm/freehold-PID",
        "The profile file of an observed process. It goes when the process ends.",
    ),
    (
        "/dev/shm/freehold-kept-UID/",
        "What run keeps of programs that have ended, also of those that crashed.",
    ),
    (
        "/dev/shm/freehold-flight-PID",
        "The last calls of a program with the option flight, for freehold-trace(1): trace flight.",
    ),
    (
        "../lib/libfreehold.so",
        "From the directory of the command: the library that run preloads.",
    ),
];

pub fn pages(command: Command) -> Result<Vec<Page>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = vec![page(&command, true)?];
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        pages.push(page(sub, false)?);
    }
    Ok(pages)
}

fn page(command: &Command, whole: bool) -> Result<Page> {
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned();
    let man = Man::new(command.clone())
        .title(name.clone())
        .source(concat!("freehold ", env!("CARGO_PKG_VERSION")))
        .manual("Freehold");
    let mut bytes = Vec::new();
    man.render_title(&mut bytes)?;
    man.render_name_section(&mut bytes)?;
    man.render_synopsis_section(&mut bytes)?;
    man.render_description_section(&mut bytes)?;
    man.render_options_section(&mut bytes)?;
    if whole {
        man.render_subcommands_section(&mut bytes)?;
    }
    let mut text = String::from_utf8(bytes)?;
    if whole {
        text += &roff::section("ENVIRONMENT");
        text += &roff::definitions(ENVIRONMENT.iter().copied());
        text += &roff::section("FILES");
        text += &roff::definitions(FILES.iter().copied());
    }
    let help = command.get_after_help().map(ToString::to_string);
    text += &after_help(&help.unwrap_or_default());
    let also: &[&str] = if whole {
        &["freehold.7", "fh_malloc.3", "malloc.3", "ld.so.8"]
    } else {
        &["freehold.1", "freehold.7"]
    };
    text += &roff::see_also(also);
    Ok(Page {
        name,
        section: '1',
        text,
    })
}

/// What follows the options in `--help`: a heading with indented lines below it are the examples, and a paragraph about the
/// exit code has a section of its own.
fn after_help(help: &str) -> String {
    let mut status = roff::definitions(EXIT_STATUS.iter().copied());
    let (mut examples, mut remarks) = (String::new(), String::new());
    for paragraph in help.split("\n\n") {
        let paragraph = paragraph.trim_end();
        if let Some(codes) = paragraph.strip_prefix("Exit code: ") {
            status = format!("{}\n", roff::plain(codes));
        } else if let Some((_, lines)) = paragraph
            .split_once('\n')
            .filter(|(first, _)| first.ends_with(':'))
        {
            let lines: Vec<&str> = lines
                .lines()
                .map(|l| l.strip_prefix("  ").unwrap_or(l))
                .collect();
            examples += &roff::verbatim(&lines.join("\n"));
        } else if !paragraph.is_empty() {
            remarks += &format!(".PP\n{}\n", roff::plain(paragraph));
        }
    }
    let mut text = roff::section("EXIT STATUS") + &status;
    if !examples.is_empty() || !remarks.is_empty() {
        text += &roff::section("EXAMPLES");
        text += &examples;
        text += &remarks;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_keep_their_columns() {
        let text = after_help("Examples:\n  a -x      one\n  a --long  two\n\nExit code: 0 yes.");
        assert!(
            text.contains(".nf\n.RS 4\na \\-x      one\na \\-\\-long  two\n.RE\n.fi\n"),
            "{text}"
        );
        assert!(text.contains(".SH EXIT STATUS\n0 yes.\n"), "{text}");
    }
}
