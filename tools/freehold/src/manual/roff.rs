//! The little of the manual's own language that the pages need.

use std::fmt::Write as _;

/// Text that means itself: nothing in it is a command, and its dashes can be copied into a shell.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if line.starts_with(['.', '\'']) {
            out.push_str("\\&");
        }
        for c in line.chars() {
            match c {
                '\\' => out.push_str("\\e"),
                '-' => out.push_str("\\-"),
                '\'' => out.push_str("\\(aq"),
                '`' => out.push_str("\\(ga"),
                c if c.is_ascii() => out.push(c),
                // Writing to a string cannot fail.
                c => _ = write!(out, "\\[u{:04X}]", u32::from(c)),
            }
        }
    }
    out
}

pub fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", plain(text))
}

/// The first line of a page.
pub fn title(name: &str, section: char) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".TH {} {section} \"\" \"freehold {version}\" \"Freehold\"\n",
        plain(name)
    )
}

pub fn section(name: &str) -> String {
    format!(".SH {}\n", plain(name))
}

/// Lines that keep their columns.
pub fn verbatim(text: &str) -> String {
    format!(".PP\n.nf\n.RS 4\n{}\n.RE\n.fi\n", plain(text))
}

/// Each word or phrase in bold, and what it means.
pub fn definitions<'a>(rows: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    rows.into_iter()
        .map(|(word, text)| format!(".TP\n{}\n{}\n", bold(word), plain(text)))
        .collect()
}

/// The same further in, as a part of a text.
pub fn definitions_inside(rows: &[(String, String)]) -> String {
    let rows = rows.iter().map(|(word, text)| (&**word, &**text));
    format!(".RS 4\n{}.RE\n", definitions(rows))
}

/// References to other pages.
pub fn see_also(pages: &[&str]) -> String {
    let names: Vec<String> = pages
        .iter()
        .map(|page| {
            let (name, section) = page.rsplit_once('.').unwrap_or((page, "1"));
            format!("{}({section})", bold(name))
        })
        .collect();
    format!("{}{}\n", section("SEE ALSO"), names.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_never_taken_for_a_command() {
        assert_eq!(plain(".so x\n'a"), "\\&.so x\n\\&\\(aqa");
        assert_eq!(plain("a\\b --c × 2"), "a\\eb \\-\\-c \\[u00D7] 2");
    }
}
