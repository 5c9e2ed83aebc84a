/* A program that runs under a filter of system calls from its first instruction on, as a service of systemd does
 * (SystemCallFilter=@system-service). The library cannot be told of it. mincore is in none of systemd's lists, and what is not
 * in a list ends the process. process_madvise, uname and prctl are not in each list either.
 *
 * The program starts itself again under such a filter, and then does what purges: long blocks that are little touched, slabs
 * of which pages are free, a trim. What is free must return to the OS there too. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { BLOCKS = 200000, BLOCK = 400, LONG = 64 << 20, KEEP = 41 };

static void filter_and_exec(char **words) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mincore, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 440 /* process_madvise */, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_uname, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    char *inside[] = {words[0], "inside", NULL};
    if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) != 0 ||
        syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0L, 0L) != 0) {
        _exit(77);
    }
    execv("/proc/self/exe", inside);
    _exit(99);
}

static void use_and_free(void) {
    static char *block[BLOCKS];
    for (int i = 0; i < 20; i++) {
        char *p = t_malloc(LONG);
        CHECK(p, "64 MiB");
        p[0] = p[LONG / 2] = 1;
        t_free(p);
    }
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = t_malloc(BLOCK);
        CHECK(block[i], "block %d", i);
        memset(block[i], 1, BLOCK);
    }
    size_t before = counted_resident_bytes();
    for (int i = 0; i < BLOCKS; i++) {
        if (i % KEEP) t_free(block[i]);
    }
    t_malloc_trim(0);
    size_t now = counted_resident_bytes();
    CHECK(now < before / 2, "of %zu KiB %zu are resident, with one block in %d live", before >> 10, now >> 10, KEEP);
    for (int i = 0; i < BLOCKS; i += KEEP) t_free(block[i]);
}

int main(int count, char **words) {
    int status = 0;
    if (count == 2) {
        use_and_free();
        return 0;
    }
    pid_t child = fork();
    if (child == 0) filter_and_exec(words);
    CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip_test("no filter can be installed here");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "under the filter: status %#x", (unsigned)status);
    puts("ok");
    return 0;
}
