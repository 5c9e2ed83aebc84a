//! Section 3: a page for each part of a public header, under the name of its first function. The other functions of that
//! part have pages that lead to it.

use anyhow::{Context, Result, ensure};

use super::{Page, roff};

/// A comment of the header and the declarations below it.
struct Entry {
    comment: String,
    /// Anything that is no function, as a type, in the words of the header.
    types: String,
    functions: Vec<String>,
}

impl Entry {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().filter_map(|it| name_of(it))
    }
}

/// The pages of the header that is included by this name. What stands before its first part is one too, if it has functions,
/// under the header's own title.
pub fn pages(include: &str, header: &str) -> Result<Vec<Page>> {
    let rules = comment_at(header).context("the header begins with a comment")?;
    let (_, code) = header.split_once("*/").context("a comment ends")?;
    let mut parts = code.split("/* ── ");
    let before = entries(parts.next().unwrap_or_default())?;
    let mut pages = part_pages(include, title_of(&rules), &before, &rules);
    for part in parts {
        let (heading, body) = part.split_once(" ─").context("a heading ends in a line")?;
        let (_, body) = body
            .split_once("*/")
            .context("a heading ends as a comment")?;
        pages.extend(part_pages(include, heading, &entries(body)?, &rules));
    }
    ensure!(!pages.is_empty(), "{include} has functions");
    Ok(pages)
}

/// What a header is of, as its first sentence says.
fn title_of(rules: &str) -> &str {
    let sentence = rules.split('.').next().unwrap_or_default();
    let own = ["Freehold: ", "Freehold's "];
    let title = own.iter().find_map(|it| sentence.strip_prefix(it));
    title.unwrap_or(sentence)
}

fn part_pages(include: &str, heading: &str, entries: &[Entry], rules: &str) -> Vec<Page> {
    let names: Vec<&str> = entries.iter().flat_map(Entry::names).collect();
    let Some(&first) = names.first() else {
        return Vec::new();
    };
    let mut text = roff::title(first, '3') + &roff::section("NAME");
    text += &format!(
        "{} \\- {}\n",
        roff::plain(&names.join(", ")),
        roff::plain(&lower(heading))
    );
    text += &roff::section("SYNOPSIS");
    let functions: Vec<&str> = entries
        .iter()
        .flat_map(|entry| &entry.functions)
        .map(String::as_str)
        .collect();
    text += &roff::verbatim(&format!("#include <{include}>\n\n{}", functions.join("\n")));
    text += ".PP\nCompile and link with \\fBpkg\\-config \\-\\-cflags \\-\\-libs freehold\\fR (or \\fBfreehold\\-embed\\fR).\n";
    text += &roff::section("DESCRIPTION");
    for entry in entries {
        let mut names: Vec<&str> = entry.names().collect();
        if names.is_empty() {
            names = public_types(&entry.types);
        }
        if names.is_empty() {
            continue;
        }
        text += &format!(".SS {}\n", roff::plain(&names.join(", ")));
        text += &paragraphs(&entry.comment);
        if !entry.types.is_empty() {
            text += &roff::verbatim(&entry.types);
        }
    }
    text += &roff::section("NOTES");
    text += &paragraphs(rules);
    text += &roff::see_also(&["freehold.1", "freehold.7", "malloc.3"]);
    let lead = names[1..].iter().map(|name| Page {
        name: (*name).to_owned(),
        section: '3',
        text: format!(".so man3/{first}.3\n"),
    });
    let mut pages = vec![Page {
        name: first.to_owned(),
        section: '3',
        text,
    }];
    pages.extend(lead);
    pages
}

/// The types and constants that a program names. A struct without a typedef is for the header's own inline functions.
fn public_types(code: &str) -> Vec<&str> {
    let name = |line: &str| -> Option<usize> {
        let typedef = line.strip_prefix("typedef ")?;
        let callback = line.find("(*").map(|at| at + 2);
        callback.or_else(|| {
            let named = typedef.strip_prefix("struct ")?;
            Some(line.len() - named.len())
        })
    };
    code.lines()
        .filter_map(|line| {
            let at = name(line).or_else(|| line.starts_with("#define ").then_some(8))?;
            line[at..].split([' ', ')', '(', ';']).next()
        })
        .collect()
}

/// The heading as the short description of a page, which is no sentence.
fn lower(heading: &str) -> String {
    let mut chars = heading.chars();
    chars.next().map_or(String::new(), |first| {
        first.to_lowercase().chain(chars).collect()
    })
}

/// The comment that a text begins with, without its frame.
fn comment_at(text: &str) -> Option<String> {
    let (comment, _) = text.strip_prefix("/*")?.split_once("*/")?;
    let lines: Vec<&str> = comment
        .lines()
        .enumerate()
        .map(|(i, line)| {
            let line = line.trim_end();
            match i {
                0 => line.trim_start(),
                _ => line.strip_prefix(" *").map_or(line, |line| {
                    // One blank belongs to the frame; further ones are the text's.
                    line.strip_prefix(' ').unwrap_or(line)
                }),
            }
        })
        .collect();
    Some(lines.join("\n").trim_end().to_owned())
}

/// Comments with what they are about, which goes on to the next comment at the beginning of a line.
fn entries(body: &str) -> Result<Vec<Entry>> {
    let first = body.find("\n/* ").unwrap_or(body.len());
    let mut found = vec![entry(String::new(), &body[..first])];
    for (at, _) in body.match_indices("\n/* ") {
        let comment = comment_at(&body[at + 1..]).context("a comment ends")?;
        let after = at + body[at..].find("*/").context("a comment ends")? + 2;
        let code = &body[after..];
        let code = &code[..code.find("\n/* ").unwrap_or(code.len())];
        found.push(entry(comment, code));
    }
    Ok(found)
}

const INLINE: &str = "static inline ";

/// Not what is for the preprocessor, but constants and macros of the program's, nor the braces of extern "C" and of functions.
fn is_of_entry(line: &str) -> bool {
    let own = ["#define FH_HEAP_", "#define fh_"];
    let preprocessor = line.starts_with('#') && !own.iter().any(|it| line.starts_with(it));
    !preprocessor && line != "}" && !line.starts_with("extern ")
}

fn entry(comment: String, code: &str) -> Entry {
    let mut functions = Vec::new();
    let mut types = String::new();
    let mut declaration: Option<String> = None;
    let mut lines = code.lines().filter(|line| is_of_entry(line));
    while let Some(line) = lines.next() {
        match &mut declaration {
            Some(begun) => *begun = format!("{begun} {}", line.trim()),
            None if line.starts_with("FH_API ") => declaration = Some(line.to_owned()),
            None if line.starts_with(INLINE) => {
                functions.push(without_attributes(line));
                // Its lines are indented, and a brace alone is no line of an entry.
                for _ in lines.by_ref().take_while(|it| it.starts_with(' ')) {}
            }
            None => types += &format!("{line}\n"),
        }
        if declaration.as_ref().is_some_and(|it| it.ends_with(';')) {
            functions.extend(declaration.take().map(|it| without_attributes(&it)));
        }
    }
    Entry {
        comment,
        types: types.trim().to_owned(),
        functions,
    }
}

/// A declaration as a caller reads it: up to the end of its parameters.
fn without_attributes(declaration: &str) -> String {
    let text = declaration
        .trim_start_matches("FH_API ")
        .trim_start_matches(INLINE);
    let mut depth = 0;
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return format!("{};", &text[..=i]),
            ')' => depth -= 1,
            _ => {}
        }
    }
    text.to_owned()
}

fn name_of(function: &str) -> Option<&str> {
    let (before, _) = function.split_once('(')?;
    before.rsplit([' ', '*']).next()
}

/// Prose is filled, also that of a table's last column; anything else that is indented keeps its lines.
fn paragraphs(comment: &str) -> String {
    let mut text = String::new();
    let mut lines = comment.lines().peekable();
    while let Some(first) = lines.next() {
        if first.trim().is_empty() {
            continue;
        }
        let indented = first.starts_with("  ");
        let mut block = vec![first];
        while let Some(next) =
            lines.next_if(|it| !it.trim().is_empty() && it.starts_with("  ") == indented)
        {
            block.push(next);
        }
        text += &match indented {
            true => match table(&block) {
                Some(rows) => roff::definitions_inside(&rows),
                None => roff::verbatim(&block.join("\n")),
            },
            false => format!(".PP\n{}\n", roff::plain(&block.join("\n"))),
        };
    }
    text
}

/// Rows whose cells are two blanks or more apart: what is told of, and its text, which goes on in lines that begin further in.
/// None: some row has one cell alone.
fn table(lines: &[&str]) -> Option<Vec<(String, String)>> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut rows: Vec<(String, String)> = Vec::new();
    for line in lines {
        if let Some((_, text)) = rows.last_mut().filter(|_| indent(line) > indent(lines[0])) {
            *text = format!("{text} {}", line.trim());
            continue;
        }
        let cells: Vec<&str> = line
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect();
        let (text, words) = cells.split_last().filter(|(_, words)| !words.is_empty())?;
        rows.push((words.join(" "), (*text).to_owned()));
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::super::{HEADER, HEADERS};
    use super::*;

    #[test]
    fn a_table_is_told_in_paragraphs_that_fit_any_width() {
        let rows = table(&["  Sizes   in", "          bytes", "  key  0 1   what"]).unwrap();
        let row = |word: &str, text: &str| (word.to_owned(), text.to_owned());
        assert_eq!(rows, [row("Sizes", "in bytes"), row("key 0 1", "what")]);
        assert_eq!(table(&["    cc app.c"]), None);
        for name in ["fh_malloc", "fh_option_set", "fh_limit_set"] {
            let pages = pages("freehold/freehold.h", HEADER).unwrap();
            let page = pages.iter().find(|page| page.name == name).unwrap();
            let mut kept = false;
            for line in page.text.lines() {
                kept = line == ".nf" || kept && line != ".fi";
                assert!(!kept || line.len() <= 100, "{name}: {line}");
            }
        }
    }

    #[test]
    fn every_function_of_every_header_has_a_page() {
        for (include, header) in HEADERS {
            functions_have_pages(include, header);
        }
        let heap = pages("freehold/heap.h", HEADERS[1].1).unwrap();
        let new = &heap[0].text;
        assert!(new.contains(".TH fh_heap_new 3"));
        assert!(new.contains("\\- heaps of your own\n"));
        assert!(new.contains(".SS FH_HEAP_TYPE_STABLE\n"));
        assert!(new.contains(".SS fh_heap_options\n") && new.contains("size_t hard_limit;"));
        let all: String = heap.iter().map(|page| &*page.text).collect();
        assert!(all.contains("\nvoid *fh_frame_malloc(fh_heap *heap, size_t size);\n"));
        assert!(!all.contains("extern") && !all.contains("__cplusplus") && !all.contains("own[2]"));
    }

    fn functions_have_pages(include: &str, header: &str) {
        let pages = pages(include, header).unwrap();
        let declared =
            header.matches("\nFH_API ").count() + header.matches("\nstatic inline ").count();
        assert!(declared > 2, "{include}: {declared}");
        assert_eq!(pages.len(), declared, "{include}");
        for page in &pages {
            assert!(page.name.starts_with("fh_"), "{}", page.name);
            if let Some(to) = page.text.strip_prefix(".so man3/") {
                let to = to.trim_end().trim_end_matches(".3");
                let whole = pages
                    .iter()
                    .find(|it| it.name == to)
                    .expect("a page to go to");
                assert!(whole.text.contains(&format!("{}(", page.name)));
            }
        }
    }

    #[test]
    fn attributes_are_for_the_compiler() {
        let line = "FH_API int fh_limit_set(size_t soft, void (*callback)(size_t a)) FH_API_MALLOC FH_API_SIZE(1);";
        assert_eq!(
            without_attributes(line),
            "int fh_limit_set(size_t soft, void (*callback)(size_t a));"
        );
    }
}
