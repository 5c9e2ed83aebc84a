/* What a block holds: zeros from calloc wherever the memory has been before, and the old bytes after realloc. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"

/* Several blocks of one size die dirty, then the same number is wanted clean. */
static void zero_after_dirt(size_t size) {
    enum { COUNT = 3 };
    char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = t_malloc(size);
        CHECK(blocks[i], "malloc(%zu) returned NULL", size);
        memset(blocks[i], 0xff, t_usable_size(blocks[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        t_free(blocks[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        size_t unit = size % 4 == 0 ? 4 : 1;
        blocks[i] = t_calloc(size / unit, unit);
        CHECK(blocks[i], "calloc(%zu) returned NULL", size);
        long wrong = first_not_zero(blocks[i], size);
        CHECK(wrong < 0, "calloc(%zu): byte %ld is not zero", size, wrong);
        memset(blocks[i], 0xff, size);
    }
    for (int i = 0; i < COUNT; i++) {
        t_free(blocks[i]);
    }
}

/* The same when the memory went back to the system in between, or was split and joined with neighbours. */
static void zero_after_trim(void) {
    for (int round = 0; round < 20; round++) {
        char *blocks[40];
        for (int i = 0; i < 40; i++) {
            size_t size = (size_t)(i + 1) * 40000;
            blocks[i] = t_calloc(1, size);
            long wrong = first_not_zero(blocks[i], size);
            CHECK(wrong < 0, "round %d: calloc(%zu): byte %ld is not zero", round, size, wrong);
            memset(blocks[i], 0xff, size);
        }
        for (int i = 0; i < 40; i++) {
            t_free(blocks[(i * 7 + round) % 40]);
        }
        if (round % 3 == 0) {
            t_malloc_trim(0);
        }
    }
}

static const size_t sizes[] = {1,      7,      16,     17,      40,      128,     129,     1000,    1024,    1025,
                               1500,   4096,   4097,   8000,    20000,   32768,   32769,   60000,   65536,   65537,
                               100000, 131072, 200000, 1000000, 2097151, 2097152, 2097153, 5000000, 20000000};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void realloc_each_to_each(void) {
    for (int from = 0; from < SIZES; from++) {
        for (int to = 0; to < SIZES; to++) {
            uint64_t key = (uint64_t)from * 1000003 + (uint64_t)to;
            char *block = t_malloc(sizes[from]);
            CHECK(block, "malloc(%zu) returned NULL", sizes[from]);
            pattern_fill(block, sizes[from], key);
            char *moved = to % 2 ? t_realloc(block, sizes[to]) : t_reallocarray(block, sizes[to], 1);
            CHECK(moved, "realloc(%zu → %zu) returned NULL", sizes[from], sizes[to]);
            CHECK(t_usable_size(moved) >= sizes[to], "realloc(%zu → %zu): usable %zu", sizes[from], sizes[to],
                  t_usable_size(moved));
            CHECK((uintptr_t)moved % (sizes[to] < 16 ? 1 : 16) == 0, "realloc(%zu → %zu): not aligned", sizes[from],
                  sizes[to]);
            size_t kept = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
            long wrong = pattern_wrong(moved, kept, key);
            CHECK(wrong < 0, "realloc(%zu → %zu) lost byte %ld", sizes[from], sizes[to], wrong);
            memset(moved, 0x5a, sizes[to]);
            t_free(moved);
        }
    }
}

/* Whatever fits into the block that is there already must not move it: callers cannot rely on it, their
 * speed does. */
static void realloc_in_place(void) {
    for (size_t size = 1; size <= 3000000; size += size / 5 + 1) {
        char *block = t_malloc(size);
        pattern_fill(block, size, size);
        size_t usable = t_usable_size(block);
        char *same = t_realloc(block, usable);
        CHECK(!t_is_freehold() || same == block, "realloc(%zu → its usable %zu) moved the block", size, usable);
        CHECK(pattern_wrong(same, size, size) < 0, "realloc(%zu → %zu) lost bytes", size, usable);
        t_free(same);
    }
}

/* A buffer that grows as buffers do, with a neighbour in the way now and then, and shrinks again. */
static void realloc_grow_and_shrink(size_t step, size_t limit) {
    char *block = NULL;
    size_t size = 0;
    for (; size + step <= limit; size += step) {
        block = t_realloc(block, size + step);
        CHECK(block, "growing to %zu returned NULL", size + step);
        pattern_fill(block + size, step, size);
        if ((size / step) % 16 == 5) {
            char *neighbour = t_malloc(step);
            memset(neighbour, 0x33, step);
            t_free(neighbour);
        }
        for (size_t at = 0, jump = step; at < size; at += jump, jump *= 2) {
            CHECK(pattern_wrong(block + at, step, at) < 0, "growing to %zu lost the stretch at %zu", size, at);
        }
    }
    for (; size > step; size -= step * (size > 40 * step ? 16 : 1)) {
        block = t_realloc(block, size);
        CHECK(pattern_wrong(block + size - step, step, size - step) < 0, "shrinking to %zu lost bytes", size);
        CHECK(pattern_wrong(block, step, 0) < 0, "shrinking to %zu lost its beginning", size);
    }
    t_free(block);
}

int main(void) {
    for (size_t size = 1; size <= 70000; size += size < 4200 ? 1 : size % 61 + 1) {
        zero_after_dirt(size);
    }
    for (size_t size = 70000; size <= (size_t)40 << 20; size += size / 7) {
        zero_after_dirt(size);
    }
    zero_after_trim();
    realloc_each_to_each();
    realloc_in_place();
    realloc_grow_and_shrink(65536, (size_t)64 << 20);
    realloc_grow_and_shrink(1000, (size_t)2 << 20);
    realloc_grow_and_shrink(16, 40000);
    puts("calloc is zero, realloc keeps every byte");
    return 0;
}
