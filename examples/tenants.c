/* A cache of a tenant that makes room when its limit is met: its heap calls back, and the oldest entries go.
 *
 * Two tenants have a megabyte each. One keeps putting; the other one keeps what it has. */
#include <freehold/heap.h>

#include <stdio.h>
#include <string.h>

#define SLOTS 8192

typedef struct {
    fh_heap *heap;
    char *entry[SLOTS]; /* a ring, the oldest at `tail` */
    size_t head, tail, evicted;
} cache;

/* Called when a tenant's limit is met. 1: there is room now, try again. */
static int make_room(fh_heap *heap, size_t wanted, int hard, void *arg) {
    cache *c = arg;
    (void)heap;
    if (!hard) return 0;
    size_t freed = 0;
    for (; c->tail < c->head && freed < wanted + (64 << 10); c->tail++, c->evicted++) {
        char **e = &c->entry[c->tail % SLOTS];
        freed += fh_malloc_usable_size(*e);
        fh_free(*e);
        *e = NULL;
    }
    return freed > 0;
}

static int begin(cache *c, const char *name) {
    c->heap = fh_heap_new(&(fh_heap_options){.name = name, .hard_limit = 1 << 20, .callback = make_room, .arg = c});
    return c->heap != NULL;
}

static int put(cache *c, unsigned number) {
    size_t n = 100 + number % 7 * 50;
    if (c->head - c->tail == SLOTS) return 0;
    char *e = fh_heap_malloc(c->heap, n);
    if (!e) return 0;
    memset(e, (int)(number & 0xFF), n);
    c->entry[c->head++ % SLOTS] = e;
    return 1;
}

int main(void) {
    static cache busy, quiet;
    if (!begin(&busy, "busy tenant") || !begin(&quiet, "quiet tenant")) return 1;
    for (unsigned i = 0; i < 1000; i++) {
        if (!put(&quiet, i)) return 1;
    }
    for (unsigned i = 0; i < 100000; i++) {
        if (!put(&busy, i)) return 1;
    }
    fh_heap_figures b, q;
    fh_heap_stats(busy.heap, &b);
    fh_heap_stats(quiet.heap, &q);
    printf("%s: %zu entries, %zu evicted, %zu KiB of %zu\n", fh_heap_name(busy.heap), b.count, busy.evicted,
           b.taken >> 10, b.hard_limit >> 10);
    printf("%s: %zu entries, %zu evicted, %zu KiB of %zu\n", fh_heap_name(quiet.heap), q.count, quiet.evicted,
           q.taken >> 10, q.hard_limit >> 10);
    int good = b.count == busy.head - busy.tail && busy.evicted + b.count == 100000 && b.peak <= b.hard_limit &&
               b.count > 2000 && q.count == 1000 && quiet.evicted == 0;
    return fh_heap_destroy(busy.heap) != 0 || fh_heap_destroy(quiet.heap) != 0 || !good;
}
