/* Heaps whose pages the kernel treats otherwise: not in core dumps, populated, huge, named. pages PART [thp] */
#include "../support/check.h"

#include <errno.h>
#include <freehold/heap.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

/* ── What the kernel says ────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    size_t begin, end;
    char flags[128], name[128];
} mapping;

static mapping map[4096];
static size_t maps;

/* Reads what there is now. */
static void look(void) {
    char line[1024];
    FILE *f = fopen("/proc/self/smaps", "r");
    CHECK(f != NULL, "no smaps");
    maps = 0;
    while (fgets(line, sizeof line, f)) {
        mapping m = {0};
        if (sscanf(line, "%zx-%zx %*s %*s %*s %*s %127[^\n]", &m.begin, &m.end, m.name) >= 2) {
            CHECK(maps < sizeof map / sizeof map[0], "too many mappings");
            map[maps++] = m;
        } else if (maps && !strncmp(line, "VmFlags:", 8)) {
            snprintf(map[maps - 1].flags, sizeof map[0].flags, "%.126s", line + 8);
        }
    }
    fclose(f);
}

/* The mapping that p was in then. */
static const mapping *mapping_of(const void *p) {
    for (size_t i = 0; i < maps; i++)
        if ((uintptr_t)p >= map[i].begin && (uintptr_t)p < map[i].end) return &map[i];
    CHECK(false, "%p is in no mapping", p);
    return NULL;
}

static bool has_flag(const void *p, const char *flag) {
    return strstr(mapping_of(p)->flags, flag) != NULL;
}

static size_t mappings(void) {
    char line[1024];
    size_t n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    CHECK(f != NULL, "no maps");
    while (fgets(line, sizeof line, f)) n++;
    fclose(f);
    return n;
}

static size_t resident_of(const void *p, size_t n) {
    static unsigned char pages[4096];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), sum = 0;
    uintptr_t begin = (uintptr_t)p & ~(page - 1), end = ((uintptr_t)p + n + page - 1) & ~(page - 1);
    CHECK((end - begin) / page <= sizeof pages, "too many pages");
    CHECK(mincore((void *)begin, end - begin, pages) == 0, "mincore: errno %d", errno);
    for (size_t i = 0; i < (end - begin) / page; i++) sum += pages[i] & 1;
    return sum * page;
}

/* From the first to the last that any heap has had here. */
static uintptr_t lowest = UINTPTR_MAX, highest;

static void *seen(void *p, size_t n) {
    if (p && (uintptr_t)p < lowest) lowest = (uintptr_t)p;
    if (p && (uintptr_t)p + n > highest) highest = (uintptr_t)p + n;
    return p;
}

/* ── Heaps ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static fh_heap *heap_with(unsigned flags, const char *name) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.name = name, .flags = flags});
    CHECK(h != NULL, "no heap: errno %d", errno);
    return h;
}

/* Blocks of each kind: of units, of extents, large ones within a span, and longer ones. */
static const size_t sizes[] = {40, 1000, 900, 5000, 60000, 70000, 300000, 1000000, 1100000, 5000000};
#define KINDS (sizeof sizes / sizeof sizes[0])
#define OF_EACH 5u

static void fill(fh_heap *h, char *block[KINDS][OF_EACH]) {
    for (size_t i = 0; i < KINDS; i++) {
        for (unsigned k = 0; k < OF_EACH; k++) {
            char *p = block[i][k] = seen(fh_heap_malloc(h, sizes[i]), sizes[i]);
            CHECK(p != NULL && fh_heap_of(p) == h && fh_heap_of(p + sizes[i] - 1) == h, "block of %zu", sizes[i]);
            CHECK(fh_malloc_usable_size(p) >= sizes[i], "too small");
            memset(p, (int)(i * OF_EACH + k + 1), sizes[i]);
        }
    }
}

static void is_kept(char *block[KINDS][OF_EACH]) {
    for (size_t i = 0; i < KINDS; i++) {
        for (unsigned k = 0; k < OF_EACH; k++) {
            for (size_t at = 0; at < sizes[i]; at++)
                CHECK(block[i][k][at] == (char)(i * OF_EACH + k + 1), "byte %zu of %zu was written", at, sizes[i]);
        }
    }
}

static void all_have(fh_heap *h, char *block[KINDS][OF_EACH], const char *flag, bool wanted) {
    look();
    CHECK(!h || has_flag(h, flag) == wanted, "the heap itself: %s", mapping_of(h)->flags);
    for (size_t i = 0; i < KINDS; i++) {
        for (unsigned k = 0; k < OF_EACH; k++) {
            CHECK(has_flag(block[i][k], flag) == wanted, "%zu: %s", sizes[i], mapping_of(block[i][k])->flags);
            CHECK(has_flag(block[i][k] + sizes[i] - 1, flag) == wanted, "the end of %zu", sizes[i]);
        }
    }
}

/* No page there has the flag, whoever has it now. */
static void is_lost(const char *flag) {
    char line[1024];
    size_t begin = 0, end = 0;
    FILE *f = fopen("/proc/self/smaps", "r");
    CHECK(f != NULL && lowest < highest, "no smaps, or nothing was seen");
    while (fgets(line, sizeof line, f)) {
        mapping m;
        if (sscanf(line, "%zx-%zx ", &m.begin, &m.end) == 2) {
            begin = m.begin;
            end = m.end;
        }
        if (strncmp(line, "VmFlags:", 8)) continue;
        CHECK(end <= lowest || begin >= highest || !strstr(line, flag), "still there: %s", line);
    }
    fclose(f);
}

/* Other chunks are advised as well, so mappings are not ours alone. */
static bool advised;

/* The thread sanitizer puts mappings of its own between ours. The C library and the other sanitizer have a few. */
static void are_few(size_t now, size_t most) {
#ifdef __SANITIZE_THREAD__
    (void)now, (void)most;
#else
    CHECK(advised || now <= most + 24, "%zu mappings, and not %zu", now, most);
#endif
}

/* A flag is on all blocks of the heap, on none of another, and gone with the heap; a reset keeps it for what comes next. */
static void flagged(unsigned flags, const char *flag) {
    char *block[KINDS][OF_EACH], *other[KINDS][OF_EACH];
    fh_heap_figures f;
    size_t before = mappings();
    for (unsigned turn = 0; turn < 3; turn++) {
        fh_heap *plain = heap_with(0, "plain"), *h = heap_with(flags, "query");
        fill(h, block);
        fill(plain, other);
        all_have(h, block, flag, true);
        all_have(plain, other, flag, false);
        CHECK(fh_verify() == 0, "the heap is damaged");
        for (size_t i = 0; i < KINDS; i += 2) {
            for (unsigned k = 0; k < OF_EACH; k++) fh_free(block[i][k]);
        }
        for (size_t i = 0; i < KINDS; i += 2) {
            for (unsigned k = 0; k < OF_EACH; k++) {
                block[i][k] = fh_heap_calloc(h, 1, sizes[i]);
                for (size_t at = 0; at < sizes[i]; at++) CHECK(block[i][k][at] == 0, "byte %zu is not zero", at);
                memset(block[i][k], (int)(i * OF_EACH + k + 1), sizes[i]);
            }
        }
        all_have(h, block, flag, true);
        is_kept(block);
        CHECK(fh_heap_stats(h, &f) == 0 && f.count == KINDS * OF_EACH, "%zu blocks", f.count);
        CHECK(f.resident >= f.live / 2 && f.taken >= f.live, "%zu of %zu", f.resident, f.live);
        CHECK(fh_heap_reset(h) == 0, "no reset");
        CHECK(fh_heap_stats(h, &f) == 0 && f.count == 0 && f.taken == 64 * KIB, "%zu is taken", f.taken);
        fill(h, block);
        all_have(h, block, flag, true);
        is_kept(other);
        CHECK(fh_heap_destroy(h) == 0, "not destroyed");
        is_lost(flag);
        CHECK(fh_heap_destroy(plain) == 0, "not destroyed");
        CHECK(fh_verify() == 0, "the heap is damaged");
    }
    are_few(mappings(), before + 8);
}

static void no_dump(void) {
    flagged(FH_HEAP_NO_DUMP, " dd");
}

static bool has_huge(void) {
    char text[128] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (f) {
        if (!fgets(text, sizeof text, f)) text[0] = 0;
        fclose(f);
    }
    return text[0] && !strstr(text, "[never]");
}

static void huge(void) {
    if (!has_huge()) skip_test("the kernel has no huge pages, or grants none");
    flagged(FH_HEAP_HUGE, " hg");
    fh_heap *h = heap_with(FH_HEAP_HUGE, NULL);
    char *p = fh_heap_malloc(h, 5 * MIB);
    fh_heap_figures f;
    CHECK((uintptr_t)p % (2 * MIB) == 0, "%p is on no huge page", (void *)p);
    CHECK(fh_heap_stats(h, &f) == 0 && f.taken >= 6 * MIB, "%zu is taken", f.taken);
    CHECK(fh_heap_destroy(h) == 0, "not destroyed");
}

/* A page is there before it was written to, and it is not without the flag. */
static void populate_of(unsigned flags) {
    for (unsigned turn = 0; turn < 2; turn++) {
        fh_heap *h = heap_with(flags | (turn ? FH_HEAP_POPULATE : 0), NULL);
        for (size_t i = 0; i < KINDS; i++) {
            size_t n = sizes[i] / 4096 * 4096;
            /* Above 64 KiB it is a block of its own, whose memory came with it. */
            char *p = fh_heap_malloc(h, sizes[i]);
            CHECK(p != NULL, "no block");
            size_t there = resident_of(p, n ? n : 1);
            if (turn) CHECK(there >= n, "%zu of %zu have memory", there, n);
            if (!turn && n > MIB) CHECK(there < n / 2, "%zu of %zu have memory without the flag", there, n);
        }
        CHECK(turn == 0 || resident_of(h, 64 * KIB) == 64 * KIB, "not the first slot");
        CHECK(fh_heap_destroy(h) == 0, "not destroyed");
        fh_malloc_trim(0);
    }
}

/* An extent that was purged at the limit has its pages again when it comes back. */
static void populate_again(void) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.hard_limit = 4 * MIB, .flags = FH_HEAP_POPULATE});
    void *p = fh_heap_malloc(h, 60000), *large = fh_heap_malloc(h, MIB), *q;
    CHECK(p && large && resident_of(p, 56 * KIB) >= 56 * KIB, "no blocks, or without memory");
    fh_free(p);
    for (unsigned i = 0; fh_heap_malloc(h, 100 * KIB) != NULL; i++) CHECK(i < 40, "beyond the limit");
    CHECK(resident_of(p, 56 * KIB) == 0, "it was not retired");
    fh_free(large);
    q = fh_heap_malloc(h, 60000);
    CHECK(q == p, "another extent");
    CHECK(resident_of(q, 56 * KIB) >= 56 * KIB, "%zu have memory", resident_of(q, 56 * KIB));
    CHECK(fh_heap_destroy(h) == 0, "not destroyed");
}

static void populate(void) {
    populate_of(0);
    populate_of(FH_HEAP_NO_DUMP);
    populate_of(FH_HEAP_PRIVATE);
    populate_again();
}

/* ── Names ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* What the library asks the kernel to do, also where the kernel does not do it. The drop-in library has a prctl of its own. */
static struct {
    uintptr_t begin, end;
    char name[96];
} asked[256];
static size_t asks;

#ifdef T_EMBED
static void note(unsigned long begin, unsigned long size, const char *name) {
    size_t i = asks++;
    CHECK(i < sizeof asked / sizeof asked[0], "too many names");
    asked[i].begin = begin;
    asked[i].end = begin + size;
    snprintf(asked[i].name, sizeof asked[i].name, "%s", name ? name : "");
}

int prctl(int option, ...) {
    unsigned long a[4];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++) a[i] = va_arg(list, unsigned long);
    va_end(list);
    if (option == PR_SET_VMA) note(a[1], a[2], (const char *)a[3]);
    return (int)syscall(SYS_prctl, option, a[0], a[1], a[2], a[3]);
}
#endif

/* The name that was asked for last where p is. */
static const char *name_of(const void *p) {
    const char *name = "";
    for (size_t i = 0; i < asks; i++)
        if ((uintptr_t)p >= asked[i].begin && (uintptr_t)p < asked[i].end) name = asked[i].name;
    return name;
}

static bool kernel_has_names(void) {
    char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED, "no mapping");
    bool has = syscall(SYS_prctl, PR_SET_VMA, 0, p, 4096, "probe") == 0;
    munmap(p, 4096);
    return has;
}

static void names(void) {
    static const struct {
        const char *given, *seen;
    } name[] = {{"query", "freehold:query"},
                {"a[1]$\\`\n\xc3\xa4", "freehold:a_1_______"},
                {"", "freehold"},
                {NULL, "freehold"}};
    bool has = kernel_has_names(), recorded = false;
#ifdef T_EMBED
    recorded = true;
#endif
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        char *block[KINDS][OF_EACH], shown[128];
        fh_heap *h = heap_with(FH_HEAP_NAMED, name[i].given);
        asks = recorded ? asks : 0;
        fill(h, block);
        look();
        snprintf(shown, sizeof shown, "[anon:%s]", name[i].seen);
        for (size_t k = 0; k < KINDS; k++) {
            char *p = block[k][0], *end = p + sizes[k] - 1;
            if (recorded) CHECK(!strcmp(name_of(p), name[i].seen), "asked for \"%s\"", name_of(p));
            if (recorded) CHECK(!strcmp(name_of(end), name[i].seen), "asked for \"%s\"", name_of(end));
            if (has) CHECK(!strcmp(mapping_of(p)->name, shown), "%s, and not %s", mapping_of(p)->name, shown);
        }
        CHECK(fh_heap_destroy(h) == 0, "not destroyed");
        look();
        for (size_t k = 0; k < KINDS; k++) CHECK(!strstr(mapping_of(block[k][0])->name, "freehold"), "the name stays");
    }
    if (!has && !recorded) skip_test("the kernel has no names for mappings");
    if (!has) skip_part("the kernel has no names for mappings: only what it was asked was looked at");
}

/* ── Bounds ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Many heaps and blocks: mappings stay few, and the first that is too many is refused; then all is as it was. */
static void bounded(void) {
    static fh_heap *h[10000];
    size_t before = mappings(), n = 0;
    while (n < 10000 && (h[n] = seen(fh_heap_new(&(fh_heap_options){.flags = FH_HEAP_NO_DUMP}), 2 * MIB)) != NULL) n++;
    CHECK(n == 8192 && errno == ENOMEM, "%zu heaps, errno %d", n, errno);
    are_few(mappings(), before + 2 * n + 8);
    CHECK(fh_heap_malloc(h[0], 2 * MIB) == NULL && errno == ENOMEM, "a piece more");
    CHECK(fh_heap_malloc(h[0], 1000) != NULL && fh_heap_malloc(h[0], 70000) != NULL, "not from the first span");
    /* Every second one, so that what is left has neighbours that are not alike. */
    for (size_t i = 0; i < n; i += 2) CHECK(fh_heap_destroy(h[i]) == 0, "not destroyed");
    are_few(mappings(), before + n + 8);
    for (size_t i = 1; i < n; i += 2) CHECK(fh_heap_destroy(h[i]) == 0, "not destroyed");
    are_few(mappings(), before + 8);
    is_lost(" dd");
    h[0] = heap_with(FH_HEAP_NO_DUMP, NULL);
    for (size_t i = 0; i < 4000; i++) CHECK(fh_heap_malloc(h[0], 300000) != NULL, "block %zu", i);
    are_few(mappings(), before + 100);
    CHECK(fh_heap_destroy(h[0]) == 0, "not destroyed");
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* Limits are as those of other heaps, and what is freed is there again. */
static void limits(void) {
    static char *p[1000];
    fh_heap *parent = heap_with(0, NULL);
    fh_heap *h = fh_heap_new(&(fh_heap_options){
        .parent = parent, .hard_limit = 10 * MIB, .flags = FH_HEAP_NO_DUMP | FH_HEAP_HUGE | FH_HEAP_NAMED});
    fh_heap_figures f, g;
    CHECK(h != NULL, "no heap");
    size_t n = 0;
    for (; (p[n] = fh_heap_malloc(h, 100 * KIB)) != NULL; n++) CHECK(n < 999, "no limit");
    CHECK(n >= 70, "only %zu", n);
    CHECK(fh_heap_stats(h, &f) == 0 && f.taken <= 10 * MIB && f.peak <= 10 * MIB, "%zu", f.taken);
    CHECK(fh_heap_stats(parent, &g) == 0 && g.taken == f.taken + 64 * KIB, "%zu and %zu", g.taken, f.taken);
    for (size_t i = 0; i < n; i++) fh_free(p[i]);
    size_t again = 0;
    for (; again < n; again++) CHECK((p[again] = fh_heap_malloc(h, 100 * KIB)) != NULL, "only %zu again", again);
    CHECK(fh_heap_reset(h) == 0, "no reset");
    CHECK(fh_heap_stats(parent, &g) == 0 && g.taken == 128 * KIB, "%zu", g.taken);
    CHECK(fh_heap_destroy(h) == 0, "not destroyed");
    CHECK(fh_heap_stats(parent, &g) == 0 && g.taken == 64 * KIB, "%zu", g.taken);
    CHECK(fh_heap_destroy(parent) == 0, "not destroyed");
    static char array[8192];
    errno = 0;
    CHECK(!fh_heap_new(&(fh_heap_options){.memory = array, .memory_size = 8192, .flags = FH_HEAP_NO_DUMP}) &&
              errno == EINVAL,
          "given memory, and errno %d", errno);
    errno = 0;
    CHECK(!fh_heap_new(&(fh_heap_options){.flags = 1u << 30}) && errno == EINVAL, "errno %d", errno);
}

static fh_heap *shared;

static void *works(void *arg) {
    unsigned seed = (unsigned)(uintptr_t)arg;
    char *p[32] = {0};
    for (unsigned i = 0; i < 4000; i++) {
        unsigned at = (seed = seed * 1103515245 + 12345) >> 16 & 31, n = 1 + (seed >> 8) % (i % 4 ? 3000 : 900000);
        if (p[at]) CHECK(p[at][0] == (char)(uintptr_t)arg, "another thread has the block");
        fh_free(p[at]);
        if ((p[at] = fh_heap_malloc(shared, n)) != NULL) p[at][0] = p[at][n - 1] = (char)(uintptr_t)arg;
    }
    for (unsigned i = 0; i < 32; i++) fh_free(p[i]);
    return NULL;
}

/* Four threads; then what they freed is one again. */
static void threads(void) {
    pthread_t thread[4];
    fh_heap_figures f;
    shared = seen(heap_with(FH_HEAP_NO_DUMP, "shared"), 2 * MIB);
    for (uintptr_t i = 0; i < 4; i++) CHECK(pthread_create(&thread[i], NULL, works, (void *)(i + 1)) == 0, "no thread");
    for (unsigned i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    CHECK(fh_heap_stats(shared, &f) == 0 && f.count == 0, "%zu blocks are left", f.count);
    CHECK(fh_verify() == 0, "the heap is damaged");
    CHECK(fh_heap_destroy(shared) == 0, "not destroyed");
    is_lost(" dd");
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } part[] = {{"no_dump", no_dump}, {"huge", huge},     {"populate", populate}, {"names", names},
                {"bounded", bounded}, {"limits", limits}, {"threads", threads}};
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        if (argc < 2 || strcmp(argv[1], part[i].name)) continue;
        advised = argc > 2;
        part[i].run();
        return 0;
    }
    CHECK(false, "no such part");
}
