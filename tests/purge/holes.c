/* Hole reuse (src/store/holes.h): sizes grow from phase to phase, and one block in eight stays. Blocks of later sizes are put
 * into the holes that earlier ones left. Every block must hold what was written to it, be aligned as requested, and be freed
 * by any thread. Wrong pointers into borrowed slabs are told apart. When all is free, all of the slabs are released. The store
 * itself is asked whether there were guest blocks at all. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"
#include "../support/pattern.h"

#include "store/holes.h"

#include <pthread.h>
#include <sys/wait.h>

#ifdef T_SANITIZED /* where each byte that is written takes many times as long */
enum { VOLUME = 5 << 20 };
#else
enum { VOLUME = 12 << 20 };
#endif
enum { PHASES = 36, STAYS = 8, MOST = VOLUME / 32, THREADS = 4 };

typedef struct {
    unsigned char *start;
    uint32_t size, align;
} block;

/* What stays of one thread's phases. */
typedef struct {
    block *list;
    size_t count, lodgers;
    size_t volume;
    uint64_t random;
} tenant;

static void check(const block *b) {
    long wrong = pattern_wrong(b->start, b->size, (uintptr_t)b->start);
    CHECK(wrong < 0, "byte %ld of a block of %u changed", wrong, b->size);
}

static void release(const block *b) {
    check(b);
    t_free(b->start);
}

/* One block in 64 is aligned, one is cleared, one grows. */
static block make(tenant *t, size_t size) {
    block b = {.size = (uint32_t)size, .align = 16};
    switch (random_below(&t->random, 64)) {
    case 0:
        b.align = 32u << random_below(&t->random, 8);
        b.start = t_memalign(b.align, size);
        break;
    case 1:
        b.start = t_calloc(1, size);
        CHECK(first_not_zero(b.start, size) < 0, "calloc of %zu bytes is not zero", size);
        break;
    case 2:
        b.start = t_malloc(size / 2 + 1);
        pattern_fill(b.start, size / 2 + 1, 7);
        b.start = t_realloc(b.start, size);
        CHECK(pattern_wrong(b.start, size / 2 + 1, 7) < 0, "realloc to %zu bytes lost some", size);
        break;
    default:
        b.start = t_malloc(size);
    }
    CHECK(b.start && (uintptr_t)b.start % b.align == 0, "%zu bytes aligned to %u: %p", size, b.align, (void *)b.start);
    size_t usable = t_usable_size(b.start), bytes = 0;
    CHECK(usable >= size, "%zu usable bytes of %zu", usable, size);
    void *begin = fh_holes_block_of(b.start, &bytes);
    if (begin) {
        CHECK(begin == b.start && bytes == usable, "a lodger of %zu bytes says %zu", usable, bytes);
        CHECK(fh_holes_block_of(b.start + usable - 1, &bytes) == b.start, "the last byte of a lodger is another's");
        CHECK(b.align > 16 || usable <= size * 7 / 5 + 64, "a lodger of %zu bytes has %zu", size, usable);
        t->lodgers++;
    }
    pattern_fill(b.start, size, (uintptr_t)b.start);
    return b;
}

/* Sizes are 32 … 96 bytes at first, and a fifth more in each phase. */
static void run_phase(tenant *t, int phase, block *blocks) {
    size_t low = 32, count = 0;
    for (int i = 0; i < phase; i++) low += low / 6;
    for (size_t made = 0; made < t->volume; made += blocks[count++].size)
        blocks[count] = make(t, low + random_below(&t->random, 2 * low));
    for (size_t i = 0; i < count; i++) {
        if (random_below(&t->random, STAYS) == 0) {
            t->list[t->count++] = blocks[i];
        } else {
            release(&blocks[i]);
        }
    }
    /* Of what has stayed longer a part goes too, so that lodgers and hosts are given in all orders. */
    for (size_t i = 0; i < t->count / 16; i++) {
        size_t victim = random_below(&t->random, t->count);
        release(&t->list[victim]);
        t->list[victim] = t->list[--t->count];
    }
}

static tenant begin(size_t volume, uint64_t seed) {
    return (tenant){.list = calloc(PHASES * MOST / STAYS, sizeof(block)), .volume = volume, .random = seed};
}

static void end(tenant *t) {
    for (size_t i = 0; i < t->count; i++) release(&t->list[i]);
    free(t->list);
}

/* ── Threads ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static pthread_barrier_t line;
static tenant tenants[THREADS];

/* In each phase a thread goes on with what its neighbour had: what one made another frees. */
static void *share(void *argument) {
    size_t number = (size_t)(uintptr_t)argument;
    block *blocks = calloc(MOST, sizeof *blocks);
    for (int phase = 0; phase < PHASES; phase++) {
        run_phase(&tenants[(number + (size_t)phase) % THREADS], phase, blocks);
        if (phase % 8 == 7) t_thread_flush();
        pthread_barrier_wait(&line);
        if (number == 0 && phase % 12 == 11) t_malloc_trim(0);
    }
    free(blocks);
    return NULL;
}

static void threads(void) {
    pthread_t thread[THREADS];
    size_t lodgers = 0;
    pthread_barrier_init(&line, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++) tenants[i] = begin(VOLUME, i + 1);
    for (size_t i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, share, (void *)(uintptr_t)i);
    for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (size_t i = 0; i < THREADS; i++) {
        lodgers += tenants[i].lodgers;
        end(&tenants[i]);
    }
    printf("%d threads: %zu lodgers\n", THREADS, lodgers);
    CHECK(lodgers > 1000, "%zu lodgers", lodgers);
}

/* ── Alone ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* What the library says on stderr about a pointer that is freed. */
static void told(void *p, const char *word) {
    char text[1024] = {0};
    int ends[2], saved = dup(2);
    CHECK(pipe(ends) == 0 && dup2(ends[1], 2) == 2, "stderr into a pipe");
    t_free(p);
    dup2(saved, 2);
    close(saved);
    close(ends[1]);
    CHECK(read(ends[0], text, sizeof text - 1) > 0 && strstr(text, word) && !strstr(text, "handed in"),
          "free(%p) should be told as %s: %s", p, word, text);
    close(ends[0]);
}

/* A lodger of two units at least among what stayed, moved to the end of the list. */
static block *some_lodger(tenant *t) {
    for (size_t i = 0; i < t->count; i++) {
        size_t bytes = 0;
        block b = t->list[i];
        /* The middle of a block of one unit would be the middle of a unit. */
        if (!fh_holes_block_of(b.start, &bytes) || bytes < 1024) continue;
        t->list[i] = t->list[t->count - 1];
        t->list[t->count - 1] = b;
        return &t->list[t->count - 1];
    }
    CHECK(false, "none of %zu blocks is a lodger of 1 KiB", t->count);
    return NULL;
}

static void wrong_pointers(tenant *t) {
    CHECK(fh_option_set("on_error", "report") == 0, "on_error=report");
    block *b = some_lodger(t);
    told(b->start + 16, "middle of a block");
    told(b->start + b->size - 1, "middle of a block");
    check(b);
    unsigned char *gone = b->start;
    t->count--;
    release(b);
    told(gone, "double free");
    CHECK(fh_option_set("on_error", "abort") == 0, "on_error=abort");
}

/* A child has all of it, and gives it back. */
static void forked(tenant *t) {
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        end(t);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %d", status);
}

static void alone(void) {
    size_t before = t_mallinfo2().uordblks, live = 0;
    tenant t = begin(4 * (size_t)VOLUME, 9);
    block *blocks = calloc(4 * MOST, sizeof *blocks);
    t.list = realloc(t.list, 4 * sizeof(block) * PHASES * MOST / STAYS);
    for (int phase = 0; phase < PHASES; phase++) run_phase(&t, phase, blocks);
    for (size_t i = 0; i < t.count; i++) live += t.list[i].size;
    t_thread_flush();
    size_t said = t_mallinfo2().uordblks - before;
    printf("alone: %zu lodgers, %zu KiB alive, said to be %zu\n", t.lodgers, live >> 10, said >> 10);
    CHECK(t.lodgers > 1000, "%zu lodgers", t.lodgers);
    /* Rounding of classes, of lodgers, and aligned blocks. */
    CHECK(said >= live && said < live + live / 4, "%zu bytes are alive, the figures say %zu", live, said);
    wrong_pointers(&t);
    forked(&t);
    end(&t);
    free(blocks);
    t_malloc_trim(0);
    said = t_mallinfo2().uordblks - before;
    CHECK(said < 64 << 10, "%zu bytes are alive when all is freed", said);
#ifndef T_SANITIZED
    CHECK(resident_bytes() < (size_t)24 << 20, "%zu MiB resident when all is freed", resident_bytes() >> 20);
#else
    skip_part("what is resident is mostly the sanitizer's: not asked how much stays when all is freed");
#endif
}

/* With an argument only the threads. */
int main(int argc, char **argv) {
    (void)argv;
    if (argc == 1) alone();
    CHECK(t_verify() == 0, "the heap is not whole after one thread");
    threads();
    CHECK(t_verify() == 0, "the heap is not whole after several threads");
    return 0;
}
