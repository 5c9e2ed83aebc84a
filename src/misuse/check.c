#include "misuse/check.h"

#include "base/assert.h"
#include "base/hooks.h"
#include "base/settings.h"
#include "cache/alloc.h"
#include "cache/observed.h"
#include "check/verify.h"
#include "misuse/fail.h"
#include "misuse/heap.h"
#include "misuse/operators.h"
#include "misuse/quarantine.h"
#include "misuse/report.h"
#include "misuse/stacks.h"
#include "misuse/watched.h"
#include "store/locate.h"
#include "store/window.h"
#include "system/report.h"
#include "system/system.h"

#include <errno.h>
#include <string.h>

/* ── Beginning ───────────────────────────────────────────────────────────────────────────────────────────────────── */

bool fh_checked_start(fh_tool_kind tool) {
    if (fh_is_checking()) return true;
    fh_checked_secret = fh_system_nanoseconds() ^ (uint64_t)(uintptr_t)&fh_checked_secret << 16;
    if (!fh_stacks_start() || !fh_quarantine_start() || !fh_thread_check_all()) {
        bool wanted = FH_SETTING(check) != 0;
        FH_REPORT_LINE(
            wanted ? "check=1 is for the start of a program with one thread, without observe=1"
                   : "the tool that watches this program sees no fh_ blocks: they are for the start, with one thread");
        return false;
    }
    fh_tool_start(tool);
    if (tool && fh_window_start()) fh_tool_heap_is(fh_slot_address(0), FH_WINDOW_SIZE);
    /* It goes on after an error, and so do we: its user has more than one of them to find. */
    if (tool == FH_TOOL_MEMCHECK) fh_store(&fh_settings.on_error, FH_ON_ERROR_REPORT);
    return true;
}

/* ── Allocating ──────────────────────────────────────────────────────────────────────────────────────────────────── */

static void leave(fh_checked *h);

/* Without a tool, a test of a word. */
static inline void quiet(void) {
    if (FH_UNLIKELY(fh_tool())) fh_tool_quiet();
}
static inline void loud(void) {
    if (FH_UNLIKELY(fh_tool())) fh_tool_loud();
}

/* Bytes before the block: the header, and what the alignment asks for. */
static size_t room_before(size_t align) {
    return align > sizeof(fh_checked) ? align : sizeof(fh_checked);
}

/* More is refused at once. */
#define ALIGN_MOST ((size_t)FH_MIN_ALIGN << 32)

__attribute__((noinline)) static char *take_slowly(size_t align, size_t n, bool *clean) {
    bool unasked;
    size_t before = room_before(align);
    if (!clean) clean = &unasked;
    if (align > ALIGN_MOST) return fh_no_memory(n);
    /* Refused there, in the size that was asked for. */
    if (n > FH_WINDOW_SIZE || align > FH_WINDOW_SIZE / 2) return fh_alloc_unobserved(align, n, clean);
    size_t whole = before + n + fh_checked_guard(n);
    char *begin = fh_alloc_unobserved(align, whole, clean);
    if (FH_LIKELY(begin != NULL)) return begin;
    /* What waits in the quarantine may be what is missing. */
    fh_quarantine_drain(leave);
    return fh_alloc_unobserved(align, whole, clean);
}

/* Memory for such a block. *clean: it reads as zero. */
static inline char *take(size_t align, size_t n, bool *clean) {
    size_t whole = sizeof(fh_checked) + n + fh_checked_guard(n);
    bool plain = align == FH_MIN_ALIGN && n < FH_SMALL_MAX && whole <= FH_SMALL_MAX;
    char *begin = FH_LIKELY(plain) ? fh_alloc_cached(whole) : NULL;
    if (FH_UNLIKELY(!begin)) return take_slowly(align, n, clean);
    if (clean) *clean = false;
    return begin;
}

/* Where no header was the state is whatever the memory held, and means nothing before the canary is there. A fork may happen in
 * between, and in the child's heap the block stays as it is. Nothing is read first: it would be waited for. */
static inline void write_canary(fh_checked *h) {
    fh_store(&h->state, FH_CHECKED_GONE);
    __atomic_store_n(&h->canary, fh_checked_canary(h), __ATOMIC_RELEASE);
}

static void write_marker(char *begin, size_t offset) {
    fh_checked *marker = (fh_checked *)(void *)begin;
    write_canary(marker);
    marker->size = offset;
    /* release: as of a header. */
    fh_store_release(&marker->state, fh_checked_state(FH_CHECKED_MARKER, 0, 0, 0));
}

/* Makes the memory at begin a live block, except for what is in it and behind it. */
static inline fh_checked *make(char *begin, size_t align, size_t n, uint32_t stack) {
    unsigned align_log = fh_highest_bit(align);
    size_t offset = fh_checked_offset(align_log);
    if (offset) write_marker(begin, offset);
    fh_checked *h = (fh_checked *)(void *)(begin + offset);
    write_canary(h);
    h->size = n;
    h->allocated = stack;
    h->seal = fh_checked_seal_of(n, stack, align_log);
    return h;
}

__attribute__((always_inline)) static inline char *allocate(size_t align, size_t n, bool *clean, unsigned family,
                                                            const void *frame) {
    uint32_t stack = fh_stacks_note(frame);
    if (fh_fails(n, stack)) return NULL;
    if (align < FH_MIN_ALIGN) align = FH_MIN_ALIGN;
    char *begin = take(align, n, clean);
    if (!begin) return NULL;
    fh_checked *h = make(begin, align, n, stack);
    char *p = fh_checked_block(h);
    if (FH_UNLIKELY(family & FH_SAYS_ZEROED)) { /* calloc writes zeros into what is not clean */
        fh_guard_fill(p + n, fh_checked_guard(n));
    } else {
        fh_checked_fill(p, n, FH_FRESH_BYTE);
    }
    /* release: the header, and the guard, of which a check of the heap takes a copy. */
    fh_store_release(&h->state, fh_checked_state(FH_CHECKED_LIVE, family & FH_SAYS_FAMILY, fh_highest_bit(align), 0));
    fh_watched_allocated(h, family & FH_SAYS_ZEROED);
    return p;
}

/* Its own frame is where the walk over the stack begins. */
void *fh_hook_checked_alloc(size_t align, size_t n, bool *clean, unsigned said) {
    quiet();
    void *p = allocate(align, n, clean, said, __builtin_frame_address(0));
    fh_misuse_edge();
    loud();
    return p;
}

void fh_checked_set_family(void *p, unsigned family) {
    quiet();
    fh_checked *h = p ? fh_checked_at(p) : NULL;
    if (h) {
        uint64_t s = fh_load(&h->state);
        /* relaxed: only the owner of a live block writes it. */
        fh_store(&h->state, fh_checked_state(fh_checked_kind_of(s), family, fh_checked_align_of(s), 0));
    }
    loud();
}

void fh_checked_set_rounded(void *p) {
    quiet();
    fh_checked *h = p ? fh_checked_at(p) : NULL;
    if (h) fh_store(&h->state, fh_load(&h->state) | FH_CHECKED_ROUNDED); /* relaxed: as above */
    loud();
}

/* ── Leaving the quarantine ──────────────────────────────────────────────────────────────────────────────────────── */

/* Reports a free block that was written to, or whose surroundings were. False: its header is not to be believed. */
__attribute__((noinline)) static bool find_damage(const fh_checked *h) {
    const char *at = NULL;
    fh_damage damage = fh_checked_damage(h, true, &at);
    if (damage == FH_DAMAGE_NONE) return true; /* it was written back meanwhile */
    fh_misuse what = damage == FH_DAMAGE_BEFORE   ? FH_MISUSE_BEFORE
                     : damage == FH_DAMAGE_BEHIND ? FH_MISUSE_BEHIND
                                                  : FH_MISUSE_WRITTEN_FREE;
    fh_misuse_say(&(fh_misuse_report){
        .what = what, .found = "found while it waited in the quarantine", .p = fh_checked_block(h), .h = h, .at = at});

    return damage != FH_DAMAGE_BEFORE;
}

static inline bool check_free(const fh_checked *h) {
    return FH_LIKELY(fh_checked_is_whole(h, true)) || find_damage(h);
}

static void see(fh_checked *h) {
    fh_watched_open(h);
    (void)check_free(h);
    fh_watched_close(h);
}

static void leave(fh_checked *h) {
    fh_watched_open(h);
    if (!check_free(h)) return;
    /* acquire, and relaxed: the block is this thread's, since it was taken out of its slot. */
    uint64_t s = fh_load_acquire(&h->state);
    fh_store(&h->state, (s & ~UINT64_C(0xFF)) | FH_CHECKED_GONE);
    char *begin = fh_checked_begin(h); /* the header is not to be read any more */
    fh_watched_left(h);
    /* It left once, so nobody else frees it. */
    if (FH_UNLIKELY(!fh_release_cached(begin))) fh_release_unchecked("free", begin);
}

/* ── Freeing ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static const char *name_of(unsigned said) {
    static const char *const names[] = {"free", "operator delete", "operator delete[]"};
    unsigned family = said & FH_SAYS_FAMILY;
    if (family != 0) return names[family % 3];
    return said & FH_SAYS_ALIGN ? "free_aligned_sized" : said & FH_SAYS_SIZE ? "free_sized" : "free";
}

/* The memory at that place is a checked block's, live or waiting. */
static bool is_checked(const fh_place *at) {
    const fh_checked *h = at->begin && !at->free ? fh_checked_in(at->begin, at->size) : NULL;
    fh_checked_kind kind = h ? fh_checked_kind_of(fh_load_acquire(&h->state)) : FH_CHECKED_GONE;
    return kind == FH_CHECKED_LIVE || kind == FH_CHECKED_FREED;
}

/* The pointer is where a block of the store begins, and it is none of a checked program. */
static bool is_unchecked(const fh_place *at, const void *p) {
    return at->begin == p && !at->free && !is_checked(at);
}

/* r->p is the beginning of no checked block. False: it is a block from before the option was read, or the C library's. True:
 * it is neither, and r says what it is. */
static bool diagnose(fh_misuse_report *r) {
    fh_place at = fh_locate(r->p);
    if ((at.kind == FH_AT_FOREIGN && fh_libc_has(r->p)) || is_unchecked(&at, r->p)) return false;
    r->h = at.begin && !at.free ? fh_checked_in(at.begin, at.size) : NULL;
    const fh_checked *was = at.begin && !at.free && !r->h ? fh_checked_header_in(at.begin, at.size) : NULL;
    if (was && fh_checked_block(was) == r->p) {
        /* What else the header says may be damaged too. */
        r->what = FH_MISUSE_BEFORE;
        r->at = fh_checked_before(was);
        r->h = fh_checked_was_header(was) ? was : NULL;
    } else if (at.kind == FH_AT_FOREIGN) {
        r->what = FH_MISUSE_FOREIGN;
    } else {
        r->what = at.begin && !at.free ? FH_MISUSE_INSIDE : FH_MISUSE_DOUBLE_FREE;
    }
    return true;
}

__attribute__((noinline)) static void free_other(fh_misuse_report r) {
    int error = errno;
    if (diagnose(&r)) {
        fh_tool_misfreed(r.p);
        fh_misuse_say(&r);
        /* Reported once. The block stays where it is, because nothing around it is to be trusted. */
        if (r.what == FH_MISUSE_BEFORE && r.h) fh_store(&((fh_checked *)(uintptr_t)r.h)->state, 0);
    } else {
        fh_release_unchecked(r.call, (void *)(uintptr_t)r.p);
    }
    errno = error;
}

/* By the operators of a module's own. The size, too, is then what the module made of it. */
static bool is_of_own_operators(const fh_misuse_report *r, unsigned family) {
    if (family == FH_SAYS_NOTHING) return fh_operators_new_called(r->h->allocated);
    return r->family == FH_SAYS_NOTHING && fh_operators_delete_called(fh_stacks_note(r->frame));
}

/* What the call said and the header does not. */
__attribute__((noinline)) static void compare(fh_misuse_report r, uint64_t s, unsigned said, size_t align) {
    size_t n = r.said;
    unsigned family = fh_checked_family_of(s), align_log = fh_checked_align_of(s);
    size_t real = (size_t)1 << align_log;
    bool over_aligned = real > FH_MIN_ALIGN;
    if (!fh_checked_is_sealed(r.h, s)) return; /* which is reported next */
    if (family != (said & FH_SAYS_FAMILY) && family != FH_SAYS_FAMILY) {
        if (is_of_own_operators(&r, family)) return;
        r.what = FH_MISUSE_FAMILY;
    } else if ((said & FH_SAYS_SIZE) && n != r.h->size &&
               !((s & FH_CHECKED_ROUNDED) && fh_good_bytes(n) == r.h->size)) {
        r.what = FH_MISUSE_SIZE;
    } else if ((said & FH_SAYS_ALIGN) ? align > FH_MIN_ALIGN && align != real
                                      : over_aligned && (said & (FH_SAYS_SIZE | FH_SAYS_NEW | FH_SAYS_ARRAY))) {
        r.what = FH_MISUSE_ALIGN;
        r.said = said & FH_SAYS_ALIGN ? align : 0;
    } else {
        return;
    }
    fh_misuse_say(&r);
}

/* Of a block that is FREED and this thread's. False: it is not to be used again. */
__attribute__((noinline)) static bool say_damage(fh_misuse_report r) {
    fh_damage damage = fh_checked_damage(r.h, false, &r.at);
    if (damage == FH_DAMAGE_NONE) return true; /* it was written back meanwhile */
    r.what = damage == FH_DAMAGE_BEFORE ? FH_MISUSE_BEFORE : FH_MISUSE_BEHIND;
    fh_misuse_say(&r);
    return damage != FH_DAMAGE_BEFORE;
}

/* r->h is not live: r says of_free of it, or that something has written into its header. */
static void judge_dead(fh_misuse_report *r, fh_misuse of_free) {
    uint64_t state = fh_load_acquire(&r->h->state);
    fh_checked_kind kind = fh_checked_kind_of(state);
    /* One that is gone may be getting a new header just now. */
    bool written =
        kind == FH_CHECKED_FREED ? !fh_checked_is_sealed(r->h, state) : fh_checked_is_written_state(r->h, state);
    r->what = written ? FH_MISUSE_BEFORE : of_free;
    /* What else is there is old, or was another block's since. */
    if (!written && kind != FH_CHECKED_FREED && kind != FH_CHECKED_GONE) r->h = NULL;
}

/* The block was free already. */
__attribute__((noinline)) static void say_twice(fh_misuse_report r) {
    const fh_checked *around = fh_checked_around(r.p);
    bool inside = around && around != r.h && fh_checked_kind_of(fh_load_acquire(&around->state)) == FH_CHECKED_LIVE;
    if (inside) { /* a header that an earlier block has left in the middle of this one */
        r.what = FH_MISUSE_INSIDE;
        r.h = around;
    } else {
        judge_dead(&r, FH_MISUSE_DOUBLE_FREE);
    }
    fh_tool_misfreed(r.p);
    fh_misuse_say(&r);
}

/* Of all that free the block, one gets true. *was: its state before. */
static inline bool win(fh_checked *h, uint32_t stack, uint64_t *was) {
    *was = fh_load_acquire(&h->state);
    while (FH_LIKELY(fh_checked_kind_of(*was) == FH_CHECKED_LIVE)) {
        uint64_t freed = (*was & (UINT32_MAX & ~UINT64_C(0xFF))) | FH_CHECKED_FREED | (uint64_t)stack << 32;
        /* acq_rel: what was written into the block before it was freed; and the stack for the call that loses. */
        if (FH_LIKELY(fh_cas_acq_rel(&h->state, was, freed))) return true;
    }
    return false;
}

/* What most calls are: free of what came from malloc, and at no alignment of its own. Nothing needs to be compared. */
static inline bool says_nothing(uint64_t state, unsigned said) {
    return said == FH_SAYS_NOTHING && fh_checked_family_of(state) == FH_SAYS_NOTHING;
}

/* What every report of a call that frees says. name: NULL, or another one than what was said. */
static inline fh_misuse_report report_of(const char *name, const void *p, fh_checked *h, size_t n, unsigned said,
                                         const void *frame) {
    return (fh_misuse_report){.call = name ? name : name_of(said),
                              .p = p,
                              .h = h,
                              .said = n,
                              .family = said & FH_SAYS_FAMILY,
                              .frame = frame};
}

__attribute__((always_inline)) static inline void release(void *p, size_t n, size_t align, unsigned said,
                                                          const char *name, const void *frame) {
    uint64_t was;
    fh_checked *h = fh_checked_at(p);
    if (FH_UNLIKELY(!h)) {
        free_other(report_of(name, p, NULL, n, said, frame));
        return;
    }
    if (FH_UNLIKELY(!win(h, fh_stacks_note(frame), &was))) {
        say_twice(report_of(name, p, h, n, said, frame));
        return;
    }
    if (FH_UNLIKELY(!says_nothing(was, said))) compare(report_of(name, p, h, n, said, frame), was, said, align);
    fh_watched_open(h);
    bool whole = fh_checked_is_whole(h, false);
    if (FH_UNLIKELY(!whole) && !say_damage(report_of(name, p, h, n, said, frame))) return;
    /* The guard too: what is wrong with it was reported. */
    fh_checked_fill(p, h->size, FH_FREED_BYTE);
    fh_watched_freed(h);
    fh_quarantine_put(h, leave);
}

/* Its own frame is where the walk over the stack begins. */
void fh_hook_checked_free(void *p, size_t n, size_t align, unsigned said) {
    if (!p) return;
    quiet();
    release(p, n, align, said, NULL, __builtin_frame_address(0));
    fh_misuse_edge();
    loud();
}

/* ── Sizes, and realloc ──────────────────────────────────────────────────────────────────────────────────────────── */

/* The live checked block at p. NULL: it is none, and that was reported if it is a freed one. */
static fh_checked *live(const char *call, const void *p, const void *frame) {
    fh_checked *h = fh_checked_at(p);
    if (!h) return NULL;
    uint64_t state = fh_load_acquire(&h->state);
    bool is = fh_checked_kind_of(state) == FH_CHECKED_LIVE;
    if (is && fh_checked_is_sealed(h, state)) return h;
    fh_misuse_report r = {.what = FH_MISUSE_BEFORE, .call = call, .p = p, .h = h, .frame = frame};
    if (!is) judge_dead(&r, FH_MISUSE_USE_AFTER_FREE);
    fh_misuse_say(&r);
    if (is) fh_store(&h->state, 0); /* reported once */
    return NULL;
}

size_t fh_checked_usable(const void *p) {
    if (!p) return 0;
    quiet();
    fh_misuse_report r = {.call = "malloc_usable_size", .p = p, .frame = __builtin_frame_address(0)};
    const fh_checked *h = live(r.call, p, r.frame);
    size_t n = h ? h->size : 0;
    if (!h && !fh_checked_at(p)) {
        bool wrong = diagnose(&r);
        if (wrong) fh_misuse_say(&r);
        n = wrong ? 0 : fh_usable(r.call, p);
    }
    loud();
    return n;
}

/* There is no memory for a smaller block: it becomes smaller where it is. */
static void *shrink(fh_checked *h, size_t n) {
    size_t old = h->size;
    fh_watched_open(h);
    h->size = n;
    h->seal = fh_checked_seal_of(n, h->allocated, fh_checked_align_of(fh_load(&h->state)));
    fh_guard_fill(fh_checked_block(h) + n, fh_checked_guard(n));
    fh_watched_resized(h, old, n);
    return fh_checked_block(h);
}

/* A block for what another one holds. */
__attribute__((noinline)) static char *allocate_other(size_t n, const void *frame) {
    return allocate(FH_MIN_ALIGN, n, NULL, FH_SAYS_NOTHING, frame);
}

static void *resize(fh_checked *h, void *p, size_t n, const void *frame) {
    size_t old = h->size;
    unsigned family = fh_checked_family_of(fh_load(&h->state));
    if (family != FH_SAYS_NOTHING && family != FH_SAYS_FAMILY) {
        fh_misuse_say(&(fh_misuse_report){.what = FH_MISUSE_FAMILY, .call = "realloc", .p = p, .h = h, .frame = frame});
    }
    char *q = allocate_other(n, frame);
    if (!q) return n <= old ? shrink(h, n) : NULL;
    memcpy(q, p, n < old ? n : old);
    release(p, 0, 0, fh_checked_family_of(fh_load(&h->state)), "realloc", frame);
    return q;
}

/* A block from before the option was read, or of the C library. */
static void *resize_other(void *p, size_t n, const void *frame) {
    size_t old = fh_libc_has(p) ? fh_system_libc_usable(p) : 0;
    fh_place at = fh_locate(p);
    if (!old && is_unchecked(&at, p)) old = at.size;
    if (!old) {
        free_other((fh_misuse_report){.call = "realloc", .p = p, .frame = frame});
        errno = EINVAL;
        return NULL;
    }
    char *q = allocate_other(n, frame);
    if (!q) return NULL;
    memcpy(q, p, n < old ? n : old);
    fh_release_unchecked("realloc", p);
    return q;
}

void *fh_hook_checked_resize(void *p, size_t n) {
    const void *frame = __builtin_frame_address(0);
    quiet();
    fh_checked *h = live("realloc", p, frame);
    void *q = NULL;
    if (!h && fh_checked_at(p)) fh_tool_misfreed(p);
    if (h) {
        q = resize(h, p, n, frame);
    } else if (fh_checked_at(p)) {
        errno = EINVAL; /* reported */
    } else {
        q = resize_other(p, n, frame);
    }
    fh_misuse_edge();
    loud();
    return q;
}

/* ── The end ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

void fh_checked_end(void) {
    quiet();
    fh_fail_end();
    fh_quarantine_each(see);
    (void)fh_heap_check_all(fh_misuse_say);
    loud();
}

bool fh_checked_look(const void *p) {
    if (!fh_is_checking() || !p) return false;
    int saved = errno;
    quiet();
    const fh_checked *h = fh_checked_at(p);
    fh_misuse_report r = {.call = "fh_check", .p = p, .h = h, .frame = __builtin_frame_address(0)};
    fh_damage damage = FH_DAMAGE_NONE;
    bool wrong = true;
    if (!h) {
        wrong = diagnose(&r);
    } else if (fh_checked_kind_of(fh_load_acquire(&h->state)) != FH_CHECKED_LIVE) {
        judge_dead(&r, FH_MISUSE_USE_AFTER_FREE);
    } else {
        fh_watched_open(h);
        damage = fh_checked_damage(h, false, &r.at);
        fh_watched_close(h);
        r.what = damage == FH_DAMAGE_BEFORE ? FH_MISUSE_BEFORE : FH_MISUSE_BEHIND;
        wrong = damage != FH_DAMAGE_NONE;
    }
    if (wrong) fh_misuse_tell(&r);
    loud();
    errno = saved;
    return wrong;
}
