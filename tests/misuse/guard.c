/* One small function for each misuse that option guard finds: guard CASE does it, in a process of its own, with every allocation
 * guarded. What must have been said is in guard_expected.txt; guard.py compares. Functions that stacks are looked for by have
 * names. */
#include "../support/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern size_t fh_verify(void) __attribute__((weak));
extern size_t fh_stats_json(char *buffer, size_t size) __attribute__((weak));
extern int fh_option_set(const char *key, const char *value) __attribute__((weak));
extern int fh_limit_set(size_t soft, size_t hard, void (*callback)(size_t, size_t)) __attribute__((weak));

enum { PAGE_SIZE = 4096 };

static char *volatile block; /* volatile: the compiler may not reason about what we do to it */
static volatile char byte;
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
__attribute__((noinline)) void reads(ptrdiff_t i) {
    byte = block[i];
    at = 2;
}
__attribute__((noinline)) void writes(ptrdiff_t i) {
    block[i] = 0x5A;
    at = 3;
}

/* Every other block is at the end of its pages. Where not all are guarded, a guarded one is known by its size: of all others it
 * is a multiple of 16. */
static bool is_guarded(size_t n) {
    return n % 16 == 0 || t_usable_size(block) == n;
}
static void at_left(size_t n) {
    do allocates(n);
    while ((uintptr_t)block % PAGE_SIZE != 0 || !is_guarded(n));
}
static void at_right(size_t n) {
    do allocates(n);
    while ((uintptr_t)block % PAGE_SIZE == 0 || !is_guarded(n));
}

/* ── A guard is touched ── */

static void read_after_free(void) {
    at_left(100);
    frees();
    reads(3);
}
static void write_after_free(void) {
    at_right(100);
    frees();
    writes(99);
}
static void *free_in_thread(void *unused) {
    frees();
    return unused;
}
static void other_thread(void *(*body)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL) == 0) pthread_join(thread, NULL);
}
static void read_after_free_by_another(void) {
    at_left(100);
    other_thread(free_in_thread);
    reads(0);
}
static void *read_in_thread(void *unused) {
    reads(0);
    return unused;
}
static void read_by_another_after_free(void) {
    at_left(100);
    frees();
    other_thread(read_in_thread);
}
static void overflow_read(void) {
    at_right(100);
    reads(120);
}
static void overflow_by_1(void) {
    at_right(96);
    writes(96);
}
static void overflow_of_one_byte(void) {
    at_right(1);
    writes(16);
}
static void overflow_far(void) {
    at_left(100);
    writes(40000);
}
static void overflow_of_64_kib(void) {
    at_left(65536);
    writes(65536);
}
static void underflow_by_1(void) {
    at_left(100);
    writes(-1);
}
static void underflow_far(void) {
    at_right(100);
    reads(-5000);
}
static void overflow_of_a_freed_block(void) {
    at_right(100);
    frees();
    reads(112);
}
static void overflow_of_calloc(void) {
    do block = t_calloc(6, 16);
    while ((uintptr_t)block % PAGE_SIZE == 0);
    writes(96);
}
static void overflow_of_aligned(void) {
    do block = t_aligned_alloc(256, 512);
    while ((uintptr_t)block % PAGE_SIZE == 0);
    if ((uintptr_t)block % 256) printf("wrong: not aligned\n");
    writes(512);
}
static void old_pointer_after_realloc(void) {
    at_left(100);
    char *volatile moved = t_realloc(block, 60);
    if (moved == block) printf("wrong: it did not move\n");
    reads(7);
}

/* ── Found in a call ── */

static void overflow_found_by_free(void) {
    at_left(100);
    writes(100);
    frees();
}
static void overflow_found_by_realloc(void) {
    at_right(100);
    writes(105);
    block = t_realloc(block, 200);
}
static void underflow_found_by_free(void) {
    at_right(100);
    writes(-1);
    writes(-2);
    frees();
}
static void double_at_once(void) {
    allocates(100);
    frees();
    frees_again();
}
static void double_by_another_thread(void) {
    allocates(100);
    other_thread(free_in_thread);
    frees_again();
}
static void free_inside(void) {
    at_left(100);
    block += 16;
    frees();
}
static void free_inside_freed(void) {
    at_left(100);
    frees();
    block += 16;
    frees_again();
}
static void free_behind(void) {
    at_right(100);
    block += 112 + 16;
    frees();
}
static void free_before(void) {
    at_left(100);
    block -= 16;
    frees();
}
static void realloc_freed(void) {
    allocates(100);
    frees();
    if (t_realloc(block, 200) || errno != EINVAL) printf("wrong: no EINVAL\n");
}
static void usable_freed(void) {
    allocates(100);
    frees();
    if (t_usable_size(block) != 0) printf("wrong: it has a size\n");
}

/* ── Not found ── */

/* The kernel meets the guard, and says so to the program. */
static void read_by_the_kernel(void) {
    at_left(100);
    frees();
    int zero = open("/dev/zero", O_RDONLY);
    if (read(zero, block, 10) != -1 || errno != EFAULT) printf("wrong: no EFAULT\n");
    close(zero);
}

/* ── Handlers ── */

static void own_handler(int signal) {
    static const char text[] = "own handler\n";
    (void)signal;
    if (write(1, text, sizeof text - 1) < 0) _exit(4);
    _exit(3);
}
static void own_action(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_addr != block + 3) _exit(5);
    own_handler(signal);
}
static void handle(bool with_info) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    if (with_info) {
        action.sa_sigaction = own_action;
        action.sa_flags = SA_SIGINFO;
    } else {
        action.sa_handler = own_handler;
    }
    sigaction(SIGSEGV, &action, NULL);
}
static void handler_set_later(void) {
    handle(false);
    read_after_free();
}
static void handler_set_before(void) {
    handle(true);
    if (fh_option_set("guard", "1") != 0) printf("wrong: not set\n");
    t_free(t_malloc(9)); /* from here on its thread draws */
    read_after_free();
}
static void handler_is_told_of_others(void) {
    handle(true);
    if (fh_option_set("guard", "1") != 0) printf("wrong: not set\n");
    void *page = mmap(NULL, PAGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    block = (char *)page - 3;
    reads(3);
}
static void null_pointer(void) {
    block = NULL;
    reads(0);
}
static void signal_is_sent(void) {
    t_free(t_malloc(100));
    raise(SIGSEGV);
}
static void ignored_signal_is_sent(void) {
    signal(SIGSEGV, SIG_IGN);
    if (fh_option_set("guard", "1") != 0) printf("wrong: not set\n");
    raise(SIGSEGV);
}
/* A child has the guards of its parent. */
static void child_reads(void) {
    at_left(100);
    frees();
    pid_t child = fork();
    if (child == 0) {
        reads(3);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV) printf("wrong: the child did not die\n");
}
static void child_frees_and_reads(void) {
    at_left(100);
    pid_t child = fork();
    if (child == 0) {
        frees();
        allocates(50);
        frees();
        frees_again();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    reads(3); /* here it lives */
    frees();
}

/* ── Nothing is wrong ── */

static size_t number_after(const char *text, const char *key) {
    const char *found = strstr(text, key);
    return found ? strtoul(found + strlen(key), NULL, 10) : 0;
}
/* What the statistics say of guarded blocks is what the program counts itself. */
static void statistics_count(void) {
    static char before[1 << 16], after[1 << 16];
    static char *blocks[300];
    fh_stats_json(before, sizeof before);
    for (size_t i = 0; i < 300; i++) blocks[i] = t_malloc(1 + i);
    for (size_t i = 0; i < 100; i++) t_free(blocks[i]);
    fh_stats_json(after, sizeof after);
    size_t number = number_after(after, "\"guarded_blocks\":") - number_after(before, "\"guarded_blocks\":");
    size_t bytes = number_after(after, "\"guarded_bytes\":") - number_after(before, "\"guarded_bytes\":");
    size_t pages = number_after(after, "\"guarded_page_bytes\":") - number_after(before, "\"guarded_page_bytes\":");
    if (number != 200) printf("wrong: %zu blocks\n", number);
    if (bytes != (101 + 300) * 200 / 2) printf("wrong: %zu bytes\n", bytes);
    if (pages != (size_t)200 * PAGE_SIZE) printf("wrong: %zu bytes of pages\n", pages);
}
static void life(void) {
    static char *blocks[2000];
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < 2000; i++) {
            size_t n = i * 7 % 5000;
            char *p = i % 5 == 0 ? t_calloc(1, n) : i % 5 == 1 ? t_aligned_alloc(64, n) : t_malloc(n);
            if (i % 5 == 0 && n && (p[0] || p[n - 1])) printf("wrong: calloc is not zero\n");
            if (t_usable_size(p) < n) printf("wrong: too small\n");
            memset(p, (int)i, n);
            blocks[i] = p;
        }
        for (size_t i = 0; i < 2000; i++) {
            size_t n = i * 7 % 5000, more = n / 2 + 100;
            char *p = blocks[i] = t_realloc(blocks[i], more);
            for (size_t k = 0; k < n && k < more; k++) {
                if (p[k] != (char)i) printf("wrong: realloc lost byte %zu of %zu\n", k, n);
            }
        }
        for (size_t i = 0; i < 2000; i++) t_free(blocks[i * 1117 % 2000]);
        t_malloc_trim(0);
    }
    if (fh_verify() != 0) printf("wrong: the heap is not whole\n");
}
/* Guarded blocks count: with 4,096 of them at a page each a limit of 8 MiB would be gone twice over. */
static void limit_holds(void) {
    static char *blocks[20000];
    static char text[1 << 16];
    if (fh_limit_set(0, (size_t)8 << 20, NULL) != 0) printf("wrong: no limit\n");
    for (size_t i = 0; i < 20000; i++) {
        blocks[i] = t_malloc(100);
        if (!blocks[i]) printf("wrong: no block %zu\n", i);
    }
    fh_stats_json(text, sizeof text);
    size_t pages = number_after(text, "\"guarded_page_bytes\":"), used = number_after(text, "\"limit_in_use\":");
    if (pages == 0 || pages > (size_t)512 << 10) printf("wrong: %zu bytes of pages\n", pages);
    if (used < pages || used > (size_t)8 << 20) printf("wrong: %zu bytes in use\n", used);
    for (size_t i = 0; i < 20000; i++) t_free(blocks[i]);
}

/* ── What guard.py counts ── */

static unsigned mappings(void) {
    static char text[1 << 18];
    unsigned lines = 0;
    int maps = open("/proc/self/maps", O_RDONLY);
    for (ssize_t n; (n = read(maps, text, sizeof text)) > 0;) {
        for (ssize_t i = 0; i < n; i++) lines += text[i] == '\n';
    }
    close(maps);
    return lines;
}
/* Live blocks and freed ones, in all slots that there are. */
static void mappings_count(void) {
    static char *blocks[6000];
    for (size_t i = 0; i < 6000; i++) blocks[i] = t_malloc(i % 300);
    for (size_t i = 0; i < 6000; i++) t_free(blocks[i]);
    unsigned before = mappings();
    if (fh_option_set("guard", "1") != 0) printf("wrong: not set\n");
    for (size_t i = 0; i < 6000; i++) blocks[i] = t_malloc(i % 300);
    for (size_t i = 0; i < 6000; i += 3) t_free(blocks[i]);
    printf("mappings: %u more\n", mappings() - before);
}
/* A guarded block has the size that was asked for, any other one a multiple of 16. At guard=1000 no more than there may be at once. */
static void share_count(void) {
    enum { ALL = 60000 };
    unsigned guarded = 0, right = 0;
    for (unsigned i = 0; i < ALL; i++) {
        char *p = t_malloc(100);
        bool is = t_usable_size(p) == 100;
        guarded += is;
        right += is && (uintptr_t)p % PAGE_SIZE != 0;
        t_free(p);
    }
    printf("guarded: %u right: %u of: %u\n", guarded, right, ALL);
}
static void reuse(void) {
    allocates(100);
    char *first = block;
    unsigned others = 0;
    frees();
    do {
        allocates(100);
        frees();
    } while (block != first && others++ < 100000);
    printf("again after: %u\n", others);
}

#define CASE(name) {#name, name},
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    CASE(read_after_free) CASE(write_after_free) CASE(read_after_free_by_another) CASE(read_by_another_after_free)
        CASE(overflow_read) CASE(overflow_by_1) CASE(overflow_of_one_byte) CASE(overflow_far) CASE(overflow_of_64_kib)
            CASE(underflow_by_1) CASE(underflow_far) CASE(overflow_of_a_freed_block) CASE(overflow_of_calloc)
                CASE(overflow_of_aligned) CASE(old_pointer_after_realloc) CASE(overflow_found_by_free)
                    CASE(overflow_found_by_realloc) CASE(underflow_found_by_free) CASE(double_at_once)
                        CASE(double_by_another_thread) CASE(free_inside) CASE(free_inside_freed) CASE(free_behind)
                            CASE(free_before) CASE(realloc_freed) CASE(usable_freed) CASE(read_by_the_kernel)
                                CASE(handler_set_later) CASE(handler_set_before) CASE(handler_is_told_of_others)
                                    CASE(null_pointer) CASE(signal_is_sent) CASE(ignored_signal_is_sent)
                                        CASE(child_reads) CASE(child_frees_and_reads) CASE(statistics_count) CASE(life)
                                            CASE(limit_holds) CASE(mappings_count) CASE(share_count) CASE(reuse)};

int main(int count, char **words) {
    setvbuf(stdout, NULL, _IONBF, 0);
    for (size_t i = 0; count > 1 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(words[1], cases[i].name) != 0) continue;
        cases[i].run();
        printf("went on\n");
        return 0;
    }
    return 2;
}
