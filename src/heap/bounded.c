#include "heap/bounded.h"

#include "base/assert.h"
#include "base/classes.h"
#include "heap/claim.h"
#include "heap/marks.h"
#include "heap/valid.h"
#include "store/window.h"

/* Steps of a call. What it does last before it looks at them may take forty more. */
#define STEPS 140
/* Of one for a run, whose price is in them. With 140 it often did not look at all words of a heap of 256 MiB. */
#define RUN_STEPS 180

/* Threads begin to look at so many places. */
#define PLACES 16u
#define BLOCK_MOST ((size_t)32 << 10)
#define CLASSES 105u /* up to that of BLOCK_MOST */
#define RUN_MOST (FH_BOUNDED_LARGEST / FH_SLOT_SIZE)

/* state:  63     48 47     40 39    32 31       0
 *         │   0    │ length  │ kind   │ holders │     length of a run, in its first slab */
#define HOLDERS UINT64_C(0xFFFFFFFF)
#define KIND_SHIFT 32
#define LENGTH_SHIFT 40
#define OF_RUN 254u
#define BEING_MADE 255u

typedef struct {
    fh_word state;
    fh_word from; /* hint: the word in which a block was freed last */
    fh_word free[FH_SLAB_WORDS];
    uint64_t pad[6]; /* an odd number of cache lines */
} bounded_slab;

struct fh_bounded {
    fh_owned owned;
    char *begin; /* of the first slab */
    size_t slabs;
    unsigned words, tops; /* of each of the marks */
    fh_word *marks;       /* of empty slabs, then of those with room for each class */
    bounded_slab *slab;
    /* Hint: the slab in which a block was found last, plus 1. Of class 0: the word of marks in which a run was, plus 1. */
    fh_word seat[PLACES][CLASSES];
};

_Static_assert(sizeof(bounded_slab) == 9 * FH_CACHE_LINE, "the states of neighbours fall into different cache sets");
_Static_assert(offsetof(struct fh_bounded, begin) == 16 && offsetof(struct fh_bounded, slabs) == 24 &&
                   offsetof(struct fh_bounded, slab) == 48 && offsetof(bounded_slab, free) == 16,
               "the command reads it, see observe/records.c");
_Static_assert(sizeof(struct fh_bounded) % sizeof(fh_word) == 0, "marks are behind it");
_Static_assert(PLACES <= 16, "four bits, see place_of_thread; and four slabs of a word each, see own_slabs");

static unsigned kind_of(uint64_t state) {
    return (unsigned)(state >> KIND_SHIFT) & 0xFF;
}

static uint64_t state_of(unsigned kind, uint64_t length) {
    return (uint64_t)kind << KIND_SHIFT | length << LENGTH_SHIFT;
}

static bool is_class(unsigned kind) {
    return kind - 1 < OF_RUN - 1;
}

static unsigned blocks_of(unsigned c) {
    return fh_block_index(c, FH_SLOT_SIZE);
}

/* The number of a set of marks: 0 for empty slabs, else a class. */
static fh_marks marks_of(const fh_bounded *b, unsigned number) {
    fh_word *top = b->marks + number * (size_t)(b->tops + b->words);
    return (fh_marks){top, top + b->tops, b->tops};
}

/* What a call looks for. */
typedef struct {
    fh_bounded *b;
    unsigned c;      /* the class of the block, or of a run its length */
    unsigned blocks; /* of a slab of that class */
    unsigned place;
    fh_steps left;
} search;

/* ── Marks and what they stand for ───────────────────────────────────────────────────────────────────────────────── */

static void mark(const fh_bounded *b, unsigned number, size_t i) {
    fh_marks m = marks_of(b, number);
    fh_marks_set(&m, i);
}

/* The slab has no room for a block of class c, as was seen. */
static void forget_room(const fh_bounded *b, unsigned c, size_t i) {
    fh_marks m = marks_of(b, c);
    fh_marks_clear(&m, i);
    uint64_t now = fh_load(&b->slab[i].state);
    if (kind_of(now) == c && (now & HOLDERS) < blocks_of(c)) fh_marks_set(&m, i);
}

/* The slab is not empty, as was seen. */
static void forget_empty(const fh_bounded *b, size_t i) {
    fh_marks m = marks_of(b, 0);
    fh_marks_clear(&m, i);
    uint64_t now = fh_load(&b->slab[i].state);
    if ((now & HOLDERS) == 0) fh_marks_set(&m, i);
}

/* ── Holders ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void leave(const fh_bounded *b, size_t i) {
    uint64_t was = fh_sub_acq_rel(&b->slab[i].state, 1);
    unsigned kind = kind_of(was);
    if (is_class(kind) && (was & HOLDERS) == blocks_of(kind)) mark(b, kind, i);
    if ((was & HOLDERS) == 1) mark(b, 0, i);
}

/* The caller may take a block of class c there. */
static bool enter(search *s, size_t i) {
    uint64_t was = fh_add_acq_rel(&s->b->slab[i].state, 1), holders = was & HOLDERS;
    s->left -= 4;
    if (FH_UNLIKELY(kind_of(was) != s->c || holders >= s->blocks)) {
        s->left -= 10;
        leave(s->b, i);
        forget_room(s->b, s->c, i);
        return false;
    }
    if (holders == 0) {
        s->left -= 4;
        forget_empty(s->b, i);
    }
    if (holders + 1 == s->blocks) {
        s->left -= 5;
        forget_room(s->b, s->c, i);
    }
    return true;
}

/* ── Blocks ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A block of a slab that the caller holds on to. NULL: the others were faster, and it has left. */
static void *take_block(search *s, size_t i) {
    bounded_slab *at = &s->b->slab[i];
    unsigned words = (s->blocks + 63) / 64, w = (unsigned)fh_load(&at->from);
    s->left -= 3;
    if (w >= words) w = 0; /* of a class that it had before */
    /* Twice, as a block may have been freed behind where this looked, and another one taken ahead. */
    for (unsigned looks = 0; looks < 2 * words; looks++) {
        for (uint64_t seen = fh_load(&at->free[w]); seen; seen &= seen - 1) {
            unsigned bit = fh_lowest_bit(seen);
            if (fh_bit_clear(&at->free[w], bit))
                return s->b->begin + i * FH_SLOT_SIZE + (w * 64 + bit) * fh_class_size(s->c);
            if (!fh_spend(&s->left, 1)) break;
        }
        if (!fh_spend(&s->left, 1)) break;
        if (++w == words) w = 0;
    }
    s->left -= 3;
    leave(s->b, i);
    return NULL;
}

/* Makes an empty slab the caller's, who holds on to it, and is to clear its mark. It is shown as one of that kind later; `same`: that
 * it was. */
static bool make(search *s, size_t i, unsigned kind, bool *same) {
    uint64_t was = fh_load(&s->b->slab[i].state);
    unsigned before = kind_of(was);
    *same = before == kind;
    s->left -= 4;
    if ((was & HOLDERS) || before >= OF_RUN) return false;
    if (!fh_cas_acq_rel(&s->b->slab[i].state, &was, state_of(BEING_MADE, 0) | 1)) return false;
    if (!before || *same) return true;
    s->left -= 3;
    fh_marks m = marks_of(s->b, before);
    fh_marks_clear(&m, i); /* it cannot have room again meanwhile */
    return true;
}

/* Others may enter from now on. */
static void show(const fh_bounded *b, size_t i, unsigned kind, uint64_t length) {
    /* release, by addition: others count themselves there at any time. */
    fh_add_acq_rel(&b->slab[i].state, state_of(kind, length) - state_of(BEING_MADE, 0));
}

static void free_all(search *s, bounded_slab *at) {
    s->left -= (int)s->blocks / 64 + 2;
    for (unsigned w = 0; w * 64 < s->blocks; w++) fh_store(&at->free[w], fh_low_mask(s->blocks - w * 64));
    fh_store(&at->from, 0);
}

/* Where the caller begins to look, if it is to be elsewhere than others. */
static size_t near(const search *s) {
    return s->place * s->b->slabs / PLACES;
}

/* A block of the lowest empty slab, which is of the class from now on. */
static void *take_empty(search *s) {
    fh_marks m = marks_of(s->b, 0);
    bool same;
    for (size_t from = 0; s->left > 0; from = near(s)) {
        size_t i = fh_marks_find(&m, from, &s->left);
        if (i == FH_MARKS_NONE) return NULL;
        s->left -= 4;
        if (!make(s, i, s->c, &same)) {
            forget_empty(s->b, i);
            continue;
        }
        fh_marks_clear(&m, i);
        if (!same) free_all(s, &s->b->slab[i]);
        show(s->b, i, s->c, 0);
        mark(s->b, s->c, i);
        void *p = take_block(s, i);
        if (p) fh_store(&s->b->seat[s->place][s->c], i + 1);
        return p;
    }
    return NULL;
}

static void *take_roomy(search *s) {
    fh_marks m = marks_of(s->b, s->c);
    while (s->left > 0) {
        size_t i = fh_marks_find(&m, near(s), &s->left);
        if (i == FH_MARKS_NONE) return NULL;
        void *p = enter(s, i) ? take_block(s, i) : NULL;
        if (p) fh_store(&s->b->seat[s->place][s->c], i + 1);
        if (p) return p;
    }
    return NULL;
}

/* Half of the slabs are empty, as far as one word of marks says: then a new thread takes one for itself, and shares none. */
static bool is_spacious(search *s) {
    fh_marks m = marks_of(s->b, 0);
    size_t w = s->b->words / 2, slabs = s->b->slabs - w * 64;
    s->left -= 4;
    return fh_count_bits(fh_load(&m.word[w])) * 2 > (slabs < 64 ? slabs : 64);
}

static void *take_small(search *s) {
    size_t seat = (size_t)fh_load(&s->b->seat[s->place][s->c]);
    void *p = NULL;
    if (seat && enter(s, seat - 1)) p = take_block(s, seat - 1);
    if (!seat && is_spacious(s)) p = take_empty(s);
    /* Twice: a slab may have got room, or become empty, behind where this looked. */
    for (unsigned round = 0; !p && round < 2 && s->left > 0; round++) {
        p = take_roomy(s);
        if (!p && s->left > 0) p = take_empty(s);
    }
    return p;
}

/* ── Runs ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* No kind any more, and one holder fewer. True: it is empty. */
static bool unmake(const fh_bounded *b, size_t i, unsigned kind, uint64_t length) {
    return (fh_sub_acq_rel(&b->slab[i].state, state_of(kind, length) + 1) & HOLDERS) == 1;
}

/* Bits, from that slab's on, of those of n slabs of a word which are empty now. */
static uint64_t unmake_all(const fh_bounded *b, size_t first, unsigned n, unsigned kind, unsigned length) {
    uint64_t empty = 0;
    for (unsigned i = 0; i < n; i++)
        if (unmake(b, first + i, kind, i == 0 ? length : 0)) empty |= UINT64_C(1) << (first + i) % 64;
    return empty;
}

/* n slabs of a word. NULL: one of them is not empty any more, and its mark is cleared. */
static void *make_run(search *s, size_t first, unsigned n) {
    fh_bounded *b = s->b;
    fh_marks m = marks_of(b, 0);
    unsigned made = 0;
    bool same;
    while (made < n && make(s, first + made, OF_RUN, &same)) made++;
    s->left -= 8 + 2 * (int)made;
    fh_marks_clear_bits(&m, first / 64, fh_run_mask((unsigned)(first % 64), made));
    if (made < n) {
        s->left -= 6;
        forget_empty(b, first + made);
        uint64_t empty = unmake_all(b, first, made, BEING_MADE, 0);
        if (empty) fh_marks_set_bits(&m, first / 64, empty);
        return NULL;
    }
    fh_store(&b->slab[first].free[0], 0);
    for (unsigned i = n; i-- > 0;) show(b, first + i, OF_RUN, i == 0 ? n : 0);
    return b->begin + first * FH_SLOT_SIZE;
}

/* Bits of any word at which a block with that alignment may begin. */
static uint64_t aligned_slabs(const fh_bounded *b, size_t align) {
    size_t step = align / FH_SLOT_SIZE;
    if (step <= 1) return ~UINT64_C(0);
    size_t at = (uintptr_t)b->begin / FH_SLOT_SIZE % step;
    return ~UINT64_C(0) / ((UINT64_C(1) << step) - 1) << (step - at) % step;
}

/* Bits of a word at which the caller looks first, if it is to be elsewhere than others. */
static uint64_t own_slabs(const search *s) {
    return ~UINT64_C(0) << s->place * 4;
}

/* Where to go on after word w, in which others were met: first the caller's own part, then across all words. */
static size_t elsewhere(const search *s, size_t w, unsigned met) {
    size_t own = near(s) / 64;
    return met == 0 && own != w ? own : w + s->b->words * 5 / 8 + 1;
}

/* fh_run_starts with its shifts worked out once for all words: from the places where a run of one slab may begin to those of a
 * longer one. */
typedef struct {
    unsigned step[4];
} run_steps;

_Static_assert(RUN_MOST <= 16, "four steps reach as far");

static run_steps steps_to(unsigned length) {
    run_steps all = {{0}};
    for (unsigned i = 0, have = 1; have < length; have += all.step[i++])
        all.step[i] = have < length - have ? have : length - have;
    return all;
}

static inline uint64_t run_starts(uint64_t bits, const run_steps *all) {
    bits &= bits >> all->step[0];
    bits &= bits >> all->step[1];
    bits &= bits >> all->step[2];
    return bits & bits >> all->step[3];
}

/* Where a run may begin. */
typedef struct {
    fh_marks marks; /* of empty slabs */
    size_t words, looks;
    uint64_t allowed;
    run_steps steps;
    int price; /* of taking what was found */
} run_search;

/* The first word from w on, round the end, in which a run may begin, and where. FH_MARKS_NONE: there is none, or too few steps are left.
 * A call looks at many words. So each look has few instructions, some thirty, and keeps what it needs in registers. */
static size_t find_starts(run_search *r, size_t w, uint64_t *starts, fh_steps *left) {
    size_t words = r->words, looks = r->looks;
    uint64_t bits = 0;
    for (; looks > 0 && *left > r->price; looks--) {
        bits = fh_load_acquire(&r->marks.word[w]);
        if (FH_UNLIKELY(!bits)) {
            w = fh_marks_find_word(&r->marks, w, &bits, left);
            if (w == FH_MARKS_NONE) return w;
        }
        bits = run_starts(bits, &r->steps) & r->allowed;
        *left -= 4;
        if (bits) break;
        if (++w == words) w = 0;
    }
    r->looks = looks;
    *starts = bits;
    return bits ? w : FH_MARKS_NONE;
}

/* s->c slabs in a row, of one word. Classes begin with the lowest slabs, and so runs begin in the middle. Who meets others there looks
 * elsewhere, and begins where it found some from then on. */
static void *take_run(search *s, size_t align) {
    size_t words = s->b->words;
    run_search r = {marks_of(s->b, 0),          words,          words + PLACES,
                    aligned_slabs(s->b, align), steps_to(s->c), 12 + 7 * (int)s->c};
    fh_word *seat = &s->b->seat[s->place][0];
    size_t w = (size_t)fh_load(seat);
    uint64_t own = w ? own_slabs(s) : ~UINT64_C(0), starts;
    w = w ? w - 1 : words / 2;
    for (unsigned met = 0; (w = find_starts(&r, w, &starts, &s->left)) != FH_MARKS_NONE; met++) {
        unsigned at = fh_lowest_bit(starts & own ? starts & own : starts);
        void *p = make_run(s, w * 64 + at, s->c);
        if (p && met) fh_store(seat, w + 1);
        if (p) return p;
        w = elsewhere(s, w, met) % words;
        own = own_slabs(s);
    }
    return NULL;
}

static bool free_run(fh_bounded *b, size_t first, unsigned length) {
    fh_marks m = marks_of(b, 0);
    if (fh_bit_set(&b->slab[first].free[0], 0)) return false;
    uint64_t empty = unmake_all(b, first, length, OF_RUN, length);
    if (empty) fh_marks_set_bits(&m, first / 64, empty);
    return true;
}

/* ── All sizes ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The place of the calling thread. */
static unsigned place_of_thread(void) {
    return (unsigned)(fh_heap_this_thread() / FH_CACHE_LINE * UINT64_C(0x9E3779B97F4A7C15) >> 60) % PLACES;
}

/* As aligned, and of four sizes a doubling: a heap of few slabs is not to have them all of different classes. A multiple of the
 * alignment stays one. */
static size_t rounded(size_t align, size_t n) {
    n = fh_round_up(n ? n : 1, align);
    return n <= 64 ? n : fh_round_up(n, (size_t)1 << (fh_highest_bit(n - 1) - 2));
}

void *fh_bounded_take(fh_bounded *b, size_t align, size_t n) {
    if (n > FH_BOUNDED_LARGEST || align > FH_BOUNDED_LARGEST) return NULL;
    search s = {.b = b, .left = STEPS, .place = place_of_thread()};
    size_t all = n > BLOCK_MOST || align > BLOCK_MOST ? n : rounded(align, n);
    if (all > BLOCK_MOST || align > BLOCK_MOST) {
        s.c = all ? (unsigned)((all + FH_SLOT_SIZE - 1) / FH_SLOT_SIZE) : 1;
        s.left = RUN_STEPS;
        return take_run(&s, align);
    }
    s.c = fh_class_of(all);
    s.blocks = blocks_of(s.c);
    return take_small(&s);
}

/* The run of which a slab is a part. */
static void *run_around(const fh_bounded *b, size_t i, const void *p, size_t *size) {
    for (size_t back = 0; back < RUN_MOST && back <= i; back++) {
        uint64_t state = fh_load_acquire(&b->slab[i - back].state);
        if (kind_of(state) != OF_RUN) return NULL;
        size_t length = (size_t)(state >> LENGTH_SHIFT);
        if (!length) continue;
        char *begin = b->begin + (i - back) * FH_SLOT_SIZE;
        *size = length * FH_SLOT_SIZE;
        bool live = !(fh_load(&b->slab[i - back].free[0]) & 1);
        return live && (size_t)((const char *)p - begin) < *size ? begin : NULL;
    }
    return NULL;
}

void *fh_bounded_block(const fh_bounded *b, const void *p, size_t *size) {
    size_t offset = (size_t)((const char *)p - b->begin), i = offset / FH_SLOT_SIZE;
    if (i >= b->slabs) return NULL;
    unsigned kind = kind_of(fh_load_acquire(&b->slab[i].state));
    if (kind == OF_RUN) return run_around(b, i, p, size);
    if (!is_class(kind)) return NULL;
    unsigned block = fh_block_index(kind, offset % FH_SLOT_SIZE);
    if (block >= blocks_of(kind) || fh_load(&b->slab[i].free[block / 64]) >> block % 64 & 1) return NULL;
    *size = fh_class_size(kind);
    return b->begin + i * FH_SLOT_SIZE + block * *size;
}

bool fh_bounded_free(fh_bounded *b, void *p) {
    size_t offset = (size_t)((char *)p - b->begin), i = offset / FH_SLOT_SIZE, within = offset % FH_SLOT_SIZE;
    if (i >= b->slabs) return false;
    uint64_t state = fh_load(&b->slab[i].state); /* the block's own holder keeps its kind */
    unsigned kind = kind_of(state), length = (unsigned)(state >> LENGTH_SHIFT);
    if (kind == OF_RUN && length && within == 0) return free_run(b, i, length);
    if (!is_class(kind)) return false;
    unsigned block = fh_block_index(kind, within);
    if (block >= blocks_of(kind) || block * fh_class_size(kind) != within) return false;
    if (fh_bit_set(&b->slab[i].free[block / 64], block % 64)) return false;
    fh_store(&b->slab[i].from, block / 64);
    leave(b, i);
    return true;
}

/* ── Life ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Bytes behind the slabs, if there are so many. */
static size_t bytes_beside(size_t slabs, unsigned *words, unsigned *tops) {
    *words = (unsigned)((slabs + 63) / 64);
    *tops = (*words + 63) / 64;
    size_t bytes = sizeof(fh_bounded) + (size_t)CLASSES * (*words + *tops) * sizeof(fh_word);
    return fh_round_up(fh_round_up(bytes, FH_CACHE_LINE) + slabs * sizeof(bounded_slab), FH_SLOT_SIZE);
}

fh_bounded *fh_bounded_begin(fh_heap *h, fh_heap **full) {
    size_t room = (size_t)fh_load(&h->hard) / FH_SLOT_SIZE * FH_SLOT_SIZE - FH_SLOT_SIZE, slabs = room / FH_SLOT_SIZE;
    unsigned words, tops;
    bool clean;
    *full = NULL;
    while (slabs && slabs * FH_SLOT_SIZE + bytes_beside(slabs, &words, &tops) > room) slabs--;
    if (!slabs) return NULL;
    size_t bytes = slabs * FH_SLOT_SIZE + bytes_beside(slabs, &words, &tops);
    char *begin = fh_heap_claim(h, FH_SLOT_SIZE, bytes, bytes, &clean, full);
    if (!begin) return NULL;
    fh_bounded *b = (fh_bounded *)(void *)(begin + slabs * FH_SLOT_SIZE);
    b->owned = (fh_owned){h, FH_OWNED_BOUNDED};
    b->begin = begin;
    b->slabs = slabs;
    b->words = words;
    b->tops = tops;
    b->marks = (fh_word *)(void *)(b + 1);
    uintptr_t behind = (uintptr_t)(b->marks + (size_t)CLASSES * (words + tops));
    b->slab = (bounded_slab *)fh_round_up(behind, FH_CACHE_LINE);
    fh_bounded_clear(b);
    for (size_t i = 0; i < bytes / FH_SLOT_SIZE; i++)
        fh_store_release(&fh_slab_at(fh_slot_of(begin) + i)->heap,
                         (uintptr_t)b); /* what is there, before it is found */
    return b;
}

void *fh_bounded_memory(const fh_bounded *b, size_t *bytes) {
    unsigned words, tops;
    *bytes = b->slabs * FH_SLOT_SIZE + bytes_beside(b->slabs, &words, &tops);
    return b->begin;
}

void fh_bounded_clear(fh_bounded *b) {
    for (unsigned place = 0; place < PLACES; place++)
        for (unsigned c = 0; c < CLASSES; c++) fh_store(&b->seat[place][c], 0);
    for (size_t i = 0; i < (size_t)CLASSES * (b->words + b->tops); i++) fh_store(&b->marks[i], 0);
    for (size_t i = 0; i < b->slabs; i++) {
        fh_store(&b->slab[i].state, 0);
        fh_store(&b->slab[i].from, 0);
        mark(b, 0, i);
    }
}

/* ── The walk ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void each_of_class(const fh_bounded *b, size_t i, unsigned c, fh_heap_seen *see, void *arg) {
    unsigned blocks = blocks_of(c);
    for (unsigned w = 0; w * 64 < blocks; w++) {
        uint64_t live, ahead = fh_low_mask(blocks - w * 64);
        while ((live = ~fh_load_acquire(&b->slab[i].free[w]) & ahead) != 0) {
            unsigned at = fh_lowest_bit(live);
            ahead &= ~UINT64_C(1) << at;
            see(b->begin + i * FH_SLOT_SIZE + (w * 64 + at) * fh_class_size(c), fh_class_size(c), arg);
        }
    }
}

void fh_bounded_each(fh_bounded *b, fh_heap_seen *see, void *arg) {
    for (size_t i = 0; i < b->slabs; i++) {
        if (!(fh_load(&b->slab[i].state) & HOLDERS)) continue;
        /* Its kind stays while this holds on to it. */
        uint64_t state = fh_add_acq_rel(&b->slab[i].state, 1);
        size_t size;
        void *run = kind_of(state) == OF_RUN && state >> LENGTH_SHIFT
                        ? run_around(b, i, b->begin + i * FH_SLOT_SIZE, &size)
                        : NULL;
        if (is_class(kind_of(state))) each_of_class(b, i, kind_of(state), see, arg);
        if (run) see(run, size, arg);
        leave(b, i);
    }
}
