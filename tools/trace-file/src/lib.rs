//! Recorded traces of allocations: the file, how a raw recording becomes one, and what can be said of it.
//!
//! | module | what it does |
//! |---|---|
//! | `op` | one operation |
//! | `raw` | reads what the recorder's shared object left |
//! | `compile` | raw records in one order become operations on slots |
//! | `write`, `read` | the file; docs/trace-format.md describes it |
//! | `check` | what must hold between the operations of a file |
//! | `tally` | counts, peaks, sizes, lifetimes |
//! | `waits` | which thread must wait for which, pruned by vector clocks |
//! | `text` | the ancestors' text form |

mod check;
mod compile;
mod error;
mod op;
mod raw;
mod read;
mod tally;
mod text;
mod varint;
mod waits;
mod write;

pub use check::Checker;
pub use compile::Compiler;
pub use error::TraceError;
pub use op::{Header, Kind, Losses, Op};
pub use raw::{RawOrder, RawRecord, RawRecording, Timed};
pub use read::{Ops, Trace};
pub use tally::{Tally, tally};
pub use text::import_text;
pub use waits::{Wait, Waits};
pub use write::Writer;
