/* fh_verify finds whatever is wrong, and names it. For each equation of src/check/report.h at least one word is changed in a
 * heap that was whole, each time in a process of its own; the message must have the equation's name. */
#include "break.h"

#include "../support/check.h"

#include <freehold/freehold.h>
#include <sys/wait.h>

static bool tried[FH_EQUATIONS];

/* Calls fh_verify with what it writes to stderr in the text. */
static size_t verify_into(char *text, size_t size) {
    int both[2], before = dup(2);
    CHECK(pipe(both) == 0 && before >= 0, "no pipe");
    dup2(both[1], 2);
    size_t violated = fh_verify();
    dup2(before, 2);
    close(both[1]);
    size_t length = 0;
    for (ssize_t got; length < size - 1 && (got = read(both[0], text + length, size - 1 - length)) > 0;)
        length += (size_t)got;
    text[length] = 0;
    close(both[0]);
    return violated;
}

static void in_child(const breakage *b) {
    static char text[60000];
    break_build();
    CHECK(verify_into(text, sizeof text) == 0 && !*text, "before \"%s\" the heap is not whole:\n%s", b->what, text);
    b->how();
    size_t violated = verify_into(text, sizeof text), lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) lines++;
    CHECK(violated > 0, "%s: nothing is found", b->what);
    CHECK(lines == (violated < 100 ? violated : 100), "%s: %zu violated, %zu lines", b->what, violated, lines);
    char wanted[80];
    snprintf(wanted, sizeof wanted, "freehold: verify: %s violated: ", fh_equation_name(b->equation));
    CHECK(strstr(text, wanted), "%s: found is not %s but\n%s", b->what, fh_equation_name(b->equation), text);
    _exit(0);
}

static void run(const breakage *all, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) in_child(&all[i]);
        int status;
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "\"%s\" is not found as %s", all[i].what,
              fh_equation_name(all[i].equation));
        tried[all[i].equation] = true;
        printf("%-16s found: %s\n", fh_equation_name(all[i].equation), all[i].what);
    }
}

int main(void) {
    run(break_shared, break_shared_count);
    run(break_own, break_own_count);
    run(break_huge, break_huge_count);
    for (unsigned e = 0; e < FH_EQUATIONS; e++) {
        CHECK(tried[e], "%s is never violated here: nobody knows whether it is checked",
              fh_equation_name((fh_equation)e));
    }
    return 0;
}
