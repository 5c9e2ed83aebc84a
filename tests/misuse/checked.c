/* One small function for each misuse that option check finds: checked CASE does it, in a process of its own. What must have
 * been said is in checked_expected.txt; checked.py compares. Three functions have names that stacks are looked for by. */
#include "../support/alloc.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern int fh_check(const void *p) __attribute__((weak));
extern size_t fh_heap_check(void) __attribute__((weak));
extern void *fh_malloc_at_least(size_t size, size_t *got) __attribute__((weak));

static char *volatile block; /* volatile: the compiler may not reason about what we do to it */
static volatile size_t at;

__attribute__((noinline)) void allocates(size_t n) {
    block = t_malloc(n);
    at = n;
}
__attribute__((noinline)) void frees(void) {
    t_free(block);
    at = 0;
}
__attribute__((noinline)) void frees_again(void) {
    t_free(block);
    at = 1;
}

/* ── Freed twice ── */

static void double_at_once(void) {
    allocates(40);
    frees();
    frees_again();
}
static void double_after_others(void) {
    allocates(40);
    frees();
    for (int i = 0; i < 1000; i++) t_free(t_malloc(40));
    frees_again();
}
static void double_large(void) {
    allocates(300000);
    frees();
    frees_again();
}
static void double_huge(void) {
    allocates((size_t)5 << 20);
    frees();
    frees_again();
}
static void double_aligned(void) {
    block = t_aligned_alloc(4096, 100);
    frees();
    frees_again();
}
static void *free_in_thread(void *unused) {
    t_free(block);
    return unused;
}
static void in_thread(void *(*run)(void *)) {
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
}
static void double_across_threads(void) {
    allocates(40);
    in_thread(free_in_thread);
    in_thread(free_in_thread);
}
static void double_realloc(void) {
    allocates(40);
    char *old = block;
    block = t_realloc(old, 4000);
    block = old;
    frees_again();
}
static void realloc_of_freed(void) {
    allocates(40);
    frees();
    block = t_realloc(block, 80);
}
static void usable_of_freed(void) {
    allocates(40);
    frees();
    at = t_usable_size(block);
}

/* ── Written where the block is not ── */

static void overflow_by_1(void) {
    allocates(40);
    block[at] = 'x';
    frees();
}
static void overflow_of_nothing(void) {
    allocates(0);
    block[at] = 'x';
    frees();
}
static void overflow_linear(void) {
    allocates(100);
    memset(block, 'y', at + 4);
    frees();
}
static void overflow_large(void) {
    allocates(200001);
    block[at] = 'x';
    frees();
}
static void overflow_aligned(void) {
    block = t_aligned_alloc(256, 1000);
    at = 1000;
    block[at] = 'x';
    frees();
}
static void overflow_calloc(void) {
    block = t_calloc(3, 33);
    at = 99;
    block[at] = 'x';
    frees();
}
static void overflow_realloc(void) {
    block = t_realloc(t_malloc(10), 77);
    at = 77;
    block[at] = 'x';
    block = t_realloc(block, 5);
}
static void overflow_at_exit(void) {
    allocates(40);
    block[at] = 'x';
}
static void underflow_by_1(void) {
    allocates(40);
    block[-(ptrdiff_t)(at / 40)] ^= 1;
    frees();
}
static void underflow_at_exit(void) {
    allocates(40);
    block[-(ptrdiff_t)(at / 40)] ^= 1;
}
/* A write that skips the eight bytes before the block, and meets what is known of it. */
static void writes_before(size_t distance) {
    allocates(40);
    memset(block - distance, 'w', 4 + at - 40);
}
static void underflow_far(void) {
    writes_before(12);
    frees();
}
static void underflow_of_the_stack(void) {
    writes_before(16);
    frees();
}
static void underflow_of_the_size(void) {
    writes_before(20);
    frees();
}
static void underflow_of_the_size_realloc(void) {
    writes_before(24);
    block = t_realloc(block, 100);
}
static void underflow_of_the_state(void) {
    writes_before(32);
    frees();
}
static void underflow_far_at_exit(void) {
    writes_before(20);
}
static void underflow_aligned(void) {
    block = t_aligned_alloc(256, 300);
    at = 300;
    block[-(ptrdiff_t)(at / 300)] ^= 1;
    frees();
}
static void underflow_aligned_at_exit(void) {
    block = t_aligned_alloc(256, 300);
    at = 300;
    block[-(ptrdiff_t)(at / 300)] ^= 1;
}
static void underflow_usable(void) {
    allocates(40);
    block[-(ptrdiff_t)(at / 40)] ^= 1;
    at = t_usable_size(block);
    block[-1] ^= 1;
}
static void underflow_when_freed(void) {
    allocates(40);
    frees();
    memset(block - 20, 'w', 4);
}
static void write_after_free(void) {
    allocates(40);
    frees();
    block[3] = 'z';
    for (int i = 0; i < 100; i++) t_free(t_malloc(100000));
}
static void write_after_free_at_exit(void) {
    allocates(40);
    frees();
    block[3] = 'z';
}
static void write_after_free_large(void) {
    allocates(100000);
    frees();
    block[99999] = 'z';
}

/* ── The wrong function, size, alignment ── */

static void size_small(void) {
    allocates(100);
    t_free_sized(block, 99);
}
static void size_at_least(void) {
    size_t got = 0;
    block = fh_malloc_at_least(100, &got);
    t_free_sized(block, 96);
}
static void size_aligned(void) {
    block = t_aligned_alloc(64, 128);
    t_free_aligned_sized(block, 64, 127);
}
static void alignment_other(void) {
    block = t_aligned_alloc(64, 128);
    t_free_aligned_sized(block, 128, 128);
}
static void alignment_none(void) {
    block = t_aligned_alloc(64, 128);
    t_free_sized(block, 128);
}

/* ── Other people's pointers ── */

static void foreign_stack(void) {
    char local[64] __attribute__((aligned(16)));
    block = local;
    frees();
}
static char object[64] __attribute__((aligned(16)));
static char filled[64] __attribute__((aligned(16))) = "x";
static const char constant[64] __attribute__((aligned(16))) = "constant";
static void foreign_static(void) {
    block = object;
    frees();
}
static void foreign_data(void) {
    block = filled;
    frees();
}
static void foreign_constant(void) {
    block = (char *)(uintptr_t)constant;
    frees();
}
static void foreign_code(void) {
    block = (char *)((uintptr_t)&foreign_constant & ~(uintptr_t)15);
    frees();
}
static void foreign_mapping(void) {
    block = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    frees();
}
static void foreign_file(void) {
    FILE *f = fopen("/etc/passwd", "r");
    block = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fileno(f), 0);
    frees();
}
static void foreign_nothing(void) {
    block = (char *)(uintptr_t)opaque(4096);
    frees();
}
static void foreign_brk(void) {
    char *end = sbrk(65536);
    block = (char *)(((uintptr_t)end + 1039) & ~(uintptr_t)15);
    frees();
}
static void *foreign_other_thread_free(void *unused) {
    frees();
    return unused;
}
static void foreign_first_stack(void) {
    char local[64] __attribute__((aligned(16)));
    block = local;
    in_thread(foreign_other_thread_free);
}
static void middle(void) {
    allocates(100);
    block += 16;
    frees();
}
static void middle_freed(void) {
    allocates(100);
    frees();
    block += 16;
    frees_again();
}
static void middle_odd(void) {
    allocates(100);
    block += 3;
    frees();
}
static void middle_large(void) {
    allocates(300000);
    block += 65536;
    frees();
}
/* Where the memory of a block begins, which is before what the program has of it. */
static void middle_header(void) {
    allocates(100);
    block -= 32;
    frees();
}
static void middle_marker(void) {
    block = t_aligned_alloc(64, 100);
    block -= 64;
    frees();
}
static void middle_header_realloc(void) {
    allocates(100);
    block = t_realloc(block - 32, 200);
}
static void middle_realloc(void) {
    allocates(100);
    block = t_realloc(block + 16, 200);
}

/* ── fh_check, fh_heap_check ── */

static void check_good(void) {
    allocates(100);
    if (fh_check(block) != 0 || fh_check(NULL) != 0 || fh_heap_check() != 0) puts("a good block is damaged");
    frees();
}
static void check_damaged(void) {
    allocates(100);
    block[at] = 'x';
    if (fh_check(block) != 1) puts("nothing found");
    block[at] = (char)0xEE;
    if (fh_check(block) != 0) puts("still damaged");
    frees();
}
static void check_freed(void) {
    allocates(100);
    frees();
    if (fh_check(block) != 1) puts("nothing found");
}
static void check_foreign(void) {
    if (fh_check(object) != 1) puts("nothing found");
}
static void check_heap(void) {
    static char *many[300];
    for (int i = 0; i < 300; i++)
        many[i] = i % 3 ? t_malloc((size_t)i * 700) : t_aligned_alloc(128, (size_t)i * 10 + 1);
    many[150][1501] = 'x';
    many[299][299 * 700] = 'x';
    size_t found = fh_heap_check();
    if (found != 2) printf("%zu found\n", found);
    many[150][1501] = many[299][299 * 700] = (char)0xEE;
    for (int i = 0; i < 300; i++) t_free(many[i]);
    block = NULL;
}

/* ── The option, and when the heap is looked at ── */

static void set_later(void) {
    char *before = t_malloc(100);
    if (fh_option_set && fh_option_set("check", "1") != 0) puts("wrong: the option is refused");
    before = t_realloc(before, 200);
    t_free(before);
    overflow_by_1();
}
static void *set_in_thread(void *unused) {
    printf("set: %d\n", fh_option_set ? fh_option_set("check", "1") : 0);
    return unused;
}
static void set_with_threads(void) {
    in_thread(set_in_thread);
    in_thread(free_in_thread);
}
/* Only check=2 looks at a live block before the end, and this program has none. */
static void overflow_then_calls(void) {
    allocates(40);
    block[at] = 'x';
    for (int i = 0; i < 5000; i++) t_free(t_malloc(100));
    puts("went on");
    fflush(stdout);
    _exit(0);
}

/* ── No misuse at all: nothing may be said ── */

static void must(bool good, const char *what) {
    if (!good) printf("wrong: %s\n", what);
}

static void filled_and_zeroed(void) {
    for (size_t n = 1; n < 3000000; n = n * 3 + 1) {
        unsigned char *p = t_malloc(n);
        must(p[0] == 0xAF && p[n - 1] == 0xAF, "a fresh block is filled");
        must(t_usable_size(p) == n, "the usable size is what was asked for");
        memset(p, 1, n);
        t_free(p);
        if (n < 1000000) must(p[0] == 0xDF && p[n - 1] == 0xDF, "a freed block is filled");
        unsigned char *q = t_calloc(1, n);
        for (size_t i = 0; i < n; i++) {
            if (q[i]) must(false, "calloc gives zeros");
        }
        t_free(q);
    }
}
static void sizes(void) {
    for (size_t align = 8; align <= (size_t)4 << 20; align *= 2) {
        for (size_t n = 0; n < 200000; n = n * 2 + 7) {
            void *p = NULL;
            must(t_posix_memalign(&p, align, n) == 0 && (uintptr_t)p % align == 0, "aligned");
            memset(p, 2, n);
            must(t_usable_size(p) == n || n == 0, "the usable size of an aligned block");
            p = t_realloc(p, n + 1);
            must(n == 0 || *(char *)p == 2, "realloc keeps the contents");
            t_free(p);
        }
    }
    for (size_t n = 0; n < 3000000; n = n * 9 / 8 + 1) { /* either size is right */
        size_t got = 0;
        t_free_sized(fh_malloc_at_least(n, &got), n);
        t_free_sized(fh_malloc_at_least(n, &got), got);
    }
    t_free_sized(t_malloc(100), 100);
    t_free_aligned_sized(t_aligned_alloc(256, 1000), 256, 1000);
    t_free(NULL);
    must(t_realloc(t_malloc(5), 0) == NULL, "realloc to 0");
    errno = 0;
    must(t_malloc(opaque(PTRDIFF_MAX)) == NULL && errno == ENOMEM, "too much");
    must(t_calloc(opaque(SIZE_MAX / 2), 3) == NULL, "an overflow");
    t_free(t_memalign(64, 10));
    t_free(t_valloc(10));
}
static void *allocate_in_thread(void *unused) {
    for (int i = 0; i < 1000; i++) t_free(t_malloc((size_t)i));
    block = t_malloc(50);
    return unused;
}
static void handler(int number) {
    (void)number;
    t_free(t_malloc(33));
}
/* Refused or not: a block that there is goes back without a word. */
static void alignments(void) {
    must(fh_option_set("on_oom", "silent") == 0, "silent");
    for (size_t align = (size_t)1 << 30; align <= (size_t)1 << 44; align *= 2) {
        void *p = t_memalign(align, 100);
        must((uintptr_t)p % align == 0, "aligned");
        t_free(p);
    }
}
static void life(void) {
    in_thread(allocate_in_thread);
    frees();
    allocates(100);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        frees();
        t_free(t_malloc(10));
        exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    must(status == 0, "the child of a fork");
    frees();
    signal(SIGUSR1, handler);
    for (int i = 0; i < 100; i++) raise(SIGUSR1);
}

#define CASE(name)                                                                                                     \
    { #name, name }
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    CASE(double_at_once),
    CASE(double_after_others),
    CASE(double_large),
    CASE(double_huge),
    CASE(double_aligned),
    CASE(double_across_threads),
    CASE(double_realloc),
    CASE(realloc_of_freed),
    CASE(usable_of_freed),
    CASE(overflow_by_1),
    CASE(overflow_of_nothing),
    CASE(overflow_linear),
    CASE(overflow_large),
    CASE(overflow_aligned),
    CASE(overflow_calloc),
    CASE(overflow_realloc),
    CASE(overflow_at_exit),
    CASE(underflow_by_1),
    CASE(underflow_at_exit),
    CASE(underflow_far),
    CASE(underflow_of_the_stack),
    CASE(underflow_of_the_size),
    CASE(underflow_of_the_size_realloc),
    CASE(underflow_of_the_state),
    CASE(underflow_far_at_exit),
    CASE(underflow_aligned),
    CASE(underflow_aligned_at_exit),
    CASE(underflow_usable),
    CASE(underflow_when_freed),
    CASE(write_after_free),
    CASE(write_after_free_at_exit),
    CASE(write_after_free_large),
    CASE(size_small),
    CASE(size_at_least),
    CASE(size_aligned),
    CASE(alignment_other),
    CASE(alignment_none),
    CASE(foreign_stack),
    CASE(foreign_static),
    CASE(foreign_data),
    CASE(foreign_constant),
    CASE(foreign_code),
    CASE(foreign_mapping),
    CASE(foreign_file),
    CASE(foreign_nothing),
    CASE(foreign_brk),
    CASE(foreign_first_stack),
    CASE(middle),
    CASE(middle_freed),
    CASE(middle_odd),
    CASE(middle_large),
    CASE(middle_header),
    CASE(middle_marker),
    CASE(middle_header_realloc),
    CASE(middle_realloc),
    CASE(check_good),
    CASE(check_damaged),
    CASE(check_freed),
    CASE(check_foreign),
    CASE(check_heap),
    CASE(set_later),
    CASE(set_with_threads),
    CASE(overflow_then_calls),
    CASE(filled_and_zeroed),
    CASE(sizes),
    CASE(alignments),
    CASE(life),
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
    fprintf(stderr, "usage: checked CASE\n");
    return 2;
}
