/* One small function for each misuse: misuse CASE does it, in a process of its own, and prints "went on" if it is still
 * alive afterwards.  What must have been said by then is in expected.txt; run.py compares.
 *
 * Some misuses of small blocks are only found when the thread's cache is flushed, so these flush. */
#include "../support/alloc.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

static char *volatile block; /* volatile: the compiler may not reason about what we do to it */

static void flush(void) {
    t_thread_flush();
}

/* ── Pointers that never were ours ── */

static void foreign_stack(void) {
    char local[64] __attribute__((aligned(16)));
    block = local;
    t_free(block);
}
static char object[64] __attribute__((aligned(16)));
static void foreign_static(void) {
    block = object;
    t_free(block);
}
static void foreign_mapping(void) {
    block = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    t_free(block);
}
static void foreign_tiny_number(void) {
    block = (char *)(uintptr_t)opaque(16);
    t_free(block);
}
static void foreign_not_canonical(void) {
    block = (char *)(uintptr_t)opaque((size_t)0xdead000000000010);
    t_free(block);
}
static void foreign_realloc(void) {
    block = object;
    block = t_realloc(block, 100);
    if (block) {
        puts("realloc of a foreign pointer gave a block");
    }
}
static void foreign_usable_size(void) {
    block = object;
    printf("usable size %zu\n", t_usable_size(block));
}
static void foreign_free_sized(void) {
    block = object;
    t_free_sized(block, 64);
}
/* Just above a mapping of ours.  Whether a block ever began there, nobody may know any more. */
static void foreign_near_miss(void) {
    block = t_malloc((size_t)8 << 20);
    t_free(block + ((size_t)24 << 20));
}
/* Into a block of the system's own allocator, which glibc still has under this name. The block itself would be no misuse. */
extern void *__libc_malloc(size_t size) __attribute__((weak));
static void foreign_libc_middle(void) {
    block = __libc_malloc ? memset(__libc_malloc(100), 1, 100) : object;
    t_free(block + 16);
}

/* ── Pointers into a block ── */

static void middle_small(void) {
    block = t_malloc(100);
    t_free(block + 16);
    flush();
}
static void middle_unaligned(void) {
    block = t_malloc(100);
    t_free(block + 3);
    flush();
}
static void middle_medium(void) {
    block = t_malloc(20000);
    t_free(block + 4096);
    flush();
}
static void middle_run(void) {
    block = t_malloc(300000);
    t_free(block + 65536);
    flush();
}
static void middle_large(void) {
    block = t_malloc(1500000);
    t_free(block + 100);
    flush();
}
static void middle_huge(void) {
    block = t_malloc((size_t)8 << 20);
    t_free(block + 8192);
}
static void middle_far(void) { /* two chunks behind the beginning */
    block = t_malloc((size_t)9 << 20);
    t_free(block + ((size_t)9 << 20) - 65536);
}
static void middle_realloc(void) {
    block = t_malloc(100);
    block = t_realloc(block + 16, 200);
}

/* ── Blocks freed twice ── */

static void double_small(void) {
    block = t_malloc(40);
    t_free(block);
    t_free(block);
    flush();
}
/* Nothing is flushed from here on: found at the call, and the next two blocks would be one. */
static void double_at_call(void) {
    block = t_malloc(64);
    t_free(block);
    t_free(block);
    char *volatile one = t_malloc(64), *volatile other = t_malloc(64);
    if (one == other) puts("one block was handed out twice");
}
static char *others[200];
static void free_with_others(size_t size, int count) {
    block = t_malloc(size);
    for (int i = 0; i < count; i++) others[i] = t_malloc(size);
    t_free(block);
    for (int i = 0; i < count; i++) t_free(others[i]);
    t_free(block);
}
static void double_between(void) {
    free_with_others(64, 5);
}
static void double_between_many(void) { /* by now the thread has the table */
    free_with_others(160, 200);
}
static void double_cached_large(void) {
    free_with_others(100000, 1);
}
static void double_realloc(void) {
    block = t_malloc(64);
    t_free(block);
    block = t_realloc(block, 60); /* which would stay where it is */
    if (block) puts("realloc of a free block gave a block");
}
static void double_realloc_moves(void) {
    block = t_malloc(160);
    for (int i = 0; i < 100; i++) t_free(t_malloc(160));
    t_free(block);
    block = t_realloc(block, 6000);
    if (block) puts("realloc of a free block gave a block");
}
static void double_later(void) {
    block = t_malloc(40);
    t_free(block);
    flush();
    t_free(block);
    flush();
}
static void double_medium(void) {
    block = t_malloc(30000);
    char *keep = t_malloc(30000);
    t_free(block);
    flush();
    t_free(block);
    flush();
    t_free(keep);
}
static void double_run(void) {
    block = t_malloc(200000);
    t_free(block);
    flush();
    t_free(block);
    flush();
}
static void double_large(void) {
    block = t_malloc(1500000);
    t_free(block);
    t_free(block);
}
static void double_huge(void) {
    block = t_malloc((size_t)9 << 20);
    t_free(block);
    t_free(block);
}
static void double_grown(void) { /* its old place */
    char *old = t_malloc((size_t)5 << 20), *behind = t_malloc(100000);
    block = t_realloc(old, (size_t)12 << 20);
    t_free(old);
    t_free(behind);
}
static void *free_and_end(void *argument) {
    t_free(argument);
    return NULL; /* the thread's cache waits for the next thread, with the block in it */
}
static void double_across_threads(void) {
    pthread_t thread;
    block = t_malloc(80);
    char *keep = t_malloc(80);
    for (int i = 0; i < 2; i++) {
        pthread_create(&thread, NULL, free_and_end, block);
        pthread_join(thread, NULL);
    }
    t_free(keep);
    flush();
}
static void double_delete_sized(void) {
    block = t_malloc(64);
    t_free_sized(block, 64);
    t_free_sized(block, 64);
    flush();
}

/* ── Wrong sizes, only looked at in checked builds ── */

static void wrong_size_small(void) {
    block = t_malloc(100);
    t_free_sized(block, 24);
}
static void wrong_size_large(void) {
    block = t_malloc(3000);
    t_free_sized(block, 300000);
}

/* ── No misuse at all: nothing may be said ── */

static void innocent(void) {
    block = t_malloc(100);
    block = t_realloc(block, 5000);
    t_free_sized(block, 5000);
    t_free_aligned_sized(t_aligned_alloc(256, 1000), 256, 1000);
    t_free(NULL);
    block = t_malloc((size_t)8 << 20);
    t_free(block);
    flush();
}
static void unknown_option_call(void) {
    if (fh_option_set && fh_option_set("foo", "1") != -1) {
        puts("an unknown option was taken");
    }
    if (fh_option_set && fh_option_set("verbose", "maybe") != -1) {
        puts("a bad value was taken");
    }
}

#define CASE(name)                                                                                                     \
    { #name, name }
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    CASE(foreign_stack),
    CASE(foreign_static),
    CASE(foreign_mapping),
    CASE(foreign_tiny_number),
    CASE(foreign_realloc),
    CASE(foreign_usable_size),
    CASE(foreign_free_sized),
    CASE(foreign_near_miss),
    CASE(foreign_libc_middle),
    CASE(middle_small),
    CASE(middle_unaligned),
    CASE(middle_medium),
    CASE(middle_run),
    CASE(middle_large),
    CASE(middle_huge),
    CASE(middle_far),
    CASE(middle_realloc),
    CASE(double_small),
    CASE(double_at_call),
    CASE(double_between),
    CASE(double_between_many),
    CASE(double_cached_large),
    CASE(double_realloc),
    CASE(double_realloc_moves),
    CASE(double_later),
    CASE(double_medium),
    CASE(double_run),
    CASE(double_large),
    CASE(double_huge),
    CASE(double_grown),
    CASE(double_across_threads),
    CASE(double_delete_sized),
    CASE(wrong_size_small),
    CASE(wrong_size_large),
    CASE(innocent),
    CASE(unknown_option_call),
    CASE(foreign_not_canonical),
};

int main(int count, char **arguments) {
    for (size_t i = 0; count > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(arguments[1], cases[i].name) == 0) {
            cases[i].run();
            /* The heap must be of use afterwards, when the process was allowed to go on. */
            for (size_t size = 0; size < 100000; size = size * 2 + 40) {
                char *after = t_malloc(size);
                memset(after, 1, size);
                t_free(after);
            }
            puts("went on");
            return 0;
        }
    }
    fprintf(stderr, "usage: misuse CASE\n");
    return 2;
}
