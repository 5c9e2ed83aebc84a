//! The contract between the library and this crate, read from the library's sources and written as Rust.
//!
//! | module | what it does |
//! |---|---|
//! | `token` | splits a file of C into words, each with its line |
//! | `expression` | the value of a constant |
//! | `header` | constants, enumerations and structures of `observe/profile.h`; single constants of other headers |
//! | `table` | the rows of `observe/contract.def` |
//! | `emit` | all of it as Rust |
//!
//! Whatever these do not know is an error that names the file and the line: nothing is skipped that could mean
//! something.

mod emit;
mod expression;
mod header;
mod table;
mod token;

use std::fmt;
use std::path::Path;

use header::Header;
use table::Table;

/// The files that the contract is made of, below the library's source directory.
pub const FILES: [&str; 4] = [PROFILE, TABLE, TYPES, SETTINGS];
const PROFILE: &str = "observe/profile.h";
const TABLE: &str = "observe/contract.def";
const TYPES: &str = "base/types.h";
const SETTINGS: &str = "base/settings.h";

/// What is wrong in which line.
#[derive(Debug)]
pub struct Error {
    pub file: &'static str,
    pub line: usize,
    pub what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        write!(to, "src/{}:{}: {}", self.file, self.line, self.what)
    }
}

/// The contract as Rust: a name and a text for each file to be made.
pub type Generated = [(&'static str, String); 2];

/// The contract as Rust, from the library's source directory.
pub fn generate(sources: &Path) -> Result<Generated, Error> {
    let words = |file| {
        let text = std::fs::read_to_string(sources.join(file)).map_err(|error| Error {
            file,
            line: 0,
            what: format!("cannot be read: {error}"),
        })?;
        token::words(file, &text)
    };
    let profile = Header::parse(PROFILE, &words(PROFILE)?)?;
    let table = Table::parse(TABLE, &words(TABLE)?)?;
    table.check(&profile)?;
    let types = header::constants_only(TYPES, &words(TYPES)?)?;
    let settings = header::constants_only(SETTINGS, &words(SETTINGS)?)?;
    let mut layout = String::new();
    emit::profile(&mut layout, &profile, &table);
    for (name, of) in [
        ("SLOT_BYTES", "FH_SLOT_SIZE"),
        ("CHUNK_BYTES", "FH_CHUNK_SIZE"),
    ] {
        emit::number(&mut layout, name, of, types.number(of)?);
    }
    let mut texts = String::new();
    emit::texts(&mut texts, &table);
    emit::words(&mut texts, "OCCUPANCY_SHARES", table.shares);
    for (name, of) in [
        ("PURGE_MODES", "FH_PURGE_NAMES"),
        ("THP_MODES", "FH_THP_NAMES"),
    ] {
        emit::words(&mut texts, name, settings.words(of)?);
    }
    Ok([("layout.rs", layout), ("statistics.rs", texts)])
}
