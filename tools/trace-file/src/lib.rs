//! Recorded traces of allocations: the file, how a raw recording becomes one, and what can be said of it.
//!
//! | module | what it does |
//! |---|---|
//! | `op` | one operation |
//! | `raw` | reads what the recorder's shared object left |
//! | `compile` | raw records in one order become operations on slots |
//! | `resident` | what the program had resident |
//! | `write`, `read` | the file; docs/trace-format.md describes it |
//! | `check` | what must hold between the operations of a file |
//! | `tally` | counts, peaks, sizes, lifetimes |
//! | `waits` | which thread must wait for which, pruned by vector clocks |
//! | `import` | what other tools write becomes a trace |

mod check;
mod compile;
mod error;
mod import;
mod op;
mod raw;
mod read;
mod resident;
mod tally;
mod varint;
mod waits;
mod write;

pub use check::Checker;
pub use compile::Compiler;
pub use error::TraceError;
pub use import::{TextFormat, import, recognize, unpacked};
pub use op::{Header, Kind, Losses, Op};
pub use raw::{RawOrder, RawRecord, RawRecording, Timed};
pub use read::{Ops, Trace};
pub use resident::{MOST_POINTS, Resident};
pub use tally::{Tally, tally};
pub use waits::{Wait, Waits};
pub use write::Writer;
