//! What is explored: a prologue and a list of steps for each thread.

use std::collections::HashMap;

use crate::core::Core;
use crate::defer::{Deferring, verify_deferred};
use crate::guards::verify_guards;
use crate::guests::{HOST, lodges, pieces, verify_guests};
use crate::hardened::verify_hardened;
use crate::heaps::verify_heaps;
use crate::large::{Large, verify_large};
use crate::memory::{
    Move, be_near, bound, bytes_are_shared, cpu_of_thread, finding, hold, let_go, refuse,
};
use crate::order::{Recorded, Recording, verify_order};
use crate::quarantine::verify_quarantine;
use crate::tables::{verify_tables, verify_weights};

const NONE: usize = usize::MAX;

/// One call into the library, with what the thread has in hand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Takes up to so many blocks of a class.
    Take(u32, u32),
    /// Gives the first so many blocks of a class that it holds.
    Give(u32, u32),
    /// Claims a run of slots at an alignment.
    Claim(u32, u32),
    /// Releases the oldest run it holds.
    Release,
    /// Tries to grow the youngest run by so many slots.
    Extend(u32),
    /// Makes a magazine for a class.
    Magazine(u32),
    /// Puts a magazine into the depot of a class, taking an empty one if there is one.
    Put(u32),
    /// Gets a full magazine from the depot of a class, leaving an empty one if it has one.
    Get(u32),
    /// In a prologue: the magazine in hand has a block, which this hand looks for later. Looks for it in the depot of a class, as a
    /// free does that may be a second one; true: it has to be found.
    Fill,
    Look(u32, bool),
    /// Gives free memory back until nothing is left to give.
    Purge,
    /// Gives the memory of the first chunk's metadata back, if all of it is free.
    Forget,
    /// Takes a new chunk from the window, without using it.
    Chunk,
    /// Allocates a large block of so many slots.
    Large(usize),
    /// Allocates a block of so many pages, the number of a class: one that shares slots with its neighbours.
    Paged(usize),
    /// As Large, but the answer may be no.
    TryLarge(usize),
    /// Frees the oldest large block.
    LargeFree,
    /// Gives the oldest large block another size, in slots: where it is, or at another place.
    LargeResize(usize),
    /// The same to so many pages, the number of a class.
    PagedResize(usize),
    /// In a prologue: what the system says to a move of pages from now on.
    Moves(Move),
    /// In a prologue: the system counts address space from now on.
    CountsAddresses,
    /// In a prologue: another hand has the oldest large block too.
    Share(usize),
    /// Frees the block that two hands have. One of them gets it.
    FreeShared,
    /// Marks a slot for a class, as a thread does that was held up since it looked at what the slot was before.
    StaleMark(u32, usize),
    /// malloc of so many bytes, and free of the oldest block got that way.
    Malloc(usize),
    Free,
    /// In a prologue: all blocks of malloc go to another hand.
    Pass(usize),
    /// The thread gives back all that its cache has; the thread ends.
    Flush,
    Exit,
    /// In a prologue: the thread is the child of a fork, and of the others only the caches are left.
    Forked,
    /// In a prologue: the thread is inside of a slow path from now on.
    BeBusy,
    /// As Claim, but the answer may be no.
    TryClaim(u32),
    /// The thread runs near that CPU from now on. Each begins near CPU 0.
    Near(u32),
    /// In a prologue: the system refuses memory so many times.
    Refuse(u32),
    /// A hard limit of so many slots, with a callback that two threads must not be in at once.
    Limit(usize),
    /// Enters so many slots in the books of a limit, if it admits them, and claims none.
    Book(u32),
    /// Calls the callback, as after a refusal.
    Relieve,
    /// Empties the depot of a class; releases its empty slabs; gives back free pages inside of a slab.
    EmptyDepot(u32),
    ReleaseEmpty(u32),
    TrimSlab(usize),
    /// Opens the slab at a slot, of that class, to guests; takes up to so many of a class, be it none; frees the oldest block of
    /// a class that it holds, as free does without a cache.
    OpenHoles(usize, u32),
    TakeGuests(u32, u32),
    FreeOne(u32),
    /// Releases the run that is kept.
    Settle,
    /// Gives back the address space of chunks that are all free.
    DropChunks,
    /// The observer: makes its tables; enters a sample of a size; takes one out, of one of two sizes, if there is any; asks
    /// for a key's number; a sample of a site is entered that stands for so many bytes, and one is removed.
    Tables,
    Sample(u64, u64),
    Unsample(u64, [u64; 2]),
    NumberOf(u64),
    Weigh(u32, u64),
    Unweigh(u32, u64),
    /// Guarded blocks: makes their tables; takes a slot for a block of so many bytes, where freed ones wait while they have fewer
    /// bytes than the first number; frees the oldest; two hands have slot 0, and both free it; what is said of a slot,
    /// where a live block has so many bytes; asks whether there is time for a guard, where there is for one.
    Guards,
    GuardTake(u64, usize),
    GuardFree,
    GuardShare,
    GuardFreeShared,
    GuardLook(u32, usize),
    GuardAfford,
    /// Heaps: makes one and its parent; it has no units from now on; it gets a stripe; the thread is over as stripes see it, and
    /// may begin again; the parent has room for so many slots more from now on; takes a block of so many bytes,
    /// where the answer may be no; frees the oldest; frees it as in a checked build, and ends the heap as there: both may be
    /// refused.
    Heaps,
    HeapGrown,
    HeapStripes,
    /// It is a bounded one, of so many slabs.
    HeapBounded(usize),
    HeapLeave,
    HeapLimit(usize),
    HeapTake(usize),
    HeapFree,
    HeapFreeInUse,
    HeapEnd,
    /// A hardened partition: begins it; takes a block of a class; frees the oldest; another hand has the oldest too; frees the
    /// block that two hands have, and one of them does.
    Hardened,
    HardTake(u32),
    HardFree,
    HardShare(usize),
    HardFreeShared,
    /// The quarantine: begins it, with a bound in bytes; puts a block, by its number; lets all leave; looks at all.
    Quarantine(usize),
    QuarantinePut(u32),
    QuarantineDrain,
    QuarantineEach,
    /// A recorded thread: see `order.rs`.
    Record(Recording),
    /// The deferred free: see `defer.rs`.
    Defer(Deferring),
    /// Gets a node of the negative control; push and pop of it.
    AbaNode(u64),
    AbaPush,
    AbaPop,
}

/// What one thread has.
#[derive(Clone, Default, Debug)]
pub struct Hand {
    pub(crate) blocks: HashMap<u32, Vec<usize>>,
    runs: Vec<(usize, usize)>,
    full: Vec<usize>,
    empty: Vec<usize>,
    looks_for: Option<usize>,
    chunks: Vec<usize>,
    pub(crate) large: Vec<Large>,
    pub(crate) shared: Option<usize>,
    pub(crate) freed: u32,
    mallocs: Vec<usize>,
    busy: bool,
    limit: usize,
    booked: u32,
    pub(crate) numbers: Vec<(u64, u32)>,
    pub(crate) samples: Vec<(u64, u64)>,
    pub(crate) weights: Vec<i64>,
    pub(crate) guarded: Vec<(u32, usize)>,
    pub(crate) shared_guard: Option<u32>,
    pub(crate) guards_freed: u32,
    pub(crate) guards_afforded: u32,
    pub(crate) of_heap: Vec<(usize, usize)>,
    pub(crate) hardened: Vec<(u32, usize)>,
    pub(crate) shared_hardened: Option<usize>,
    pub(crate) hardened_freed: u32,
    pub(crate) put_away: Vec<u32>,
    pub(crate) recorded: Recorded,
    pub(crate) published: Vec<usize>,
    pub(crate) reading: usize,
    nodes: Vec<u64>,
}

/// A prologue (who does what, alone, in order) and the threads' programs.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub prologue: Vec<(usize, Step)>,
    pub threads: Vec<Vec<Step>>,
}

impl Scenario {
    /// True if threads have caches in it.
    pub fn has_caches(&self) -> bool {
        let prologue = self.prologue.iter().map(|(_, step)| step);
        prologue
            .chain(self.threads.iter().flatten())
            .any(|step| matches!(step, Step::Malloc(_) | Step::Defer(_)))
    }

    /// True if slabs are let in it.
    pub fn has_guests(&self) -> bool {
        let prologue = self.prologue.iter().map(|(_, step)| step);
        prologue
            .chain(self.threads.iter().flatten())
            .any(|step| matches!(step, Step::OpenHoles(..)))
    }
}

impl Hand {
    /// Says to the memory that this hand has what the prologue gave it.
    pub fn announce(&self) {
        for (&c, blocks) in &self.blocks {
            let pieces = blocks.iter().flat_map(|&p| pieces(c, p));
            pieces.for_each(hold);
        }
        for &address in self.full.iter().chain(&self.empty).chain(&self.mallocs) {
            hold(address);
        }
        self.large.iter().for_each(Large::announce);
        self.announce_guards();
        self.announce_heap();
        self.announce_hardened();
        for &(slot, n) in &self.runs {
            parts(slot, n).for_each(hold);
        }
        for &node in &self.nodes {
            hold(node as usize);
        }
    }

    /// All blocks of malloc, for another hand.
    pub fn part_with(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.mallocs)
    }

    pub fn receive(&mut self, blocks: Vec<usize>) {
        self.mallocs.extend(blocks);
    }

    /// Does one step.
    pub fn step(&mut self, core: &Core, step: Step) {
        // SAFETY: every function is called as its C prototype asks: arrays are as long as the count says, blocks and
        // magazines are in this hand, and nobody uses them after they are given away.
        unsafe {
            match step {
                Step::Take(c, n) => self.take(core, c, n),
                Step::Give(c, n) => self.give(core, c, n),
                Step::Claim(n, align) => {
                    let (n, align) = (n as usize, align as usize);
                    let slot = (core.run_claim)(n, align, 0, &mut false);
                    assert!(slot != NONE && slot % align == 0, "a run at {slot}");
                    self.has_run(slot, n);
                }
                Step::Release => {
                    if !self.runs.is_empty() {
                        let (slot, n) = self.runs.remove(0);
                        parts(slot, n).for_each(let_go);
                        (core.run_release)(slot, n, true);
                    }
                }
                Step::Extend(more) => {
                    let last = self.runs.last_mut();
                    let extends =
                        |run: &&mut (usize, usize)| (core.run_extend)(run.0 + run.1, more as usize);
                    if let Some((slot, n)) = last.filter(extends) {
                        let before = parts(*slot, *n).count();
                        *n += more as usize;
                        parts(*slot, *n).skip(before).for_each(hold);
                    }
                }
                Step::Magazine(_) | Step::Put(_) | Step::Get(_) | Step::Fill | Step::Look(..) => {
                    self.depot_step(core, step)
                }
                Step::Purge => {
                    (core.purge_to)(0);
                }
                Step::Forget => {
                    (core.forget)(0);
                }
                Step::Chunk => {
                    let chunk = (core.take_chunks)(1);
                    assert!(chunk != NONE);
                    hold(chunk << 40);
                    self.chunks.push(chunk);
                }
                Step::Large(_)
                | Step::TryLarge(_)
                | Step::Paged(_)
                | Step::LargeFree
                | Step::LargeResize(_)
                | Step::PagedResize(_)
                | Step::Moves(_)
                | Step::CountsAddresses
                | Step::Share(_)
                | Step::FreeShared => self.large_step(core, step),
                Step::StaleMark(c, slot) => (core.mark_set)(c, 0, slot),
                Step::Malloc(_) | Step::Free | Step::Pass(_) => self.program_step(core, step),
                Step::Flush => (core.thread_flush)(),
                Step::Exit => (core.exit)(),
                Step::Forked => (core.forked)(),
                Step::BeBusy => {
                    (core.be_busy)();
                    self.busy = true;
                }
                Step::TryClaim(n) => {
                    let slot = (core.run_claim)(n as usize, 1, 0, &mut false);
                    if slot != NONE {
                        self.has_run(slot, n as usize);
                    }
                }
                Step::Near(cpu) => be_near(cpu),
                Step::Refuse(times) => refuse(times),
                Step::Limit(slots) => {
                    self.limit = slots << 16;
                    (core.limit_install)(0, self.limit, Some(callback));
                    bound((core.used_slots_word)(), slots as u64);
                }
                Step::Book(slots) => {
                    if (core.book)(slots) {
                        self.booked += slots;
                    }
                }
                Step::Relieve => {
                    (core.limit_call_back)(true, 1);
                }
                Step::EmptyDepot(c) => (core.depot_empty)(c),
                Step::ReleaseEmpty(c) => {
                    (core.release_empty)(c);
                }
                Step::TrimSlab(slot) => {
                    (core.trim_slab)(slot);
                }
                Step::OpenHoles(..) | Step::TakeGuests(..) | Step::FreeOne(_) => {
                    self.guests_step(core, step)
                }
                Step::Settle => (core.settle)(),
                Step::DropChunks => {
                    (core.drop_chunks)();
                }
                Step::Tables
                | Step::Sample(..)
                | Step::Unsample(..)
                | Step::NumberOf(_)
                | Step::Weigh(..)
                | Step::Unweigh(..) => self.observer_step(core, step),
                Step::Quarantine(_)
                | Step::QuarantinePut(_)
                | Step::QuarantineDrain
                | Step::QuarantineEach => self.quarantine_step(core, step),
                Step::Record(step) => self.recording_step(core, step),
                Step::Defer(step) => self.defer_step(core, step),
                Step::Guards
                | Step::GuardTake(..)
                | Step::GuardFree
                | Step::GuardShare
                | Step::GuardFreeShared
                | Step::GuardLook(..)
                | Step::GuardAfford => self.guard_step(core, step),
                Step::Heaps
                | Step::HeapGrown
                | Step::HeapStripes
                | Step::HeapBounded(_)
                | Step::HeapLeave
                | Step::HeapLimit(_)
                | Step::HeapTake(_)
                | Step::HeapFree
                | Step::HeapFreeInUse
                | Step::HeapEnd => self.heap_step(core, step),
                Step::Hardened
                | Step::HardTake(_)
                | Step::HardFree
                | Step::HardShare(_)
                | Step::HardFreeShared => self.hardened_step(core, step),
                Step::AbaNode(node) => {
                    hold(node as usize);
                    self.nodes.push(node);
                }
                Step::AbaPush => {
                    let node = if self.nodes.is_empty() {
                        0
                    } else {
                        self.nodes.remove(0)
                    };
                    if node != 0 {
                        let_go(node as usize);
                        (core.aba_push)(node);
                    }
                }
                Step::AbaPop => {
                    let node = (core.aba_pop)();
                    if node != 0 {
                        hold(node as usize);
                        self.nodes.push(node);
                    }
                }
            }
        }
    }

    fn has_run(&mut self, slot: usize, n: usize) {
        parts(slot, n).for_each(hold);
        self.runs.push((slot, n));
    }

    /// malloc and free.
    unsafe fn program_step(&mut self, core: &Core, step: Step) {
        // SAFETY: only blocks of this hand are freed, and not used afterwards.
        unsafe {
            match step {
                Step::Malloc(n) => {
                    let p = (core.malloc)(n);
                    assert!(p != 0, "no memory");
                    hold(p);
                    self.mallocs.push(p);
                }
                Step::Free if !self.mallocs.is_empty() => {
                    let p = self.mallocs.remove(0);
                    let_go(p);
                    (core.free)(p);
                }
                _ => {}
            }
        }
    }

    unsafe fn take(&mut self, core: &Core, c: u32, n: u32) {
        let mut out = vec![0usize; n as usize];
        // SAFETY: `out` has room for n.
        let got = unsafe { (core.slab_take)(c, n, out.as_mut_ptr()) };
        assert!(got == n, "{got} of {n} blocks, and there is memory");
        for &p in &out {
            pieces(c, p).for_each(hold);
            // SAFETY: reads one byte of the class map.
            let class = unsafe { (core.class_at)(p) };
            let is_let = bytes_are_shared() && class == 0 && c == HOST;
            if c <= 112 && class != c && !is_let {
                finding(&format!("a block of class {c} is found as class {class}"));
            }
        }
        self.blocks.entry(c).or_default().extend(out);
    }

    unsafe fn give(&mut self, core: &Core, c: u32, n: u32) {
        let mine = self.blocks.entry(c).or_default();
        let n = mine.len().min(n as usize);
        let mut given: Vec<usize> = mine.drain(..n).collect();
        for &p in &given {
            pieces(c, p).for_each(let_go);
        }
        // SAFETY: the blocks were this hand's.
        unsafe { (core.slab_give)(c, given.len() as u32, given.as_mut_ptr()) };
    }

    unsafe fn depot_step(&mut self, core: &Core, step: Step) {
        const CAPACITY: u32 = 6;
        match step {
            Step::Magazine(_) => {
                // SAFETY: no arguments to get wrong.
                let m = unsafe { (core.magazine_new)(CAPACITY) };
                assert!(m != 0);
                hold(m);
                self.full.push(m);
            }
            Step::Put(c) if !self.full.is_empty() => {
                let m = self.full.remove(0);
                let_go(m);
                let mut empty = 0;
                // SAFETY: the magazine was this hand's.
                if !unsafe { (core.depot_put)(c, cpu_of_thread(), m, &mut empty) } {
                    hold(m);
                    self.full.push(m);
                } else if empty != 0 {
                    hold(empty);
                    self.empty.push(empty);
                }
            }
            Step::Fill => {
                let m = self.full[0];
                // SAFETY: the magazine is this hand's.
                unsafe { (core.magazine_fill)(m) };
                self.looks_for = Some(m);
            }
            Step::Look(c, must) => {
                let m = self.looks_for.expect("a magazine was filled");
                // SAFETY: addresses alone; memory of magazines stays readable.
                if !unsafe { (core.depot_look)(c, m) } && must {
                    finding("what is in the depot all the time was not found there");
                }
            }
            Step::Get(c) => {
                let empty = self.empty.pop().unwrap_or(0);
                if empty != 0 {
                    let_go(empty);
                }
                // SAFETY: the empty magazine, if any, was this hand's.
                let m = unsafe { (core.depot_get)(c, cpu_of_thread(), empty) };
                if m != 0 {
                    hold(m);
                    self.full.push(m);
                } else if empty != 0 {
                    hold(empty);
                    self.empty.push(empty);
                }
            }
            _ => {}
        }
    }
}

/// The first slots of a run's parts, one in each chunk: what whoever has the run is watched at.
fn parts(slot: usize, n: usize) -> impl Iterator<Item = usize> {
    const CHUNK: usize = 64;
    std::iter::once(slot).chain((slot + 1..slot + n).filter(|s| s % CHUNK == 0))
}

/// What the program gave to be called at a limit: only one thread may be in it.
unsafe extern "C-unwind" fn callback(_in_use: usize, _limit: usize) {
    const IN_THE_CALLBACK: usize = 0xCA11;
    hold(IN_THE_CALLBACK);
    let_go(IN_THE_CALLBACK);
}

/// Slots that the hands hold as bare runs.
fn slots_in(hands: &[Hand]) -> u32 {
    let runs = hands.iter().flat_map(|hand| &hand.runs);
    runs.map(|&(_, n)| n as u32).sum()
}

/// And as chunks.
fn slots_in_chunks(hands: &[Hand]) -> u32 {
    64 * hands
        .iter()
        .map(|hand| hand.chunks.len() as u32)
        .sum::<u32>()
}

/// The equations over the whole heap, and that no block was lost.
pub fn verify(core: &Core, hands: &[Hand], with_caches: bool) {
    // SAFETY: all threads are over; the functions only read.
    unsafe {
        let booked: u32 = hands.iter().map(|hand| hand.booked).sum();
        (core.verify)(
            slots_in(hands) + slots_in_chunks(hands),
            slots_in(hands) + booked,
            with_caches,
            MALLOC_CLASSES.as_ptr(),
        );
        let classes: std::collections::BTreeSet<u32> = hands
            .iter()
            .flat_map(|hand| hand.blocks.keys().copied())
            .collect();
        for c in classes {
            let blocks = hands.iter().filter_map(|hand| hand.blocks.get(&c));
            let held = blocks.flatten().filter(|&&p| !lodges(core, p)).count();
            let out = (core.blocks_out)(c);
            if out != held {
                finding(&format!(
                    "{out} blocks of class {c} are out, the threads hold {held}"
                ));
            }
        }
        if with_caches {
            verify_caches(core, hands);
        }
        if hands.iter().any(|hand| hand.looks_for.is_some()) {
            verify_depot(core, hands);
        }
        verify_guests(core, hands);
        verify_large(core, hands);
        verify_guards(core, hands);
        verify_heaps(core, hands);
        verify_hardened(core, hands);
        verify_quarantine(core, hands);
        verify_deferred(core, hands);
        verify_order(hands);
        verify_weights(core, hands);
        let busy = hands.iter().filter(|hand| hand.busy).count();
        if busy != (core.busy_caches)() {
            finding("a cache was flushed though busy");
        }
        let limit: usize = hands.iter().map(|hand| hand.limit).sum();
        let used = (core.used_bytes)();
        if limit != 0 && used > limit {
            finding(&format!(
                "the heap is beyond its limit: {used} bytes of {limit}"
            ));
        }
    }
    verify_tables(hands);
}

/// The classes of the blocks that scenarios get by malloc: 64 bytes, 1 KiB, and bulky ones of 40 KiB.
const MALLOC_CLASSES: [u32; 3] = [4, 64, 106];
/// And of magazines.
const MAGAZINES: std::ops::RangeInclusive<u32> = 177..=183;

/// Every block that is out is in somebody's hands, in a thread's cache or in the depot; every magazine is in a cache or a
/// depot.
///
/// # Safety
/// All threads are over.
unsafe fn verify_caches(core: &Core, hands: &[Hand]) {
    // SAFETY: as in verify.
    unsafe {
        let mut known = (core.magazines_kept)();
        for c in MALLOC_CLASSES {
            let mallocs = hands.iter().flat_map(|hand| &hand.mallocs);
            let held = mallocs.filter(|&&p| (core.class_at)(p) == c).count();
            let (kept, out) = ((core.blocks_kept)(c), (core.blocks_out)(c));
            if out != held + kept {
                finding(&format!(
                    "{out} blocks of class {c} are out, the threads hold {held}, their caches {kept}"
                ));
            }
            known += (core.depot_magazines)(c);
        }
        let apart = (core.bulky_apart)();
        if apart != 0 {
            finding(&format!(
                "{apart} bytes more than caches say may be cached of bulky blocks"
            ));
        }
        let out: usize = MAGAZINES.map(|c| (core.blocks_out)(c)).sum();
        if out != known {
            finding(&format!(
                "{out} magazines are out, {known} are in caches and depots"
            ));
        }
    }
}

/// Every magazine is in a hand or in the depot, which knows how many are full. Of scenarios with magazines of class 1 alone.
///
/// # Safety
/// All threads are over.
unsafe fn verify_depot(core: &Core, hands: &[Hand]) {
    let mut said = 0;
    // SAFETY: as above; the functions only read.
    let (out, there, full) = unsafe {
        (
            MAGAZINES.map(|c| (core.blocks_out)(c)).sum::<usize>(),
            (core.depot_magazines)(1),
            (core.depot_full)(1, &mut said),
        )
    };
    let held: usize = hands
        .iter()
        .map(|hand| hand.full.len() + hand.empty.len())
        .sum();
    if out != held + there {
        finding(&format!(
            "{out} magazines are out, {held} are in hands and {there} in the depot"
        ));
    }
    if full != said {
        finding(&format!(
            "{full} magazines in the depot are full, and it says {said}"
        ));
    }
}
