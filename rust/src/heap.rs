//! Heaps: `freehold/heap.h`.

use std::alloc::Layout;
use std::ffi::CString;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null, null_mut};
use std::{error, fmt};

use crate::sys::{self, HeapFigures, HeapTotals, RawHeap};

/// There is no memory, or a limit of the heap or of one above it is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory, or a limit of the heap is met")
    }
}

impl error::Error for NoMemory {}

/// A place for blocks, with a name, an account and a limit. When it is dropped, all of its blocks are gone at once.
///
/// Any thread may allocate from it and release its blocks. A heap takes 64 KiB of address space at least, of which 4 KiB have memory.
///
/// ```
/// let query = freehold::Heap::builder().name("query").hard_limit(1 << 20).build()?;
/// let row = query.make([0u64; 64])?;
/// assert_eq!(row.len(), 64);
/// assert!(query.figures().live >= 512);
/// # Ok::<(), freehold::NoMemory>(())
/// ```
///
/// What was made in it cannot outlive it:
///
/// ```compile_fail
/// let heap = freehold::Heap::new().unwrap();
/// let row = heap.make(7).unwrap();
/// drop(heap);
/// println!("{}", *row);
/// ```
pub struct Heap<'parent> {
    raw: NonNull<RawHeap>,
    /// The parent is there for longer.
    parent: PhantomData<&'parent RawHeap>,
}

// SAFETY: the library's functions may be called by any thread at any time; the two exceptions take the heap itself, or `&mut`.
unsafe impl Send for Heap<'_> {}
// SAFETY: as above.
unsafe impl Sync for Heap<'_> {}

/// What a new heap is like. Sizes are in bytes; limits count 64 KiB for the heap itself, and what it takes by 64 KiB to 1 MiB.
#[derive(Clone, Copy, Default)]
pub struct Builder<'parent, 'name> {
    name: &'name str,
    parent: Option<&'parent Heap<'parent>>,
    hard_limit: usize,
    flags: std::ffi::c_uint,
}

impl<'parent, 'name> Builder<'parent, 'name> {
    /// The first 47 bytes of it are shown by the tools. Up to the first zero byte.
    pub fn name(self, name: &'name str) -> Self {
        Builder { name, ..self }
    }

    /// The heap's memory counts for that one too, and is under its limits.
    pub fn parent(self, parent: &'parent Heap<'parent>) -> Self {
        Builder {
            parent: Some(parent),
            ..self
        }
    }

    /// Never passed: 64 KiB at least. 0: none.
    pub fn hard_limit(self, bytes: usize) -> Self {
        Builder {
            hard_limit: bytes,
            ..self
        }
    }

    /// Each block keeps what was asked for, so that [`Heap::totals`] counts it to the byte.
    pub fn sizes(self) -> Self {
        Builder {
            flags: self.flags | sys::HEAP_SIZES,
            ..self
        }
    }

    /// All of the hard limit, 256 KiB to 16 GiB, is taken when the heap begins. A call then takes 2,000 instructions at most and no
    /// system call, whatever other threads do. A block has 1 MiB at most; `sizes` cannot be had with it.
    ///
    /// ```
    /// let audio = freehold::Heap::builder().bounded().hard_limit(1 << 20).build()?;
    /// let taken = audio.figures().taken;
    /// let frame = audio.make([0f32; 512])?;
    /// assert_eq!(audio.figures().taken, taken);
    /// assert_eq!(frame.len(), 512);
    /// # Ok::<(), freehold::NoMemory>(())
    /// ```
    pub fn bounded(self) -> Self {
        Builder {
            flags: self.flags | sys::HEAP_BOUNDED,
            ..self
        }
    }

    /// An error where there is no memory, a limit above is met, or this limit is below 64 KiB.
    pub fn build(self) -> Result<Heap<'parent>, NoMemory> {
        let name = self.name.split('\0').next().unwrap_or_default();
        let name = CString::new(name).map_err(|_| NoMemory)?;
        let options = sys::HeapOptions {
            name: name.as_ptr(),
            parent: self.parent.map_or(null_mut(), |parent| parent.raw.as_ptr()),
            soft_limit: 0,
            hard_limit: self.hard_limit,
            callback: None,
            arg: null_mut(),
            flags: self.flags,
            memory: null_mut(),
            memory_size: 0,
            reserved: [null_mut(); 2],
        };
        // SAFETY: the name is copied, and the parent is there.
        let raw = unsafe { sys::fh_heap_new(&options) };
        let raw = NonNull::new(raw).ok_or(NoMemory)?;
        Ok(Heap {
            raw,
            parent: PhantomData,
        })
    }
}

impl Heap<'static> {
    /// A heap without a name and a limit.
    pub fn new() -> Result<Heap<'static>, NoMemory> {
        Builder::default().build()
    }
}

impl<'parent> Heap<'parent> {
    /// For a heap with a name, a parent, or a limit.
    pub fn builder<'name>() -> Builder<'parent, 'name> {
        Builder::default()
    }

    /// A block of the heap. It lasts until it is released, or until the heap is reset or dropped.
    pub fn alloc(&self, layout: Layout) -> Result<NonNull<u8>, NoMemory> {
        let (align, size) = (layout.align(), layout.size());
        // SAFETY: the heap is there.
        let p = unsafe {
            if align <= crate::MIN_ALIGN {
                sys::fh_heap_malloc(self.raw.as_ptr(), size)
            } else {
                sys::fh_heap_aligned_alloc(self.raw.as_ptr(), align, size)
            }
        };
        NonNull::new(p.cast()).ok_or(NoMemory)
    }

    /// Releases a block, of whatever heap.
    ///
    /// # Safety
    /// It is a live block that [`Heap::alloc`] gave for this layout.
    pub unsafe fn release(block: NonNull<u8>, layout: Layout) {
        let p = block.as_ptr().cast();
        // SAFETY: the caller's promise.
        unsafe {
            if layout.align() <= crate::MIN_ALIGN {
                sys::fh_free_sized(p, layout.size());
            } else {
                sys::fh_free_aligned_sized(p, layout.align(), layout.size());
            }
        }
    }

    /// A value in the heap. It is dropped with what this returns.
    pub fn make<T>(&self, value: T) -> Result<Made<'_, T>, NoMemory> {
        let layout = Layout::new::<T>();
        let place = if layout.size() == 0 {
            NonNull::dangling()
        } else {
            self.alloc(layout)?.cast::<T>()
        };
        // SAFETY: the block is as large and aligned as a T, and nobody else has it.
        unsafe { place.write(value) };
        Ok(Made {
            place,
            heap: PhantomData,
            owns: PhantomData,
        })
    }

    /// Releases all blocks at once. The heap stays, with its name and limits. What [`Heap::make`] made is not there any more.
    ///
    /// No block that [`Heap::alloc`] gave may be used after it.
    pub fn reset(&mut self) {
        // SAFETY: nobody else has the heap. It is in no scope, because there are none in Rust.
        let answer = unsafe { sys::fh_heap_reset(self.raw.as_ptr()) };
        debug_assert_eq!(answer, 0, "nobody else has the heap");
    }

    /// Another hard limit; 0: none. One below what the heap has is allowed: it takes nothing more until there is less.
    pub fn set_hard_limit(&self, bytes: usize) -> Result<(), NoMemory> {
        // SAFETY: the heap is there.
        match unsafe { sys::fh_heap_limit(self.raw.as_ptr(), 0, bytes) } {
            0 => Ok(()),
            _ => Err(NoMemory),
        }
    }

    /// What it has. Cost: a walk over the heap, and a system call for each piece of memory that it took.
    pub fn figures(&self) -> HeapFigures {
        let mut figures = HeapFigures::default();
        // SAFETY: the heap and the figures are there.
        unsafe { sys::fh_heap_stats(self.raw.as_ptr(), &mut figures) };
        figures
    }

    /// What it and all heaps below it have. Cost: that of [`Heap::figures`] for each of them, and two loads for each 64 KiB
    /// that the process had at its peak.
    ///
    /// # Safety
    /// No other thread resets or drops a heap below it meanwhile.
    pub unsafe fn totals(&self) -> HeapTotals {
        let mut totals = HeapTotals::default();
        // SAFETY: the heap and the totals are there, and those below stay, as the caller promises.
        unsafe { sys::fh_heap_stats_below(self.raw.as_ptr(), &mut totals) };
        totals
    }

    /// Is the block at `p` of this heap? It may point anywhere.
    pub fn has(&self, p: *const u8) -> bool {
        // SAFETY: it may point anywhere.
        !p.is_null() && unsafe { sys::fh_heap_of(p.cast()) } == self.raw.as_ptr()
    }
}

impl Drop for Heap<'_> {
    fn drop(&mut self) {
        // SAFETY: nobody else has the heap; those whose parent it is were dropped before.
        let answer = unsafe { sys::fh_heap_destroy(self.raw.as_ptr()) };
        debug_assert!(answer == 0 || self.has(null()), "a child outlived it");
    }
}

impl fmt::Debug for Heap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Heap").field(&self.raw).finish()
    }
}

/// A value in a heap: a `Box` that cannot outlive it.
pub struct Made<'heap, T> {
    place: NonNull<T>,
    heap: PhantomData<&'heap RawHeap>,
    owns: PhantomData<T>,
}

// SAFETY: it owns its value, and any thread may release a block.
unsafe impl<T: Send> Send for Made<'_, T> {}
// SAFETY: as for a reference to the value.
unsafe impl<T: Sync> Sync for Made<'_, T> {}

impl<T> Deref for Made<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value is there until this is dropped.
        unsafe { self.place.as_ref() }
    }
}

impl<T> DerefMut for Made<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and nobody else has it.
        unsafe { self.place.as_mut() }
    }
}

impl<T> Drop for Made<'_, T> {
    fn drop(&mut self) {
        let layout = Layout::new::<T>();
        // SAFETY: the value was written, and its block is of this layout.
        unsafe {
            self.place.drop_in_place();
            if layout.size() != 0 {
                Heap::release(self.place.cast(), layout);
            }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Made<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
