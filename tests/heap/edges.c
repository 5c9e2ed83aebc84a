/* What a program may do with a heap, and seldom does. edges PART */
#include "../support/check.h"

#include <freehold/heap.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

static fh_heap_figures figures(fh_heap *h) {
    fh_heap_figures f;
    CHECK(fh_heap_stats(h, &f) == 0, "no figures");
    return f;
}

static void *get(void *arg, size_t size, size_t alignment) {
    (void)arg;
    (void)alignment;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void give_back(void *arg, void *p, size_t size) {
    (void)arg;
    munmap(p, size);
}

/* A heap of each kind. */
enum { KINDS = 9 };

static fh_heap *new_heap(unsigned kind) {
    static char memory[4 * MIB];
    static const fh_heap_pages pages = {.get = get, .give_back = give_back};
    static const fh_heap_options all[KINDS] = {{.name = "plain"},
                                               {.name = "private", .flags = FH_HEAP_PRIVATE},
                                               {.name = "stable", .flags = FH_HEAP_TYPE_STABLE},
                                               {.name = "sized", .flags = FH_HEAP_SIZES},
                                               {.name = "bounded", .flags = FH_HEAP_BOUNDED, .hard_limit = 8 * MIB},
                                               {.name = "no dump", .flags = FH_HEAP_NO_DUMP},
                                               {.name = "limited", .hard_limit = 8 * MIB},
                                               {.name = "given", .memory = memory, .memory_size = sizeof memory},
                                               {.name = "pages", .pages = &pages}};
    fh_heap *h = fh_heap_new(&all[kind]);
    CHECK(h || errno == ENOTSUP, "%s: errno %d", all[kind].name, errno);
    if (!h) skip_part("the kernel does not leave memory out of dumps");
    return h;
}

static void for_each_kind(void (*fn)(fh_heap *h)) {
    for (unsigned kind = 0; kind < KINDS; kind++) {
        fh_heap *h = new_heap(kind);
        if (!h) continue;
        fn(h);
        CHECK(fh_heap_destroy(h) == 0 && fh_verify() == 0, "kind %u: the heap is damaged", kind);
    }
}

/* ── A block grows where it is ───────────────────────────────────────────────────────────────────────────────────── */

enum { MANY = 200 };

/* A heap's memory is full of blocks. None of them grows beyond what it has, and the account stays what it was. */
static void grow_blocks_of(fh_heap *h) {
    static const size_t sizes[] = {40, 3000, 60 * KIB, 130 * KIB, 1536 * KIB};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t size = sizes[s];
        unsigned char *block[MANY];
        size_t n = 0;
        while (n < MANY && n * size < 16 * MIB && (block[n] = fh_heap_malloc(h, size))) {
            memset(block[n], (int)n, size);
            n++;
        }
        size_t taken = figures(h).taken;
        for (size_t i = 0; i < n; i++) {
            size_t usable = fh_malloc_usable_size(block[i]);
            CHECK(fh_try_grow(block[i], usable) == 1, "%s: %zu bytes, of which it has %zu", fh_heap_name(h), size,
                  usable);
            for (size_t more = usable + 1; more < 64 * MIB; more *= 2)
                CHECK(fh_try_grow(block[i], more) == 0, "%s: from %zu to %zu", fh_heap_name(h), usable, more);
            CHECK(fh_malloc_usable_size(block[i]) == usable, "%s: %zu bytes changed", fh_heap_name(h), usable);
        }
        CHECK(figures(h).taken == taken, "%s: %zu taken, then %zu", fh_heap_name(h), taken, figures(h).taken);
        void *other = fh_malloc(2 * MIB);
        CHECK(other, "no memory");
        memset(other, 0xEE, 2 * MIB);
        for (size_t i = 0; i < n; i++) {
            CHECK(block[i][0] == i && block[i][size - 1] == i, "%s: a block of %zu is overwritten", fh_heap_name(h),
                  size);
            fh_free(block[i]);
        }
        fh_free(other);
    }
}

static void part_grow(void) {
    for_each_kind(grow_blocks_of);
}

/* ── A walk that frees what it has not met ───────────────────────────────────────────────────────────────────────── */

static struct {
    void *block[MANY];
    size_t n, met;
} walked;

/* Frees all blocks, but the one that was met: so it is the last. */
static void free_others(void *block, size_t size, void *h) {
    bool known = false;
    walked.met++;
    for (size_t i = 0; i < walked.n; i++) {
        if (walked.block[i] == block) {
            known = true;
        } else {
            fh_free(walked.block[i]);
        }
    }
    CHECK(known, "%s: a freed block of %zu bytes was met", fh_heap_name(h), size);
    walked.block[0] = block;
    walked.n = 1;
}

static void walk_and_free(fh_heap *h) {
    static const size_t sizes[] = {16, 48, 200, 900, 2000, 5000, 60 * KIB, 130 * KIB};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        walked.n = walked.met = 0;
        while (walked.n < 20 && (walked.block[walked.n] = fh_heap_malloc(h, sizes[s]))) walked.n++;
        CHECK(walked.n > 1, "%s: no blocks of %zu", fh_heap_name(h), sizes[s]);
        CHECK(fh_heap_walk(h, free_others, h) == 0 && walked.met == 1, "%s: %zu of %zu bytes", fh_heap_name(h),
              walked.met, sizes[s]);
        fh_free(walked.block[0]);
    }
}

static void part_walk(void) {
    for_each_kind(walk_and_free);
}

/* ── Marks of an empty heap ──────────────────────────────────────────────────────────────────────────────────────── */

static fh_heap *new_private(void) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.flags = FH_HEAP_PRIVATE});
    CHECK(h, "no heap");
    return h;
}

/* A mark that was set before the first frame is of its heap alone, too. */
static void part_marks(void) {
    fh_heap *empty = new_private(), *other = new_private();
    fh_heap_mark first = fh_mark(empty), none = {NULL, NULL};
    char *p = fh_frame_malloc(other, 100);
    CHECK(p, "no memory");
    memset(p, 1, 100);
    CHECK(fh_release_to(other, first) == -1 && errno == EINVAL, "a mark of another heap");
    CHECK(fh_release_to(other, none) == -1 && errno == EINVAL, "a mark of none");
    char *q = fh_frame_malloc(other, 100);
    CHECK(q && q >= p + 100 && p[99] == 1, "a frame was released");
    CHECK(fh_release_to(empty, fh_mark(other)) == -1 && errno == EINVAL, "a mark of another heap");
    CHECK(fh_release_to(empty, first) == 0, "nothing to release");
    CHECK(fh_frame_malloc(empty, 10000) && fh_release_to(empty, first) == 0 && fh_release_to(empty, first) == 0,
          "a frame is not released");
    CHECK(fh_heap_reset(other) == 0 && fh_heap_destroy(other) == 0 && fh_heap_destroy(empty) == 0, "no end");
}

/* ── Callbacks ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static struct {
    void *block[MANY];
    size_t n;
    bool frees;
    int _Atomic soft, hard;
} asked;

static int make_room(fh_heap *h, size_t wanted, int hard, void *arg) {
    (void)h;
    (void)arg;
    CHECK(wanted, "nothing is wanted");
    if (!hard) {
        asked.soft++;
        return 0;
    }
    asked.hard++;
    if (!asked.frees || !asked.n) return 0;
    fh_free(asked.block[--asked.n]);
    return 1;
}

static void fill(fh_heap *h, size_t size) {
    for (asked.n = 0; asked.n < MANY && (asked.block[asked.n] = fh_heap_malloc(h, size)) != NULL;) asked.n++;
    CHECK(asked.n && asked.n < MANY, "%zu blocks of %zu", asked.n, size);
}

static void empty(void) {
    while (asked.n) fh_free(asked.block[--asked.n]);
}

/* A heap that is made counts for its parent: a limit of that is told of and asked, as for a block. */
static void make_children(unsigned flags, size_t child_limit) {
    fh_heap *child[16];
    fh_heap *parent =
        fh_heap_new(&(fh_heap_options){.soft_limit = 512 * KIB, .hard_limit = MIB, .callback = make_room});
    fh_heap_options below = {.parent = parent, .flags = flags, .hard_limit = child_limit};
    size_t n = 0;
    asked.soft = asked.hard = 0;
    asked.frees = false;
    while (n < 16 && (child[n] = fh_heap_new(&below))) n++;
    CHECK(n && n < 16 && errno == ENOMEM, "%zu heaps, errno %d", n, errno);
    CHECK(asked.soft == 1 && asked.hard == 1, "of %zu heaps: told %d times, asked %d times", n, asked.soft, asked.hard);
    while (n) CHECK(fh_heap_destroy(child[--n]) == 0, "no end");
    fill(parent, 100000);
    asked.frees = true;
    fh_heap *last = fh_heap_new(&below);
    CHECK(last && fh_heap_destroy(last) == 0, "no heap though the callback frees");
    empty();
    asked.frees = false;
    fill(parent, 8000);
    empty();
    last = fh_heap_new(&below);
    CHECK(last && fh_heap_destroy(last) == 0, "no heap though nothing is live");
    CHECK(figures(parent).count == 0 && fh_heap_destroy(parent) == 0 && fh_verify() == 0, "the books are off");
}

static void part_children(void) {
    make_children(0, 0);
    make_children(FH_HEAP_NO_DUMP, 0);
    make_children(FH_HEAP_BOUNDED, 256 * KIB);
}

/* Two threads take memory at the same moment, and the first of them passes the soft limit: it is told once each time. */
#ifdef T_SANITIZED /* each round has three meetings, and a meeting takes longer */
enum { ROUNDS = 2000 };
#else
enum { ROUNDS = 10000 };
#endif

static struct {
    fh_heap *heap;
    int _Atomic here;
} pair;

static void meet(int *times) {
    pair.here++;
    for (*times += 1; pair.here < 2 * *times;) sched_yield();
}

static void *take_at_once(void *unused) {
    int times = 0;
    for (int i = 0; i < ROUNDS; i++) {
        meet(&times);
        void *p = fh_heap_malloc(pair.heap, 100000);
        CHECK(p, "no memory");
        meet(&times);
        fh_free(p);
        meet(&times);
    }
    return unused;
}

static void part_soft(void) {
    pthread_t thread[2];
    fh_heap *parent = fh_heap_new(&(fh_heap_options){.callback = make_room});
    pair.heap = fh_heap_new(&(fh_heap_options){.parent = parent});
    CHECK(fh_heap_malloc(pair.heap, 100000) && !fh_heap_limit(parent, figures(parent).taken, 0), "no limit");
    for (int i = 0; i < 2; i++) CHECK(!pthread_create(&thread[i], NULL, take_at_once, NULL), "no thread");
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    CHECK(asked.soft == ROUNDS, "told %d times of %d", asked.soft, ROUNDS);
    CHECK(fh_heap_destroy(pair.heap) == 0 && fh_heap_destroy(parent) == 0, "no end");
}

/* ── A private heap in the child of a fork ───────────────────────────────────────────────────────────────────────── */

static struct {
    fh_heap *_Atomic heap;
    void *block;
    bool _Atomic over;
} theirs;

static void *have_private(void *unused) {
    fh_heap *h = new_private();
    theirs.block = fh_heap_malloc(h, 100);
    CHECK(theirs.block && fh_frame_malloc(h, 100), "no memory");
    theirs.heap = h;
    while (!theirs.over) usleep(100);
    CHECK(fh_heap_destroy(h) == 0, "no end");
    return unused;
}

/* The thread that had it is not there: the one that is may use it, and destroy it. */
static void use_theirs(fh_heap *h) {
    fh_heap_figures f = figures(h);
    CHECK(f.count == 2, "%zu blocks", f.count);
    fh_free(theirs.block);
    CHECK(fh_heap_enter(h) == 0 && fh_heap_malloc(h, 3000) && fh_heap_leave() == 0, "no scope");
    CHECK(fh_frame_malloc(h, 1000) && fh_heap_reset(h) == 0 && fh_heap_malloc(h, 10), "not used again");
    CHECK(fh_heap_destroy(h) == 0, "no end");
    _exit(0);
}

static void part_forked(void) {
    pthread_t thread;
    int status;
    CHECK(!pthread_create(&thread, NULL, have_private, NULL), "no thread");
    while (!theirs.heap) usleep(100);
    CHECK(fh_heap_enter(theirs.heap) == -1 && errno == EINVAL, "a scope of another thread's heap");
    pid_t child = fork();
    CHECK(child >= 0, "no fork");
    if (child == 0) use_theirs(theirs.heap);
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %x", status);
    theirs.over = true;
    pthread_join(thread, NULL);
}

/* ── calloc in a scope ───────────────────────────────────────────────────────────────────────────────────────────── */

/* A large block that was written before reads as zero, and keeps the pages that it had. */
static void zero_in_scope(fh_heap *h) {
    static const size_t sizes[] = {60 * KIB, 100 * KIB, 300 * KIB, 1000 * KIB};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        unsigned char *p = fh_heap_malloc(h, sizes[s]);
        CHECK(p, "%s: no memory for %zu", fh_heap_name(h), sizes[s]);
        memset(p, 0xAA, sizes[s]);
        fh_free(p);
        size_t resident = figures(h).resident;
        CHECK(fh_heap_enter(h) == 0, "no scope");
        p = fh_calloc(sizes[s] / 100, 100);
        CHECK(fh_heap_leave() == 0 && p && fh_heap_of(p) == h, "%s: no memory for %zu", fh_heap_name(h), sizes[s]);
        CHECK(!strcmp(fh_heap_name(h), "no dump") || figures(h).resident >= resident,
              "%s: %zu bytes resident, then %zu", fh_heap_name(h), resident, figures(h).resident);
        for (size_t i = 0; i < sizes[s] / 100 * 100; i++)
            CHECK(!p[i], "%s: byte %zu of %zu is %u", fh_heap_name(h), i, sizes[s], p[i]);
        fh_free(p);
    }
}

static void part_zeroed(void) {
    for_each_kind(zero_in_scope);
}

/* ── A block shrinks where there is no room for a smaller one ────────────────────────────────────────────────────── */

/* It stays, and a sized free may name what it was shrunk to. */
static void shrink_in_full_heap(fh_heap *h) {
    unsigned char *block[MANY];
    size_t n = 0;
    while (n < MANY && (block[n] = fh_heap_malloc(h, 256 * KIB)) != NULL) n++;
    for (size_t i = 0; n < MANY && i < 100000 && fh_heap_malloc(h, 500);) i++;
    CHECK(n, "%s: no memory", fh_heap_name(h));
    for (size_t i = 0; i < n; i++) {
        memset(block[i], 1, 500);
        unsigned char *p = fh_heap_realloc(h, block[i], 500);
        CHECK(p && p[499] == 1, "%s: a block that shrinks is refused", fh_heap_name(h));
        fh_free_sized(p, 500);
    }
}

static void part_shrinks(void) {
    for_each_kind(shrink_in_full_heap);
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*part)(void);
    } parts[] = {{"grow", part_grow}, {"walk", part_walk},     {"marks", part_marks},   {"children", part_children},
                 {"soft", part_soft}, {"forked", part_forked}, {"zeroed", part_zeroed}, {"shrinks", part_shrinks}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (count == 2 && !strcmp(words[1], parts[i].name)) {
            parts[i].part();
            return 0;
        }
    }
    CHECK(0, "usage: edges PART");
}
