/* Nobody blocks: a thread is stopped for ever at each step of the shared protocols in turn, and the others go on.
 *
 * A step is an atomic operation of store/ or cache/ (proof/include/base/atomic.h lists all of them). For each one that the
 * workload reaches, this program runs itself again: the victim works until it comes to that step and never goes on. Then
 * two other threads allocate and free, all kinds of blocks, enough to need fresh slabs and chunks on the way; at the end
 * they free everything, and the memory that is then not back must be no more than the parked thread may hold:
 *
 *     its own live blocks, its magazines (2 MiB at most), the slots of one chunk that it has claimed in order to purge or
 *     to use them (4 MiB), and as much once more, hidden by a mark that it was about to set or clear
 *
 * FREEHOLD_SOAK set: 10^6 allocations for each step; otherwise FREEHOLD_STALL_OPERATIONS or 20,000. */
#include "base/atomic.h"
#include "freehold/freehold.h"
#include "store/purge.h"
#include "../support/check.h"

#include <pthread.h>
#include <sys/wait.h>

#define BOUND ((size_t)12 << 20)
#define OTHERS 2

extern fh_proof_site __start_fh_proof_sites[], __stop_fh_proof_sites[];

static const fh_proof_site *stop_at; /* the victim's last step; NULL: it goes through */
static __thread int is_victim;
static unsigned long stop_after; /* and how often it passes it before */
static volatile int parked;
static volatile size_t
    victim_live; /* bytes of the blocks that the victim has, and of one that it is about to get or give */

/* Two sites are one if they have one name: a function of a header is compiled into several files. */
static int same_site(const fh_proof_site *a, const fh_proof_site *b) {
    return a->line == b->line && strcmp(a->file, b->file) == 0 && strcmp(a->operation, b->operation) == 0;
}

void fh_proof_step(fh_proof_site *site, const void *word, int writes) {
    (void)word, (void)writes;
    if (!is_victim) return;
    site->hits++;
    if (!stop_at || (site != stop_at && !same_site(site, stop_at)) || stop_after-- > 0) return;
    __atomic_store_n(&parked, 1, __ATOMIC_SEQ_CST);
    for (;;) pause();
}

/* Sizes of every kind: fine, coarse, long slabs, cached runs, large, huge; blocks live at once; how many of a kind. */
typedef struct {
    size_t size;
    unsigned live;
} kind;
static const kind victims_kinds[] = {{16, 3000},    {64, 3000},   {1024, 200},  {40000, 8},   {131072, 3},
                                     {1048576, 24}, {1500000, 1}, {3000000, 3}, {20000000, 2}};
static const kind others_kinds[] = {{16, 20000},   {64, 20000},  {1024, 6000}, {40000, 200}, {131072, 40},
                                    {1048576, 24}, {1500000, 4}, {3000000, 2}, {20000000, 1}};
#define KINDS (sizeof victims_kinds / sizeof victims_kinds[0])

/* Allocates so many of a kind, writes to each, and frees them in another order. Returns how many. */
static unsigned long round_of(kind k, void **block, uint64_t *seed) {
    for (unsigned i = 0; i < k.live; i++) {
        if (is_victim) victim_live += k.size;
        block[i] = fh_malloc(k.size);
        CHECK(block[i] != NULL, "no block of %zu bytes", k.size);
        memset(block[i], 0x5A, k.size < 64 ? k.size : 64);
    }
    for (unsigned i = k.live; i > 1; i--) {
        unsigned j = (unsigned)random_below(seed, i);
        void *swap = block[i - 1];
        block[i - 1] = block[j];
        block[j] = swap;
    }
    for (unsigned i = 0; i < k.live; i++) {
        /* A few stay while the heap is trimmed, so that there are slabs with little in them. */
        if (is_victim && i == k.live - k.live / 64 - 1) fh_malloc_trim(0);
        fh_free(block[i]);
        if (is_victim) victim_live -= k.size;
    }
    return k.live;
}

static void *short_lived(void *none) {
    is_victim = 1;
    fh_free(fh_malloc(100));
    return none;
}

/* The victim does everything once, so that it comes by every step that one thread can reach. */
static void *victim(void *pool) {
    is_victim = 1;
    uint64_t seed = 1;
    for (unsigned repeat = 0; repeat < 2; repeat++) {
        for (unsigned k = 0; k < KINDS; k++) round_of(victims_kinds[k], pool, &seed);
        victim_live += 6000000;
        void *p = fh_malloc(100000);
        p = fh_realloc(p, 300000);
        p = fh_realloc(p, 150000);
        p = fh_realloc(p, 3000000);
        p = fh_realloc(p, 6000000);
        fh_free(p);
        victim_live -= 6000000;
        fh_free(fh_aligned_alloc(1 << 18, 1 << 18));
        fh_thread_flush();
        fh_malloc_trim(0);
        pthread_t other;
        if (pthread_create(&other, NULL, short_lived, NULL) == 0) pthread_join(other, NULL);
    }
    __atomic_store_n(&parked, 2, __ATOMIC_SEQ_CST);
    return NULL;
}

static unsigned long wanted = 20000;

static void *other(void *pool) {
    uint64_t seed = 2;
    unsigned long done = 0;
    while (done < wanted) {
        for (unsigned k = 0; k < KINDS; k++) done += round_of(others_kinds[k], pool, &seed);
    }
    return NULL;
}

/* One run: the victim until it is parked or through, then the others, then the account. */
static void run(size_t index, unsigned long after) {
    stop_at = index == SIZE_MAX ? NULL : &__start_fh_proof_sites[index];
    stop_after = after;
    alarm((unsigned)(60 + wanted / 5000));
    void **pools = calloc((OTHERS + 1) * (size_t)20000, sizeof *pools); /* the system's: no blocks of ours */
    CHECK(pools != NULL, "no memory for the test itself");
    pthread_t first, thread[OTHERS];
    pthread_create(&first, NULL, victim, pools);
    while (!__atomic_load_n(&parked, __ATOMIC_SEQ_CST)) usleep(200);
    for (int i = 0; i < OTHERS; i++) pthread_create(&thread[i], NULL, other, pools + (i + 1) * 20000);
    for (int i = 0; i < OTHERS; i++) pthread_join(thread[i], NULL);
    fh_malloc_trim(0);
    size_t left = fh_purge_used_bytes() + fh_purge_dirty_bytes();
    if (parked == 1) {
        CHECK(left <= BOUND + victim_live + victim_live / 8, "%s:%d %s: %zu KiB did not come back", stop_at->file,
              stop_at->line, stop_at->operation, left >> 10);
    }
    printf("%d %zu\n", parked, left >> 10);
}

/* Runs this program for one step and says what it answered: 1 parked, 2 never came there; 0 failed. */
static int child(const char *self, size_t index, unsigned long after) {
    char number[32], times[32];
    snprintf(number, sizeof number, "%zu", index);
    snprintf(times, sizeof times, "%lu", after);
    int pipes[2];
    if (pipe(pipes) != 0) return 0;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[1], 1);
        execl(self, self, number, times, (char *)NULL);
        _exit(3);
    }
    close(pipes[1]);
    char answer[64] = {0};
    ssize_t got = read(pipes[0], answer, sizeof answer - 1);
    close(pipes[0]);
    int status;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || got < 1) {
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
            fprintf(stderr, "somebody waits for the parked thread\n");
        return 0;
    }
    return answer[0] - '0';
}

static int is_shared(const fh_proof_site *s) {
    return strstr(s->file, "/store/") || strstr(s->file, "/cache/");
}

int main(int count, char **argument) {
    wanted = getenv("FREEHOLD_SOAK") ? 1000000 : env_number("FREEHOLD_STALL_OPERATIONS", 20000);
    if (count > 2) {
        run(strtoull(argument[1], NULL, 10), strtoul(argument[2], NULL, 10));
        fflush(stdout);
        _exit(0);
    }
    size_t sites = (size_t)(__stop_fh_proof_sites - __start_fh_proof_sites), distinct = 0, stopped = 0, failed = 0;
    for (size_t i = 0; i < sites; i++) {
        fh_proof_site *s = &__start_fh_proof_sites[i];
        int before = 0;
        for (size_t j = 0; j < i && !before; j++) before = same_site(&__start_fh_proof_sites[j], s);
        if (before || !is_shared(s)) continue;
        distinct++;
        /* The first time that it comes there, and one of the later: with a heap that is in use. */
        static const unsigned long times[] = {0, 40};
        for (unsigned t = 0; t < 2; t++) {
            int answer = child(argument[0], i, times[t]);
            if (answer == 0) {
                fprintf(stderr, "FAILED with a thread parked at %s:%d %s, time %lu\n", s->file, s->line, s->operation,
                        times[t] + 1);
                failed++;
            }
            if (answer == 2 && t == 0) printf("not reached: %s:%d %s\n", s->file, s->line, s->operation);
            if (answer != 1) break;
            stopped += t == 0;
        }
    }
    printf("%zu steps of the shared protocols, a thread parked at %zu of them, %zu failed\n", distinct, stopped,
           failed);
    fflush(stdout);
    CHECK(failed == 0, "%zu steps hold up other threads or their memory", failed);
    CHECK(distinct >= 50 && stopped * 10 >= distinct * 6, "only %zu of %zu steps were reached", stopped, distinct);
    return 0;
}
