/* Stacks of C code, compared frame by frame with what the compiler says. Built many times over: with and without frame
 * pointers, at each level of optimisation, fixed and position-independent, static, for musl, by clang. */
#include "chain.h"

#include "../support/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#define NOINLINE __attribute__((noinline))

static chain the_chain;

/* ── Frames of all shapes ────────────────────────────────────────────────────────────────────────────────────────── */

static __thread volatile unsigned sink;

/* Uses every register that a callee must keep, so that rbp holds anything but a frame pointer. */
NOINLINE static unsigned registers(unsigned n) {
    CHAIN_ENTER();
    unsigned a = n, b = n ^ 3, c = n * 5, d = n + 7, e = n - 9, f = n << 2, g = n | 1;
    for (unsigned i = 0; i < 3; i++) {
        a += sink, b ^= a, c += b, d ^= c, e += d, f ^= e, g += f;
        if (i == 1) chain_take(64);
    }
    CHAIN_LEAVE();
    return a + b + c + d + e + f + g;
}

/* A frame of variable size: addressed by rbp whatever the flags say. */
NOINLINE static unsigned variable(unsigned n) {
    CHAIN_ENTER();
    volatile char room[n * 100 + 1];
    memset((char *)room, 1, n * 100 + 1);
    unsigned result = registers(n) + (unsigned)room[n];
    CHAIN_LEAVE();
    return result;
}

/* A frame that is aligned anew: the caller's stack pointer is kept in memory. */
NOINLINE static unsigned aligned(unsigned n, ...) {
    CHAIN_ENTER();
    _Alignas(128) volatile char room[256];
    memset((char *)room, 1, sizeof room);
    volatile char more[n + 1];
    more[n] = 1;
    unsigned result = variable(n) + (unsigned)room[n] + (unsigned)more[n];
    CHAIN_LEAVE();
    return result;
}

/* Seven arguments and more lie on the stack and are pushed and popped around the call. */
NOINLINE static unsigned pushes(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g,
                                unsigned h, unsigned i) {
    CHAIN_ENTER();
    unsigned result = aligned(a + b + c + d - 7, e, f, g, h, i);
    CHAIN_LEAVE();
    return result;
}

NOINLINE static unsigned large(unsigned n) {
    CHAIN_ENTER();
    volatile char room[300000];
    room[n] = room[299999] = 1;
    unsigned result = pushes(1, 2, 3, 4, 5, 6, 7, 8, 9) + (unsigned)room[n];
    CHAIN_LEAVE();
    return result;
}

NOINLINE static void check_shapes(void) {
    CHAIN_ENTER();
    chain *c = chain_now;
    unsigned before = c->depth;
    sink += large(7);
    /* large, pushes, aligned, variable, registers, chain_take */
    CHECK(chain_is_right(c, before + 6), "shapes");
#ifndef NO_TABLE_IN_LIBC
    CHECK(c->found > before + 6, "%u frames: none of those that called main", c->found);
#endif
    CHAIN_LEAVE();
}

/* ── Through the C library ───────────────────────────────────────────────────────────────────────────────────────── */

static unsigned compared;
static uintptr_t called_from;

static int by_number(const void *a, const void *b) {
    CHAIN_ENTER();
    if (compared++ == 20) {
        /* Later calls come from other places. */
        called_from = chain_now->expected[chain_now->depth - 1];
        chain_take(64);
    }
    int order = *(const int *)a - *(const int *)b;
    CHAIN_LEAVE();
    return order;
}

/* qsort's own frames lie between; their number is the C library's secret. */
NOINLINE static void sort_numbers(void) {
    CHAIN_ENTER();
    int numbers[64];
    for (int i = 0; i < 64; i++) numbers[i] = i * 37 % 64;
    qsort(numbers, 64, sizeof numbers[0], by_number);
    CHAIN_LEAVE();
}

NOINLINE static void check_callback(void) {
    CHAIN_ENTER();
    chain *c = chain_now;
    compared = 0;
    unsigned before = c->depth;
    sort_numbers();
    CHECK(c->found >= 2, "qsort: %u frames", c->found);
    CHECK(c->got[0] == c->expected[before + 2] && c->got[1] == called_from, "qsort: the callback");
    unsigned i = 2;
    while (i < c->found && c->got[i] != c->expected[before]) i++;
#ifndef NO_TABLE_IN_LIBC
    CHECK(i < c->found, "qsort: the caller of sort_numbers is not among %u frames", c->found);
    for (unsigned k = 0; k < before; k++) CHECK(c->got[i + 1 + k] == c->expected[before - 1 - k], "qsort: frame %u", k);
#endif
    CHAIN_LEAVE();
}

/* ── Depth ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

NOINLINE static unsigned recurse(unsigned n, unsigned most) {
    CHAIN_ENTER();
    unsigned result = n ? recurse(n - 1, most) + 1 : (chain_take(most), 0);
    CHAIN_LEAVE();
    return result;
}

NOINLINE static void check_depth(void) {
    CHAIN_ENTER();
    chain *c = chain_now;
    unsigned before = c->depth;
    sink += recurse(10000, 128);
    CHECK(c->found == 128 && !c->whole, "cut at 128: %u frames, whole %d", c->found, c->whole);
    for (unsigned i = 0; i < 128; i++) {
        CHECK(c->got[i] == c->expected[before + 10001 - i], "frame %u of the 128 innermost", i);
    }
    sink += recurse(10000, CHAIN_MOST);
    CHECK(chain_is_right(c, before + 10002), "10,000 deep");
    CHAIN_LEAVE();
}

/* ── Other stacks ────────────────────────────────────────────────────────────────────────────────────────────────── */

static void *in_thread(void *unused) {
    chain *mine = calloc(1, sizeof *mine);
    chain_now = mine;
    CHAIN_ENTER();
    for (unsigned i = 0; i < 20; i++) {
        check_shapes();
        check_depth();
    }
#ifndef NO_TABLE_IN_LIBC
    CHECK(mine->whole, "a thread's stack is walked to its beginning");
#endif
    CHAIN_LEAVE();
    free(mine);
    return unused;
}

static void check_threads(void) {
    pthread_t thread[4];
    pthread_attr_t attributes; /* musl's threads are given 128 KiB unless one asks for more */
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 8 << 20);
    for (unsigned i = 0; i < 4; i++) CHECK(pthread_create(&thread[i], &attributes, in_thread, NULL) == 0, "thread");
    for (unsigned i = 0; i < 4; i++) pthread_join(thread[i], NULL);
}

#ifndef NO_CONTEXTS
static ucontext_t outside, inside;

static void in_fibre(void) {
    chain *c = chain_now;
    unsigned before = c->depth;
    c->depth = 0;
    sink += large(3);
    CHECK(chain_is_right(c, 6), "in a fibre");
    CHECK(c->found >= 7, "a fibre: its first function is missing");
    CHECK(c->whole, "a fibre: walked to its beginning");
    c->depth = before;
}

/* Each time at another place, the last right below a page that cannot be read, and where a larger one was before. */
NOINLINE static void check_fibres(void) {
    const size_t bytes = 512 << 10, page = 4096;
    for (volatile unsigned i = 0; i < 8; i++) {
        char *stack = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(stack != MAP_FAILED, "no memory");
        size_t use = i % 2 ? bytes : bytes - 64 * 1024;
        CHECK(mprotect(stack + use, page, PROT_NONE) == 0, "mprotect");
        getcontext(&inside);
        inside.uc_stack.ss_sp = stack;
        inside.uc_stack.ss_size = use;
        inside.uc_link = &outside;
        makecontext(&inside, in_fibre, 0);
        CHECK(swapcontext(&outside, &inside) == 0, "swapcontext");
        munmap(stack, bytes + page);
    }
}
#endif

/* ── Signals ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static volatile uintptr_t interrupted;

static void on_signal(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ucontext_t *registers_then = context;
    interrupted = (uintptr_t)registers_then->uc_mcontext.gregs[REG_RIP];
    sink += 1;
    /* Not through the chain: the frame below this one is the kernel's. */
    chain *c = chain_now;
    c->found = fh_stack_walk(c->got, 64, __builtin_frame_address(0), &c->whole);
}

NOINLINE static void be_interrupted(void) {
    CHAIN_ENTER();
    raise(SIGUSR1);
    CHAIN_LEAVE();
}

/* A leaf with nothing on the stack, interrupted at an instruction of its own. */
NOINLINE static void fault(volatile int *p) {
    CHAIN_ENTER();
    *p = 1;
    CHAIN_LEAVE();
}

static void on_fault(int number, siginfo_t *info, void *context) {
    on_signal(number, info, context);
    mprotect((void *)((uintptr_t)info->si_addr & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE);
}

static void check_signal_frames(const char *how, bool exact) {
    chain *c = chain_now;
    unsigned i = 0, depth = c->depth + 1;
    while (i < c->found && c->got[i] != interrupted + 1) i++;
    CHECK(i < c->found, "%s: the interrupted instruction is not among %u frames", how, c->found);
    if (exact) CHECK(c->got[i + 1] == c->expected[depth - 1], "%s: the interrupted function's caller", how);
    while (i < c->found && c->got[i] != c->expected[depth - 1]) i++;
    CHECK(i < c->found, "%s: the caller is missing", how);
    for (unsigned k = 1; k < depth; k++) CHECK(c->got[i + k] == c->expected[depth - 1 - k], "%s: frame %u", how, k);
}

NOINLINE static void check_signals(void) {
    CHAIN_ENTER();
    static char alternate[64 << 10];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    CHECK(sigaltstack(&stack, NULL) == 0, "sigaltstack");
    volatile int *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned flags = 0; flags < 2; flags++) {
        struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | (flags ? SA_ONSTACK : 0)};
        sigaction(SIGUSR1, &action, NULL);
        be_interrupted();
#ifndef NO_TABLE_IN_LIBC
        check_signal_frames(flags ? "raise, alternate stack" : "raise", false);
#endif
        action.sa_sigaction = on_fault;
        sigaction(SIGSEGV, &action, NULL);
        mprotect((void *)page, 4096, PROT_NONE);
        fault(page + 5);
        check_signal_frames(flags ? "fault, alternate stack" : "fault", true);
    }
    CHAIN_LEAVE();
}

NOINLINE static void everything(void) {
    CHAIN_ENTER();
    for (unsigned i = 0; i < 3; i++) {
        check_shapes();
        check_callback();
        check_depth();
        check_signals();
    }
    CHAIN_LEAVE();
}

/* With an argument: threads alone, for builds under a sanitizer that puts signals off. Then too the first walk of all is this
 * thread's: it enters the modules. A walk that comes while another thread enters one does without it, so threads that walk
 * first, all at once, would find nothing. */
int main(int arguments, char **argument) {
    (void)argument;
    chain_now = &the_chain;
    check_shapes();
    if (arguments == 1) {
        everything();
#ifndef NO_CONTEXTS
        check_fibres();
#endif
    }
    check_threads();
    if (arguments == 1) {
        everything();
#ifndef NO_TABLE_IN_LIBC
        CHECK(chain_now->whole, "the first thread's stack is walked to its beginning");
#endif
    }
#ifdef NO_TABLE_IN_LIBC
    skip_part("this C library has no unwind tables: not asked for stacks that go through it, nor for their beginning");
#endif
    printf("all stacks as they should be\n");
    return 0;
}
