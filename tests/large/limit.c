/* A hard limit of 64 MiB, which FREEHOLD=limit=64m sets, beside four threads that grow huge blocks by realloc until they are
 * refused, shrink some and free them. At no moment may the limit be exceeded:
 *
 *     by what the program holds       each thread adds to one sum after it got memory, and subtracts before it frees
 *     by the library's own count      limit_in_use of the statistics, read in a loop
 *     by what is resident             read in the same loop: at most 2 MiB more, for stacks and records, than at the start;
 *                                     and 4 MiB for each thread, because one may be stopped in the middle of a purge
 *
 * Afterwards all but the reserve (a 16th) and one block can be allocated again, in huge blocks and in large ones. With an
 * argument this is left out. The C library has no such limit: over its allocator this test is skipped. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/statistics.h"
#include "../support/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#if !defined(T_EMBED)
extern size_t fh_stats_json(char *buffer, size_t size) __attribute__((weak));
#endif

#if defined(T_SANITIZED)
enum { RESIDENT_IS_OURS = 0 }; /* a sanitizer's own memory grows as well */
#else
enum { RESIDENT_IS_OURS = 1 };
#endif

enum { THREADS = 4, EACH = 2, ROUNDS = 150 };
static const size_t mib = (size_t)1 << 20, limit = (size_t)64 << 20, reserve = (size_t)4 << 20,
                    largest = (size_t)40 << 20;

static atomic_size_t held, most_held, refusals;
static atomic_bool stop;
static size_t at_start, most_resident, most_counted, samples;

/* ── What the threads do ─────────────────────────────────────────────────────────────────────────────────────────── */

struct block {
    char *bytes;
    size_t size;
};

static void add(size_t bytes) {
    size_t now = atomic_fetch_add(&held, bytes) + bytes, most = atomic_load(&most_held);
    while (now > most && !atomic_compare_exchange_weak(&most_held, &most, now)) continue;
}

static void write_pages(struct block *b, size_t from) {
    for (size_t at = from; at < b->size; at += 4096) b->bytes[at] = 1;
    b->bytes[b->size - 1] = 1;
}

/* False when the limit is met, or when the block is large enough. */
static bool grow(struct block *b, size_t by) {
    size_t old = b->size, size = old + by;
    if (size > largest) return false;
    errno = 0;
    char *bytes = t_realloc(b->bytes, size);
    if (!bytes) {
        CHECK(errno == ENOMEM, "refused with errno %d", errno);
        atomic_fetch_add(&refusals, 1);
        return false;
    }
    add(size - old);
    CHECK(!old || bytes[0] == 1, "a block that grew to %zu bytes lost its first", size);
    *b = (struct block){bytes, size};
    write_pages(b, old);
    return true;
}

static void shrink(struct block *b, size_t size) {
    if (b->size <= size) return;
    atomic_fetch_sub(&held, b->size - size);
    char *bytes = t_realloc(b->bytes, size);
    CHECK(bytes, "realloc from %zu bytes down to %zu: NULL", b->size, size);
    *b = (struct block){bytes, size};
}

static void drop(struct block *b) {
    atomic_fetch_sub(&held, b->size);
    t_free(b->bytes);
    *b = (struct block){NULL, 0};
}

static void *compete(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    struct block blocks[EACH] = {{NULL, 0}};
    for (int round = 0; round < ROUNDS; round++) {
        struct block *b = &blocks[random_below(&random, EACH)];
        while (grow(b, random_below(&random, 3 * mib) + (b->size ? 1 : 2 * mib))) continue;
        switch (random_below(&random, 4)) {
        case 0:
            shrink(b, b->size / 2 + 1);
            break;
        case 1:
            break; /* it stays, and the others have less */
        default:
            drop(b);
        }
    }
    for (int i = 0; i < EACH; i++) drop(&blocks[i]);
    return NULL;
}

/* ── What is measured ────────────────────────────────────────────────────────────────────────────────────────────── */

static size_t counted(void) {
    static char json[1 << 16];
    size_t length = fh_stats_json(json, sizeof json);
    CHECK(length > 0 && length < sizeof json, "statistics of %zu bytes", length);
    CHECK(statistic(json, "limit_hard") == limit, "the limit is %zu", statistic(json, "limit_hard"));
    return statistic(json, "limit_in_use");
}

static void *sample(void *argument) {
    while (!atomic_load(&stop)) {
        size_t in_use = counted(), resident = counted_resident_bytes();
        most_counted = in_use > most_counted ? in_use : most_counted;
        most_resident = resident > most_resident ? resident : most_resident;
        samples++;
    }
    return argument;
}

/* Kernels before 6.16 say by /proc what they had counted some pages ago, for each CPU. */
static size_t error_of_count(void) {
    size_t processors = (size_t)sysconf(_SC_NPROCESSORS_CONF), batch = 2 * processors > 32 ? 2 * processors : 32;
    return processors * batch * (size_t)sysconf(_SC_PAGESIZE);
}

/* ── Afterwards ──────────────────────────────────────────────────────────────────────────────────────────────────── */

static void fill_again(size_t size) {
    enum { MOST = 2048 };
    static char *blocks[MOST];
    size_t count = 0;
    errno = 0;
    for (; count < MOST && (blocks[count] = t_malloc(size)); count++) memset(blocks[count], 1, size);
    CHECK(errno == ENOMEM, "%zu blocks of %zu bytes, errno %d", count, size, errno);
    /* What is in use is what the blocks hold, not what was asked for. */
    size_t usable = count ? t_usable_size(blocks[0]) : size;
    size_t bytes = count * usable, least = limit - reserve - usable - mib;
    printf("blocks of %8zu bytes: %.1f MiB until NULL\n", size, (double)bytes / (double)mib);
    CHECK(bytes <= limit, "%zu bytes, more than the limit", bytes);
    /* A MiB is for what the C library and the test itself hold. */
    CHECK(bytes >= least, "%zu bytes in blocks of %zu; %zu are the least", bytes, size, least);
    for (size_t i = 0; i < count; i++) t_free(blocks[i]);
}

int main(int count, char **arguments) {
    (void)arguments;
    static const size_t again[] = {3000000, 1000000, 100000, 20000000, 66000, 5000000};
    pthread_t ids[THREADS], sampler;
    setvbuf(stdout, NULL, _IONBF, 0);
    if (!t_is_freehold()) skip_test("the C library's allocator has no limit");
    uint64_t seed = random_seed();
    t_free(t_malloc(1));
    counted();
    at_start = counted_resident_bytes();
    CHECK(pthread_create(&sampler, NULL, sample, NULL) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++) {
        void *argument = (void *)(uintptr_t)(seed + (uint64_t)i);
        CHECK(pthread_create(&ids[i], NULL, compete, argument) == 0, "pthread_create");
    }
    for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
    atomic_store(&stop, true);
    pthread_join(sampler, NULL);
    size_t sum = atomic_load(&most_held), refused = atomic_load(&refusals), resident = most_resident - at_start;
    printf("most that was held at once: %.1f MiB; counted: %.1f MiB; resident: %.1f MiB (%zu samples, %zu refusals)\n",
           (double)sum / (double)mib, (double)most_counted / (double)mib, (double)resident / (double)mib, samples,
           refused);
    CHECK(samples >= 50 && refused >= 10, "%zu samples and %zu refusals: nothing was tested", samples, refused);
    CHECK(sum <= limit, "%zu bytes were held at once, more than the limit", sum);
    CHECK(most_counted <= limit, "%zu bytes were counted, more than the limit", most_counted);
    size_t purging = THREADS * 4 * mib, most = limit + 2 * mib + purging + error_of_count();
    CHECK(!RESIDENT_IS_OURS || resident <= most, "%zu bytes were resident, at most %zu may be", resident, most);
    for (size_t i = 0; i < sizeof again / sizeof *again && count == 1; i++) fill_again(again[i]);
    CHECK(t_verify() == 0, "the heap is not whole");
    return 0;
}
