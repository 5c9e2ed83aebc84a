//! Section 7: every option of the allocator, from the list that the header has above `fh_option_set`.

use anyhow::{Context, Result, ensure};

use super::{Page, roff};

struct Choice {
    key: String,
    values: String,
    text: String,
}

pub fn page(header: &str) -> Result<Page> {
    let choices = read(header)?;
    let mut text = roff::title("freehold", '7') + &roff::section("NAME");
    text += "freehold \\- a lock\\-free memory allocator, and its options\n";
    text += &roff::section("SYNOPSIS");
    text += &roff::verbatim(
        "LD_PRELOAD=libfreehold.so [FREEHOLD=key=value,key=value] program\nFREEHOLD=help LD_PRELOAD=libfreehold.so /bin/true",
    );
    text += &roff::section("DESCRIPTION");
    text += &roff::plain(
        "Freehold replaces malloc and its family, and operator new and delete, in a program that is linked with it or that \
         preloads it. It can also be used alongside them through the functions that begin with fh_.\n\
         Options come from the variable FREEHOLD when the program starts, or from fh_option_set(3). An unknown option or a bad \
         value is named on stderr with the valid ones, and the program continues. Programs that run with more rights than \
         their caller do not read the variable.\n",
    );
    text += &roff::section("OPTIONS");
    text += "The first of several values is the default.\n";
    for choice in &choices {
        text += &format!(
            ".TP\n{}={}\n{}\n",
            roff::bold(&choice.key),
            roff::plain(&alternatives(&choice.values)),
            roff::plain(&choice.text)
        );
    }
    text +=
        ".TP\n\\fBhelp\\fR\nNo option: prints this list on stderr, and the program continues.\n";
    text += &roff::section("FILES");
    text += &roff::definitions([
        (
            "/dev/shm/freehold-PID",
            "The profile file of a process with observe=1, unless page names another directory.",
        ),
        (
            "/dev/shm/freehold-flight-PID",
            "The last calls of a process with flight, unless page names another directory.",
        ),
    ]);
    text += &roff::section("EXAMPLES");
    text += &roff::verbatim(
        "FREEHOLD=verbose=1 LD_PRELOAD=libfreehold.so redis-server     is it active?\n\
         FREEHOLD=stats=1 LD_PRELOAD=libfreehold.so make               what the heap holds at the end\n\
         FREEHOLD=limit=2g,on_oom=report LD_PRELOAD=libfreehold.so app",
    );
    text += &roff::see_also(&["freehold.1", "fh_option_set.3", "fh_malloc.3", "ld.so.8"]);
    Ok(Page {
        name: "freehold".to_owned(),
        section: '7',
        text,
    })
}

/// Words of a choice are apart by a bar. What is a phrase says itself what may stand there.
fn alternatives(values: &str) -> String {
    if values.contains(',') || values.starts_with("a ") {
        format!(" {values}")
    } else {
        values.replace(' ', "|")
    }
}

/// The rows of the list: key, values and text are apart by two blanks or more, and a line that begins further in goes on
/// with the text.
fn read(header: &str) -> Result<Vec<Choice>> {
    let (_, list) = header
        .split_once("/* Sets an option")
        .context("the header describes fh_option_set")?;
    let (list, _) = list.split_once("*/").context("a comment ends")?;
    let mut choices: Vec<Choice> = Vec::new();
    for line in list.lines() {
        let Some(row) = line.strip_prefix(" *     ") else {
            continue;
        };
        if row.starts_with(' ') {
            let last = choices
                .last_mut()
                .context("a line goes on with a row before it")?;
            last.text = format!("{} {}", last.text, row.trim());
            continue;
        }
        let mut cells = row
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty());
        let mut cell = || {
            cells
                .next()
                .map(str::to_owned)
                .with_context(|| format!("three cells in {row:?}"))
        };
        choices.push(Choice {
            key: cell()?,
            values: cell()?,
            text: cell()?,
        });
    }
    ensure!(!choices.is_empty(), "the header has a list of options");
    Ok(choices)
}

#[cfg(test)]
mod tests {
    use super::super::HEADER;
    use super::*;

    /// The keys of the table that the library itself reads.
    fn keys_of_the_library() -> Vec<&'static str> {
        let source = include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../src/api/options.c"
        ));
        let (_, table) = source
            .split_once("static const option options[] = {")
            .unwrap();
        let (table, _) = table.split_once("\n};").unwrap();
        table
            .lines()
            .filter_map(|line| line.strip_prefix("    {\""))
            .map(|line| line.split('"').next().unwrap())
            .collect()
    }

    #[test]
    fn every_option_of_the_library_is_told() {
        let mut known = keys_of_the_library();
        assert!(known.len() > 10, "{known:?}");
        let choices = read(HEADER).unwrap();
        let mut told: Vec<&str> = choices.iter().map(|choice| choice.key.as_str()).collect();
        known.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, known);
        assert!(choices.iter().all(|choice| choice.text.len() > 10));
    }
}
