#include "misuse/guard.h"

#include "base/assert.h"
#include "base/bits.h"
#include "base/settings.h"
#include "base/text.h"
#include "cache/cache.h"
#include "cache/observed.h"
#include "misuse/block.h"
#include "misuse/guard_place.h"
#include "misuse/guard_report.h"
#include "misuse/guard_slots.h"
#include "misuse/guard_touch.h"
#include "misuse/stacks.h"
#include "store/guarded.h"
#include "store/limit.h"
#include "system/inspect.h"
#include "system/report.h"
#include "system/system.h"

#include <errno.h>
#include <string.h>

/* Where the kernel cannot mark pages, a guard costs six times as much, and each open piece is a mapping. So there are fewer. */
#define MAPPED_SLOTS 256u
#define MAPPED_SELDOMER 8u

/* A guarded block takes some 10 µs, which a program that allocates all the time would feel. So there is one for each of these
 * pieces of the program's CPU time, which is a hundredth of it, and PACE_AT_ONCE at the beginning. A user who asks for one in less
 * than PACED_FROM allocations means it, and gets all of them.
 *
 * Rejected: the wall clock alone. On a machine with other work it runs several times as fast as the program. It is asked first,
 * because it costs no system call. */
#define PACE_MARKED UINT64_C(1000000)
#define PACE_MAPPED (6 * PACE_MARKED)
#define PACE_AT_ONCE 64u
#define PACED_FROM 100u

/* Of a hard limit guarded blocks take this share at most: 1/16. */
#define LIMIT_SHARE 16u

static fh_word turns;
static bool marks; /* written before `fh_guarded.bytes` */

/* ── Beginning ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Makes slots usable, from that one on. */
static bool open_slots(unsigned first) {
    if (!marks) return true; /* each when it is wanted */
    size_t page = fh_system_page_size();
    char *from = first ? fh_guard_slot_address(first) : fh_guard_slot_address(0) - page;
    return fh_system_guards_mark(from, (size_t)(fh_guard_slot_address(first + FH_GUARD_STEP) - from));
}

/* Begins with the largest region that there is address space for. One mapping, and one more while slots are not open yet. */
static bool start_with(unsigned slots) {
    size_t page = fh_system_page_size(), stacks = fh_round_up(fh_stacks_bytes(), FH_CACHE_LINE);
    size_t tables = fh_round_up(stacks + fh_guard_slots_bytes(slots), page), bytes = page + slots * fh_guard_pitch();
    char *memory = fh_system_guards_reserve(tables + bytes, tables);
    if (!memory) return false;
    marks = fh_system_guards_can_mark(memory + tables);
    if (!fh_system_on_touch(fh_guard_touched)) {
        fh_system_guards_drop(memory, tables + bytes);
        return false;
    }
    fh_stacks_start_in(memory);
    fh_guard_slots_start(memory + stacks, marks || slots < MAPPED_SLOTS ? slots : MAPPED_SLOTS);
    fh_store(&fh_guarded.begin, (uintptr_t)memory + tables);
    fh_store_release(&fh_guarded.bytes, bytes); /* release: all of the above before it */
    return true;
}

/* One thread does it; another one that comes meanwhile does without. */
static bool start(void) {
    unsigned slots = FH_GUARD_SLOTS;
    while (!start_with(slots)) {
        slots /= 4;
        if (slots < FH_GUARD_STEP) return false;
    }
    return true;
}

static void say_banner(uint64_t one_in) {
    if (!FH_SETTING(verbose)) return;
    char buffer[256];
    fh_text t = fh_line_begin(buffer, sizeof buffer);
    fh_text_string(&t, marks ? "guards by MADV_GUARD_INSTALL, for one allocation in "
                             : "guards by mprotect, for one allocation in ");
    fh_text_number(&t, one_in);
    if (!marks) fh_text_string(&t, ", because the kernel has no MADV_GUARD_INSTALL");
    fh_line_write(&t);
}

bool fh_guard_configure(void) {
    enum { NOT_YET, STARTING, STARTED, FAILED };
    static fh_word life;
    uint64_t seen = NOT_YET, wanted = FH_SETTING(guard);
    if (wanted == 0) {
        fh_store(&fh_guarded.one_in, 0);
        return true;
    }
    if (fh_is_checking()) {
        FH_REPORT_LINE("option guard does nothing, because option check finds more");
        return true;
    }
    if (fh_is_hardened()) {
        FH_REPORT_LINE("option guard does nothing beside option harden");
        return true;
    }
    /* acquire: what the thread that started it has written. */
    if (fh_cas_acquire(&life, &seen, STARTING)) {
        seen = start() ? STARTED : FAILED;
        fh_store_release(&life, seen);
        if (seen == FAILED) FH_REPORT_LINE("option guard does nothing, because there is no memory for it");
    }
    if (seen != STARTED) return seen == STARTING;
    uint64_t one_in = marks ? wanted : wanted * MAPPED_SELDOMER;
    if (fh_load(&fh_guarded.one_in) == one_in) return true;
    fh_store(&fh_guarded.one_in, one_in);
    say_banner(one_in);
    return true;
}

/* ── Allocating ──────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The pages of a block are about to have memory. False: a hard limit has no room for them. */
static bool charge(size_t block, size_t pages) {
    size_t hard = (size_t)fh_load(&fh_limit.hard), taken = (size_t)fh_load(&fh_guarded.page_bytes);
    bool limited = hard != 0;
    if (limited && (taken + pages > hard / LIMIT_SHARE || !fh_limit_admit(pages, false))) return false;
    fh_add_relaxed(&fh_guarded.page_bytes, pages);
    fh_add_relaxed(&fh_guarded.block_bytes, block);
    fh_add_relaxed(&fh_guarded.blocks, 1);
    if (limited) fh_limit_done(pages); /* release: the books before it */
    return true;
}

static void discharge(size_t block, size_t pages) {
    uint64_t before = fh_sub_relaxed(&fh_guarded.blocks, 1);
    FH_ASSERT(before != 0);
    fh_sub_relaxed(&fh_guarded.block_bytes, block);
    fh_sub_relaxed(&fh_guarded.page_bytes, pages);
    if (fh_limit_is_set()) fh_set_due(FH_DUE_LIMIT);
}

/* Fills what the block's pages have around it. */
static void fill_around(const fh_guard_view *v, char *pages) {
    char *block = pages + (v->block - (uintptr_t)pages);
    memset(pages, FH_GUARD_BYTE, (size_t)(block - pages));
    memset(block + v->size, FH_GUARD_BYTE, (size_t)(pages + v->pages - (block + v->size)));
}

/* Its pages, by its address: they begin at a page. */
static char *pages_of(const fh_guard_view *v) {
    return (char *)(v->block & ~(fh_system_page_size() - 1)); // NOLINT(performance-no-int-to-ptr)
}

static bool is_afforded(void) {
    if (FH_SETTING(guard) < PACED_FROM) return true;
    uint64_t each = marks ? PACE_MARKED : PACE_MAPPED;
    return fh_guard_affords(FH_GUARD_WALL_CLOCK, fh_system_nanoseconds(), each, PACE_AT_ONCE) &&
           fh_guard_affords(FH_GUARD_CPU_CLOCK, fh_system_cpu_nanoseconds(), each, PACE_AT_ONCE);
}

void *fh_hook_guard(size_t align, size_t n, const void *frame) {
    size_t page = fh_system_page_size(), most = fh_guard_slot_size();
    if (n == 0 || n > most || align > page || !fh_load(&fh_guarded.one_in) || !is_afforded()) return NULL;
    bool right = fh_add_relaxed(&turns, 1) & 1; /* relaxed: only that they alternate */
    size_t offset = right ? (most - n) & ~(align - 1) : 0, first = offset & ~(page - 1);
    size_t pages = fh_round_up(offset + n, page) - first;
    if (!charge(n, pages)) return NULL;
    unsigned slot = fh_guard_take(FH_SETTING(quarantine), open_slots);
    if (slot == FH_GUARD_NONE || !fh_system_guard_open(fh_guard_slot_address(slot) + first, pages, marks)) {
        if (slot != FH_GUARD_NONE) fh_guard_return(slot);
        discharge(n, pages);
        return NULL;
    }
    char *p = fh_guard_slot_address(slot) + offset;
    fh_guard_view view = {.block = (uintptr_t)p, .size = n, .pages = pages};
    fill_around(&view, pages_of(&view));
    fh_guard_begin(slot, (uintptr_t)p, n, pages, fh_stacks_note(frame));
    return p;
}

/* ── Freeing ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* True if all n bytes are as they were filled: the first one is, and each equals the next one. The C library compares 32 at a
 * time, where a loop over the page takes longer than its guard. */
static bool is_filled(const unsigned char *p, size_t n) {
    return n == 0 || (p[0] == FH_GUARD_BYTE && memcmp(p, p + 1, n - 1) == 0);
}

/* The first byte around the block that was written, the nearest one of those before it. NULL: none. */
static const char *damage(const fh_guard_view *v) {
    const unsigned char *pages = (const unsigned char *)pages_of(v), *block = pages + (v->block - (uintptr_t)pages);
    const unsigned char *end = pages + v->pages, *at = block, *behind = block + v->size;
    if (FH_LIKELY(is_filled(pages, (size_t)(block - pages)) && is_filled(behind, (size_t)(end - behind)))) return NULL;
    while (at > pages && at[-1] == FH_GUARD_BYTE) at--;
    if (at > pages) return (const char *)at - 1;
    for (at = behind; at < end; at++) {
        if (*at != FH_GUARD_BYTE) return (const char *)at;
    }
    return NULL;
}

static void retire(unsigned slot, const fh_guard_view *v) {
    bool closed = fh_system_guard_close(pages_of(v), v->pages, marks);
    discharge(v->size, v->pages);
    /* Pages that cannot be closed are left as they are, and their slot is lost. */
    if (closed) fh_guard_put(slot);
}

/* What a pointer is that begins no live block. */
static void say_wrong(const char *call, const void *p, bool frees, const void *frame) {
    fh_guard_report r = {.call = call, .p = (uintptr_t)p, .frame = frame};
    r.side = fh_guard_find(r.p, &r.view);
    bool begins = r.side == FH_GUARD_INSIDE && r.view.block == r.p && r.view.kind == FH_GUARD_FREED;
    r.what = begins                      ? frees ? FH_GUARD_DOUBLE_FREE : FH_GUARD_USED_FREE
             : r.side == FH_GUARD_INSIDE ? FH_GUARD_WRONG_BEGIN
                                         : FH_GUARD_FOREIGN;
    fh_guard_say(&r);
}

static void release(const char *call, void *p, const void *frame) {
    uint32_t stack = fh_stacks_note(frame);
    unsigned slot = fh_guard_slot_of((uintptr_t)p);
    fh_guard_view view;
    if (slot >= fh_guard_fresh() || !fh_guard_end(slot, (uintptr_t)p, stack, &view)) {
        say_wrong(call, p, true, frame);
        return;
    }
    const char *at = damage(&view);
    if (FH_UNLIKELY(at != NULL)) {
        fh_guard_say(&(fh_guard_report){.what = FH_GUARD_WRITTEN_AROUND,
                                        .side = (uintptr_t)at < view.block ? FH_GUARD_BEFORE : FH_GUARD_BEHIND,
                                        .call = call,
                                        .p = (uintptr_t)p,
                                        .at = at,
                                        .view = view,
                                        .frame = frame});
    }
    retire(slot, &view);
}

/* Its own frame is where the walk over the stack begins. */
void fh_hook_guard_free(const char *call, void *p) {
    int saved = errno;
    release(call, p, __builtin_frame_address(0));
    errno = saved;
}

/* ── Sizes, and realloc ──────────────────────────────────────────────────────────────────────────────────────────── */

static size_t usable(const char *call, const void *p, const void *frame) {
    unsigned slot = fh_guard_slot_of((uintptr_t)p);
    fh_guard_view view = {.kind = FH_GUARD_UNUSED};
    if (slot < fh_guard_fresh()) view = fh_guard_look(slot);
    if (view.kind == FH_GUARD_LIVE && view.block == (uintptr_t)p) return view.size;
    say_wrong(call, p, false, frame);
    return 0;
}

size_t fh_hook_guard_usable(const char *call, const void *p) {
    int saved = errno;
    size_t n = usable(call, p, __builtin_frame_address(0));
    errno = saved;
    return n;
}

/* The block always moves: its old pages are closed, and a pointer to them is found. */
void *fh_hook_guard_resize(void *p, size_t n) {
    const void *frame = __builtin_frame_address(0);
    size_t old = usable("realloc", p, frame);
    if (!old) {
        errno = EINVAL;
        return NULL;
    }
    void *q = fh_alloc(n);
    if (!q) return n <= old ? p : NULL; /* shrinking never fails */
    memcpy(q, p, n < old ? n : old);
    release("realloc", p, frame);
    return q;
}
