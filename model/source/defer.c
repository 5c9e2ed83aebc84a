/* What scenarios call of the deferred free: blocks behind shared words, as in a structure without a lock. */
#include "cache/cache.h"
#include "heap/defer.h"

#define LINKS 3u
#define SIZE 48u
#define BATCH 4096u

/* What the readers read through. */
static fh_word links[LINKS];

/* Told of each block when it is freed. The same for all explorations. */
static void (*freed)(void *p);

/* heap/defer.c calls it (build.rs). */
void fh_model_defer_freed(void **block, size_t n);
void fh_model_defer_freed(void **block, size_t n) {
    for (size_t i = 0; i < n; i++) freed(block[i]);
}

void fh_model_begin_defer(void (*frees)(void *p)) {
    freed = frees;
}

/* The blocks that the calling thread will need are in its cache from now on. */
void fh_model_defer_warm(void) {
    void *small = fh_alloc(SIZE), *large = fh_alloc(BATCH);
    fh_release(small);
    fh_release(large);
}

/* A new block at a link. */
void *fh_model_defer_publish(unsigned i) {
    void *p = fh_alloc(SIZE);
    fh_store_release(&links[i % LINKS], (uint64_t)(uintptr_t)p);
    return p;
}

/* What a reader finds there. */
void *fh_model_defer_find(unsigned i) {
    return (void *)(uintptr_t)fh_load_acquire(&links[i % LINKS]); // NOLINT(performance-no-int-to-ptr)
}

/* Takes the block out of the structure, and defers it. One thread does so for each link. */
bool fh_model_defer_unlink(unsigned i) {
    void *p = fh_model_defer_find(i);
    fh_store(&links[i % LINKS], 0);
    return fh_defer(p, SIZE);
}
