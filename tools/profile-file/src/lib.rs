//! Reads the profile file through which a program under the Freehold allocator shows its heap.
//!
//! The library only emits; everything that understands is here and in the commands above. Nothing stops, signals or
//! traces the program: its profile file is a file.
//!
//! ```no_run
//! use profile_file::{Symbols, Target, View};
//!
//! let target = Target::find("my-server")?;
//! let snapshot = target.read()?;
//! let mut symbols = Symbols::new(&snapshot);
//! for site in &snapshot.sites {
//!     let live = site.amount(View::Live);
//!     let stack = snapshot.stack(site.node);
//!     println!("{:.0} ± {:.0} bytes", live.bytes, live.error());
//!     for frame in symbols.stack(&stack.addresses) {
//!         println!("    {}", frame.function);
//!     }
//! }
//! # Ok::<(), profile_file::FindError>(())
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`target`] | finds the profile file that a person means: PID, name, run, file, directory, saved snapshot |
//! | `live` | finds the profile file of a process that runs |
//! | [`kept`] | which directory has room for the profile files of a run |
//! | [`profile`] | copies a profile file's parts, [`sections`](self) checking every offset and count |
//! | [`snapshot`] | sums by call site with error bars, ages, stacks |
//! | [`before`] | what a program held before it freed everything at its end |
//! | `integrity` | whether the words are those that were written |
//! | `possible` | leaves out figures that no process can have |
//! | `check` | puts right what refers to nowhere, compares what the profile file says twice |
//! | `recount` | counts the heap of a program that stands still, in its memory |
//! | `counted` | compares the samples with what the allocator has counted itself |
//! | [`amount`] | sums of samples and what they may be off by |
//! | [`symbols`] | names of addresses, offline |
//! | `functions` | names in files without debug information |
//! | `debuginfod` | fetches debug information, if one asks for it |
//! | [`blame`] | which function of a stack is to be named |
//! | `wrappers` | allocation wrappers, told by their names |
//! | `named` | which samples are of which heaps |
//! | [`naming`] | how a person wants call sites to be named |
//! | [`heaps`] | the tree of the program's heaps |
//! | [`human`] | statistics as a person reads them |
//! | [`saved`] | a snapshot in one file |
//! | [`control`] | the words that a command writes: interval, mark, refresh |
//! | [`process`] | what `/proc` says |
//! | [`names`] | what a person calls a process |
//! | [`layout`] | the profile file as C lays it out |
//! | [`statistics`] | names, units and help texts |

pub mod amount;
pub mod before;
pub mod blame;
mod bytes;
mod check;
pub mod control;
mod counted;
mod debuginfod;
pub mod error;
mod functions;
pub mod heaps;
pub mod human;
mod integrity;
pub mod kept;
pub mod layout;
mod live;
mod named;
pub mod names;
pub mod naming;
pub mod output_file;
pub mod page_map;
mod possible;
pub mod process;
pub mod profile;
mod recount;
pub mod saved;
mod sections;
pub mod snapshot;
pub mod statistics;
pub mod symbols;
pub mod target;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod warning;
mod wrappers;

pub use amount::{Amount, View};
pub use before::Clearing;
pub use bytes::Bytes;
pub use control::{Control, ControlError};
pub use counted::Missing;
pub use error::{HeapsError, ReadError, SavedError};
pub use heaps::Heaps;
pub use named::UnknownHeap;
pub use naming::{Naming, Skipped};
pub use process::ProcessFacts;
pub use profile::{Absent, Profile};
pub use snapshot::{LiveSample, Module, Reading, Site, Snapshot, Stack};
pub use symbols::{FileSymbols, Frame, SymbolTable, Symbols};
pub use target::{End, FindError, Held, Target};
pub use warning::{Concern, Warning};

impl Snapshot {
    /// Fetches what a saved snapshot needs to stand alone: names, and the facts of the process if it runs.
    pub fn complete(&mut self) {
        if self.symbols.is_none() {
            let table = Symbols::new(self).table(self);
            self.symbols = Some(table);
        }
        if self.process.is_none() && self.is_alive() {
            self.process = Some(ProcessFacts::capture(self.pid()));
        }
    }

    /// [`Snapshot::complete`], then into a file: what `--save` does.
    pub fn save(&mut self, path: &std::path::Path) -> Result<(), SavedError> {
        self.complete();
        saved::save(self, path)
    }
}
