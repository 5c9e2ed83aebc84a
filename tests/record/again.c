// SPDX-License-Identifier: MIT OR Apache-2.0
// Says how it was started and what it allocated, for flight_option.rs: again MODE [WORDS]
//
//     kill    dies by SIGKILL
//     exit    ends as it should
//     _exit   ends by _exit
//     vfork   a child of vfork cannot exec and calls _exit; then as kill
//     clear   without its environment; a child of fork ends as it should, and then the program does
//     exec    becomes itself with the mode that follows
//
// A line on stdout for each word of the command line, and one each for its name, its number, and its calls of malloc.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char output[1 << 16];

int main(int argc, char **argv) {
    setvbuf(stdout, output, _IOFBF, sizeof output); // stdio allocates nothing
    const char *mode = argc > 1 ? argv[1] : "exit";
    for (int i = 0; i < 1000; i++) {
        free(malloc((size_t)i + 1));
    }
    if (strcmp(mode, "exec") == 0) {
        execv("/proc/self/exe", argv + 1);
    }
    if (strcmp(mode, "vfork") == 0) {
        pid_t child = vfork();
        if (child == 0) {
            execl("/no/such/program", "it", (char *)NULL);
            _exit(127);
        }
        waitpid(child, NULL, 0);
    }
    if (strcmp(mode, "clear") == 0) {
        int status = 1;
        clearenv();
        pid_t child = fork();
        if (child == 0) {
            exit(0);
        }
        if (waitpid(child, &status, 0) != child || status != 0) {
            return 4;
        }
    }
    char name[16];
    prctl(PR_GET_NAME, name);
    for (int i = 0; i < argc; i++) {
        printf("word %s\n", argv[i]);
    }
    printf("name %s\nnumber %ld\nmallocs 1000\n", name, (long)getpid());
    fflush(stdout);
    if (strcmp(mode, "kill") == 0 || strcmp(mode, "vfork") == 0) {
        raise(SIGKILL);
    } else if (strcmp(mode, "_exit") == 0) {
        _exit(3);
    }
    return 0;
}
