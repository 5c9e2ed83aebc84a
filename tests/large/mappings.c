/* Large blocks need few mappings: the kernel allows a process 65,530 by default, and none is left for a thread at the end.
 *
 *     many      80,000 blocks of 2.2 MB, one byte written of each, in less than 5,000 mappings. Then a thread starts, a
 *               library is loaded and a file is opened. Freeing every second block leaves less than 5,000 as well.
 *     giants    60 GiB in blocks of 4 GiB, in less than 1,000.
 *     holes     a million frees of 100 KB, of every second block, in less than half of what the kernel allows.
 *     moved     2,700 blocks move by their pages and are freed, and their memory is used in pieces with holes between,
 *     turns     blocks of 2 and 4 MiB take turns, 17,000 times, as huge pages are asked for one kind only,
 *     dropped   17,000 holes of free chunks at the moment that the kernel has no more address space: likewise, and then
 *               a thread starts, a library is loaded and a file is opened.
 *
 * Over the C library's allocator, every second free of `many` leaves a hole between two mappings, so that is not asserted. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static const size_t gib = (size_t)1 << 30;

/* Ends the test where so much address space, or a block of that size, is not to be had from the kernel itself. */
static void need_address_space(size_t total, size_t block) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *all = mmap(NULL, total, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, -1, 0);
    void *one = mmap(NULL, block, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (all == MAP_FAILED || one == MAP_FAILED) skip_test("this machine does not promise so much address space");
    munmap(all, total);
    munmap(one, block);
}

/* Where the kernel gives huge pages unasked, a byte costs 2 MiB. That is its choice and no allocator's. */
static void touch_only_what_is_touched(void) {
    if (huge_pages_are("always")) prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

static void touch(char *block) {
    *(volatile char *)block = 1;
}

static void need_not_all_memory(size_t done) {
    size_t resident = counted_resident_bytes();
    CHECK(resident < 4 * gib, "%zu blocks with one byte written: %zu MiB resident", done, resident >> 20);
}

/* ── Many ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { MANY = 80000, MANY_BYTES = 2200000, MANY_MAPPINGS = 5000 };

static void *start(void *argument) {
    void *block = t_malloc(100000);
    t_free(block);
    return block ? argument : NULL;
}

static void use_the_process(void) {
    pthread_t thread;
    void *result;
    int error = pthread_create(&thread, NULL, start, &result);
    CHECK(error == 0, "no thread can start: %s", strerror(error));
    pthread_join(thread, &result);
    CHECK(result, "a new thread gets no block");
    void *library = dlopen("libm.so.6", RTLD_NOW);
    CHECK(library && dlsym(library, "cos"), "libm cannot be loaded: %s", dlerror());
    dlclose(library);
    FILE *file = fopen("/proc/self/status", "r");
    char line[100];
    CHECK(file && fgets(line, sizeof line, file), "a file cannot be opened: %s", strerror(errno));
    fclose(file);
}

static void many(void) {
    static char *blocks[MANY];
    need_address_space((size_t)MANY * MANY_BYTES / 100 * 105, MANY_BYTES);
    touch_only_what_is_touched();
    size_t before = mapping_count(), count = 0;
    for (; count < MANY && (blocks[count] = t_malloc(MANY_BYTES)); count++) {
        touch(blocks[count]);
        if (count % 512 == 511) need_not_all_memory(count);
    }
    size_t full = mapping_count();
    printf("%zu mappings at first, %zu with %zu blocks of %d bytes, %zu MiB resident\n", before, full, count,
           MANY_BYTES, counted_resident_bytes() >> 20);
    CHECK(full < MANY_MAPPINGS, "%zu mappings; less than %d are allowed", full, MANY_MAPPINGS);
    CHECK(count == MANY, "NULL after %zu blocks", count);
    use_the_process();
    for (int i = 0; i < MANY; i += 2) t_free(blocks[i]);
    size_t holes = mapping_count();
    printf("%zu mappings when every second block is freed\n", holes);
    CHECK(!t_is_freehold() || holes < MANY_MAPPINGS, "%zu mappings; less than %d are allowed", holes, MANY_MAPPINGS);
    for (int i = 1; i < MANY; i += 2) {
        CHECK(*blocks[i] == 1, "block %d has lost its byte", i);
        t_free(blocks[i]);
    }
    use_the_process();
}

/* ── Giants ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void giants(void) {
    enum { GIANTS = 15 };
    char *blocks[GIANTS];
    need_address_space((GIANTS + 1) * 4 * gib, 4 * gib);
    touch_only_what_is_touched();
    for (int i = 0; i < GIANTS; i++) {
        blocks[i] = t_malloc(4 * gib);
        CHECK(blocks[i], "NULL after %d blocks of 4 GiB", i);
        touch(blocks[i] + (size_t)i * (gib / 4));
    }
    size_t full = mapping_count();
    printf("%zu mappings with 60 GiB, %zu KiB resident\n", full, counted_resident_bytes() >> 10);
    CHECK(full < 1000, "%zu mappings; less than 1,000 are allowed", full);
    for (int i = 0; i < GIANTS; i += 2) t_free(blocks[i]);
    for (int i = 1; i < GIANTS; i += 2) {
        CHECK(blocks[i][(size_t)i * (gib / 4)] == 1, "block %d has lost its byte", i);
        t_free(blocks[i]);
    }
}

/* ── Holes ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Each round frees the even blocks or the odd ones, and allocates them again. */
static void holes(void) {
    enum { BLOCKS = 20000, BYTES = 100000, FREES = 1000000 };
    static char *blocks[BLOCKS];
    size_t allowed = kernel_number("/proc/sys/vm/max_map_count", 65530) / 2, most = 0, frees = 0;
    need_address_space((size_t)BLOCKS * BYTES * 2, gib);
    touch_only_what_is_touched();
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = t_malloc(BYTES);
        CHECK(blocks[i], "NULL after %d blocks of %d bytes", i, BYTES);
        touch(blocks[i]);
    }
    for (int round = 0; frees < FREES; round++) {
        for (int i = round % 2; i < BLOCKS; i += 2, frees++) t_free(blocks[i]);
        size_t now = mapping_count();
        most = now > most ? now : most;
        for (int i = round % 2; i < BLOCKS; i += 2) {
            blocks[i] = t_malloc(BYTES);
            CHECK(blocks[i], "NULL in round %d", round);
            /* Some are written whole, so that there is something to purge. */
            i % 32 < 2 ? (void)memset(blocks[i], 1, BYTES) : touch(blocks[i]);
        }
    }
    printf("%zu frees: at most %zu mappings of %zu that are allowed here\n", frees, most, allowed);
    CHECK(most < allowed, "%zu mappings; less than %zu are allowed", most, allowed);
    for (int i = 0; i < BLOCKS; i++) t_free(blocks[i]);
}

/* ── Attacks ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

#define MIB ((size_t)1 << 20)

static char *get(size_t n) {
    char *block = t_malloc(n);
    CHECK(block, "no memory for %zu bytes", n);
    return block;
}

static void need_few_mappings(const char *when) {
    size_t now = mapping_count(), allowed = kernel_number("/proc/sys/vm/max_map_count", 65530) / 2;
    printf("%zu mappings %s; %zu are allowed here\n", now, when, allowed);
    CHECK(!t_is_freehold() || now < allowed, "%zu mappings %s; less than %zu are allowed", now, when, allowed);
}

/* Everything in the window that is free is filled in pieces of two slots, and each second piece is purged. */
static void moved(void) {
    enum { BLOCKS = 2700, PIECES = 32 * BLOCKS };
    static char *blocks[BLOCKS], *pieces[PIECES];
    need_address_space(BLOCKS * 8 * MIB + 4 * gib, gib);
    touch_only_what_is_touched();
    for (int i = 0; i < BLOCKS; i++) touch(blocks[i] = get(4 * MIB - 8192));
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = t_realloc(blocks[i], 4 * MIB + 8192); /* its neighbour is in the way */
        CHECK(blocks[i] && *blocks[i] == 1, "a block is lost on its way");
    }
    need_few_mappings("when 2,700 blocks have moved");
    for (int i = 0; i < BLOCKS; i++) t_free(blocks[i]);
    for (int i = 0; i < PIECES; i++) pieces[i] = get(131072);
    for (int i = 0; i < PIECES; i += 2) {
        touch(pieces[i]);
        t_free(pieces[i]);
    }
    t_malloc_trim(0);
    need_few_mappings("with a hole beside each piece of what they had");
    for (int i = 1; i < PIECES; i += 2) t_free(pieces[i]);
    t_malloc_trim(0);
    need_few_mappings("when all is free");
}

enum { TURNS = 17000 };

static void turns(void) {
    static char *blocks[3 * TURNS];
    need_address_space(TURNS * 9 * MIB, gib);
    touch_only_what_is_touched();
    for (int i = 0; i < 3 * TURNS; i++) blocks[i] = get(i % 3 == 2 ? 4 * MIB : 2 * MIB);
    need_few_mappings("when sizes have taken turns");
    use_the_process();
    for (int i = 0; i < 3 * TURNS; i++) t_free(blocks[i]);
}

static void dropped(void) {
    static char *blocks[2 * TURNS];
    need_address_space(TURNS * 13 * MIB, gib);
    touch_only_what_is_touched();
    for (int i = 0; i < 2 * TURNS; i++) blocks[i] = get(i % 2 ? 4 * MIB : 8 * MIB);
    for (int i = 0; i < 2 * TURNS; i += 2) t_free(blocks[i]);
    size_t before = mapping_count();
    struct rlimit data;
    getrlimit(RLIMIT_DATA, &data);
    CHECK(setrlimit(RLIMIT_DATA, &(struct rlimit){gib, data.rlim_max}) == 0, "setrlimit");
    CHECK(t_malloc(900 * MIB) == NULL, "900 MiB, and the kernel has promised more than its GiB before");
    setrlimit(RLIMIT_DATA, &data);
    need_few_mappings("when the kernel has refused");
    /* 512 holes between others are the most; what is between two of them is a mapping. */
    size_t holes = mapping_count() - before;
    CHECK(!t_is_freehold() || (holes > 400 && holes <= 600), "%zu mappings more: chunks were not dropped", holes);
    use_the_process();
    for (int i = 1; i < 2 * TURNS; i += 2) t_free(blocks[i]);
}

int main(int count, char **arguments) {
    const char *part = count > 1 ? arguments[1] : "many";
    struct rlimit space;
    setvbuf(stdout, NULL, _IONBF, 0);
    getrlimit(RLIMIT_AS, &space);
    if (space.rlim_cur != RLIM_INFINITY) skip_test("the address space of a process is limited");
    if (strcmp(part, "many") == 0) {
        many();
    } else if (strcmp(part, "giants") == 0) {
        giants();
    } else if (strcmp(part, "holes") == 0) {
        holes();
    } else if (strcmp(part, "moved") == 0) {
        moved();
    } else if (strcmp(part, "turns") == 0) {
        turns();
    } else {
        dropped();
    }
    CHECK(t_verify() == 0, "the heap is not whole");
    return 0;
}
