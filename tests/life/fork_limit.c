/* A fork under a hard limit, while other threads are about to claim memory, and while the forking thread itself is: in a
 * signal handler, or in the limit's callback. The child can have all of its limit: what threads that it does not have were
 * about to claim is not held against it.
 *
 * The linker puts a pause between admission and the books (fh_event_claimed), so that each fork meets threads there. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { THREADS = 6, FORKS = 40, SIGNALS = 10, CHILD_SECONDS = 60 };

/* The reserve is for small blocks. A block below takes two slots of 64 KiB, and edges of large blocks are shared. */
static const size_t limit = (size_t)64 << 20, reserve = (size_t)4 << 20, block = 100000, slack = (size_t)256 << 10;

static atomic_bool stop;
static atomic_uint inside; /* threads that were admitted and have not claimed yet */
static __thread bool pauses, forks_inside;
static __thread unsigned forked;

/* ── The child ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static size_t in_use(void) {
    static char json[1 << 16];
    const char *name = "\"limit_in_use\"";
    CHECK(fh_stats_json(json, sizeof json) < sizeof json, "statistics are longer than %zu bytes", sizeof json);
    const char *place = strstr(json, name);
    CHECK(place, "no limit_in_use in the statistics");
    return strtoull(place + strlen(name) + 1, NULL, 10);
}

/* Takes blocks until one is refused: then no such block fits. */
static void have_it_all(const char *how) {
    static void *held[1024];
    unsigned n = 0;
    while (n < 1024 && (held[n] = t_malloc(block)) != NULL) n++;
    CHECK(n < 1024, "%s: the limit refuses nothing", how);
    size_t used = in_use();
    CHECK(used <= limit, "%s: %zu KiB are in use of a limit of %zu", how, used >> 10, limit >> 10);
    CHECK(used + slack > limit - reserve, "%s: a block is refused where %zu KiB are in use of a limit of %zu", how,
          used >> 10, limit >> 10);
    while (n > 0) t_free(held[--n]);
}

static void wait_for(pid_t pid, const char *how) {
    int status = 0;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "%s: no child", how);
    CHECK(status == 0, "%s: the child ended with status %#x", how, (unsigned)status);
}

/* ── Between admission and the books ─────────────────────────────────────────────────────────────────────────────── */

static void fork_now(int signal) {
    (void)signal;
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    forked++;
    if (pid == 0) {
        alarm(CHILD_SECONDS);
        forks_inside = false;
        forked = ~0u; /* this is the child: the claim goes on, and then it is asked */
        return;
    }
    wait_for(pid, "forked within a claim");
}

void __real_fh_event_claimed(size_t slots, size_t dirty, size_t purged);
void __wrap_fh_event_claimed(size_t slots, size_t dirty, size_t purged);
void __wrap_fh_event_claimed(size_t slots, size_t dirty, size_t purged) {
    if (pauses) {
        atomic_fetch_add(&inside, 1);
        usleep(2000);
        atomic_fetch_sub(&inside, 1);
    }
    if (forks_inside) raise(SIGUSR1);
    __real_fh_event_claimed(slots, dirty, purged);
}

/* ── Who forks ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static void *claim_and_release(void *number) {
    uint64_t random = (uintptr_t)number;
    pauses = true;
    while (!atomic_load(&stop)) t_free(t_malloc(((size_t)2 << 20) + random_below(&random, (size_t)2 << 20)));
    return NULL;
}

static void fork_beside_claims(void) {
    pthread_t thread[THREADS];
    unsigned met = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, claim_and_release, (void *)(i + 1)) == 0, "no thread");
    for (unsigned i = 0; i < FORKS; i++) {
        for (unsigned wait = 0; wait < 10000 && !atomic_load(&inside); wait++) usleep(100);
        met += atomic_load(&inside) != 0;
        pid_t pid = fork();
        if (pid == 0) {
            alarm(CHILD_SECONDS);
            have_it_all("forked beside claims");
            _exit(0);
        }
        wait_for(pid, "forked beside claims");
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    CHECK(met > FORKS / 2, "only %u of %d forks met a thread within a claim", met, FORKS);
}

static void fork_within_claims(void) {
    signal(SIGUSR1, fork_now);
    for (unsigned i = 0; i < SIGNALS; i++) {
        forks_inside = true;
        void *p = t_malloc(((size_t)2 << 20) + i * 100000);
        CHECK(p, "no memory below the limit");
        forks_inside = false;
        t_free(p);
        if (forked != ~0u) continue;
        have_it_all("forked within a claim");
        _exit(0);
    }
    CHECK(forked >= SIGNALS, "%u forks within a claim", forked);
}

static void fork_in_callback(size_t used, size_t met) {
    (void)used, (void)met;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(CHILD_SECONDS);
        have_it_all("forked in the callback");
        _exit(0);
    }
    wait_for(pid, "forked in the callback");
    forked++;
}

int main(void) {
    CHECK(fh_limit_set(0, limit, NULL) == 0, "the limit is not set");
    fork_beside_claims();
    fork_within_claims();
    forked = 0;
    CHECK(fh_limit_set((size_t)8 << 20, limit, fork_in_callback) == 0, "no callback");
    t_free(t_malloc((size_t)16 << 20));
    CHECK(forked, "the callback was not called");
    CHECK(fh_limit_set(0, limit, NULL) == 0, "the limit is not set");
    have_it_all("the parent");
    CHECK(t_verify() == 0, "the heap is not whole");
    printf("%d forks beside claims, %d within one\n", FORKS, SIGNALS);
    return 0;
}
