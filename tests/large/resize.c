/* realloc across 64 KiB, 1, 2, 4 and 64 MiB, up and down, keeps every byte. A block holds a pattern by position, written at
 * both ends and once in 512 bytes between, so that a page that was lost, exchanged or shifted is found.
 *
 *     random    one thread; many blocks are neighbours of each other, and one of them at random is resized
 *     threads   four threads, each of which resizes what another one has resized before
 *     fork      300 forks beside two threads that resize huge blocks. Each child checks, resizes and frees what it inherited
 *               from the forking thread, and allocates blocks of its own.
 *
 * The first two last FREEHOLD_TEST_SECONDS; FREEHOLD_TEST_FORKS says how many forks; ctest has its own number. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"
#include "../support/processes.h"

#include <pthread.h>
#include <stdatomic.h>

enum { STRIDE = 512, END = 256, SLOTS = 24, THREADS = 4, LEAST_STEPS = 20, RESIZERS = 2, INHERITED = 5 };
static const size_t kib = 1024, mib = (size_t)1 << 20, budget = (size_t)400 << 20;

/* Its record is a small block, so that small and large ones are resized in turn. */
struct buffer {
    char *bytes;
    size_t size;
    uint64_t key;
};

static atomic_size_t held_bytes, steps, moved_steps;

/* ── The pattern by position ─────────────────────────────────────────────────────────────────────────────────────── */

static char wanted(const struct buffer *b, size_t at) {
    uint64_t word = b->key + at / 8 * PATTERN_STEP;
    return (char)(word >> 8 * (at % 8));
}

static uint64_t wanted_word(const struct buffer *b, size_t at) {
    return b->key + at / 8 * PATTERN_STEP;
}

/* From a byte on, and the word that the byte is inside of. What is before has its pattern. The last bytes are written anew,
 * because they are others now. */
static void fill(struct buffer *b, size_t from) {
    for (size_t at = (from > 7 ? from - 7 + STRIDE - 1 : 0) / STRIDE * STRIDE; at + 8 <= b->size; at += STRIDE) {
        uint64_t word = wanted_word(b, at);
        memcpy(b->bytes + at, &word, 8);
    }
    for (size_t at = b->size > END ? b->size - END : 0; at < b->size; at++) b->bytes[at] = wanted(b, at);
}

/* The first `kept` bytes of a block that was filled when it had `old` bytes. */
static void check(const struct buffer *b, size_t kept, size_t old, const char *when) {
    for (size_t at = 0; at + 8 <= kept; at += STRIDE) {
        uint64_t word;
        memcpy(&word, b->bytes + at, 8);
        CHECK(word == wanted_word(b, at), "%s: %zu bytes, before %zu: wrong at byte %zu", when, b->size, old, at);
    }
    for (size_t at = old > END ? old - END : 0; at < kept; at++) {
        CHECK(b->bytes[at] == wanted(b, at), "%s: %zu bytes, before %zu: wrong at byte %zu", when, b->size, old, at);
    }
}

/* ── Resizing ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Near a boundary: some bytes, some pages, or a factor away from it. */
static size_t random_size(uint64_t *random) {
    const size_t boundaries[] = {64 * kib, 64 * kib, mib, mib, 2 * mib, 2 * mib, 4 * mib, 4 * mib, 64 * mib};
    size_t count = sizeof boundaries / sizeof *boundaries;
    /* The last of them seldom: it is as large as a thousand of the first. */
    size_t boundary = boundaries[random_below(random, random_below(random, 3) ? count - 1 : count)];
    size_t pages = 4096 * (random_below(random, 33));
    switch (random_below(random, 5)) {
    case 0:
        return boundary - 17 + random_below(random, 35);
    case 1:
        return boundary + pages;
    case 2:
        return boundary > pages ? boundary - pages : boundary;
    default:
        return boundary / 2 + random_below(random, boundary / 4 * 3);
    }
}

/* Of the memory that all threads may hold together. A size that would exceed it becomes a small one. */
static size_t within_budget(size_t size, size_t old) {
    if (atomic_fetch_add(&held_bytes, size) - old + size <= budget) {
        atomic_fetch_sub(&held_bytes, old);
        return size;
    }
    atomic_fetch_sub(&held_bytes, size + old);
    size = 64 * kib + size % 1000;
    atomic_fetch_add(&held_bytes, size);
    return size;
}

static struct buffer *make(uint64_t *random) {
    struct buffer *b = t_malloc(sizeof *b + random_below(random, 400));
    CHECK(b, "no memory");
    b->size = within_budget(random_size(random), 0);
    b->key = random_next(random);
    size_t kind = random_below(random, 3), alignment = (size_t)16 << random_below(random, 18);
    b->bytes = kind == 0   ? t_malloc(b->size)
               : kind == 1 ? t_calloc(1, b->size)
                           : t_aligned_alloc(alignment, (b->size + alignment - 1) / alignment * alignment);
    CHECK(b->bytes, "%zu bytes: NULL", b->size);
    fill(b, 0);
    return b;
}

static void drop(struct buffer *b) {
    check(b, b->size, b->size, "at its end");
    atomic_fetch_sub(&held_bytes, b->size);
    t_free(b->bytes);
    t_free(b);
}

static void resize(struct buffer *b, size_t size) {
    size_t old = b->size, kept = old < size ? old : size;
    char *before = opaque_pointer(b->bytes);
    check(b, old, old, "before realloc");
    char *bytes = t_realloc(b->bytes, opaque(size));
    CHECK(bytes, "realloc from %zu to %zu bytes: NULL", old, size);
    CHECK(t_usable_size(bytes) >= size, "realloc from %zu to %zu bytes: %zu are usable", old, size,
          t_usable_size(bytes));
    atomic_fetch_add(&steps, 1);
    if (bytes != before) atomic_fetch_add(&moved_steps, 1);
    b->bytes = bytes;
    b->size = size;
    check(b, kept, old, "after realloc");
    fill(b, kept);
}

static _Atomic(struct buffer *) slots[SLOTS];

/* One step: takes what is in a slot, resizes, replaces or frees it, and puts it back. */
static void step(uint64_t *random) {
    size_t which = random_below(random, SLOTS);
    struct buffer *b = atomic_exchange(&slots[which], NULL);
    if (b && random_below(random, 12) == 0) {
        drop(b);
        b = NULL;
    } else if (b) {
        resize(b, within_budget(random_size(random), b->size));
    } else {
        b = make(random);
    }
    b = atomic_exchange(&slots[which], b);
    if (b) drop(b); /* another thread has put one there */
}

static void drop_all(void) {
    for (int i = 0; i < SLOTS; i++) {
        struct buffer *b = atomic_exchange(&slots[i], NULL);
        if (b) drop(b);
    }
    CHECK(atomic_load(&held_bytes) == 0, "the test holds %zu bytes that it does not know", atomic_load(&held_bytes));
    size_t done = atomic_load(&steps);
    printf("%zu calls of realloc, %zu of them moved the block\n", done, atomic_load(&moved_steps));
    CHECK(done >= LEAST_STEPS, "only %zu calls of realloc", done);
    CHECK(t_verify() == 0, "the heap is not whole");
}

/* ── The parts ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static double end;
static atomic_bool stop;

static void *many_steps(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (atomic_load(&steps) < LEAST_STEPS || seconds_now() < end) step(&random);
    return NULL;
}

static void run_threads(uint64_t seed, int threads) {
    pthread_t ids[THREADS];
    end = seconds_now() + test_seconds(4);
    for (int i = 1; i < threads; i++) {
        void *argument = (void *)(uintptr_t)(seed + (uint64_t)i);
        CHECK(pthread_create(&ids[i], NULL, many_steps, argument) == 0, "pthread_create");
    }
    many_steps((void *)(uintptr_t)seed);
    for (int i = 1; i < threads; i++) pthread_join(ids[i], NULL);
    drop_all();
}

/* Grows a huge block in steps beside a neighbour that is in the way, shrinks it, and begins again. */
static void *resize_huge(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!atomic_load(&stop)) {
        struct buffer b = {t_malloc(2 * mib + 5000), 2 * mib + 5000, random_next(&random)};
        CHECK(b.bytes, "no memory");
        fill(&b, 0);
        for (int i = 0; i < 8; i++) {
            char *neighbour = t_malloc(b.size / 2 + 2 * mib);
            resize(&b, b.size + random_below(&random, 3 * mib));
            t_free(neighbour);
        }
        resize(&b, 2 * mib + random_below(&random, 100000));
        t_free(b.bytes);
    }
    return NULL;
}

static struct buffer inherited[INHERITED];

static void child(void *argument) {
    uint64_t random = *(uint64_t *)argument;
    for (int i = 0; i < INHERITED; i++) {
        resize(&inherited[i], random_size(&random) % (3 * mib) + 3000);
        if (i % 2) t_free(inherited[i].bytes);
    }
    for (int i = 0; i < 2; i++) {
        struct buffer b = {NULL, random_size(&random) % (3 * mib) + 3000, random_next(&random)};
        b.bytes = t_malloc(b.size);
        CHECK(b.bytes, "%zu bytes in a child: NULL", b.size);
        fill(&b, 0);
        resize(&b, random_size(&random) % (3 * mib) + 3000);
        check(&b, b.size, b.size, "in a child");
        t_free(b.bytes);
    }
    for (int i = 0; i < INHERITED; i += 2) {
        check(&inherited[i], inherited[i].size, inherited[i].size, "in a child");
        t_free(inherited[i].bytes);
    }
}

static void run_forks(uint64_t seed) {
    static const size_t sizes[INHERITED] = {1000, 70000, 500000, 1500000, 3000000};
    uint64_t forks = env_number("FREEHOLD_TEST_FORKS", 300);
    pthread_t ids[RESIZERS];
    for (int i = 0; i < INHERITED; i++) {
        inherited[i] = (struct buffer){t_malloc(sizes[i]), sizes[i], seed + (uint64_t)i};
        CHECK(inherited[i].bytes, "no memory");
        fill(&inherited[i], 0);
    }
    for (int i = 0; i < RESIZERS; i++) {
        void *argument = (void *)(uintptr_t)(seed + 100 + (uint64_t)i);
        CHECK(pthread_create(&ids[i], NULL, resize_huge, argument) == 0, "pthread_create");
    }
    while (atomic_load(&steps) < 10) usleep(1000);
    for (uint64_t i = 0; i < forks; i++) {
        uint64_t random = random_next(&seed);
        int status = run_in_child(child, &random);
        CHECK(status == 0, "child %llu ended with status %#x%s", (unsigned long long)i, (unsigned)status,
              WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ": it hung" : "");
        usleep((useconds_t)random_below(&seed, 2000));
        struct buffer *b = &inherited[i % INHERITED];
        resize(b, random_size(&seed) % (3 * mib) + 3000);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < RESIZERS; i++) pthread_join(ids[i], NULL);
    for (int i = 0; i < INHERITED; i++) {
        check(&inherited[i], inherited[i].size, inherited[i].size, "at its end");
        t_free(inherited[i].bytes);
    }
    CHECK(t_verify() == 0, "the heap is not whole");
    printf("%llu forks beside %zu calls of realloc, %zu of which moved the block\n", (unsigned long long)forks,
           atomic_load(&steps), atomic_load(&moved_steps));
}

int main(int count, char **arguments) {
    const char *part = count > 1 ? arguments[1] : "random";
    setvbuf(stdout, NULL, _IONBF, 0);
    uint64_t seed = random_seed();
    if (strcmp(part, "fork") == 0) {
        run_forks(seed);
    } else {
        run_threads(seed, strcmp(part, "threads") == 0 ? THREADS : 1);
    }
    return 0;
}
