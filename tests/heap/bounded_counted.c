/* How many instructions each call on a bounded heap takes, of all calls of sixteen threads at full speed. None may take more than 2,000.
 * bounded_counted SITUATION [ALLOWED]. FREEHOLD_TEST_OPERATIONS: how many calls, of all threads.
 *
 * The files of the library through which such a call goes are linked as count_instructions.py compiles them: they count for
 * themselves. bounded_steps.c counts few calls, but the library as it is, and by the processor. Both ways are compared first:
 * call by call, what the processor counts must be what the files count and what counting takes, and the same few for the caller. */
#include "../support/check.h"

#if defined __x86_64__ && defined __linux__
#include <freehold/heap.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <ucontext.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define TRAP_FLAG 0x100
#define CALLER_MOST 16 /* instructions around a call that is counted by the processor */

/* As count_instructions.py has it: bits 0 to 19 are instructions, those above are pieces, five instructions each. */
extern __thread volatile uint64_t fh_counted, fh_counted_rax;
__thread volatile uint64_t fh_counted, fh_counted_rax;

static unsigned long instructions_of(uint64_t word) {
    return word & 0xFFFFF;
}

/* ── What is counted is all there is ─────────────────────────────────────────────────────────────────────────────── */

static unsigned long stepped;
static uintptr_t at;

static void trapped(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    uintptr_t next = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    stepped += next != at; /* or it is one that repeats itself */
    at = next;
}

#define STEPS_BEGIN() __asm__ volatile("pushfq\n\torq %0, (%%rsp)\n\tpopfq" : : "i"(TRAP_FLAG) : "memory", "cc")
#define STEPS_END() __asm__ volatile("pushfq\n\tandq %0, (%%rsp)\n\tpopfq" : : "i"(~TRAP_FLAG) : "memory", "cc")

__attribute__((noinline)) static void *take_stepped(fh_heap *h, size_t n) {
    STEPS_BEGIN();
    void *p = fh_heap_malloc(h, n);
    STEPS_END();
    return p;
}

__attribute__((noinline)) static void *take_aligned_stepped(fh_heap *h, size_t n) {
    STEPS_BEGIN();
    void *p = fh_heap_aligned_alloc(h, 64, n);
    STEPS_END();
    return p;
}

__attribute__((noinline)) static void give_stepped(void *p) {
    STEPS_BEGIN();
    fh_free(p);
    STEPS_END();
}

static unsigned long compared;

/* `caller`: what the first call of that kind had. */
static void compare(const char *call, unsigned long *caller) {
    unsigned long counted = instructions_of(fh_counted) + 5 * (unsigned long)(fh_counted >> 20);
    unsigned long rest = stepped - counted;
    if (*caller == 0) *caller = rest;
    CHECK(rest == *caller && rest <= CALLER_MOST,
          "%s: %lu instructions by the processor, %lu by the files, and the caller had %lu", call, stepped, counted,
          *caller);
    compared++;
}

static void begin(void) {
    fh_counted = 0;
    stepped = 0;
}

static void compare_calls(size_t limit, size_t most, unsigned turns) {
    /* What is refused sets errno, whose place the C library tells. */
    static unsigned long take[2], take_aligned[2], give;
    static void *held[300];
    uint64_t seed = most;
    fh_heap *h = fh_heap_new(&(fh_heap_options){.flags = FH_HEAP_BOUNDED, .hard_limit = limit});
    CHECK(h != NULL, "no heap");
    fh_free(fh_heap_malloc(h, 1)); /* makes the thread known */
    for (unsigned i = 0; i < turns; i++) {
        void **one = &held[random_below(&seed, 300)];
        size_t n = (size_t)random_below(&seed, most);
        begin();
        if (*one) {
            give_stepped(*one);
            compare("fh_free", &give);
            *one = NULL;
        } else if (i % 8) {
            *one = take_stepped(h, n);
            compare("fh_heap_malloc", &take[!*one]);
        } else {
            *one = take_aligned_stepped(h, n);
            compare("fh_heap_aligned_alloc", &take_aligned[!*one]);
        }
    }
    for (size_t i = 0; i < 300; i++) {
        fh_free(held[i]);
        held[i] = NULL;
    }
    CHECK(fh_heap_destroy(h) == 0, "not destroyed");
    printf("%lu calls: the processor counts the same\n", compared);
}

/* ── All calls of sixteen threads ────────────────────────────────────────────────────────────────────────────────── */

enum { THREADS = 16, PLACES = 600 };
static struct {
    fh_heap *heap;
    size_t least, most;
    uint64_t each; /* calls of a thread */
    atomic_ullong seed, calls, refused;
    atomic_ulong most_of_take, most_of_give; /* that of a malloc in the upper half, and its size in the lower one */
    _Atomic(void *) place[PLACES];
} shared;

static void keep_most(atomic_ulong *most, unsigned long n) {
    unsigned long was = atomic_load(most);
    while (was < n && !atomic_compare_exchange_weak(most, &was, n)) continue;
}

static void *call_all(void *none) {
    uint64_t seed = atomic_fetch_add(&shared.seed, 1) * UINT64_C(0x9E3779B97F4A7C15) | 1, calls = 0, refused = 0;
    unsigned long take = 0, give = 0;
    (void)none;
    fh_free(fh_heap_malloc(shared.heap, 1)); /* makes the thread known */
    while (calls < shared.each) {
        size_t n = shared.least + (size_t)random_below(&seed, shared.most - shared.least + 1);
        fh_counted = 0;
        void *p = calls % 16 ? fh_heap_malloc(shared.heap, n) : fh_heap_aligned_alloc(shared.heap, 64, n);
        unsigned long took = instructions_of(fh_counted);
        if (took > take >> 32) take = took << 32 | n;
        refused += !p;
        calls++;
        p = atomic_exchange(&shared.place[random_below(&seed, PLACES)], p);
        if (!p) continue;
        fh_counted = 0;
        fh_free(p);
        took = instructions_of(fh_counted);
        if (took > give) give = took;
        calls++;
    }
    keep_most(&shared.most_of_take, take);
    keep_most(&shared.most_of_give, give);
    atomic_fetch_add(&shared.calls, calls);
    atomic_fetch_add(&shared.refused, refused);
    return NULL;
}

static void count_all(const char *situation, size_t limit, size_t least, size_t most, uint64_t calls,
                      unsigned long allowed) {
    pthread_t thread[THREADS];
    shared.heap = fh_heap_new(&(fh_heap_options){.flags = FH_HEAP_BOUNDED, .hard_limit = limit});
    CHECK(shared.heap != NULL, "no heap");
    shared.least = least;
    shared.most = most;
    shared.each = calls / THREADS;
    atomic_store(&shared.calls, 0);
    atomic_store(&shared.refused, 0);
    atomic_store(&shared.most_of_take, 0);
    atomic_store(&shared.most_of_give, 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, call_all, NULL) == 0, "no thread");
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    unsigned long take = shared.most_of_take >> 32, of = shared.most_of_take & UINT32_MAX, give = shared.most_of_give;
    printf("%s: %llu calls of %d threads: malloc %lu (of %lu bytes), free %lu instructions at most; %llu without a "
           "block\n",
           situation, (unsigned long long)shared.calls, THREADS, take, of, give, (unsigned long long)shared.refused);
    fflush(stdout);
    CHECK(take > 30 && give > 20, "nothing is counted");
    CHECK(take <= allowed && give <= allowed, "%lu and %lu instructions", take, give);
    for (int i = 0; i < PLACES; i++) fh_free(atomic_exchange(&shared.place[i], NULL));
    CHECK(fh_heap_destroy(shared.heap) == 0, "not destroyed");
}

int main(int arguments, char **argument) {
    static const struct {
        const char *name;
        size_t limit, least, most;
    } situation[] = {{"one_size", 16 * MIB, 48, 48},
                     {"mixed", 64 * MIB, 1, 40000},
                     {"runs", 256 * MIB, 30 * KIB, 300 * KIB},
                     {"long_runs", 512 * MIB, 64 * KIB, MIB},
                     {"full", 2 * MIB, 2000, 30000}};
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    atomic_store(&shared.seed, random_seed());
    for (size_t i = 0; arguments > 1 && i < sizeof situation / sizeof *situation; i++) {
        if (strcmp(argument[1], situation[i].name) != 0) continue;
        compare_calls(situation[i].limit < 64 * MIB ? situation[i].limit : 64 * MIB, situation[i].most, 300);
        count_all(situation[i].name, situation[i].limit, situation[i].least, situation[i].most,
                  env_number("FREEHOLD_TEST_OPERATIONS", 1000000),
                  arguments > 2 ? strtoul(argument[2], NULL, 10) : 2000);
        return 0;
    }
    CHECK(false, "no such situation");
    return 2;
}
#else
int main(void) {
    skip_test("instructions of this machine are not counted");
}
#endif
