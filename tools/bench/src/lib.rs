//! `freehold bench`: every workload under every allocator, side by side, in one interleaved run.
//!
//! ```text
//! args ──▶ allocators (glibc, ours, peers, ancestors) ─┐
//!     └──▶ workloads  (build/bench, bench/real)       ─┴─▶ schedule ──▶ launcher ──▶ record (JSON)
//!                                                                                       │
//!                                      terminal table ◀── figures (statistics) ◀────────┤
//!                                      HTML page      ◀──────────────┘   compare ◀──────┘
//! ```
//!
//! The record holds only what was measured. Everything that is said about it (medians, ratios, ranks) is worked out
//! again from the record, so an old file can be looked at with new eyes: `freehold bench report`.

mod allocators;
mod args;
mod compare;
mod figures;
mod files;
mod heaps;
mod home;
mod latency;
mod launcher;
mod machine;
mod markdown;
mod memory;
mod output;
mod page;
mod peer_build;
mod peers;
mod progress;
mod record;
mod resume;
mod schedule;
mod selection;
mod statistics;
mod stdout;
mod steering;
mod table;
mod workloads;

pub use args::BenchArgs;

use std::process::ExitCode;

/// Does what the command line asks for.
///
/// The exit code is 0 when all that was asked for was measured, 1 when some run failed (it is named in the table),
/// and an error is returned when nothing could be measured at all.
pub fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    args::dispatch(args)
}
