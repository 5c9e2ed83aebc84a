/* The books of a bounded heap, for model/source/heaps.c. Comes into the library's own heap/bounded.c (build.rs). All threads are
 * over: nobody holds on to a slab who has no block, and what has room is marked. */
#ifndef FH_MODEL_BOUNDED_BOOKS_H
#define FH_MODEL_BOUNDED_BOOKS_H

static bool is_marked(const fh_bounded *b, unsigned number, size_t i) {
    fh_marks m = marks_of(b, number);
    bool above = fh_load(&m.top[i / 64 / 64]) >> i / 64 % 64 & 1;
    return above && fh_load(&m.word[i / 64]) >> i % 64 & 1;
}

static size_t live_in(const fh_bounded *b, size_t i, unsigned c) {
    size_t live = 0;
    for (unsigned w = 0; w * 64 < blocks_of(c); w++)
        live += fh_count_bits(~fh_load(&b->slab[i].free[w]) & fh_low_mask(blocks_of(c) - w * 64));
    return live;
}

/* Bytes of the heap that are not in its first slot, and live blocks. What is wrong, or NULL. */
const char *fh_model_bounded_books(const fh_bounded *b, size_t *bytes, size_t *live);
const char *fh_model_bounded_books(const fh_bounded *b, size_t *bytes, size_t *live) {
    size_t in_run = 0;
    fh_bounded_memory(b, bytes);
    /* Behind the seats are the marks. */
    if (place_of_thread() >= PLACES) return "a thread has a seat behind all seats";
    for (size_t i = 0; i < b->slabs; i++) {
        uint64_t state = fh_load(&b->slab[i].state), holders = state & HOLDERS;
        unsigned kind = kind_of(state);
        if (kind == BEING_MADE) return "a slab is being made for ever";
        if (holders == 0 && !is_marked(b, 0, i)) return "an empty slab is forgotten";
        size_t here = is_class(kind) ? live_in(b, i, kind) : 0;
        if (is_class(kind) && holders != here) return "who holds on to a slab has no block of it";
        if (is_class(kind) && holders < blocks_of(kind) && !is_marked(b, kind, i))
            return "a slab with room is forgotten";
        if (kind == OF_RUN && state >> LENGTH_SHIFT) in_run = (size_t)(state >> LENGTH_SHIFT);
        if (kind == OF_RUN && (holders != 1 || !in_run)) return "a slab is of a run that is none";
        if (kind == OF_RUN && state >> LENGTH_SHIFT) here = !(fh_load(&b->slab[i].free[0]) & 1);
        *live += here;
        if (kind == OF_RUN) in_run--;
        if (kind == 0 && holders) return "somebody holds on to a slab of no kind";
    }
    return NULL;
}

#endif
