/* freehold/fast.h: what is inlined behaves as the calls do, and the two mix. One process for each mistake. */
#include <freehold/fast.h>
#include <freehold/heap.h>

#include "../support/check.h"
#include "../support/processes.h"

#include <pthread.h>
#include <sys/wait.h>

enum { LIVE = 600, TURNS = 200000 };

/* Blocks filled with a pattern of their own, allocated and freed in all combinations. */
static void *mix(void *seed_of_thread) {
    uint64_t seed = (uintptr_t)seed_of_thread;
    struct {
        unsigned char *p;
        size_t n;
        unsigned char fill;
    } live[LIVE] = {{NULL, 0, 0}};
    for (unsigned turn = 0; turn < TURNS; turn++) {
        unsigned i = (unsigned)random_below(&seed, LIVE);
        if (live[i].p) {
            size_t n = live[i].n;
            for (size_t at = 0; at < n; at += 1 + n / 8) {
                CHECK(live[i].p[at] == live[i].fill, "byte %zu of %zu was overwritten", at, n);
            }
            switch (random_below(&seed, 5)) {
            case 0:
                fh_fast_free(live[i].p);
                break;
            case 1:
                fh_fast_free_sized(live[i].p, n);
                break;
            case 2:
                fh_fast_free_exact(live[i].p, n);
                break;
            case 3:
                fh_free_sized(live[i].p, n);
                break;
            default:
                fh_free(live[i].p);
                break;
            }
        }
        size_t n = live[i].n = random_below(&seed, random_below(&seed, 16) ? 1100 : 100000);
        live[i].p = random_below(&seed, 4) ? fh_fast_malloc(n) : fh_malloc(n);
        live[i].fill = (unsigned char)turn;
        CHECK(live[i].p && ((uintptr_t)live[i].p & 15) == 0, "%zu bytes at %p", n, (void *)live[i].p);
        CHECK(fh_malloc_usable_size(live[i].p) >= n, "%zu bytes are too few", n);
        memset(live[i].p, live[i].fill, n);
    }
    for (unsigned i = 0; i < LIVE; i++) fh_fast_free(live[i].p); /* NULL too */
    return NULL;
}

/* A size that the compiler knows, above 1 KiB too. */
static void known_sizes(void) {
    void *volatile p[6];
    for (int turn = 0; turn < 1000; turn++) {
        p[0] = fh_fast_malloc(1), p[1] = fh_fast_malloc(1024), p[2] = fh_fast_malloc(1025);
        p[3] = fh_fast_malloc(40000), p[4] = fh_fast_malloc(65537), p[5] = fh_fast_malloc(0);
        for (int i = 0; i < 6; i++) CHECK(p[i] != NULL, "no block %d", i);
        CHECK(fh_malloc_usable_size(p[2]) >= 1025 && fh_malloc_usable_size(p[3]) >= 40000, "too small");
        fh_fast_free_exact(p[0], 1), fh_fast_free_exact(p[1], 1024), fh_fast_free_sized(p[2], 1025);
        fh_fast_free_sized(p[3], 40000), fh_fast_free_exact(p[4], 65537), fh_fast_free_exact(p[5], 0);
    }
}

/* Blocks that are in no slab: of a heap over the program's own memory, from a scope that has ended. And guarded ones: see main. */
static void elsewhere(void) {
    static _Alignas(4096) char memory[1 << 20];
    fh_heap *h = fh_heap_new(&(fh_heap_options){.memory = memory, .memory_size = sizeof memory});
    CHECK(h != NULL && fh_heap_enter(h) == 0, "no heap");
    void *volatile p[100];
    for (int i = 0; i < 100; i++) p[i] = fh_fast_malloc(48);
    CHECK(fh_heap_of(p[99]) == h && fh_heap_leave() == 0, "not of the heap");
    for (int i = 0; i < 100; i++) fh_fast_free_sized(p[i], 48);
    fh_heap_figures f;
    CHECK(fh_heap_stats(h, &f) == 0 && f.count == 0, "%zu blocks are left", f.count);
    CHECK(fh_heap_destroy(h) == 0, "not destroyed");
}

/* What was resized or aligned may be of another class than its size says. The sized form sees it. */
static void other_classes(void) {
    for (int turn = 0; turn < 1000; turn++) {
        void *p = fh_malloc(600);
        p = fh_realloc(p, 400);
        CHECK(p != NULL, "no memory");
        fh_fast_free_sized(p, 400);
        fh_fast_free_sized(fh_aligned_alloc(256, 48), 48);
    }
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* The first frees of a thread, which has neither bins nor a table. */
static void *young(void *blocks) {
    for (int i = 0; i < 64; i++) fh_fast_free(((void **)blocks)[i]);
    return NULL;
}

static void threads(void) {
    pthread_t thread[4];
    void *blocks[64];
    for (uintptr_t i = 0; i < 4; i++) CHECK(pthread_create(&thread[i], NULL, mix, (void *)(i + 1)) == 0, "no thread");
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 64; i++) blocks[i] = fh_fast_malloc(40);
    CHECK(pthread_create(&thread[0], NULL, young, blocks) == 0, "no thread");
    pthread_join(thread[0], NULL);
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* ── Mistakes, each in a process of its own ──────────────────────────────────────────────────────────────────────── */

static void warm(void) {
    for (int i = 0; i < 200; i++) fh_fast_free(fh_fast_malloc(48));
}

static void twice(void) {
    warm();
    void *volatile p = fh_fast_malloc(48), *volatile q = fh_fast_malloc(48);
    fh_fast_free(p);
    fh_fast_free(q);
    fh_fast_free(p);
}

static void twice_mixed(void) {
    warm();
    void *volatile p = fh_fast_malloc(48);
    fh_fast_free(p);
    fh_free(p);
}

static void twice_exact(void) {
    warm();
    void *volatile p = fh_fast_malloc(48);
    fh_fast_free_exact(p, 48);
    fh_fast_free_exact(p, 48);
    fh_thread_flush();
}

static void foreign(void) {
    int here = 0;
    warm();
    void *volatile p = &here;
    fh_fast_free(p);
}

static void overrun(void) {
    char *volatile p = fh_fast_malloc(40);
    p[40] = 1;
    fh_fast_free_exact(p, 40);
}

/* Runs it in a child with these options, and returns how that ended. `text` is what it wrote to stderr. */
static int ends(const char *what, const char *program, const char *options, char text[8192]) {
    int out[2], status;
    CHECK(pipe(out) == 0, "no pipe");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(out[1], 2);
        close(out[0]);
        setenv("FREEHOLD", options, 1);
        execl(program, program, what, (char *)NULL);
        _exit(9);
    }
    close(out[1]);
    size_t length = 0;
    for (ssize_t n; length < 8191 && (n = read(out[0], text + length, 8191 - length)) > 0;) length += (size_t)n;
    text[length] = 0;
    close(out[0]);
    CHECK(waitpid(child, &status, 0) == child, "no child");
    return status;
}

/* By a signal, with this message. */
static void expect(const char *what, const char *program, const char *options, const char *message) {
    char text[8192];
    int status = ends(what, program, options, text);
    CHECK(WIFSIGNALED(status), "%s with %s: ended with %d: %s", what, options, status, text);
    CHECK(strstr(text, message) != NULL, "%s with %s: %s", what, options, text);
    printf("%s, FREEHOLD=%s: found\n", what, options);
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*run)(void);
    } mistakes[] = {{"twice", twice},
                    {"twice_mixed", twice_mixed},
                    {"twice_exact", twice_exact},
                    {"foreign", foreign},
                    {"overrun", overrun}};
    static char text[8192];
    if (count > 1 && strcmp(arguments[1], "known_sizes") == 0) known_sizes();
    for (size_t i = 0; count > 1 && i < sizeof mistakes / sizeof *mistakes; i++) {
        if (strcmp(arguments[1], mistakes[i].name) == 0) mistakes[i].run();
    }
    if (count > 1) return 0;
    known_sizes();
    other_classes();
    elsewhere();
    threads();
    const char *self = "/proc/self/exe";
    expect("twice", self, "", "double free");
    expect("twice_mixed", self, "", "double free");
    expect("twice_exact", self, "", "double free");
    expect("foreign", self, "", "freehold:");
    int status = ends("known_sizes", self, "guard=2", text);
    CHECK(status == 0, "with guard=2: ended with %d: %s", status, text);
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        expect(mistakes[i].name, self, "check=1", "freehold:");
    return 0;
}
