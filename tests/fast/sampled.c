/* A sampled block that a thread frees by a size it trusts, before it is observed itself: the block lands in a magazine of the size's
 * class, is handed out and flushed from there, and the heap stays whole. */
#include <freehold/fast.h>

#include "../support/check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SIZE = 48, BLOCKS = 20 };

static void *blocks[BLOCKS];
static atomic_int step;

static void wait_for(int n) {
    while (atomic_load(&step) < n) usleep(100);
}

static void *unobserved(void *unused) {
    void *own[2 * BLOCKS];
    (void)unused;
    for (int i = 0; i < 2 * BLOCKS; i++) own[i] = fh_fast_malloc(SIZE);
    for (int i = 0; i < 2 * BLOCKS; i++) fh_fast_free_exact(own[i], SIZE);
    for (int i = 0; i < BLOCKS; i++) own[i] = fh_fast_malloc(SIZE); /* now there is room for the others */
    atomic_store(&step, 1);
    wait_for(2);
    for (int i = 0; i < BLOCKS; i++) fh_fast_free_exact(blocks[i], SIZE);
    atomic_store(&step, 3);
    wait_for(4);
    for (int i = 0; i < BLOCKS; i++) {
        void *p = fh_fast_malloc(SIZE); /* one of them, most likely */
        CHECK(p && fh_malloc_usable_size(p) >= SIZE, "a block of %zu bytes", fh_malloc_usable_size(p));
        memset(p, 1, SIZE);
        fh_fast_free_exact(p, SIZE);
    }
    for (int i = 0; i < BLOCKS; i++) fh_fast_free(own[i]);
    fh_thread_flush();
    return NULL;
}

int main(void) {
    pthread_t thread;
    fh_free(fh_malloc(SIZE));
    CHECK(pthread_create(&thread, NULL, unobserved, NULL) == 0, "no thread");
    wait_for(1);
    CHECK(fh_option_set("sample", "1") == 0 && fh_option_set("observe", "1") == 0, "not observed");
    fh_free(fh_malloc((size_t)3 << 20)); /* a slow path: from here on this thread is observed */
    /* At an interval of one byte each block is a sample, and has a slot of 64 bytes. */
    size_t sampled = 0;
    for (int i = 0; i < BLOCKS; i++) blocks[i] = fh_fast_malloc(SIZE);
    for (int i = 0; i < BLOCKS; i++) sampled += (uintptr_t)blocks[i] % 64 == 0;
    CHECK(sampled == BLOCKS, "%zu of %d blocks were sampled", sampled, BLOCKS);
    atomic_store(&step, 2);
    wait_for(3);
    CHECK(fh_verify() == 0, "a sampled block in a magazine damages the heap");
    atomic_store(&step, 4);
    pthread_join(thread, NULL);
    CHECK(fh_verify() == 0, "the heap is damaged");
    printf("%zu of %d blocks were sampled\n", sampled, BLOCKS);
    return 0;
}
