//! What the model asks of the kernel: address space for its arenas.

use std::ffi::{c_int, c_void};

unsafe extern "C" {
    pub fn mmap(
        place: *mut c_void,
        size: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    pub fn munmap(place: *mut c_void, size: usize) -> c_int;
    pub fn madvise(place: *mut c_void, size: usize, advice: c_int) -> c_int;
    pub fn mincore(place: *mut c_void, size: usize, pages: *mut u8) -> c_int;
}
