/* A program may call mprotect, mlock and madvise on its own blocks, on any whole pages of them. What it does to a block may
 * not show in its neighbours, nor in the blocks that are allocated after it was freed.
 *
 *     protect        a part has no access for a while; others are allocated and freed meanwhile
 *     lock           a part is locked and unlocked
 *     still_locked   a part is locked when the block is freed; what calloc then gives must be zero
 *     free_advice    MADV_FREE on a part; each of its pages then has its content or zeros
 *     drop_advice    MADV_DONTNEED on a part, which then is zero
 *     dontfork       MADV_DONTFORK on a part. The block is freed before the fork, or in the child, or it is freed and its
 *                    memory is in use by other blocks at the fork. The child then reads what it inherited, and allocates
 *                    and writes blocks of many sizes.
 *
 * Over the C library's allocator all of it passes. Its blocks are mappings here, and a freed mapping takes its flags along. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"
#include "../support/processes.h"

#include <sys/mman.h>

static const size_t sizes[] = {200000, 700000, 1500000, 2500000, 5000000, 9000001};
enum { SIZES = sizeof sizes / sizeof *sizes, BLOCKS = 5, ACTED = 2, KINDS = 6, AGAIN = 3 * KINDS, REUSES = 6 };

/* Five neighbours. The third is what the program acts on. */
struct row {
    size_t size;
    char *blocks[BLOCKS];
    char *part; /* whole pages of the third, from its first quarter to its third */
    size_t length;
};

static void make_row(struct row *row, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    row->size = size;
    for (int i = 0; i < BLOCKS; i++) {
        row->blocks[i] = t_malloc(size);
        CHECK(row->blocks[i], "malloc(%zu): NULL", size);
        pattern_fill(row->blocks[i], size, (uint64_t)i);
    }
    uintptr_t begin = (uintptr_t)row->blocks[ACTED];
    uintptr_t first = (begin + size / 4 + page - 1) / page * page, end = (begin + size / 4 * 3) / page * page;
    row->part = (char *)first;
    row->length = end - first;
}

static void check_content(const struct row *row, int i) {
    long wrong = pattern_wrong(row->blocks[i], row->size, (uint64_t)i);
    CHECK(wrong < 0, "block %d of %zu bytes is wrong at byte %ld", i, row->size, wrong);
}

static void check_neighbours(const struct row *row) {
    for (int i = 0; i < BLOCKS; i++) {
        if (i != ACTED) check_content(row, i);
    }
}

/* The block before and behind the part. */
static void check_rest(const struct row *row) {
    const char *block = row->blocks[ACTED];
    size_t before = (size_t)(row->part - block), behind = before + row->length;
    for (size_t i = 0; i < row->size; i++) {
        uint64_t word = ACTED + i / 8 * PATTERN_STEP;
        if (i == before) i = behind;
        CHECK(block[i] == (char)(word >> 8 * (i % 8)), "a block of %zu bytes lost byte %zu, outside of the part",
              row->size, i);
    }
}

static void free_row(struct row *row) {
    for (int i = 0; i < BLOCKS; i++) {
        t_free(row->blocks[i]);
        row->blocks[i] = NULL;
    }
}

/* Blocks of the row's size and of others, of malloc and of calloc, written whole. */
static void use_again(size_t size) {
    const size_t others[KINDS] = {size, size - size / 8, size + size / 5, size / 2, size / 9, 3000};
    char *again[AGAIN];
    for (int i = 0; i < AGAIN; i++) {
        size_t bytes = others[i % KINDS];
        again[i] = i % (2 * KINDS) < KINDS ? t_malloc(bytes) : t_calloc(1, bytes);
        CHECK(again[i], "%zu bytes: NULL", bytes);
        long wrong = i % (2 * KINDS) < KINDS ? -1 : first_not_zero(again[i], bytes);
        CHECK(wrong < 0, "calloc of %zu bytes: byte %ld is not zero", bytes, wrong);
        pattern_fill(again[i], bytes, (uint64_t)i << 32);
    }
    for (int i = 0; i < AGAIN; i++) {
        long wrong = pattern_wrong(again[i], others[i % KINDS], (uint64_t)i << 32);
        CHECK(wrong < 0, "a block of %zu bytes is wrong at byte %ld", others[i % KINDS], wrong);
        t_free(again[i]);
    }
}

/* Frees the third block, then the row, and uses all of it again. */
static void end_row(struct row *row) {
    t_free(row->blocks[ACTED]);
    row->blocks[ACTED] = NULL;
    use_again(row->size);
    check_neighbours(row);
    free_row(row);
    use_again(row->size);
    t_malloc_trim(0);
    use_again(row->size);
}

/* ── The parts ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static void protect(struct row *row) {
    CHECK(mprotect(row->part, row->length, PROT_NONE) == 0, "mprotect: %s", strerror(errno));
    use_again(row->size);
    t_malloc_trim(0);
    use_again(row->size / 3);
    CHECK(mprotect(row->part, row->length, PROT_READ | PROT_WRITE) == 0, "mprotect back: %s", strerror(errno));
    check_content(row, ACTED);
}

static bool lock_part(struct row *row) {
    size_t most = (size_t)2 << 20;
    return mlock(row->part, row->length < most ? row->length : most) == 0;
}

static void lock(struct row *row) {
    if (!lock_part(row)) skip_test("this process may not lock memory");
    use_again(row->size);
    CHECK(munlock(row->part, row->length) == 0, "munlock: %s", strerror(errno));
    check_content(row, ACTED);
}

static void still_locked(struct row *row) {
    if (!lock_part(row)) skip_test("this process may not lock memory");
    check_content(row, ACTED);
    /* What the library returned to the OS, it may take for zero: not so here, as the kernel does not drop locked pages. */
    t_free(row->blocks[ACTED]);
    row->blocks[ACTED] = NULL;
    t_malloc_trim(0);
    use_again(row->size);
    /* The lock ends with the mapping under the C library's allocator; here it ends by this. */
    munlockall();
}

static void free_advice(struct row *row) {
    CHECK(madvise(row->part, row->length, MADV_FREE) == 0, "MADV_FREE: %s", strerror(errno));
    use_again(row->size);
    check_rest(row);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), from = (size_t)(row->part - row->blocks[ACTED]);
    for (size_t at = from; at < from + row->length; at += page) {
        uint64_t word, wanted = ACTED + at / 8 * PATTERN_STEP;
        memcpy(&word, row->blocks[ACTED] + at, 8);
        CHECK(at % 8 || word == wanted || word == 0, "the page at byte %zu is neither old nor zero", at);
    }
}

static void drop_advice(struct row *row) {
    CHECK(madvise(row->part, row->length, MADV_DONTNEED) == 0, "MADV_DONTNEED: %s", strerror(errno));
    use_again(row->size);
    check_rest(row);
    long wrong = first_not_zero(row->part, row->length);
    CHECK(wrong < 0, "a dropped part is not zero at byte %ld", wrong);
}

/* ── Fork ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum when { BEFORE, IN_CHILD, REUSED, WHENS };

struct scenario {
    size_t size;
    enum when when;
    struct row row;
    char *reused[REUSES];
};

static void use_in_child(void *argument) {
    struct scenario *s = argument;
    if (s->when == REUSED) {
        for (int i = 0; i < REUSES; i++) {
            long wrong = pattern_wrong(s->reused[i], s->size, (uint64_t)i);
            /* The program has never taken its advice back: what it excluded reads as zero in the child. */
            CHECK(wrong < 0 || s->reused[i][wrong] == 0, "an inherited block of %zu bytes is wrong at byte %ld",
                  s->size, wrong);
        }
    }
    end_row(&s->row);
}

/* In a process of its own, because what it does to its heap stays. */
static void fork_with_hole(void *argument) {
    struct scenario *s = argument;
    make_row(&s->row, s->size);
    CHECK(madvise(s->row.part, s->row.length, MADV_DONTFORK) == 0, "MADV_DONTFORK: %s", strerror(errno));
    if (s->when != IN_CHILD) {
        t_free(s->row.blocks[ACTED]);
        s->row.blocks[ACTED] = NULL;
    }
    for (int i = 0; i < REUSES && s->when == REUSED; i++) {
        s->reused[i] = t_malloc(s->size);
        CHECK(s->reused[i], "malloc(%zu): NULL", s->size);
        pattern_fill(s->reused[i], s->size, (uint64_t)i);
    }
    int status = run_in_child(use_in_child, s);
    /* And here all is as ever. */
    end_row(&s->row);
    if (WIFSIGNALED(status)) raise(WTERMSIG(status));
    _exit(WEXITSTATUS(status));
}

static void dontfork(void) {
    static const char *const names[] = {"before the fork", "in the child", "and used again before the fork"};
    int failed = 0;
    for (int i = 0; i < SIZES; i++) {
        for (int when = 0; when < WHENS; when++) {
            struct scenario s = {.size = sizes[i], .when = (enum when)when};
            int status = run_in_child(fork_with_hole, &s);
            printf("%8zu bytes, freed %s: the child %s%s\n", sizes[i], names[when],
                   WIFSIGNALED(status) ? "died of "
                   : status            ? "failed"
                                       : "lived",
                   WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "");
            failed += status != 0;
        }
    }
    CHECK(failed == 0, "%d of %d children failed", failed, WHENS * SIZES);
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*act)(struct row *);
    } parts[] = {{"protect", protect},
                 {"lock", lock},
                 {"still_locked", still_locked},
                 {"free_advice", free_advice},
                 {"drop_advice", drop_advice}};
    const char *part = count > 1 ? arguments[1] : "protect";
    setvbuf(stdout, NULL, _IONBF, 0);
    if (strcmp(part, "dontfork") == 0) {
        dontfork();
        return 0;
    }
    int rows = 0;
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        if (strcmp(part, parts[p].name) != 0) continue;
        for (int i = 0; i < SIZES; i++, rows++) {
            struct row row;
            make_row(&row, sizes[i]);
            parts[p].act(&row);
            check_neighbours(&row);
            end_row(&row);
        }
    }
    CHECK(rows == SIZES, "%s is no part of this test", part);
    CHECK(t_verify() == 0, "the heap is not whole");
    printf("%s: %d sizes\n", part, rows);
    return 0;
}
