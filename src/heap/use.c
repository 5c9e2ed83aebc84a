#include "heap/use.h"

#include "base/assert.h"
#include "cache/thread.h"
#include "heap/valid.h"
#include "store/window.h"
#include "system/report.h"

#include <errno.h>

/* Calls that are marked at a time, those within others too. */
#define USES 256u
/* First slots of destroyed heaps: one MiB. */
#define KEPT 16u
/* The process's generation is above an address. */
#define ADDRESS_BITS 48u

static fh_word uses[USES];
static fh_word not_marked; /* written by all, read by none */
static fh_word kept[KEPT];
static fh_word keeps;

static uint64_t this_process(void) {
    return fh_thread_generation() << ADDRESS_BITS;
}

static uint64_t of_this_process(uint64_t address) {
    FH_ASSERT(address >> ADDRESS_BITS == 0);
    return this_process() | address;
}

static bool is_of_this_process(uint64_t word) {
    return word >> ADDRESS_BITS == this_process() >> ADDRESS_BITS;
}

/* ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static fh_word *mark(const fh_heap *h) {
    uint64_t from = fh_heap_this_thread() * UINT64_C(0x9E3779B97F4A7C15) >> 56;
    uint64_t word = of_this_process((uintptr_t)h);
    for (unsigned i = 0; i < USES; i++) {
        fh_word *use = &uses[(from + i) % USES];
        uint64_t seen = fh_load(use);
        if (seen && is_of_this_process(seen)) continue;
        /* The fence below orders it before the load of `ending`. */
        if (fh_cas_acquire(use, &seen, word)) return use;
    }
    return &not_marked;
}

/* True if another thread ends the heap, or has ended it. */
static bool is_closed(const fh_heap *h) {
    /* Acquire: what a reset has done, before this call. */
    uint64_t ending = fh_load_acquire(&h->ending);
    if (FH_LIKELY(ending == 0)) return false;
    return ending == FH_HEAP_OVER || (is_of_this_process(ending) && ending != of_this_process(fh_heap_this_thread()));
}

fh_word *fh_use_begin(const char *call, const void *p, fh_heap *h) {
    if (!fh_heap_is_valid(call, h)) return NULL;
    fh_word *use = mark(h);
    fh_fence_after_rmw();
    if (FH_LIKELY(!is_closed(h))) return use;
    fh_use_end(use);
    if (fh_heap_is_valid(call, h)) fh_report_fault(FH_FAULT_HEAP_ENDS, call, p, 0, 0);
    return NULL;
}

fh_word *fh_use_begin_block(const char *call, const void *p, const fh_owned *o) {
    fh_word *use = fh_use_begin(call, p, o->heap);
    if (!use || fh_heap_word(p) == (uintptr_t)o) return use;
    fh_use_end(use);
    fh_report_fault(FH_FAULT_DOUBLE_FREE, call, p, 0, 0); /* the heap was destroyed since */
    return NULL;
}

/* Release: what the call did, before the end that does not meet it. */
void fh_use_end(fh_word *use) {
    fh_store_release(use, 0);
}

/* ── Ends ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool is_used(const fh_heap *h) {
    uint64_t word = of_this_process((uintptr_t)h);
    for (unsigned i = 0; i < USES; i++)
        if (fh_load_acquire(&uses[i]) == word) return true;
    return false;
}

/* False: the heap is being reset or destroyed by a thread of this process. */
static bool shut(fh_heap *h) {
    uint64_t seen = fh_load(&h->ending);
    do {
        if (seen && is_of_this_process(seen)) return false;
        /* Acquire: what an earlier reset did. The fence below orders it before the loads of the entries. */
    } while (!fh_cas_acq_rel(&h->ending, &seen, of_this_process(fh_heap_this_thread())));
    fh_fence_after_rmw();
    return true;
}

bool fh_use_close(const char *call, fh_heap *h) {
    bool shut_now = shut(h);
    if (shut_now && !is_used(h)) return true;
    if (shut_now) fh_use_open(h);
    fh_report_fault(FH_FAULT_HEAP_USED, call, h, 0, 0);
    return false;
}

/* Release: what was done meanwhile, before the next call. */
void fh_use_open(fh_heap *h) {
    fh_store_release(&h->ending, 0);
}

fh_heap *fh_use_keep(fh_heap *h) {
    for (unsigned w = 0; w < FH_UNIT_WORDS; w++) fh_store(&h->first[w], 0);
    fh_store_release(&h->ending, FH_HEAP_OVER); /* release: no block is found in it any more */
    /* Both orders: the heap's words before another thread releases them; and those of the one that comes out. */
    return (fh_heap *)(uintptr_t)fh_swap_acq_rel(&kept[fh_add_relaxed(&keeps, 1) % KEPT], (uintptr_t)h);
}
