/* Option harden: where blocks are, how long they wait when they are freed, what a write beyond a block meets, and which misuse is
 * found at the call. Run with harden=1, or harden=zero for the part of that name: harden PART. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"
#include "cache/hardened.h"

#include <freehold/freehold.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

enum { SLOT = 64 * 1024, BEYOND = 64 * 1024, MANY = 2000 };

static unsigned next(unsigned *state) {
    return (*state = *state * 1103515245u + 12345u) / 65536;
}

/* ── Random places ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* Of so many blocks allocated in a row, those that are right behind the one before. */
static unsigned neighbours(size_t size, unsigned count) {
    static char *block[MANY];
    unsigned found = 0;
    for (unsigned i = 0; i < count; i++) {
        block[i] = t_malloc(size);
        CHECK(block[i], "no memory");
        if (i) found += block[i] > block[i - 1] && block[i] - block[i - 1] <= (ptrdiff_t)(size + 32);
    }
    for (unsigned i = 0; i < count; i++) t_free(block[i]);
    return found;
}

/* What a process sees of the places of its first blocks of a size: their offsets within a slab. */
static void first_places(int to) {
    unsigned offset[16];
    for (unsigned i = 0; i < 16; i++) offset[i] = (unsigned)((uintptr_t)t_malloc(200) % SLOT);
    if (write(to, offset, sizeof offset) != (ssize_t)sizeof offset) _exit(2);
}

/* Two processes that begin anew, so that each draws a key. */
static void differs_between_processes(void) {
    unsigned seen[2][16];
    for (unsigned i = 0; i < 2; i++) {
        int both[2];
        CHECK(pipe(both) == 0, "no pipe");
        pid_t pid = fork();
        if (pid == 0) {
            dup2(both[1], 1);
            execl("/proc/self/exe", "harden", "first_places", (char *)NULL);
            _exit(3);
        }
        int status = 0;
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the other process ended with %d", status);
        CHECK(read(both[0], seen[i], sizeof seen[i]) == (ssize_t)sizeof seen[i], "no places");
        close(both[0]);
        close(both[1]);
    }
    CHECK(memcmp(seen[0], seen[1], sizeof seen[0]) != 0, "two processes have the same places");
}

static void places(void) {
    for (size_t size = 16; size <= 2048; size *= 2) {
        unsigned found = neighbours(size, MANY);
        CHECK(found < MANY / 8, "of %d blocks of %zu bytes %u follow the one before", MANY, size, found);
    }
    differs_between_processes();
}

/* ── Delayed re-use ──────────────────────────────────────────────────────────────────────────────────────────────── */

static const struct {
    size_t from, to;
    unsigned delay;
} waits[] = {{1, 1024, FH_DELAY_FINE}, {1025, 65536, FH_DELAY_COARSE}, {65537, 1048576, FH_DELAY_LARGE}};

/* A block of that size is freed, and so many others after it: none of these is at its address. */
static void check_delay(size_t size, size_t from, size_t to, unsigned others) {
    static unsigned state = 1;
    void *p = t_malloc(size);
    uintptr_t was = (uintptr_t)p;
    t_free(p);
    for (unsigned i = 0; i < others; i++) {
        void *q = t_malloc(i % 2 ? size : from + next(&state) % (to - from + 1));
        CHECK((uintptr_t)q != was, "a block of %zu bytes is used again after %u others", size, i);
        t_free(q);
    }
}

/* And in the end it is. */
static void check_return(size_t size) {
    void *p = t_malloc(size);
    uintptr_t was = (uintptr_t)p;
    t_free(p);
    for (unsigned i = 0; i < 2000000; i++) {
        void *q = t_malloc(size);
        bool again = (uintptr_t)q == was;
        t_free(q);
        if (again) return;
    }
    check_failed(__FILE__, __LINE__, "a block of %zu bytes is never used again", size);
}

static void delays(void) {
    for (unsigned i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        size_t size = waits[i].from, step = (waits[i].to - waits[i].from) / 7;
        for (; size <= waits[i].to; size += step) check_delay(size, waits[i].from, waits[i].to, waits[i].delay - 1);
    }
    check_return(100);
    check_return(5000);
    /* What waits is memory that comes back where it is wanted. */
    void *p[FH_DELAY_LARGE];
    for (unsigned i = 0; i < FH_DELAY_LARGE; i++) p[i] = t_malloc(1000000);
    for (unsigned i = 0; i < FH_DELAY_LARGE; i++) t_free(p[i]);
    size_t before = t_mallinfo2().uordblks;
    t_malloc_trim(0);
    size_t after = t_mallinfo2().uordblks;
    CHECK(after + FH_DELAY_LARGE * (size_t)1000000 <= before, "%zu bytes in use became %zu", before, after);
}

/* ── Misuse that is found at the call ────────────────────────────────────────────────────────────────────────────── */

static char said[8000];

/* Runs it in a child, whose end is its status; what it writes to stderr is in `said`. */
static int in_child(void (*what)(size_t size, unsigned number), size_t size, unsigned number) {
    int both[2], status;
    CHECK(pipe(both) == 0, "no pipe");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(both[1], 2);
        what(size, number);
        _exit(0);
    }
    close(both[1]);
    size_t length = 0;
    for (ssize_t got; length < sizeof said - 1 && (got = read(both[0], said + length, sizeof said - 1 - length)) > 0;)
        length += (size_t)got;
    said[length] = 0;
    close(both[0]);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "no child");
    return status;
}

/* The same pointer, of which the compiler knows nothing. */
static void *again(void *p) {
    __asm__ volatile("" : "+r"(p));
    return p;
}

static void free_twice(size_t size, unsigned others) {
    static void *other[MANY];
    void *p = t_malloc(size), *same = again(p);
    for (unsigned i = 0; i < others; i++) other[i] = t_malloc(size);
    t_free(p);
    for (unsigned i = 0; i < others; i++) t_free(other[i]);
    t_free(same);
}

static void *free_it(void *p) {
    t_free(p);
    return NULL;
}

static void free_elsewhere(size_t size, unsigned number) {
    (void)number;
    pthread_t thread;
    void *p = t_malloc(size), *same = again(p);
    t_free(p);
    if (pthread_create(&thread, NULL, free_it, same) == 0) pthread_join(thread, NULL);
}

static void free_middle(size_t size, unsigned offset) {
    char *volatile p = t_malloc(size);
    t_free(p + offset);
}

static void resize_freed(size_t size, unsigned number) {
    (void)number;
    void *p = t_malloc(size), *same = again(p);
    t_free(p);
    t_free(t_realloc(same, 2 * size));
}

/* Behind the last block of a slab: where no block is. */
static void free_in_gap(size_t size, unsigned number) {
    (void)number;
    char *volatile p = t_malloc(size);
    t_free((char *)((uintptr_t)p / SLOT * SLOT + SLOT + 64));
}

static void expect(void (*what)(size_t, unsigned), const char *name, size_t size, unsigned number, const char *text) {
    int status = in_child(what, size, number);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(said, text),
          "%s of a block of %zu bytes, %u: status %x: %s", name, size, number, status, said);
}

static void misuse(void) {
    static const size_t sizes[] = {1, 16, 100, 1000, 3000, 5000, 20000, 60000, 66000, 1000000};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i];
        for (unsigned others = 0; others <= 1000; others = others * 3 + 1) {
            if (others * size < 30000000 && (others < FH_DELAY_LARGE || size <= 65536))
                expect(free_twice, "double free", size, others, "double free");
        }
        expect(free_elsewhere, "double free across threads", size, 0, "double free");
        expect(resize_freed, "realloc after free", size, 0, "double free");
        if (size > 16) expect(free_middle, "free of the middle", size, 16, "pointer into the middle");
    }
    expect(free_in_gap, "free in a gap", 100, 0, "double free");
}

/* ── Overflows ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static void on_fault(int signal) {
    (void)signal;
    _exit(40);
}

/* Writes beyond a block, byte by byte. Whoever comes to the end of that has met nothing but blocks: the heap's records are whole,
 * and it goes on working. */
static void overflow(size_t size, unsigned number) {
    static char *block[64];
    for (unsigned i = 0; i < 64; i++) block[i] = t_malloc(size);
    volatile char *p = block[number % 64];
    size_t usable = t_usable_size(block[number % 64]);
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    for (size_t i = 0; i < BEYOND; i++) p[usable + i] = 'A';
    signal(SIGSEGV, SIG_DFL);
    if (fh_verify() != 0) _exit(50);
    unsigned state = number;
    for (unsigned i = 0; i < 20000; i++) {
        unsigned at = next(&state) % 64;
        t_free(block[at]);
        block[at] = t_malloc(next(&state) % 2000);
    }
    if (fh_verify() != 0) _exit(51);
}

static void overflows(void) {
    unsigned guards = 0, blocks = 0;
    for (size_t size = 16; size <= 300000; size = size * 5 / 4 + 16) {
        for (unsigned number = 0; number < 4; number++) {
            int status = in_child(overflow, size, number * 19);
            bool guard = WIFEXITED(status) && WEXITSTATUS(status) == 40;
            CHECK(guard || status == 0, "a write beyond a block of %zu bytes: status %x: %s", size, status, said);
            /* A slab of up to 4 KiB is a slot long, and what is behind it is not another slab. */
            CHECK(guard || size > 4096, "a write of 64 KiB beyond a block of %zu bytes met no guard", size);
            guards += guard;
            blocks += !guard;
        }
    }
    printf("%u writes met a guard, and %u only blocks\n", guards, blocks);
}

/* ── Metadata ────────────────────────────────────────────────────────────────────────────────────────────────────── */

#ifdef T_EMBED
#include "store/window.h"
#include "system/inspect.h"
#include "system/system.h"

static bool is_piece(uintptr_t at, const fh_word *table, size_t n, size_t size, bool end) {
    for (size_t i = 0; i < n; i++) {
        uintptr_t begin = (uintptr_t)fh_load(&table[i]);
        if (begin && (end ? begin + size : begin) == at) return true;
    }
    return false;
}

/* Each piece has another one beside it, or a page that cannot be read. */
static void check_pieces(const fh_word *table, size_t n, size_t size) {
    uintptr_t page = fh_system_page_size();
    size = fh_round_up(size, page);
    unsigned pieces = 0;
    for (size_t i = 0; i < n; i++) {
        uintptr_t begin = (uintptr_t)fh_load(&table[i]), end = begin + size;
        if (!begin) continue;
        pieces++;
        CHECK(is_piece(begin, table, n, size, true) || !fh_system_readable(begin - page, begin), "no guard before it");
        CHECK(is_piece(end, table, n, size, false) || !fh_system_readable(end, end + page), "no guard behind it");
    }
    CHECK(pieces >= 2, "only %u pieces of metadata", pieces);
}

static void metadata(void) {
    for (unsigned i = 0; i < 3000; i++) CHECK(t_malloc(i), "no memory");
    check_pieces(fh_window.region, FH_WINDOW_REGIONS, sizeof(fh_region));
    check_pieces(fh_window.records, FH_WINDOW_RECORDS, sizeof(fh_records));
    /* And no block is in a region that has magazines or thread caches. */
    uint64_t state;
    unsigned own = 0, blocks = 0;
    for (size_t slot = 0; (slot = fh_next_slab(slot, &state)) != FH_NONE; slot++) {
        unsigned kind = fh_state_kind(state), partition = fh_partition_of_slot(slot);
        bool is_own = kind >= FH_CLASS_MAGAZINE && kind <= FH_CLASS_THREAD;
        CHECK(!is_own || partition == 0, "a slab of class %u is in partition %u", kind, partition);
        own += is_own;
        blocks += partition == FH_PARTITION_HARDENED;
    }
    CHECK(own >= 1 && blocks >= 10, "%u slabs of the allocator's own, and %u of the program's", own, blocks);
    /* The chunks at the ends of the regions cannot be touched. */
    for (size_t region = 0; region * FH_REGION_CHUNKS < fh_window_chunks(); region++) {
        if (fh_partition_of_slot(region * FH_REGION_SLOTS) == 0) continue;
        uintptr_t first = (uintptr_t)fh_slot_address(region * FH_REGION_SLOTS);
        uintptr_t end = first + FH_REGION_CHUNKS * FH_CHUNK_SIZE;
        CHECK(!fh_system_readable(first, first + 4096) && !fh_system_readable(end - 4096, end), "an open end");
    }
}
#endif

/* ── Zeroes ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void zeroes(void) {
    static const size_t sizes[] = {1, 50, 1000, 5000, 60000, 100000, 1000000};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = sizes[i];
        char *p = t_malloc(n);
        memset(p, 0x5A, n);
        volatile char *was = again(p);
        t_free(p);
        for (size_t at = 0; at < n; at++) CHECK(was[at] == 0, "byte %zu of %zu is %x after free", at, n, was[at]);
    }
}

/* Where the kernel cannot mark pages each gap is a mapping, and there is a bound on these. What a gap that stays open had in it is
 * not what a later calloc may have. */
static void open_gaps(void) {
    enum { CLOSED = 600, ROUNDS = 30, SLABS = 100, WANTED = 20, BIG = 6 << 20 };
    static char *closed[CLOSED], *block[SLABS], *zeroed[WANTED];
    unsigned state = 1;
    for (unsigned i = 0; i < CLOSED; i++) CHECK((closed[i] = t_malloc(70000)) != NULL, "no memory");
    for (unsigned round = 0; round < ROUNDS; round++) {
        char *big = t_malloc(BIG);
        memset(big, 0xAA, BIG);
        t_free(big);
        /* Slabs with gaps behind them, where it was. */
        for (unsigned i = 0; i < SLABS; i++) CHECK((block[i] = t_malloc(36864)) != NULL, "no memory");
        for (unsigned i = 0; i < SLABS; i++) t_free(block[i]);
        t_malloc_trim(0);
        for (unsigned i = 0; i < WANTED; i++) {
            size_t n = (2 + next(&state) % 10) * SLOT;
            CHECK((zeroed[i] = t_calloc(1, n)) != NULL, "no memory");
            CHECK(first_not_zero(zeroed[i], n) < 0, "byte %ld of a calloc of %zu is not zero",
                  first_not_zero(zeroed[i], n), n);
        }
        for (unsigned i = 0; i < WANTED; i++) t_free(zeroed[i]);
    }
    for (unsigned i = 0; i < CLOSED; i++) t_free(closed[i]);
}

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {
    {"places", places},       {"delays", delays}, {"misuse", misuse},
    {"overflows", overflows}, {"zeroes", zeroes}, {"open_gaps", open_gaps},
#ifdef T_EMBED
    {"metadata", metadata},
#endif
};

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "first_places") == 0) {
        first_places(1);
        return 0;
    }
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (count != 2 || strcmp(parts[i].name, arguments[1]) != 0) continue;
        parts[i].run();
        CHECK(fh_option_set("observe", "1") == -1 && errno == EINVAL, "observe is not refused");
        CHECK(fh_verify() == 0, "the heap is not whole");
        printf("%s: as it should be\n", parts[i].name);
        return 0;
    }
    return 2;
}
