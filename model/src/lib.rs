//! Model checks of the library's own C code.
//!
//! `build.rs` compiles the shared structures of `../src` with a header of atomics that asks this crate before each step,
//! once as they ship and once for each seeded bug. Two explorers drive them:
//!
//! - [`explore::every_interleaving`] with loom: the C11 memory model, all interleavings or all with a bound on preemptions;
//! - [`explore::random_interleavings`] with shuttle: sequential consistency only, for programs too long for the former.
//!
//! What is explored is written as [`program::Scenario`]: a prologue that runs alone, then a short list of steps for each
//! thread. After every run the equations of `src/base/types.h` are checked over the whole heap.

pub mod core;
mod defer;
pub mod explore;
mod first;
mod guards;
mod guests;
mod hardened;
mod heaps;
mod holes;
mod kernel;
mod large;
mod memory;
mod order;
pub mod program;
mod quarantine;
mod runs;
pub mod scenarios;
mod tables;
