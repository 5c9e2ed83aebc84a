//! Freehold, a memory allocator for programs with many threads, in Rust programs.
//!
//! As the allocator of the whole program:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: freehold::Freehold = freehold::Freehold;
//!
//! let words: Vec<String> = (0..100).map(|n| format!("word {n}")).collect();
//! assert_eq!(words[7], "word 7");
//! ```
//!
//! The hit of an allocation is inlined, and so is a realloc that stays in its size class. And [`Heap`] is a place for blocks with a
//! name, an account and a limit, which ends as a whole.
//!
//! The C library is compiled with this crate. It overrides nothing: what C code of the program allocates stays with the system's
//! allocator. The options of the environment variable `FREEHOLD` hold here too.
#![warn(missing_docs)]

mod fast;
mod heap;
pub mod sys;

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{CStr, c_void};

use fast::Resize;
pub use heap::{Builder, Heap, Made, NoMemory};
pub use sys::{HeapFigures, HeapTotals};

/// What every block is aligned to.
const MIN_ALIGN: usize = 16;

/// The allocator of a program: for `#[global_allocator]`.
///
/// Any thread may use it at any time, also while it ends. No call takes a lock. Blocks of up to 64 KiB cost some 30 instructions for
/// an allocation and its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Freehold;

// SAFETY: the functions give blocks of the size and alignment that was asked for, to one owner each, or null; and do not unwind.
unsafe impl GlobalAlloc for Freehold {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= MIN_ALIGN {
            return fast::malloc(layout.size()).cast();
        }
        // SAFETY: it may be called at any time.
        unsafe { sys::fh_aligned_alloc(layout.align(), layout.size()).cast() }
    }

    #[inline]
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller has a block of that layout. See `realloc` for those that were resized.
        unsafe {
            if layout.align() <= MIN_ALIGN {
                sys::fh_free_sized(p.cast(), layout.size());
            } else {
                sys::fh_free_aligned_sized(p.cast(), layout.align(), layout.size());
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= MIN_ALIGN {
            // SAFETY: it may be called at any time.
            return unsafe { sys::fh_calloc(1, layout.size()).cast() };
        }
        // SAFETY: the caller's promise; the block has so many bytes.
        unsafe {
            let p = self.alloc(layout);
            if !p.is_null() {
                p.write_bytes(0, layout.size());
            }
            p
        }
    }

    #[inline]
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller has a block of that layout, and `size` is not 0 and makes a layout with its alignment.
        unsafe {
            if layout.align() <= MIN_ALIGN {
                match fast::resize(p.cast(), layout.size(), size) {
                    Resize::Stays => return p,
                    Resize::Unknown => return sys::fh_realloc(p.cast(), size).cast(),
                    Resize::Moves => {}
                }
            }
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(p, size.min(layout.size()));
                self.dealloc(p, layout);
            }
            moved
        }
    }
}

impl Freehold {
    /// Gives free memory back to the system, except `keep` bytes. True if there was some. May take milliseconds.
    pub fn trim(self, keep: usize) -> bool {
        // SAFETY: it may be called at any time.
        unsafe { sys::fh_malloc_trim(keep) != 0 }
    }

    /// The version of the library, as in `freehold/freehold.h`.
    pub fn version(self) -> &'static str {
        // SAFETY: it is a text that ends with 0 and stays.
        let version = unsafe { CStr::from_ptr(sys::fh_version()) };
        version.to_str().unwrap_or("")
    }

    /// The bytes that the block at `p` has: all of them may be used.
    ///
    /// # Safety
    /// `p` is a live block of this allocator.
    pub unsafe fn usable_size(self, p: *const u8) -> usize {
        // SAFETY: the caller's promise.
        unsafe { sys::fh_malloc_usable_size(p.cast()) }
    }

    /// Makes the block at `p` at least `size` bytes where it is, or leaves it alone. True: it has them now.
    ///
    /// # Safety
    /// `p` is a live block of this allocator. After `true` its layout is of `size` bytes.
    pub unsafe fn try_grow(self, p: *mut u8, size: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { sys::fh_try_grow(p.cast::<c_void>(), size) != 0 }
    }
}
