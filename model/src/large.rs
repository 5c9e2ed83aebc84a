//! Large blocks: what a thread does with them, and what must hold of them.

use crate::core::Core;
use crate::memory::{answer_moves, count_addresses, finding, hold, let_go};
use crate::program::{Hand, Step};

const SLOT: usize = 1 << 16;
const CHUNK: usize = 64 * SLOT;
const PAGE: usize = 4096;
/// Up to there realloc copies.
const GROWS_FROM: usize = 1 << 20;

/// A large block in somebody's hand, which has written to its first page and to its last.
#[derive(Clone, Debug)]
pub struct Large {
    p: usize,
    bytes: usize,
    /// What was written, and up to where the block was that long.
    stamp: usize,
    stamped: usize,
}

impl Large {
    /// The caller has got it, and writes to it as a program would.
    fn new(p: usize, bytes: usize) -> Large {
        let mut block = Large {
            p,
            bytes,
            stamp: 0,
            stamped: 0,
        };
        block.announce();
        block.write();
        block
    }

    /// Where whoever has the block is watched: its beginning in each chunk.
    fn pieces(&self) -> impl Iterator<Item = usize> {
        let (p, end) = (self.p, self.p + self.bytes);
        let chunks = (p + 1).next_multiple_of(CHUNK)..end;
        std::iter::once(p).chain(chunks.step_by(CHUNK))
    }

    pub fn announce(&self) {
        self.pieces().for_each(hold);
    }

    fn written(&self) -> [*mut usize; 2] {
        [self.p, self.p + self.stamped - PAGE].map(|place| place as *mut usize)
    }

    fn write(&mut self) {
        self.stamp = self.p + self.bytes;
        self.stamped = self.bytes;
        for place in self.written() {
            // SAFETY: the block is in this hand, and the arena is writable.
            unsafe { place.write_volatile(self.stamp) };
        }
    }

    /// It may become that short: what is written to its last page then is what must be kept.
    fn shorten(&mut self, bytes: usize) {
        if bytes < self.stamped {
            self.stamped = bytes;
            // SAFETY: as in `write`.
            unsafe { self.written()[1].write_volatile(self.stamp) };
        }
    }

    /// What was written is still there.
    fn check(&self) {
        for place in self.written() {
            // SAFETY: as in `write`.
            let found = unsafe { place.read_volatile() };
            if found != self.stamp {
                finding(&format!(
                    "a large block at {:#x} lost its contents at {place:?}",
                    self.p
                ));
            }
        }
    }

    fn let_go(&self) {
        self.check();
        self.pieces().for_each(let_go);
    }
}

/// What was never handed out has nothing of what others wrote to the beginnings of pages.
fn check_clean(p: usize, bytes: usize) {
    for page in (p..p + bytes).step_by(PAGE) {
        // SAFETY: the block is in this hand, and the arena is readable.
        if unsafe { (page as *const usize).read_volatile() } != 0 {
            finding(&format!(
                "a page at {page:#x} was in use before, and counts as clean"
            ));
        }
    }
}

impl Hand {
    /// Large blocks.
    ///
    /// # Safety
    /// As for every step: see `step`.
    pub(crate) unsafe fn large_step(&mut self, core: &Core, step: Step) {
        // SAFETY: only blocks of this hand are changed and freed, and not used afterwards.
        unsafe {
            match step {
                Step::Large(slots) | Step::TryLarge(slots) => {
                    // As cache/alloc.c does it.
                    let mut p = (core.large_again)(slots * SLOT, SLOT, &mut false);
                    if p == 0 {
                        p = (core.large_alloc)(slots * SLOT, SLOT, &mut false);
                    }
                    if p != 0 {
                        self.large.push(Large::new(p, slots * SLOT));
                    } else if step == Step::Large(slots) {
                        panic!("no memory");
                    }
                }
                Step::Paged(pages) => {
                    let (mut clean, bytes) = (false, pages * PAGE);
                    let p = (core.large_alloc)(bytes, PAGE, &mut clean);
                    assert!(p != 0, "no memory");
                    if clean {
                        check_clean(p, bytes);
                    }
                    self.large.push(Large::new(p, bytes));
                }
                Step::LargeFree if !self.large.is_empty() => {
                    let block = self.large.remove(0);
                    block.let_go();
                    if !(core.large_free)(block.p) {
                        finding("a large block is not known");
                    }
                }
                Step::LargeResize(slots) if !self.large.is_empty() => {
                    self.resize(core, slots * SLOT)
                }
                Step::PagedResize(pages) if !self.large.is_empty() => {
                    self.resize(core, pages * PAGE)
                }
                Step::Moves(answer) => answer_moves(answer),
                Step::CountsAddresses => count_addresses(),
                Step::FreeShared => {
                    let p = self.shared.expect("a block that two hands have");
                    self.freed += u32::from((core.large_free)(p));
                }
                _ => {}
            }
        }
    }

    /// As realloc does it (cache/resize.c).
    unsafe fn resize(&mut self, core: &Core, bytes: usize) {
        let mut block = self.large.remove(0);
        block.let_go();
        block.shorten(bytes);
        // SAFETY: the block is this hand's.
        unsafe {
            if !(core.large_resize)(block.p, bytes) {
                let q = if bytes > block.bytes && bytes > GROWS_FROM {
                    (core.large_move)(block.p, bytes)
                } else {
                    0
                };
                if q == 0 {
                    block.announce();
                    return self.large.push(block);
                }
                block.p = q;
            }
        }
        block.bytes = bytes;
        block.announce();
        block.check();
        block.write();
        self.large.push(block);
    }

    /// The oldest large block, for another hand too: whose it is, the free decides.
    pub fn share(&mut self) -> Option<usize> {
        let block = self.large.remove(0);
        block.let_go();
        self.shared = Some(block.p);
        self.shared
    }
}

/// Every block in somebody's hands is there, as long as it was asked for, and found by its last byte; a block that two had was
/// freed once; and the chunks with moved pages are counted.
///
/// # Safety
/// All threads are over.
pub unsafe fn verify_large(core: &Core, hands: &[Hand]) {
    for block in hands.iter().flat_map(|hand| &hand.large) {
        // SAFETY: only reads.
        let (size, around) = unsafe {
            (
                (core.large_size)(block.p),
                (core.large_around)(block.p + block.bytes - 1),
            )
        };
        if size != block.bytes || around != block.p {
            finding(&format!(
                "a large block of {} bytes at {:#x} has {size} bytes and is found at {around:#x}",
                block.bytes, block.p
            ));
        }
        block.check();
    }
    let freed: u32 = hands.iter().map(|hand| hand.freed).sum();
    if hands.iter().any(|hand| hand.shared.is_some()) && freed != 1 {
        finding(&format!("a block was freed {freed} times"));
    }
    let mut counted = 0;
    // SAFETY: only reads.
    let moved = unsafe { (core.moved_chunks)(&mut counted) };
    if moved != counted {
        finding(&format!(
            "{moved} chunks have moved pages, {counted} are counted"
        ));
    }
}
