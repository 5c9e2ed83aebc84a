/* Foreign mappings in the window, whose place is chosen and not reserved. Only the chunks that they are in are passed over,
 * also by a run of many chunks; they keep what is in them; and the child of a fork does not touch them either.
 *
 * The chunks around them are used, chunks that are dropped come back, and what the program excludes from a child by
 * MADV_DONTFORK is mapped there afresh while chunks are missing. */
#include "../support/alloc.h"
#include "../support/check.h"

#include "check/verify.h"
#include "store/run.h"
#include "store/window.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { PATTERN = 0x77 };

static char *chunk_at(size_t chunk) {
    return fh_slot_address(chunk * FH_CHUNK_SLOTS);
}

/* A mapping of the program's own, at a place in the window that has none. */
static char *map_foreign(size_t chunk, size_t offset, size_t size) {
    char *place = chunk_at(chunk) + offset;
    char *p = mmap(place, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p == place, "mapped at %p and not at %p", (void *)p, (void *)place);
    memset(p, PATTERN, size);
    return p;
}

static void check_foreign(const char *p, size_t size) {
    for (size_t i = 0; i < size; i++) CHECK(p[i] == PATTERN, "byte %zu of a foreign mapping is %d", i, p[i]);
}

static bool is_in(const char *p, size_t size, size_t chunk) {
    return p < chunk_at(chunk + 1) && p + size > chunk_at(chunk);
}

/* Chunks below the end of the heap that have no memory. */
static size_t missing(void) {
    size_t count = 0;
    for (size_t chunk = 0; chunk < fh_window_chunks(); chunk++) count += fh_window_misses(chunk);
    return count;
}

static void check_heap(void) {
    CHECK(fh_verify() == 0, "the heap is broken");
}

/* A page in the middle of what a run of ten chunks would get. */
static void one_page(void) {
    size_t first = fh_window_chunks(), size = 10 * FH_CHUNK_SIZE;
    char *foreign = map_foreign(first + 4, 12345 * 4096 % FH_CHUNK_SIZE, 4096);
    char *run = t_malloc(size);
    CHECK(run, "no run");
    memset(run, 1, size);
    CHECK(!is_in(run, size, first + 4), "over a foreign mapping");
    check_foreign(foreign, 4096);
    CHECK(missing() <= 10, "%zu chunks are missing", missing());
    /* Those that it is not in are used before the heap grows. */
    size_t before = fh_window_chunks();
    char *block[4];
    for (unsigned i = 0; i < 4; i++) {
        block[i] = t_malloc(FH_CHUNK_SIZE);
        CHECK(block[i], "no block");
        memset(block[i], 1, FH_CHUNK_SIZE);
    }
    CHECK(fh_window_chunks() == before, "%zu chunks more", fh_window_chunks() - before);
    CHECK(missing() == 1, "%zu chunks are missing", missing());
    check_heap();
    for (unsigned i = 0; i < 4; i++) t_free(block[i]);
    t_free(run);
    check_foreign(foreign, 4096);
    check_heap();
}

/* Many chunks on end, which small blocks and runs come to. */
static void many_chunks(void) {
    size_t first = fh_window_chunks(), chunks = 64, lost = missing();
    for (size_t i = 0; i < chunks; i++) (void)map_foreign(first + 3 + i, 0, 4096);
    char *run = t_malloc(20 * FH_CHUNK_SIZE);
    CHECK(run && run >= chunk_at(first + 3 + chunks), "%p", (void *)run);
    run[0] = run[20 * FH_CHUNK_SIZE - 1] = 1;
    for (size_t i = 0; i < chunks; i++) check_foreign(chunk_at(first + 3 + i), 4096);
    CHECK(missing() >= lost + chunks && missing() <= lost + chunks + 40, "%zu chunks are missing", missing());
    check_heap();
    t_free(run);
}

/* A chunk that was dropped, and is another mapping's when it is tried again. */
static void dropped_chunk(void) {
    (void)t_malloc_trim(0);
    char *run = t_malloc(6 * FH_CHUNK_SIZE), *behind = t_malloc(2 * FH_CHUNK_SIZE);
    CHECK(run && behind, "no memory");
    size_t chunk = fh_slot_of(run) / FH_CHUNK_SLOTS + 2;
    t_free(run);
    CHECK(fh_run_drop_free_chunks() >= 4 * FH_CHUNK_SIZE, "nothing was dropped");
    CHECK(fh_window_misses(chunk), "it was not dropped");
    char *foreign = map_foreign(chunk, 4096, 8192);
    char *block[12];
    for (unsigned i = 0; i < 12; i++) {
        block[i] = t_malloc(FH_CHUNK_SIZE - FH_SLOT_SIZE);
        CHECK(block[i] && !is_in(block[i], FH_CHUNK_SIZE - FH_SLOT_SIZE, chunk), "no block, or a foreign one");
        memset(block[i], 1, FH_CHUNK_SIZE - FH_SLOT_SIZE);
    }
    check_foreign(foreign, 8192);
    for (unsigned i = 0; i < 12; i++) t_free(block[i]);
    t_free(behind);
    check_foreign(foreign, 8192);
    check_heap();
}

/* The child has its heap whole, and the foreign mappings are as they were. */
static void forked(void) {
    char *excluded = t_malloc(3 * FH_CHUNK_SIZE), *kept = t_malloc(100);
    CHECK(excluded && kept, "no memory");
    memset(excluded, 5, 3 * FH_CHUNK_SIZE);
    uintptr_t page = ((uintptr_t)excluded + 4095) & ~(uintptr_t)4095;
    CHECK(madvise((void *)page, FH_CHUNK_SIZE, MADV_DONTFORK) == 0, "no MADV_DONTFORK");
    size_t lost = missing();
    CHECK(lost > 0, "no chunk is missing");
    pid_t child = fork();
    CHECK(child >= 0, "no fork");
    if (child == 0) {
        t_free(excluded);
        CHECK(missing() == lost, "%zu chunks are missing in the child, %zu in the parent", missing(), lost);
        char *again = t_malloc(3 * FH_CHUNK_SIZE);
        CHECK(again, "no memory in the child");
        memset(again, 6, 3 * FH_CHUNK_SIZE);
        t_free(again);
        check_heap();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ends with %d", status);
    t_free(excluded);
    t_free(kept);
}

int main(void) {
    t_free(t_malloc(100));
    one_page();
    many_chunks();
    dropped_chunk();
    forked();
    return 0;
}
