#include "cache/magazine.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/hooks.h"
#include "base/tuning.h"
#include "cache/cache.h"
#include "cache/shrink.h"
#include "cache/twice.h"
#include "store/depot.h"
#include "store/events.h"
#include "store/large.h"
#include "store/slab.h"
#include "system/system.h"

#include <string.h>

/* Entry 0 is the sentinel below the bottom, entry 1 is where top and end point. Never written: top == end. */
void *const fh_empty_magazine[2] = {NULL, NULL};

#define SCATTERED_FROM 32u /* bytes of a block; see scatter */

static unsigned most_blocks(unsigned c) {
    size_t size = fh_class_size(c);
    FH_ASSERT(size != 0 && c < FH_BINS);
    size_t n = (fh_class_is_run(c) ? FH_MAGAZINE_RUN_BYTES / 2 : FH_MAGAZINE_BYTES) / size;
    unsigned most = size <= FH_MAGAZINE_TINY ? FH_MAGAZINE_MOST_TINY : FH_MAGAZINE_MOST;
    size_t least = fh_class_is_run(c) ? 1 : FH_MAGAZINE_LEAST;
    return n < least ? (unsigned)least : n > most ? most : (unsigned)n;
}

static unsigned first_blocks(unsigned c) {
    size_t n = FH_BIN_FIRST_BYTES / fh_class_size(c);
    return n < 1 ? 1 : n > FH_BIN_FIRST_BLOCKS ? FH_BIN_FIRST_BLOCKS : (unsigned)n;
}

/* ── Interrupted for good ────────────────────────────────────────────────────────────────────────────────────────── */

/* A thread may leave malloc at any instruction and not come back to it: it is cancelled asynchronously, or a signal handler jumps
 * out. POSIX allows neither, and then its cache is used on, by the thread or at its end. So the steps are in an order in which
 * that finds every magazine in one place at most. What the thread held in its registers is lost.
 *
 *     a bin     both words are written at once; with one of them old, the hot path would leave its magazine
 *     unload    count, then not loaded, then the bin. In between: its blocks come and go, and it is lost at the next unload
 *     load      the bin, then loaded. In between: the same
 *     previous  is replaced before what was there is handed on
 *
 * What a thread in fh_thread_enter finds of budgets is counted again (fh_cache_recount). */
static void then(void) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

typedef uint64_t two_words __attribute__((vector_size(16), aligned(8), may_alias));

static void set_bin(fh_bin *bin, void **top, void **end) {
    *(volatile two_words *)bin = (two_words){(uintptr_t)top, (uintptr_t)end};
}

void fh_bin_reset(fh_bin *bin) {
    /* The cast removes const: the hot path writes only below end, and here top == end. */
    void **none = (void **)&fh_empty_magazine[1];
    set_bin(bin, none, none);
}

/* ── What a thread may cache ─────────────────────────────────────────────────────────────────────────────────────── */

fh_word fh_bulky_cached;

void fh_cache_recount(fh_thread *t) {
    size_t all = 0, bulky = 0;
    for (unsigned c = 1; c < FH_BINS; c++) {
        size_t bytes = 2 * (size_t)t->rack[c].limit * fh_class_size(c);
        all += bytes;
        if (fh_class_is_bulky(c)) bulky += bytes;
    }
    fh_add_relaxed(&fh_bulky_cached, bulky - t->bulky_used); /* modulo 2^64 */
    t->budget_used = all;
    t->bulky_used = bulky;
}

/* The limit of a bin has changed by so many blocks. */
static void charge(fh_thread *t, unsigned c, ptrdiff_t blocks) {
    size_t bytes = 2 * (size_t)blocks * fh_class_size(c); /* modulo 2^64 */
    if (fh_class_is_bulky(c)) {
        if (blocks > 0) fh_add_relaxed(&fh_bulky_cached, bytes);
        t->bulky_used += bytes;
        if (blocks < 0) fh_add_relaxed(&fh_bulky_cached, bytes);
    }
    t->budget_used += bytes;
    FH_ASSERT((ptrdiff_t)t->budget_used >= 0 && t->bulky_used <= t->budget_used);
}

/* What the thread may cache of small blocks: a share of what is in use, so that caches are no larger a part of a small heap. */
static size_t small_bytes(void) {
    size_t share = fh_used_bytes() / FH_THREAD_SHARE;
    return share < FH_THREAD_LEAST ? FH_THREAD_LEAST : share > FH_THREAD_BYTES ? FH_THREAD_BYTES : share;
}

/* And all threads of bulky ones. */
static size_t bulky_bytes(void) {
    size_t share = fh_used_bytes() / FH_BULKY_SHARE;
    return share < FH_BULKY_LEAST ? FH_BULKY_LEAST : share;
}

/* True if the bounds allow a bin `more` bytes. */
static bool has_room(const fh_thread *t, unsigned c, size_t more) {
    if (!fh_class_is_bulky(c)) return t->budget_used - t->bulky_used + more <= small_bytes();
    size_t own = t->bulky_used + more;
    if (own <= FH_THREAD_BULKY_LEAST) return true;
    return own <= FH_THREAD_BULKY_BYTES && fh_load(&fh_bulky_cached) + more <= bulky_bytes();
}

/* ── The store, for any class ────────────────────────────────────────────────────────────────────────────────────── */

static unsigned take(unsigned c, unsigned want, void **out) {
    if (!fh_class_is_run(c)) return fh_slab_take(c, want, out);
    bool clean;
    out[0] = fh_large_alloc(fh_class_size(c), FH_MIN_ALIGN, &clean);
    return out[0] != NULL;
}

static void give(unsigned c, unsigned n, void **blocks) {
    if (!fh_class_is_run(c)) {
        fh_slab_give(c, n, blocks);
        return;
    }
    for (unsigned i = 0; i < n; i++) fh_large_give(c, blocks[i]);
}

void *fh_take_one(unsigned c) {
    void *p;
    return take(c, 1, &p) ? p : NULL;
}

void fh_give_one(unsigned c, void *p) {
    give(c, 1, &p);
}

/* ── Magazines of a bin ──────────────────────────────────────────────────────────────────────────────────────────── */

/* Loads m, which holds m->count blocks; the bin may grow up to the rack's limit. */
static void load(fh_thread *t, unsigned c, fh_magazine *m) {
    fh_bin *bin = &t->bin[c];
    unsigned limit = t->rack[c].limit;
    FH_ASSERT(!t->rack[c].loaded && t->rack[c].previous != m);
    FH_ASSERT(m->count <= m->capacity && !m->bottom);
    if (limit > m->capacity) limit = m->capacity;
    if (limit < m->count) limit = m->count;
    set_bin(bin, m->block + m->count, m->block + limit);
    then();
    t->rack[c].loaded = m;
}

/* The equation of a bin that has a loaded magazine (base/types.h). For an assertion. One that has none may still use its last one:
 * see above. */
static bool bin_is_right(const fh_bin *bin, fh_magazine *m) {
    if (!m) return true;
    return m->block <= bin->top && bin->top <= bin->end && bin->end <= m->block + m->capacity;
}

/* The loaded magazine with its count filled in; the bin has none afterwards. */
static fh_magazine *unload(fh_thread *t, unsigned c) {
    fh_magazine *m = t->rack[c].loaded;
    FH_ASSERT(bin_is_right(&t->bin[c], m));
    if (m) m->count = (uint32_t)(t->bin[c].top - m->block);
    then();
    t->rack[c].loaded = NULL;
    then();
    fh_bin_reset(&t->bin[c]);
    return m;
}

/* Notes a slow path of a bin. True if it is to grow: it has no limit yet, or it was too small once before since it was checked
 * last (fh_bin_is_unused). The first time may be chance. */
static bool note_use(fh_rack *rack) {
    bool wanted = rack->used || rack->limit == 0;
    rack->used = 1;
    return wanted;
}

/* Such a bin may hold twice as much from now on, within its own bound and the thread's. */
static void grow(fh_thread *t, unsigned c) {
    fh_rack *rack = &t->rack[c];
    unsigned old = rack->limit, most = rack->most;
    if (FH_LIKELY(old == most && old != 0)) return;
    if (most == 0) rack->most = (uint16_t)(most = most_blocks(c));
    unsigned wanted = old == 0 ? first_blocks(c) : old * 2 + 2;
    if (wanted > most) wanted = most;
    if (wanted <= old) return;
    bool first = old == 0 && !fh_class_is_bulky(c);
    if (!first && !has_room(t, c, 2 * (wanted - old) * fh_class_size(c))) return;
    charge(t, c, (ptrdiff_t)(wanted - old));
    rack->limit = (uint16_t)wanted;
    FH_ASSERT(wanted <= UINT16_MAX);
}

/* The class shrunk (shrink.h): the bin may hold so much now, which is more when much of the class has been flushed. */
static void shrink(fh_thread *t, unsigned c) {
    fh_rack *rack = &t->rack[c];
    unsigned blocks = fh_shrunk_bin_blocks(c);
    FH_ASSERT(blocks >= 1 && rack->most >= 1);
    if (blocks > rack->most) blocks = rack->most;
    if (rack->limit == blocks) return;
    bool more = rack->limit < blocks;
    if (more && !(fh_is_contracting() && has_room(t, c, 2 * (blocks - rack->limit) * fh_class_size(c)))) return;
    charge(t, c, (ptrdiff_t)blocks - rack->limit);
    rack->limit = (uint16_t)blocks;
}

/* An empty magazine as large as the limit asks for: m if it will do. NULL when there is no memory. */
static fh_magazine *fitting(fh_thread *t, unsigned c, fh_magazine *m) {
    FH_ASSERT(t->rack[c].limit >= 1 && (!m || m->count == 0));
    if (m && m->capacity >= t->rack[c].limit) return m;
    fh_magazine *larger = fh_magazine_new(t->rack[c].limit);
    if (!larger) return m;
    if (m) fh_magazine_delete(m);
    return larger;
}

void fh_bin_exchange(fh_thread *t, unsigned c) {
    fh_rack *rack = &t->rack[c];
    fh_magazine *m = rack->previous;
    FH_ASSERT(m != NULL);
    rack->used = 1;
    fh_magazine *before = unload(t, c);
    rack->previous = before;
    then();
    load(t, c, m);
}

/* Blocks and magazine to the store. The bin has let go of it. */
static void give_magazine(fh_thread *t, unsigned c, fh_magazine *m) {
    if (!m) return;
    fh_count_flushed(t, (int64_t)(m->count * fh_class_size(c)));
    if (m->count) give(c, m->count, m->block);
    fh_magazine_delete(m);
}

void fh_bin_empty(fh_thread *t, unsigned c) {
    fh_rack *rack = &t->rack[c];
    if (!rack->limit && !rack->loaded && !rack->previous) return; /* of a thread that ends most are so */
    fh_magazine *both[2] = {unload(t, c), rack->previous};
    rack->previous = NULL;
    then();
    for (int i = 0; i < 2; i++) give_magazine(t, c, both[i]);
    charge(t, c, -(ptrdiff_t)rack->limit);
    rack->limit = 0;
}

void fh_bin_halve(fh_thread *t, unsigned c) {
    fh_rack *rack = &t->rack[c];
    fh_magazine *previous = rack->previous, *loaded = unload(t, c);
    unsigned old = rack->limit, least = first_blocks(c), limit = old / 2 > least ? old / 2 : least;
    rack->previous = NULL;
    then();
    give_magazine(t, c, previous);
    if (limit < old) {
        charge(t, c, (ptrdiff_t)limit - old);
        rack->limit = (uint16_t)limit;
    }
    /* One from the depot may have more than the bin was to hold. */
    bool fits = loaded && loaded->count <= old;
    fits ? load(t, c, loaded) : give_magazine(t, c, loaded);
}

/* Every FH_BIN_TICK slow paths one bin is checked. What was not used since the last two checks is flushed. */
static void tick(fh_thread *t) {
    if (++t->ticks % FH_BIN_TICK) return;
    fh_hook_metrics();
    fh_event_time_passed();
    for (unsigned tries = 0; tries < 16; tries++) {
        unsigned c = t->next_idle = (t->next_idle + 1) % FH_BINS;
        fh_rack *rack = &t->rack[c];
        if (!rack->limit) continue;
        if (fh_bin_is_unused(rack, FH_BIN_TICKS_UNUSED)) fh_bin_empty(t, c);
        return;
    }
}

/* While the heap contracts, every eighth flush checks one other bin too, so that what the thread does not flush any more is
 * flushed as well. The clock hand takes a thousand flushes to go round, in which demand for a class shows. */
static void contract(fh_thread *t, unsigned c) {
    if (t->flushes % FH_CONTRACTION_TICK) return;
    unsigned other = t->next_idle = (t->next_idle + 1) % FH_BINS;
    if (other == 0) fh_set_due(FH_DUE_PARKED);
    if (other == 0 || other == c || !fh_shrink_pass(other)) return;
    if (t->rack[other].limit > fh_shrunk_bin_blocks(other)) fh_bin_empty(t, other);
}

/* ── Refill and flush ────────────────────────────────────────────────────────────────────────────────────────────── */

/* Blocks from the slabs into the empty magazine m, so that pops come out in ascending order. */
static void fill(unsigned c, unsigned want, fh_magazine *m) {
    FH_ASSERT(m->count == 0 && want >= 1 && want <= m->capacity);
    unsigned n = take(c, want, m->block);
    FH_ASSERT(n <= want);
    for (unsigned i = 0, j = n; i + 1 < j; i++) {
        void *p = m->block[i];
        m->block[i] = m->block[--j];
        m->block[j] = p;
    }
    m->count = n;
}

/* Blocks that were freed near another CPU are put into an order without neighbours in a row.
 *
 * One thread allocates blocks and another one frees them while both run. Both walk the same addresses, the second close
 * behind the first. Its CPU fetches lines ahead that the first is about to write: a third to a half of the time was that.
 * A thread that gets blocks that were freed on its own CPU wants them in a row, because fetching ahead is worth more there.
 * Of 16-byte blocks four share a line: it gained nothing there. */
static void scatter(fh_magazine *m) {
    for (uint32_t i = 0; i < m->count; i++) {
        /* Multiples of the golden ratio: an exchange with wherever they fall leaves hardly any two where they were. */
        uint32_t j = (uint32_t)((uint64_t)(uint32_t)(i * UINT32_C(0x9E3779B1)) * m->count >> 32);
        void *p = m->block[i];
        m->block[i] = m->block[j];
        m->block[j] = p;
    }
}

/* A full magazine of the depot for the empty one; NULL if there is none. */
static fh_magazine *get_magazine(fh_thread *t, unsigned c, unsigned cpu, fh_magazine *empty) {
    fh_magazine *m = fh_depot_get(c, cpu, empty);
    if (!m) return NULL;
    t->from_depot++;
    if (m->from != (uint16_t)cpu && fh_class_size(c) >= SCATTERED_FROM) scatter(m);
    return m;
}

/* One block from the store or back, where there is no magazine for it. What slabs are left with counts: the heap may contract
 * by such blocks too. Large ones leave nothing in slabs. */
static void *take_past_bin(fh_thread *t, unsigned c) {
    void *p = fh_take_one(c);
    if (p && !fh_class_is_run(c)) fh_count_flushed(t, -(int64_t)fh_class_size(c));
    return p;
}

static void give_past_bin(fh_thread *t, unsigned c, void *p) {
    if (!fh_class_is_run(c)) fh_count_flushed(t, (int64_t)fh_class_size(c));
    fh_give_one(c, p);
}

/* True if the blocks that the thread frees are those that it will want again: in its life it has handed over half as many magazines as
 * it got, or more. */
static bool is_even(const fh_thread *t) {
    return t->to_depot >= t->from_depot / 2;
}

void *fh_refill(fh_thread *t, unsigned c) {
    fh_rack *rack = &t->rack[c];
    FH_ASSERT(c != FH_CLASS_SPECIAL && c < FH_BINS && !t->bin[c].top[-1]);
    bool wanted = note_use(rack);
    t->refills++;
    fh_magazine *empty = unload(t, c), *m = rack->previous;
    if (m && m->count) {
        rack->previous = empty;
        then();
        load(t, c, m);
        tick(t);
        return fh_bin_pop(&t->bin[c]);
    }
    tick(t);
    if (!rack->previous) {
        rack->previous = empty;
        empty = m;
    }
    if (wanted) grow(t, c);
    fh_shrink_demand(c);
    unsigned cpu = fh_system_cpu_hint();
    bool none = fh_class_is_run(c) || rack->limit == 0; /* of large blocks the depot keeps none */
    bool lacks = !none && is_even(t) && fh_depot_lacks(c, cpu, rack->limit);
    m = none || lacks ? NULL : get_magazine(t, c, cpu, empty);
    if (!m) {
        m = rack->limit ? fitting(t, c, empty) : NULL;
        if (!m) return take_past_bin(t, c);
        fill(c, rack->limit < m->capacity ? rack->limit : m->capacity, m);
        fh_magazine *far = lacks && m->count == 0 ? get_magazine(t, c, cpu, m) : NULL; /* there was no memory */
        if (far) m = far;
    }
    load(t, c, m);
    fh_count_flushed(t, -(int64_t)(m->count * fh_class_size(c)));
    return fh_bin_pop(&t->bin[c]);
}

/* Moves all blocks of `full` into an empty magazine with more room. In this order an interruption loses blocks, and none is in
 * both. */
static void join(fh_thread *t, fh_magazine *empty, fh_magazine *full) {
    unsigned n = full->count;
    FH_ASSERT(empty->count == 0 && n <= empty->capacity);
    full->count = 0;
    then();
    for (unsigned i = 0; i < n; i++) empty->block[i] = full->block[i];
    then();
    empty->count = n;
    fh_twice_note(t, empty->block, n);
}

void fh_push_noted(fh_thread *t, unsigned c, void *p) {
    fh_bin *bin = &t->bin[c];
    void **top = bin->top;
    FH_ASSERT(top < bin->end);
    if (t->head.watched_slots) *fh_last_place(t->bin, fh_place_index(p)) = (uint16_t)(uintptr_t)top;
    fh_bin_push(bin, top, p);
}

void fh_flush(fh_thread *t, unsigned c, void *p) {
    fh_rack *rack = &t->rack[c];
    FH_ASSERT(c != FH_CLASS_SPECIAL && c < FH_BINS && t->bin[c].top == t->bin[c].end && p);
    bool wanted = note_use(rack);
    t->flushes++;
    tick(t);
    if (rack->limit == 0 && fh_class_size(c) < FH_CACHE_LINE) {
        /* A thread that frees a block before it has asked for one of that class may have it from another thread. So may
         * one that frees it long after, when the bin has been emptied since. The other thread continues to write to the
         * rest of the cache line: the thread's next block should not be this one. */
        grow(t, c);
        give(c, 1, &p);
        return;
    }
    bool contracting = fh_is_contracting(), shrunk = fh_is_shrunk(c);
    if (FH_UNLIKELY(contracting)) contract(t, c);
    /* A bin that has no limit yet gets its first one in any case, unless its blocks are bulky. */
    if (shrunk && rack->limit) {
        shrink(t, c);
    } else if (wanted) {
        grow(t, c);
    }
    if (FH_UNLIKELY(rack->limit == 0)) {
        give_past_bin(t, c, p); /* bulky, and the caches have enough of them */
        return;
    }
    fh_magazine *full = unload(t, c), *empty = rack->previous;
    bool handed = false;
    rack->previous = full;
    then();
    if (empty && empty->count) {
        /* The oldest half is flushed as a whole. Last in, first out is worth 10 ns an operation on a million live blocks. */
        fh_magazine *oldest = empty;
        FH_ASSERT(oldest != full && oldest->count <= oldest->capacity);
        uint32_t n = oldest->count, turn = t->handed_over++;
        bool all = turn < FH_LOOK_FIRST;
        oldest->count = (uint32_t)(all ? fh_twice_look(t, c, oldest->block, n)
                                       : fh_twice_look_at_some(t, c, oldest->block, n, turn));
        size_t bytes = oldest->count * fh_class_size(c);
        fh_count_flushed(t, (int64_t)bytes);
        bool counted = contracting || shrunk;
        if (FH_UNLIKELY(counted)) shrunk = fh_shrink_count(c, bytes);
        if (!shrunk && fh_depot_put(c, fh_system_cpu_hint(), oldest, &empty)) {
            t->to_depot++;
            handed = true;
        } else {
            if (!counted) fh_shrink_count(c, bytes);
            give(c, oldest->count, oldest->block);
            /* Or each later free of one of them would look closely at what is no longer there (cache/twice.h). */
            memset(oldest->block, 0, oldest->count * sizeof oldest->block[0]);
            oldest->count = 0;
            empty = oldest;
        }
    }
    if (empty && fh_twice_apart(t, full, empty)) {
        fh_magazine *near = fh_magazine_new(full->capacity > rack->limit ? full->capacity : rack->limit);
        if (near) {
            fh_magazine_delete(empty);
            empty = near;
        }
    }
    empty = fitting(t, c, empty);
    if (!empty) {
        give_past_bin(t, c, p);
        return;
    }
    FH_ASSERT(empty->count == 0);
    if (full && rack->previous == full && full->count < empty->capacity && full->count < rack->limit)
        join(t, empty, full);
    load(t, c, empty);
    if (handed) fh_twice_forget(t, c, fh_system_cpu_hint());
    FH_ASSERT(t->bin[c].top < t->bin[c].end);
    fh_push_noted(t, c, p);
}
