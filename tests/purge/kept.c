/* The huge block that was freed last is at hand for the next request of about its size: a ring of buffers costs three locked
 * instructions a turn and asks the kernel for nothing. Locked instructions are counted in the build that names each atomic
 * operation (tests/proof/include), calls of the system by the library's own figures. And what is at hand is no more than was
 * kept before, is called kept in the figures, and is in nobody's way under a limit. */
#include "../support/check.h"
#include "../support/memory.h"

#include "store/huge.h"
#include "reclaim/limits.h"
#include "store/limit.h"
#include "system/inspect.h"

#include "freehold/freehold.h"

enum { RING = 8, TURNS = 1000, MANY = 40 };

static unsigned long locked;

void fh_proof_step(fh_proof_site *site, const void *word, int writes) {
    (void)word;
    (void)writes;
    locked += (unsigned long)site->locked;
}

static char *get(size_t size) {
    char *p = fh_malloc(size);
    CHECK(p, "no memory for %zu bytes", size);
    p[0] = p[size - 1] = 1;
    return p;
}

static uint64_t calls(void) {
    fh_system_calls made = fh_system_calls_made();
    return made.maps + made.unmaps + made.purges;
}

static void turn(char **block, size_t size, int turns) {
    for (int i = 0; i < turns; i++) {
        fh_free(block[i % RING]);
        block[i % RING] = get(size);
    }
}

static void ring(size_t size) {
    char *block[RING];
    for (int i = 0; i < RING; i++) block[i] = get(size);
    turn(block, size, RING); /* what another size has left in the cache may have to go first */
    uint64_t before = calls();
    unsigned long locked_before = locked;
    turn(block, size, TURNS);
    unsigned long each = (locked - locked_before) / TURNS;
    printf("ring of %zu MiB: %lu locked instructions a turn, %lu calls\n", size >> 20, each,
           (unsigned long)(calls() - before));
    CHECK(each <= 3, "%lu locked instructions a turn", each);
    CHECK(calls() == before, "%lu calls of the system", (unsigned long)(calls() - before));
    for (int i = 0; i < RING; i++) fh_free(block[i]);
}

/* What is kept is kept within its bytes, and the figures say so. */
static void bounds(void) {
    fh_huge_trim(0);
    CHECK(fh_huge_cached_bytes() == 0 && fh_huge_bytes() == 0 && fh_huge_count() == 0, "nothing is there");
    static char *block[MANY];
    for (int i = 0; i < MANY; i++) block[i] = get((size_t)(i % 5 + 3) << 20);
    size_t live = fh_huge_bytes();
    for (int i = 0; i < MANY; i++) {
        fh_free(block[i]);
        live -= (size_t)(i % 5 + 3) << 20;
        CHECK(fh_huge_bytes() == live, "%zu bytes are live, and the figures say %zu", live, fh_huge_bytes());
        CHECK(fh_huge_count() == (size_t)(MANY - 1 - i), "%d blocks are live, and the figures say %zu", MANY - 1 - i,
              fh_huge_count());
        CHECK(fh_huge_cached_bytes() <= 16 << 20, "%zu MiB are kept", fh_huge_cached_bytes() >> 20);
    }
    CHECK(fh_huge_cached_bytes() >= 3 << 20, "nothing is kept");
    CHECK(fh_malloc_trim(0) == 1 && fh_huge_cached_bytes() == 0, "trimmed, and %zu bytes kept", fh_huge_cached_bytes());
}

/* A block is not handed out for a fifth of its size, nor where its address will not do. */
static void fitting(void) {
    char *p = get(10 << 20);
    fh_free(p);
    char *small = get(3 << 20);
    CHECK(small != p, "10 MiB for a request of 3");
    char *again = get((10 << 20) - 100000);
    CHECK(again == p, "the block that was freed last is not at hand");
    fh_free(again);
    char *aligned = fh_aligned_alloc((size_t)1 << 30, 10 << 20);
    CHECK(aligned && (uintptr_t)aligned % ((size_t)1 << 30) == 0, "not aligned to a GiB");
    fh_free(aligned);
    fh_free(small);
    char *zero = fh_calloc(1, 10 << 20);
    CHECK(zero && zero[0] == 0 && zero[(10 << 20) - 1] == 0, "calloc gave what is not zero");
    fh_free(zero);
}

/* A buffer that doubles from 4 to 64 MiB, and is freed. */
static void doubling(void) {
    size_t size = 4 << 20;
    char *p = get(size);
    for (; size < (size_t)64 << 20; size *= 2) {
        p = fh_realloc(p, 2 * size);
        CHECK(p && p[size - 1] == 1, "realloc to %zu", 2 * size);
        memset(p + size, 1, size);
    }
    fh_free(p);
}

/* It is kept once it was missed, and then grown into: no call of the system, and so no new page to touch. */
static void growing(void) {
    for (int i = 0; i < 3; i++) doubling();
    uint64_t before = calls();
    double began = seconds_now();
    doubling();
    unsigned long made = (unsigned long)(calls() - before);
    printf("a buffer that doubles from 4 to 64 MiB for the fourth time: %lu calls\n", made);
    if (seconds_now() - began < 0.3) {
        CHECK(made == 0, "%lu calls", made);
    } else {
        skip_part("the machine is too busy: a buffer that doubles took so long that what was kept for it may go");
    }
    /* What is asked for less of goes back all the same. */
    char *small = get(3 << 20), *p = fh_realloc(get(4 << 20), 8 << 20), *q = fh_realloc(p, 32 << 20);
    CHECK(p && q, "realloc");
    q = fh_realloc(q, 9 << 20);
    CHECK(q && fh_malloc_usable_size(q) <= 12 << 20, "9 MiB have %zu", fh_malloc_usable_size(q));
    fh_free(q);
    fh_free(small);
}

/* Under a limit the kept block counts, and goes when its room is wanted. */
static void limited(void) {
    fh_malloc_trim(0);
    CHECK(fh_limit_set(0, (size_t)64 << 20, NULL) == 0, "fh_limit_set");
    char *p = get(16 << 20), *q = get(16 << 20), *r = get(16 << 20);
    fh_free(q);
    CHECK((size_t)fh_load(&fh_counts.huge_live) <= fh_limits_now().in_use,
          "%zu bytes are claimed, and %zu count against the limit", (size_t)fh_load(&fh_counts.huge_live),
          fh_limits_now().in_use);
    q = get(24 << 20); /* does not fit beside it */
    CHECK(!fh_malloc(16 << 20), "beyond the limit");
    fh_free(p);
    fh_free(q);
    fh_free(r);
    CHECK(fh_limit_set(0, 0, NULL) == 0, "no limit");
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    bounds(); /* first, as nothing has been missed yet and the cache may hold no more than its floor */
    ring(4 << 20);
    ring(16 << 20);
    fitting();
    growing();
    limited();
    return 0;
}
