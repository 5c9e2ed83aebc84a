/* Of tests/proof/stall.c: pages inside of slabs that are purged. */
#include "stall.h"

/* Slabs of which the ends were never handed out, where written blocks were before. A trim purges these ends. */
void stall_ends_of_slabs(void) {
    enum { HOLES = 6, SIZE = 40000, SLAB = 25, MIB = 1 << 20 };
    char *hole[HOLES];
    void *block[2 * SLAB + 1];
    __atomic_fetch_add(&stall_live, HOLES * MIB, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < HOLES; i++) {
        hole[i] = fh_aligned_alloc(MIB, MIB);
        CHECK(hole[i] != NULL, "no memory");
        memset(hole[i], 1, MIB);
    }
    /* Pieces as long as a slab, so that the next ones but the first of the class are there. */
    for (unsigned i = 0; i < HOLES; i += 2) fh_free(hole[i]);
    fh_thread_flush();
    for (unsigned i = 0; i <= 2 * SLAB; i++) block[i] = get(SIZE);
    for (unsigned i = 0; i < 2 * SLAB; i++) drop(block[i], SIZE);
    fh_malloc_trim(0);
    drop(block[2 * SLAB], SIZE);
    for (unsigned i = 1; i < HOLES; i += 2) fh_free(hole[i]);
    __atomic_fetch_sub(&stall_live, HOLES * MIB, __ATOMIC_RELAXED);
}
