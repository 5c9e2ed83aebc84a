/* Heaps over memory that the program gives: a static array, a shared mapping. given PART */
#include "../support/check.h"

#include <errno.h>
#include <freehold/heap.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define BYTES ((size_t)1 << 20)
static char array[BYTES + 64];

static fh_heap *over(void *memory, size_t bytes, unsigned flags) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.memory = memory, .memory_size = bytes, .flags = flags});
    CHECK(h != NULL, "no heap: errno %d", errno);
    return h;
}

static void is_within(fh_heap *h, char *p, size_t n) {
    CHECK(p >= array && p + n <= array + sizeof array, "%p is not in the array", (void *)p);
    CHECK(fh_heap_of(p) == h && fh_heap_of(p + n - 1) == h, "%p is not in the heap", (const void *)p);
    CHECK(fh_malloc_usable_size(p) >= n, "%zu bytes of %zu", fh_malloc_usable_size(p), n);
}

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

/* Fills it with blocks of n bytes; returns how many. */
static size_t fill(fh_heap *h, size_t n, size_t align, char **p, size_t most) {
    size_t i = 0;
    for (; i < most && (p[i] = fh_heap_aligned_alloc(h, align, n)) != NULL; i++) {
        is_within(h, p[i], n);
        CHECK((uintptr_t)p[i] % align == 0, "%p is no multiple of %zu", (void *)p[i], align);
        memset(p[i], (int)(i % 251), n);
    }
    CHECK(i == most || errno == ENOMEM, "errno %d", errno);
    return i;
}

/* Every size and alignment until it is full, all of them kept, then freed: it is as it was. */
static void blocks(unsigned flags) {
    static char *p[BYTES / 16];
    static const size_t sizes[] = {1, 16, 100, 1000, 1024, 1025, 5000, 70000, 300000};
    fh_heap *h = over(array + 3, BYTES, flags);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t align = 16; align <= 8192; align *= 8) {
            size_t n = fill(h, sizes[s], align, p, BYTES / 16), again;
            CHECK(n > 0 && n * sizes[s] <= BYTES, "%zu blocks of %zu", n, sizes[s]);
            if (align == 16 && sizes[s] % 1024 == 0) CHECK(n * sizes[s] >= BYTES / 100 * 97, "only %zu", n);
            CHECK(live(h) == n, "%zu blocks of %zu", live(h), n);
            for (size_t i = 0; i < n; i++) {
                for (size_t k = 0; k < sizes[s]; k++) CHECK(p[i][k] == (char)(i % 251), "block %zu was written", i);
                fh_free(p[i]);
            }
            CHECK(live(h) == 0, "%zu blocks are left", live(h));
            again = fill(h, sizes[s], align, p, BYTES / 16);
            CHECK(again == n, "%zu, and then %zu", n, again);
            CHECK(fh_heap_reset(h) == 0 && live(h) == 0, "not reset");
        }
    }
    CHECK(fh_heap_malloc(h, BYTES) == NULL && fh_heap_malloc(h, PTRDIFF_MAX) == NULL, "more than there is");
    CHECK(fh_heap_destroy(h) == 0, "not destroyed");
}

/* realloc within it and into it, calloc over what was written, a scope, frames, a callback at its end. */
static void called(void *arg) {
    ++*(int *)arg;
}

static void calls(void) {
    int ended = 0;
    fh_heap *h = over(array, BYTES, FH_HEAP_PRIVATE);
    memset(array + BYTES / 2, 7, BYTES / 2);
    char *p = fh_heap_malloc(h, 40), *q = fh_malloc(100), *frame;
    memset(q, 5, 100);
    strcpy(p, "kept");
    p = fh_realloc(p, 50000);
    is_within(h, p, 50000);
    CHECK(strcmp(p, "kept") == 0, "not copied");
    q = fh_heap_realloc(h, q, 200);
    is_within(h, q, 200);
    CHECK(q[99] == 5, "not copied");
    CHECK(fh_realloc(p, BYTES) == NULL && errno == ENOMEM && strcmp(p, "kept") == 0, "beyond what there is");
    unsigned char *zero = fh_heap_calloc(h, 600, 1000);
    is_within(h, (char *)zero, 600000);
    for (size_t i = 0; i < 600000; i++) CHECK(zero[i] == 0, "byte %zu is not zero", i);
    CHECK(fh_heap_on_destroy(h, called, &ended) == 0, "no callback");
    fh_heap_mark mark = fh_mark(h);
    frame = fh_frame_malloc(h, 300);
    CHECK(fh_heap_of(frame) == h, "the frame is not in the heap");
    CHECK(fh_release_to(h, mark) == 0, "not released");
    CHECK(fh_heap_enter(h) == 0, "no scope");
    is_within(h, p = fh_malloc(77), 77);
    CHECK(fh_malloc(BYTES) == NULL && errno == ENOMEM, "from the system");
    CHECK(fh_heap_leave() == 0, "not left");
    fh_free(p);
    fh_heap_figures f;
    CHECK(fh_heap_stats(h, &f) == 0 && f.taken == 65536 && f.resident >= 600000 && f.refusals >= 2, "%zu", f.resident);
    CHECK(fh_heap_destroy(h) == 0 && ended == 1, "not destroyed");
    CHECK(fh_heap_of(array + BYTES / 2) == NULL, "still a heap's");
    CHECK(fh_verify() == 0, "the heap is damaged");
}

static int frees_one(fh_heap *h, size_t wanted, int hard, void *arg) {
    char **p = arg;
    CHECK(hard == 1 && fh_heap_malloc(h, wanted) == NULL, "not full");
    fh_free(*p);
    *p = NULL;
    return 1;
}

static void refused(fh_heap_options o) {
    errno = 0;
    CHECK(fh_heap_new(&o) == NULL && errno == EINVAL, "a heap, or errno %d", errno);
}

/* What is refused, the callback when it is full, and all the heaps that there can be. */
static void full(void) {
    static char *p[BYTES / 16];
    char *block = fh_malloc(100000);
    fh_heap *h[100];
    size_t n = 0;
    refused((fh_heap_options){.memory = array, .memory_size = 4095});
    refused((fh_heap_options){.memory = array, .memory_size = BYTES, .hard_limit = BYTES});
    refused((fh_heap_options){.memory = NULL, .memory_size = BYTES});
    refused((fh_heap_options){.memory = block, .memory_size = 100000});
    refused((fh_heap_options){.memory = array, .memory_size = SIZE_MAX});
    fh_free(block);
    for (; n < 100; n++) {
        h[n] = fh_heap_new(&(fh_heap_options){.memory = array + n * 8192, .memory_size = 8192});
        if (!h[n]) break;
    }
    CHECK(n == 64 && errno == ENOMEM, "%zu heaps, errno %d", n, errno);
    refused((fh_heap_options){.memory = array + 8191, .memory_size = 8192});
    for (size_t i = 0; i < n; i++) is_within(h[i], fh_heap_malloc(h[i], 5000), 5000);
    for (size_t i = 0; i < n; i++) CHECK(fh_heap_destroy(h[i]) == 0, "not destroyed");
    h[0] = fh_heap_new(&(fh_heap_options){.memory = array, .memory_size = BYTES, .callback = frees_one, .arg = &p[5]});
    CHECK(h[0] && fh_heap_limit(h[0], 0, 0) == -1 && errno == EINVAL, "a limit");
    n = 0;
    for (; n < 8; n++) CHECK((p[n] = fh_heap_malloc(h[0], 120000)) != NULL, "block %zu", n);
    CHECK(fh_heap_malloc(h[0], 100000) != NULL && p[5] == NULL, "the callback has freed for nothing");
    CHECK(fh_heap_destroy(h[0]) == 0, "not destroyed");
}

static fh_heap *shared;

static void *works(void *arg) {
    unsigned seed = (unsigned)(uintptr_t)arg;
    char *p[32] = {0};
    for (unsigned i = 0; i < 20000; i++) {
        unsigned at = (seed = seed * 1103515245 + 12345) >> 16 & 31, n = 1 + (seed >> 8) % (i % 4 ? 300 : 9000);
        if (p[at]) CHECK(p[at][0] == (char)(uintptr_t)arg, "another thread has the block");
        fh_free(p[at]);
        if ((p[at] = fh_heap_malloc(shared, n)) != NULL) memset(p[at], (int)(uintptr_t)arg, n);
    }
    for (unsigned i = 0; i < 32; i++) fh_free(p[i]);
    return NULL;
}

/* Four threads in one that is too small for them. */
static void threads(void) {
    pthread_t thread[4];
    shared = over(array, BYTES / 8, 0);
    for (uintptr_t i = 0; i < 4; i++) CHECK(pthread_create(&thread[i], NULL, works, (void *)(i + 1)) == 0, "no thread");
    for (unsigned i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    CHECK(live(shared) == 0, "%zu blocks are left", live(shared));
    CHECK(fh_heap_malloc(shared, BYTES / 8 - 8192) != NULL, "claimed in vain, and not set again");
    CHECK(fh_heap_destroy(shared) == 0, "not destroyed");
}

/* Parent and child in one mapping: each frees what the other allocated. */
static void forks(void) {
    char **memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "no mapping");
    fh_heap *h = over(memory + 1, BYTES - sizeof *memory, 0);
    char *mine = fh_heap_malloc(h, 3000);
    pid_t child = fork();
    CHECK(child >= 0, "no fork");
    if (child == 0) {
        fh_free(mine);
        *memory = fh_heap_malloc(h, 700);
        strcpy(*memory, "from the child");
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %d", status);
    CHECK(live(h) == 1 && fh_heap_of(*memory) == h && strcmp(*memory, "from the child") == 0, "not there");
    fh_free(*memory);
    CHECK(live(h) == 0 && fh_heap_destroy(h) == 0, "not destroyed");
    munmap(memory, BYTES);
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "";
    if (!strcmp(part, "blocks")) {
        blocks(0);
    } else if (!strcmp(part, "private")) {
        blocks(FH_HEAP_PRIVATE);
    } else if (!strcmp(part, "calls")) {
        calls();
    } else if (!strcmp(part, "full")) {
        full();
    } else if (!strcmp(part, "threads")) {
        threads();
    } else if (!strcmp(part, "forks")) {
        forks();
    } else if (!strcmp(part, "twice") || !strcmp(part, "inside")) {
        char *p = fh_heap_malloc(over(array, BYTES, 0), 5000);
        if (part[0] == 't') fh_free(p);
        fh_free(part[0] == 't' ? p : p + 3000);
    } else {
        CHECK(false, "no part %s", part);
    }
    return 0;
}
