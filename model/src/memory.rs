//! The shared words, as the C code sees them through its hooks.
//!
//! No word is ever written in place. The prologue's writes go to an image; an exploration starts each run from that image
//! and keeps the words in the explorer's own atomics, by address. So a run needs no cleaning up after it, and several
//! tests can use the same shared object at once: everything here belongs to one thread of the test program.
//!
//! loom wants every atomic to exist before the threads do. The addresses are not known beforehand, so they are learnt: a
//! run that meets a new one finishes without it, and the exploration begins again with one atomic more.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use loom::sync::atomic::AtomicU64;
use rustc_hash::FxHashMap;

use crate::kernel::{madvise, mincore, mmap, munmap};
use crate::order::restart_clock;

mod blocks;
mod threads;

use blocks::access;
pub use blocks::{hold, is_held, let_go, look};
pub use threads::{be_near, begin_threads, cpu_of_thread, i_am};
use threads::{near, number, own};

/// What a step does to a word.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    Or,
    And,
    Add,
    Sub,
    Swap,
}

impl Change {
    fn from_number(number: c_int) -> Change {
        [
            Change::Or,
            Change::And,
            Change::Add,
            Change::Sub,
            Change::Swap,
        ][number as usize]
    }

    fn apply(self, old: u64, v: u64) -> u64 {
        match self {
            Change::Or => old | v,
            Change::And => old & v,
            Change::Add => old.wrapping_add(v),
            Change::Sub => old.wrapping_sub(v),
            Change::Swap => v,
        }
    }
}

/// Who decides about the next step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mode {
    /// Nobody: the prologue, alone, writing the image.
    Prologue,
    /// loom.
    Loom,
    /// shuttle.
    Shuttle,
    /// Nobody: the check after a run, reading the final values.
    Verify,
}

/// What the system says to a move of pages (`fh_move`).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Move {
    Moved = 0,
    #[default]
    NotMoved = 1,
    PlaceLost = 2,
}

/// A word under loom. The shadow is there because loom takes a load that is followed by a compare-and-swap of the same
/// thread for independent of other threads' changes between them (its issues 166 and 392); a relaxed read-modify-write
/// before each step makes all steps on one word depend on each other.
struct Atom {
    shadow: AtomicU64,
    word: AtomicU64,
}

#[derive(Default)]
struct Memory {
    image: FxHashMap<usize, u64>,
    run: FxHashMap<usize, u64>,
    atoms: FxHashMap<usize, Rc<Atom>>,
    cells: FxHashMap<usize, Rc<loom::cell::UnsafeCell<u64>>>,
    known_words: BTreeSet<usize>,
    known_cells: BTreeSet<usize>,
    taken: FxHashMap<usize, bool>,
    switch: Option<Rc<shuttle::sync::atomic::AtomicU64>>,
    findings: Vec<String>,
    /// The plain memory after the prologue: address and bytes of each page that it has touched.
    pages: Vec<(usize, Vec<u8>)>,
    /// How often the system still refuses memory: in the prologue, and in each run.
    refusals: u32,
    refusals_left: u32,
    /// What it says to a move of pages.
    moves: Move,
    /// Whether it counts address space.
    counts: bool,
    /// A counter that must never be above a bound: its address and the bound.
    watched: Option<(usize, u64)>,
    /// What is thread-local in the library, by thread: after the prologue, and now.
    own_image: [[usize; 4]; MOST_THREADS],
    /// Near which CPU each thread runs, likewise.
    near_image: [u32; MOST_THREADS],
    /// Class maps of all windows that were reserved. More than one thread may begin, and one of them wins.
    class_maps: Vec<usize>,
}

/// Threads of a scenario, and the hand of nobody.
pub const MOST_THREADS: usize = 6;

loom::thread_local! {
    static LOOM_THREAD: Cell<usize> = Cell::new(0);
}
shuttle::thread_local! {
    static SHUTTLE_THREAD: Cell<usize> = Cell::new(0);
}

thread_local! {
    static PROLOGUE_THREAD: Cell<usize> = const { Cell::new(0) };
    static OWN: Cell<[[usize; 4]; MOST_THREADS]> = const { Cell::new([[0; 4]; MOST_THREADS]) };
    static NEAR: Cell<[u32; MOST_THREADS]> = const { Cell::new([0; MOST_THREADS]) };
    static MODE: Cell<Mode> = const { Cell::new(Mode::Prologue) };
    static MEMORY: RefCell<Memory> = RefCell::new(Memory::default());
    static LEARNT: Cell<bool> = const { Cell::new(false) };
    static BYTES_ARE_SHARED: Cell<bool> = const { Cell::new(false) };
    static LAST_WRITE_LOCKED: Cell<bool> = const { Cell::new(false) };
    static MAPPING: RefCell<Option<Mapping>> = const { RefCell::new(None) };
    static ARENA: Cell<Arena> = const { Cell::new(Arena { start: 0, next: 0, image_end: 0 }) };
}

/// Goes with the test program's thread: there is address space for some thirty of them, and each test is a thread.
struct Mapping(usize);

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by start_image, and used by nobody any more.
        unsafe { munmap(self.0 as *mut c_void, ARENA_SIZE) };
    }
}

/// Address space that is handed out from bottom to top; a run begins where the prologue ended.
#[derive(Clone, Copy)]
struct Arena {
    start: usize,
    next: usize,
    image_end: usize,
}

const ARENA_SIZE: usize = 4 << 40;
const CLASS_BYTES: usize = 4096;
/// Chunks at the window's beginning whose plain memory is kept and restored: more than any scenario uses.
const KEPT_BYTES: usize = 16 << 20;
const PAGE: usize = 4096;
/// No mapping is below this, and a region's metadata is shorter.
const NOWHERE: usize = 16 << 20;

/// What a run says that only learns.
pub const LEARNT_AN_ADDRESS: &str = "an address was learnt";

fn value_of(memory: &Memory, address: usize) -> u64 {
    let written = memory
        .run
        .get(&address)
        .or_else(|| memory.image.get(&address));
    // SAFETY: the C code passes the address of a word of its own, and nobody writes words in place; or that of a byte of the
    // class map.
    written.copied().unwrap_or_else(|| unsafe {
        if is_in(&memory.class_maps, address) {
            u64::from(*(address as *const u8))
        } else {
            *(address as *const u64)
        }
    })
}

/// The atom of an address; None when it is new, and the run only serves to learn it.
fn atom(address: usize) -> Option<Rc<Atom>> {
    MEMORY.with_borrow_mut(|memory| {
        let atom = memory.atoms.get(&address).cloned();
        if atom.is_none() {
            memory.known_words.insert(address);
            LEARNT.set(true);
        }
        atom
    })
}

/// Under shuttle no atom is asked for.
fn loom_atom(address: usize) -> Option<Rc<Atom>> {
    (MODE.get() == Mode::Loom).then(|| atom(address)).flatten()
}

/// shuttle may let another thread go first.
fn shuttle_step() {
    let switch = MEMORY.with_borrow(|memory| memory.switch.clone());
    if let Some(switch) = switch {
        switch.load(Ordering::SeqCst);
    }
}

fn plain<R>(address: usize, step: impl FnOnce(u64) -> (Option<u64>, R)) -> R {
    MEMORY.with_borrow_mut(|memory| {
        let (new, result) = step(value_of(memory, address));
        if let Some(new) = new {
            let into = if MODE.get() == Mode::Prologue {
                &mut memory.image
            } else {
                &mut memory.run
            };
            into.insert(address, new);
        }
        result
    })
}

const ORDERS: [Ordering; 4] = [
    Ordering::Relaxed,
    Ordering::Acquire,
    Ordering::Release,
    Ordering::AcqRel,
];

/// Metadata by way of a region whose address was read as NULL: the library would crash. What an explored run has yet to learn
/// may be the reason; then it is over.
fn must_be_there(address: usize) {
    if address < NOWHERE {
        finding("metadata is read by way of a region that is not there");
        panic!("{LEARNT_AN_ADDRESS}");
    }
}

unsafe extern "C-unwind" fn load(word: *const u64, order: c_int) -> u64 {
    let address = word as usize;
    must_be_there(address);
    match MODE.get() {
        Mode::Loom => {
            if let Some(atom) = atom(address) {
                atom.shadow.fetch_add(1, Ordering::Relaxed);
                return atom.word.load(ORDERS[order as usize]);
            }
        }
        Mode::Verify => {
            let known = MEMORY.with_borrow(|memory| memory.atoms.get(&address).cloned());
            if let Some(atom) = known {
                // SAFETY: all threads have been joined.
                return unsafe { atom.word.unsync_load() };
            }
        }
        Mode::Shuttle => shuttle_step(),
        Mode::Prologue => {}
    }
    plain(address, |old| (None, old))
}

unsafe extern "C-unwind" fn store(word: *mut u64, v: u64, order: c_int) {
    let address = word as usize;
    must_be_there(address);
    LAST_WRITE_LOCKED.set(false);
    if let Some(atom) = loom_atom(address) {
        atom.shadow.fetch_add(1, Ordering::Relaxed);
        return atom.word.store(v, ORDERS[order as usize]);
    }
    if MODE.get() == Mode::Shuttle {
        shuttle_step();
    }
    plain(address, |_| (Some(v), ()));
}

unsafe extern "C-unwind" fn change(word: *mut u64, what: c_int, v: u64, order: c_int) -> u64 {
    let address = word as usize;
    must_be_there(address);
    let (what, order) = (Change::from_number(what), ORDERS[order as usize]);
    LAST_WRITE_LOCKED.set(true);
    if let Some(atom) = loom_atom(address) {
        atom.shadow.fetch_add(1, Ordering::Relaxed);
        let old = match what {
            Change::Or => atom.word.fetch_or(v, order),
            Change::And => atom.word.fetch_and(v, order),
            Change::Add => atom.word.fetch_add(v, order),
            Change::Sub => atom.word.fetch_sub(v, order),
            Change::Swap => atom.word.swap(v, order),
        };
        watch(address, what.apply(old, v));
        return old;
    }
    if MODE.get() == Mode::Shuttle {
        shuttle_step();
    }
    plain(address, |old| (Some(what.apply(old, v)), old))
}

/// The word at this address must not be above the bound after any step.
pub fn bound(address: usize, most: u64) {
    MEMORY.with_borrow_mut(|memory| memory.watched = Some((address, most)));
}

fn watch(address: usize, now: u64) {
    let watched = MEMORY.with_borrow(|memory| memory.watched);
    if let Some((_, most)) = watched.filter(|&(place, most)| place == address && now > most) {
        finding(&format!(
            "the heap is beyond its limit: {now} slots of {most}"
        ));
    }
}

unsafe extern "C-unwind" fn cas(
    word: *mut u64,
    seen: *mut u64,
    v: u64,
    success: c_int,
    failure: c_int,
) -> bool {
    let address = word as usize;
    must_be_there(address);
    LAST_WRITE_LOCKED.set(true);
    // SAFETY: `seen` is a local variable of the C caller.
    let expected = unsafe { *seen };
    let result = if let Some(atom) = loom_atom(address) {
        atom.shadow.fetch_add(1, Ordering::Relaxed);
        atom.word.compare_exchange(
            expected,
            v,
            ORDERS[success as usize],
            ORDERS[failure as usize],
        )
    } else {
        if MODE.get() == Mode::Shuttle {
            shuttle_step();
        }
        plain(address, |old| {
            if old == expected {
                (Some(v), Ok(old))
            } else {
                (None, Err(old))
            }
        })
    };
    if let Err(found) = result {
        // SAFETY: as above.
        unsafe { *seen = found };
    }
    result.is_ok()
}

/// Bytes of the class map are plain memory to the explorer: each is written by who owns the slot, before a block of it is in
/// other hands, and that is watched (see plain_access). Where slabs are let, they are written while others read them: in
/// scenarios that say so they are atoms like the words, with their old values.
pub fn share_bytes(shared: bool) {
    BYTES_ARE_SHARED.set(shared);
}

pub fn bytes_are_shared() -> bool {
    BYTES_ARE_SHARED.get()
}

/// Neighbours have other owners: those of the class map the slots', those of an extent the blocks'.
fn access_byte(address: usize, writes: bool) {
    let arena = ARENA.get();
    if MODE.get() == Mode::Loom && (arena.start..arena.next).contains(&address) {
        access(address, writes);
    }
}

unsafe extern "C-unwind" fn load_byte(byte: *const u8) -> u8 {
    let address = byte as usize;
    if BYTES_ARE_SHARED.get() && matches!(MODE.get(), Mode::Loom | Mode::Verify) {
        // SAFETY: `load` reads a byte at an address of the class map.
        return unsafe { load(byte.cast(), 0) } as u8;
    }
    if MODE.get() == Mode::Shuttle {
        shuttle_step();
    }
    // SAFETY: the class map is mapped; it is read as the library reads it.
    unsafe {
        access_byte(address, false);
        *byte
    }
}

unsafe extern "C-unwind" fn store_byte(byte: *mut u8, v: u8) {
    let address = byte as usize;
    if BYTES_ARE_SHARED.get() && MODE.get() == Mode::Loom {
        // SAFETY: `store` keeps the value under the address.
        return unsafe { store(byte.cast(), u64::from(v), 0) };
    }
    if MODE.get() == Mode::Shuttle {
        shuttle_step();
    }
    // SAFETY: as in load_byte.
    unsafe {
        access_byte(address, true);
        *byte = v;
    }
}

/// On x86-64 the library's barrier is none for the processor: the locked instruction before it is. The prologue, which
/// runs through the same code alone, verifies that there is one.
unsafe extern "C-unwind" fn fence() {
    match MODE.get() {
        Mode::Loom => loom::sync::atomic::fence(Ordering::SeqCst),
        Mode::Prologue if !LAST_WRITE_LOCKED.get() => finding("a barrier follows a plain store"),
        _ => {}
    }
}

/// From now on the system refuses memory so many times.
pub fn refuse(times: u32) {
    MEMORY.with_borrow_mut(|memory| {
        memory.refusals = times;
        memory.refusals_left = times;
    });
}

/// From now on the system says this to a move of pages.
pub fn answer_moves(answer: Move) {
    MEMORY.with_borrow_mut(|memory| memory.moves = answer);
}

/// From now on the system counts address space.
pub fn count_addresses() {
    MEMORY.with_borrow_mut(|memory| memory.counts = true);
}

unsafe extern "C-unwind" fn counts() -> bool {
    MEMORY.with_borrow(|memory| memory.counts)
}

unsafe extern "C-unwind" fn move_pages() -> c_int {
    MEMORY.with_borrow(|memory| memory.moves as c_int)
}

unsafe extern "C-unwind" fn allows() -> bool {
    MEMORY.with_borrow_mut(|memory| {
        let refused = memory.refusals_left > 0;
        memory.refusals_left -= u32::from(refused);
        !refused
    })
}

/// A plain read or write of the C code. The class map is looked at byte by byte, as each slot's byte has an owner of its
/// own; all else in pieces of 16 bytes, the least that anything is aligned to.
unsafe extern "C-unwind" fn plain_access(address: usize, bytes: u64, writes: c_int) {
    let arena = ARENA.get();
    if MODE.get() != Mode::Loom || address < arena.start || address >= arena.next {
        return;
    }
    let piece = if in_class_map(address) { 1 } else { 16 };
    let end = address + bytes as usize;
    let mut at = address / piece * piece;
    while at < end {
        access(at, writes != 0);
        at += piece;
    }
}

unsafe extern "C-unwind" fn map(size: u64, align: u64) -> usize {
    let mut arena = ARENA.get();
    let place = (arena.next + align as usize - 1) & !(align as usize - 1);
    arena.next = place + size as usize;
    assert!(
        arena.next <= arena.start + ARENA_SIZE,
        "the model's address space is used up"
    );
    ARENA.set(arena);
    if size as usize >= CLASS_MAP + WINDOW {
        let class_map = (place + CLASS_MAP).next_multiple_of(CHUNK) - CLASS_MAP;
        MEMORY.with_borrow_mut(|memory| {
            if !memory.class_maps.contains(&class_map) {
                memory.class_maps.push(class_map);
            }
        });
    }
    place
}

unsafe extern "C-unwind" fn fault(kind: c_int, p: *const c_void) {
    finding(&format!("the library reports fault {kind} at {p:?}"));
}

unsafe extern "C-unwind" fn violated(
    name: *const c_char,
    text: *const c_char,
    at: u64,
    found: u64,
) {
    // SAFETY: both are literals of src/check/report.c.
    let (name, text) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(text)) };
    finding(&format!(
        "broken: {} ({}, at {at:#x}: {found:#x})",
        text.to_string_lossy(),
        name.to_string_lossy()
    ));
}

/// The table that the C side calls through.
#[repr(C)]
pub struct Hooks {
    load: unsafe extern "C-unwind" fn(*const u64, c_int) -> u64,
    store: unsafe extern "C-unwind" fn(*mut u64, u64, c_int),
    change: unsafe extern "C-unwind" fn(*mut u64, c_int, u64, c_int) -> u64,
    cas: unsafe extern "C-unwind" fn(*mut u64, *mut u64, u64, c_int, c_int) -> bool,
    load_byte: unsafe extern "C-unwind" fn(*const u8) -> u8,
    store_byte: unsafe extern "C-unwind" fn(*mut u8, u8),
    fence: unsafe extern "C-unwind" fn(),
    near: unsafe extern "C-unwind" fn() -> u32,
    number: unsafe extern "C-unwind" fn() -> u32,
    own: unsafe extern "C-unwind" fn() -> *mut usize,
    allows: unsafe extern "C-unwind" fn() -> bool,
    counts: unsafe extern "C-unwind" fn() -> bool,
    move_pages: unsafe extern "C-unwind" fn() -> c_int,
    plain: unsafe extern "C-unwind" fn(usize, u64, c_int),
    map: unsafe extern "C-unwind" fn(u64, u64) -> usize,
    fault: unsafe extern "C-unwind" fn(c_int, *const c_void),
    violated: unsafe extern "C-unwind" fn(*const c_char, *const c_char, u64, u64),
}

pub static HOOKS: Hooks = Hooks {
    load,
    store,
    change,
    cas,
    load_byte,
    store_byte,
    fence,
    near,
    number,
    own,
    allows,
    counts,
    move_pages,
    plain: plain_access,
    map,
    fault,
    violated,
};

/// Something that must not happen has happened: the run fails at once.
pub fn finding(text: &str) {
    MEMORY.with_borrow_mut(|memory| memory.findings.push(text.to_owned()));
    if !LEARNT.get() {
        panic!("{text}");
    }
}

/// Forgets everything: the beginning of a test.
pub fn start_image() {
    restart_clock(true);
    MEMORY.with_borrow_mut(|memory| *memory = Memory::default());
    LEARNT.set(false);
    MODE.set(Mode::Prologue);
    PROLOGUE_THREAD.set(0);
    // The old one goes first.
    MAPPING.take();
    const READ_WRITE_PRIVATE_ANONYMOUS_NORESERVE: (c_int, c_int) = (3, 0x4022);
    let (protection, flags) = READ_WRITE_PRIVATE_ANONYMOUS_NORESERVE;
    // SAFETY: a fresh private mapping.
    let start =
        unsafe { mmap(std::ptr::null_mut(), ARENA_SIZE, protection, flags, -1, 0) as usize };
    assert!(start as isize != -1, "no address space for the model");
    MAPPING.set(Some(Mapping(start)));
    ARENA.set(Arena {
        start,
        next: start,
        image_end: start,
    });
}

/// The prologue is over. Returns the class map's first bytes, and keeps all other plain memory that it has touched.
pub fn seal_image() -> Vec<u8> {
    let mut arena = ARENA.get();
    arena.image_end = arena.next;
    ARENA.set(arena);
    let kept = kept_memory();
    let mut resident = vec![0u8; KEPT_BYTES / PAGE];
    // SAFETY: the range lies in the arena, and the array has a byte for each of its pages.
    unsafe { mincore(kept as *mut c_void, KEPT_BYTES, resident.as_mut_ptr()) };
    let pages = (0..resident.len())
        .filter(|&i| resident[i] & 1 != 0)
        .map(|i| {
            let place = kept + i * PAGE;
            // SAFETY: as above; the arena is readable.
            let bytes = unsafe { std::slice::from_raw_parts(place as *const u8, PAGE) };
            (place, bytes.to_vec())
        })
        .filter(|(_, bytes)| bytes.iter().any(|&byte| byte != 0)); // the others are zero again without being copied
    let pages: Vec<_> = pages.collect();
    MEMORY.with_borrow_mut(|memory| {
        memory.pages = pages;
        memory.own_image = OWN.get();
        memory.near_image = NEAR.get();
    });
    // SAFETY: the arena is readable; the class map is what the library maps first.
    unsafe { std::slice::from_raw_parts(class_map(), CLASS_BYTES) }.to_vec()
}

const CHUNK: usize = 4 << 20;
const CLASS_MAP: usize = 16 << 20;
const WINDOW: usize = 1 << 40;

/// The first window's class map, which is what the prologue maps first: it ends at a multiple of a chunk (store/window.c).
fn class_map() -> *mut u8 {
    ((ARENA.get().start + CLASS_MAP).next_multiple_of(CHUNK) - CLASS_MAP) as *mut u8
}

fn is_in(class_maps: &[usize], address: usize) -> bool {
    let mut starts = class_maps.iter();
    starts.any(|&map| (map..map + CLASS_MAP).contains(&address))
}

fn in_class_map(address: usize) -> bool {
    MEMORY.with_borrow(|memory| is_in(&memory.class_maps, address))
}

/// The first chunks of the window, which lies behind its class map.
fn kept_memory() -> usize {
    class_map() as usize + CLASS_MAP
}

const DONTNEED: c_int = 4;

/// Begins a run from the image.
pub fn start_run(mode: Mode, class_bytes: &[u8]) {
    restart_clock(false);
    let mut arena = ARENA.get();
    arena.next = arena.image_end;
    ARENA.set(arena);
    MEMORY.with_borrow_mut(|memory| {
        // SAFETY: the ranges lie in the arena, which no other thread of the program uses; they are zero afterwards, and then
        // as the prologue left them.
        unsafe {
            for &map in &memory.class_maps {
                madvise(map as *mut c_void, CLASS_MAP + KEPT_BYTES, DONTNEED);
            }
            std::ptr::copy_nonoverlapping(class_bytes.as_ptr(), class_map(), CLASS_BYTES);
            for (place, bytes) in &memory.pages {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), *place as *mut u8, PAGE);
            }
        }
        OWN.set(memory.own_image);
        NEAR.set(memory.near_image);
        memory.refusals_left = memory.refusals;
        memory.run.clear();
        memory.taken.clear();
        memory.findings.clear();
        memory.atoms.clear();
        memory.cells.clear();
        if mode == Mode::Loom {
            let words: Vec<_> = memory
                .known_words
                .iter()
                .map(|&a| (a, value_of(memory, a)))
                .collect();
            for (address, value) in words {
                memory.atoms.insert(
                    address,
                    Rc::new(Atom {
                        shadow: AtomicU64::new(0),
                        word: AtomicU64::new(value),
                    }),
                );
            }
            for &address in &memory.known_cells {
                memory
                    .cells
                    .insert(address, Rc::new(loom::cell::UnsafeCell::new(0)));
            }
        }
        memory.switch =
            (mode == Mode::Shuttle).then(|| Rc::new(shuttle::sync::atomic::AtomicU64::new(0)));
    });
    LEARNT.set(false);
    MODE.set(mode);
}

pub fn set_mode(mode: Mode) {
    MODE.set(mode);
}

pub fn learnt_an_address() -> bool {
    LEARNT.get()
}
