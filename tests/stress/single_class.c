/* No block handed out twice, at the highest rate that can be had: blocks of very few classes, allocated by some
 * threads and freed by others in bursts, each stamped with its owner while it is held.
 *
 * stress.c covers everything at a moderate rate; this one does a hundred times as many hand-overs of slabs, words and
 * magazines of the same class, which is where two threads meet inside the allocator.  A block is stamped by an
 * atomic exchange, so that a double hand-out is seen at the moment it happens and not when bytes are compared. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/whole.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MOST_THREADS = 16, POST = 4096, BURST = 700 };

static _Atomic(void *) post[POST];
static atomic_bool stop;
static size_t class_size;

struct worker {
    uint64_t random, blocks;
    uint64_t stamp;
};

/* What the first word of a block that somebody holds looks like in its upper half.  The allocator's own data may
 * have lived there before, so anything else is nobody's; we clear the word before each free. */
#define HELD_BY UINT64_C(0x5354414d50000000)

static bool is_held(uint64_t word) {
    return word >> 16 == HELD_BY >> 16;
}

static void *take(struct worker *me) {
    _Atomic(uint64_t) *block = t_malloc(class_size);
    CHECK(block, "malloc(%zu): NULL", class_size);
    uint64_t before = atomic_exchange_explicit(block, me->stamp, memory_order_relaxed);
    CHECK(!is_held(before), "block %p was handed out while thread %llu held it", (void *)block,
          (unsigned long long)(before & 0xffff));
    me->blocks++;
    return (void *)block;
}

static void give(void *pointer, uint64_t holder) {
    _Atomic(uint64_t) *block = pointer;
    uint64_t before = atomic_exchange_explicit(block, 0, memory_order_relaxed);
    CHECK(is_held(before) && (holder == 0 || before == holder), "block %p of thread %llu has the stamp %#llx", pointer,
          (unsigned long long)(holder & 0xffff), (unsigned long long)before);
    t_free(pointer);
}

/* Three habits in turn: a burst up and down, a hand-over by post to whoever looks there, and a random mixture. */
static void *work(void *argument) {
    struct worker *me = argument;
    void *held[BURST] = {NULL};
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        int count = (int)random_below(&me->random, BURST);
        for (int i = 0; i < count; i++) {
            held[i] = take(me);
        }
        uint64_t habit = random_below(&me->random, 3);
        for (int i = 0; i < count; i++) {
            if (habit == 0 || (habit == 2 && random_below(&me->random, 2))) {
                give(held[i], me->stamp);
                continue;
            }
            void *other =
                atomic_exchange_explicit(&post[random_below(&me->random, POST)], held[i], memory_order_acq_rel);
            if (other) {
                give(other, 0);
            }
        }
        if (random_below(&me->random, 200) == 0) {
            t_thread_flush();
        }
    }
    return NULL;
}

static uint64_t run(int threads, double seconds, uint64_t seed) {
    pthread_t ids[MOST_THREADS];
    struct worker workers[MOST_THREADS];
    atomic_store(&stop, false);
    for (int i = 0; i < threads; i++) {
        workers[i] = (struct worker){seed * 31 + (uint64_t)i, 0, HELD_BY + (uint64_t)i + 1};
        CHECK(pthread_create(&ids[i], NULL, work, &workers[i]) == 0, "pthread_create");
    }
    usleep((useconds_t)(seconds * 1e6));
    atomic_store(&stop, true);
    uint64_t blocks = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        blocks += workers[i].blocks;
    }
    for (int i = 0; i < POST; i++) {
        void *left = atomic_exchange(&post[i], NULL);
        if (left) {
            give(left, 0);
        }
    }
    check_whole_and_empty();
    return blocks;
}

int main(void) {
    uint64_t seed = random_seed();
    double seconds = test_seconds(8);
    static const size_t sizes[] = {48, 704, 7000, 100000};
    static const int threads[] = {2, 8, 16, 4};
    for (int i = 0; i < 4; i++) {
        class_size = sizes[i];
        uint64_t blocks = run(threads[i], seconds / 4, seed + (uint64_t)i);
        printf("%zu bytes, %d threads: %llu blocks, none twice\n", sizes[i], threads[i], (unsigned long long)blocks);
        fflush(stdout);
        CHECK(blocks > 0, "nothing was tested");
    }
    return 0;
}
