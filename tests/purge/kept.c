/* What was in a long block stays for the next one while memory is in demand: a ring of buffers, or a buffer that doubles over
 * and over, asks the kernel for nothing. Calls of the system are counted by the library's own figures, locked instructions
 * in the build that names each atomic operation (tests/proof/include). What is kept is within the budget of free slots, is
 * called so in the figures, serves blocks of any size, and is in nobody's way under a limit. */
#include "../support/check.h"
#include "../support/memory.h"

#include "reclaim/budget.h"
#include "reclaim/idle.h"
#include "reclaim/limits.h"
#include "store/events.h"
#include "store/limit.h"
#include "system/inspect.h"

#include "freehold/freehold.h"

#include <unistd.h>

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

/* The block that was freed last counts as used, and is free in all but name (store/run.h). */
static size_t kept_bytes(void) {
    return fh_kept_slots() * FH_SLOT_SIZE;
}
static size_t used_bytes(void) {
    return fh_used_bytes() - kept_bytes();
}
static size_t free_bytes(void) {
    return fh_free_slots() * FH_SLOT_SIZE;
}

/* Two exchanges of the word `kept`, one of the block's own, and what counts it as re-used: whatever its length. */
enum { LOCKED_MOST = 4 };

static void ring(size_t size) {
    char *block[RING];
    for (int i = 0; i < RING; i++) block[i] = get(size);
    turn(block, size, RING); /* what another size has left may have to be purged first */
    uint64_t before = calls();
    unsigned long locked_before = locked;
    turn(block, size, TURNS);
    unsigned long each = (locked - locked_before) / TURNS;
    printf("ring of %zu MiB: %lu locked instructions a turn, %lu calls\n", size >> 20, each,
           (unsigned long)(calls() - before));
    CHECK(each <= LOCKED_MOST, "%lu locked instructions a turn", each);
    CHECK(calls() == before, "%lu calls of the system", (unsigned long)(calls() - before));
    for (int i = 0; i < RING; i++) fh_free(block[i]);
}

/* What is kept is kept within its budget, and the figures say so. */
static void bounds(void) {
    static char *block[MANY];
    fh_free(get(3 << 20)); /* this thread has its cache */
    fh_malloc_trim(0);
    size_t rest = used_bytes(), live = 0;
    CHECK(fh_dirty_bytes() == 0, "trimmed, and %zu bytes are kept", fh_dirty_bytes());
    for (int i = 0; i < MANY; i++) block[i] = get((size_t)(i % 5 + 3) << 20);
    for (int i = 0; i < MANY; i++) live += (size_t)(i % 5 + 3) << 20;
    for (int i = 0; i < MANY; i++) {
        fh_free(block[i]);
        live -= (size_t)(i % 5 + 3) << 20;
        CHECK(used_bytes() == rest + live, "%zu bytes are live, and the figures say %zu", live, used_bytes() - rest);
        size_t budget = fh_idle_budget((rest + live) / FH_SLOT_SIZE, 0, 0, FH_PRESSURE_NONE) * FH_SLOT_SIZE;
        CHECK(free_bytes() <= budget, "%zu KiB are kept, of a budget of %zu", free_bytes() >> 10, budget >> 10);
    }
    CHECK(free_bytes() >= 1 << 20, "%zu KiB are kept", free_bytes() >> 10);
    CHECK(fh_malloc_trim(0) == 1 && fh_dirty_bytes() == 0, "trimmed, and %zu bytes kept", fh_dirty_bytes());
}

/* What was in one block serves blocks of all sizes, at once and without a call. */
static void fitting(void) {
    fh_malloc_trim(0);
    char *p = get(7 << 20);
    memset(p, 1, 7 << 20);
    fh_free(p);
    size_t kept = free_bytes();
    uint64_t before = calls();
    char *small = get(3 << 20), *other = get(3 << 20), *smaller = get(1 << 20);
    CHECK(small >= p && other >= p && smaller >= p && small < p + (7 << 20) && other < p + (7 << 20) &&
              smaller < p + (7 << 20),
          "7 MiB are free, and 3, 3 and 1 are elsewhere");
    CHECK(calls() == before, "%lu calls of the system", (unsigned long)(calls() - before));
    CHECK(free_bytes() + (7 << 20) == kept, "%zu bytes were kept, and of 7 MiB fewer %zu are", kept, free_bytes());
    fh_free(smaller);
    fh_free(other);
    fh_free(small);
    char *aligned = fh_aligned_alloc((size_t)1 << 30, 10 << 20);
    CHECK(aligned && (uintptr_t)aligned % ((size_t)1 << 30) == 0, "not aligned to a GiB");
    fh_free(aligned);
    p = get(10 << 20);
    memset(p, 1, 10 << 20);
    fh_free(p);
    char *zero = fh_calloc(1, 10 << 20);
    CHECK(zero, "no memory");
    for (size_t i = 0; i < 10 << 20; i += 512) CHECK(zero[i] == 0, "calloc gave what is not zero");
    fh_free(zero);
}

/* Slots that are released beside the one that is kept count with it. */
static void beside(void) {
    static char *block[MANY];
    fh_malloc_trim(0);
    for (int i = 0; i < MANY; i++) block[i] = get((size_t)3 << 20);
    char *last = get(12 << 20), *shrinks = get(5 << 20);
    fh_free(last);
    CHECK(kept_bytes() == 12 << 20, "%zu KiB are kept of 12 MiB", kept_bytes() >> 10);
    CHECK(fh_realloc(shrinks, (1 << 20) + 100000) != NULL, "realloc");
    size_t budget = fh_idle_budget_now(used_bytes() / FH_SLOT_SIZE, FH_PRESSURE_NONE) * FH_SLOT_SIZE;
    CHECK(free_bytes() <= budget, "%zu KiB are free, of a budget of %zu", free_bytes() >> 10, budget >> 10);
    fh_free(shrinks);
    for (int i = 0; i < MANY; i++) fh_free(block[i]);
}

/* What may stay by the credit fades with time, also while nothing but one buffer comes and goes. */
static void fading(void) {
    static char *block[MANY];
    double most = 0;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < MANY; i++) memset(block[i] = get((size_t)(i % 4 + 3) << 20), 1, (size_t)(i % 4 + 3) << 20);
        for (int i = 0; i < MANY; i++) fh_free(block[i]);
    }
    size_t before = free_bytes();
    if (before <= (size_t)30 << 20) {
        skip_part("the machine is too busy: a heap came back to its size so late that its memory was not missed");
        return;
    }
    for (double began = seconds_now(); free_bytes() > before / 2 && most < 20; most = seconds_now() - began) {
        fh_free(get(2 << 20));
        usleep(100000); /* more often, and what is re-used would be worth the memory */
    }
    printf("half of %zu MiB was there for %.1f s\n", before >> 20, most);
    CHECK(free_bytes() <= before / 2, "%zu KiB of %zu are there after %.0f s", free_bytes() >> 10, before >> 10, most);
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
    /* What is asked for less of goes back all the same, and with it the room to grow. */
    size_t rest = used_bytes();
    char *p = fh_realloc(get(4 << 20), 8 << 20), *q = fh_realloc(p, 32 << 20);
    CHECK(p && q, "realloc");
    q = fh_realloc(q, 9 << 20);
    CHECK(q && fh_malloc_usable_size(q) == 9 << 20, "9 MiB have %zu", fh_malloc_usable_size(q));
    CHECK(used_bytes() == rest + (9 << 20), "9 MiB take %zu", used_bytes() - rest);
    fh_free(q);
}

/* Under a limit what is kept counts as free, and is purged when its room is wanted. */
static void limited(void) {
    fh_malloc_trim(0);
    CHECK(fh_limit_set(0, (size_t)64 << 20, NULL) == 0, "fh_limit_set");
    char *p = get(16 << 20), *q = get(16 << 20), *r = get(16 << 20);
    fh_free(q);
    CHECK(used_bytes() <= fh_limits_now().in_use, "%zu bytes are claimed, and %zu count against the limit",
          used_bytes(), fh_limits_now().in_use);
    q = get(24 << 20); /* does not fit where the other was */
    CHECK(used_bytes() + free_bytes() <= (size_t)64 << 20, "%zu KiB are in use, %zu kept", used_bytes() >> 10,
          free_bytes() >> 10);
    CHECK(!fh_malloc(16 << 20), "beyond the limit");
    /* A block that grows and has to move gets no room that it did not ask for. */
    size_t rest = used_bytes() - ((size_t)24 << 20);
    q = fh_realloc(q, (24 << 20) + 1);
    CHECK(q && used_bytes() <= rest + (24 << 20) + FH_SLOT_SIZE, "a byte more takes %zu",
          used_bytes() - rest - (24 << 20));
    fh_free(p);
    fh_free(q);
    fh_free(r);
    CHECK(fh_limit_set(0, 0, NULL) == 0, "no limit");
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    bounds(); /* first, while nothing has been missed and no credit raises the budget */
    beside();
    ring(4 << 20);
    ring(16 << 20);
    fitting();
    growing();
    limited();
    fading();
    return 0;
}
