//! The contract with the library: what was generated is what a C compiler makes of the library's sources, and a change
//! of them is followed or refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use profile_file::layout::FACTS;

#[allow(dead_code)]
#[path = "../build/contract/mod.rs"]
mod contract;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src")
}

fn compile(arguments: &[&str], include: &Path, source: &Path) -> bool {
    let compiled = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-Werror", "-I"])
        .arg(include)
        .arg("-I")
        .arg(sources())
        .args(arguments)
        .arg(source)
        .output()
        .expect("a C compiler, which building Freehold needs too");
    compiled.status.success()
}

#[test]
fn a_c_compiler_finds_the_same_sizes_offsets_and_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (
        directory.path().join("layout.c"),
        directory.path().join("layout"),
    );
    let mut text = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include \"observe/profile.h\"\nint main(void) {\n",
    );
    for (expression, _) in FACTS {
        text += &format!(
            "printf(\"%s=%llu\\n\", \"{expression}\", (unsigned long long){expression});\n"
        );
    }
    text += "return 0;\n}\n";
    fs::write(&source, text).unwrap();
    let out = program.to_str().unwrap();
    assert!(compile(&["-o", out], &sources(), &source));
    let output = Command::new(&program).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let said: BTreeMap<&str, u64> = said
        .lines()
        .map(|line| line.split_once('=').unwrap())
        .map(|(expression, value)| (expression, value.parse().unwrap()))
        .collect();
    let generated: BTreeMap<&str, u64> = FACTS.iter().copied().collect();
    assert!(said.len() > 150, "{}", said.len());
    assert_eq!(said, generated);
}

#[test]
fn this_crate_was_built_from_the_sources_as_they_are() {
    let built = [
        include_str!(concat!(env!("OUT_DIR"), "/layout.rs")),
        include_str!(concat!(env!("OUT_DIR"), "/statistics.rs")),
    ];
    let now = contract::generate(&sources()).unwrap();
    for ((name, text), built) in now.iter().zip(built) {
        assert!(text == built, "{name} would be another one now");
    }
}

/// A copy of the library's sources, which a test may change.
struct Copy {
    directory: tempfile::TempDir,
}

impl Copy {
    fn new() -> Copy {
        let directory = tempfile::tempdir().unwrap();
        for file in contract::FILES.into_iter().chain([FIELDS]) {
            let to = directory.path().join(file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(sources().join(file), to).unwrap();
        }
        Copy { directory }
    }

    fn change(&self, file: &str, from: &str, to: &str) -> &Copy {
        let path = self.directory.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has no {from}");
        fs::write(path, text.replacen(from, to, 1)).unwrap();
        self
    }

    fn generate(&self) -> Result<String, contract::Error> {
        let files = contract::generate(self.directory.path())?;
        Ok(files.map(|(_, text)| text).concat())
    }

    /// The error, and the text of the line that it names.
    fn error(&self) -> (String, String) {
        let error = self.generate().unwrap_err();
        let text = fs::read_to_string(self.directory.path().join(error.file)).unwrap();
        let line = text.lines().nth(error.line.wrapping_sub(1));
        let said = error.to_string();
        assert!(
            said.starts_with(&format!("src/{}:{}: ", error.file, error.line)),
            "{said}"
        );
        (said, line.unwrap_or_default().trim().to_owned())
    }

    fn c_compiles(&self) -> bool {
        let source = self.directory.path().join(FIELDS);
        compile(&["-fsyntax-only"], self.directory.path(), &source)
    }
}

/// The C file that makes its tables of the rows.
const FIELDS: &str = "observe/fields.c";
const TABLE: &str = "observe/contract.def";
const PROFILE: &str = "observe/profile.h";

#[test]
fn a_new_statistic_is_on_both_sides() {
    let copy = Copy::new();
    assert!(copy.c_compiles());
    copy.change(
        PROFILE,
        "uint64_t reserved[3];\n    fh_profile_row",
        "uint64_t naps, reserved[2];\n    fh_profile_row",
    );
    copy.change(
        TABLE,
        "STATISTIC(COUNTERS, COUNTER, refills,",
        "STATISTIC(COUNTERS, COUNTER, naps, \"naps\", \"\", \"Naps taken.\")\nSTATISTIC(COUNTERS, COUNTER, refills,",
    );
    let text = copy.generate().unwrap();
    assert!(text.contains("pub naps: u64,"));
    assert!(text.contains("name: \"naps\", unit: None, counter: true, help: \"Naps taken.\""));
    assert!(copy.c_compiles());
}

#[test]
fn texts_names_and_numbers_are_followed() {
    let copy = Copy::new();
    copy.change(TABLE, "Free blocks in them.", "Free blocks, counted.");
    copy.change(
        TABLE,
        "FH_PROFILE_USE_OWN, \"own\"",
        "FH_PROFILE_USE_OWN, \"private\"",
    );
    copy.change(PROFILE, "FH_PROFILE_USE_NONE,", "FH_PROFILE_USE_NONE = 4,");
    copy.change("base/settings.h", "\"eager\"", "\"keen\"");
    copy.change("base/types.h", "FH_SLOT_SHIFT 16", "FH_SLOT_SHIFT 17");
    let text = copy.generate().unwrap();
    assert!(
        text.contains("help: \"Free blocks, counted.\"") && !text.contains("Free blocks in them.")
    );
    assert!(text.contains("Self::Own => \"private\"") && text.contains("Own = 7,"));
    assert!(text.contains("[\"budget\", \"keen\", \"lazy\", \"background\"]"));
    assert!(text.contains("SLOT_BYTES: u64 = 0x20000;"));
}

/// Each change of the table or the header, and what the error says, in which line.
#[test]
fn what_is_not_understood_is_an_error_with_its_line() {
    for (file, from, to, said, line) in [
        (
            TABLE,
            "CLASS_STATISTIC(room,",
            "CLASS_STATISTICS(room,",
            "no row that is known",
            "CLASS_STATISTICS(room",
        ),
        (
            TABLE,
            "STATISTIC(HEAP, GAUGE, chunks,",
            "STATISTIC(HEAP, chunks,",
            "6 arguments",
            "STATISTIC(HEAP, chunks",
        ),
        (
            TABLE,
            "HEAP, GAUGE, threads",
            "HEAP, METER, threads",
            "neither GAUGE nor COUNTER",
            "STATISTIC(HEAP, METER",
        ),
        (
            TABLE,
            "GAUGE, threads",
            "GAUGE, treads",
            "treads is no number in fh_profile_statistics",
            "STATISTIC(HEAP, GAUGE, treads",
        ),
        (
            TABLE,
            "\"dirty_bytes\", \"bytes\"",
            "\"dirty\", \"bytes\"",
            "does not end in its unit",
            "STATISTIC(HEAP, GAUGE, dirty_bytes",
        ),
        (
            TABLE,
            "\"Threads that have a cache.\"",
            "\"Threads\"",
            "no sentence",
            "STATISTIC(HEAP, GAUGE, threads",
        ),
        (
            TABLE,
            "CLASS_USE(FH_PROFILE_USE_EDGES, \"edges\")",
            "",
            "3 rows for the 4 values",
            "CLASS_USE(FH_PROFILE_USE_OWN",
        ),
        (
            TABLE,
            "SECTION(FH_PROFILE_NODES, fh_profile_node)",
            "SECTION(FH_PROFILE_NODES, fh_profile_knot)",
            "no structure",
            "SECTION(FH_PROFILE_NODES",
        ),
        (
            TABLE,
            "#undef FAMILY",
            "#pragma once",
            "#pragma once is not understood",
            "#pragma once",
        ),
        (
            PROFILE,
            "uint64_t chunks,",
            "uint16_t chunks,",
            "uint16_t is no type",
            "uint16_t chunks",
        ),
        (
            PROFILE,
            "FH_PROFILE_EXTENTS 24u",
            "FH_PROFILE_EXTENTS sizeof(int)",
            "sizeof is no constant",
            "#define FH_PROFILE_EXTENTS",
        ),
        (
            PROFILE,
            "[FH_PROFILE_AGES]",
            "[FH_PROFILE_AGE]",
            "FH_PROFILE_AGE is no constant",
            "uint64_t freed_at_age",
        ),
        (
            PROFILE,
            "_Static_assert(sizeof(fh_profile_row)",
            "extern int heaps;\n_Static_assert(sizeof(fh_profile_row)",
            "\"extern\" is not understood",
            "extern int heaps;",
        ),
        (
            PROFILE,
            "    FH_PROFILE_SECTIONS\n",
            "    FH_PROFILE_MORE,\n    FH_PROFILE_SECTIONS\n",
            "7 rows for the 8 values",
            "SECTION(FH_PROFILE_HEAPS",
        ),
    ] {
        let (error, at) = Copy::new().change(file, from, to).error();
        assert!(error.contains(said), "{to}: {error}");
        assert!(at.starts_with(line), "{to}: {error} names {at:?}");
    }
}

#[test]
fn what_the_command_needs_cannot_go_unnoticed() {
    let copy = Copy::new();
    copy.change(
        "base/types.h",
        "#define FH_CHUNK_SIZE (",
        "#define FH_CHUNK_BYTES (",
    );
    assert!(copy.error().0.contains("no constant FH_CHUNK_SIZE"));
    let copy = Copy::new();
    copy.change(
        "base/settings.h",
        "#define FH_THP_NAMES \"auto\",",
        "#define FH_THP_NAMES 1,",
    );
    assert!(copy.error().0.contains("FH_THP_NAMES is not a list"));
}

#[test]
fn the_c_side_refuses_a_row_that_the_layout_does_not_have() {
    let copy = Copy::new();
    assert!(copy.c_compiles());
    copy.change(TABLE, "GAUGE, threads", "GAUGE, treads");
    assert!(!copy.c_compiles());
    let copy = Copy::new();
    copy.change(TABLE, "OCCUPANCY(\"0.75\")\n", "");
    assert!(!copy.c_compiles());
}
