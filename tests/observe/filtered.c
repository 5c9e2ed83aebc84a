/* Runs a program under a filter of system calls by which fallocate ends with that error. 1: it is forbidden, as in some
 * containers. 4: a signal has interrupted it, each time, as in a program whose timer ticks faster than memory can be had.
 * filtered ERRNO PROGRAM ARGUMENTS... */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int arguments, char **argument) {
    unsigned error = arguments > 2 ? (unsigned)atoi(argument[1]) : 0;
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    if (error == 0) return 2;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("no filter");
        return 77;
    }
    execv(argument[2], argument + 2);
    perror(argument[2]);
    return 1;
}
