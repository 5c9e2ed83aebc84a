/* A private heap has no atomic instruction where it has room: each instruction of a child is looked at, one by one. What a heap of all
 * threads has there is found, and so the look is good for something. atomics */
#include "../support/check.h"

#include <freehold/heap.h>
#include <stdbool.h>

#if defined __x86_64__ && defined __linux__
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

/* Where the look begins, and where it ends. */
#define HERE() __asm__ volatile("int3" ::: "memory")

enum { UNITS, GROWN, MIXED, FRAMES, FORMS, ROUNDS = 20 };
static const char *const form_name[FORMS] = {"units", "extents", "mixed sizes", "frames"};

static fh_heap *heap;

static void *take(size_t n) {
    void *volatile p = fh_heap_malloc(heap, n);
    CHECK(p != NULL, "no memory");
    return p;
}

static void mixed(unsigned rounds) {
    static void *live[60];
    uint64_t seed = 1;
    for (unsigned i = 0; i < rounds; i++) {
        void **at = &live[random_below(&seed, 60)];
        fh_free(*at);
        *at = fh_heap_realloc(heap, take(1 + (size_t)random_below(&seed, 3000)), 1 + (size_t)random_below(&seed, 3000));
        CHECK(*at != NULL, "no memory");
    }
}

static void some_frames(void) {
    fh_heap_mark mark = fh_mark(heap);
    for (unsigned i = 0; i < 100; i++) CHECK(fh_frame_malloc(heap, 100) != NULL, "no memory");
    CHECK(fh_release_to(heap, mark) == 0, "not released");
}

static void run(unsigned form, unsigned rounds) {
    if (form == MIXED) mixed(rounds);
    for (unsigned i = 0; form == FRAMES && i < rounds / 100; i++) some_frames();
    for (unsigned i = 0; form < MIXED && i < rounds; i++) fh_free(take(48));
}

static void child_works(unsigned form, unsigned flags) {
    heap = fh_heap_new(&(fh_heap_options){.flags = flags});
    CHECK(heap != NULL, "no heap");
    for (unsigned i = 0; form == GROWN && i < 4000; i++) take(48);
    run(form, 20000); /* the heap has what it needs from then on */
    if (form == MIXED) mixed(500);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(TEST_SKIPPED);
    HERE();
    run(form, form == FRAMES ? 200 : ROUNDS);
    HERE();
    _exit(0);
}

/* The instruction at `at` has the prefix for it, or exchanges with memory, or is a fence. */
static bool is_atomic(pid_t child, uint64_t at) {
    unsigned char code[16];
    for (size_t i = 0; i < 2; i++) {
        long word =
            ptrace(PTRACE_PEEKTEXT, child, (void *)(uintptr_t)(at + 8 * i), NULL); // NOLINT(performance-no-int-to-ptr)
        memcpy(code + 8 * i, &word, 8);
    }
    size_t i = 0;
    for (; code[i] == 0x66 || code[i] == 0xF2 || code[i] == 0xF3 || code[i] == 0x64 || code[i] == 0x2E ||
           code[i] == 0x3E;)
        i++;
    if (code[i] == 0xF0) return true;
    if ((code[i] & 0xF0) == 0x40) i++;
    if ((code[i] == 0x86 || code[i] == 0x87) && code[i + 1] >> 6 != 3) return true;
    return code[i] == 0x0F && code[i + 1] == 0xAE && code[i + 2] == 0xF0;
}

static void expect_stop(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP, "ended with %d",
          status);
}

/* Atomic instructions of the form; *all: instructions. */
static size_t atomics(unsigned form, unsigned flags, size_t *all) {
    pid_t child = fork();
    CHECK(child >= 0, "no fork");
    if (child == 0) child_works(form, flags);
    int status;
    CHECK(waitpid(child, &status, 0) == child, "no child");
    if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIPPED) skip_test("no child can be traced here");
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP, "stopped with %d", status);
    size_t found = 0;
    for (*all = 0;; ++*all) {
        struct user_regs_struct registers;
        CHECK(ptrace(PTRACE_GETREGS, child, NULL, &registers) == 0, "no registers");
        long code =
            ptrace(PTRACE_PEEKTEXT, child, (void *)(uintptr_t)registers.rip, NULL); // NOLINT(performance-no-int-to-ptr)
        if ((code & 0xFF) == 0xCC) break;
        found += is_atomic(child, registers.rip);
        CHECK(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0, "no step");
        expect_stop(child);
    }
    CHECK(ptrace(PTRACE_KILL, child, NULL, NULL) == 0 && waitpid(child, &status, 0) == child, "no end");
    return found;
}

int main(void) {
    for (unsigned form = 0; form < FORMS; form++) {
        size_t all, found = atomics(form, FH_HEAP_PRIVATE, &all);
        printf("%s: %zu atomic instructions of %zu in a private heap\n", form_name[form], found, all);
        CHECK(all > 500 && found == 0, "%s: %zu atomic instructions of %zu", form_name[form], found, all);
        if (form == FRAMES) continue;
        found = atomics(form, 0, &all);
        printf("%s: %zu atomic instructions of %zu in a heap of all threads\n", form_name[form], found, all);
        /* The first blocks of an extent wait in the thread's stripe after that, and each hit has none. */
        CHECK(form == GROWN ? found == 0 : found >= ROUNDS, "%s: %zu atomic instructions of %zu were seen",
              form_name[form], found, all);
    }
    return 0;
}
#else
int main(void) {
    skip_test("instructions of this machine are not looked at");
    return 0;
}
#endif
