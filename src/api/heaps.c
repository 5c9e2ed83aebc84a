/* The names of heap.h. What they do is in heap/. */
#include "api/calls.h"
#include "heap/below.h"
#include "heap/bounded.h"
#include "heap/defer.h"
#include "heap/endings.h"
#include "heap/frames.h"
#include "heap/free.h"
#include "heap/given.h"
#include "heap/heap.h"
#include "heap/scope.h"
#include "heap/stripes.h"
#include "heap/take.h"
#include "heap/told.h"
#include "heap/use.h"
#include "heap/valid.h"
#include "store/locate.h"

#include "freehold/heap.h"

#include <string.h>

_Static_assert(offsetof(fh_heap, next) == offsetof(struct fh_heap_frames, next) &&
                   offsetof(fh_heap, end) == offsetof(struct fh_heap_frames, end),
               "what freehold/heap.h has inline");

#define OF_PAGES (FH_HEAP_NO_DUMP | FH_HEAP_POPULATE | FH_HEAP_HUGE | FH_HEAP_NAMED)
_Static_assert(FH_HEAP_PRIVATE == FH_HEAP_IS_PRIVATE && FH_HEAP_TYPE_STABLE == FH_HEAP_IS_STABLE &&
                   FH_HEAP_NO_DUMP == FH_HEAP_IS_NO_DUMP && FH_HEAP_POPULATE == FH_HEAP_IS_POPULATED &&
                   FH_HEAP_HUGE == FH_HEAP_IS_HUGE && FH_HEAP_NAMED == FH_HEAP_IS_NAMED &&
                   FH_HEAP_SIZES == FH_HEAP_IS_SIZED && FH_HEAP_BOUNDED == FH_HEAP_IS_BOUNDED,
               "the flags of a heap are those of its options");

static bool limits_make_sense(size_t soft, size_t hard) {
    return hard == 0 || (hard >= FH_SLOT_SIZE && soft <= hard);
}

/* What is given is a limit of its own. */
static bool memory_makes_sense(const fh_heap_options *o) {
    if (!o->memory) return o->memory_size == 0;
    return !(o->flags & OF_PAGES) && !o->soft_limit && !o->hard_limit && fh_given_may(o->memory, o->memory_size);
}

static bool pages_make_sense(const fh_heap_options *o) {
    return !o->pages || (o->pages->get && o->pages->give_back && !o->memory && !(o->flags & OF_PAGES));
}

/* Nothing that would make a call longer, and a limit that says how much it has. */
static bool bounds_make_sense(const fh_heap_options *o) {
    if (!(o->flags & FH_HEAP_BOUNDED)) return true;
    if (o->flags & ~(FH_HEAP_BOUNDED | FH_HEAP_POPULATE) || o->memory || o->pages || o->soft_limit || o->callback)
        return false;
    return o->hard_limit >= FH_BOUNDED_LEAST && o->hard_limit <= FH_BOUNDED_MOST;
}

static bool flags_make_sense(const fh_heap_options *o) {
    if (o->flags & ~(FH_HEAP_PRIVATE | FH_HEAP_TYPE_STABLE | FH_HEAP_SIZES | FH_HEAP_BOUNDED | OF_PAGES)) return false;
    if (!bounds_make_sense(o)) return false;
    return !(o->flags & FH_HEAP_TYPE_STABLE) || !(o->flags & FH_HEAP_PRIVATE || o->memory || o->pages);
}

static bool may_use(const char *call, const fh_heap *h) {
    if (fh_heap_is_valid(call, h)) return true;
    errno = EINVAL;
    return false;
}

/* Marks a call on the heap in checked builds (heap/use.h). NULL: there is no such heap. */
static fh_word *begin_call(const char *call, fh_heap *h) {
    static fh_word nothing;
    if (!FH_CHECKED) return may_use(call, h) ? &nothing : NULL;
    fh_word *use = fh_use_begin(call, h, h);
    if (!use) errno = EINVAL;
    return use;
}

static void end_call(fh_word *use) {
    if (FH_CHECKED) fh_use_end(use);
}

fh_heap *fh_heap_new(const fh_heap_options *options) {
    static const fh_heap_options plain;
    const fh_heap_options *o = options ? options : &plain;
    bool known = flags_make_sense(o) && !o->reserved && pages_make_sense(o);
    if (!known || !limits_make_sense(o->soft_limit, o->hard_limit) || !memory_makes_sense(o)) return fh_fail(EINVAL);
    fh_heap_source source;
    if (o->pages) source = (fh_heap_source){o->pages->get, o->pages->purge, o->pages->give_back, o->pages->arg};
    unsigned flags = o->flags & FH_HEAP_BOUNDED ? o->flags | FH_HEAP_POPULATE : o->flags;
    fh_heap_plan plan = {o->name, o->parent, o->soft_limit, o->hard_limit,  o->callback,
                         o->arg,  flags,     o->memory,     o->memory_size, o->pages ? &source : NULL};
    if (!o->parent) return fh_heap_create(&plan);
    fh_word *use = begin_call("fh_heap_new", o->parent);
    if (!use) return NULL;
    fh_heap *h = fh_heap_create(&plan);
    end_call(use);
    return h;
}

/* Every call finds a heap that is gone in a checked build. In others one that finds no memory looks why: nothing is handed out of a
 * heap that is gone, until its memory is in use again. */
static void *take(const char *call, fh_heap *h, size_t align, size_t n, bool *clean) {
    fh_word *use = FH_CHECKED ? begin_call(call, h) : NULL;
    if (FH_CHECKED && !use) return NULL;
    void *p =
        FH_UNLIKELY(fh_is_observing()) ? fh_hook_heap_alloc(h, align, n, clean) : fh_heap_take(h, align, n, clean);
    end_call(use);
    if (!FH_CHECKED && FH_UNLIKELY(!p)) (void)(fh_heap_exists(h) || may_use(call, h));
    return p;
}

/* Out of line, or what it needs would cost those that hit. */
__attribute__((noinline)) static void *malloc_slowly(fh_heap *heap, size_t size) {
    bool clean;
    return take("fh_heap_malloc", heap, FH_MIN_ALIGN, size, &clean);
}

void *fh_heap_malloc(fh_heap *heap, size_t size) {
    void *p = FH_CHECKED || FH_UNLIKELY(fh_is_observing()) ? NULL : fh_stripe_hit(heap, size);
    return FH_LIKELY(p != NULL) ? p : malloc_slowly(heap, size);
}

void *fh_heap_calloc(fh_heap *heap, size_t count, size_t size) {
    bool clean;
    size_t n;
    if (FH_UNLIKELY(!fh_product(count, size, &n))) return fh_fail(ENOMEM);
    void *p = take("fh_heap_calloc", heap, FH_MIN_ALIGN, n, &clean);
    return p && !clean ? memset(p, 0, n) : p;
}

void *fh_heap_aligned_alloc(fh_heap *heap, size_t alignment, size_t size) {
    bool clean;
    if (FH_UNLIKELY(!fh_is_power_of_two(alignment))) return fh_fail(EINVAL);
    return take("fh_heap_aligned_alloc", heap, alignment < FH_MIN_ALIGN ? FH_MIN_ALIGN : alignment, size, &clean);
}

void *fh_heap_realloc(fh_heap *heap, void *p, size_t size) {
    bool clean;
    if (!p) return fh_heap_malloc(heap, size);
    if (size == 0 || fh_heap_of(p) == heap) return fh_call_realloc(p, size);
    size_t old = fh_call_usable_size(p);
    void *q = take("fh_heap_realloc", heap, FH_MIN_ALIGN, size, &clean);
    if (!q) return NULL;
    memcpy(q, p, old < size ? old : size);
    fh_release(p);
    return q;
}

fh_heap *fh_heap_of(const void *p) {
    fh_place at = fh_locate(p);
    const fh_owned *o = at.begin ? fh_owned_at(at.begin) : NULL;
    return o ? o->heap : NULL;
}

const char *fh_heap_name(const fh_heap *heap) {
    return may_use("fh_heap_name", heap) ? heap->name : "";
}

static int busy(void) {
    errno = EBUSY;
    return -1;
}

/* True if no reader can be at a block of the heap any more: none was, or each has passed since the first call. */
static bool grace_is_over(fh_heap *h) {
    if (!fh_heap_is_stable(h)) return true;
    if (!h->grace) h->grace = fh_defer_stamp();
    fh_reader_pass(); /* who calls this is at none of them */
    if (!fh_defer_has_passed(h->grace)) {
        errno = EAGAIN;
        return false;
    }
    h->grace = 0;
    return true;
}

int fh_heap_reset(fh_heap *heap) {
    if (!may_use("fh_heap_reset", heap) || !grace_is_over(heap)) return -1;
    if (FH_CHECKED && !fh_use_close("fh_heap_reset", heap)) return busy();
    bool cleared = fh_heap_clear(heap);
    if (FH_CHECKED) fh_use_open(heap);
    return cleared ? 0 : busy();
}

int fh_heap_destroy(fh_heap *heap) {
    if (!heap) return 0;
    if (!may_use("fh_heap_destroy", heap) || !grace_is_over(heap)) return -1;
    if (FH_CHECKED && !fh_use_close("fh_heap_destroy", heap)) return busy();
    if (fh_heap_end(heap)) return 0;
    if (FH_CHECKED) fh_use_open(heap);
    return busy();
}

int fh_heap_on_destroy(fh_heap *heap, void (*fn)(void *arg), void *arg) {
    fh_word *use = begin_call("fh_heap_on_destroy", heap);
    if (!use) return -1;
    bool added = fh_ending_add(heap, fn, arg);
    end_call(use);
    return added ? 0 : -1;
}

/* ── Frames ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static int invalid(void) {
    errno = EINVAL;
    return -1;
}

void *fh_frame_more(fh_heap *heap, size_t size) {
    fh_word *use = FH_CHECKED ? begin_call("fh_frame_malloc", heap) : NULL;
    if (FH_CHECKED && !use) return NULL;
    bool may = fh_heap_is_private(heap) || (!fh_heap_exists(heap) && may_use("fh_frame_malloc", heap));
    void *p = may ? fh_frame_grow(heap, size) : fh_fail(EINVAL);
    end_call(use);
    return p;
}

fh_heap_mark fh_mark(fh_heap *heap) {
    bool may = !FH_CHECKED || may_use("fh_mark", heap);
    return may ? (fh_heap_mark){fh_frame_newest(heap), heap->next} : (fh_heap_mark){0};
}

int fh_release_to(fh_heap *heap, fh_heap_mark mark) {
    if (FH_CHECKED && !may_use("fh_release_to", heap)) return -1;
    return fh_frame_release(heap, mark.segment, mark.next) ? 0 : invalid();
}

/* ── Scopes ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

int fh_heap_enter(fh_heap *heap) {
    if (fh_heap_exists(heap) && !fh_heap_is_mine(heap)) return invalid();
    fh_word *use = begin_call("fh_heap_enter", heap);
    if (!use) return -1;
    bool entered = fh_scope_enter(heap);
    end_call(use);
    return entered ? 0 : -1;
}

int fh_heap_leave(void) {
    return fh_scope_leave() ? 0 : invalid();
}

fh_heap *fh_heap_entered(void) {
    return fh_scope_heap();
}

typedef struct {
    const fh_heap *heap;
    void (*fn)(void *block, size_t size, void *arg);
    void *arg;
} walk;

static void show(void *block, size_t size, void *arg) {
    const walk *w = arg;
    w->fn(block, fh_heap_asked_for(w->heap, block, size), w->arg);
}

int fh_heap_walk(fh_heap *heap, void (*fn)(void *block, size_t size, void *arg), void *arg) {
    fh_word *use = begin_call("fh_heap_walk", heap);
    if (!use) return -1;
    walk w = {heap, fn, arg};
    fh_heap_each(heap, show, &w);
    end_call(use);
    return 0;
}

int fh_heap_limit(fh_heap *heap, size_t soft_limit, size_t hard_limit) {
    fh_word *use = begin_call("fh_heap_limit", heap);
    if (!use) return -1;
    bool may = limits_make_sense(soft_limit, hard_limit) && !heap->given && !fh_heap_is_bounded(heap);
    if (may) {
        fh_store(&heap->soft, soft_limit);
        fh_store(&heap->hard, hard_limit);
    }
    end_call(use);
    return may ? 0 : invalid();
}

static void add(void *block, size_t size, void *arg) {
    fh_heap_figures *f = arg;
    (void)block;
    f->count++;
    f->live += size;
}

int fh_heap_stats(fh_heap *heap, fh_heap_figures *figures) {
    fh_word *use = begin_call("fh_heap_stats", heap);
    if (!use) return -1;
    *figures = (fh_heap_figures){
        .resident = fh_heap_resident(heap),
        .taken = (size_t)fh_load(&heap->charged),
        .peak = (size_t)fh_load(&heap->peak),
        .soft_limit = (size_t)fh_load(&heap->soft),
        .hard_limit = (size_t)fh_load(&heap->hard),
        .refusals = (size_t)fh_load(&heap->refusals),
    };
    fh_heap_each(heap, add, figures);
    end_call(use);
    return 0;
}

typedef struct {
    const fh_heap *heap;
    fh_heap_totals *totals;
} below;

static void add_block(void *block, size_t size, void *arg) {
    const below *b = arg;
    b->totals->count++;
    b->totals->live += size;
    b->totals->requested += fh_heap_asked_for(b->heap, block, size);
    if (!fh_heap_keeps_sizes(b->heap)) b->totals->unknown += size;
}

static void add_heap(fh_heap *h, void *totals) {
    below b = {h, totals};
    /* A private heap of another thread is only read. */
    bool marks = FH_CHECKED && fh_heap_is_mine(h);
    fh_word *use = marks ? fh_use_begin("fh_heap_stats_below", h, h) : NULL;
    if (marks && !use) return;
    b.totals->heaps++;
    b.totals->resident += fh_heap_resident(h);
    fh_heap_each(h, add_block, &b);
    if (use) fh_use_end(use);
}

int fh_heap_stats_below(fh_heap *heap, fh_heap_totals *totals) {
    /* A private heap of another thread is only read, and not marked. */
    bool marks = !fh_heap_exists(heap) || fh_heap_is_mine(heap);
    fh_word *use = marks ? begin_call("fh_heap_stats_below", heap) : NULL;
    if (marks && !use) return -1;
    *totals = (fh_heap_totals){.taken = (size_t)fh_load(&heap->charged), .peak = (size_t)fh_load(&heap->peak)};
    fh_heaps_below(heap, add_heap, totals);
    if (use) end_call(use);
    return 0;
}
