#include "heap/pool.h"

#include "base/assert.h"
#include "base/bits.h"
#include "cache/cache.h"
#include "cache/observed.h"
#include "cache/thread.h"
#include "heap/take.h"
#include "heap/told.h"
#include "system/report.h"

#include <string.h>

#define PAGE FH_SLOT_SIZE
/* Cells that are linked at once. Those behind them are not touched before they are wanted. */
#define LINKED 16u

typedef struct page {
    uintptr_t pool; /* the pool's address; in a checked build one more, so that no cell is freed inline */
    struct page *before;
    uint64_t live[]; /* checked builds: a bit for each cell */
} page;

struct fh_pool {
    void *free;       /* the first free cell; in a checked build always NULL, so that each cell is taken here */
    void *kept;       /* a checked build's free cells */
    char *next, *end; /* of the newest page: cells that were never used */
    page *newest;
    fh_heap *heap;
    size_t size, first; /* bytes of a cell; where the first one begins in a page */
    size_t cells;       /* of a page */
    size_t pages;
};

/* ── Checked builds ──────────────────────────────────────────────────────────────────────────────────────────────── */

static size_t index_of(const fh_pool *pool, const page *at, const void *cell) {
    return ((uintptr_t)cell - (uintptr_t)at - pool->first) / pool->size;
}

static bool is_live(const fh_pool *pool, const page *at, const void *cell) {
    size_t i = index_of(pool, at, cell);
    return at->live[i / 64] >> i % 64 & 1;
}

static void set_live(const fh_pool *pool, page *at, const void *cell, bool live) {
    size_t i = index_of(pool, at, cell);
    uint64_t bit = UINT64_C(1) << i % 64;
    at->live[i / 64] = live ? at->live[i / 64] | bit : at->live[i / 64] & ~bit;
}

static page *page_of(const void *cell) {
    return (page *)((uintptr_t)cell & ~(PAGE - 1)); // NOLINT(performance-no-int-to-ptr)
}

/* ── Memory ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Of no heap, though the thread be in the scope of one by now, which may end before the pool. */
static void *take_plain(size_t align, size_t n) {
    fh_thread *t = fh_own();
    fh_scope *scope = t->scope;
    if (FH_LIKELY(!scope)) return fh_alloc_aligned(align, n);
    t->scope = NULL;
    fh_thread_scope(t);
    void *p = fh_alloc_aligned(align, n);
    t->scope = scope;
    fh_thread_scope(t);
    return p;
}

static void *take(fh_heap *heap, size_t align, size_t n) {
    bool clean;
    return heap ? fh_heap_take(heap, align, n, &clean) : take_plain(align, n);
}

/* Bytes of a page that are the pool's. What a heap writes behind a block is to be in the same 64 KiB. */
static size_t page_room(const fh_heap *heap) {
    return heap && fh_heap_keeps_sizes(heap) ? PAGE - FH_TOLD_ROOM : PAGE;
}

/* Where a page begins. Of a heap with extents twice as aligned as need be: so it is a large block, and in no extent, whose header
 * would cost a page. */
static size_t page_alignment(const fh_heap *heap) {
    bool extents = heap && !heap->given && !fh_heap_is_paged(heap) && !fh_heap_is_bounded(heap);
    return extents ? 2 * PAGE : PAGE;
}

fh_pool *fh_pool_make(size_t size, size_t align, fh_heap *heap) {
    fh_pool *pool = take(heap, FH_MIN_ALIGN, sizeof *pool);
    if (!pool) return NULL;
    size_t header = sizeof(page) + (FH_CHECKED ? (PAGE / size + 63) / 64 * sizeof(uint64_t) : 0);
    *pool = (fh_pool){.heap = heap, .size = size, .first = fh_round_up(header < 64 ? 64 : header, align)};
    pool->cells = (page_room(heap) - pool->first) / size;
    return pool;
}

static bool add_page(fh_pool *pool) {
    page *p = take(pool->heap, page_alignment(pool->heap), page_room(pool->heap));
    if (!p) return false;
    p->pool = (uintptr_t)pool + (FH_CHECKED ? 1 : 0);
    p->before = pool->newest;
    pool->newest = p;
    pool->pages++;
    return true;
}

/* The newest page's cells were never used. */
static void begin_page(fh_pool *pool) {
    pool->next = (char *)pool->newest + pool->first;
    pool->end = pool->next + pool->cells * pool->size;
    for (size_t w = 0; FH_CHECKED && w < (pool->cells + 63) / 64; w++) pool->newest->live[w] = 0;
}

void fh_pool_clear(fh_pool *pool) {
    pool->free = pool->kept = NULL;
    if (!pool->newest) return;
    for (page *before; (before = pool->newest->before) != NULL; pool->pages--) {
        pool->newest->before = before->before;
        before->pool = 0;
        fh_release(before);
    }
    begin_page(pool);
}

void fh_pool_end(fh_pool *pool) {
    fh_pool_clear(pool);
    if (pool->newest) {
        pool->newest->pool = 0;
        fh_release(pool->newest);
    }
    fh_release(pool);
}

/* ── Cells ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

void *fh_pool_grow(fh_pool *pool) {
    void *cell;
    if (FH_CHECKED && pool->kept) {
        cell = pool->kept;
        memcpy(&pool->kept, cell, sizeof cell);
        set_live(pool, page_of(cell), cell, true);
        return cell;
    }
    if (pool->next == pool->end) {
        if (!add_page(pool)) return NULL;
        begin_page(pool);
    }
    cell = pool->next;
    pool->next += pool->size;
    if (FH_CHECKED) {
        set_live(pool, page_of(cell), cell, true);
        return cell;
    }
    /* In ascending order, as memory is read best. */
    void **link = &pool->free;
    for (unsigned i = 0; i < LINKED && pool->next != pool->end; i++, pool->next += pool->size) {
        *link = pool->next;
        link = (void **)(void *)pool->next;
    }
    *link = NULL;
    return cell;
}

void fh_pool_give(fh_pool *pool, void *cell) {
    page *at = page_of(cell);
    bool ours = FH_CHECKED && at->pool == (uintptr_t)pool + 1;
    size_t offset = (uintptr_t)cell - (uintptr_t)at - pool->first;
    if (!ours || offset % pool->size || (uintptr_t)cell % PAGE < pool->first) {
        fh_report_fault(ours ? FH_FAULT_INSIDE : FH_FAULT_FOREIGN, "fh_pool_free", cell,
                        (size_t)cell - offset % pool->size, pool->size);
        return;
    }
    if (!is_live(pool, at, cell)) {
        fh_report_fault(FH_FAULT_DOUBLE_FREE, "fh_pool_free", cell, 0, pool->size);
        return;
    }
    set_live(pool, at, cell, false);
    memcpy(cell, &pool->kept, sizeof pool->kept);
    pool->kept = cell;
}

/* ── Figures ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

size_t fh_pool_count_bytes(const fh_pool *pool) {
    return pool->pages * PAGE;
}

size_t fh_pool_count_live(const fh_pool *pool) {
    size_t cells = pool->pages * pool->cells, free = 0;
    for (void *cell = FH_CHECKED ? pool->kept : pool->free; cell; memcpy(&cell, cell, sizeof cell)) free++;
    return cells - (size_t)(pool->end - pool->next) / pool->size - free;
}
