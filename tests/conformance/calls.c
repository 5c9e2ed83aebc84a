/* What the test suites of glibc, mimalloc and jemalloc ask of single calls, where the other tests of this folder do not: sizes
 * that cannot be had, in every call; small alignments at each size; that freed aligned blocks are used again; growing by
 * one byte more than there is; mallopt, malloc_trim, mallinfo2; obstacks; errno where the kernel refuses; and a handler of
 * SIGABRT that allocates. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"
#include "../support/processes.h"

#include <signal.h>
#include <sys/mman.h>

#if __has_include(<obstack.h>)
#include <obstack.h>
#define HAS_OBSTACK 1
#endif

static const size_t mib = (size_t)1 << 20;

/* ── Too large ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static void fails(const void *result, const char *call, size_t size) {
    CHECK(!result && errno == ENOMEM, "%s(%zu) = %p, errno %d", call, size, result, errno);
    /* A small block between two: once an allocator gave it for a size that had overflowed. */
    t_free(t_malloc(16));
    errno = 0;
}

static void fail_aligned(size_t size) {
    for (size_t alignment = 1; alignment > 0; alignment *= 2) {
        fails(t_memalign(opaque(alignment), size), "memalign", size);
        fails(t_aligned_alloc(opaque(alignment), size), "aligned_alloc", size);
        void *p = NULL;
        int error = alignment % sizeof p ? ENOMEM : t_posix_memalign(&p, opaque(alignment), size);
        CHECK(error == ENOMEM && !p, "posix_memalign(%zu, %zu) = %d, %p", alignment, size, error, p);
        errno = 0;
    }
    fails(t_valloc(size), "valloc", size);
    fails(t_pvalloc(size), "pvalloc", size);
}

static void fail_all(size_t size) {
    char *block = t_malloc(16);
    pattern_fill(block, 16, size);
    errno = 0;
    fails(t_malloc(size), "malloc", size);
    fails(t_realloc(opaque_pointer(block), size), "realloc", size);
    for (size_t n = 1; n <= 8 && size % n == 0; n *= 2) {
        fails(t_calloc(n, size / n), "calloc", size);
        fails(t_calloc(size / n, n), "calloc", size);
        fails(t_reallocarray(opaque_pointer(block), n, size / n), "reallocarray", size);
        fails(t_reallocarray(opaque_pointer(block), size / n, n), "reallocarray", size);
    }
    CHECK(pattern_wrong(block, 16, size) < 0, "a realloc to %zu failed and changed the block", size);
    t_free(block);
    fail_aligned(size);
}

/* Near the largest number, just above half of it, and all numbers of the form n · 2^50, with all bits below set or clear. */
static void too_large(void) {
    const size_t low = ((size_t)1 << 50) - 1;
    for (size_t i = 0; i < (1 << 14); i += i < 70 ? 1 : 61) {
        fail_all(opaque(SIZE_MAX - i));
        fail_all(opaque((size_t)PTRDIFF_MAX + 1 + i));
    }
    for (size_t high = (1 << 14) - 1; high >= 1; high -= high < 70 ? 1 : 53) {
        fail_all(opaque(high << 50));
        fail_all(opaque(high << 50 | low));
    }
    fails(t_aligned_alloc(opaque((size_t)1 << 63), opaque((size_t)1 << 63)), "aligned_alloc(2^63)", (size_t)1 << 63);
    fails(t_aligned_alloc(opaque((size_t)1 << 63), 64), "aligned_alloc(2^63)", 64);
    /* A product with a factor that is an address: large, and no round number. */
    fails(t_calloc(opaque((size_t)(uintptr_t)&too_large), opaque(SIZE_MAX / 1000)), "calloc", SIZE_MAX / 1000);
}

/* ── Alignment ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static void each_small_size(void) {
    enum { AT_ONCE = 10 };
    for (size_t size = 1; size <= 2048; size++) {
        for (size_t alignment = 1; alignment <= size; alignment *= 2) {
            void *blocks[AT_ONCE];
            for (int i = 0; i < AT_ONCE; i++) {
                blocks[i] = t_aligned_alloc(alignment, size);
                CHECK(blocks[i] && (uintptr_t)blocks[i] % alignment == 0, "aligned_alloc(%zu, %zu) = %p", alignment,
                      size, blocks[i]);
            }
            for (int i = 0; i < AT_ONCE; i++) t_free(blocks[i]);
        }
    }
    void *block = t_aligned_alloc(4096, 4097);
    CHECK(t_usable_size(block) >= 4097 && t_usable_size(block) < 16000, "aligned_alloc(4096, 4097) has %zu bytes",
          t_usable_size(block));
    t_free(block);
}

/* Aligned blocks that come and go among others do not take new memory each time. The end of a slab counts from when it is found to have
 * memory and is purged; that is a slab of each of six sizes at most. */
static void used_again(void) {
    static const size_t sizes[] = {24, 128, 500, 23450, 33650, 200000};
    enum { ROUNDS = 3000, OTHERS = 64 };
    char *others[OTHERS] = {NULL};
    uint64_t random = 1;
    size_t before = 0;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        size_t alignment = (size_t)16 << random_below(&random, 8), size = sizes[random_below(&random, 6)];
        char *block = t_memalign(alignment, size), **other = &others[random_below(&random, OTHERS)];
        CHECK(block, "memalign(%zu, %zu)", alignment, size);
        block[size - 1] = 1;
        t_free(*other);
        *other = t_malloc(random_below(&random, 2000));
        t_free(block);
        if (round == ROUNDS) before = t_mallinfo2().arena + t_mallinfo2().hblkhd;
    }
    size_t after = t_mallinfo2().arena + t_mallinfo2().hblkhd;
    CHECK(after <= before + 4 * mib, "%d aligned blocks, one at a time: from %zu to %zu bytes", ROUNDS, before, after);
    for (int i = 0; i < OTHERS; i++) t_free(others[i]);
}

/* ── realloc ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* By one byte more than the block has, up to 12 MiB, and back the same way. */
static void grow_and_shrink(void) {
    enum { MOST = 4096 };
    static size_t sizes[MOST];
    char *block = t_malloc(1);
    for (int cycle = 0; cycle < 2; cycle++) {
        size_t n = 0;
        for (; n < MOST && (sizes[n] = t_usable_size(block)) < 12 * mib; n++) {
            size_t more = sizes[n] < 2 * mib ? 1 : sizes[n] / 4;
            pattern_fill(block, 16, n);
            block = t_realloc(block, sizes[n] + more);
            CHECK(block && pattern_wrong(block, 16, n) < 0, "realloc(%zu + %zu) lost bytes", sizes[n], more);
        }
        while (n-- > 0) {
            pattern_fill(block, 16, n);
            block = t_realloc(block, sizes[n]);
            CHECK(block && t_usable_size(block) >= sizes[n], "realloc down to %zu", sizes[n]);
            CHECK(pattern_wrong(block, 16, n) < 0, "realloc down to %zu lost bytes", sizes[n]);
        }
    }
    t_free(block);
    block = NULL;
    for (size_t i = 0; i < 8 * 1024; i++) block = t_realloc(block, i % 1024 * 64); /* frees at each zero */
    t_free(block);
}

/* Where there is no memory for a smaller block, the old one stays, and may be freed by its new size. */
static void shrink_under_a_limit(void *none) {
    (void)none;
#if defined(T_EMBED)
    enum { BLOCKS = 400 };
    static const size_t to[] = {20, 1000, 15466, 30000, 66000};
    static char *large[BLOCKS];
    CHECK(fh_option_set("on_oom", "silent") == 0 && fh_limit_set(0, 16 * mib, NULL) == 0, "no limit");
    size_t n = 0;
    while (n < BLOCKS && (large[n] = t_malloc(opaque(65536))) != NULL) n++;
    CHECK(n > 100 && n < BLOCKS, "%zu blocks of 64 KiB under a limit of 16 MiB", n);
    while (t_malloc(opaque(10000))) continue; /* the reserve too */
    for (size_t i = 0; i < n; i++) {
        size_t size = to[i % 5] < 65536 ? to[i % 5] : 65536;
        pattern_fill(large[i], size, i);
        large[i] = t_realloc(large[i], size);
        CHECK(large[i] && pattern_wrong(large[i], size, i) < 0, "realloc down to %zu under a limit", size);
    }
    for (size_t i = 0; i < n; i++) t_free_sized(large[i], to[i % 5] < 65536 ? to[i % 5] : 65536);
    CHECK(t_verify() == 0, "the heap is not whole");
#endif
}

/* ── What tunes and tells ────────────────────────────────────────────────────────────────────────────────────────── */

static void settings(void) {
    static const int known[][2] = {{M_CHECK_ACTION, 1}, {M_MMAP_MAX, 64 << 10}, {M_MMAP_THRESHOLD, 64 << 10},
                                   {M_MXFAST, 0},       {M_TOP_PAD, 64 << 10},  {M_TRIM_THRESHOLD, -1},
                                   {M_ARENA_TEST, 2},   {M_ARENA_MAX, 8}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CHECK(t_mallopt(known[i][0], known[i][1]) == 1, "mallopt(%d, %d) is not taken", known[i][0], known[i][1]);
}

static void figures(void) {
    static char *blocks[20];
    size_t total = 0;
    _Static_assert(sizeof t_mallinfo2().arena == sizeof(size_t), "the wide form");
    size_t before = t_mallinfo2().uordblks;
    for (size_t i = 1; i < 20; i++) {
        blocks[i] = t_malloc(160 * i);
        total += 160 * i;
    }
    size_t after = t_mallinfo2().uordblks;
    CHECK(after >= before + total, "%zu bytes more, and uordblks went from %zu to %zu", total, before, after);
    for (size_t i = 1; i < 20; i++) t_free(blocks[i]);
    /* Blocks of nothing are blocks, and no large ones. */
    char *empty = t_calloc(opaque(0), 1000);
    CHECK(empty && t_usable_size(empty) <= 64, "calloc(0, 1000) has %zu bytes", t_usable_size(empty));
    t_free(empty);
}

/* 1 if memory went back, which it does where much is free; the program's blocks stay as they are. */
static void trimmed(void) {
    enum { BLOCKS = 2000 };
    static char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) pattern_fill(blocks[i] = t_malloc(10000), 10000, i);
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % 100 == 99) continue;
        t_free(blocks[i]);
    }
    errno = 4711;
    CHECK(t_malloc_trim(0) == 1, "malloc_trim(0) returned nothing of 20 MB");
    CHECK(errno == 4711 || !t_is_freehold(), "malloc_trim changed errno to %d", errno);
    for (size_t i = 99; i < BLOCKS; i += 100) {
        CHECK(pattern_wrong(blocks[i], 10000, i) < 0, "malloc_trim changed a block");
        t_free(blocks[i]);
    }
}

static void obstacks(void) {
#if HAS_OBSTACK
#define obstack_chunk_alloc t_malloc
#define obstack_chunk_free t_free
    for (int alignment = 2; alignment <= 64; alignment *= 2) {
        struct obstack stack;
        obstack_init(&stack);
        obstack_alignment_mask(&stack) = alignment - 1;
        obstack_finish(&stack); /* an empty object, after which the alignment holds */
        for (uint64_t i = 0; i < 60; i++) {
            void *object = obstack_alloc(&stack, 1000);
            CHECK((uintptr_t)object % (size_t)alignment == 0, "an object at %p, not at %d", object, alignment);
            pattern_fill(object, 1000, i);
            CHECK(pattern_wrong(object, 1000, i) < 0, "an object changed");
        }
        for (int i = 0; i < 20000; i++) obstack_1grow(&stack, (char)i);
        char *grown = obstack_finish(&stack);
        for (int i = 0; i < 20000; i++) CHECK(grown[i] == (char)i, "byte %d of an object that grew", i);
        obstack_free(&stack, NULL);
    }
#endif
}

/* ── Where the kernel refuses ────────────────────────────────────────────────────────────────────────────────────── */

/* As many mappings as the kernel allows, so that a part of one cannot be unmapped or changed; free keeps errno. */
static void free_without_mappings(void *none) {
    (void)none;
    enum { BLOCKS = 8 };
    static const size_t sizes[BLOCKS] = {100, 5000, 70000, 200000, 1500000, 5000000, 20000000, 40000000};
    char *blocks[BLOCKS];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 200000;
    for (int i = 0; i < BLOCKS; i++) memset(blocks[i] = t_malloc(sizes[i]), 1, sizes[i]);
    char *many = mmap(NULL, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(many != MAP_FAILED, "mmap");
    size_t i = 0;
    while (i < pages && mprotect(many + i * page, page, PROT_READ) == 0) i += 2;
    for (int b = 0; b < BLOCKS; b++) {
        errno = 4711;
        t_free(blocks[b]);
        CHECK(errno == 4711, "free of %zu bytes changed errno to %d", sizes[b], errno);
    }
    errno = 4711;
    char *block = t_malloc(1000);
    CHECK(block, "no small block without mappings");
    t_free(block);
}

/* ── A misuse, and a handler that allocates ──────────────────────────────────────────────────────────────────────── */

enum { HANDLED = 17 };

static void handle_abort(int signal) {
    (void)signal;
    for (size_t i = 0; i < 100; i++) {
        char *block = t_realloc(t_malloc(i * 100), i * 5000 + 1);
        block[i * 5000] = 1;
        t_free(block);
    }
    _exit(HANDLED);
}

static void misuse_with_handler(void *none) {
    (void)none;
    char local[64] __attribute__((aligned(16))) = "";
    dup2(open("/dev/null", O_WRONLY), 2);
    signal(SIGABRT, handle_abort);
    t_free(opaque_pointer(local + 16));
}

int main(void) {
    figures(); /* first: glibc counts what is in a thread's cache as in use */
    each_small_size();
    used_again();
    too_large();
    grow_and_shrink();
    trimmed();
    obstacks();
    CHECK(run_in_child(free_without_mappings, NULL) == 0, "without mappings");
    CHECK(run_in_child(shrink_under_a_limit, NULL) == 0, "under a limit");
    int status = run_in_child(misuse_with_handler, NULL);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == HANDLED, "a handler of SIGABRT that allocates: %#x", status);
    settings();
    used_again();
    CHECK(t_verify() == 0, "the heap is not whole");
    puts("what three suites ask of the calls is so");
    return 0;
}
