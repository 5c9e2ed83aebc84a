/* Scaling beyond the processors of this machine, by simulation.
 *
 * N threads run one after the other for one free and one malloc, so that the order of their steps is the same in every run. Every atomic
 * operation of the library comes by here with its address, and a model of the caches' protocol (each line has an owner who
 * may write it, or readers) says whether that processor would have had to fetch the line from another one. Lines are the
 * shared words only; what a thread does in its own cache is not shared and cannot miss. One exception is not simulated: a free
 * that looks for a double one may read another thread's magazine (cache/twice.h; tests/misuse/places.c counts that).
 *
 *     workloads   replace  every thread replaces blocks of mixed sizes among 2,000 of its own, which it made before
 *                 grow     the same, but its places are empty at first: while it counts, a third of the blocks are more than
 *                          were freed, so slabs are begun and looked for
 *                 pass     every thread frees what its neighbour made: all blocks cross threads
 *     check       the same over one lock: an allocator behind a mutex has at least one miss for each operation as soon as
 *                 there are two threads, and the simulation must say so
 *
 * Each is simulated in a process of its own, so that nothing is there before it. The clock is the operations', and each huge
 * page takes the same time, so that no policy depends on how fast this machine is.
 *
 * Printed: misses for each operation over 1 … 64 threads, as a table (docs/concurrency.md and docs/scaling.svg are made of
 * it), and with WORDS in the environment the words that miss most. The test: bounds for 64 threads, and the lock's simulation
 * misses with nearly every one. */
#include "base/atomic.h"
#include "freehold/freehold.h"
#include "../support/check.h"
#include "../support/processes.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#define MOST 64
#define TURNS 3000
#define OPERATIONS 1 /* a free and a malloc, then it is another thread's turn: the worst case for what is shared */
#define LIVE 2000
#define TURN_NS 200

/* ── The caches ──────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    uintptr_t line;   /* address / 64, 0 = unused entry */
    uint64_t readers; /* processors that have a copy */
    int owner;        /* who alone may write it, −1 */
    unsigned long misses;
    const fh_proof_site *by;
} cache_line;

#define TABLE (1u << 18)
static cache_line table[TABLE];
static unsigned long misses;
static __thread int processor = -1; /* −1: not simulated */
static int counting;

static cache_line *line_of(const void *word) {
    uintptr_t line = (uintptr_t)word >> 6;
    for (size_t h = line * UINT64_C(0x9E3779B97F4A7C15) >> 46;; h = (h + 1) % TABLE) {
        if (table[h].line == line) return &table[h];
        if (table[h].line == 0) {
            table[h].line = line;
            table[h].owner = -1;
            return &table[h];
        }
    }
}

static void touch(const void *word, int writes, const fh_proof_site *by) {
    if (processor < 0) return;
    cache_line *c = line_of(word);
    uint64_t me = UINT64_C(1) << processor;
    int have = writes ? c->owner == processor || c->readers == me : (c->readers & me) != 0;
    /* The first use of a line by anybody is a miss to memory, not to another processor. */
    int others = (c->readers & ~me) != 0;
    if (!have && others && counting) {
        misses++;
        c->misses++;
        c->by = by;
    }
    c->owner = writes ? processor : -1;
    c->readers = writes ? me : c->readers | me;
}

void fh_proof_step(fh_proof_site *site, const void *word, int writes) {
    touch(word, writes, site);
}

/* What the kernel would say on a machine with a processor for each thread. */
unsigned __wrap_fh_system_cpu_hint(void);
unsigned __wrap_fh_system_cpu_hint(void) {
    return processor < 0 ? 0 : (unsigned)processor;
}

/* What the library is told of the time. */
static uint64_t clock_ns = UINT64_C(1) << 34;

uint64_t __wrap_fh_system_nanoseconds(void);
uint64_t __wrap_fh_system_nanoseconds(void) {
    return clock_ns;
}

uint64_t __wrap_fh_system_touch(void *page);
uint64_t __wrap_fh_system_touch(void *page) {
    *(volatile char *)page = 0;
    return 50000; /* a quick one */
}

/* ── Workloads ───────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    int number;
    sem_t turn, done;
    uint64_t seed;
    void *block[LIVE];
} worker;

static worker workers[MOST];
static int threads;
static enum { REPLACE, GROW, PASS, MUTEX, WORKLOADS } workload;
static char mutex_word[64] __attribute__((aligned(64)));

static void *make(size_t n) {
    if (workload == MUTEX) touch(mutex_word, 1, NULL);
    return workload == MUTEX ? malloc(n) : fh_malloc(n);
}
static void drop(void *p) {
    if (workload == MUTEX) {
        touch(mutex_word, 1, NULL);
        free(p);
    } else {
        fh_free(p);
    }
}

static void *make_any(worker *w) {
    void *p = make(16 + random_below(&w->seed, 240));
    CHECK(p != NULL, "no memory");
    return p;
}

static void fill_places(worker *w) {
    for (int k = 0; k < LIVE; k++) w->block[k] = make_any(w);
}

static void replace_one(worker *w) {
    void **place = &w->block[random_below(&w->seed, LIVE)];
    drop(*place);
    *place = make_any(w);
}

/* From a random place on the next one that is full, or empty. */
static void **next_place(worker *of, uint64_t *seed, bool full) {
    size_t k = random_below(seed, LIVE);
    for (int i = 0; i < LIVE && (of->block[k] != NULL) != full; i++) k = (k + 1) % LIVE;
    return &of->block[k];
}

/* Frees a block that the neighbour made, once there are half as many as there are places, and leaves it one to free. */
static void pass_on(worker *w, int turn) {
    if (turn >= LIVE / 2) {
        void **theirs = next_place(&workers[(w->number + 1) % threads], &w->seed, true);
        drop(*theirs);
        *theirs = NULL;
    }
    void **mine = next_place(w, &w->seed, false);
    CHECK(*mine == NULL, "no place");
    *mine = make_any(w);
}

static void *work(void *argument) {
    worker *w = argument;
    processor = w->number;
    for (int turn = 0; turn < TURNS; turn++) {
        sem_wait(&w->turn);
        if (turn == 0 && (workload == REPLACE || workload == MUTEX)) fill_places(w);
        for (int i = 0; i < OPERATIONS; i++) workload == PASS ? pass_on(w, turn) : replace_one(w);
        sem_post(&w->done);
    }
    processor = -1;
    return NULL;
}

/* Misses for each malloc or free of this many threads, after a warm-up of half of the turns. */
static double simulate(int n) {
    pthread_t thread[MOST];
    memset(table, 0, sizeof table);
    misses = 0;
    counting = 0;
    threads = n;
    for (int i = 0; i < n; i++) {
        workers[i] = (worker){.number = i, .seed = (uint64_t)i + 1};
        sem_init(&workers[i].turn, 0, 0);
        sem_init(&workers[i].done, 0, 0);
        pthread_create(&thread[i], NULL, work, &workers[i]);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        if (turn == TURNS / 2) counting = 1;
        clock_ns += TURN_NS;
        for (int i = 0; i < n; i++) {
            sem_post(&workers[i].turn);
            sem_wait(&workers[i].done);
        }
    }
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < LIVE; k++) workload == MUTEX ? free(workers[i].block[k]) : fh_free(workers[i].block[k]);
    }
    CHECK(workload == MUTEX || fh_verify() == 0, "the heap is not whole after %d threads", n);
    return (double)misses / (2.0 * n * OPERATIONS * (TURNS / 2));
}

static void print_worst(void) {
    for (int n = 0; n < 8; n++) {
        cache_line *worst = &table[0];
        for (size_t i = 0; i < TABLE; i++) {
            if (table[i].misses > worst->misses) worst = &table[i];
        }
        if (!worst->misses) return;
        printf("    %6lu misses  line %#lx  last %s:%d %s\n", worst->misses, (unsigned long)worst->line << 6,
               worst->by ? worst->by->file : "", worst->by ? worst->by->line : 0,
               worst->by ? worst->by->operation : "");
        worst->misses = 0;
    }
}

static const char *const names[WORKLOADS] = {"replace", "grow", "pass", "mutex, replace"};

/* In a process of its own: so many threads of one workload. */
static void one(const char *name, int n) {
    while (strcmp(names[workload], name) != 0) workload++;
    double result = simulate(n);
    if (n == MOST && getenv("WORDS")) print_worst();
    give_result(&result, sizeof result);
}

/* One thread runs at a time, and hands over with half the work where the next one is on the same CPU. */
static void stay_on_one_cpu(void) {
    cpu_set_t this_one;
    CPU_ZERO(&this_one);
    CPU_SET(sched_getcpu(), &this_one);
    sched_setaffinity(0, sizeof this_one, &this_one);
}

int main(int count, char **argument) {
    stay_on_one_cpu();
    static const double bound[] = {0.005, 0.07, 0.03};
    static const int counts[] = {1, 2, 4, 8, 16, 32, MOST};
    double at[WORKLOADS][7];
    if (count > 2) {
        one(argument[1], atoi(argument[2]));
        return 0;
    }
    printf("cache lines fetched from another processor, for each malloc or free\n%-14s", "threads");
    for (int k = 0; k < 7; k++) printf("%9d", counts[k]);
    printf("\n");
    for (int w = 0; w < WORKLOADS; w++) {
        printf("%-14s", names[w]);
        for (int k = 0; k < 7; k++) {
            run_part(names[w], (size_t)counts[k], &at[w][k], sizeof at[w][k]);
            printf("%9.4f", at[w][k]);
        }
        printf("\n");
    }
    CHECK(at[MUTEX][0] == 0 && at[MUTEX][1] > 0.45, "the simulation does not see the lock's line move: %.3f",
          at[MUTEX][1]);
    for (int w = 0; w < MUTEX; w++) {
        CHECK(at[w][0] == 0, "%s: one thread alone misses", names[w]);
        CHECK(at[w][6] <= bound[w], "%s: %.4f misses for each operation, %g at most", names[w], at[w][6], bound[w]);
    }
    return 0;
}
