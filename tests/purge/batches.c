/* A large heap of two classes is freed, one after the other, in the order in which it was made. Its caches shrink, and what they give back must still
 * be worth a call: at most one flush for eight blocks (it was one for two). The memory goes home all the same.
 *
 * Then it is made again and freed in random order, so that pages inside of slabs are purged. All frees do with little of the
 * stack, because some threads have 16 KiB of it.
 *
 *     batches many
 *
 * A heap of 25 classes is freed in random order. Less is flushed of each, and it is flushed in batches too. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/statistics.h"
#include "../support/memory.h"

#include <pthread.h>
#include <stdbool.h>

enum { BLOCKS = 1 << 22, LAST = BLOCKS / 16, STACK = 64 << 10 };
#define MIB(bytes) ((double)(bytes) / 1048576)

static void *blocks[BLOCKS];
static size_t count = BLOCKS;
static char stack[STACK] __attribute__((aligned(4096)));
static size_t used_stack;
static bool ordered = true;
static size_t classes = 2;
static uint64_t last_flushes; /* for the last blocks of the second class */

static uint64_t flushes(void) {
    static char text[1 << 16];
    CHECK(fh_stats_json(text, sizeof text) < sizeof text, "the statistics are too long");
    return statistic(text, "flushes");
}

/* When the second class begins, the heap contracts, and nothing of that class has been flushed. */
static size_t size_of(size_t i) {
    if (classes > 2) return (i % classes + 1) * 16;
    return i < BLOCKS / 4 * 3 ? 64 : 96;
}

/* From this function downwards. */
static void *free_all(void *unused) {
    char here;
    size_t top = (size_t)(&here - stack), lowest = 0;
    CHECK(top < STACK, "the thread is on another stack");
    memset(stack, 0x5a, top - 512);
    for (size_t i = 0; i < count; i++) {
        if (i == BLOCKS - LAST && ordered) last_flushes = flushes();
        t_free(blocks[i]);
    }
    if (ordered) last_flushes = flushes() - last_flushes;
    while (stack[lowest] == 0x5a) lowest++;
    used_stack = top - lowest;
    return unused;
}

static void make(void) {
    for (size_t i = 0; i < count; i++) {
        blocks[i] = t_malloc(size_of(i));
        CHECK(blocks[i], "malloc: NULL");
        memset(blocks[i], 1, size_of(i));
    }
}

static void mix(void) {
    uint64_t random = 7;
    for (size_t i = count - 1; i > 0; i--) {
        size_t other = random_below(&random, i + 1);
        void *block = blocks[i];
        blocks[i] = blocks[other];
        blocks[other] = block;
    }
}

/* By a thread of its own. Returns the flushes. */
static uint64_t drop(const char *order) {
    uint64_t flushed = flushes();
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, stack, STACK) == 0, "a stack");
    CHECK(pthread_create(&thread, &attributes, free_all, NULL) == 0, "a thread");
    pthread_join(thread, NULL);
    flushed = flushes() - flushed;
    printf("%s: %.1f blocks a flush\n", order, (double)count / (double)flushed);
    fflush(stdout);
    return flushed;
}

static void drop_many_classes(void) {
    classes = 25;
    count = BLOCKS / 8;
    ordered = false;
    make();
    mix();
    uint64_t flushed = drop("at random, of 25 classes");
    CHECK(flushed <= count / 8, "%zu flushes for %zu blocks of 25 classes", (size_t)flushed, count);
}

int main(int words, char **word) {
    memset(blocks, 1, sizeof blocks);
    memset(stack, 1, sizeof stack);
    if (words > 1 && strcmp(word[1], "many") == 0) {
        drop_many_classes();
        return 0;
    }
    size_t before = resident_bytes();
    make();
    size_t full = resident_bytes() - before;
    CHECK(full >= (size_t)BLOCKS / 4 * (3 * 64 + 96), "the blocks are not there");
    uint64_t flushed = drop("in order");
    size_t now = resident_bytes(), rest = now > before ? now - before : 0;
    printf("%.1f MiB, after the last free %.1f\n", MIB(full), MIB(rest));
    CHECK(flushed <= BLOCKS / 8, "%zu flushes for %d blocks", (size_t)flushed, BLOCKS);
    CHECK(rest <= full / 10, "%.1f MiB are still there", MIB(rest));
    CHECK(last_flushes <= LAST / 8, "%zu flushes for the last %d blocks", (size_t)last_flushes, LAST);
    make();
    mix();
    ordered = false; /* or the statistics would take of the stack */
    drop("at random");
    printf("%zu bytes of stack\n", used_stack);
    CHECK(used_stack <= 8 << 10, "the frees took %zu bytes of stack", used_stack);
    return 0;
}
