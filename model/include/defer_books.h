/* What waits in the deferred free, for model/source/defer.c. Comes into the library's own heap/defer.c (build.rs), whose records and
 * words it reads. All threads are over. */
#ifndef FH_MODEL_DEFER_BOOKS_H
#define FH_MODEL_DEFER_BOOKS_H

static uint64_t told(const batch *b, size_t count, void (*waits)(void *p)) {
    for (size_t i = 0; i < count; i++) waits(b->block[i]);
    return b->bytes;
}

/* Says each block that waits, and returns what is wrong with the books, or NULL. */
const char *fh_model_defer_waiting_blocks(void (*waits)(void *p));
const char *fh_model_defer_waiting_blocks(void (*waits)(void *p)) {
    uint64_t bytes = 0;
    const char *wrong = NULL;
    for (size_t i = 0; queue() && i < SLOTS; i++) {
        const batch *b = (const batch *)(uintptr_t)fh_load(&queue()[i]);
        if (b) bytes += told(b, b->count, waits);
    }
    for (const participant *r = NULL; (r = next_of(r)) != NULL;) {
        for (const batch *b = r->kept; b; b = b->next) bytes += told(b, b->count, waits);
        if (r->open) (void)told(r->open, r->hit ? (size_t)(r->hit->top - r->open->block) : r->open->count, waits);
        if (fh_load(&r->taken) != (r->hit != NULL))
            wrong = "a record is taken by none, or by one that has no place for hits";
    }
    if (bytes != fh_load(&backlog)) wrong = "the backlog is not the bytes of what was handed in";
    return wrong;
}

#endif
