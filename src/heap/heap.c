#include "heap/heap.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/hooks.h"
#include "base/settings.h"
#include "cache/alloc.h"
#include "cache/observed.h"
#include "heap/bounded.h"
#include "heap/callbacks.h"
#include "heap/endings.h"
#include "heap/frames.h"
#include "heap/given.h"
#include "heap/quota.h"
#include "heap/regions.h"
#include "heap/scope.h"
#include "heap/span.h"
#include "heap/stripes.h"
#include "heap/take.h"
#include "heap/told.h"
#include "heap/use.h"
#include "heap/valid.h"
#include "heap/words.h"
#include "store/large.h"
#include "store/thp.h"
#include "store/window.h"
#include "system/system.h"

#include <errno.h>

#define HEADER_END offsetof(fh_heap, list[0])
#define FIRST_UNIT ((offsetof(fh_heap, arg) + sizeof(void *)) / FH_MIN_ALIGN)
#define LISTS_UNIT (HEADER_END / FH_MIN_ALIGN)
#define LISTS_END ((sizeof(fh_word[1]) + offsetof(fh_heap, bounded) + sizeof(void *)) / FH_MIN_ALIGN)

_Static_assert((offsetof(fh_heap, arg) + sizeof(void *)) % FH_MIN_ALIGN == 0, "units begin where it ends");
_Static_assert(HEADER_END == 4096 && sizeof(fh_heap) <= FH_SLOT_SIZE, "the lists are a page further on");
_Static_assert(sizeof(fh_node) <= 64 && sizeof(fh_node) % 8 == 0, "a node is a block of a small class");

/* ── Units of the first slot ─────────────────────────────────────────────────────────────────────────────────────── */

/* Bits of word w that are units from first to end − 1. */
static uint64_t units_of(unsigned w, size_t first, size_t end) {
    size_t from = w * (size_t)64, to = from + 64;
    if (first < from) first = from;
    if (end > to) end = to;
    return first < end ? fh_run_mask((unsigned)(first - from), (unsigned)(end - first)) : 0;
}

static void free_all_units(fh_heap *h) {
    for (unsigned w = 0; w < FH_UNIT_WORDS; w++) {
        fh_store(&h->free[w], ~(units_of(w, 0, FIRST_UNIT) | units_of(w, LISTS_UNIT, LISTS_END)));
        fh_store(&h->first[w], 0);
        fh_store(&h->last[w], 0);
    }
    fh_store(&h->from, FIRST_UNIT / 64);
    fh_store(&h->grown, fh_heap_is_stable(h) || fh_heap_is_bounded(h)); /* which have no blocks of units */
}

static void forget_stacks(fh_heap *h, unsigned list) {
    for (unsigned kind = 0; kind < FH_STACKS; kind++) fh_store(&h->stack[kind][list], 0);
}

/* ── Life ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void set_name(fh_heap *h, const char *name) {
    size_t n = 0;
    for (; name && name[n] && n < FH_HEAP_NAME - 1; n++) h->name[n] = name[n];
    h->name[n] = 0;
}

/* Memory of a heap to the store. */
static void release(const fh_heap *h, void *p, size_t bytes) {
    /* p may be the heap itself: nothing is read there once a tool is told that it has left. */
    bool spans = fh_heap_has_spans(h);
    fh_store(&fh_slab_at(fh_slot_of(p))->quick, 0);
    for (size_t i = 0; i < bytes / FH_SLOT_SIZE; i++) fh_store(&fh_slab_at(fh_slot_of(p) + i)->heap, 0);
    fh_told_left(h, p, bytes);
    if (spans) return; /* with its span */
    bool freed = fh_large_free(p);
    FH_ASSERT(freed);
    (void)freed;
}

/* The heap's first slot is the store's again, and not charged. */
static fh_heap *give_up(const fh_heap_plan *plan, fh_heap *h) {
    int error = errno;
    if (h && fh_heap_has_spans(h)) {
        fh_spans_end(h);
    } else if (h) {
        release(h, h, FH_SLOT_SIZE);
    }
    if (plan->parent) fh_quota_return(plan->parent, FH_SLOT_SIZE);
    errno = error;
    return NULL;
}

/* The first slot counts for the heaps above, which are told and asked as for a block. */
static bool charge_parent(fh_heap *parent) {
    fh_quota_passed passed;
    fh_heap *full;
    for (unsigned asked = 0; (full = fh_quota_charge(parent, FH_SLOT_SIZE, &passed)) != NULL; asked++)
        if (!fh_heap_find_room(parent, full, FH_SLOT_SIZE, asked)) return false;
    fh_quota_tell(parent, FH_SLOT_SIZE, passed);
    return true;
}

/* All that a bounded heap has. */
static fh_bounded *begin_bounded(fh_heap *h) {
    fh_bounded *b;
    fh_heap *full;
    for (unsigned asked = 0; !(b = fh_bounded_begin(h, &full)); asked++)
        if (!full || !h->parent || !fh_heap_find_room(h->parent, full, (size_t)fh_load(&h->hard), asked)) return NULL;
    return b;
}

static fh_heap *first_slot(const fh_heap_plan *plan, bool *clean) {
    *clean = true;
    if (plan->flags & FH_HEAP_HAS_SPANS) return fh_spans_begin(plan->flags, plan->name);
    return fh_alloc_special(FH_SLOT_SIZE, FH_SLOT_SIZE, clean);
}

fh_heap *fh_heap_create(const fh_heap_plan *plan) {
    bool clean;
    if (plan->parent && !charge_parent(plan->parent)) {
        errno = ENOMEM;
        return NULL;
    }
    fh_heap *h = first_slot(plan, &clean);
    if (!h) return give_up(plan, NULL);
    h->owned = (fh_owned){h, FH_OWNED_UNITS};
    h->parent = plan->parent;
    if (plan->flags & FH_HEAP_IS_STABLE) h->grace = 0;
    /* Of a type-stable heap a tool is told nothing: there, readers look at free blocks. And of a bounded one: it would be asked. */
    h->flags = plan->flags | (plan->flags & (FH_HEAP_IS_STABLE | FH_HEAP_IS_BOUNDED) ? 0 : fh_told_flags()) |
               (plan->memory || plan->flags & (FH_HEAP_IS_SIZED | FH_HEAP_IS_BOUNDED) ? FH_HEAP_IS_APART : 0);
    if (plan->source) {
        h->flags |= FH_HEAP_IS_APART | FH_HEAP_IS_PAGED;
        h->source = *plan->source;
        fh_store(&h->regions, 0);
    }
    h->asked = plan->asked;
    h->arg = plan->arg;
    fh_store(&h->striped, 0);
    fh_store(&h->stripes, 0);
    fh_store(&h->charged, FH_SLOT_SIZE);
    fh_store(&h->peak, FH_SLOT_SIZE);
    fh_store(&h->soft, plan->soft);
    fh_store(&h->hard, plan->hard);
    fh_store(&h->children, 0);
    fh_store(&h->asking, 0);
    fh_store(&h->refusals, 0);
    fh_store(&h->thread, fh_heap_owner());
    fh_store(&h->scopes, 0);
    fh_store(&h->endings, 0);
    fh_store(&h->number, 0);
    fh_store(&h->sampled, 0);
    fh_frame_forget(h);
    set_name(h, plan->name);
    free_all_units(h);
    h->given = plan->memory ? fh_given_begin(h, plan->memory, plan->memory_size) : NULL;
    if ((plan->memory && !h->given) || (plan->flags & FH_HEAP_IS_POPULATED && !fh_system_populate(h, FH_SLOT_SIZE))) {
        if (h->given) fh_given_end(h->given);
        errno = ENOMEM;
        return give_up(plan, h);
    }
    if (fh_heap_is_bounded(h) && !(h->bounded = begin_bounded(h))) {
        errno = ENOMEM;
        return give_up(plan, h);
    }
    if (fh_heap_has_spans(h)) fh_spans_show(h);
    fh_thp_count_heap(1);
    for (unsigned i = 0; !clean && i < FH_HEAP_LISTS; i++) {
        fh_store(&h->list[i], 0);
        forget_stacks(h, i);
    }
    if (FH_CHECKED) fh_use_open(h);
    if (h->parent) fh_add_relaxed(&h->parent->children, 1);
    fh_store(&fh_slab_at(fh_slot_of(h))->parent, (uintptr_t)h->parent);
    fh_store_release(&fh_slab_at(fh_slot_of(h))->heap, (uintptr_t)h);
    return h;
}

/* The large blocks whose nodes are in an extent. Returns their bytes. */
static size_t release_large(fh_extent *e) {
    fh_heap *h = e->owned.heap;
    size_t size = fh_class_size(e->c), bytes = 0;
    for (unsigned w = 0; w < e->words; w++) {
        for (uint64_t live = fh_extent_all(e, w) & ~fh_load(&e->free[w]); live; live &= live - 1) {
            fh_node *node = (fh_node *)(void *)((char *)e + (w * 64 + fh_lowest_bit(live)) * size);
            void *p = (void *)(uintptr_t)(fh_load_acquire(&node->block) | fh_load_acquire(&node->idle)); /* one is 0 */
            if (!p) continue;
            bytes += (size_t)fh_load(&node->size);
            fh_store(&fh_slab_at(fh_slot_of(p))->heap, 0);
            fh_told_left(h, p, (size_t)fh_load(&node->size));
            if (!fh_heap_has_spans(h)) {
                (void)fh_large_free(p);
            } else if (!fh_spans_have(p)) { /* else with its span */
                fh_spans_release(h, p, (size_t)fh_load(&node->size));
            }
        }
    }
    return bytes;
}

/* Everything but the first slot. Returns what of it was charged. */
static size_t release_grown(fh_heap *h) {
    size_t bytes = 0;
    for (unsigned list = 0; list < FH_HEAP_LISTS; list++) {
        fh_extent *e = (fh_extent *)(uintptr_t)fh_load_acquire(&h->list[list]), *next;
        if (!e) continue;
        fh_store(&h->list[list], 0);
        forget_stacks(h, list);
        for (; e; e = next) {
            size_t own = fh_class_table[e->c].slots * FH_SLOT_SIZE;
            next = e->next;
            if (list == 0) bytes += release_large(e);
            if (!fh_load(&e->retired)) bytes += own;
            release(h, e, own);
        }
    }
    void *stripes = fh_stripes_end(h);
    if (stripes) release(h, stripes, FH_SLOT_SIZE);
    if (stripes) bytes += FH_SLOT_SIZE;
    if (fh_heap_is_paged(h)) bytes += fh_regions_end(h);
    return fh_heap_has_spans(h) ? bytes + fh_spans_clear(h) : bytes;
}

/* All that a bounded heap has but its first slot. */
static size_t release_bounded(const fh_heap *h) {
    size_t bytes;
    void *memory = fh_bounded_memory(h->bounded, &bytes);
    release(h, memory, bytes);
    return bytes;
}

/* All of its blocks are freed at once. */
static void tell_freed(void *block, size_t size, void *unused) {
    (void)unused;
    fh_told_freed(block, size);
}

static void end_samples(fh_heap *h) {
    fh_hook_heap_cleared((uint32_t)fh_load(&h->number));
    fh_store(&h->sampled, 0);
}

/* The samples of blocks that go with the heap. */
static void tell_observer(fh_heap *h) {
    if (FH_UNLIKELY(fh_load(&h->sampled))) end_samples(h);
}

/* Checked builds keep it for a while, unless a tool that watches memory is told that it is gone. With a span it is not kept: that
 * would be 2 MiB of the kind that the program has said, after it has ended. */
static void release_first(fh_heap *h) {
    if (fh_heap_has_spans(h)) {
        release(h, h, FH_SLOT_SIZE);
        fh_spans_end(h);
        return;
    }
    if (!FH_CHECKED && !fh_heap_is_told(h)) {
        h->flags = FH_HEAP_IS_APART | FH_HEAP_IS_GONE;
        fh_frame_forget(h);
    }
    if (FH_CHECKED && !fh_heap_is_told(h)) h = fh_use_keep(h);
    if (h) release(h, h, FH_SLOT_SIZE);
}

static bool is_in_callback(const fh_heap *h) {
    return fh_quota_asks(h) || (fh_heap_is_paged(h) && fh_callback_runs(h));
}

bool fh_heap_clear(fh_heap *h) {
    if (fh_scope_is_open(h) || is_in_callback(h)) return false;
    fh_endings_run(h);
    tell_observer(h);
    if (fh_heap_is_told(h)) fh_heap_each(h, tell_freed, NULL);
    fh_frame_forget(h);
    size_t bytes = release_grown(h);
    if (bytes) fh_quota_return(h, bytes);
    free_all_units(h);
    if (h->given) fh_given_clear(h->given);
    if (fh_heap_is_bounded(h)) fh_bounded_clear(h->bounded);
    fh_thread_safe_point(FH_AFTER_FREE);
    return true;
}

bool fh_heap_end(fh_heap *h) {
    fh_heap *parent = h->parent;
    if (fh_load(&h->children) || fh_scope_is_open(h) || is_in_callback(h)) return false;
    fh_endings_run(h);
    if (FH_UNLIKELY(FH_SETTING(heap_left))) fh_hook_heap_left(h);
    tell_observer(h);
    if (fh_heap_is_told(h)) fh_heap_each(h, tell_freed, NULL);
    if (h->given) fh_given_end(h->given);
    size_t bytes = release_grown(h) + FH_SLOT_SIZE;
    if (fh_heap_is_bounded(h)) bytes += release_bounded(h);
    /* More in the child of a fork, if another thread was about to take something (quota.h). */
    FH_ASSERT(fh_load(&h->charged) >= bytes);
    fh_store(&fh_slab_at(fh_slot_of(h))->parent, 0);
    release_first(h);
    fh_thp_count_heap(-1);
    if (parent) {
        fh_quota_return(parent, bytes);
        fh_sub_relaxed(&parent->children, 1);
    }
    fh_thread_safe_point(FH_AFTER_FREE);
    return true;
}

/* ── The walk ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The bits are read again for each block, because `see` may have freed the next ones. So in all walks. */
static void each_of_units(fh_heap *h, fh_heap_seen *see, void *arg) {
    for (unsigned w = 0; w < FH_UNIT_WORDS; w++) {
        uint64_t first, ahead = ~UINT64_C(0);
        while ((first = fh_load_acquire(&h->first[w]) & ahead) != 0) {
            unsigned at = fh_lowest_bit(first);
            ahead = ~UINT64_C(1) << at;
            uint64_t last = fh_load(&h->last[w]) >> at;
            if (last) see((char *)h + (w * 64 + at) * FH_MIN_ALIGN, (fh_lowest_bit(last) + 1) * FH_MIN_ALIGN, arg);
        }
    }
}

/* The large block of a node and its size, or NULL. Another thread may free it meanwhile, and use the node again. */
static void *large_of(fh_node *node, size_t *size) {
    uint64_t block = fh_load_acquire(&node->block);
    /* Acquire: if the size is that of a later block, the word is 0 by now, or that block's. */
    *size = (size_t)fh_load_acquire(&node->size);
    return fh_load(&node->block) == block ? (void *)(uintptr_t)block : NULL;
}

static void each_of_extent(fh_extent *e, fh_heap_seen *see, void *arg) {
    size_t size = fh_class_size(e->c);
    for (unsigned w = 0; w < e->words && !fh_load(&e->retired); w++) {
        for (uint64_t live = fh_extent_all(e, w) & ~fh_load_acquire(&e->free[w]); live; live &= live - 1) {
            unsigned i = w * 64 + fh_lowest_bit(live);
            char *block = (char *)e + i * size;
            size_t bytes = size;
            void *p = e->list == 0 ? large_of((fh_node *)(void *)block, &bytes) : block;
            if (e->list != 0 && !fh_byte_load(fh_extent_out(e, i))) continue;
            if (p) see(p, bytes, arg);
        }
    }
}

void fh_heap_each(fh_heap *h, fh_heap_seen *see, void *arg) {
    if (h->given) fh_given_each(h->given, see, arg);
    if (fh_heap_is_bounded(h)) fh_bounded_each(h->bounded, see, arg);
    if (fh_heap_is_paged(h)) fh_regions_each(h, see, arg);
    each_of_units(h, see, arg);
    for (unsigned list = 0; list < FH_HEAP_LISTS; list++) {
        fh_extent *e = (fh_extent *)(uintptr_t)fh_load_acquire(&h->list[list]), *next;
        for (; e; e = next) {
            next = e->next;
            each_of_extent(e, see, arg);
        }
    }
}

/* ── What is resident ────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    size_t bytes;
    bool spans; /* of the heap: what is in one of these was counted with it */
} resident_sum;

static void add_large(void *block, size_t size, void *arg) {
    resident_sum *sum = arg;
    if (sum->spans && fh_spans_have(block)) return;
    const fh_owned *o = (const fh_owned *)fh_heap_word(block);
    if (size > FH_SMALL_MAX || (o && o->kind == FH_OWNED_LARGE)) sum->bytes += fh_resident_in(block, size);
}

/* Type-stable: large blocks that are free, and keep their pages. */
static void each_idle(fh_extent *e, resident_sum *sum) {
    for (size_t i = (size_t)e->begin; i < e->blocks; i++) {
        fh_node *node = (fh_node *)(void *)((char *)e + i * fh_class_size(e->c));
        void *p = (void *)(uintptr_t)fh_load_acquire(&node->idle);
        if (p) add_large(p, (size_t)fh_load(&node->size), sum);
    }
}

static size_t resident_of_bounded(const fh_heap *h) {
    size_t bytes;
    void *memory = fh_bounded_memory(h->bounded, &bytes);
    return fh_resident_in(memory, bytes);
}

size_t fh_heap_resident(fh_heap *h) {
    bool spans = fh_heap_has_spans(h);
    resident_sum sum = {spans ? fh_spans_resident(h) : fh_resident_in(h, FH_SLOT_SIZE), spans};
    if (h->given) sum.bytes += fh_given_resident(h->given);
    if (fh_heap_is_bounded(h)) sum.bytes += resident_of_bounded(h);
    void *stripes = (void *)(uintptr_t)fh_load_acquire(&h->stripes);
    if (stripes && !spans) sum.bytes += fh_resident_in(stripes, FH_SLOT_SIZE);
    if (fh_heap_is_paged(h)) sum.bytes += fh_regions_resident(h);
    for (unsigned list = 0; list < FH_HEAP_LISTS; list++) {
        for (fh_extent *e = (fh_extent *)(uintptr_t)fh_load_acquire(&h->list[list]); e; e = e->next) {
            if (!spans) sum.bytes += fh_resident_in(e, fh_class_table[e->c].slots * FH_SLOT_SIZE);
            if (list == 0) each_of_extent(e, add_large, &sum);
            if (list == 0 && fh_heap_is_stable(h)) each_idle(e, &sum);
        }
    }
    return sum.bytes;
}
