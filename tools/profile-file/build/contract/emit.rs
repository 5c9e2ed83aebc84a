//! The contract as Rust.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::header::{Header, Length, Member, Structure, Value};
use super::table::{CLASS_ROW, Pair, STATISTICS, Statistic, Table};

/// FH_PROFILE_NODE_CUT → NODE_CUT.
fn constant(name: &str) -> &str {
    name.strip_prefix("FH_PROFILE_").unwrap_or(name)
}

/// fh_profile_scan_row → ScanRow, and FH_PROFILE_USE_OWN without USE_ → Own.
fn camel(name: &str) -> String {
    let name = name.strip_prefix("fh_profile_").unwrap_or(constant(name));
    let words = name.strip_prefix("USE_").unwrap_or(name).split('_');
    words
        .map(|word| {
            let (first, rest) = word.split_at(1.min(word.len()));
            first.to_uppercase() + &rest.to_lowercase()
        })
        .collect()
}

fn rust_type(member: &Member) -> String {
    let kind = match member.kind.as_str() {
        kind @ ("u8" | "u32" | "u64") => kind.to_owned(),
        structure => camel(structure),
    };
    match &member.length {
        None => kind,
        Some(Length::Number(number)) => format!("[{kind}; {number}]"),
        Some(Length::Constant(name)) => format!("[{kind}; {}]", constant(name)),
    }
}

/// The constants by which an array has its length: they are counts, and so usize.
fn counts(profile: &Header) -> BTreeSet<&str> {
    let members = profile.structures.iter().flat_map(|s| &s.members);
    members
        .filter_map(|member| match &member.length {
            Some(Length::Constant(name)) => Some(name.as_str()),
            _ => None,
        })
        .collect()
}

/// Constants, structures and enumerations, and the facts that a C compiler can check.
pub fn profile(out: &mut String, profile: &Header, table: &Table) {
    let counts = counts(profile);
    let of_rows: BTreeSet<&str> = [&table.sections, &table.uses]
        .into_iter()
        .flatten()
        .map(|row| row.member.as_str())
        .collect();
    let mut facts = String::new();
    let mut number_of = |out: &mut String, name: &str, number: u64, kind: &str| {
        let kind = if counts.contains(name) { "usize" } else { kind };
        let short = constant(name);
        let _ = writeln!(
            out,
            "/// `{name}`.\npub const {short}: {kind} = {number:#x};"
        );
        let cast = if kind == "u64" { "" } else { " as u64" };
        let _ = writeln!(facts, "    ({name:?}, {short}{cast}),");
    };
    for (name, value) in &profile.constants {
        match value {
            Value::Number(number) => number_of(out, name, *number, "u32"),
            Value::Wide(number) => number_of(out, name, *number, "u64"),
            Value::Words(texts) => {
                let text = texts.concat();
                let short = constant(name);
                let _ = writeln!(out, "/// `{name}`.\npub const {short}: &str = {text:?};");
            }
        }
    }
    for (name, number) in profile.enumerations.iter().flat_map(|e| &e.members) {
        if !of_rows.contains(name.as_str()) {
            number_of(out, name, *number, "u64");
        }
    }
    for found in &profile.structures {
        structure(out, &mut facts, found);
    }
    sections(out, &mut facts, profile, &table.sections);
    uses(out, &mut facts, profile, &table.uses);
    let _ = write!(
        out,
        "/// Expressions of C, and what they have to be worth.\n#[cfg(any(test, feature = \"testing\"))]\n\
         pub const FACTS: &[(&str, u64)] = &[\n{facts}];\n\n"
    );
}

fn structure(out: &mut String, facts: &mut String, found: &Structure) {
    let (name, rust) = (&found.name, camel(&found.name));
    let _ = write!(
        out,
        "\n/// `{name}`.\n#[repr(C)]\n#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]\npub struct {rust} {{\n"
    );
    let _ = writeln!(
        facts,
        "    (\"sizeof({name})\", size_of::<{rust}>() as u64),"
    );
    for member in &found.members {
        let field = &member.name;
        let _ = writeln!(out, "    pub {field}: {},", rust_type(member));
        let _ = writeln!(
            facts,
            "    (\"offsetof({name}, {field})\", std::mem::offset_of!({rust}, {field}) as u64),"
        );
    }
    out.push_str("}\n");
}

/// The head of an enumeration with its values, and the facts about them.
fn enumeration(
    out: &mut String,
    facts: &mut String,
    profile: &Header,
    rust: &str,
    what: &str,
    rows: &[Pair],
) {
    let _ = write!(
        out,
        "\n/// {what}\n#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]\n#[repr(u64)]\npub enum {rust} {{\n"
    );
    for row in rows {
        let (name, number) = (
            camel(&row.member),
            profile.number(&row.member).unwrap_or_default(),
        );
        let _ = writeln!(out, "    /// `{}`.\n    {name} = {number},", row.member);
        let _ = writeln!(facts, "    ({:?}, {rust}::{name} as u64),", row.member);
    }
    let all: Vec<String> = rows
        .iter()
        .map(|row| format!("{rust}::{}", camel(&row.member)))
        .collect();
    let _ = write!(
        out,
        "}}\n\nimpl {rust} {{\n    /// All of them, in their order.\n    pub const ALL: [{rust}; {}] = [{}];\n\n",
        all.len(),
        all.join(", ")
    );
}

fn matching(out: &mut String, head: &str, arms: impl Iterator<Item = (String, String)>) {
    let _ = writeln!(out, "    pub const fn {head} {{\n        match self {{");
    for (from, to) in arms {
        let _ = writeln!(out, "            Self::{from} => {to},");
    }
    out.push_str("        }\n    }\n\n");
}

fn sections(out: &mut String, facts: &mut String, profile: &Header, rows: &[Pair]) {
    let what = "What a section holds; the numbers are places in [`Header::section`].";
    enumeration(out, facts, profile, "SectionKind", what, rows);
    out.push_str("    /// How messages call it.\n");
    let name = |row: &Pair| format!("{:?}", constant(&row.member).to_lowercase());
    let arms = rows.iter().map(|row| (camel(&row.member), name(row)));
    matching(out, "name(self) -> &'static str", arms);
    out.push_str("    /// The size of an entry.\n");
    let size = |row: &Pair| format!("size_of::<{}>()", camel(&row.other));
    let arms = rows.iter().map(|row| (camel(&row.member), size(row)));
    matching(out, "entry_bytes(self) -> usize", arms);
    out.push_str("}\n");
}

fn uses(out: &mut String, facts: &mut String, profile: &Header, rows: &[Pair]) {
    enumeration(
        out,
        facts,
        profile,
        "ClassUse",
        "Whose blocks a size class has.",
        rows,
    );
    out.push_str("    /// The word for it in JSON and in labels.\n");
    let word = |row: &Pair| format!("{:?}", row.other);
    let arms = rows.iter().map(|row| (camel(&row.member), word(row)));
    matching(out, "name(self) -> &'static str", arms);
    out.push_str("}\n");
}

/// Names, units and help texts.
pub fn texts(out: &mut String, table: &Table) {
    let mut list = |name: &str, what: &str, of: &str, rows: &[Statistic]| {
        let of = camel(of);
        let _ = writeln!(
            out,
            "/// {what}\npub const {name}: &[Statistic<{of}>] = &[\n"
        );
        for row in rows {
            let value = format!("|from: &{of}| from.{}", row.member);
            let _ = writeln!(out, "    {},", statistic(row, "Statistic", &value));
        }
        out.push_str("];\n\n");
    };
    list(
        "STATISTICS",
        "The statistics of the heap.",
        STATISTICS,
        &table.statistics,
    );
    list(
        "CLASS_STATISTICS",
        "The statistics of a size class.",
        CLASS_ROW,
        &table.class_statistics,
    );
    for row in &table.families {
        let _ = writeln!(
            out,
            "/// A family of metrics that is not one member of a structure.\npub const FAMILY_{}: Statistic<()> = {};\n",
            row.member.to_uppercase(),
            statistic(row, "Statistic", "|()| 0")
        );
    }
}

fn statistic(row: &Statistic, name: &str, value: &str) -> String {
    format!(
        "{name} {{ name: {:?}, unit: {:?}, counter: {}, help: {:?}, value: {value} }}",
        row.metric, row.unit, row.counter, row.help
    )
}

pub fn number(out: &mut String, name: &str, of: &str, number: u64) {
    let _ = writeln!(out, "/// `{of}`.\npub const {name}: u64 = {number:#x};");
}

pub fn words(out: &mut String, name: &str, words: Vec<String>) {
    let _ = writeln!(
        out,
        "/// Names, in the order of their numbers.\npub const {name}: [&str; {}] = {words:?};",
        words.len()
    );
}
