/* What heaps have together with those below them, and what was asked for, beside the program's own count. totals PART */
#include "../support/check.h"

#include <freehold/heap.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

typedef struct {
    size_t count, asked, usable;
} books;

static fh_heap_totals totals(fh_heap *h) {
    fh_heap_totals t;
    CHECK(fh_heap_stats_below(h, &t) == 0, "no totals");
    CHECK(t.unknown <= t.requested && t.requested <= t.live, "%zu unknown, %zu requested, %zu live", t.unknown,
          t.requested, t.live);
    for (size_t i = 0; i < sizeof t.reserved / sizeof *t.reserved; i++) CHECK(t.reserved[i] == 0, "reserved");
    return t;
}

/* ── What was asked for ──────────────────────────────────────────────────────────────────────────────────────────── */

enum { BLOCKS = 400 };
typedef struct {
    unsigned char *p;
    size_t n;
} block;

static size_t some_size(uint64_t *seed, size_t most) {
    size_t n = (size_t)random_below(seed, (size_t)1 << (random_below(seed, 20) ? 11 : 18));
    return n < most ? n : most;
}

static void change(fh_heap *h, block *b, size_t most, uint64_t *seed) {
    size_t n = some_size(seed, most), kept = n < b->n ? n : b->n, how = (size_t)random_below(seed, 4);
    if (b->p && how == 0) {
        fh_free(b->p);
        *b = (block){NULL, 0};
        return;
    }
    unsigned char *q = b->p       ? fh_heap_realloc(h, b->p, n + 1)
                       : how == 1 ? fh_heap_calloc(h, 1, n + 1)
                       : how == 2 ? fh_heap_aligned_alloc(h, (size_t)16 << random_below(seed, 6), n + 1)
                                  : fh_heap_malloc(h, n + 1);
    CHECK(q != NULL, "no %zu", n);
    for (size_t i = 0; b->p && i < kept; i++) CHECK(q[i] == 0x5A, "byte %zu of %zu is lost", i, b->n);
    for (size_t i = 0; !b->p && how == 1 && i <= n; i++) CHECK(q[i] == 0, "calloc: byte %zu", i);
    *b = (block){q, n + 1};
    CHECK(fh_malloc_usable_size(q) == b->n, "usable %zu of %zu", fh_malloc_usable_size(q), b->n);
    memset(q, 0x5A, b->n);
}

static void see(void *p, size_t size, void *arg) {
    books *met = arg;
    CHECK(fh_malloc_usable_size(p) == size, "a walk says %zu", size);
    met->count++;
    met->asked += size;
}

/* Random calls on a heap that keeps sizes: what it says was asked for is what this program has asked for, to the byte. */
static void random_calls(const fh_heap_options *options, size_t most) {
    static block all[BLOCKS];
    uint64_t seed = random_seed();
    fh_heap *h = fh_heap_new(options);
    CHECK(h != NULL, "no heap");
    memset(all, 0, sizeof all);
    for (int i = 0; i < 12000; i++) change(h, &all[random_below(&seed, BLOCKS)], most, &seed);
    books own = {0, 0, 0}, met = {0, 0, 0};
    for (int i = 0; i < BLOCKS; i++) {
        own.count += all[i].p != NULL;
        own.asked += all[i].n;
    }
    CHECK(fh_heap_walk(h, see, &met) == 0, "no walk");
    CHECK(met.count == own.count && met.asked == own.asked, "a walk met %zu bytes of %zu", met.asked, own.asked);
    fh_heap_totals t = totals(h);
    CHECK(t.heaps == 1 && t.count == own.count && t.requested == own.asked && t.unknown == 0,
          "%zu heaps, %zu of %zu blocks, %zu of %zu bytes", t.heaps, t.count, own.count, t.requested, own.asked);
    for (int i = 0; i < BLOCKS; i += 2) {
        fh_free(all[i].p);
        own.asked -= all[i].n;
    }
    CHECK(totals(h).requested == own.asked, "%zu of %zu bytes", totals(h).requested, own.asked);
    while (fh_heap_destroy(h) != 0) CHECK(errno == EAGAIN, "no end");
}

static void part_requested(void) {
    static char memory[24 << 20];
    const fh_heap_options kinds[] = {
        {.flags = FH_HEAP_SIZES},
        {.flags = FH_HEAP_SIZES | FH_HEAP_PRIVATE},
        {.flags = FH_HEAP_SIZES | FH_HEAP_TYPE_STABLE},
        {.flags = FH_HEAP_SIZES | FH_HEAP_NO_DUMP},
        {.flags = FH_HEAP_SIZES, .memory = memory, .memory_size = sizeof memory},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) random_calls(&kinds[i], i == 2 ? 60 * KIB : 256 * KIB);
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* A block that shrinks a little each time does not keep the memory that it once had. */
static void part_shrinks(void) {
    static char memory[4 * MIB];
    const fh_heap_options kinds[] = {{.flags = FH_HEAP_SIZES},
                                     {.flags = FH_HEAP_SIZES | FH_HEAP_PRIVATE},
                                     {.flags = FH_HEAP_SIZES, .memory = memory, .memory_size = sizeof memory}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        fh_heap *h = fh_heap_new(&kinds[i]);
        size_t n = 2 * MIB;
        char *p = fh_heap_calloc(h, 1, n);
        CHECK(p, "no memory");
        while (n > 100) {
            p[n - 1] = 1;
            size_t less = n - n / 4;
            p = fh_heap_realloc(h, p, less);
            CHECK(p && p[less - 1] == 0 && fh_malloc_usable_size(p) == less, "no block of %zu", less);
            fh_heap_figures f;
            CHECK(fh_heap_stats(h, &f) == 0 && f.live <= 2 * less + 64 * KIB + 16, "%zu bytes live for %zu", f.live,
                  less);
            n = less;
        }
        fh_heap_figures f;
        CHECK(fh_heap_stats(h, &f) == 0 && f.live <= 2 * n + 32, "%zu bytes live for %zu", f.live, n);
        CHECK(fh_heap_destroy(h) == 0, "no end");
    }
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* A block that grows within its room stays, and says so. One of a scope is as one of the heap. */
static void part_calls(void) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.flags = FH_HEAP_SIZES});
    char *p = fh_heap_malloc(h, 50), *q = fh_heap_realloc(h, p, 60);
    CHECK(p == q && totals(h).requested == 60, "%zu bytes", totals(h).requested);
    CHECK(fh_heap_realloc(h, q, 40) == p && totals(h).requested == 40, "%zu bytes", totals(h).requested);
    CHECK(fh_heap_enter(h) == 0, "no scope");
    char *in = fh_malloc(1000);
    CHECK(fh_heap_leave() == 0 && totals(h).requested == 1040, "%zu bytes in a scope", totals(h).requested);
    CHECK(fh_malloc_usable_size(in) == 1000, "usable %zu", fh_malloc_usable_size(in));
    fh_free_sized(in, 1000);
    char *none = fh_heap_malloc(h, 0), *large = fh_heap_calloc(h, 3, MIB);
    CHECK(none && large && large[3 * MIB - 1] == 0, "no memory");
    fh_heap_totals t = totals(h);
    CHECK(t.requested >= 3 * MIB + 40 && t.requested <= 3 * MIB + 41 && t.count == 3, "%zu bytes", t.requested);
    CHECK(fh_heap_reset(h) == 0 && totals(h).requested == 0 && totals(h).count == 0, "after a reset");
    volatile size_t all = SIZE_MAX - 8;
    CHECK(!fh_heap_malloc(h, all) && errno == ENOMEM, "all memory there is");
    CHECK(fh_heap_destroy(h) == 0, "no end");
}

/* ── Trees ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { DEPTH = 4, WIDTH = 3, MOST = 200 };
static struct {
    fh_heap *heap[MOST];
    books own[MOST]; /* of the heap alone */
    size_t parent[MOST], heaps;
} tree;

static void grow_tree(size_t parent, unsigned depth, uint64_t *seed) {
    size_t at = tree.heaps++;
    static const unsigned flags[] = {0, FH_HEAP_SIZES, FH_HEAP_PRIVATE, FH_HEAP_NO_DUMP};
    tree.parent[at] = parent;
    tree.heap[at] =
        fh_heap_new(&(fh_heap_options){.parent = at ? tree.heap[parent] : NULL, .flags = flags[random_below(seed, 4)]});
    CHECK(tree.heap[at] != NULL, "no heap");
    tree.own[at] = (books){0, 0, 0};
    for (size_t i = (size_t)random_below(seed, 300); i > 0; i--) {
        size_t n = 1 + some_size(seed, MIB);
        void *p = fh_heap_malloc(tree.heap[at], n);
        CHECK(p != NULL, "no %zu", n);
        tree.own[at].count++;
        tree.own[at].asked += n;
        tree.own[at].usable += fh_malloc_usable_size(p);
    }
    for (unsigned i = 0; depth < DEPTH && i < WIDTH; i++) grow_tree(at, depth + 1, seed);
}

static bool is_below(size_t top, size_t at) {
    while (at != top && at != 0) at = tree.parent[at];
    return at == top;
}

static void check_tree(void) {
    (void)totals(tree.heap[0]); /* a page that was only read may be resident from then on */
    for (size_t top = 0; top < tree.heaps; top++) {
        fh_heap_totals t, sum = {0};
        size_t asked = 0;
        fh_heap_figures f;
        for (size_t at = top; at < tree.heaps; at++) {
            if (!is_below(top, at)) continue;
            CHECK(fh_heap_stats(tree.heap[at], &f) == 0 && f.count == tree.own[at].count, "%zu blocks", f.count);
            sum.heaps++;
            sum.count += f.count;
            sum.live += f.live;
            sum.resident += f.resident;
            sum.requested += tree.own[at].usable; /* of a heap without sizes: all that the block has */
            asked += tree.own[at].asked;
        }
        t = totals(tree.heap[top]);
        CHECK(t.heaps == sum.heaps && t.count == sum.count && t.live == sum.live,
              "%zu of %zu heaps, %zu of %zu blocks, %zu of %zu bytes live", t.heaps, sum.heaps, t.count, sum.count,
              t.live, sum.live);
        CHECK(t.resident == sum.resident, "%zu of %zu bytes resident", t.resident, sum.resident);
        CHECK(t.requested == sum.requested && t.requested >= asked && t.requested - t.unknown <= asked,
              "%zu requested, %zu by the program", t.requested, sum.requested);
        CHECK(fh_heap_stats(tree.heap[top], &f) == 0 && t.taken == f.taken && t.peak == f.peak && t.taken >= t.live,
              "taken %zu", t.taken);
    }
}

static void part_tree(void) {
    uint64_t seed = random_seed();
    fh_heap *beside = fh_heap_new(NULL), *under = fh_heap_new(&(fh_heap_options){.parent = beside});
    tree.heaps = 0;
    grow_tree(0, 1, &seed);
    CHECK(tree.heaps == 40, "%zu heaps", tree.heaps);
    check_tree();
    pid_t child = fork();
    CHECK(child >= 0, "no fork");
    if (child == 0) {
        check_tree();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %d", status);
    /* From the last one on: a heap ends after those below it. */
    for (size_t at = tree.heaps; at-- > 1;) {
        CHECK(fh_heap_destroy(tree.heap[at]) == 0, "no end");
        CHECK(totals(tree.heap[0]).heaps == at, "%zu heaps of %zu", totals(tree.heap[0]).heaps, at);
    }
    CHECK(fh_heap_destroy(tree.heap[0]) == 0, "no end");
    CHECK(totals(beside).heaps == 2 && totals(under).heaps == 1, "heaps beside the tree");
    CHECK(fh_heap_destroy(under) == 0 && totals(beside).heaps == 1 && fh_heap_destroy(beside) == 0, "no end");
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* ── Threads ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static struct {
    fh_heap *tenant, *query[3], *other;
    bool _Atomic over;
} shared;

/* Blocks of the tenant's heaps come and go; and so do heaps that are none of the tenant's. */
static void *works(void *arg) {
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    while (!shared.over) {
        fh_heap *mine = fh_heap_new(&(fh_heap_options){.parent = shared.other, .flags = FH_HEAP_PRIVATE});
        void *p = fh_heap_malloc(shared.query[random_below(&seed, 3)], 1 + some_size(&seed, MIB));
        CHECK(mine && p && fh_heap_malloc(mine, 1 + some_size(&seed, MIB)), "no memory");
        fh_free(p);
        CHECK(fh_heap_destroy(mine) == 0, "no end");
    }
    return NULL;
}

static void part_threads(void) {
    enum { THREADS = 3, KEPT = 500 };
    pthread_t thread[THREADS];
    shared.other = fh_heap_new(NULL);
    shared.tenant = fh_heap_new(&(fh_heap_options){.name = "tenant"});
    size_t asked = 0;
    for (size_t i = 0; i < 3; i++) {
        shared.query[i] = fh_heap_new(&(fh_heap_options){.parent = shared.tenant, .flags = FH_HEAP_SIZES});
        for (size_t k = 0; k < KEPT; k++) {
            CHECK(fh_heap_malloc(shared.query[i], 10 + k), "no memory");
            asked += 10 + k;
        }
    }
    for (size_t i = 0; i < THREADS; i++) CHECK(!pthread_create(&thread[i], NULL, works, (void *)(i + 1)), "no thread");
    for (int i = 0; i < 300; i++) {
        fh_heap_totals t = totals(shared.tenant);
        CHECK(t.heaps == 4 && t.count >= 3 * KEPT && t.requested >= asked, "%zu heaps, %zu blocks, %zu bytes", t.heaps,
              t.count, t.requested);
    }
    shared.over = true;
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    CHECK(totals(shared.tenant).requested == asked, "%zu of %zu", totals(shared.tenant).requested, asked);
    for (size_t i = 0; i < 3; i++) CHECK(fh_heap_destroy(shared.query[i]) == 0, "no end");
    CHECK(fh_heap_destroy(shared.tenant) == 0 && fh_heap_destroy(shared.other) == 0, "no end");
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* ── A private heap of another thread ────────────────────────────────────────────────────────────────────────────── */

static struct {
    fh_heap *_Atomic heap;
    bool _Atomic seen;
} private;

static void *have_private(void *unused) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.flags = FH_HEAP_PRIVATE | FH_HEAP_SIZES});
    CHECK(h && fh_heap_malloc(h, 1000) && fh_heap_malloc(h, 100000), "no memory");
    private.heap = h;
    while (!private.seen) usleep(100);
    CHECK(fh_heap_destroy(h) == 0, "no end");
    return unused;
}

static void part_private(void) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, have_private, NULL), "no thread");
    while (!private.heap) usleep(100);
    fh_heap_totals t = totals(private.heap);
    CHECK(t.heaps == 1 && t.count == 2 && t.requested == 101000, "%zu blocks of %zu bytes", t.count, t.requested);
    private.seen = true;
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"requested", part_requested}, {"shrinks", part_shrinks}, {"calls", part_calls},
                 {"tree", part_tree},           {"threads", part_threads}, {"private", part_private}};
    for (size_t i = 0; argc == 2 && i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(argv[1], parts[i].name) != 0) continue;
        parts[i].run();
        puts("ok");
        return 0;
    }
    fprintf(stderr, "usage: totals requested|shrinks|calls|tree|threads|private\n");
    return 2;
}
