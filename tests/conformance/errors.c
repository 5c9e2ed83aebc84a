/* What every call answers when it cannot or need not do what it was asked: the return value, errno, and
 * what must be untouched afterwards.  The words of POSIX and C where they bind, glibc's habit elsewhere. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"

#include <errno.h>

#define FAILS(call, wanted)                                                                                            \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        void *result = (call);                                                                                         \
        CHECK(!result, "%s returned %p instead of NULL", #call, result);                                               \
        CHECK(errno == (wanted), "%s set errno %d instead of %d", #call, errno, wanted);                               \
    } while (0)

/* Sizes that no machine has, among them those that become small when something is carelessly added. */
static void impossible_sizes(void) {
    const size_t impossible[] = {SIZE_MAX,           SIZE_MAX - 1,
                                 SIZE_MAX - 15,      SIZE_MAX - 16,
                                 SIZE_MAX - 4095,    SIZE_MAX - 4096,
                                 SIZE_MAX - 65535,   SIZE_MAX - 65536,
                                 SIZE_MAX / 2 + 2,   SIZE_MAX / 2 + 1,
                                 PTRDIFF_MAX,        PTRDIFF_MAX - 1,
                                 PTRDIFF_MAX - 4095, SIZE_MAX - ((size_t)4 << 20),
                                 SIZE_MAX / 4};
    for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
        size_t size = opaque(impossible[i]);
        FAILS(t_malloc(size), ENOMEM);
        FAILS(t_calloc(size, 1), ENOMEM);
        FAILS(t_calloc(1, size), ENOMEM);
        FAILS(t_realloc(NULL, size), ENOMEM);
        FAILS(t_reallocarray(NULL, size, 1), ENOMEM);
        FAILS(t_aligned_alloc(64, size), ENOMEM);
        FAILS(t_aligned_alloc((size_t)1 << 20, size), ENOMEM);
        FAILS(t_memalign(4096, size), ENOMEM);
        FAILS(t_valloc(size), ENOMEM);
        FAILS(t_pvalloc(size), ENOMEM);
        void *block = &block;
        int result = t_posix_memalign(&block, 64, size);
        CHECK(result == ENOMEM, "posix_memalign(64, %zu) = %d", size, result);
    }
    /* An alignment that leaves no room is as impossible as a size that does. */
    /* Opaque: an optimiser (clang 14) ends when it meets a constant alignment that no address has bits for. */
    FAILS(t_aligned_alloc(opaque((size_t)1 << 62), 1), ENOMEM);
    FAILS(t_aligned_alloc(opaque((size_t)1 << 48), (size_t)1 << 48), ENOMEM);
}

static void products_that_overflow(void) {
    const size_t root = opaque((size_t)1 << 32), all = opaque(SIZE_MAX), sixteenth = opaque(SIZE_MAX / 16 + 1);
    FAILS(t_calloc(root, root), ENOMEM);
    FAILS(t_calloc(root + 1, root), ENOMEM);
    FAILS(t_calloc(all, 2), ENOMEM);
    FAILS(t_calloc(2, all), ENOMEM);
    FAILS(t_calloc(all, all), ENOMEM);
    FAILS(t_calloc(sixteenth, 16), ENOMEM);
    FAILS(t_reallocarray(NULL, root, root), ENOMEM);
    FAILS(t_reallocarray(NULL, sixteenth, 16), ENOMEM);
    /* A reallocarray or realloc that fails leaves the old block alone. */
    const size_t sizes[] = {24, 3000, 50000, 300000, 5000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = t_malloc(sizes[i]);
        pattern_fill(block, sizes[i], i);
        FAILS(t_reallocarray(block, root, root), ENOMEM);
        FAILS(t_realloc(block, opaque(SIZE_MAX)), ENOMEM);
        FAILS(t_realloc(block, opaque((size_t)PTRDIFF_MAX + 1)), ENOMEM);
        FAILS(t_realloc(block, opaque(PTRDIFF_MAX)), ENOMEM);
        CHECK(pattern_wrong(block, sizes[i], i) < 0, "a failed realloc touched the block of %zu", sizes[i]);
        t_free(block);
    }
}

static void alignments_that_are_none(void) {
    const size_t wrong[] = {3, 6, 12, 24, 48, 100, 4095, 4097, ((size_t)1 << 30) + 1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        void *block = &block;
        errno = 4711;
        int result = t_posix_memalign(&block, wrong[i], 10);
        CHECK(result == EINVAL, "posix_memalign(%zu) = %d", wrong[i], result);
        CHECK(block == &block, "posix_memalign(%zu) failed and wrote the pointer", wrong[i]);
        CHECK(errno == 4711, "posix_memalign(%zu) set errno: it returns the error instead", wrong[i]);
        if (t_is_freehold()) {
            FAILS(t_aligned_alloc(wrong[i], 10), EINVAL);
        }
        /* memalign rounds such an alignment up to the next power of two. */
        size_t power = 16;
        while (power < wrong[i]) {
            power *= 2;
        }
        char *rounded = t_memalign(wrong[i], 10);
        CHECK(rounded && (uintptr_t)rounded % power == 0, "memalign(%zu, 10) = %p", wrong[i], (void *)rounded);
        t_free(rounded);
    }
    void *block = NULL;
    for (size_t small = 0; small < sizeof(void *); small++) {
        int result = t_posix_memalign(&block, small, 10);
        CHECK(result == EINVAL, "posix_memalign(%zu) = %d", small, result);
    }
    FAILS(t_memalign(opaque(SIZE_MAX), 10), EINVAL);
    FAILS(t_memalign(opaque(SIZE_MAX / 2 + 2), 10), EINVAL);
    if (t_is_freehold()) {
        FAILS(t_aligned_alloc(opaque(0), 10), EINVAL);
    }
    CHECK((block = t_memalign(opaque(0), 10)) != NULL, "memalign(0, 10) returned NULL; glibc takes it as malloc");
    t_free(block);
}

/* Zero bytes are a block like any other: its own address, to be freed. */
static void nothing_at_all(void) {
    void *blocks[8] = {t_malloc(opaque(0)),    t_malloc(opaque(0)),          t_calloc(opaque(0), 8),
                       t_calloc(8, opaque(0)), t_realloc(NULL, opaque(0)),   t_aligned_alloc(64, opaque(0)),
                       t_memalign(256, 0),     t_reallocarray(NULL, 0, 1000)};
    for (int i = 0; i < 8; i++) {
        CHECK(blocks[i], "zero bytes, call %d: NULL", i);
        for (int j = 0; j < i; j++) {
            CHECK(blocks[i] != blocks[j], "zero bytes: calls %d and %d gave the same block", i, j);
        }
    }
    for (int i = 0; i < 8; i++) {
        t_free(blocks[i]);
    }
    void *block = NULL;
    CHECK(t_posix_memalign(&block, 64, 0) == 0, "posix_memalign of zero bytes failed");
    t_free(block);
    /* realloc to zero frees, and answers NULL: as glibc does.  errno tells that nothing went wrong. */
    const size_t sizes[] = {10, 2000, 40000, 400000, 4000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        errno = 0;
        void *gone = t_realloc(t_malloc(sizes[i]), opaque(0));
        CHECK(!gone && errno == 0, "realloc(%zu → 0) = %p, errno %d", sizes[i], gone, errno);
        gone = t_reallocarray(t_malloc(sizes[i]), opaque(0), 7);
        CHECK(!gone && errno == 0, "reallocarray(%zu → 0) = %p, errno %d", sizes[i], gone, errno);
    }
}

/* POSIX 2024 and glibc 2.33: free keeps errno, whatever the kernel said on the way. */
static void free_keeps_errno(void) {
    const size_t sizes[] = {0, 8, 100, 1000, 30000, 70000, 200000, 1 << 20, 5 << 20, 80 << 20};
    errno = 4711;
    t_free(NULL);
    CHECK(errno == 4711, "free(NULL) changed errno to %d", errno);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int repeat = 0; repeat < 40; repeat++) {
            char *block = t_malloc(sizes[i]);
            char *other = t_malloc(sizes[i]);
            errno = 4711;
            t_free(block);
            CHECK(errno == 4711, "free of a block of %zu changed errno to %d", sizes[i], errno);
            t_free_sized(other, sizes[i]);
            CHECK(errno == 4711, "free_sized of a block of %zu changed errno to %d", sizes[i], errno);
        }
    }
}

int main(void) {
    impossible_sizes();
    products_that_overflow();
    alignments_that_are_none();
    nothing_at_all();
    free_keeps_errno();
    t_free_sized(NULL, 10);
    t_free_aligned_sized(NULL, 64, 10);
    CHECK(t_usable_size(NULL) == 0, "malloc_usable_size(NULL) is %zu", t_usable_size(NULL));
    /* After all these refusals an ordinary request is still served. */
    char *block = t_malloc(1000);
    CHECK(block, "malloc(1000) after the refusals returned NULL");
    t_free(block);
    puts("errors and edges answered as they should be");
    return 0;
}
