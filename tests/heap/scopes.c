/* What a heap takes over for a while: the plain calls of a thread in a scope, frames back to a mark, callbacks for its end.
 * scopes PART */
#include "../support/check.h"

#include <dirent.h>
#include <errno.h>
#include <freehold/defrag.h>
#include <freehold/heap.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>

/* The plain calls: malloc itself over the drop-in library, their fh_ names else. */
#ifdef T_EMBED
#define MALLOC fh_malloc
#define CALLOC fh_calloc
#define REALLOC fh_realloc
#define ALIGNED fh_aligned_alloc
#define FREE fh_free
#else
#define MALLOC malloc
#define CALLOC calloc
#define REALLOC realloc
#define ALIGNED aligned_alloc
#define FREE free
#endif

static fh_heap *heap(const char *name, fh_heap *parent, size_t hard, unsigned flags) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.name = name, .parent = parent, .hard_limit = hard, .flags = flags});
    CHECK(h != NULL, "no heap");
    return h;
}

static size_t count_of(fh_heap *h) {
    fh_heap_figures f;
    CHECK(fh_heap_stats(h, &f) == 0, "no figures");
    return f.count;
}

static unsigned threads_now(void) {
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *task; tasks && (task = readdir(tasks)) != NULL;) count += task->d_name[0] != '.';
    if (tasks) closedir(tasks);
    return count;
}

static void end(fh_heap *h) {
    CHECK(fh_heap_destroy(h) == 0, "not destroyed: errno %d", errno);
}

/* ── Scopes ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void enter(fh_heap *h) {
    CHECK(fh_heap_enter(h) == 0 && fh_heap_entered() == h, "not in the scope: errno %d", errno);
}

static void leave(fh_heap *outer) {
    CHECK(fh_heap_leave() == 0 && fh_heap_entered() == outer, "not left");
}

static void is_in(fh_heap *h, const void *p) {
    CHECK(p != NULL && fh_heap_of(p) == h, "%p is in %p, not in %p", p, (void *)fh_heap_of(p), (void *)h);
}

static const size_t sizes[] = {0, 1, 24, 500, 1024, 1025, 30000, 70000, 300000, 2u << 20, 5u << 20};
#define SIZES (sizeof sizes / sizeof sizes[0])

/* Every plain call, at every size; frees of blocks from outside within, and of blocks from within outside. */
static void calls(void) {
    fh_heap *h = heap("scope", NULL, 0, 0);
    void *outside[SIZES], *within[SIZES];
    const char *options = getenv("FREEHOLD");
    bool checked = options && strstr(options, "check=1");
    for (size_t i = 0; i < SIZES; i++) is_in(NULL, outside[i] = MALLOC(sizes[i]));
    enter(h);
    for (size_t i = 0; i < SIZES; i++) {
        is_in(h, within[i] = MALLOC(sizes[i]));
        memset(within[i], 1, sizes[i]);
        char *zero = CALLOC(1, sizes[i]), *aligned = ALIGNED(4096, sizes[i]);
        is_in(h, zero);
        is_in(h, aligned);
        CHECK((uintptr_t)aligned % 4096 == 0, "%p is no multiple of 4,096", (void *)aligned);
        for (size_t k = 0; k < sizes[i]; k++) CHECK(zero[k] == 0, "byte %zu of %zu is not zero", k, sizes[i]);
        FREE(zero);
        FREE(aligned);
        outside[i] = REALLOC(outside[i], 2 * sizes[i] + 100000);
        /* A large block grows where it is, or its pages move; a checked one is none of a heap. */
        if (sizes[i] <= 30000 && !checked) is_in(h, outside[i]);
    }
    CHECK(count_of(h) >= SIZES + (checked ? 0 : 7), "%zu blocks in the heap", count_of(h));
    for (size_t i = 0; i < SIZES; i += 2) FREE(outside[i]);
    void *many[100];
    CHECK(fh_malloc_batch(40, 100, many) == 100, "no batch");
    for (size_t i = 0; i < 100; i++) is_in(h, many[i]);
    fh_free_batch(many, 100);
    leave(NULL);
    for (size_t i = 1; i < SIZES; i += 2) FREE(outside[i]);
    for (size_t i = 0; i < SIZES; i++) {
        void *p = MALLOC(sizes[i]);
        is_in(NULL, p);
        FREE(p);
        FREE(within[i]);
    }
    CHECK(count_of(h) == 0, "%zu blocks are left", count_of(h));
    end(h);
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* Scopes within scopes, the same heap twice, a limit; and what must not be. */
static void nested(void) {
    fh_heap *outer = heap("outer", NULL, 0, 0), *inner = heap("inner", outer, 128 << 10, 0);
    CHECK(fh_heap_leave() == -1 && errno == EINVAL, "left no scope");
    enter(outer);
    enter(inner);
    enter(outer);
    is_in(outer, MALLOC(50));
    leave(inner);
    is_in(inner, MALLOC(50));
    errno = 0;
    CHECK(MALLOC(1 << 20) == NULL && errno == ENOMEM, "beyond the limit");
    CHECK(fh_heap_destroy(inner) == -1 && errno == EBUSY, "destroyed within a scope of it");
    CHECK(fh_heap_reset(inner) == -1 && errno == EBUSY, "reset within a scope of it");
    is_in(inner, MALLOC(50));
    leave(outer);
    end(inner);
    for (int i = 0; i < 1000; i++) enter(outer);
    is_in(outer, MALLOC(50));
    for (int i = 0; i < 1000; i++) leave(outer);
    leave(NULL);
    CHECK(fh_heap_leave() == -1 && errno == EINVAL, "left one too many");
    end(outer);
}

static fh_heap *shared;

static void *works(void *own) {
    fh_heap *h = own;
    for (unsigned round = 0; round < 200; round++) {
        void *plain = MALLOC(100);
        is_in(NULL, plain);
        enter(shared);
        void *one = MALLOC(1 + round * 37 % 3000);
        is_in(shared, one);
        enter(h);
        void *two = MALLOC(1 + round * 53 % 3000);
        is_in(h, two);
        FREE(plain);
        FREE(one);
        leave(shared);
        leave(NULL);
        FREE(two);
    }
    /* It ends in two scopes. */
    enter(shared);
    enter(h);
    return NULL;
}

/* Threads in scopes of one heap and of their own, some of which end in them; others are not in any. */
static void threads(void) {
    pthread_t thread[4];
    fh_heap *own[4];
    shared = heap("shared", NULL, 0, 0);
    for (unsigned i = 0; i < 4; i++) {
        own[i] = heap("own", shared, 0, 0);
        CHECK(pthread_create(&thread[i], NULL, works, own[i]) == 0, "no thread");
    }
    for (unsigned i = 0; i < 2000; i++) {
        void *p = MALLOC(i);
        is_in(NULL, p);
        FREE(p);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        end(own[i]); /* the scopes of a thread that has ended are left */
    }
    CHECK(count_of(shared) == 0, "%zu blocks are left", count_of(shared));
    end(shared);
    CHECK(fh_verify() == 0, "the heap is damaged");
}

static void *private_of_another(void *h) {
    CHECK(fh_heap_enter(h) == -1 && errno == EINVAL, "in a scope of another thread's heap");
    return NULL;
}

static volatile int step;

static void *stays_within(void *h) {
    enter(h);
    __atomic_store_n(&step, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&step, __ATOMIC_SEQ_CST) < 2) usleep(1000);
    leave(NULL);
    return NULL;
}

/* A private heap of another thread; a fork in a scope, beside a thread that is in one too. */
static void others(void) {
    pthread_t thread;
    fh_heap *own = heap("private", NULL, 0, FH_HEAP_PRIVATE), *h = heap("both", NULL, 0, 0);
    CHECK(pthread_create(&thread, NULL, private_of_another, own) == 0, "no thread");
    pthread_join(thread, NULL);
    CHECK(pthread_create(&thread, NULL, stays_within, h) == 0, "no thread");
    while (__atomic_load_n(&step, __ATOMIC_SEQ_CST) < 1) usleep(1000);
    enter(own);
    pid_t child = fork();
    CHECK(child >= 0, "no fork");
    if (child == 0) {
        is_in(own, MALLOC(100));
        CHECK(fh_heap_destroy(own) == -1 && errno == EBUSY, "the child destroys a heap that it is in");
        leave(NULL);
        end(own);
        end(h); /* the other thread does not exist here */
        is_in(NULL, MALLOC(100));
        CHECK(fh_verify() == 0, "the child's heap is damaged");
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %d", status);
    CHECK(fh_heap_destroy(h) == -1 && errno == EBUSY, "destroyed while a thread is in a scope of it");
    __atomic_store_n(&step, 2, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    end(h);
    leave(NULL);
    end(own);
}

/* A scope in a program that is observed all the way: its own blocks are sampled before and after, and the heap's within. */
static void observed(void) {
    fh_heap *h = heap("scope", NULL, 0, 0);
    for (unsigned i = 0; i < 1000; i++) FREE(MALLOC(i));
    enter(h);
    for (unsigned i = 0; i < 5000; i++) {
        void *p = MALLOC(1 + i % 2000);
        is_in(h, p);
        if (i % 3) FREE(p);
        if (i % 100 == 0) is_in(h, MALLOC(100000));
    }
    leave(NULL);
    for (unsigned i = 0; i < 1000; i++) FREE(MALLOC(i));
    end(h);
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* ── Frames ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static unsigned depth_of(fh_heap *h, unsigned depth, uint64_t *seed) {
    fh_heap_mark mark = fh_mark(h);
    unsigned char *block[40];
    size_t size[40];
    unsigned n = (unsigned)random_below(seed, 40), calls = 1;
    for (unsigned i = 0; i < n; i++) {
        size[i] = (size_t)random_below(seed, random_below(seed, 20) ? 300 : 20000);
        block[i] = fh_frame_malloc(h, size[i]);
        CHECK(block[i] != NULL && (uintptr_t)block[i] % 16 == 0, "a frame block at %p", (void *)block[i]);
        CHECK(fh_heap_of(block[i]) == h, "not of the heap");
        memset(block[i], (int)(depth + i), size[i]);
    }
    for (unsigned i = 0; depth < 12 && i < 2; i++) calls += depth_of(h, depth + 1, seed);
    for (unsigned i = 0; i < n; i++)
        for (size_t k = 0; k < size[i]; k++)
            CHECK(block[i][k] == (unsigned char)(depth + i), "byte %zu of a frame block is lost", k);
    CHECK(fh_release_to(h, mark) == 0, "not released");
    return calls;
}

static void frames(void) {
    uint64_t seed = 1;
    fh_heap *h = heap("frames", NULL, 0, FH_HEAP_PRIVATE);
    void *stays = fh_heap_malloc(h, 100);
    memset(stays, 7, 100);
    CHECK(depth_of(h, 0, &seed) == (1u << 13) - 1, "not all frames");
    for (unsigned i = 0; i < 100; i++) CHECK(((char *)stays)[i] == 7, "a block beside the frames is lost");
    CHECK(count_of(h) <= 2, "%zu blocks are left: the one that stays, and a spare segment", count_of(h));
    /* Two frame blocks of no byte are two blocks. */
    CHECK(fh_frame_malloc(h, 0) != fh_frame_malloc(h, 0), "one block for two");
    /* A frame that is as large as the last one costs nothing but the first time. */
    fh_heap_figures before, after;
    fh_heap_stats(h, &before);
    for (unsigned i = 0; i < 1000; i++) {
        fh_heap_mark mark = fh_mark(h);
        for (unsigned k = 0; k < 100; k++) CHECK(fh_frame_malloc(h, 1000) != NULL, "no memory");
        CHECK(fh_release_to(h, mark) == 0, "not released");
    }
    fh_heap_stats(h, &after);
    CHECK(after.peak <= before.peak + (1 << 20), "%zu bytes for frames of 100,000", after.peak - before.peak);
    volatile size_t all = SIZE_MAX;
    CHECK(fh_frame_malloc(h, all) == NULL && errno == ENOMEM, "all memory there is");
    CHECK(fh_frame_malloc(h, all - 20) == NULL && errno == ENOMEM, "nearly all memory there is");
    CHECK(fh_frame_malloc(h, all / 2) == NULL, "half of it");
    end(h);
}

/* Marks that are not the heap's, or no longer. A heap that is reset has no frames. A limit. */
static void marks(void) {
    fh_heap *h = heap("frames", NULL, 1 << 20, FH_HEAP_PRIVATE), *other = heap("other", NULL, 0, FH_HEAP_PRIVATE);
    fh_heap_mark none = fh_mark(h);
    fh_frame_malloc(h, 100);
    fh_heap_mark early = fh_mark(h);
    fh_frame_malloc(h, 100);
    fh_heap_mark late = fh_mark(h);
    CHECK(fh_frame_malloc(other, 10) != NULL, "no memory");
    CHECK(fh_release_to(other, late) == -1 && errno == EINVAL, "a mark of another heap");
    CHECK(fh_release_to(h, early) == 0, "not released");
    CHECK(fh_release_to(h, late) == -1 && errno == EINVAL, "a mark that was released");
    CHECK(fh_release_to(h, early) == 0, "not released to where it is");
    size_t got = 0;
    while (fh_frame_malloc(h, 1000)) got++;
    CHECK(errno == ENOMEM && got > 500 && got < 1049, "%zu KB of frames in a MiB", got);
    CHECK(fh_release_to(h, none) == 0 && fh_frame_malloc(h, 1000) != NULL, "no memory after a release");
    CHECK(fh_heap_reset(h) == 0, "not reset");
    CHECK(fh_release_to(h, early) == -1 && errno == EINVAL, "a mark from before the reset");
    CHECK(fh_frame_malloc(h, 1000) != NULL, "no memory after a reset");
    end(h);
    end(other);
    fh_heap *all = heap("not private", NULL, 0, 0);
    CHECK(fh_frame_malloc(all, 10) == NULL && errno == EINVAL, "frames of a heap that all threads use");
    end(all);
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* ── Callbacks for its end ───────────────────────────────────────────────────────────────────────────────────────── */

static char said[64];
static fh_heap *ending;

static void say(void *what) {
    strcat(said, what);
}

static void say_and_add(void *what) {
    strcat(said, what);
    fh_free(fh_heap_malloc(ending, 100));
    CHECK(fh_heap_on_destroy(ending, say, "+") == 0, "no callback of a callback");
}

static void endings(void) {
    for (unsigned i = 0; i < 2; i++) {
        said[0] = 0;
        ending = heap("ends", NULL, 0, i ? FH_HEAP_PRIVATE : 0);
        CHECK(fh_heap_on_destroy(ending, say, "a") == 0, "no callback");
        CHECK(fh_heap_on_destroy(ending, say_and_add, "b") == 0, "no callback");
        CHECK(fh_heap_on_destroy(ending, say, "c") == 0, "no callback");
        CHECK(fh_heap_reset(ending) == 0 && strcmp(said, "cba+") == 0, "a reset says %s", said);
        CHECK(fh_heap_on_destroy(ending, say, "d") == 0, "no callback");
        fh_heap *child = heap("child", ending, 0, 0);
        CHECK(fh_heap_destroy(ending) == -1 && strcmp(said, "cba+") == 0, "callbacks of a heap that stays");
        end(child);
        end(ending);
        CHECK(strcmp(said, "cba+d") == 0, "the end says %s", said);
    }
}

/* ── What is left ────────────────────────────────────────────────────────────────────────────────────────────────── */

__attribute__((noinline)) static void forget_one(size_t n) {
    void *volatile p = MALLOC(n);
    CHECK(p != NULL, "no block");
}

static void nothing(void *arg) {
    (void)arg;
}

/* With option heap_left a heap says what is live in it when it is destroyed; CMakeLists.txt has what. */
static void left(void) {
    fh_heap *h = heap("query", NULL, 0, 0), *empty = heap("empty", NULL, 0, FH_HEAP_PRIVATE);
    enter(h);
    for (volatile int i = 0; i < 2; i++) forget_one(2000); /* one call site */
    void *freed = MALLOC(3000), *kept = CALLOC(1, 808);
    leave(NULL);
    FREE(freed);
    CHECK(kept && fh_heap_on_destroy(h, nothing, NULL) == 0, "no callback");
    end(h);
    /* Frames end with their heap, and callbacks as well. */
    CHECK(fh_frame_malloc(empty, 100) && fh_heap_on_destroy(empty, nothing, NULL) == 0, "no frame");
    fh_free(fh_heap_malloc(empty, 100));
    end(empty);
    /* A reset is how a heap is used again. */
    h = heap("reset", NULL, 0, 0);
    CHECK(fh_heap_malloc(h, 100) && fh_heap_reset(h) == 0, "no reset");
    end(h);
}

/* Run with purge=background: the heap grows in a scope until the thread of that option is wanted. What the C library allocates for
 * it is not the heap's, and outside of the scope it begins. */
static void background(void) {
    enum { GROWS = 400 };
    fh_heap *h = heap("tenant", NULL, 0, 0);
    enter(h);
    for (int i = 0; i < GROWS; i++) CHECK(MALLOC(100000), "no memory");
    /* What is due is done at the end of an allocation that is not the heap's: the record of a scope. */
    for (int i = 0; i < 40; i++) {
        FREE(MALLOC(2 << 20));
        enter(h);
        leave(h);
    }
    CHECK(count_of(h) == GROWS, "%zu blocks are in the heap, of %d", count_of(h), GROWS);
    leave(NULL);
    for (int i = 0; i < 1000 && threads_now() == 1; i++) FREE(MALLOC(2 << 20));
    CHECK(threads_now() == 2, "%u threads: that of the option never began", threads_now());
    CHECK(count_of(h) == GROWS, "%zu blocks are in the heap, of %d", count_of(h), GROWS);
    end(h);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"calls", calls},       {"nested", nested},        {"threads", threads}, {"others", others},
                 {"observed", observed}, {"frames", frames},        {"marks", marks},     {"endings", endings},
                 {"left", left},         {"background", background}};
    for (size_t i = 0; argc == 2 && i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(argv[1], parts[i].name) != 0) continue;
        parts[i].run();
        puts("ok");
        return 0;
    }
    fprintf(stderr, "usage: scopes calls|nested|threads|others|observed|frames|marks|endings|left\n");
    return 2;
}
