//! What can be wrong with a file, and where.

use thiserror::Error;

#[derive(Debug, Error)]
pub enum TraceError {
    #[error("{what} at byte {offset}")]
    Bad { what: String, offset: u64 },
    #[error("line {line}: {what}")]
    Line { what: String, line: usize },
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

pub fn bad(what: impl Into<String>, offset: usize) -> TraceError {
    TraceError::Bad {
        what: what.into(),
        offset: offset as u64,
    }
}
