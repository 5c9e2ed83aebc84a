/* Reachability on demand: known blocks that can and that cannot be reached, and the verdict on each.
 *
 *     reach           blocks in globals, stacks of other threads, thread-local variables, lists, trees, huge blocks, by
 *                     pointers into their middle; and lost ones: alone, in cycles, huge, held by lost ones
 *     reach MIB       figures: how long the fork and the scan of a heap of so many MiB take */
#include "../support/check.h"

#include "observe/profile.h"

#include <freehold/freehold.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define NOINLINE __attribute__((noinline))

/* The command's side of the page. */
static char *page;
static fh_profile_control *control;
static fh_profile_scan *scan;

static uint64_t load(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void open_page(const char *folder) {
    char path[600];
    struct stat status;
    for (unsigned i = 0; i < 1000; i++) fh_free(fh_malloc(100 + i * 50));
    snprintf(path, sizeof path, "%s/freehold-%d", folder, (int)getpid());
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && fstat(fd, &status) == 0, "no page at %s", path);
    close(fd);
    /* Longer than the file is now: it grows. */
    fd = open(path, O_RDWR);
    page = mmap(NULL, 1 << 30, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    unlink(path); /* what page= asks for is kept; the library does not need the name */
    CHECK(page != MAP_FAILED, "mmap");
    control = (fh_profile_control *)(page + FH_PROFILE_CONTROL_OFFSET);
    scan = (fh_profile_scan *)(page + FH_PROFILE_SCAN_OFFSET);
}

/* Asks, and allocates until the answer is there. */
NOINLINE static void request(void) {
    uint64_t number = load(&control->scan) + 1;
    __atomic_store_n(&control->scan, number, __ATOMIC_RELEASE);
    double end = seconds_now() + 120;
    while (load(&scan->number) != number || load(&scan->state) == FH_PROFILE_SCAN_RUNNING) {
        for (unsigned i = 0; i < 64; i++) {
            void *volatile p = fh_malloc(300000 + i);
            fh_free(p);
        }
        CHECK(seconds_now() < end, "no answer: scan %llu, state %llu", (unsigned long long)load(&scan->number),
              (unsigned long long)load(&scan->state));
    }
    CHECK(load(&scan->state) == FH_PROFILE_SCAN_DONE, "the scan failed: %s", strerror((int)load(&scan->error)));
}

/* ── Verdicts ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Addresses kept in disguise, so that keeping them does not keep the blocks. */
#define MOST 20000
static uint64_t reachable[MOST], lost[MOST];
static unsigned reachables, losts;

static void *expect(void *p, bool kept) {
    CHECK(p, "no memory");
    if (kept) {
        reachable[reachables++] = ~(uint64_t)(uintptr_t)p;
    } else {
        lost[losts++] = ~(uint64_t)(uintptr_t)p;
    }
    return p;
}

/* The verdict on the sample at that address: 1 reached, 0 not, -1 there is none. Looks at all samples. */
static int verdict(uint64_t address) {
    const fh_profile_section *s = &((const fh_profile_header *)page)->section[FH_PROFILE_SAMPLES];
    for (unsigned k = 0; k < FH_PROFILE_EXTENTS && s->extent[k]; k++) {
        const fh_profile_sample *sample = (const fh_profile_sample *)(page + s->extent[k]);
        for (uint64_t i = 0; i < (uint64_t)s->first << k; i++) {
            if (load(&sample[i].address) != address) continue;
            uint64_t word = (uint32_t)load(&sample[i].reached); /* above it is a check */
            return word >> 1 == load(&scan->number) && sample[i].born_ns < load(&scan->begun_ns) ? (int)(word & 1) : -1;
        }
    }
    return -1;
}

static void check_verdicts(const char *when) {
    unsigned wrong = 0;
    for (unsigned i = 0; i < reachables; i++) {
        CHECK(verdict(~reachable[i]) == 1, "%s: block %u of %u (%#llx) can be reached, the verdict is %d", when, i,
              reachables, (unsigned long long)~reachable[i], verdict(~reachable[i]));
    }
    for (unsigned i = 0; i < losts; i++) {
        int v = verdict(~lost[i]);
        CHECK(v >= 0, "%s: no verdict on lost block %u (%#llx)", when, i, (unsigned long long)~lost[i]);
        wrong += v == 1;
    }
    /* A word that was left on the stack or in a register may look like one of them: conservative is what the scan is. */
    CHECK(wrong <= 2 + losts / 100, "%s: %u of %u lost blocks are said to be reachable", when, wrong, losts);
    printf("%s: %u reachable, %u lost (%u held by chance); in all %llu and %llu blocks\n", when, reachables, losts,
           wrong, (unsigned long long)scan->reachable_blocks, (unsigned long long)scan->unreachable_blocks);
    CHECK(scan->reachable_blocks >= reachables && scan->unreachable_blocks + wrong >= losts, "the sums");
    CHECK(scan->samples_reachable >= reachables, "verdicts: %llu", (unsigned long long)scan->samples_reachable);
}

/* ── Blocks ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct node {
    struct node *left, *right;
    char room[40];
} node;

static void *volatile global_block;
static char *volatile global_inside;
static node *volatile global_list, *volatile global_tree;
static void **volatile global_table;
static __thread void *volatile thread_local_block;
static atomic_bool stop;
static atomic_uint waiting;

NOINLINE static node *make_list(unsigned n, bool kept, bool cycle) {
    node *head = NULL, *last = NULL;
    for (unsigned i = 0; i < n; i++) {
        node *next = expect(fh_calloc(1, sizeof *next), kept);
        next->left = head;
        if (!last) last = next;
        head = next;
    }
    if (cycle) last->left = head;
    return head;
}

NOINLINE static node *make_tree(unsigned depth, bool kept) {
    node *n = expect(fh_calloc(1, sizeof *n), kept);
    if (depth > 0) {
        n->left = make_tree(depth - 1, kept);
        n->right = make_tree(depth - 1, kept);
    }
    return n;
}

/* A stack, and a thread-local variable, of a thread that sleeps. */
static void *sleeper(void *unused) {
    void *volatile on_stack[3];
    on_stack[0] = expect(fh_malloc(777), true);
    on_stack[1] = expect(fh_malloc(200000), true);
    thread_local_block = expect(fh_malloc(3000), true);
    atomic_fetch_add(&waiting, 1);
    while (!atomic_load(&stop)) usleep(1000);
    fh_free(on_stack[0]);
    return unused;
}

NOINLINE static void plant_reachable(void) {
    global_block = expect(fh_malloc(48), true);
    global_inside = (char *)expect(fh_malloc(5000), true) + 4321;
    global_list = make_list(3000, true, false);
    global_tree = make_tree(9, true);
    /* In a huge block, at its far end: more blocks, one huge itself, one that is large. */
    global_table = expect(fh_malloc(40 << 20), true);
    void **end = global_table + (40 << 20) / sizeof *end;
    end[-1] = expect(fh_malloc(100), true);
    end[-2] = (char *)expect(fh_malloc(9 << 20), true) + (5 << 20);
    end[-3] = (char *)expect(fh_malloc(1500000), true) + 1400000;
    /* A block that may not be read (a guard page): what lies behind it may. */
    char *guarded = expect(fh_aligned_alloc(4096, 64 << 10), true);
    global_table[7] = guarded;
    memset(guarded, 0, 64 << 10);
    ((void **)(guarded + 8192))[0] = expect(fh_malloc(333), true);
    mprotect(guarded, 4096, PROT_NONE);
}

NOINLINE static void plant_lost(void) {
    for (unsigned i = 0; i < 500; i++) expect(fh_malloc(24 + i * 16), false);
    make_list(1000, false, true);
    make_tree(7, false);
    void **huge = expect(fh_malloc(12 << 20), false);
    huge[1000] = expect(fh_malloc(250), false);
    huge[1001] = huge;
    expect(fh_malloc(1 << 20), false);
}

/* What the calls before left on the stack is overwritten. */
NOINLINE static void clear_stack(void) {
    volatile char room[64 << 10];
    for (unsigned i = 0; i < sizeof room; i++) room[i] = 0;
}

/* ── The program is not harmed ───────────────────────────────────────────────────────────────────────────────────── */

static atomic_uint children;

static void on_child(int number) {
    (void)number;
    atomic_fetch_add(&children, 1);
}

static void check_unnoticed(void) {
    CHECK(atomic_load(&children) == 0, "SIGCHLD came");
    CHECK(waitpid(-1, NULL, 0) < 0 && errno == ECHILD, "the program sees a child that is none of its own");
    /* The copy is gone once one more slow path was taken. */
    double end = seconds_now() + 60;
    char path[64];
    snprintf(path, sizeof path, "/proc/%llu", (unsigned long long)scan->pid);
    while (access(path, F_OK) == 0) {
        for (unsigned i = 0; i < 64; i++) {
            void *volatile p = fh_malloc(300000 + i);
            fh_free(p);
        }
        CHECK(seconds_now() < end, "the copy (process %llu) has not gone", (unsigned long long)scan->pid);
    }
}

/* A copy that is killed (it is the first that the system kills when memory is short) is an answer too, and not the last one. */
static void check_killed(void) {
    for (unsigned tries = 0; tries < 200; tries++) {
        uint64_t number = load(&control->scan) + 1;
        __atomic_store_n(&control->scan, number, __ATOMIC_RELEASE);
        double end = seconds_now() + 60;
        bool sent = false;
        while (load(&scan->number) != number || load(&scan->state) == FH_PROFILE_SCAN_RUNNING) {
            void *volatile p = fh_malloc(300000);
            fh_free(p);
            uint64_t copy = load(&scan->number) == number ? load(&scan->pid) : 0;
            if (copy > 1 && !sent) sent = kill((pid_t)copy, SIGKILL) == 0;
            CHECK(seconds_now() < end, "no answer after it was killed");
        }
        if (load(&scan->state) == FH_PROFILE_SCAN_DONE) continue; /* it was faster */
        CHECK(load(&scan->error) == EINTR, "error %llu", (unsigned long long)load(&scan->error));
        printf("killed at try %u\n", tries);
        request();
        return;
    }
    skip_test("the scan was never slow enough to be killed");
}

static double child_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void measure(unsigned mib) {
    void *volatile head = NULL;
    for (size_t bytes = 0; bytes < (size_t)mib << 20; bytes += 128) {
        void **p = fh_malloc(128);
        CHECK(p, "no memory");
        memset(p, 0, 128);
        *p = head;
        head = p;
    }
    for (unsigned i = 0; i < 3; i++) {
        double before = child_seconds();
        request();
        check_unnoticed();
        printf("%u MiB in blocks of 128 bytes, one list: held up %.1f ms; scanned in %.0f ms, of a processor %.0f "
               "(%llu MiB)\n",
               mib, (double)scan->fork_ns / 1e6, (double)scan->scan_ns / 1e6, (child_seconds() - before) * 1e3,
               (unsigned long long)(scan->block_bytes >> 20));
        CHECK(scan->reachable_blocks >= ((uint64_t)mib << 20) / 128, "only %llu reached",
              (unsigned long long)scan->reachable_blocks);
        /* Told every MiB. What was reached is on the list, or was reached and not searched yet. */
        uint64_t searched = load(&scan->searched_so_far), reached = load(&scan->reached_so_far);
        uint64_t all = scan->root_bytes + scan->block_bytes;
        CHECK(searched <= all && searched + (2 << 20) > all, "told %llu of %llu", (unsigned long long)searched,
              (unsigned long long)all);
        CHECK(reached <= scan->reachable_bytes && reached + (2 << 20) > (uint64_t)mib << 20,
              "told %llu of %llu reached", (unsigned long long)reached, (unsigned long long)scan->reachable_bytes);
    }
}

int main(int arguments, char **argument) {
    const char *folder = getenv("REACH_PAGE");
    CHECK(folder, "REACH_PAGE is not set");
    signal(SIGCHLD, on_child);
    open_page(folder);
    if (arguments > 1) {
        measure((unsigned)atoi(argument[1]));
        return 0;
    }
    pthread_t thread[4];
    plant_reachable();
    for (unsigned i = 0; i < 4; i++) {
        pthread_create(&thread[i], NULL, sleeper, NULL);
        while (atomic_load(&waiting) <= i) usleep(1000);
    }
    request();
    check_verdicts("nothing lost");
    check_unnoticed();
    plant_lost();
    clear_stack();
    for (unsigned i = 0; i < 3; i++) {
        request();
        check_verdicts("some lost");
        check_unnoticed();
    }
    /* The list is let go of: all of it is lost, from one word on. */
    global_list = NULL;
    memmove(lost + losts, reachable + 2, 3000 * sizeof lost[0]);
    memmove(reachable + 2, reachable + 3002, (reachables - 3002) * sizeof lost[0]);
    losts += 3000;
    reachables -= 3000;
    clear_stack();
    request();
    check_verdicts("the list let go of");
    check_killed();
    check_unnoticed();
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    return 0;
}
