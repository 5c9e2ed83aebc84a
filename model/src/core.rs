//! The C code, loaded as a shared object: the real one or a mutant.

use std::ffi::{CString, c_char, c_int, c_void};

use crate::memory;

/// The functions of the library that scenarios call, with their C signatures.
#[derive(Clone, Copy)]
pub struct Core {
    pub slab_take: unsafe extern "C-unwind" fn(u32, u32, *mut usize) -> u32,
    pub slab_give: unsafe extern "C-unwind" fn(u32, u32, *mut usize),
    pub run_claim: unsafe extern "C-unwind" fn(usize, usize, usize, *mut bool) -> usize,
    pub run_extend: unsafe extern "C-unwind" fn(usize, usize) -> bool,
    pub run_release: unsafe extern "C-unwind" fn(usize, usize, bool),
    pub depot_put: unsafe extern "C-unwind" fn(u32, u32, usize, *mut usize) -> bool,
    pub depot_get: unsafe extern "C-unwind" fn(u32, u32, usize) -> usize,
    pub magazine_new: unsafe extern "C-unwind" fn(u32) -> usize,
    pub mark_set: unsafe extern "C-unwind" fn(u32, u32, usize),
    pub purge_to: unsafe extern "C-unwind" fn(usize) -> usize,
    pub forget: unsafe extern "C-unwind" fn(usize),
    pub take_chunks: unsafe extern "C-unwind" fn(usize) -> usize,
    pub large_alloc: unsafe extern "C-unwind" fn(usize, usize, *mut bool) -> usize,
    pub large_free: unsafe extern "C-unwind" fn(usize) -> bool,
    pub large_size: unsafe extern "C-unwind" fn(usize) -> usize,
    pub large_around: unsafe extern "C-unwind" fn(usize) -> usize,
    pub large_resize: unsafe extern "C-unwind" fn(usize, usize) -> bool,
    pub large_move: unsafe extern "C-unwind" fn(usize, usize) -> usize,
    pub malloc: unsafe extern "C-unwind" fn(usize) -> usize,
    pub free: unsafe extern "C-unwind" fn(usize),
    pub thread_flush: unsafe extern "C-unwind" fn(),
    pub no_thread: unsafe extern "C-unwind" fn() -> usize,
    pub no_bins: unsafe extern "C-unwind" fn() -> usize,
    pub exit: unsafe extern "C-unwind" fn(),
    pub forked: unsafe extern "C-unwind" fn(),
    pub be_busy: unsafe extern "C-unwind" fn(),
    pub begin_samples: unsafe extern "C-unwind" fn(),
    pub sample: unsafe extern "C-unwind" fn(u64, u64) -> bool,
    pub unsample: unsafe extern "C-unwind" fn(u64) -> u64,
    pub begin_index: unsafe extern "C-unwind" fn(),
    pub number_of: unsafe extern "C-unwind" fn(u64) -> u32,
    pub begin_guards: unsafe extern "C-unwind" fn(),
    pub guard_take: unsafe extern "C-unwind" fn(u64, usize) -> u32,
    pub guard_free: unsafe extern "C-unwind" fn(u32, usize) -> usize,
    pub guard_look: unsafe extern "C-unwind" fn(u32) -> usize,
    pub guard_affords: unsafe extern "C-unwind" fn() -> bool,
    pub guards_waiting: unsafe extern "C-unwind" fn(*mut bool) -> usize,
    pub guards_made: unsafe extern "C-unwind" fn() -> usize,
    pub begin_heaps: unsafe extern "C-unwind" fn(),
    pub heap_grown: unsafe extern "C-unwind" fn(),
    pub heap_stripes: unsafe extern "C-unwind" fn(),
    pub heap_bounded: unsafe extern "C-unwind" fn(usize),
    pub heap_leave: unsafe extern "C-unwind" fn(),
    pub heap_limit: unsafe extern "C-unwind" fn(usize, *mut u64) -> usize,
    pub heap_take: unsafe extern "C-unwind" fn(usize) -> usize,
    pub heap_free: unsafe extern "C-unwind" fn(usize),
    pub heap_free_in_use: unsafe extern "C-unwind" fn(usize) -> bool,
    pub heap_end: unsafe extern "C-unwind" fn(),
    pub heap_books: unsafe extern "C-unwind" fn(*mut *const c_char) -> usize,
    pub begin_hardened: unsafe extern "C-unwind" fn(),
    pub hardened_take: unsafe extern "C-unwind" fn(u32) -> usize,
    pub hardened_free: unsafe extern "C-unwind" fn(usize) -> bool,
    pub hardened_live: unsafe extern "C-unwind" fn(u32, *mut usize) -> usize,
    pub begin_quarantine: unsafe extern "C-unwind" fn(usize),
    pub quarantined: unsafe extern "C-unwind" fn(u32) -> usize,
    pub quarantine_put: unsafe extern "C-unwind" fn(u32, extern "C-unwind" fn(usize)),
    pub quarantine_drain: unsafe extern "C-unwind" fn(extern "C-unwind" fn(usize)),
    pub quarantine_each: unsafe extern "C-unwind" fn(extern "C-unwind" fn(usize)),
    pub quarantine_books: unsafe extern "C-unwind" fn(*mut *const c_char) -> u64,
    pub order_begin: unsafe extern "C-unwind" fn(*mut u64, u32),
    pub order_stamp: unsafe extern "C-unwind" fn(*mut u64, u64),
    pub order_take: unsafe extern "C-unwind" fn(u32, bool) -> bool,
    pub order_leave: unsafe extern "C-unwind" fn(u32, bool),
    pub order_call:
        unsafe extern "C-unwind" fn(*mut u64, u32, u64, extern "C-unwind" fn() -> u64) -> u64,
    pub begin_defer: unsafe extern "C-unwind" fn(extern "C-unwind" fn(usize)),
    pub defer_warm: unsafe extern "C-unwind" fn(),
    pub defer_publish: unsafe extern "C-unwind" fn(u32) -> usize,
    pub defer_find: unsafe extern "C-unwind" fn(u32) -> usize,
    pub defer_unlink: unsafe extern "C-unwind" fn(u32) -> bool,
    pub defer_flush: unsafe extern "C-unwind" fn() -> usize,
    pub defer_safepoint: unsafe extern "C-unwind" fn(),
    pub defer_waiting: unsafe extern "C-unwind" fn(extern "C-unwind" fn(usize)) -> *const c_char,
    pub reader_begin: unsafe extern "C-unwind" fn(*const c_char) -> bool,
    pub reader_end: unsafe extern "C-unwind" fn(),
    pub reader_pass: unsafe extern "C-unwind" fn(),
    pub reader_leave: unsafe extern "C-unwind" fn(),
    pub reader_return: unsafe extern "C-unwind" fn(),
    pub depot_empty: unsafe extern "C-unwind" fn(u32),
    pub release_empty: unsafe extern "C-unwind" fn(u32) -> u32,
    pub trim_slab: unsafe extern "C-unwind" fn(usize) -> usize,
    pub holes_open: unsafe extern "C-unwind" fn(usize, u32) -> bool,
    pub holes_take: unsafe extern "C-unwind" fn(u32, u32, *mut usize) -> u32,
    pub holes_block_of: unsafe extern "C-unwind" fn(usize, *mut usize) -> usize,
    pub free_one: unsafe extern "C-unwind" fn(usize) -> bool,
    pub units_out: unsafe extern "C-unwind" fn(*mut usize) -> usize,
    pub drop_chunks: unsafe extern "C-unwind" fn() -> usize,
    pub limit_install: unsafe extern "C-unwind" fn(
        usize,
        usize,
        Option<unsafe extern "C-unwind" fn(usize, usize)>,
    ),
    pub book: unsafe extern "C-unwind" fn(u32) -> bool,
    pub limit_call_back: unsafe extern "C-unwind" fn(bool, u64) -> bool,
    pub used_bytes: unsafe extern "C-unwind" fn() -> usize,
    pub used_slots_word: unsafe extern "C-unwind" fn() -> usize,
    pub moved_chunks: unsafe extern "C-unwind" fn(*mut usize) -> usize,
    pub blocks_kept: unsafe extern "C-unwind" fn(u32) -> usize,
    pub busy_caches: unsafe extern "C-unwind" fn() -> usize,
    pub magazine_fill: unsafe extern "C-unwind" fn(usize),
    pub depot_look: unsafe extern "C-unwind" fn(u32, usize) -> bool,
    pub depot_full: unsafe extern "C-unwind" fn(u32, *mut usize) -> usize,
    pub depot_magazines: unsafe extern "C-unwind" fn(u32) -> usize,
    pub magazines_kept: unsafe extern "C-unwind" fn() -> usize,
    pub aba_push: unsafe extern "C-unwind" fn(u64),
    pub aba_pop: unsafe extern "C-unwind" fn() -> u64,
    pub class_at: unsafe extern "C-unwind" fn(usize) -> u32,
    pub blocks_out: unsafe extern "C-unwind" fn(u32) -> usize,
    pub verify: unsafe extern "C-unwind" fn(u32, u32, bool, *const u32),
}

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}
/// Lazily: of the system layer only what scenarios reach is there.
const RTLD_LAZY: c_int = 1;

/// Looks a function up and gives it the type that the caller says it has.
///
/// # Safety
/// `F` must be a function pointer type that fits the C function `name`.
unsafe fn function<F: Copy>(library: *mut c_void, name: &str) -> F {
    assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
    let text = CString::new(name).expect("no zero in a name");
    // SAFETY: the handle is a loaded library's, the name ends with a zero.
    let address = unsafe { dlsym(library, text.as_ptr()) };
    assert!(!address.is_null(), "the core has no function {name}");
    // SAFETY: the caller vouches for the type; the sizes are equal.
    unsafe { std::mem::transmute_copy(&address) }
}

impl Core {
    /// Loads a variant by its name in `build.rs`; `real` is the code that ships.
    pub fn load(variant: &str) -> Core {
        let path = format!("{}/{variant}.so", env!("FREEHOLD_MODEL_CORES"));
        let text = CString::new(path.clone()).expect("no zero in a path");
        // SAFETY: the library was built by build.rs and has no constructors.
        let library = unsafe { dlopen(text.as_ptr(), RTLD_LAZY) };
        assert!(!library.is_null(), "cannot load {path}");
        // SAFETY: each type is that of the prototype in the library's header of the same name.
        unsafe {
            let attach: unsafe extern "C" fn(*const memory::Hooks) =
                function(library, "fh_model_attach");
            attach(&memory::HOOKS);
            Core {
                slab_take: function(library, "fh_slab_take"),
                slab_give: function(library, "fh_slab_give"),
                run_claim: function(library, "fh_run_claim"),
                run_extend: function(library, "fh_run_extend"),
                run_release: function(library, "fh_run_release"),
                depot_put: function(library, "fh_depot_put"),
                depot_get: function(library, "fh_depot_get"),
                magazine_new: function(library, "fh_magazine_new"),
                mark_set: function(library, "fh_hint_set"),
                purge_to: function(library, "fh_idle_purge_to"),
                forget: function(library, "fh_chunk_forget"),
                take_chunks: function(library, "fh_window_take_chunks"),
                large_alloc: function(library, "fh_large_alloc"),
                large_free: function(library, "fh_large_free"),
                large_size: function(library, "fh_large_size"),
                large_around: function(library, "fh_large_around"),
                large_resize: function(library, "fh_large_resize"),
                large_move: function(library, "fh_large_move"),
                malloc: function(library, "fh_model_malloc"),
                free: function(library, "fh_model_free"),
                thread_flush: function(library, "fh_cache_flush"),
                no_thread: function(library, "fh_model_no_thread"),
                no_bins: function(library, "fh_model_no_bins"),
                exit: function(library, "fh_model_exit"),
                forked: function(library, "fh_model_forked"),
                be_busy: function(library, "fh_model_be_busy"),
                begin_samples: function(library, "fh_model_begin_samples"),
                sample: function(library, "fh_model_sample"),
                unsample: function(library, "fh_model_unsample"),
                begin_index: function(library, "fh_model_begin_index"),
                number_of: function(library, "fh_model_number_of"),
                begin_guards: function(library, "fh_model_begin_guards"),
                guard_take: function(library, "fh_model_guard_take"),
                guard_free: function(library, "fh_model_guard_free"),
                guard_look: function(library, "fh_model_guard_look"),
                guard_affords: function(library, "fh_model_guard_affords"),
                guards_waiting: function(library, "fh_model_guards_waiting"),
                guards_made: function(library, "fh_model_guards_made"),
                begin_heaps: function(library, "fh_model_begin_heaps"),
                heap_grown: function(library, "fh_model_heap_grown"),
                heap_stripes: function(library, "fh_model_heap_stripes"),
                heap_bounded: function(library, "fh_model_heap_bounded"),
                heap_leave: function(library, "fh_model_heap_leave"),
                heap_limit: function(library, "fh_model_heap_limit"),
                heap_take: function(library, "fh_model_heap_take"),
                heap_free: function(library, "fh_model_heap_free"),
                heap_free_in_use: function(library, "fh_model_heap_free_in_use"),
                heap_end: function(library, "fh_model_heap_end"),
                heap_books: function(library, "fh_model_heap_books"),
                begin_hardened: function(library, "fh_model_begin_hardened"),
                hardened_take: function(library, "fh_model_hardened_take"),
                hardened_free: function(library, "fh_model_hardened_free"),
                hardened_live: function(library, "fh_model_hardened_live"),
                begin_quarantine: function(library, "fh_model_begin_quarantine"),
                quarantined: function(library, "fh_model_quarantined"),
                quarantine_put: function(library, "fh_model_quarantine_put"),
                quarantine_drain: function(library, "fh_quarantine_drain"),
                quarantine_each: function(library, "fh_quarantine_each"),
                quarantine_books: function(library, "fh_model_quarantine_books"),
                order_begin: function(library, "fh_model_order_begin"),
                order_stamp: function(library, "fh_model_order_stamp"),
                order_take: function(library, "fh_model_order_take"),
                order_leave: function(library, "fh_model_order_leave"),
                order_call: function(library, "fh_model_order_call"),
                begin_defer: function(library, "fh_model_begin_defer"),
                defer_warm: function(library, "fh_model_defer_warm"),
                defer_publish: function(library, "fh_model_defer_publish"),
                defer_find: function(library, "fh_model_defer_find"),
                defer_unlink: function(library, "fh_model_defer_unlink"),
                defer_flush: function(library, "fh_defer_flush"),
                defer_safepoint: function(library, "fh_defer_safepoint"),
                defer_waiting: function(library, "fh_model_defer_waiting_blocks"),
                reader_begin: function(library, "fh_reader_begin"),
                reader_end: function(library, "fh_reader_end"),
                reader_pass: function(library, "fh_reader_pass"),
                reader_leave: function(library, "fh_reader_leave"),
                reader_return: function(library, "fh_reader_return"),
                depot_empty: function(library, "fh_depot_empty"),
                release_empty: function(library, "fh_slab_release_empty"),
                trim_slab: function(library, "fh_pages_purge"),
                holes_open: function(library, "fh_holes_open"),
                holes_take: function(library, "fh_holes_take"),
                holes_block_of: function(library, "fh_holes_block_of"),
                free_one: function(library, "fh_model_free_one"),
                units_out: function(library, "fh_model_parts_out"),
                drop_chunks: function(library, "fh_run_drop_free_chunks"),
                limit_install: function(library, "fh_limits_install"),
                book: function(library, "fh_model_book"),
                limit_call_back: function(library, "fh_limits_call_back"),
                used_bytes: function(library, "fh_model_used_bytes"),
                used_slots_word: function(library, "fh_model_used_slots_word"),
                moved_chunks: function(library, "fh_model_moved_chunks"),
                blocks_kept: function(library, "fh_model_blocks_kept"),
                busy_caches: function(library, "fh_model_busy_caches"),
                magazine_fill: function(library, "fh_model_magazine_fill"),
                depot_look: function(library, "fh_model_depot_look"),
                depot_full: function(library, "fh_model_depot_full"),
                depot_magazines: function(library, "fh_model_depot_magazines"),
                magazines_kept: function(library, "fh_model_magazines_kept"),
                aba_push: function(library, "fh_model_aba_push"),
                aba_pop: function(library, "fh_model_aba_pop"),
                class_at: function(library, "fh_model_class_at"),
                blocks_out: function(library, "fh_model_blocks_out"),
                verify: function(library, "fh_model_verify"),
            }
        }
    }
}
