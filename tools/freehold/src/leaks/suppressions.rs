//! Leaks that one knows of and does not want to hear of again.
//!
//! The file is LeakSanitizer's: a line `leak:PATTERN`, where PATTERN matches within the function, the file or the
//! module of any frame of the stack; `*` stands for any text, `^` and `$` for beginning and end. `#` begins a comment.
//! `freehold fail` reads the same with `fail:`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use profile_file::Frame;

#[derive(Debug, Default)]
pub struct Suppressions {
    patterns: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    text: String,
    /// Literal parts between the stars.
    parts: Vec<String>,
    from_start: bool,
    to_end: bool,
}

impl Suppressions {
    pub fn read(path: &Path) -> Result<Suppressions> {
        Self::read_kind(path, "leak:")
    }

    /// Of another kind than leaks, with its word and a colon.
    pub fn read_kind(path: &Path, kind: &str) -> Result<Suppressions> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the suppressions in {}", path.display()))?;
        Self::parse_kind(&text, kind).with_context(|| path.display().to_string())
    }

    #[cfg(test)]
    pub fn parse(text: &str) -> Result<Suppressions> {
        Self::parse_kind(text, "leak:")
    }

    fn parse_kind(text: &str, kind: &str) -> Result<Suppressions> {
        let mut patterns = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some(pattern) = line.strip_prefix(kind) else {
                bail!(
                    "line {}: {line:?} is not {kind}PATTERN (a comment begins with #)",
                    number + 1
                );
            };
            if pattern.trim_matches(['*', '^', '$']).is_empty() {
                bail!("line {}: {line:?} would suppress everything", number + 1);
            }
            patterns.push(Pattern::new(pattern));
        }
        Ok(Suppressions { patterns })
    }

    /// The pattern that some frame of this stack matches.
    pub fn matching(&self, frames: &[Frame]) -> Option<&str> {
        let fits = |pattern: &Pattern, frame: &Frame| {
            pattern.matches(&frame.function)
                || pattern.matches(&frame.module)
                || frame
                    .file
                    .as_ref()
                    .is_some_and(|file| pattern.matches(file))
        };
        self.patterns
            .iter()
            .find(|pattern| frames.iter().any(|frame| fits(pattern, frame)))
            .map(|pattern| pattern.text.as_str())
    }

    /// Patterns, as they are in the file.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(|pattern| pattern.text.as_str())
    }
}

impl Pattern {
    fn new(text: &str) -> Pattern {
        let inner = text.strip_prefix('^').unwrap_or(text);
        let inner = inner.strip_suffix('$').unwrap_or(inner);
        Pattern {
            text: text.to_owned(),
            parts: inner.split('*').map(str::to_owned).collect(),
            from_start: text.starts_with('^'),
            to_end: text.ends_with('$'),
        }
    }

    /// Part by part, each at its first place: with nothing but stars between them that finds a match if there is one,
    /// if the last part may be looked for from the end.
    fn matches(&self, text: &str) -> bool {
        let mut rest = text;
        let last = self.parts.len() - 1;
        for (number, part) in self.parts.iter().enumerate() {
            if number == last && self.to_end {
                let whole = number == 0 && self.from_start;
                return if whole {
                    rest == part
                } else {
                    rest.ends_with(part.as_str())
                };
            }
            if number == 0 && self.from_start {
                match rest.strip_prefix(part.as_str()) {
                    Some(after) => rest = after,
                    None => return false,
                }
            } else {
                match rest.find(part.as_str()) {
                    Some(place) => rest = &rest[place + part.len()..],
                    None => return false,
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_site::tests::frame;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).matches(text)
    }

    #[test]
    fn patterns_match_like_leak_sanitizers() {
        assert!(matches("cache", "my_cache_insert"));
        assert!(matches("^my_*_insert$", "my_cache_insert"));
        assert!(!matches("^cache", "my_cache_insert"));
        assert!(!matches("cache$", "my_cache_insert"));
        assert!(matches("a*b*c", "xxaxxbxxcxx"));
        assert!(!matches("a*b*c", "xxaxxcxxbxx"));
        assert!(matches("^main$", "main"));
        assert!(!matches("^main$", "main2"));
        assert!(matches("*ab$", "xabab"));
    }

    #[test]
    fn any_frame_may_match_by_function_file_or_module() {
        let list = Suppressions::parse("# known\nleak:interned\n\nleak:^/usr/bin/serv*\n").unwrap();
        assert_eq!(
            list.matching(&[frame("get_interned_string", 1)]),
            Some("interned")
        );
        assert_eq!(list.matching(&[frame("other", 1)]), Some("^/usr/bin/serv*"));
        assert_eq!(
            Suppressions::parse("leak:x")
                .unwrap()
                .matching(&[frame("other", 1)]),
            None
        );
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let error = Suppressions::parse("leak:a\nrace:b")
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "line 2: \"race:b\" is not leak:PATTERN (a comment begins with #)"
        );
        assert!(Suppressions::parse("leak:*").is_err());
    }
}
