/* A program drops all that it had, blocks of a hundred sizes in no order. What caches keep of it is scattered over all slabs,
 * so the caches have to shrink (src/cache/shrink.h): without that, half of 256 MiB stayed.  dropped [settled|phases]
 *
 *     young      a large heap that has just been made: most of it goes home at once, with no trim, no helper thread and no
 *                further call
 *     settled    a smaller one that is some seconds old
 *     phases     the same heap made and dropped over and over: the memory stays after the first few times */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

enum { MOST = 1 << 19 };

static void *blocks[MOST];

/* 16 bytes to 16 KiB, as many of each power of two in bytes. */
static size_t any_size(uint64_t *state) {
    size_t power = (size_t)16 << random_below(state, 10);
    /* For one of the larger ones there are two of half its size. */
    for (size_t larger = power; larger > 16 && random_below(state, 2); larger /= 2) power = larger / 2;
    return power + random_below(state, (uint32_t)power);
}

static size_t make(size_t bytes) {
    uint64_t state = 7;
    size_t count = 0;
    for (size_t live = 0; live < bytes && count < MOST; count++) {
        size_t size = any_size(&state);
        blocks[count] = t_malloc(size);
        CHECK(blocks[count], "malloc: NULL");
        memset(blocks[count], 1, size);
        live += size;
    }
    return count;
}

static void drop(size_t count) {
    uint64_t state = 9;
    for (size_t i = count; i > 1; i--) {
        size_t other = random_below(&state, (uint32_t)i);
        void *block = blocks[i - 1];
        blocks[i - 1] = blocks[other];
        blocks[other] = block;
    }
    for (size_t i = 0; i < count; i++) t_free(blocks[i]);
}

/* `most`: how many of 40 parts may stay. */
static void most_goes_home(size_t bytes, unsigned seconds, size_t most) {
    memset(blocks, 1, sizeof blocks);
    size_t before = resident_bytes(), count = make(bytes), full = resident_bytes() - before;
    sleep(seconds);
    drop(count);
    size_t now = resident_bytes(), rest = now > before ? now - before : 0;
    printf("%zu blocks: %.1f MiB, after the last free %.1f\n", count, (double)full / 1048576, (double)rest / 1048576);
    CHECK(full >= bytes, "the blocks are not there");
    size_t bound = full / 40 * most;
    CHECK(rest <= bound, "%zu MiB are still there, more than %zu", rest >> 20, bound >> 20);
}

/* What was missed once is kept. Where a phase takes half a second it is not missed in that sense, and nothing is asked. */
static void phases(void) {
    memset(blocks, 1, sizeof blocks);
    size_t before = resident_bytes(), kept = 0, full = 0;
    double slowest = 0;
    for (int phase = 0; phase < 8; phase++) {
        double began = seconds_now();
        size_t count = make((size_t)96 << 20), now = resident_bytes() - before;
        if (now > full) full = now;
        drop(count);
        kept = resident_bytes() - before;
        printf("%.1f MiB, after the last free %.1f\n", (double)now / 1048576, (double)kept / 1048576);
        double took = seconds_now() - began;
        if (took > slowest) slowest = took;
    }
    if (slowest > 0.4) skip_test("the machine is too busy: a phase takes more than 0.4 s, and nothing is missed");
    CHECK(kept >= full / 2, "the last of eight phases of %zu MiB left %zu: each pays for its memory anew", full >> 20,
          kept >> 20);
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (strcmp(what, "phases") == 0) {
        phases();
    } else if (strcmp(what, "settled") == 0) {
        most_goes_home((size_t)56 << 20, 4, 25);
    } else {
        most_goes_home((size_t)256 << 20, 0, 8);
    }
    return 0;
}
