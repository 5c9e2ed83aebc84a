/* Half of a large heap of one class is freed, in the order in which it was made. Its caches shrink, and what they give back must
 * still be worth a call: at most one flush for eight blocks (it was one for three). The memory goes home all the same. And the
 * frees do with little of the stack, because some threads have 16 KiB of it. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <pthread.h>

enum { BLOCKS = 1 << 22, SIZE = 64, STACK = 64 << 10 };
#define MIB(bytes) ((double)(bytes) / 1048576)

static void *blocks[BLOCKS];
static char stack[STACK] __attribute__((aligned(4096)));
static size_t used_stack;

static uint64_t flushes(void) {
    static char text[1 << 16];
    static const char key[] = "\"flushes\":";
    CHECK(fh_stats_json(text, sizeof text) < sizeof text, "the statistics are too long");
    const char *place = strstr(text, key);
    CHECK(place, "the statistics have no flushes");
    return strtoull(place + sizeof key - 1, NULL, 10);
}

/* From this function downwards. */
static void *free_all(void *unused) {
    char here;
    size_t top = (size_t)(&here - stack);
    CHECK(top < STACK, "the thread is on another stack");
    memset(stack, 0x5a, top - 512);
    for (size_t i = 0; i < BLOCKS; i++) t_free(blocks[i]);
    size_t lowest = 0;
    while (stack[lowest] == 0x5a) lowest++;
    used_stack = top - lowest;
    return unused;
}

int main(void) {
    memset(blocks, 1, sizeof blocks);
    memset(stack, 1, sizeof stack);
    size_t before = resident_bytes();
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = t_malloc(SIZE);
        CHECK(blocks[i], "malloc: NULL");
        memset(blocks[i], 1, SIZE);
    }
    size_t full = resident_bytes() - before;
    CHECK(full >= (size_t)BLOCKS * SIZE, "the blocks are not there");
    uint64_t flushed = flushes();
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, stack, STACK) == 0, "a stack");
    CHECK(pthread_create(&thread, &attributes, free_all, NULL) == 0, "a thread");
    pthread_join(thread, NULL);
    flushed = flushes() - flushed;
    size_t now = resident_bytes(), rest = now > before ? now - before : 0;
    printf("%d blocks of %d bytes: %.1f MiB, after the last free %.1f; %.1f blocks a flush; %zu bytes of stack\n", BLOCKS,
           SIZE, MIB(full), MIB(rest), (double)BLOCKS / (double)flushed, used_stack);
    CHECK(flushed <= BLOCKS / 8, "%zu flushes for %d blocks", (size_t)flushed, BLOCKS);
    CHECK(rest <= full / 10, "%.1f MiB are still there", MIB(rest));
    CHECK(used_stack <= 6 << 10, "the frees took %zu bytes of stack", used_stack);
    return 0;
}
