/* The child of a fork that comes while the victim is parked: it has one thread, and takes in what the others had. */
#include "stall.h"

#include "base/classes.h"
#include "store/events.h"
#include "store/limit.h"
#include "store/run.h"
#include "store/window.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>

/* ── Threads that leave something ────────────────────────────────────────────────────────────────────────────────── */

/* Some end before the fork, and their caches are parked. The others exist then, and are orphans in the child. No scenario
 * has blocks of these sizes, so slabs of them are what such caches keep. */
enum { ENDED = 5, THERE = 3, BLOCKS = 60 };
static const size_t size_of_ended = 6144, size_of_others = 7168;

typedef struct {
    pthread_t id;
    size_t size;
    sem_t may_end;
} leaver;

static leaver leavers[ENDED + THERE];
static sem_t have_blocks;

static void *leave_blocks(void *which) {
    leaver *me = which;
    void *block[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) CHECK((block[i] = fh_malloc(me->size)) != NULL, "no block of %zu", me->size);
    for (unsigned i = 0; i < BLOCKS; i++) fh_free(block[i]);
    sem_post(&have_blocks);
    while (sem_wait(&me->may_end) != 0) continue;
    return NULL;
}

static void end(unsigned from, unsigned to) {
    for (unsigned i = from; i < to; i++) {
        sem_post(&leavers[i].may_end);
        pthread_join(leavers[i].id, NULL);
    }
}

/* All have a cache at once, so none gets that of another. */
static void begin_leavers(void) {
    sem_init(&have_blocks, 0, 0);
    for (unsigned i = 0; i < ENDED + THERE; i++) {
        leavers[i].size = i < ENDED ? size_of_ended : size_of_others;
        sem_init(&leavers[i].may_end, 0, 0);
        CHECK(pthread_create(&leavers[i].id, NULL, leave_blocks, &leavers[i]) == 0, "no thread");
    }
    for (unsigned i = 0; i < ENDED + THERE; i++) {
        while (sem_wait(&have_blocks) != 0) continue;
    }
    end(0, ENDED);
}

static unsigned slabs_of(size_t size) {
    uint64_t state;
    unsigned n = 0, c = fh_class_of(size);
    for (size_t slot = 0; (slot = fh_next_slab(slot, &state)) != FH_NONE; slot++) n += fh_state_kind(state) == c;
    return n;
}

/* ── What the child is asked ─────────────────────────────────────────────────────────────────────────────────────── */

/* Slot by slot, to the last one that the limit allows. */
static bool can_have_its_limit(void) {
    enum { MORE = 200 };
    static size_t slots[MORE];
    size_t hard = fh_used_bytes() + MORE / 2 * FH_SLOT_SIZE;
    unsigned n = 0;
    bool clean;
    CHECK(fh_limit_set(0, hard, NULL) == 0, "the limit is not set");
    for (unsigned times = 0; times < 2; times++) {
        while (n < MORE && (slots[n] = fh_run_claim(1, 1, 0, &clean)) != FH_NONE) n++;
        fh_store(&fh_limit.reserve_is_open, 1);
    }
    bool all = n < MORE && fh_used_bytes() + FH_SLOT_SIZE > hard;
    while (n > 0) fh_run_release(slots[--n], 1, false);
    CHECK(fh_limit_set(0, 0, NULL) == 0, "the limit stays");
    return all;
}

/* One slab of each size may be out of sight: below a hint that the victim was about to set. */
static stall_answer ask(void) {
    fh_thread_flush();
    void *p = fh_malloc(size_of_ended);
    fh_free(p);
    fh_thread_flush();
    fh_malloc_trim(0);
    if (!p || slabs_of(size_of_ended) > 1) return STALL_NO_PARKED;
    if (slabs_of(size_of_others) > 1) return STALL_NO_ORPHANS;
    return can_have_its_limit() ? STALL_HAS_ALL : STALL_NOT_ITS_LIMIT;
}

stall_answer stall_ask_child(unsigned seconds, unsigned *left_caches) {
    begin_leavers();
    *left_caches = (slabs_of(size_of_ended) > 1) + (slabs_of(size_of_others) > 1);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(seconds);
        _exit(ask());
    }
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "no child");
    end(ENDED, ENDED + THERE);
    return WIFEXITED(status) && WEXITSTATUS(status) != 1 ? (stall_answer)WEXITSTATUS(status) : STALL_CHILD_DIED;
}
