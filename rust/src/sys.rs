//! The C functions that this crate calls. What each does stands in `freehold/freehold.h` and `freehold/heap.h`.
#![allow(missing_docs)]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `fh_heap`.
#[repr(C)]
pub struct RawHeap {
    _private: [u8; 0],
}

/// `FH_HEAP_SIZES`.
pub const HEAP_SIZES: c_uint = 64;

/// `FH_HEAP_BOUNDED`.
pub const HEAP_BOUNDED: c_uint = 128;

/// `fh_heap_options`.
#[repr(C)]
pub struct HeapOptions {
    pub name: *const c_char,
    pub parent: *mut RawHeap,
    pub soft_limit: usize,
    pub hard_limit: usize,
    pub callback: Option<unsafe extern "C" fn(*mut RawHeap, usize, c_int, *mut c_void) -> c_int>,
    pub arg: *mut c_void,
    pub flags: c_uint,
    pub memory: *mut c_void,
    pub memory_size: usize,
    pub reserved: [*mut c_void; 2],
}

/// What a heap has. Of this heap alone: `count`, `live` and `resident`. With all heaps below it: `taken` and `peak`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapFigures {
    /// Live blocks.
    pub count: usize,
    /// Their bytes, rounded up as the allocator did.
    pub live: usize,
    /// Bytes that have memory behind them, as the kernel says.
    pub resident: usize,
    /// Bytes that count for limits.
    pub taken: usize,
    /// The most that `taken` was.
    pub peak: usize,
    /// 0: none.
    pub soft_limit: usize,
    /// 0: none.
    pub hard_limit: usize,
    /// Times that the hard limit was in the way.
    pub refusals: usize,
}

/// What a heap and all heaps below it have together.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapTotals {
    /// Of which it is, the one that was asked too.
    pub heaps: usize,
    /// Live blocks.
    pub count: usize,
    /// Their bytes, with what each block has beyond what was asked for.
    pub live: usize,
    /// What was asked for. Of a heap without `sizes` it is what counts in `live`.
    pub requested: usize,
    /// Bytes of `requested` that are of such heaps.
    pub unknown: usize,
    /// Bytes that have memory behind them, as the kernel says.
    pub resident: usize,
    /// Bytes that count for limits.
    pub taken: usize,
    /// The most that `taken` was.
    pub peak: usize,
    reserved: [usize; 4],
}

unsafe extern "C" {
    pub fn fh_malloc(size: usize) -> *mut c_void;
    pub fn fh_calloc(count: usize, size: usize) -> *mut c_void;
    pub fn fh_realloc(p: *mut c_void, size: usize) -> *mut c_void;
    pub fn fh_free_sized(p: *mut c_void, size: usize);
    pub fn fh_free_aligned_sized(p: *mut c_void, alignment: usize, size: usize);
    pub fn fh_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub fn fh_malloc_usable_size(p: *const c_void) -> usize;
    pub fn fh_try_grow(p: *mut c_void, size: usize) -> c_int;
    pub fn fh_malloc_trim(keep: usize) -> c_int;
    pub fn fh_version() -> *const c_char;

    pub fn fh_heap_new(options: *const HeapOptions) -> *mut RawHeap;
    pub fn fh_heap_malloc(heap: *mut RawHeap, size: usize) -> *mut c_void;
    pub fn fh_heap_aligned_alloc(heap: *mut RawHeap, alignment: usize, size: usize) -> *mut c_void;
    pub fn fh_heap_of(p: *const c_void) -> *mut RawHeap;
    pub fn fh_heap_reset(heap: *mut RawHeap) -> c_int;
    pub fn fh_heap_destroy(heap: *mut RawHeap) -> c_int;
    pub fn fh_heap_limit(heap: *mut RawHeap, soft: usize, hard: usize) -> c_int;
    pub fn fh_heap_stats(heap: *mut RawHeap, figures: *mut HeapFigures) -> c_int;
    pub fn fh_heap_stats_below(heap: *mut RawHeap, totals: *mut HeapTotals) -> c_int;
}
