/* How many instructions one call of malloc or free takes at most, counted one by one: calls SIZE STALLED [COUNT].
 *
 * A call is made with the processor's trap flag set, so that each instruction ends in a signal, whose handler counts. An
 * instruction that repeats itself (rep stosb) counts once. What the kernel does is not counted, but how often it was entered.
 *
 *     STALLED threads    each is stopped for ever in the middle of a call that left the hit path, each at another instruction
 *     a thread           first   its first call of all
 *                        warm    pairs of malloc and free of one block
 *                        cold    COUNT blocks are allocated and freed: in order, in reverse, and by strides
 *
 * Prints, for malloc and for free, the most that a call took: "cold malloc INSTRUCTIONS SYSTEM-CALLS". The program itself asks
 * for nothing else meanwhile. 77: the processor has no such flag, or it is not known here. */
#if defined(__x86_64__)

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define MOST_STALLED 64
#define MOST_BLOCKS 20000
#define LONGER_THAN_A_HIT 60
#define TRAP_FLAG 0x100
#define NO_LONGER_YOUNG 200 /* frees: the 128th of a thread makes its table of what it freed last (cache/twice.h) */

typedef struct {
    unsigned long instructions, system_calls;
} cost;

static __thread cost now;
static __thread unsigned long stop_at; /* the instruction that this thread never goes beyond; 0: none */
static __thread uintptr_t at;
static sem_t stopped;

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;

/* The context is that of the instruction that comes next. */
static void trapped(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    uintptr_t next = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    if (next == at) return;
    at = next;
    now.instructions++;
    now.system_calls += memcmp((const void *)next, "\x0f\x05", 2) == 0;
    if (now.instructions != stop_at) return;
    sem_post(&stopped);
    for (;;) pause();
}

#define STEPS_BEGIN() __asm__ volatile("pushfq\n\torq %0, (%%rsp)\n\tpopfq" : : "i"(TRAP_FLAG) : "memory", "cc")
#define STEPS_END() __asm__ volatile("pushfq\n\tandq %0, (%%rsp)\n\tpopfq" : : "i"(~TRAP_FLAG) : "memory", "cc")

__attribute__((noinline)) static void *step_take(void *(*call)(size_t), size_t size) {
    now = (cost){0, 0};
    STEPS_BEGIN();
    void *block = call(size);
    STEPS_END();
    return block;
}

__attribute__((noinline)) static void step_give(void (*call)(void *), void *block) {
    now = (cost){0, 0};
    STEPS_BEGIN();
    call(block);
    STEPS_END();
}

/* What is around a call, measured by calls that do nothing; the return is theirs. */
static unsigned long around_take, around_give;

__attribute__((noinline)) static void *take_nothing(size_t size) {
    __asm__ volatile("" : : "r"(size));
    return NULL;
}

__attribute__((noinline)) static void give_nothing(void *block) {
    __asm__ volatile("" : : "r"(block));
}

static void learn_around(void) {
    step_take(take_nothing, 1);
    around_take = now.instructions;
    step_give(give_nothing, NULL);
    around_give = now.instructions;
}

/* ── The calls that are measured ─────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    cost take, give;
} most;

static void *blocks[MOST_BLOCKS];

static void keep_most(cost *most, unsigned long around) {
    unsigned long own = now.instructions - around;
    if (own > most->instructions) *most = (cost){own, now.system_calls};
}

static void *measured_take(most *m, size_t size) {
    char *block = step_take(take, size);
    keep_most(&m->take, around_take);
    if (!block) _exit(3);
    block[0] = block[size - 1] = 1;
    return block;
}

static void measured_give(most *m, void *block) {
    step_give(give, block);
    keep_most(&m->give, around_give);
}

/* Every block once: from the first on, from the last on, and each 7th, then each 7th after the next. */
static unsigned place(unsigned order, unsigned i, unsigned count) {
    if (order == 0) return i;
    if (order == 1) return count - 1 - i;
    unsigned lines = (count + 6) / 7, line = i % lines, turn = i / lines;
    return line * 7 + turn;
}

typedef struct {
    size_t size;
    unsigned count;
    most first, warm, cold;
} job;

static void *measure(void *argument) {
    job *j = argument;
    measured_give(&j->first, measured_take(&j->first, j->size));
    for (unsigned order = 0; order < 3; order++) {
        for (unsigned i = 0; i < j->count; i++) blocks[i] = measured_take(&j->cold, j->size);
        for (unsigned i = 0; i < (j->count + 6) / 7 * 7; i++) {
            unsigned which = place(order, i, j->count);
            if (which >= j->count || !blocks[which]) continue;
            measured_give(&j->cold, blocks[which]);
            blocks[which] = NULL;
        }
    }
    for (unsigned i = 0; i < NO_LONGER_YOUNG; i++) give(take(j->size));
    for (unsigned i = 0; i < 200; i++) measured_give(&j->warm, measured_take(&j->warm, j->size));
    return NULL;
}

/* ── Threads that stop ───────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    size_t size;
    unsigned number, count;
    void **own;
} victim;

/* Even ones stop in malloc, odd ones in free, each at another instruction of a call that a new thread makes: its first malloc
 * takes some thousands, its first free two hundred. What no call reaches is asked of a next round, at fewer instructions. */
static unsigned long instruction_of(unsigned number) {
    return LONGER_THAN_A_HIT + (number % 2 == 0 ? number * 250ul % 4000 : number * 29ul % 140);
}

static void *stop(void *argument) {
    const victim *v = argument;
    for (unsigned long wanted = instruction_of(v->number); wanted > 8; wanted -= wanted / 4) {
        bool in_malloc = v->number % 2 == 0;
        stop_at = wanted;
        for (unsigned i = 0; i < v->count; i++) v->own[i] = in_malloc ? step_take(take, v->size) : take(v->size);
        for (unsigned i = 0; i < v->count; i++) in_malloc ? give(v->own[i]) : step_give(give, v->own[i]);
    }
    _exit(4);
}

static void stall(size_t size, unsigned stalled, unsigned count) {
    static victim victims[MOST_STALLED];
    for (unsigned i = 0; i < stalled; i++) {
        void *own = mmap(NULL, count * sizeof(void *), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (own == MAP_FAILED) _exit(2);
        victims[i] = (victim){size, i, count, own};
        pthread_t thread;
        if (pthread_create(&thread, NULL, stop, &victims[i]) != 0) _exit(2);
        sem_wait(&stopped);
    }
}

static void print(const char *when, const most *m) {
    printf("%s malloc %lu %lu\n", when, m->take.instructions, m->take.system_calls);
    printf("%s free %lu %lu\n", when, m->give.instructions, m->give.system_calls);
}

int main(int arguments, char **argument) {
    if (arguments != 3 && arguments != 4) return 2;
    size_t size = strtoull(argument[1], NULL, 10);
    unsigned stalled = (unsigned)strtoul(argument[2], NULL, 10);
    unsigned count = arguments == 4 ? (unsigned)strtoul(argument[3], NULL, 10) : 1000;
    if (size == 0 || stalled > MOST_STALLED || count == 0 || count > MOST_BLOCKS) return 2;
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    sem_init(&stopped, 0, 0);
    learn_around();
    stall(size, stalled, count);
    static job j;
    j.size = size;
    j.count = count;
    pthread_t thread;
    if (pthread_create(&thread, NULL, measure, &j) != 0) return 2;
    pthread_join(thread, NULL);
    print("first", &j.first);
    print("warm", &j.warm);
    print("cold", &j.cold);
    fflush(stdout);
    _exit(0); /* threads are stopped in the middle of a call: nothing of theirs is to be waited for */
}

#else

int main(void) {
    return 3;
}

#endif
