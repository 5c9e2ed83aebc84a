/* How many instructions one call on a bounded heap takes at most, counted one by one, while other threads are at it: bounded_steps
 * SITUATION [plain]. 2,000 are allowed. With "plain" the heap is not a bounded one, and must be found out.
 *
 * A call is made with the processor's trap flag set, so that each instruction ends in a signal, whose handler counts. So the thread that
 * is counted is a thousand times slower than the others, which have all the time to take what it is about to take. */
#include "../support/check.h"

#if defined __x86_64__ && defined __linux__
#include <freehold/heap.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define TRAP_FLAG 0x100
#define ALLOWED 2000

static __thread unsigned long instructions, system_calls;
static __thread uintptr_t at;

static void trapped(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    uintptr_t next = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    if (next == at) return; /* one that repeats itself */
    at = next;
    instructions++;
    system_calls += memcmp((const void *)next, "\x0f\x05", 2) == 0; // NOLINT(performance-no-int-to-ptr)
}

#define STEPS_BEGIN() __asm__ volatile("pushfq\n\torq %0, (%%rsp)\n\tpopfq" : : "i"(TRAP_FLAG) : "memory", "cc")
#define STEPS_END() __asm__ volatile("pushfq\n\tandq %0, (%%rsp)\n\tpopfq" : : "i"(~TRAP_FLAG) : "memory", "cc")

static fh_heap *heap;
static size_t worst_size;
static unsigned long most_of_take, most_of_give, most_system_calls, calls, in_vain;

static unsigned long keep_most(unsigned long most) {
    if (system_calls > most_system_calls) most_system_calls = system_calls;
    calls++;
    return instructions > most ? instructions : most;
}

static void *take(size_t align, size_t n) {
    void *p;
    instructions = system_calls = 0;
    if (align == 16) {
        STEPS_BEGIN();
        p = fh_heap_malloc(heap, n);
        STEPS_END();
    } else {
        STEPS_BEGIN();
        p = fh_heap_aligned_alloc(heap, align, n);
        STEPS_END();
    }
    if (instructions > most_of_take) worst_size = n;
    most_of_take = keep_most(most_of_take);
    in_vain += !p;
    return p;
}

static void give(void *p) {
    if (!p) return;
    instructions = system_calls = 0;
    STEPS_BEGIN();
    fh_free(p);
    STEPS_END();
    most_of_give = keep_most(most_of_give);
}

static void print(const char *situation) {
    printf("%-12s malloc %5lu (of %zu bytes) free %5lu instructions at most, of %lu calls, %lu without a block\n",
           situation, most_of_take, worst_size, most_of_give, calls, in_vain);
    fflush(stdout);
    CHECK(most_of_take <= ALLOWED && most_of_give <= ALLOWED, "%lu and %lu instructions", most_of_take, most_of_give);
    CHECK(most_system_calls == 0, "%lu system calls in one call", most_system_calls);
}

/* ── Others at it ────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { OTHERS = 15, OWN = 24 };
static struct {
    size_t least, most;
    atomic_bool stop;
} others;

static void *disturb(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument;
    void *own[OWN] = {NULL};
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10); /* the thread that is counted is slow enough */
    while (!atomic_load_explicit(&others.stop, memory_order_relaxed)) {
        void **one = &own[random_below(&seed, OWN)];
        fh_free(*one);
        *one = fh_heap_malloc(heap, others.least + (size_t)random_below(&seed, others.most - others.least + 1));
    }
    for (int i = 0; i < OWN; i++) fh_free(own[i]);
    return NULL;
}

/* One after another, so that each has a place of its own to begin to look. */
enum { COUNTED = 12 };
static struct {
    atomic_int turn;
    uint64_t calls;
    unsigned long most_in_vain; /* of a hundred calls of one thread */
} counted;

static void *count_calls(void *argument) {
    int number = (int)(intptr_t)argument;
    uint64_t seed = (uint64_t)number;
    void *own[OWN] = {NULL};
    while (atomic_load(&counted.turn) != number) usleep(100);
    unsigned long calls_before = calls, in_vain_before = in_vain;
    fh_free(fh_heap_malloc(heap, 1)); /* makes the thread known */
    for (uint64_t i = 0; i < counted.calls; i++) {
        void **one = &own[random_below(&seed, OWN)];
        give(*one);
        *one = take(16, others.least + (size_t)random_below(&seed, others.most - others.least + 1));
    }
    for (size_t i = 0; i < OWN; i++) fh_free(own[i]);
    unsigned long share = (in_vain - in_vain_before) * 100 / (calls - calls_before);
    if (share > counted.most_in_vain) counted.most_in_vain = share;
    atomic_store(&counted.turn, number + 1);
    return NULL;
}

/* Sizes from `least` to `most`, in a heap of that limit, while fifteen threads take and free such blocks. */
static void among_others(const char *situation, unsigned flags, size_t limit, size_t least, size_t most) {
    pthread_t thread[OTHERS + COUNTED];
    counted.calls = env_number("FREEHOLD_TEST_CALLS", 480) / COUNTED;
    heap = fh_heap_new(&(fh_heap_options){.flags = flags, .hard_limit = limit});
    CHECK(heap != NULL, "no heap");
    others.least = least;
    others.most = most;
    for (size_t i = 0; i < OTHERS + COUNTED; i++) {
        void *number = (void *)(i < OTHERS ? i + 1 : i - OTHERS); // NOLINT(performance-no-int-to-ptr)
        CHECK(pthread_create(&thread[i], NULL, i < OTHERS ? disturb : count_calls, number) == 0, "no thread");
    }
    for (size_t i = OTHERS; i < OTHERS + COUNTED; i++) pthread_join(thread[i], NULL);
    atomic_store(&others.stop, true);
    for (size_t i = 0; i < OTHERS; i++) pthread_join(thread[i], NULL);
    print(situation);
    if (flags && limit >= 8 * MIB)
        CHECK(in_vain * 10 <= calls && counted.most_in_vain <= 25,
              "%lu of %lu calls in vain, and %lu of 100 of one thread", in_vain, calls, counted.most_in_vain);
}

/* ── The longest ways, alone ─────────────────────────────────────────────────────────────────────────────────────── */

enum { MOST = 1400000 };
static void *block[MOST];

static size_t fill(size_t n) {
    size_t count = 0;
    while (count < MOST && (block[count] = fh_heap_malloc(heap, n)) != NULL) count++;
    CHECK(count < MOST, "no end");
    return count;
}

static void free_each(size_t count, size_t from, size_t step) {
    for (size_t i = from; i < count; i += step) {
        fh_free(block[i]);
        block[i] = NULL;
    }
}

/* All sizes, in a heap in which slabs are full, empty, or have one block, in turns. */
static void scattered(size_t limit, unsigned flags) {
    static const size_t shape[] = {16, 64, 128, 5000, 32 * KIB, 64 * KIB};
    static const size_t step[] = {1, 2, 3, 17, 33, 1025};
    for (size_t s = 0; s < 6; s++) {
        for (size_t k = 0; k < 6; k++) {
            heap = fh_heap_new(&(fh_heap_options){.flags = flags, .hard_limit = limit});
            CHECK(heap != NULL, "no heap");
            size_t count = limit > 64 * MIB && shape[s] < 5000 ? 0 : fill(shape[s]);
            free_each(count, 0, step[k]);
            for (size_t n = 16; n <= MIB; n *= 4) {
                void *a = take(16, n), *b = take(n > 16 ? n : 16, 3 * n / 4 + 1);
                give(a);
                give(b);
            }
            if (!flags && most_of_take > ALLOWED) return; /* found out */
            /* Empty slabs of a class, which become one of another. */
            free_each(count, 1, step[k] > 1 ? step[k] : MOST);
            for (size_t n = 16; n <= MIB; n *= 2) give(take(16, n - n / 7));
            CHECK(fh_heap_destroy(heap) == 0, "not destroyed");
        }
    }
}

int main(int arguments, char **argument) {
    CHECK(arguments > 1, "which situation?");
    unsigned flags = arguments > 2 ? 0 : FH_HEAP_BOUNDED;
    const char *situation = argument[1];
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    if (strcmp(situation, "one_size") == 0) {
        among_others(situation, flags, 16 * MIB, 48, 48);
    } else if (strcmp(situation, "mixed") == 0) {
        among_others(situation, flags, 64 * MIB, 1, 40000);
    } else if (strcmp(situation, "runs") == 0) {
        among_others(situation, flags, 512 * MIB, 30 * KIB, 300 * KIB);
    } else if (strcmp(situation, "full") == 0) {
        among_others(situation, flags, 2 * MIB, 2000, 30000);
    } else if (strcmp(situation, "scattered") == 0) {
        scattered(20 * MIB, flags);
        print(situation);
    } else if (strcmp(situation, "large") == 0) {
        scattered(700 * MIB, flags);
        print(situation);
    } else {
        CHECK(false, "no situation %s", situation);
    }
    return 0;
}
#else
int main(void) {
    skip_test("instructions of this machine are not counted");
}
#endif
