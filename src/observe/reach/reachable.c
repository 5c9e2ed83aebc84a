#include "observe/reach/reachable.h"

#include "base/bits.h"
#include "observe/reach/scan.h"
#include "system/inspect.h"
#include "system/system.h"

#include <errno.h>

/* The scan that is under way:
 *
 *     0 ──▶ FORKING | own number (a thread is at it) ──▶ the copy's process number ──▶ 0 (its end was seen)
 *
 * Each step by compare-and-swap or by the one who has it. In the child of a fork of the program's it is the parent's: then
 * the number is another, or the kernel says that it knows of no such child. */
static fh_word scanning;
#define FORKING (UINT64_C(1) << 63)

/* A copy that was killed says nothing; so it is asked after now and then, by a system call. */
#define POLLS_APART 16u
static fh_word polls;

/* ── In the copy ─────────────────────────────────────────────────────────────────────────────────────────────────── */

/* What the copy needs of the profile file. Its addresses are noted before, because the copy counts as a child: there the
 * file is said to be the parent's, which it is. */
typedef struct {
    fh_profile_scan *answer;
    uint64_t number;
    const fh_reach_samples *samples;
} request;

static void judge(const request *q, const fh_reach *r, fh_profile_sample *sample) {
    bool live;
    uint64_t seen = fh_load(fh_profile_word(&sample->reached)), born_ns = sample->born_ns;
    /* acquire: the birth of the sample that has this address, or of a later one, which has another verdict. */
    uintptr_t address = (uintptr_t)fh_load_acquire(fh_profile_word(&sample->address));
    /* The program continues, and changes the table: what is younger than the copy is not in it. */
    if (address <= 1 || born_ns >= q->answer->begun_ns) return;
    bool reached = fh_reach_reached(r, address, &live);
    if (!live) return;
    /* A block that was freed meanwhile has the time of that here, and the place may have another sample. */
    uint64_t verdict = fh_profile_reached_word(born_ns, q->number << 1 | reached);
    if (!fh_cas_acq_rel(fh_profile_word(&sample->reached), &seen, verdict)) return;
    q->answer->samples_reachable += reached;
    q->answer->samples_unreachable += !reached;
}

static int scan(const request *q, uintptr_t stack) {
    fh_snapshot_settle();
    fh_reach *r = fh_reach_begin(q->answer);
    if (!r) return ENOMEM;
    if (!fh_reach_follow(r, stack)) return ENOENT;
    fh_reach_count(r, q->answer);
    const fh_reach_samples *s = q->samples;
    for (unsigned k = 0; k < s->extents; k++) {
        for (uint64_t i = 0; i < s->slots[k]; i++) judge(q, r, &s->extent[k][i]);
    }
    return 0;
}

static uint64_t check_of(const fh_profile_scan *a) {
    const size_t begin = offsetof(fh_profile_scan, root_bytes), end = offsetof(fh_profile_scan, searched_so_far);
    uint64_t h = fh_profile_check(0, &a->number, sizeof a->number);
    h = fh_profile_check(h, &a->begun_ns, sizeof a->begun_ns);
    h = fh_profile_check(h, &a->scan_ns, sizeof a->scan_ns);
    h = fh_profile_check(h, (const char *)a + begin, end - begin);
    return fh_profile_checked(fh_profile_check(h, a->row, sizeof a->row));
}

_Noreturn static void answer(const request *q, uintptr_t stack) {
    uint64_t begun = fh_system_nanoseconds();
    fh_store(fh_profile_word(&q->answer->pid), fh_system_pid());
    int error = scan(q, stack);
    q->answer->scan_ns = fh_system_nanoseconds() - begun;
    fh_store(fh_profile_word(&q->answer->error), (uint64_t)error);
    q->answer->check = check_of(q->answer);
    /* release: the whole answer before it counts. */
    fh_store_release(fh_profile_word(&q->answer->state), error ? FH_PROFILE_SCAN_FAILED : FH_PROFILE_SCAN_DONE);
    fh_snapshot_end();
}

/* ── In the program ──────────────────────────────────────────────────────────────────────────────────────────────── */

static void clear(fh_profile_scan *a) {
    a->scan_ns = a->root_bytes = a->block_bytes = a->skipped_bytes = 0;
    a->reachable_blocks = a->reachable_bytes = a->unreachable_blocks = a->unreachable_bytes = 0;
    a->huge_reachable = a->huge_unreachable = a->samples_reachable = a->samples_unreachable = 0;
    fh_store(fh_profile_word(&a->searched_so_far), 0);
    fh_store(fh_profile_word(&a->reached_so_far), 0);
    for (unsigned c = 0; c < FH_PROFILE_CLASSES; c++) a->row[c].reachable = a->row[c].unreachable = 0;
    fh_store(fh_profile_word(&a->error), 0);
    fh_store(fh_profile_word(&a->fork_ns), 0);
    fh_store(fh_profile_word(&a->pid), 0);
}

/* Its frame is the lowest that the copy reads: what the callers keep in registers is on the stack above. */
__attribute__((noinline)) static void begin(fh_profile_scan *a, uint64_t number, const fh_reach_samples *samples) {
    __builtin_unwind_init();
    request q = {.answer = a, .number = number, .samples = samples};
    fh_store(fh_profile_word(&a->state), FH_PROFILE_SCAN_RUNNING);
    clear(a);
    uint64_t begun = fh_system_nanoseconds();
    fh_store(fh_profile_word(&a->begun_ns), begun);
    /* release: a reader who finds its number finds RUNNING, and the old answer gone. */
    fh_store_release(fh_profile_word(&a->number), number);
    long process = fh_snapshot_fork();
    if (process == 0) answer(&q, (uintptr_t)&q);
    uint64_t held_up = fh_system_nanoseconds() - begun;
    a->fork_check = fh_profile_checked(fh_profile_check(0, &held_up, sizeof held_up));
    fh_store(fh_profile_word(&a->fork_ns), held_up);
    if (process < 0) {
        fh_store(fh_profile_word(&a->error), (uint64_t)-process);
        fh_store_release(fh_profile_word(&a->state), FH_PROFILE_SCAN_FAILED);
    }
    /* release: for the thread that sees its end. */
    fh_store_release(&scanning, process < 0 ? 0 : (uint64_t)process);
}

/* Finds out whether the copy has ended. One that ended without an answer was killed. */
static void check_end(fh_profile_scan *a, uint64_t process) {
    uint64_t state = fh_load_acquire(fh_profile_word(&a->state));
    bool running = state == FH_PROFILE_SCAN_RUNNING;
    if (running && fh_add_relaxed(&polls, 1) % POLLS_APART) return;
    if (!fh_snapshot_ended((long)process)) return;
    if (running && fh_load(fh_profile_word(&a->pid)) == process) {
        fh_store(fh_profile_word(&a->error), EINTR);
        uint64_t seen = FH_PROFILE_SCAN_RUNNING;
        /* It may have written its answer after we read the state, before its end. */
        (void)fh_cas_acq_rel(fh_profile_word(&a->state), &seen, FH_PROFILE_SCAN_FAILED);
    }
    (void)fh_cas_acq_rel(&scanning, &process, 0);
}

bool fh_reachable_is_due(const fh_profile_header *profile) {
    /* relaxed: both are hints until the compare-and-swap below. */
    return fh_load(&scanning) != 0 || fh_reachable_is_asked(profile);
}

void fh_reachable_poll(fh_profile_header *profile, const fh_reach_samples *samples) {
    fh_profile_scan *a = fh_profile_answer(profile);
    uint64_t asked = fh_load(fh_profile_word(&fh_profile_controls(profile)->scan)), process = fh_load(&scanning);
    if (process == 0 && !fh_reachable_is_asked(profile)) return;
    if (process & FORKING) {
        /* Another thread's; or it was, in the parent. */
        if ((process & ~FORKING) != fh_system_pid()) (void)fh_cas_acq_rel(&scanning, &process, 0);
    } else if (process) {
        check_end(a, process);
    } else if (fh_cas_acq_rel(&scanning, &process, FORKING | fh_system_pid())) {
        /* acq_rel: of two threads one forks. */
        begin(a, asked, samples);
    }
}
