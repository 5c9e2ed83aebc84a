//! The hit of malloc in the caller's own code, as in `freehold/fast.h`, and what is easy about a realloc. A test compares the
//! two layouts.
//!
//! Rejected: the hit of free. Inlined into every drop it made a program that parses JSON a tenth slower than the call.
//!
//! A thread has bins, one a size class. A bin is the top and the end of a stack of free blocks. The thread's bins are found by a
//! thread-local word of the library, `fh_self_bins`. Stable Rust has no thread-locals of another language, so one instruction
//! reads it. On other processors than x86-64, and in a checked library, all is a call.

use std::ffi::c_void;
#[cfg(inlined)]
use std::ptr::null_mut;

use crate::sys;

/// Sizes up to this are found inline. Of larger ones the class is longer to compute than a call takes.
#[cfg(inlined)]
const FINE_MAX: usize = 1024;

/// The layout that this file knows. The names of the library's calls carry it: another library does not link.
#[cfg(inlined)]
mod layout {
    use std::sync::atomic::AtomicUsize;

    pub const SLOT_SHIFT: u32 = 16;
    pub const CLASS_MAP: usize = 1 << 24;

    #[repr(C)]
    pub struct Bin {
        pub top: *mut *mut std::ffi::c_void,
        pub end: *mut *mut std::ffi::c_void,
    }

    unsafe extern "C" {
        pub fn fh_fast_2_malloc(size: usize) -> *mut std::ffi::c_void;
        /// Written once, by the library.
        pub static fh_base: AtomicUsize;
    }

    /// The calling thread's bins. The library has some for each thread from its beginning on, be it empty ones.
    #[inline(always)]
    pub fn bins() -> *mut Bin {
        let bins: *mut Bin;
        // SAFETY: it reads a thread-local word that the library defines. The linker makes the first a constant in a program.
        // Not `pure`: the word changes when the thread is first met, at its end, and where it is observed.
        unsafe {
            std::arch::asm!(
                "mov {bins}, qword ptr [rip + fh_self_bins@GOTTPOFF]",
                "mov {bins}, qword ptr fs:[{bins}]",
                bins = out(reg) bins,
                options(nostack, preserves_flags, readonly),
            );
        }
        bins
    }
}

/// The class of at most 1 KiB. Of 0 bytes: the first one, which has no hit.
#[cfg(inlined)]
#[inline(always)]
const fn class_of(size: usize) -> usize {
    size.div_ceil(16)
}

/// As `fh_malloc`: at least `size` bytes at a multiple of 16, or null.
#[cfg(inlined)]
#[inline(always)]
pub fn malloc(size: usize) -> *mut c_void {
    use std::sync::atomic::{Ordering, compiler_fence};
    if size > FINE_MAX {
        // SAFETY: it may be called at any time.
        return unsafe { sys::fh_malloc(size) };
    }
    // SAFETY: class_of is a number of a bin. The place below the top of a bin is always there, and null if the bin is empty.
    unsafe {
        let bin = layout::bins().add(class_of(size));
        let top = (*bin).top;
        let p = *top.sub(1);
        if p.is_null() {
            return layout::fh_fast_2_malloc(size);
        }
        // A signal handler that allocates finds the block taken.
        compiler_fence(Ordering::SeqCst);
        (*bin).top = top.sub(1);
        compiler_fence(Ordering::SeqCst);
        *top.sub(1) = null_mut();
        p
    }
}

/// What becomes of a small block that is resized.
#[cfg_attr(not(inlined), allow(dead_code))]
pub enum Resize {
    /// It stays where it is: its class has that size too.
    Stays,
    /// It is a block of a slab like any other: it may be allocated, copied and released.
    Moves,
    /// Only the library knows.
    Unknown,
}

/// # Safety
/// `p` is a live block that was allocated or resized with the size `old` last, at an alignment of at most 16.
#[cfg(inlined)]
#[inline(always)]
pub unsafe fn resize(p: *mut c_void, old: usize, new: usize) -> Resize {
    use std::sync::atomic::{AtomicU8, Ordering};
    if old > FINE_MAX || new > FINE_MAX {
        return Resize::Unknown;
    }
    // SAFETY: class_of is a number of a bin, and the place below its top is always there. A slot of the window in which there is
    // a block has a byte in the class map; what is outside of the window, a guarded block, is no such slot.
    unsafe {
        let class = class_of(old);
        let bin = layout::bins().add(class);
        // Neither a block nor room: a thread that is new, or watched, and wants to be told.
        if (*bin).top == (*bin).end && (*(*bin).top.sub(1)).is_null() {
            return Resize::Unknown;
        }
        let base = layout::fh_base.load(Ordering::Relaxed);
        let slot = (p as usize).wrapping_sub(base) >> layout::SLOT_SHIFT;
        let byte = base.wrapping_sub(layout::CLASS_MAP).wrapping_add(slot) as *const AtomicU8;
        if slot >= layout::CLASS_MAP || (*byte).load(Ordering::Relaxed) as usize != class {
            Resize::Unknown
        } else if class_of(new) == class {
            Resize::Stays
        } else {
            Resize::Moves
        }
    }
}

/// As `fh_malloc`.
#[cfg(not(inlined))]
#[inline(always)]
pub fn malloc(size: usize) -> *mut c_void {
    // SAFETY: it may be called at any time.
    unsafe { sys::fh_malloc(size) }
}

/// # Safety
/// None is needed.
#[cfg(not(inlined))]
#[inline(always)]
pub unsafe fn resize(_: *mut c_void, _: usize, _: usize) -> Resize {
    Resize::Unknown
}
