//! The rows of the table of sections, uses of classes, and statistics.

use super::Error;
use super::header::{Enumeration, Header, Structure};
use super::token::{Kind, Word};

/// The structures of which rows name members.
pub const STATISTICS: &str = "fh_profile_statistics";
pub const CLASS_ROW: &str = "fh_profile_row";

/// The names of the rows, with the number of their arguments.
const ROWS: [(&str, usize); 6] = [
    ("SECTION", 2),
    ("CLASS_USE", 2),
    ("STATISTIC", 6),
    ("CLASS_STATISTIC", 3),
    ("FAMILY", 4),
    ("OCCUPANCY", 1),
];

/// A member of an enumeration, and the name of a type or a word.
pub struct Pair {
    pub line: usize,
    pub member: String,
    pub other: String,
}

pub struct Statistic {
    pub line: usize,
    pub counter: bool,
    /// Of a family: its own name.
    pub member: String,
    pub metric: String,
    pub unit: Option<String>,
    pub help: String,
}

#[derive(Default)]
pub struct Table {
    file: &'static str,
    pub sections: Vec<Pair>,
    pub uses: Vec<Pair>,
    pub statistics: Vec<Statistic>,
    pub class_statistics: Vec<Statistic>,
    pub families: Vec<Statistic>,
    pub shares: Vec<String>,
}

/// The arguments of one row.
struct Row<'a> {
    file: &'static str,
    line: usize,
    arguments: &'a [Word],
}

impl Row<'_> {
    fn error<T>(&self, what: impl Into<String>) -> Result<T, Error> {
        Err(Error {
            file: self.file,
            line: self.line,
            what: what.into(),
        })
    }

    fn name(&self, at: usize) -> Result<String, Error> {
        match self.arguments[at].name() {
            Some(name) => Ok(name.to_owned()),
            None => self.error(format!("argument {} should be a name", at + 1)),
        }
    }

    fn text(&self, at: usize) -> Result<String, Error> {
        match self.arguments[at].text() {
            Some(text) if !text.contains('\\') => Ok(text.to_owned()),
            _ => self.error(format!("argument {} should be a plain text", at + 1)),
        }
    }

    fn unit(&self, at: usize) -> Result<Option<String>, Error> {
        Ok(Some(self.text(at)?).filter(|unit| !unit.is_empty()))
    }

    fn pair(&self, other: String) -> Result<Pair, Error> {
        Ok(Pair {
            line: self.line,
            member: self.name(0)?,
            other,
        })
    }

    /// A statistic, checked for what OpenMetrics asks of names.
    fn statistic(&self, counter: bool, member: usize, unit: bool) -> Result<Statistic, Error> {
        let found = Statistic {
            line: self.line,
            counter,
            member: self.name(member)?,
            metric: self.text(member + 1)?,
            unit: if unit { self.unit(member + 2)? } else { None },
            help: self.text(self.arguments.len() - 1)?,
        };
        let ends = |unit: &String| found.metric.ends_with(&format!("_{unit}"));
        if !found.unit.as_ref().is_none_or(ends) {
            return self.error(format!("{} does not end in its unit", found.metric));
        }
        if !found.help.ends_with('.') {
            return self.error("the help text is no sentence");
        }
        Ok(found)
    }
}

impl Table {
    /// Understands every word of the file, or says which line it does not.
    pub fn parse(file: &'static str, words: &[Word]) -> Result<Table, Error> {
        let mut table = Table {
            file,
            ..Table::default()
        };
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            let error = |what: String| Error {
                file,
                line: word.line,
                what,
            };
            rest = after;
            if let Kind::Directive(_) = word.kind {
                // What makes an empty macro of a row that is not asked for.
                if !is_default(word) {
                    return Err(error(format!("{} is not understood", word.shown())));
                }
                continue;
            }
            let known = ROWS.iter().find(|(name, _)| word.name() == Some(name));
            let Some(&(name, count)) = known else {
                return Err(error(format!("{} is no row that is known", word.shown())));
            };
            let end = rest.iter().position(|word| word.is(")"));
            let (Some(end), true) = (end, rest.first().is_some_and(|word| word.is("("))) else {
                return Err(error(format!("{name} without its arguments")));
            };
            let arguments = arguments(&rest[1..end]);
            rest = &rest[end + 1..];
            if arguments.as_ref().is_none_or(|found| found.len() != count) {
                return Err(error(format!("{name} has {count} arguments")));
            }
            table.add(
                name,
                &Row {
                    file,
                    line: word.line,
                    arguments: &arguments.unwrap_or_default(),
                },
            )?;
        }
        Ok(table)
    }

    fn add(&mut self, name: &str, row: &Row) -> Result<(), Error> {
        match name {
            "SECTION" => self.sections.push(row.pair(row.name(1)?)?),
            "CLASS_USE" => self.uses.push(row.pair(row.text(1)?)?),
            "STATISTIC" => {
                let counter = match row.name(1)?.as_str() {
                    "GAUGE" => false,
                    "COUNTER" => true,
                    other => return row.error(format!("{other} is neither GAUGE nor COUNTER")),
                };
                self.statistics.push(row.statistic(counter, 2, true)?);
            }
            "CLASS_STATISTIC" => self.class_statistics.push(row.statistic(false, 0, false)?),
            "FAMILY" => self.families.push(row.statistic(false, 0, true)?),
            _ => self.shares.push(row.text(0)?),
        }
        Ok(())
    }

    /// The rows and the layout say the same.
    pub fn check(&self, profile: &Header) -> Result<(), Error> {
        // The last one of the sections is their number; the first use is none.
        let kinds = profile.enumeration_of("fh_profile_section_kind")?;
        let last = kinds.members.len().saturating_sub(1);
        self.cover(kinds, &kinds.members[..last], &self.sections)?;
        let uses = profile.enumeration_of("fh_profile_use")?;
        self.cover(uses, &uses.members[1..], &self.uses)?;
        for section in &self.sections {
            if profile.structure_of(&section.other).is_none() {
                return self.error(
                    section.line,
                    format!("{} is no structure of the file", section.other),
                );
            }
        }
        self.are_members(profile, STATISTICS, &self.statistics)?;
        self.are_members(profile, CLASS_ROW, &self.class_statistics)
    }

    fn error<T>(&self, line: usize, what: String) -> Result<T, Error> {
        Err(Error {
            file: self.file,
            line,
            what,
        })
    }

    fn cover(
        &self,
        of: &Enumeration,
        members: &[(String, u64)],
        rows: &[Pair],
    ) -> Result<(), Error> {
        for ((member, _), row) in members.iter().zip(rows) {
            if *member != row.member {
                let what = format!("{} where {member} of {} comes next", row.member, of.name);
                return self.error(row.line, what);
            }
        }
        if members.len() != rows.len() {
            let line = rows.last().map_or(0, |row| row.line);
            let what = format!(
                "{} rows for the {} values of {}",
                rows.len(),
                members.len(),
                of.name
            );
            return self.error(line, what);
        }
        Ok(())
    }

    fn are_members(&self, profile: &Header, name: &str, rows: &[Statistic]) -> Result<(), Error> {
        let found = profile.structure_of(name);
        let plain = |structure: &Structure, row: &Statistic| {
            let mut members = structure.members.iter();
            members.any(|m| m.name == row.member && m.kind == "u64" && m.length.is_none())
        };
        for row in rows {
            if !found.is_some_and(|structure| plain(structure, row)) {
                let what = format!("{} is no number in {name}", row.member);
                return self.error(row.line, what);
            }
        }
        Ok(())
    }
}

/// #ifndef ROW, #define ROW(...), #endif, #undef ROW.
fn is_default(word: &Word) -> bool {
    let Kind::Directive(words) = &word.kind else {
        return false;
    };
    let row = |word: &Word| ROWS.iter().any(|(name, _)| word.name() == Some(name));
    match words.as_slice() {
        [what] => what.name() == Some("endif"),
        [what, name] => matches!(what.name(), Some("ifndef" | "undef")) && row(name),
        [what, name, open, dots, close] => {
            let empty = open.is("(") && dots.is("...") && close.is(")");
            what.name() == Some("define") && row(name) && empty
        }
        _ => false,
    }
}

/// Words between commas; each argument is one word.
fn arguments(words: &[Word]) -> Option<Vec<Word>> {
    words
        .split(|word| word.is(","))
        .map(|part| match part {
            [word] => Some(word.clone()),
            _ => None,
        })
        .collect()
}
