/* Makes heaps, says what each has by its own count, and does what a line on its input asks for. */
#include <freehold/heap.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fh_heap *all[16];
static unsigned heaps;
static _Alignas(4096) char memory[256 << 10];

static fh_heap *make(const char *name, fh_heap *parent, size_t soft, size_t hard, unsigned flags) {
    fh_heap_options o = {.name = name, .parent = parent, .soft_limit = soft, .hard_limit = hard, .flags = flags};
    return all[heaps++] = fh_heap_new(&o);
}

/* So many blocks, of which every second is freed again. */
static void fill(fh_heap *h, size_t size, int blocks) {
    for (int i = 0; i < blocks; i++) {
        char *p = fh_heap_malloc(h, size);
        if (!p) continue;
        memset(p, 1, size);
        if (i % 2) fh_free(p);
    }
}

static void say(void) {
    for (unsigned i = 0; i < heaps; i++) {
        fh_heap_figures f;
        if (fh_heap_stats(all[i], &f)) exit(1);
        printf("%#zx %zu %zu %zu %zu %zu %zu %zu %zu %s\n", (size_t)all[i], f.count, f.live, f.resident, f.taken,
               f.peak, f.soft_limit, f.hard_limit, f.refusals, fh_heap_name(all[i]));
    }
    puts("end");
    fflush(stdout);
}

/* ── Known sums: what was asked for, by heap ─────────────────────────────────────────────────────────────────────── */

#define KEPT 500
static size_t asked[4]; /* of live blocks: tenant, its query, the other query, plain ones */
static void *kept[4][KEPT];
static fh_heap *owner[3];

__attribute__((noinline)) static void *of_heap(fh_heap *h, size_t n) {
    return fh_heap_malloc(h, n);
}

/* As a library that knows no heaps. */
__attribute__((noinline)) static void *of_library(size_t n) {
    return malloc(n);
}

static void take_known(void) {
    owner[0] = fh_heap_new(&(fh_heap_options){.name = "tenant"});
    owner[1] = fh_heap_new(&(fh_heap_options){.name = "query", .parent = owner[0]});
    owner[2] = fh_heap_new(&(fh_heap_options){.name = "query"});
    for (int i = 0; i < KEPT; i++) {
        for (int k = 0; k < 4; k++) {
            size_t n = (size_t)(1 + i * (k + 1) * 7 % 3000 + (i % 100 == 0) * 100000);
            if (k == 3) {
                kept[k][i] = of_library(n);
            } else if (i % 2) {
                kept[k][i] = of_heap(owner[k], n);
            } else {
                if (fh_heap_enter(owner[k])) abort();
                kept[k][i] = of_library(n);
                if (fh_heap_leave()) abort();
            }
            if (i % 3 == 0) {
                fh_free(kept[k][i]);
                kept[k][i] = NULL;
            } else if (i % 7 == 0) {
                kept[k][i] = fh_realloc(kept[k][i], n += 5);
            }
            asked[k] += i % 3 ? n : 0;
        }
    }
    for (int k = 0; k < 4; k++) printf("%zu\n", asked[k]);
    fflush(stdout);
}

static atomic_int over;

static void *come_and_go(void *arg) {
    while (!over) {
        fh_heap *outer = fh_heap_new(&(fh_heap_options){.name = "outer"});
        fh_heap *inner = fh_heap_new(&(fh_heap_options){.name = "inner", .parent = outer});
        fill(inner, 40, 100);
        fill(inner, 5000, 100);
        fill(inner, 100000, 4);
        fill(outer, 700, 300);
        if (fh_heap_destroy(inner) || fh_heap_destroy(outer)) abort();
    }
    return arg;
}

int main(void) {
    char line[64];
    pthread_t thread[3];
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "make\n")) {
            fh_heap *tenant = make("tenant", NULL, 48 << 20, 64 << 20, 0);
            fh_heap *query = make("query", tenant, 0, 2 << 20, 0);
            fh_heap *other = make("query", tenant, 0, 0, 0);
            fh_heap *frames = make("frames", NULL, 0, 0, FH_HEAP_PRIVATE);
            make("", NULL, 0, 0, 0);
            fh_heap_options given = {.name = "given", .memory = memory, .memory_size = sizeof memory};
            fh_heap *g = all[heaps++] = fh_heap_new(&given);
            fh_heap *loop = make("loop", NULL, 0, 4 << 20, FH_HEAP_BOUNDED);
            fill(loop, 100, 2000);
            fill(loop, 9000, 20);
            fill(loop, 150000, 5);
            fill(tenant, 24, 3000);
            fill(tenant, 900, 2000);
            fill(query, 30000, 200); /* until the limit is in the way */
            fill(other, 200000, 10);
            fill(other, 3 << 20, 3);
            fill(g, 100, 50);
            fill(g, 9000, 5);
            for (int i = 0; i < 1000; i++) *(int *)fh_frame_malloc(frames, 100) = i;
            say();
        } else if (!strcmp(line, "scatter\n")) {
            /* 50 MB, of which a quarter stays. */
            static void *p[100000];
            fh_heap *h = make("scattered", NULL, 0, 0, 0);
            for (int i = 0; i < 100000; i++) memset(p[i] = fh_heap_malloc(h, 500), 1, 500);
            for (int i = 0; i < 100000; i++) {
                if (i % 4) fh_free(p[i]);
            }
            say();
        } else if (!strcmp(line, "say\n")) {
            say();
        } else if (!strcmp(line, "threads\n")) {
            for (int i = 0; i < 3; i++) pthread_create(&thread[i], NULL, come_and_go, NULL);
            say();
        } else if (!strcmp(line, "join\n")) {
            over = 1;
            for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
            say();
        } else if (!strcmp(line, "known\n")) {
            take_known();
        } else if (!strcmp(line, "reset\n")) {
            if (fh_heap_reset(owner[0]) || fh_heap_destroy(owner[2])) abort();
            puts("done");
            fflush(stdout);
        } else if (!strcmp(line, "many\n")) {
            for (int i = 0; i < 300; i++) fh_heap_malloc(fh_heap_new(&(fh_heap_options){.name = "one of many"}), 100);
            say();
        }
    }
    return 0;
}
