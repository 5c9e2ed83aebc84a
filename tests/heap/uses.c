/* Heaps that end while they are in use, and uses of heaps that have ended: what a checked build says of them. uses PART */
#include "../support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <freehold/heap.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static void *in_thread(void *(*body)(void *), void *arg) {
    pthread_t thread;
    void *result;
    CHECK(!pthread_create(&thread, NULL, body, arg), "no thread");
    pthread_join(thread, &result);
    return result;
}

static fh_heap *named(const char *name) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.name = name});
    CHECK(h, "no heap");
    return h;
}

/* ── After the end: the first line on stderr says what was found (CMakeLists.txt) ────────────────────────────────────── */

static fh_heap *over(void) {
    fh_heap *h = named("query");
    CHECK(fh_heap_destroy(h) == 0, "it does not end");
    return h;
}

static void part_malloc_after(void) {
    fh_heap *h = over();
    void *volatile p = fh_heap_malloc(h, 10);
    (void)p;
}

/* The next heap has another address, so that the first one's is not taken for the next one's. */
static void part_malloc_after_next(void) {
    fh_heap *h = over();
    CHECK(named("next") != h, "the next heap is at the same address");
    void *volatile p = fh_heap_malloc(h, 10);
    (void)p;
}

static void part_free_after(void) {
    fh_heap *h = named("query");
    void *volatile p = fh_heap_malloc(h, 100);
    fh_heap_destroy(h);
    CHECK(fh_heap_of(p) == NULL, "a block is of a heap that was destroyed");
    fh_free(p);
}

static void part_realloc_after(void) {
    fh_heap *h = named("query");
    void *volatile p = fh_heap_malloc(h, 100);
    fh_heap_destroy(h);
    p = fh_realloc(p, 200);
}

static void part_reset_after(void) {
    fh_heap_reset(over());
}

static void ignore(void *block, size_t size, void *arg) {
    (void)block, (void)size, (void)arg;
}

static void part_walk_after(void) {
    fh_heap_walk(over(), ignore, NULL);
}

static void part_destroy_after(void) {
    fh_heap_destroy(over());
}

static void part_parent_after(void) {
    fh_heap_new(&(fh_heap_options){.parent = over()});
}

/* ── In use by another call ──────────────────────────────────────────────────────────────────────────────────────────── */

static void *destroys(void *h) {
    return fh_heap_destroy(h) == -1 && errno == EBUSY ? h : NULL;
}

static void *resets(void *h) {
    return fh_heap_reset(h) == -1 && errno == EBUSY ? h : NULL;
}

static void destroy_meanwhile(void *block, size_t size, void *arg) {
    (void)block, (void)size;
    CHECK(in_thread(destroys, arg) == arg, "a heap ends within a walk");
}

static void reset_meanwhile(void *block, size_t size, void *arg) {
    (void)block, (void)size;
    CHECK(in_thread(resets, arg) == arg, "a heap is reset within a walk");
}

static void walk_with(void (*fn)(void *, size_t, void *)) {
    fh_heap *h = named("query");
    char *p = fh_heap_malloc(h, 100);
    memcpy(p, "kept", 5);
    fh_heap_walk(h, fn, h);
    CHECK(strcmp(p, "kept") == 0 && fh_heap_of(p) == h, "the block is gone");
    fh_free(p);
    CHECK(fh_heap_destroy(h) == 0, "it does not end after the walk");
}

static void part_destroy_in_walk(void) {
    walk_with(destroy_meanwhile);
}

static void part_reset_in_walk(void) {
    walk_with(reset_meanwhile);
}

static int destroy_full(fh_heap *h, size_t wanted, int hard, void *arg) {
    (void)wanted, (void)hard, (void)arg;
    CHECK(fh_heap_destroy(h) == -1, "a heap ends within its callback");
    return 0;
}

static void part_destroy_in_callback(void) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.hard_limit = 65536, .callback = destroy_full});
    CHECK(!fh_heap_malloc(h, 100000), "beyond the limit");
    CHECK(fh_heap_destroy(h) == 0, "it does not end after the call");
}

/* ── While it ends ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static void *frees(void *p) {
    fh_free(p);
    return NULL;
}

static void *allocates(void *h) {
    return fh_heap_malloc(h, 100);
}

static void free_meanwhile(void *p) {
    in_thread(frees, p);
}

static void destroy_too(void *h) {
    in_thread(destroys, h);
}

static void allocate_meanwhile(void *h) {
    CHECK(!in_thread(allocates, h), "a heap that ends has room");
}

static void part_free_meanwhile(void) {
    fh_heap *h = named("query");
    fh_heap_on_destroy(h, free_meanwhile, fh_heap_malloc(h, 100));
    CHECK(fh_heap_destroy(h) == 0, "it does not end");
}

static void part_free_in_reset(void) {
    fh_heap *h = named("query");
    fh_heap_on_destroy(h, free_meanwhile, fh_heap_malloc(h, 3000));
    CHECK(fh_heap_reset(h) == 0 && fh_heap_malloc(h, 10), "it is not as new");
}

static void part_malloc_meanwhile(void) {
    fh_heap *h = named("query");
    fh_heap_on_destroy(h, allocate_meanwhile, h);
    CHECK(fh_heap_destroy(h) == 0, "it does not end");
}

static void part_destroy_twice_at_once(void) {
    fh_heap *h = named("query");
    fh_heap_on_destroy(h, destroy_too, h);
    CHECK(fh_heap_destroy(h) == 0, "it does not end");
}

/* ── What is no mistake ──────────────────────────────────────────────────────────────────────────────────────────────── */

static int ended;

static void use_own(void *h) {
    void *p = fh_heap_malloc(h, 100);
    CHECK(p && fh_heap_of(p) == h, "no block in its own callback");
    fh_free(p);
    ended++;
}

static void fork_meanwhile(void *block, size_t size, void *arg) {
    (void)block, (void)size;
    int status;
    pid_t child = fork();
    if (child == 0) _exit((int)(intptr_t)in_thread(destroys, arg) != 0);
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child cannot end the heap");
}

/* The thread that ends a heap uses it in the callbacks for that; and in the child of a fork no other thread uses any. */
static void part_allowed(void) {
    fh_heap *h = named("query");
    CHECK(fh_heap_on_destroy(h, use_own, h) == 0 && fh_heap_reset(h) == 0, "no reset");
    CHECK(fh_heap_on_destroy(h, use_own, h) == 0, "no callback");
    void *p = fh_heap_malloc(h, 100);
    CHECK(p, "no block");
    fh_heap_walk(h, fork_meanwhile, h);
    CHECK(fh_heap_destroy(h) == 0 && ended == 2, "it does not end");
}

/* ── A race ──────────────────────────────────────────────────────────────────────────────────────────────────────────── */

#define BLOCKS 24
#define ROUNDS 4000

static struct {
    fh_heap *heap;
    void *block[BLOCKS];
    atomic_int ready;
    atomic_uint round, at; /* the block that is freed now */
    unsigned left;         /* blocks that were live when their heap ended */
    unsigned refused;      /* ends */
} race;

static void meet(unsigned round) {
    atomic_fetch_add(&race.ready, 1);
    while (atomic_load(&race.round) < round) sched_yield();
}

static void *free_all(void *unused) {
    for (unsigned round = 1; round <= ROUNDS; round++) {
        meet(round);
        for (unsigned i = 0; i < BLOCKS; i++) {
            atomic_store(&race.at, i);
            fh_free(race.block[i]);
        }
        atomic_fetch_add(&race.ready, 1);
    }
    return unused;
}

static void count_left(void *h) {
    fh_heap_figures f;
    CHECK(fh_heap_stats(h, &f) == 0, "no figures");
    race.left += (unsigned)f.count;
}

static unsigned lines_with(const char *path, const char *text) {
    char line[512];
    unsigned n = 0;
    FILE *f = fopen(path, "r");
    CHECK(f, "no %s", path);
    while (fgets(line, sizeof line, f)) n += strstr(line, text) != NULL;
    fclose(f);
    return n;
}

/* One thread frees the blocks of a heap, this one destroys it at some moment meanwhile. Each free that comes too late is reported,
 * and so is each end that comes too early: no more and no fewer. */
static void part_race(void) {
    char path[] = "/tmp/freehold-uses-XXXXXX";
    int file = mkstemp(path), err = dup(2);
    pthread_t thread;
    uint64_t seed = 1;
    CHECK(file >= 0 && err >= 0 && dup2(file, 2) == 2, "no file");
    CHECK(!pthread_create(&thread, NULL, free_all, NULL), "no thread");
    for (unsigned round = 1; round <= ROUNDS; round++) {
        race.heap = named("race");
        for (unsigned i = 0; i < BLOCKS; i++) race.block[i] = fh_heap_malloc(race.heap, 40 + 20 * i);
        CHECK(fh_heap_on_destroy(race.heap, count_left, race.heap) == 0, "no callback");
        while (atomic_load(&race.ready) < 1) sched_yield();
        atomic_store(&race.ready, 0);
        atomic_store(&race.at, 0);
        atomic_store(&race.round, round);
        for (unsigned at = (unsigned)random_below(&seed, BLOCKS); atomic_load(&race.at) < at;) continue;
        bool refused = fh_heap_destroy(race.heap) != 0;
        while (atomic_load(&race.ready) < 1) sched_yield();
        atomic_fetch_sub(&race.ready, 1);
        race.refused += refused;
        if (refused) CHECK(fh_heap_destroy(race.heap) == 0, "it does not end though no call is on it");
    }
    pthread_join(thread, NULL);
    CHECK(dup2(err, 2) == 2, "no stderr");
    unsigned late = lines_with(path, "use during destroy") + lines_with(path, "use after destroy: the heap \"race\"");
    unsigned early = lines_with(path, "fh_heap_destroy(0x"), all = lines_with(path, "freehold: ");
    unlink(path);
    printf("%u frees came too late, %u ends too early\n", late, early);
    /* The callback's own record is a block as well. */
    CHECK(race.left - ROUNDS == late, "%u blocks were left, %u frees are reported", race.left - ROUNDS, late);
    CHECK(race.refused == early && all == late + early, "%u ends were refused, %u are reported", race.refused, early);
    CHECK(late > 0, "the two never met");
    CHECK(fh_verify() == 0, "the heap is damaged");
}

int main(int count, char **words) {
#define PART(name)                                                                                                     \
    { #name, part_##name }
    static const struct {
        const char *name;
        void (*part)(void);
    } parts[] = {PART(malloc_after),
                 PART(malloc_after_next),
                 PART(free_after),
                 PART(realloc_after),
                 PART(reset_after),
                 PART(walk_after),
                 PART(destroy_after),
                 PART(parent_after),
                 PART(destroy_in_walk),
                 PART(reset_in_walk),
                 PART(free_meanwhile),
                 PART(destroy_in_callback),
                 PART(malloc_meanwhile),
                 PART(destroy_twice_at_once),
                 PART(free_in_reset),
                 PART(allowed),
                 PART(race)};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && count == 2; i++) {
        if (strcmp(parts[i].name, words[1]) != 0) continue;
        parts[i].part();
        return 0;
    }
    return 2;
}
