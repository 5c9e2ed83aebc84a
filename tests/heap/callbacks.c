/* Heaps over memory from callbacks of the program: get, purge, give back. callbacks PART */
#include "../support/check.h"

#include <errno.h>
#include <freehold/heap.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define REGIONS 64u

/* ── The program's memory ────────────────────────────────────────────────────────────────────────────────────────── */

/* One array, given from its beginning on; what comes back is not given again. */
#define ARRAY (256 * MIB)

static _Alignas(65536) char array[ARRAY];

typedef struct {
    char *array;
    size_t next, most; /* bytes of it that were given, and may be */
    size_t gets, refused, purges, purged, backs;
    struct {
        char *p;
        size_t size;
        bool back;
    } region[REGIONS];
    void *(*inside)(size_t n); /* what a callback does with the heap, or NULL */
    pthread_mutex_t lock;
} source;

static fh_heap *own;

static void *get(void *arg, size_t size, size_t alignment) {
    source *s = arg;
    CHECK(size % (64 * KIB) == 0 && size != 0, "%zu bytes", size);
    CHECK(alignment >= 4096 && (alignment & (alignment - 1)) == 0, "alignment %zu", alignment);
    if (s->inside) s->inside(size);
    pthread_mutex_lock(&s->lock);
    char *p = NULL;
    if (size > s->most - s->next || s->gets == REGIONS) {
        s->refused++;
    } else {
        p = s->array + s->next;
        s->next += size;
        s->region[s->gets].p = p;
        s->region[s->gets++].size = size;
        memset(p, 0xA5, size < 4 * MIB ? size : 4 * MIB); /* any content */
    }
    pthread_mutex_unlock(&s->lock);
    return p;
}

/* The region that p is in; -1: none. */
static int region_of(const source *s, const char *p, size_t n) {
    for (size_t i = 0; i < s->gets; i++)
        if (p >= s->region[i].p && p + n <= s->region[i].p + s->region[i].size && !s->region[i].back) return (int)i;
    return -1;
}

static void purge(void *arg, void *p, size_t size) {
    source *s = arg;
    CHECK((uintptr_t)p % 4096 == 0 && size % 4096 == 0 && size >= 4096, "%zu at %p", size, p);
    pthread_mutex_lock(&s->lock);
    CHECK(region_of(s, p, size) >= 0, "%p is not of it", p);
    s->purges++;
    s->purged += size;
    pthread_mutex_unlock(&s->lock);
    memset(p, 0x5A, size);
    if (s->inside) s->inside(size);
}

static void give_back(void *arg, void *p, size_t size) {
    source *s = arg;
    int i = region_of(s, p, size);
    CHECK(i >= 0 && s->region[i].p == p && s->region[i].size == size, "%zu at %p were not given so", size, p);
    memset(p, 0x77, size);
    s->region[i].back = true;
    s->backs++;
    if (s->inside) s->inside(size);
}

static void begin(source *s, size_t most) {
    *s = (source){.most = most};
    pthread_mutex_init(&s->lock, NULL);
    s->array = array;
}

static void end(source *s) {
    CHECK(s->backs == s->gets, "%zu of %zu came back", s->backs, s->gets);
    CHECK(madvise(array, ARRAY, MADV_DONTNEED) == 0, "not as it was");
}

static fh_heap *over(source *s, fh_heap_options o) {
    fh_heap_pages pages = {get, purge, give_back, s};
    o.pages = &pages;
    fh_heap *h = fh_heap_new(&o);
    CHECK(h != NULL, "no heap: errno %d", errno);
    memset(&pages, 0, sizeof pages); /* it was copied */
    return h;
}

/* ── The heap ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void count(void *block, size_t size, void *arg) {
    size_t *sum = arg;
    CHECK(block != NULL && size != 0, "no block");
    sum[0]++;
    sum[1] += size;
}

static size_t live(fh_heap *h) {
    size_t sum[2] = {0, 0};
    fh_heap_figures f;
    CHECK(fh_heap_walk(h, count, sum) == 0 && fh_heap_stats(h, &f) == 0, "no walk");
    CHECK(f.count == sum[0] && f.live == sum[1], "%zu blocks, and %zu", f.count, sum[0]);
    return sum[0];
}

/* All sizes and alignments: in the program's memory and nowhere else, kept while others come and go. */
static void blocks_of(unsigned flags) {
    static char *p[3000];
    static const size_t sizes[] = {1, 16, 100, 1000, 1024, 1025, 5000, 70000, 300000, 3000000};
    source s;
    begin(&s, ARRAY);
    fh_heap *h = over(&s, (fh_heap_options){.flags = flags});
    CHECK(s.gets == 0, "memory before it is needed");
    for (size_t i = 0; i < 3000; i++) {
        size_t n = sizes[i % 3 ? i % 7 : i % 10 == 9 && i % 4 ? 8 : i % 10], align = (size_t)16 << i % 10;
        if (n == 3000000 && i > 100) n = 30;
        p[i] = fh_heap_aligned_alloc(h, align, n);
        CHECK(p[i] && (uintptr_t)p[i] % align == 0, "block %zu of %zu", i, n);
        CHECK(region_of(&s, p[i], n) >= 0 && fh_heap_of(p[i] + n - 1) == h, "%p is from elsewhere", (void *)p[i]);
        CHECK(fh_malloc_usable_size(p[i]) >= n, "too small");
        memset(p[i], (int)(i % 251), n < 64 ? n : 64);
        if (i % 5 == 4) {
            fh_free(p[i - 2]);
            p[i - 2] = NULL;
        }
    }
    CHECK(s.gets >= 3 && s.gets <= 12, "%zu regions for %zu bytes", s.gets, s.next);
    CHECK(live(h) == 2400, "%zu blocks", live(h));
    for (size_t i = 0; i < 3000; i++) CHECK(!p[i] || (p[i][0] == (char)(i % 251)), "block %zu was written", i);
    unsigned char *zero = fh_heap_calloc(h, 300, 1000);
    for (size_t i = 0; i < 300000; i++) CHECK(zero[i] == 0, "byte %zu is not zero", i);
    p[0] = fh_heap_realloc(h, p[0], 200000);
    CHECK(p[0] && p[0][0] == 0 && region_of(&s, p[0], 200000) >= 0, "realloc");
    size_t gets = s.gets;
    CHECK(fh_heap_reset(h) == 0 && live(h) == 0 && s.backs == gets, "%zu of %zu came back", s.backs, gets);
    CHECK(fh_heap_of(p[0]) == NULL, "still the heap's");
    CHECK(fh_heap_malloc(h, 50) != NULL && s.gets == gets + 1, "no new region");
    CHECK(fh_heap_destroy(h) == 0, "not destroyed");
    end(&s);
    CHECK(fh_verify() == 0, "the heap is damaged");
}

static void blocks(void) {
    blocks_of(0);
    blocks_of(FH_HEAP_PRIVATE);
}

/* Freed blocks of 64 KiB and more are told of, their whole pages alone; shorter ones are not. */
static void purges(void) {
    source s;
    begin(&s, ARRAY);
    fh_heap *h = over(&s, (fh_heap_options){0});
    char *small = fh_heap_malloc(h, 60000), *large = fh_heap_malloc(h, 200000), *next = fh_heap_malloc(h, 3000);
    memset(next, 9, 3000);
    fh_free(small);
    CHECK(s.purges == 0, "told of a short block");
    fh_free(large);
    CHECK(s.purges == 1 && s.purged <= 200704 && s.purged >= 200000 - 8192, "%zu of 200,000", s.purged);
    CHECK(large[100000] == 0x5A, "another block's pages");
    for (size_t i = 0; i < 3000; i++) CHECK(next[i] == 9, "its neighbour was purged");
    unsigned char *again = fh_heap_calloc(h, 1, 200000);
    for (size_t i = 0; i < 200000; i++) CHECK(again[i] == 0, "byte %zu is not zero", i);
    CHECK(fh_heap_destroy(h) == 0, "not destroyed");
    end(&s);
    /* Without that callback. */
    begin(&s, ARRAY);
    h = fh_heap_new(&(fh_heap_options){.pages = &(fh_heap_pages){get, NULL, give_back, &s}});
    fh_free(fh_heap_malloc(h, 200000));
    CHECK(s.gets == 1 && s.purges == 0 && fh_heap_destroy(h) == 0, "not destroyed");
    end(&s);
}

static int told(fh_heap *heap, size_t wanted, int hard, void *arg) {
    CHECK(heap && wanted && !hard, "the hard limit");
    ++*(unsigned *)arg;
    return 0;
}

/* The heap's limit and that of its parent count what was got, and the smaller wish is asked for too. */
static void limits(void) {
    source s;
    fh_heap_figures f;
    begin(&s, ARRAY);
    fh_heap *parent = fh_heap_new(&(fh_heap_options){.hard_limit = 5 * MIB});
    fh_heap *h = over(&s, (fh_heap_options){.parent = parent, .hard_limit = 4 * MIB});
    size_t n = 0;
    while (fh_heap_malloc(h, 100000) != NULL) n++;
    CHECK(errno == ENOMEM && n >= 38 && s.next <= 4 * MIB && s.refused == 0, "%zu blocks in %zu", n, s.next);
    CHECK(fh_heap_stats(h, &f) == 0 && f.taken == s.next + 64 * KIB && f.refusals >= 1, "%zu", f.taken);
    CHECK(f.resident >= f.live * 9 / 10 && f.resident <= f.taken, "%zu of %zu", f.resident, f.taken);
    CHECK(fh_heap_stats(parent, &f) == 0 && f.taken == s.next + 128 * KIB, "%zu", f.taken);
    CHECK(fh_heap_limit(h, 0, 0) == 0, "no limit");
    while (fh_heap_malloc(h, 100000) != NULL) n++;
    CHECK(n >= 45 && s.next <= 5 * MIB, "%zu blocks in %zu", n, s.next);
    CHECK(fh_heap_reset(h) == 0 && fh_heap_stats(parent, &f) == 0 && f.taken == 128 * KIB, "%zu", f.taken);
    CHECK(fh_heap_destroy(h) == 0 && fh_heap_destroy(parent) == 0, "not destroyed");
    end(&s);
    unsigned tells = 0;
    begin(&s, ARRAY);
    h = over(&s, (fh_heap_options){.soft_limit = MIB, .callback = told, .arg = &tells});
    CHECK(fh_heap_malloc(h, 100) && fh_heap_malloc(h, 2 * MIB) && tells == 1, "told %u times", tells);
    CHECK(fh_heap_destroy(h) == 0, "not destroyed");
    end(&s);
    /* The program's own limit: nothing from elsewhere. */
    begin(&s, MIB + 192 * KIB);
    h = over(&s, (fh_heap_options){0});
    for (n = 0; fh_heap_malloc(h, 1000) != NULL; n++) CHECK(n < 2000, "from elsewhere");
    CHECK(errno == ENOMEM && n >= 1100 && s.refused >= 2 && s.gets >= 2, "%zu blocks", n);
    CHECK(fh_heap_malloc(h, PTRDIFF_MAX) == NULL && fh_heap_malloc(h, 100 * MIB) == NULL, "more than there is");
    CHECK(fh_heap_destroy(h) == 0, "not destroyed");
    end(&s);
}

/* ── What callbacks may do, and what they give ───────────────────────────────────────────────────────────────────── */

static unsigned given_back;
static char *odd;

static void *get_odd(void *arg, size_t size, size_t alignment) {
    (void)arg, (void)size, (void)alignment;
    return odd;
}

static void count_back(void *arg, void *p, size_t size) {
    (void)arg;
    CHECK(p == odd && size >= 64 * KIB, "%zu at %p", size, p);
    given_back++;
}

static void refused(fh_heap_options o) {
    errno = 0;
    CHECK(fh_heap_new(&o) == NULL && errno == EINVAL, "a heap, or errno %d", errno);
}

static void errors(void) {
    static _Alignas(65536) char small[MIB + 65536];
    source s;
    begin(&s, ARRAY);
    fh_heap_pages pages = {get_odd, NULL, count_back, NULL}, none = {0};
    fh_heap *other = over(&s, (fh_heap_options){0}), *h = fh_heap_new(&(fh_heap_options){.pages = &pages});
    char *block = fh_malloc(3 * MIB), *wrong[] = {small + 16, fh_heap_malloc(other, 30), block, NULL};
    for (size_t i = 0; i < 4; i++) {
        odd = wrong[i] && i ? wrong[i] - (uintptr_t)wrong[i] % 4096 : wrong[i];
        errno = given_back = 0;
        CHECK(fh_heap_malloc(h, 100) == NULL && errno == ENOMEM, "of %p: errno %d", (void *)odd, errno);
        CHECK((given_back > 0) == (odd != NULL), "%u given back of %p", given_back, (void *)odd);
    }
    odd = small;
    char *p = fh_heap_malloc(h, 100);
    CHECK(p > small && p < small + MIB && fh_heap_malloc(h, MIB) == NULL, "not there, or twice");
    given_back = 0;
    CHECK(fh_heap_destroy(h) == 0 && given_back == 1 && fh_heap_destroy(other) == 0, "not destroyed");
    fh_free(block);
    refused((fh_heap_options){.pages = &none});
    refused((fh_heap_options){.pages = &pages, .memory = small, .memory_size = MIB});
    refused((fh_heap_options){.pages = &pages, .flags = FH_HEAP_NO_DUMP});
    end(&s);
}

static unsigned insides;

static void *allocates(size_t n) {
    insides++;
    void *p = fh_heap_malloc(own, 40);
    CHECK(fh_heap_malloc(own, n) == NULL && errno == ENOMEM, "another get within one");
    fh_free(p);
    return p;
}

static void inside(void) {
    source s;
    begin(&s, ARRAY);
    own = over(&s, (fh_heap_options){0});
    s.inside = allocates;
    char *p = fh_heap_malloc(own, 500000), *q = fh_heap_malloc(own, 5 * MIB);
    CHECK(p && q && insides == s.gets && s.gets == 2, "%u of %zu", insides, s.gets);
    fh_free(q);
    CHECK(s.purges == 1 && insides == 3, "%zu purges", s.purges);
    CHECK(fh_heap_destroy(own) == 0 && insides == 5, "%u", insides);
    s.inside = NULL;
    end(&s);
}

static void *ends(size_t n) {
    (void)n;
    insides++;
    CHECK(fh_heap_reset(own) == -1 && errno == EBUSY, "reset: errno %d", errno);
    CHECK(fh_heap_destroy(own) == -1 && errno == EBUSY, "destroyed: errno %d", errno);
    return NULL;
}

/* Builds that check report it as well, and go on with on_error=report. */
static void ending(void) {
    source s;
    begin(&s, ARRAY);
    own = over(&s, (fh_heap_options){0});
    s.inside = ends;
    char *p = fh_heap_malloc(own, 500000);
    CHECK(p && insides == 1, "%u", insides);
    memset(p, 1, 500000);
    fh_free(p);
    CHECK(insides == 2, "%u", insides);
    s.inside = NULL;
    CHECK(fh_heap_destroy(own) == 0, "not destroyed");
    end(&s);
}

static void *works(void *arg) {
    unsigned seed = (unsigned)(uintptr_t)arg;
    char *p[32] = {0};
    for (unsigned i = 0; i < 10000; i++) {
        unsigned at = (seed = seed * 1103515245 + 12345) >> 16 & 31, n = 1 + (seed >> 8) % (i % 4 ? 3000 : 200000);
        if (p[at]) CHECK(p[at][0] == (char)(uintptr_t)arg, "another thread has the block");
        fh_free(p[at]);
        if ((p[at] = fh_heap_malloc(own, n)) != NULL) p[at][0] = p[at][n - 1] = (char)(uintptr_t)arg;
    }
    for (unsigned i = 0; i < 32; i++) fh_free(p[i]);
    return NULL;
}

/* Four threads, in less than they want. */
static void threads(void) {
    pthread_t thread[4];
    source s;
    begin(&s, 8 * MIB);
    own = over(&s, (fh_heap_options){0});
    for (uintptr_t i = 0; i < 4; i++) CHECK(pthread_create(&thread[i], NULL, works, (void *)(i + 1)) == 0, "no thread");
    for (unsigned i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    CHECK(live(own) == 0 && s.purges > 0, "%zu blocks are left", live(own));
    CHECK(fh_heap_destroy(own) == 0, "not destroyed");
    end(&s);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } part[] = {{"blocks", blocks}, {"purges", purges}, {"limits", limits},  {"errors", errors},
                {"inside", inside}, {"ending", ending}, {"threads", threads}};
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        if (argc < 2 || strcmp(argv[1], part[i].name)) continue;
        part[i].run();
        return 0;
    }
    CHECK(false, "no such part");
}
