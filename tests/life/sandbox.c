/* A program that sandboxes itself while it runs: from then on a filter lets only those system calls through that glibc's
 * malloc, threads and forks need. No file can be opened. Then the heap grows by some hundred MiB, is purged and trimmed,
 * threads begin and end, a limit is met, and the process forks. Over glibc the same program runs under the same filter.
 *
 * The first word says what the filter does with any other call: trap and kill end the program, errno fails the call. The
 * second says how the allocator may know: by itself, or because it was told by an option. After `unused` it is by itself, and the
 * filter is there before the first malloc. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { BLOCKS = 4000, ROUNDS = 2, MOST_REFUSED = 4000 };

/* ── The filter ──────────────────────────────────────────────────────────────────────────────────────────────────── */

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void on_sigsys(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    CHECK(false, "system call %d was made in the sandbox", info->si_syscall);
}

static void enter_sandbox(uint32_t otherwise) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        /* what glibc's malloc asks for */
        ALLOW(SYS_mmap),
        ALLOW(SYS_munmap),
        ALLOW(SYS_mremap),
        ALLOW(SYS_mprotect),
        ALLOW(SYS_brk),
        ALLOW(SYS_futex),
        ALLOW(SYS_sched_getaffinity),
        ALLOW(SYS_getrandom), /* at the first malloc */
        /* threads, forks and their ends */
        ALLOW(SYS_clone),
        ALLOW(SYS_clone3),
        ALLOW(SYS_rseq),
        ALLOW(SYS_set_robust_list),
        ALLOW(SYS_wait4),
        ALLOW(SYS_exit),
        ALLOW(SYS_exit_group),
        ALLOW(SYS_rt_sigprocmask),
        ALLOW(SYS_rt_sigreturn),
        ALLOW(SYS_getpid),
        ALLOW(SYS_gettid),
        ALLOW(SYS_tgkill),
        ALLOW(SYS_rt_sigaction),
        /* this program's own */
        ALLOW(SYS_write),
        ALLOW(SYS_clock_gettime),
        ALLOW(SYS_prlimit64),
        /* of madvise what glibc uses: MADV_DONTNEED */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_DONTNEED, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, otherwise),
    };
    struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_sigsys;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSYS, &action, NULL);
    /* As libseccomp does it. */
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "prctl");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) skip_test("no filters of system calls here");
    errno = 0;
}

/* ── What a program does ─────────────────────────────────────────────────────────────────────────────────────────── */

static void check_and_free(void *p, size_t size, uint64_t key) {
    CHECK(pattern_wrong(p, size, key) < 0, "a block of %zu bytes changed", size);
    t_free(p);
}

/* Grows by some hundred MiB of blocks of all sizes, resizes some, and frees them all. */
static void grow_and_free(uint64_t seed, unsigned count) {
    static __thread struct {
        char *block;
        size_t size;
        uint64_t key;
    } held[BLOCKS];
    for (unsigned i = 0; i < count; i++) {
        size_t size = random_below(&seed, i % 4 ? 3000 : i % 40 ? 60000 : 3000000);
        held[i].size = size;
        held[i].key = random_next(&seed);
        held[i].block = i % 3 ? t_malloc(size) : t_calloc(1, size);
        CHECK(held[i].block, "%zu bytes: NULL", size);
        pattern_fill(held[i].block, size, held[i].key);
        if (i % 80 == 0) {
            CHECK(pattern_wrong(held[i].block, size, held[i].key) < 0, "a block of %zu bytes changed", size);
            held[i].size = 4 * size + 1;
            held[i].block = t_realloc(held[i].block, held[i].size);
            CHECK(held[i].block, "%zu bytes: NULL", held[i].size);
            pattern_fill(held[i].block, held[i].size, held[i].key);
        }
    }
    for (unsigned i = 0; i < count; i++) check_and_free(held[i].block, held[i].size, held[i].key);
}

static void *run_thread(void *argument) {
    grow_and_free((uintptr_t)argument, BLOCKS / 16);
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, run_thread, (void *)i) == 0, "a thread");
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

/* Under a limit on data that leaves little: asks until there is nothing more. Afterwards all is as before. */
static void meet_limit(void) {
    static void *got[MOST_REFUSED];
    struct rlimit before, low;
    size_t n = 0;
    CHECK(getrlimit(RLIMIT_DATA, &before) == 0, "getrlimit");
    low = before;
    low.rlim_cur = (rlim_t)600 << 20;
    CHECK(setrlimit(RLIMIT_DATA, &low) == 0, "setrlimit");
    while (n < MOST_REFUSED && (got[n] = t_malloc((size_t)1 << 20))) n++;
    CHECK(n < MOST_REFUSED, "the limit was not met");
    CHECK(errno == ENOMEM, "errno is %d", errno);
    CHECK(setrlimit(RLIMIT_DATA, &before) == 0, "setrlimit");
    while (n > 0) t_free(got[--n]);
    CHECK(!t_malloc(opaque((size_t)1 << 46)), "64 TiB");
}

static void fork_child(void) {
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        grow_and_free(7, BLOCKS / 8);
        run_threads();
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the child ended with %#x", (unsigned)status);
}

int main(int count, char **words) {
    CHECK(count == 3, "usage: %s trap|kill|errno by-itself|told|unused", words[0]);
    uint32_t otherwise = strcmp(words[1], "trap") == 0   ? SECCOMP_RET_TRAP
                         : strcmp(words[1], "kill") == 0 ? SECCOMP_RET_KILL_PROCESS
                                                         : SECCOMP_RET_ERRNO | EPERM;
    if (strcmp(words[2], "unused") != 0) {
        printf("the heap lives in a sandbox: %s, %s\n", words[1], words[2]);
        fflush(stdout);
        t_free(t_malloc(1));
    }
    if (t_is_freehold() && strcmp(words[2], "told") == 0) {
        CHECK(fh_option_set("files", "start") == 0, "there is no option files=start");
    }
    /* Where a thread's arena shrinks, glibc opens /proc/sys/vm/overcommit_memory. */
    if (!t_is_freehold()) mallopt(M_ARENA_MAX, 1);
    enter_sandbox(otherwise);
    for (int i = 0; i < ROUNDS; i++) {
        grow_and_free((uint64_t)i, BLOCKS);
        t_malloc_trim(0);
        run_threads();
        fork_child();
        meet_limit();
    }
    CHECK(t_verify() == 0, "the heap is not whole");
    _exit(0);
}
