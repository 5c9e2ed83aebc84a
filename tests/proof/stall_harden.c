/* A thread is stopped in a partition: with blocks that hold pointers, and in a hardened program. Other threads go on there and
 * elsewhere. */
#include "stall.h"

#include "freehold/freehold.h"
#include "store/large.h"
#include "store/window.h"

/* What two threads of these have at most. And what waits after it was freed, in a hardened program. */
#define MOST ((size_t)16 << 20)
#define DELAYED ((size_t)26 << 20)

void stall_types_before(void) {
    __atomic_fetch_add(&stall_live, MOST, __ATOMIC_RELAXED);
}

/* Blocks with pointers of each kind, of which some grow; then all is returned, and taken again. */
void stall_types(void) {
    static const size_t sizes[] = {1, 40, 300, 3000, 20000, 60000, 100000, 1200000};
    void *block[sizeof sizes / sizeof *sizes][8];
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned n = sizes[i] > 50000 ? 2 : 8;
            for (unsigned k = 0; k < n; k++) block[i][k] = fh_malloc_type(sizes[i], FH_TYPE_POINTERS);
            block[i][0] = block[i][0] ? fh_realloc(block[i][0], sizes[i] * 3 / 2 + 1) : NULL;
            (void)fh_malloc_usable_size(block[i][1]);
        }
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned n = sizes[i] > 50000 ? 2 : 8;
            for (unsigned k = 0; k < n; k++) fh_free(block[i][k]);
        }
        fh_malloc_trim(0);
    }
}

/* More than a region has, and more than there is for the moment. */
void stall_types_refused(void) {
    fh_option_set("on_oom", "silent");
    fh_free(fh_malloc_type(100, FH_TYPE_POINTERS));
    __atomic_fetch_add(&stall_live, (size_t)300 << 20, __ATOMIC_RELAXED);
    fh_free(fh_malloc_type((size_t)260 << 20, FH_TYPE_POINTERS));
    __atomic_fetch_sub(&stall_live, (size_t)300 << 20, __ATOMIC_RELAXED);
    static const unsigned faults[] = {STALL_CHUNK | STALL_MAP, STALL_GUARD};
    for (unsigned i = 0; i < 2; i++) {
        stall_faults = faults[i];
        fh_free(fh_malloc_type((size_t)5 << 20, FH_TYPE_POINTERS));
    }
    stall_faults = 0;
    /* The chunks that the next ones would be in. */
    stall_foreign = fh_slot_address((fh_window_chunks() + 1) * FH_CHUNK_SLOTS);
    stall_faults = STALL_FOREIGN;
    __atomic_fetch_add(&stall_live, (size_t)300 << 20, __ATOMIC_RELAXED);
    fh_free(fh_malloc_type((size_t)260 << 20, FH_TYPE_POINTERS));
    __atomic_fetch_sub(&stall_live, (size_t)300 << 20, __ATOMIC_RELAXED);
    stall_faults = 0;
    fh_free(fh_malloc_type(100, FH_TYPE_POINTERS));
}

void stall_hardened_before(void) {
    CHECK(fh_option_set("harden", "1") == 0, "it cannot be hardened");
    __atomic_fetch_add(&stall_live, MOST + DELAYED, __ATOMIC_RELAXED);
}

/* The same without types, and enough of one size that blocks leave the delay. */
void stall_hardened(void) {
    static const size_t sizes[] = {1, 300, 3000, 20000, 100000, 1200000};
    for (unsigned turn = 0; turn < 2; turn++) {
        void *block[sizeof sizes / sizeof *sizes][8];
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (unsigned k = 0; k < 8; k++) block[i][k] = sizes[i] > 50000 && k > 1 ? NULL : fh_malloc(sizes[i]);
            block[i][0] = fh_realloc(block[i][0], sizes[i] * 3 / 2 + 1);
            (void)fh_malloc_usable_size(block[i][1]);
        }
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (unsigned k = 0; k < 8; k++) fh_free(block[i][k]);
        }
        for (unsigned i = 0; i < 300; i++) fh_free(fh_malloc(200));
        for (unsigned i = 0; i < 40; i++) fh_free(fh_malloc(i < 20 ? 70000 : 7000));
        fh_free(fh_calloc(1, 100000));
        fh_free(fh_aligned_alloc(4096, 100));
        fh_free(fh_malloc_type(100, FH_TYPE_POINTERS));
        fh_malloc_trim(0);
    }
}
