/* What scenarios call of heaps: one heap below a parent, its blocks, and the books of both. */
#include "base/assert.h"
#include "base/classes.h"
#include "base/hooks.h"
#include "heap/bounded.h"
#include "heap/free.h"
#include "heap/heap.h"
#include "heap/stacks.h"
#include "heap/stripes.h"
#include "heap/take.h"
#include "heap/use.h"
#include "heap/valid.h"
#include "heap/words.h"
#include "store/window.h"

static __thread fh_heap *parent, *heap;

/* include/bounded_books.h */
const char *fh_model_bounded_books(const fh_bounded *b, size_t *bytes, size_t *live);

/* Units of the heap when it is empty. */
static __thread size_t units;

/* 1 from the moment on at which no call may be on the heap. */
static fh_word ends;

/* The units that are free, and those of blocks. */
static size_t units_there(const char **wrong) {
    size_t there = 0;
    for (unsigned w = 0; w < FH_UNIT_WORDS; w++) {
        uint64_t rest = fh_load(&heap->first[w]), blocks = 0;
        for (; rest; rest &= rest - 1) {
            unsigned at = fh_lowest_bit(rest);
            uint64_t last = fh_load(&heap->last[w]) >> at;
            if (!last) *wrong = "a block of units has no end";
            uint64_t own = last ? fh_run_mask(at, fh_lowest_bit(last) + 1) : 0;
            if (blocks & own) *wrong = "two blocks of units overlap";
            blocks |= own;
        }
        if (blocks & fh_load(&heap->free[w])) *wrong = "a live unit is free";
        there += fh_count_bits(blocks | fh_load(&heap->free[w]));
    }
    return there;
}

void fh_model_begin_heaps(void) {
    parent = fh_heap_create(&(fh_heap_plan){.name = "parent"});
    heap = fh_heap_create(&(fh_heap_plan){.name = "heap", .parent = parent});
    fh_use_open(heap);
    fh_store(&ends, 0);
    const char *none;
    units = units_there(&none);
}

/* Blocks are taken from extents from now on, small ones too. */
void fh_model_heap_grown(void) {
    fh_store(&heap->grown, 1);
}

/* It is as large as heaps with stripes are, for a moment. */
void fh_model_heap_stripes(void) {
    uint64_t charged = fh_load(&heap->charged);
    fh_store(&heap->charged, FH_STRIPES_FROM);
    fh_stripes_begin(heap);
    fh_store(&heap->charged, charged + FH_SLOT_SIZE);
    FH_ASSERT(fh_load(&heap->stripes));
}

/* It is a bounded one of so many slabs. */
void fh_model_heap_bounded(size_t slabs) {
    fh_heap_end(heap);
    heap = fh_heap_create(&(fh_heap_plan){.name = "heap",
                                          .parent = parent,
                                          .hard = (slabs + 2) * FH_SLOT_SIZE,
                                          .flags = FH_HEAP_IS_BOUNDED | FH_HEAP_IS_POPULATED});
    fh_use_open(heap);
    const char *none;
    units = units_there(&none);
}

void fh_model_heap_leave(void) {
    fh_hook_ticket_ends(fh_own());
}

/* From now on the parent has room for so many slots. Returns the word that the explorer watches, and in *most its bound. */
fh_word *fh_model_heap_limit(size_t more, uint64_t *most) {
    *most = fh_load(&parent->charged) + more * FH_SLOT_SIZE;
    fh_store(&parent->hard, *most);
    return &parent->charged;
}

void *fh_model_heap_take(size_t n) {
    bool clean;
    return fh_heap_take(heap, FH_MIN_ALIGN, n, &clean);
}

void fh_model_heap_free(void *p) {
    uint64_t quick = fh_load(&fh_slab_of(p)->quick);
    if (quick)
        fh_hook_heap_free_quick(quick, p);
    else
        fh_hook_heap_free("free", (const void *)fh_heap_word(p), p);
}

/* The two as in a checked build, where a free that comes too late is refused, and an end that comes too early. */
bool fh_model_heap_free_in_use(void *p) {
    const fh_owned *o = fh_owned_at(p);
    fh_word *use = o ? fh_use_begin_block("free", p, o) : NULL;
    if (!use) return false;
    FH_ASSERT(!fh_load(&ends));
    fh_heap_give("free", o, p);
    FH_ASSERT(!fh_load(&ends));
    fh_use_end(use);
    return true;
}

void fh_model_heap_end(void) {
    if (!fh_use_close("fh_heap_destroy", heap)) return;
    fh_store(&ends, 1);
    if (!fh_heap_end(heap)) fh_use_open(heap);
}

static void add(void *block, size_t size, void *arg) {
    (void)block, (void)size;
    ++*(size_t *)arg;
}

/* How often an extent is on that stack of its list. */
static unsigned times_on(fh_stack_kind kind, const fh_extent *e) {
    unsigned times = 0;
    const fh_extent *at = fh_stack_top(fh_load(&heap->stack[kind][e->list]));
    for (unsigned most = 8; at && most > 0; most--, at = fh_stack_top(fh_load(&at->below[kind]))) times += at == e;
    return times;
}

static bool has_free(const fh_extent *e) {
    unsigned w = 0;
    while (w < e->words && !fh_load(&e->free[w])) w++;
    return w < e->words;
}

/* How often a block waits in a stripe. */
static unsigned times_kept(const void *p, unsigned c) {
    unsigned times = 0;
    uint64_t stripes = fh_load(&heap->stripes);
    for (unsigned i = 0; stripes && c <= FH_STRIPE_LAST && i < FH_STRIPES; i++) {
        const fh_stripe *s = fh_stripe_of(stripes, i * FH_STRIPE_SIZE);
        if (!fh_load(&s->ready)) continue;
        const uint64_t *at = (const uint64_t *)(const void *)((const char *)s + s->bin[c].begin);
        const uint64_t *top = (const uint64_t *)(const void *)((const char *)s + s->bin[c].top);
        for (; at < top; at++) times += fh_place_block(*at) == p;
    }
    return times;
}

/* Each block is free, in one stripe, or the program's. */
static void check_blocks(const fh_extent *e, const char **wrong) {
    for (unsigned i = (unsigned)e->begin; i < e->blocks; i++) {
        unsigned free = fh_load(&e->free[i / 64]) >> i % 64 & 1, out = fh_byte_load(fh_extent_out(e, i));
        unsigned times = free + out + times_kept((const char *)e + i * (size_t)fh_class_size(e->c), e->c);
        if (times == 0) *wrong = "a block of an extent is lost";
        if (times > 1) *wrong = "a block of an extent is in two places";
    }
}

/* Live blocks of the heap, or SIZE_MAX: there is none. *wrong names the first of the books that is off. */
size_t fh_model_heap_books(const char **wrong) {
    size_t live = 0, bytes = FH_SLOT_SIZE;
    *wrong = NULL;
    /* It has ended, or is of an earlier scenario of this thread. */
    if (!fh_heap_exists(heap)) return SIZE_MAX;
    size_t of_bounded = 0;
    if (fh_heap_is_bounded(heap)) { /* whose walk is by changes */
        *wrong = fh_model_bounded_books(heap->bounded, &of_bounded, &live);
        bytes += of_bounded;
    } else {
        fh_heap_each(heap, add, &live);
    }
    for (unsigned list = 1; list < FH_HEAP_LISTS; list++) {
        for (fh_extent *e = (fh_extent *)(uintptr_t)fh_load(&heap->list[list]); e; e = e->next) {
            uint64_t retired = fh_load(&e->retired);
            if (retired > 1) *wrong = "an extent is neither in use nor retired";
            for (unsigned w = 0; w < e->words && retired; w++)
                if (fh_load(&e->free[w])) *wrong = "a retired extent has free blocks";
            if (times_on(FH_STACK_OPEN, e) != fh_load(&e->has))
                *wrong = "an extent is on the stack, and its word says else";
            if (!retired && has_free(e) && !fh_load(&e->has)) *wrong = "an extent with a free block is forgotten";
            if (times_on(FH_STACK_IDLE, e) != retired) *wrong = "a retired extent is forgotten";
            if (!retired) check_blocks(e, wrong);
            if (!retired) bytes += fh_class_table[e->c].slots * FH_SLOT_SIZE;
        }
    }
    if (fh_load(&heap->stripes)) bytes += FH_SLOT_SIZE;
    /* Each unit behind the header is free, or of one live block. */
    if (units_there(wrong) != units) *wrong = "a unit is lost";
    if (fh_load(&heap->charged) != bytes) *wrong = "the account is not what the heap has";
    if (fh_load(&parent->charged) != bytes + FH_SLOT_SIZE) *wrong = "the parent's account is not what is below it";
    return live;
}
