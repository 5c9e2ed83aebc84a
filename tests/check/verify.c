/* fh_verify finds whatever is wrong, and names it. For each equation of src/check/report.h at least one word is changed in a
 * heap that was whole, each time in a process of its own; the message must have the equation's name. Then: checked builds
 * find some of it by themselves. */
#include "break.h"

#include "../support/check.h"
#include "base/settings.h"
#include "cache/observed.h"
#include "store/events.h"
#include "system/system.h"

#include <freehold/freehold.h>
#include <signal.h>
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

static void each_equation(void) {
    run(break_shared, break_shared_count);
    run(break_own, break_own_count);
    for (unsigned e = 0; e < FH_EQUATIONS; e++) {
        CHECK(tried[e], "%s is never violated here: nobody knows whether it is checked",
              fh_equation_name((fh_equation)e));
    }
}

/* ── By itself ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static void one_used_less(void) {
    fh_event_dropped(1);
}
static void budget_off(void) {
    fh_own()->budget_used += BREAK_SIZE;
}

/* More slow paths than there are between two checks. */
static void allocate_much(void) {
    static void *block[20000];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 20000; i++) block[i] = fh_malloc(BREAK_SIZE);
        for (int i = 0; i < 20000; i++) fh_free(block[i]);
    }
    _exit(0);
}
static void end_process(void) {
    exit(0);
}

/* Breaks something and goes on: the process must abort if it is `checked`, with a line that says where, and must not if
 * not. */
static void by_itself(void (*how)(void), void (*then)(void), bool checked, const char *what) {
    static char text[60000];
    int ends[2], status;
    size_t length = 0;
    fflush(stdout);
    CHECK(pipe(ends) == 0, "no pipe");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 2);
        /* A child of a fork is not checked whole, as its parent may have had threads in the middle of something. */
        execl("/proc/self/exe", "test", how == budget_off ? "budget" : "used", then == end_process ? "end" : "go on",
              NULL);
        _exit(1);
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], text + length, sizeof text - 1 - length)) > 0;) length += (size_t)got;
    text[length] = 0;
    close(ends[0]);
    CHECK(waitpid(pid, &status, 0) == pid, "no child");
    if (checked) {
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
                  strstr(text, "freehold: internal: src/check/verify.c:"),
              "%s: not found, status %x\n%s", what, (unsigned)status, text);
    } else {
        CHECK(status == 0 && !*text, "%s: status %x in a build that does not check\n%s", what, (unsigned)status, text);
    }
    printf("%s: %s\n", what, checked ? "found by itself" : "this build does not look");
}

static void all_by_itself(void) {
    by_itself(budget_off, allocate_much, FH_CHECKED || FH_STRESS, "a cache is broken, and slow paths follow");
    by_itself(one_used_less, allocate_much, FH_STRESS, "the heap is broken, and slow paths follow");
    by_itself(one_used_less, end_process, FH_CHECKED || FH_STRESS, "the heap is broken, and the process ends");
}

static void be_broken(const char *what, const char *then) {
    break_build();
    (!strcmp(what, "budget") ? budget_off : one_used_less)();
    (!strcmp(then, "end") ? end_process : allocate_much)();
}

int main(int count, char **argument) {
    if (count == 3) be_broken(argument[1], argument[2]);
    if (FH_STRESS) {
        skip_part("a stress build opens and purges the slabs that were made to be broken: whether each equation is "
                  "checked is "
                  "asked of the other builds");
    } else {
        each_equation();
    }
    all_by_itself();
    return 0;
}
