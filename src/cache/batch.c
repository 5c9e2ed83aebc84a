/* Many blocks in one call. What a single call does once for its block, the bin's top in memory and the thread's words, is done
 * once for all that come from one magazine.
 *
 * The bin's top moves first and the places are cleared after it, as in fh_bin_pop; a free writes the places first. So a thread
 * that is interrupted in between for good loses blocks, and none is anywhere twice. */
#include "base/assert.h"
#include "cache/cache.h"
#include "cache/observed.h"

#include <string.h>

/* No instruction: what is before it is in memory before what follows, for a signal handler of this thread. */
static inline void then(void) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* How many blocks the loaded magazine of class c has: of the bins that malloc sees, so none of an observed thread. */
static size_t loaded_blocks(const fh_thread *t, unsigned c) {
    const fh_magazine *m = t->rack[c].loaded;
    return m && fh_bins() == t->bin ? (size_t)(t->bin[c].top - m->block) : 0;
}

/* Takes the n blocks on top of a bin that has as many, in the order in which they lie there: that is a copy. */
static void pop_many(fh_bin *bin, size_t n, void **out) {
    void **first = bin->top - n;
    bin->top = first;
    then();
    memcpy(out, first, n * sizeof *first);
    memset(first, 0, n * sizeof *first);
    for (size_t i = 0; i < n; i++) FH_ASSERT_COSTLY(out[i] != NULL);
}

size_t fh_alloc_batch(size_t n, size_t count, void **out) {
    unsigned c = n ? fh_class_of(n) : FH_CLASS_SPECIAL;
    size_t done = 0;
    while (done < count) {
        fh_thread *t = fh_own();
        size_t has = loaded_blocks(t, c), more = has < count - done ? has : count - done;
        if (more) pop_many(&t->bin[c], more, out + done);
        done += more;
        if (done == count) break;
        void *p = fh_alloc(n); /* which fills the bin */
        if (FH_UNLIKELY(!p)) break;
        out[done++] = p;
    }
    return done;
}

/* Puts p to `top`, unless p seems to be free. */
static inline bool put(fh_bin *bins, uintptr_t begin, void **top, void *p) {
    if (FH_UNLIKELY((uintptr_t)p - begin >= FH_SLOT_SIZE)) return false;
    size_t at = fh_place_index(p);
    if (FH_UNLIKELY(fh_place_holds(fh_place_near(top, fh_last_place(bins, at)), p))) return false;
    FH_HIDE(at);
    *fh_last_place(bins, at) = (uint16_t)(uintptr_t)top;
    *top = p;
    return true;
}

/* Puts four blocks to `top`; returns how many came before one that seems to be free. */
static inline size_t put_four(fh_bin *bins, uintptr_t begin, void **top, void *const *blocks) {
    if (!put(bins, begin, top, blocks[0])) return 0;
    if (!put(bins, begin, top + 1, blocks[1])) return 1;
    if (!put(bins, begin, top + 2, blocks[2])) return 2;
    return put(bins, begin, top + 3, blocks[3]) ? 4 : 3;
}

/* Pushes the first of the blocks and those behind it that are in the same 64 KiB, and so of its class; returns how many these
 * are. 0: the first one is to be freed by itself, because it is special, its bin is full, it seems to be free, or the
 * thread is not watched for double frees. */
static size_t push_many(void *const *blocks, size_t count) {
    fh_bin *bins = fh_release_bins();
    uintptr_t base = fh_window_base(), slot = ((uintptr_t)blocks[0] - base) >> FH_SLOT_SHIFT;
    uintptr_t begin = base + (slot << FH_SLOT_SHIFT);
    fh_bin *bin = &bins[fh_class_of_slot(base, slot, ((const fh_row_head *)bins)[-1].watched_slots)];
    void **top = bin->top;
    size_t room = (size_t)(bin->end - top), n = room < count ? room : count, done = 0, more = 4;
    while (more == 4 && n - done >= 4) {
        more = put_four(bins, begin, top + done, blocks + done);
        done += more;
    }
    while (more == 4 && done < n && put(bins, begin, top + done, blocks[done])) done++;
    if (done == 0) return 0; /* the bin may be in read-only memory */
    then();
    bin->top = top + done;
    then();
    return done;
}

void fh_release_batch(void *const *blocks, size_t count) {
    for (size_t done = 0; done < count;) {
        size_t n = FH_CHECKED ? 0 : push_many(blocks + done, count - done);
        if (n == 0) fh_release(blocks[done]);
        done += n ? n : 1;
    }
}
