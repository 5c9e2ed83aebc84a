/* The aligned calls: every power of two from 1 to 1 GiB, sizes below, at and above each. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"

#include <errno.h>

enum { CALLS = 3, HELD = 24 };

struct held {
    char *block;
    size_t filled, alignment, size;
    uint64_t key;
};

static struct held ring[HELD];
static uint64_t counter;

static void *call(int which, size_t alignment, size_t size) {
    void *block = NULL;
    if (which == 0) {
        return t_aligned_alloc(alignment, opaque(size));
    }
    if (which == 1) {
        return t_memalign(alignment, opaque(size));
    }
    int result = t_posix_memalign(&block, alignment < sizeof(void *) ? sizeof(void *) : alignment, opaque(size));
    CHECK(result == 0, "posix_memalign(%zu, %zu) = %d", alignment, size, result);
    return block;
}

static void release(struct held *slot) {
    if (!slot->block) {
        return;
    }
    long wrong = pattern_wrong(slot->block, slot->filled, slot->key);
    CHECK(wrong < 0, "aligned block (%zu, %zu) changed at byte %ld", slot->alignment, slot->size, wrong);
    if (slot->key & 1) {
        t_free_aligned_sized(slot->block, slot->alignment, slot->size);
    } else {
        t_free(slot->block);
    }
    slot->block = NULL;
}

static void try_block(int which, size_t alignment, size_t size) {
    char *block = call(which, alignment, size);
    CHECK(block, "call %d (%zu, %zu) returned NULL, errno %d", which, alignment, size, errno);
    CHECK((uintptr_t)block % alignment == 0, "call %d (%zu, %zu) = %p: not aligned", which, alignment, size,
          (void *)block);
    size_t usable = t_usable_size(block);
    CHECK(usable >= size, "call %d (%zu, %zu): usable %zu", which, alignment, size, usable);
    struct held *slot = &ring[counter % HELD];
    release(slot);
    /* Only what was asked is filled above 4 MiB: this is a test of placement, not of the machine's memory. */
    size_t filled = usable <= ((size_t)4 << 20) ? usable : 65536 < size ? 65536 : size;
    *slot = (struct held){block, filled, alignment, size, ++counter * 0x5851f42d4c957f2du};
    pattern_fill(block, filled, slot->key);
}

/* realloc of an aligned block keeps the bytes; the alignment it may lose. */
static void try_realloc(size_t alignment, size_t size, size_t to) {
    char *block = call((int)(alignment & 1), alignment, size);
    CHECK(block, "(%zu, %zu) returned NULL", alignment, size);
    pattern_fill(block, size, alignment);
    char *moved = t_realloc(block, to);
    CHECK(moved, "realloc of (%zu, %zu) to %zu returned NULL", alignment, size, to);
    long wrong = pattern_wrong(moved, size < to ? size : to, alignment);
    CHECK(wrong < 0, "realloc of (%zu, %zu) to %zu lost byte %ld", alignment, size, to, wrong);
    t_free(moved);
}

/* calloc after an aligned block died dirty at the same place must still be zero. */
static void try_dirty(size_t alignment, size_t size) {
    for (int i = 0; i < 4; i++) {
        char *block = t_memalign(alignment, size);
        memset(block, 0xa5, t_usable_size(block));
        t_free(block);
        char *clean = t_calloc(1, size);
        long wrong = first_not_zero(clean, size);
        CHECK(wrong < 0, "calloc(1, %zu) after memalign(%zu): byte %ld is not zero", size, alignment, wrong);
        t_free(clean);
    }
}

static void page_calls(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t size = 0; size < 5 * page; size += 333) {
        char *block = t_valloc(size);
        CHECK(block && (uintptr_t)block % page == 0, "valloc(%zu) = %p", size, (void *)block);
        CHECK(t_usable_size(block) >= size, "valloc(%zu): usable %zu", size, t_usable_size(block));
        memset(block, 1, size);
        t_free(block);
        block = t_pvalloc(size);
        size_t rounded = (size + page - 1) / page * page;
        CHECK(block && (uintptr_t)block % page == 0, "pvalloc(%zu) = %p", size, (void *)block);
        CHECK(t_usable_size(block) >= rounded, "pvalloc(%zu): usable %zu", size, t_usable_size(block));
        memset(block, 1, rounded);
        t_free(block);
    }
}

int main(void) {
    for (size_t alignment = 1; alignment <= (size_t)1 << 30; alignment *= 2) {
        const size_t sizes[] = {0,
                                1,
                                8,
                                17,
                                100,
                                1000,
                                5000,
                                33000,
                                70000,
                                alignment / 2 + 1,
                                alignment - 1,
                                alignment,
                                alignment + 1,
                                3 * alignment,
                                3000000};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (int which = 0; which < CALLS; which++) {
                try_block(which, alignment, sizes[i]);
            }
        }
        if (alignment <= (size_t)16 << 20) {
            try_realloc(alignment, 40, 4000);
            try_realloc(alignment, 5000, 300);
            try_realloc(alignment, 90000, 3000000);
            try_realloc(alignment, 3000000, 100000);
            try_dirty(alignment, 200);
            try_dirty(alignment, 20000);
            try_dirty(alignment, 200000);
        }
    }
    for (int i = 0; i < HELD; i++) {
        release(&ring[i]);
    }
    page_calls();
    printf("%llu aligned blocks, alignments 1 to 1 GiB\n", (unsigned long long)counter);
    return 0;
}
