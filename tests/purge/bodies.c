/* A server that keeps the last bodies it was given, and has up to forty copies of them on their way. It has freed a large heap
 * before, so caches are shrinking. A large block that a cache flushes keeps its memory, so to allocate another one is no refault:
 * it must not earn the credit by which memory stays when the bodies go. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

enum { KEPT = 300, BODY = 100000, COPIES = 40, REQUESTS = 3000, SMALL = 1 << 17, SMALL_SIZE = 1000, MOST_MIB = 16 };

static void *small[SMALL], *kept[KEPT];

static void *body(void) {
    void *p = t_malloc(BODY);
    CHECK(p, "malloc: NULL");
    memset(p, 1, BODY);
    return p;
}

int main(void) {
    uint64_t random = 5;
    memset(small, 1, sizeof small);
    size_t before = resident_bytes();
    for (size_t i = 0; i < KEPT; i++) kept[i] = body();
    for (size_t i = 0; i < SMALL; i++) {
        small[i] = t_malloc(SMALL_SIZE);
        CHECK(small[i], "malloc: NULL");
        memset(small[i], 1, SMALL_SIZE);
    }
    for (size_t i = 0; i < SMALL; i++) t_free(small[i]);

    for (size_t i = 0; i < REQUESTS; i++) {
        void **place = &kept[random_below(&random, KEPT)];
        void *parts[COPIES];
        size_t copies = 1 + random_below(&random, COPIES);
        for (size_t c = 0; c < copies; c++) parts[c] = body();
        t_free(*place);
        *place = body();
        for (size_t c = 0; c < copies; c++) t_free(parts[c]);
    }
    size_t full = resident_bytes() - before;
    for (size_t i = 0; i < KEPT; i++) t_free(kept[i]);
    size_t now = resident_bytes(), rest = now > before ? now - before : 0;
    printf("%d bodies of %d bytes: %.1f MiB, after they were dropped %.1f\n", KEPT, BODY, (double)full / 1048576,
           (double)rest / 1048576);
    CHECK(full >= (size_t)KEPT * BODY, "the bodies are not there");
    CHECK(rest >> 20 <= MOST_MIB, "%zu MiB are still there, more than %d", rest >> 20, MOST_MIB);
    return 0;
}
