/* A key-value store that defragments itself while it serves (freehold/defrag.h).
 *
 *     store            prints what it does, and ends with 0 if little memory is wasted in the end
 *     store --without  the same without defragmenting, to compare
 *
 * Keys are numbers, values are strings of some ten to some hundred bytes. The store is filled; then its keys expire, of each
 * month another share, and it is left with slabs that are full, half empty and nearly empty. From then on each request also looks
 * at a few entries of the table, as Redis does in its idle time, and moves what is worth it. */
#include <freehold/defrag.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ENTRIES (1u << 20)
#define MONTHS 24u
#define LOOK 16u /* entries that a request looks at */

typedef struct {
    uint32_t key, size;
    char *value;
} entry;

static entry *table;
static size_t live, moved; /* bytes of values */

static uint64_t random_state = 0x9E3779B97F4A7C15;
static uint32_t random_below(uint32_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 32) * n >> 32);
}

/* What is behind the first number of /proc/self/statm: pages that are resident. */
static size_t resident(void) {
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*u %lu", &pages) != 1) exit(1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void fill(entry *e, uint32_t key, uint32_t size) {
    e->key = key;
    e->size = size;
    e->value = fh_malloc(size);
    if (!e->value) exit(1);
    memset(e->value, (int)(key & 0xFF), size);
    live += size;
}

static void expire(entry *e) {
    live -= e->size;
    fh_free(e->value);
    e->value = NULL;
}

/* The one thing that this example is about. */
static void defragment(uint32_t from) {
    const void *values[LOOK];
    unsigned char worth[LOOK];
    for (uint32_t i = 0; i < LOOK; i++) values[i] = table[(from + i) % ENTRIES].value;
    if (fh_defrag_worth(values, LOOK, worth) == 0) return;
    for (uint32_t i = 0; i < LOOK; i++) {
        entry *e = &table[(from + i) % ENTRIES];
        char *better = worth[i] ? fh_defrag_malloc(e->size) : NULL;
        if (!better) continue;
        memcpy(better, e->value, e->size);
        fh_defrag_free(e->value);
        e->value = better;
        moved += e->size;
    }
}

/* Is a tenth of what the blocks' slabs have wasted? Below that moving costs more than it gains. */
static int is_wasteful(void) {
    struct fh_mallinfo2 m = fh_mallinfo2();
    return m.fordblks - m.keepcost > (m.uordblks + m.hblkhd) / 10;
}

/* A request reads an entry, and one of eight writes it anew. */
static void serve(uint32_t key) {
    entry *e = &table[key];
    if (!e->value) return;
    for (uint32_t i = 0; i < e->size; i += 16) {
        if (e->value[i] != (char)(key & 0xFF)) {
            fprintf(stderr, "store: the value of %u was lost\n", key);
            exit(1);
        }
    }
    if (random_below(8) == 0) {
        uint32_t size = e->size;
        expire(e);
        fill(e, key, size);
    }
}

static double ratio(size_t before) {
    return (double)(resident() - before) / (double)live;
}

int main(int argc, char **argv) {
    int without = argc > 1 && strcmp(argv[1], "--without") == 0;
    table = calloc(ENTRIES, sizeof *table);
    if (!table) return 1;
    for (uint32_t key = 0; key < ENTRIES; key++) table[key].key = ~key; /* its memory is not what is measured */
    size_t before = resident();
    for (uint32_t key = 0; key < ENTRIES; key++) fill(&table[key], key, 24 + random_below(400));
    printf("filled:       %5zu MiB of values, %.2f bytes resident for each\n", live >> 20, ratio(before));
    for (uint32_t key = 0; key < ENTRIES; key++) {
        /* Of each month another share is left: a seventh to nearly all. */
        uint32_t month = key / (ENTRIES / MONTHS + 1), left = 15 + month * 7 % MONTHS * 85 / MONTHS;
        if (random_below(100) >= left) expire(&table[key]);
    }
    fh_malloc_trim(0);
    double drifted = ratio(before);
    printf("drifted:      %5zu MiB of values, %.2f bytes resident for each\n", live >> 20, drifted);
    int defragments = 0;
    for (uint32_t n = 0; n < 2 * ENTRIES; n++) {
        serve(random_below(ENTRIES));
        if (n % 4096 == 0) defragments = !without && is_wasteful();
        if (defragments && n % 4 == 0) defragment(n / 4 * LOOK);
    }
    fh_malloc_trim(0);
    double after = ratio(before);
    printf("%s %5zu MiB of values, %.2f bytes resident for each; moved %.1f %% of them\n",
           without ? "served:      " : "defragmented:", live >> 20, after, 100.0 * (double)moved / (double)live);
    return after > 1.15 || moved > live * 30 / 100;
}
