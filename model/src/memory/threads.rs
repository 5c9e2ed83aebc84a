//! Which thread of the model calls, what is thread-local for it, and near which CPU it runs.

use std::cell::Cell;

use super::{LOOM_THREAD, MODE, MOST_THREADS, Mode, NEAR, OWN, PROLOGUE_THREAD, SHUTTLE_THREAD};

/// Where the calling thread of the model runs.
pub(super) unsafe extern "C-unwind" fn near() -> u32 {
    NEAR.get()[this_thread()]
}

/// The same in every run.
pub(super) unsafe extern "C-unwind" fn number() -> u32 {
    this_thread() as u32
}

/// From now on the calling thread of the model runs near that CPU.
pub fn be_near(cpu: u32) {
    let mut all = NEAR.get();
    all[this_thread()] = cpu;
    NEAR.set(all);
}

pub fn cpu_of_thread() -> u32 {
    NEAR.get()[this_thread()]
}

fn this_thread() -> usize {
    match MODE.get() {
        Mode::Loom => LOOM_THREAD.with(Cell::get),
        Mode::Shuttle => SHUTTLE_THREAD.with(Cell::get),
        Mode::Prologue | Mode::Verify => PROLOGUE_THREAD.get(),
    }
}

/// The calling thread of the model says which one it is.
pub fn i_am(thread: usize) {
    match MODE.get() {
        Mode::Loom => LOOM_THREAD.with(|number| number.set(thread)),
        Mode::Shuttle => SHUTTLE_THREAD.with(|number| number.set(thread)),
        Mode::Prologue | Mode::Verify => PROLOGUE_THREAD.set(thread),
    }
}

/// What is thread-local in the library.
pub(super) unsafe extern "C-unwind" fn own() -> *mut usize {
    let thread = this_thread();
    // The array stays where it is for the life of the program's thread, and its cells are only used through this pointer
    // and, while no thread of a model runs, by `set_own`.
    OWN.with(|all| {
        all.as_ptr()
            .cast::<[usize; 4]>()
            .wrapping_add(thread)
            .cast()
    })
}

/// What every thread has at its beginning: bins and cache of no thread, -1 bytes until a sample, the bins that free sees.
pub fn begin_threads(no_bins: usize, no_thread: usize) {
    OWN.set([[no_bins, no_thread, usize::MAX, no_bins]; MOST_THREADS]);
    NEAR.set([0; MOST_THREADS]);
}
