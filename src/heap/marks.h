/* Marks: a set of numbers below a fixed one, as bits in two levels. To find one, to set and to clear take a bounded number of steps,
 * whatever other threads do.
 *
 *     top     bit = word    ┐ set while the word below is not 0
 *     word    bit = number  ┘
 *
 *     set      or the bit in, then or the bit above in, whatever it was
 *     clear    and the bit out; if the word is 0 then, and the bit above out, read the word again, and set that bit again if it is not 0
 *
 * Memory orders: each change is a read-modify-write that releases (set) or acquires (clear). So a clear of the upper bit that comes after
 * the set of it has synchronised with it, and then reads the lower bit that was set before. A clear that comes before it is
 * undone by it. In both cases no number is hidden for longer than one of them is in the middle. A mark that is set too many is found,
 * leads nowhere, and is cleared by who found it.
 *
 * The same holds for what a mark stands for: who sets it has made it so before; who clears it looks again afterwards, and sets it
 * again if it is so. No result of a change is used, because on x86-64 that would be a loop.
 *
 * Thread-safety: any thread. Progress: wait-free, each with the bound that it names. */
#ifndef FH_HEAP_MARKS_H
#define FH_HEAP_MARKS_H

#include "base/atomic.h"
#include "base/bits.h"

#define FH_MARKS_NONE (~(size_t)0)

typedef struct {
    fh_word *top, *word;
    unsigned tops; /* words of the upper level */
} fh_marks;

/* A call has so many steps, of some eight instructions each. It takes what it costs off, and stops where it would begin again when
 * none are left. */
typedef int fh_steps;

static inline bool fh_spend(fh_steps *left, int steps) {
    return (*left -= steps) > 0;
}

/* Numbers of one word. Cost: two instructions on memory. */
static inline void fh_marks_set_bits(const fh_marks *m, size_t w, uint64_t bits) {
    fh_or_release(&m->word[w], bits);
    fh_or_release(&m->top[w / 64], UINT64_C(1) << w % 64);
}

static inline void fh_marks_set(const fh_marks *m, size_t number) {
    fh_marks_set_bits(m, number / 64, UINT64_C(1) << number % 64);
}

/* Word w was seen to be 0. */
static inline void fh_marks_lower(const fh_marks *m, size_t w) {
    fh_and_acq_rel(&m->top[w / 64], ~(UINT64_C(1) << w % 64));
    if (fh_load(&m->word[w])) fh_or_release(&m->top[w / 64], UINT64_C(1) << w % 64);
}

/* The caller looks again, afterwards, at what they stand for. Cost: three instructions on memory at most, and two loads. */
static inline void fh_marks_clear_bits(const fh_marks *m, size_t w, uint64_t bits) {
    fh_and_acq_rel(&m->word[w], ~bits);
    if (!fh_load(&m->word[w])) fh_marks_lower(m, w);
}

static inline void fh_marks_clear(const fh_marks *m, size_t number) {
    fh_marks_clear_bits(m, number / 64, UINT64_C(1) << number % 64);
}

/* The first word from w on, round the end, in which a number is marked, and its bits. FH_MARKS_NONE: there is none, or the steps are
 * used up. Acquire: what was done before the mark was set. */
static inline size_t fh_marks_find_word(const fh_marks *m, size_t w, uint64_t *bits, fh_steps *left) {
    uint64_t from = ~UINT64_C(0) << w % 64;
    size_t t = w / 64;
    *left -= 4;
    for (unsigned i = 0; i <= m->tops; i++, from = ~UINT64_C(0)) { /* the first one twice */
        for (uint64_t words = fh_load_acquire(&m->top[t]) & from; words; words &= words - 1) {
            size_t found = t * 64 + fh_lowest_bit(words);
            *bits = fh_load_acquire(&m->word[found]);
            if (*bits) return found;
            fh_marks_lower(m, found);
            if (!fh_spend(left, 3)) return FH_MARKS_NONE;
        }
        if (!fh_spend(left, 1)) return FH_MARKS_NONE;
        if (++t == m->tops) t = 0;
    }
    return FH_MARKS_NONE;
}

/* A number that is marked, as above: of the word that `from` is in, or a later one. */
static inline size_t fh_marks_find(const fh_marks *m, size_t from, fh_steps *left) {
    uint64_t bits;
    size_t w = fh_marks_find_word(m, from / 64, &bits, left);
    return w == FH_MARKS_NONE ? w : w * 64 + fh_lowest_bit(bits);
}

#endif
