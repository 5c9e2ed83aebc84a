// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows the ABA of a stack popped by a plain compare-and-swap, and that a tag ends it. Threads pop blocks,
// mark them as theirs, and push them back. A block that is popped while it carries a mark was handed out
// twice.
//
// The plain stack must fail before the time is over (a fraction of a second as a rule), the tagged one must
// not within the same number of operations and more. Argument: seconds to try, 10 at most by default.
#define _GNU_SOURCE
#include "vulcan_list.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

const char ancestor_name[] = "aba_test";

enum { BLOCKS = 64, BLOCK = 64, THREADS = 4, HELD = 3, TAGGED_TURNS = 2000000 };

// The mark lies behind the link, where pushing and popping do not write.
struct block {
    uint64_t link;
    _Atomic(uint32_t) owner;
};

static struct {
    list_head head;
    enum list_kind kind;
    _Atomic(bool) stop;
    _Atomic(uint64_t) doubles, turns;
    uint64_t limit;
} run;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Several blocks are held at a time and pushed back in the order in which they came: that is what brings the
// old head back onto the stack with another one below it.
static void *hammer(void *argument) {
    uint32_t me = (uint32_t)(uintptr_t)argument + 1;
    struct block *held[HELD];
    while (!atomic_load_explicit(&run.stop, memory_order_relaxed)) {
        int count = 0;
        while (count < HELD) {
            struct block *block = (struct block *)list_pop(&run.head, run.kind);
            if (block == NULL) {
                break;
            }
            if (atomic_exchange(&block->owner, me) != 0) {
                atomic_fetch_add(&run.doubles, 1);
                atomic_store(&run.stop, true);
                return NULL;
            }
            held[count++] = block;
        }
        for (int i = 0; i < count; i++) {
            atomic_store(&held[i]->owner, 0);
            list_push(&run.head, held[i], run.kind);
        }
        if (atomic_fetch_add_explicit(&run.turns, 1, memory_order_relaxed) >= run.limit) {
            atomic_store(&run.stop, true);
        }
    }
    return NULL;
}

// Returns how many blocks were handed out twice.
static uint64_t try_kind(enum list_kind kind, uint64_t limit, double seconds) {
    char *memory = (char *)window_chunk();
    atomic_store(&run.head, 0);
    atomic_store(&run.stop, false);
    atomic_store(&run.doubles, 0);
    atomic_store(&run.turns, 0);
    run.kind = kind;
    run.limit = limit;
    for (int i = 0; i < BLOCKS; i++) {
        struct block *block = (struct block *)(memory + (size_t)i * BLOCK);
        atomic_store(&block->owner, 0);
        list_push(&run.head, block, kind);
    }
    pthread_t threads[THREADS];
    double began = now();
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, hammer, (void *)(uintptr_t)i) != 0) {
            perror("aba_test: pthread_create");
            exit(2);
        }
    }
    while (!atomic_load(&run.stop) && now() - began < seconds) {
        sched_yield();
    }
    atomic_store(&run.stop, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%s: %llu turns in %.3f s, handed out twice: %s\n", kind == LIST_CAS_PLAIN ? "plain " : "tagged",
           (unsigned long long)atomic_load(&run.turns), now() - began, atomic_load(&run.doubles) != 0 ? "yes" : "no");
    return atomic_load(&run.doubles);
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 10;
    bool plain_fails = try_kind(LIST_CAS_PLAIN, UINT64_MAX, seconds) != 0;
    uint64_t turns = atomic_load(&run.turns);
    bool tagged_holds = try_kind(LIST_CAS_TAGGED, turns > TAGGED_TURNS ? turns : TAGGED_TURNS, 6 * seconds) == 0;
    if (!plain_fails) {
        fprintf(stderr, "aba_test: the plain stack did not fail; the test has lost its teeth\n");
    }
    if (!tagged_holds) {
        fprintf(stderr, "aba_test: the tagged stack handed a block out twice\n");
    }
    return plain_fails && tagged_holds ? 0 : 1;
}
