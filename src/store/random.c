#include "store/random.h"

#include "system/system.h"

#define GOLDEN UINT64_C(0x9E3779B97F4A7C15)

/* Written once, before the program has a second thread. */
static fh_word keys[2];

static _Alignas(FH_CACHE_LINE) fh_word counters[FH_SHARDS][FH_CACHE_LINE / sizeof(fh_word)];

void fh_random_start(void) {
    for (unsigned i = 0; i < 2; i++) fh_store(&keys[i], fh_system_random());
}

/* Each bit of the answer depends on each bit of x. */
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    x = (x ^ x >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return x ^ x >> 32;
}

/* The second key between the rounds: from one number neither the next one follows nor the counter. */
uint64_t fh_random_next(unsigned shard) {
    uint64_t count = fh_add_relaxed(&counters[shard % FH_SHARDS][0], 1);
    return mix(mix(fh_load(&keys[0]) + count * GOLDEN + shard) ^ fh_load(&keys[1]));
}
