/* Random calls from many threads; every byte of every block is written and looked at again.
 *
 *   each thread   holds some thousand blocks and, again and again, picks one: frees it, resizes it, replaces it by
 *                 one from any of the allocating calls, or swaps it with a mailbox.
 *   mailboxes     are shared words.  A block left there is taken by whoever comes next and is freed, resized or
 *                 kept by that thread, so that blocks cross threads all the time.
 *
 * What it finds: blocks handed out twice or overlapping (the bytes of the one are the other's), bytes lost by
 * realloc, dirt in calloc, alignment, and whatever a sanitizer finds in the library underneath.
 *
 * FREEHOLD_TEST_SECONDS or FREEHOLD_SOAK: how long in all (default 8, shared by 1, 2, 4 and 8 threads).
 * FREEHOLD_TEST_SEED: the seed; it fixes what each thread does, not how the threads interleave. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"
#include "../support/whole.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

enum { HELD = 3000, MAILBOXES = 256, MOST_THREADS = 8, EACH_HOLDS_AT_MOST = 24 << 20 };

/* What is known of a block.  The note itself comes from the allocator under test when it travels by mailbox. */
struct note {
    unsigned char *block;
    size_t size, alignment;
    uint64_t key;
};

static _Atomic(struct note *) mailboxes[MAILBOXES];
static atomic_bool stop;

struct worker {
    uint64_t random, seed, operations, crossed;
    size_t bytes; /* held now */
    struct note held[HELD];
};

/* Mostly small, as programs are; every class now and then; large and huge ones rarely, and not by many at once. */
static size_t random_size(struct worker *me) {
    uint64_t kind = random_below(&me->random, 1000);
    if (kind < 600) {
        return random_below(&me->random, 256);
    }
    if (kind < 880) {
        return random_below(&me->random, 4096);
    }
    if (kind < 980) {
        return random_below(&me->random, 70000);
    }
    if (kind < 998 || me->bytes > EACH_HOLDS_AT_MOST) {
        return random_below(&me->random, 400000);
    }
    return random_below(&me->random, 6000000);
}

static void examine(const struct note *note, const char *when) {
    long wrong = pattern_wrong(note->block, note->size, note->key);
    CHECK(wrong < 0, "%s: block %p of %zu bytes (alignment %zu) is wrong at byte %ld", when, (void *)note->block,
          note->size, note->alignment, wrong);
}

static void release(struct worker *me, struct note *note) {
    examine(note, "at free");
    me->bytes -= note->size;
    switch (random_below(&me->random, 4)) {
    case 0:
        if (note->alignment > 1) {
            t_free_aligned_sized(note->block, note->alignment, note->size);
        } else {
            t_free_sized(note->block, note->size);
        }
        break;
    default:
        t_free(note->block);
    }
    note->block = NULL;
}

/* A block from any of the calls that make one. */
static unsigned char *allocate(struct worker *me, size_t *size, size_t *alignment) {
    void *block = NULL;
    *alignment = 1;
    switch (random_below(&me->random, 12)) {
    case 0:
    case 1: {
        block = t_calloc(1, *size);
        long wrong = block ? first_not_zero(block, *size) : -1;
        CHECK(wrong < 0, "calloc(%zu): byte %ld is not zero", *size, wrong);
        return block;
    }
    case 2:
        return t_realloc(NULL, *size);
    case 3:
        *size -= *size % 8;
        return t_reallocarray(NULL, *size / 8, 8);
    case 4:
        *alignment = (size_t)1 << random_below(&me->random, 17);
        return t_aligned_alloc(*alignment, *size);
    case 5:
        *alignment = (size_t)1 << random_below(&me->random, 13);
        return t_memalign(*alignment, *size);
    case 6:
        *alignment = (size_t)8 << random_below(&me->random, 12);
        CHECK(t_posix_memalign(&block, *alignment, *size) == 0, "posix_memalign(%zu, %zu)", *alignment, *size);
        return block;
    default:
        return t_malloc(*size);
    }
}

static void replace(struct worker *me, struct note *note) {
    if (note->block) {
        release(me, note);
    }
    note->size = random_size(me);
    note->block = allocate(me, &note->size, &note->alignment);
    CHECK(note->block, "%zu bytes (alignment %zu): NULL, errno %d", note->size, note->alignment, errno);
    CHECK((uintptr_t)note->block % note->alignment == 0, "block %p is not aligned to %zu", (void *)note->block,
          note->alignment);
    CHECK(t_usable_size(note->block) >= note->size, "usable size of %zu bytes is %zu", note->size,
          t_usable_size(note->block));
    note->key = random_next(&me->random);
    me->bytes += note->size;
    pattern_fill(note->block, note->size, note->key);
}

/* The bytes that fit must be the old ones; then the block is filled anew to its new end. */
static void resize(struct worker *me, struct note *note) {
    size_t old = note->size, size = random_size(me) + 1;
    if (random_below(&me->random, 3) == 0) {
        size = old + random_below(&me->random, old / 2 + 64) + 1;
    }
    unsigned char *moved = t_realloc(note->block, size);
    CHECK(moved, "realloc(%zu → %zu): NULL, errno %d", old, size, errno);
    long wrong = pattern_wrong(moved, old < size ? old : size, note->key);
    CHECK(wrong < 0, "realloc(%zu → %zu) lost byte %ld", old, size, wrong);
    me->bytes += size - old;
    *note = (struct note){moved, size, 1, note->key};
    pattern_fill(moved, size, note->key);
}

/* Leaves the block in a mailbox and takes what lay there, if anything did. */
static void swap_by_mail(struct worker *me, struct note *note) {
    struct note *letter = t_malloc(sizeof *letter);
    CHECK(letter, "no memory for a letter");
    *letter = *note;
    me->bytes -= note->size;
    note->block = NULL;
    /* Release and acquire in one: the next taker must see the block as it was filled. */
    letter = atomic_exchange_explicit(&mailboxes[random_below(&me->random, MAILBOXES)], letter, memory_order_acq_rel);
    if (letter) {
        examine(letter, "from the mailbox");
        *note = *letter;
        me->bytes += note->size;
        me->crossed++;
        t_free(letter);
    }
}

static void *work(void *argument) {
    struct worker *me = argument;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        for (int i = 0; i < 64; i++) {
            struct note *note = &me->held[random_below(&me->random, HELD)];
            uint64_t choice = random_below(&me->random, 100);
            if (!note->block || choice < 50) {
                replace(me, note);
            } else if (choice < 65) {
                resize(me, note);
            } else if (choice < 85) {
                swap_by_mail(me, note);
            } else {
                release(me, note);
            }
        }
        me->operations += 64;
        if (random_below(&me->random, 500) == 0) {
            t_thread_flush();
        }
        if (random_below(&me->random, 20000) == 0) {
            t_malloc_trim(0);
        }
    }
    for (int i = 0; i < HELD; i++) {
        if (me->held[i].block) {
            release(me, &me->held[i]);
        }
    }
    CHECK(me->bytes == 0, "the test lost count: %zu bytes", me->bytes);
    return NULL;
}

static void run(int threads, double seconds, uint64_t seed) {
    static struct worker workers[MOST_THREADS];
    pthread_t ids[MOST_THREADS];
    atomic_store(&stop, false);
    for (int i = 0; i < threads; i++) {
        memset(&workers[i], 0, sizeof workers[i]);
        workers[i].random = seed + (uint64_t)i * 7919 + (uint64_t)threads;
        CHECK(pthread_create(&ids[i], NULL, work, &workers[i]) == 0, "pthread_create");
    }
    usleep((useconds_t)(seconds * 1e6));
    atomic_store(&stop, true);
    uint64_t operations = 0, crossed = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        operations += workers[i].operations;
        crossed += workers[i].crossed;
    }
    /* What still lies in the mailboxes outlived its thread: it must be whole, too. */
    for (int i = 0; i < MAILBOXES; i++) {
        struct note *letter = atomic_exchange(&mailboxes[i], NULL);
        if (letter) {
            examine(letter, "after its thread ended");
            t_free(letter->block);
            t_free(letter);
        }
    }
    printf("%d threads: %llu operations, %llu blocks crossed threads\n", threads, (unsigned long long)operations,
           (unsigned long long)crossed);
    fflush(stdout);
    CHECK(operations > 0 && (crossed > 0), "nothing was tested");
    check_whole_and_empty();
}

int main(void) {
    uint64_t seed = random_seed();
    double seconds = test_seconds(8);
    static const int threads[] = {1, 2, 4, 8};
    for (int i = 0; i < 4; i++) {
        run(threads[i], seconds / 4, seed);
    }
    return 0;
}
