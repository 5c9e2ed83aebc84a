#include "observe/observe.h"

#include "base/hooks.h"
#include "base/settings.h"
#include "cache/alloc.h"
#include "cache/observed.h"
#include "observe/heaps.h"
#include "observe/modules.h"
#include "observe/nodes.h"
#include "observe/profile_file.h"
#include "observe/reach/reachable.h"
#include "observe/refresh.h"
#include "observe/samples.h"
#include "observe/sampling.h"
#include "observe/sites.h"
#include "observe/unwind/stack.h"
#include "store/guarded.h"
#include "system/inspect.h"
#include "system/system.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Frames of a stack that are kept: those nearest to the allocation. */
#define MOST_FRAMES 128u

/* Slow paths of a thread between two readings of the clock. */
#define POLLS 16u

/* The child of a fork makes a profile file when it has a sample to enter, or has lived for this long: most children call
 * exec or _exit before, and would leave a file behind. */
#define CHILD_NS UINT64_C(100000000)

/* ── The profile file ────────────────────────────────────────────────────────────────────────────────────────────── */

/* This process's file, NULL if it has none. The first thread that finds its parent's lets go of that. */
static fh_profile_header *own_profile(void) {
    fh_profile_header *profile = fh_profile();
    if (FH_LIKELY(profile) || !fh_profile_is_parents() || !fh_profile_leave()) return profile;
    fh_nodes_clear();
    fh_sites_clear();
    fh_heap_names_clear();
    fh_modules_clear();
    fh_refresh_clear();
    fh_profile_left();
    return NULL;
}

static fh_profile_header *begin_profile(void) {
    fh_profile_header *profile = own_profile();
    return profile ? profile : fh_profile_begin();
}

/* The file, made if it is time for one. A program that is only guarded has none. */
static fh_profile_header *profile_by_now(bool read_clock) {
    static fh_word child_since;
    fh_profile_header *profile = own_profile();
    if (!profile && !FH_SETTING(observe)) return NULL;
    if (profile || !fh_profile_is_childs()) return profile ? profile : fh_profile_begin();
    if (!read_clock) return NULL;
    uint64_t now = fh_system_nanoseconds(), since = fh_load(&child_since);
    if (!since || now < since) fh_store(&child_since, since = now);
    return now - since > CHILD_NS ? fh_profile_begin() : NULL;
}

/* ── Threads ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A sample's word has room for no longer interval, and with one of 256 TiB nothing is sampled. */
static uint64_t bounded(uint64_t interval) {
    uint64_t most = fh_profile_plain(~UINT64_C(0));
    return interval < most ? interval : most;
}

/* The wanted mean number of bytes between two samples; 0: none. */
static uint64_t wanted_interval(const fh_profile_control *control) {
    uint64_t asked = control ? fh_load((const fh_word *)&control->wanted_interval) : FH_PROFILE_INTERVAL_AS_STARTED;
    if (asked != FH_PROFILE_INTERVAL_AS_STARTED) return bounded(asked);
    return FH_SETTING(observe) ? bounded(FH_SETTING(sample)) : 0;
}

/* One draw serves samples and guards. A thread counts down what it draws; each allocation takes its bytes and block_weight.
 *
 *     samples alone   weight 0: exponential, mean T bytes (sampling.h)
 *     both            weight w = T/N: exponential, mean T. Each block is n + w long, and the draw falls into its n bytes (a
 *                     sample, with the same probability as ever) or into its w (a guard, one block in N)
 *     guards alone    weight 2^40: of each N allocations one, each with the same probability. All the bytes between two
 *                     draws are less than one weight, so that they do not count */
#define GUARDS_ALONE (~UINT64_C(0) - 1) /* as an interval */
#define ALONE_SHIFT 40u

static uint64_t or_guards(uint64_t interval) {
    return interval == 0 && fh_load(&fh_guarded.one_in) ? GUARDS_ALONE : interval;
}

static uint64_t weight_for(uint64_t interval) {
    uint64_t one_in = fh_load(&fh_guarded.one_in);
    if (one_in == 0 || interval == 0) return 0;
    return interval == GUARDS_ALONE ? UINT64_C(1) << ALONE_SHIFT : (interval + one_in - 1) / one_in;
}

/* The next one of a round of N, and N − 1 − that many more to the next round. */
static uint64_t draw_guard(fh_thread *t) {
    uint64_t one_in = fh_load(&fh_guarded.one_in);
    if (one_in == 0) return INT64_MAX;
    uint64_t before = t->guard_left, chosen = fh_random(&t->random) % one_in;
    t->guard_left = one_in - 1 - chosen;
    return ((before + chosen + 1) << ALONE_SHIFT) - 1;
}

/* Of a thread with decoys. One that is in a scope of a heap has no bins at all, and goes the long way each time. */
static void count_down_from(int64_t bytes) {
    if (FH_LIKELY(fh_is_observed())) fh_here.bytes_until_sample = bytes;
}

static void draw(fh_thread *t, uint64_t interval) {
    uint64_t distance = interval == GUARDS_ALONE ? draw_guard(t) : fh_sampling_distance(&t->random, interval);
    t->weight_left = (int64_t)distance;
    count_down_from(t->block_weight ? 0 : (int64_t)distance);
}

/* Draws a distance for thread t. What it had left of the last one is dropped, which changes nothing: an exponential
 * distance has no memory, and a round of guards begins again. */
static void start(fh_thread *t, uint64_t interval) {
    if (!t->interval) {
        /* Another state for each thread, and for each child of a fork. */
        t->random = (uintptr_t)t ^ fh_system_nanoseconds() << 16 ^ (uint64_t)t->number << 48;
        (void)fh_random(&t->random);
        t->system_number = fh_system_thread_number();
    }
    t->interval = interval;
    t->guard_left = 0;
    fh_thread_observe(t, interval != 0);
    if (fh_is_observed()) t->block_weight = weight_for(interval);
    if (interval) draw(t, interval);
}

/* What every slow path pays: thirty instructions, and one load of each word by which the command may want something. */
static bool is_wanted(fh_profile_header *profile, const fh_thread *t) {
    const fh_profile_control *control = fh_profile_controls(profile);
    return or_guards(wanted_interval(control)) != t->interval || fh_refresh_is_asked(control) ||
           fh_reachable_is_asked(profile);
}

static void poll_reachable(fh_profile_header *profile) {
    if (FH_LIKELY(!fh_reachable_is_due(profile))) return;
    fh_reach_samples samples;
    samples.extents = fh_samples_extents(samples.extent, samples.slots);
    fh_reachable_poll(profile, &samples);
}

/* Of two threads that see different ones, each may write one word: the next that comes by writes both again. */
static void show_interval(fh_profile_control *control, uint64_t interval) {
    fh_word *shown = fh_profile_word(&control->interval), *again = fh_profile_word(&control->interval_again);
    if (FH_LIKELY(fh_load(shown) == interval && fh_load(again) == ~interval)) return;
    fh_store(shown, interval);
    fh_store(again, ~interval);
}

void fh_hook_observe(fh_thread *t) {
    bool read_clock = t->polls++ % POLLS == 0;
    fh_profile_header *profile = own_profile();
    if (FH_LIKELY(profile && !read_clock && !is_wanted(profile, t))) return;
    profile = profile_by_now(read_clock);
    fh_profile_control *control = profile ? fh_profile_controls(profile) : NULL;
    uint64_t interval = fh_profile_failed() ? 0 : wanted_interval(control), drawn_by = or_guards(interval);
    if (FH_UNLIKELY(t->interval != drawn_by)) start(t, drawn_by);
    if (!control) return;
    show_interval(control, interval);
    fh_refresh(profile, read_clock ? FH_REFRESH_IF_DUE : FH_REFRESH_IF_ASKED);
    poll_reachable(profile);
}

/* ── Samples ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* By what the calling thread has drawn. Just forked: in the parent, where it was as it is here. */
static uint64_t drawn_interval(const fh_thread *t) {
    return t->interval ? t->interval : or_guards(FH_SETTING(observe) ? bounded(FH_SETTING(sample)) : 0);
}

uint64_t fh_observe_draw(void) {
    fh_thread *t = fh_own();
    uint64_t interval = drawn_interval(t);
    if (interval) {
        draw(t, interval);
    } else {
        count_down_from(INT64_MAX);
    }
    return interval == GUARDS_ALONE ? 0 : interval;
}

/* Where in the block and its weight the draw fell. */
bool fh_observe_draws_guard(void) {
    if (drawn_interval(fh_own()) == GUARDS_ALONE) return true;
    const fh_thread *t = fh_own();
    return t->block_weight != 0 && t->weight_left >= -(int64_t)t->block_weight;
}

static void count(uint64_t *counter) {
    fh_add_relaxed(fh_profile_word(counter), 1);
}

void fh_observe_lost(void) {
    fh_profile_header *profile = begin_profile();
    if (!profile) return;
    count(&fh_profile_controls(profile)->taken);
    count(&fh_profile_controls(profile)->lost_samples);
}

/* The site of the stack that begins at the frame, in heaps of that name; 0: no room. */
static uint32_t site_of(fh_profile_header *profile, const void *frame, uint32_t heap) {
    fh_profile_control *control = fh_profile_controls(profile);
    uintptr_t stack[MOST_FRAMES];
    bool whole = false, lost;
    unsigned depth = fh_stack_walk(stack, MOST_FRAMES, frame, &whole);
    fh_modules_enter(profile, false);
    uint32_t node = fh_nodes_of(stack, depth, whole, &lost);
    if (!whole) count(&control->short_stacks);
    if (lost) count(&control->lost_stacks);
    return fh_site_of(node, heap);
}

/* The sample of a block that is in the heap, or in none (NULL). */
static void enter(fh_heap *heap, const void *p, size_t n, uint64_t interval, const void *frame) {
    fh_profile_header *profile = begin_profile();
    if (!profile) return;
    fh_profile_control *control = fh_profile_controls(profile);
    uint32_t site = site_of(profile, frame, heap ? fh_heap_name_of(heap) : 0);
    fh_profile_sample sample = {
        .address = (uintptr_t)p,
        .size = n,
        .drawn = n,
        .interval = interval,
        .born_ns = fh_system_nanoseconds(),
        .site = site,
        .thread = fh_own()->system_number,
        .mark = (uint32_t)fh_load(fh_profile_word(&control->mark)),
        .heap = heap ? fh_heap_number(heap) : 0,
    };
    count(&control->taken);
    if (!site || !fh_samples_enter(&sample)) {
        count(&control->lost_samples);
        return;
    }
    fh_weight w = fh_sampling_weight(n, n, interval);
    fh_site_allocated(control, site, &w, sample.born_ns);
    /* relaxed: who frees the block has got it from this thread, and so the bit as well. */
    if (heap) fh_or_relaxed(&heap->sampled, fh_sampled_bit(p));
}

void fh_observe_sampled(const void *p, size_t n, uint64_t interval, const void *frame) {
    enter(NULL, p, n, interval, frame);
}

void fh_observe_heap_block(fh_heap *heap, const void *p, size_t n, const void *frame) {
    int error = errno;
    fh_thread *t = fh_thread_enter();
    fh_thread_leave(t);
    fh_profile_header *profile = own_profile();
    uint64_t interval = t ? wanted_interval(profile ? fh_profile_controls(profile) : NULL) : 0;
    if (interval && fh_sampling_draws(&t->random, n, interval)) enter(heap, p, n, interval, frame);
    errno = error;
}

static void drop(uint64_t address, void *arg) {
    (void)arg;
    fh_hook_freed((const void *)(uintptr_t)address, false);
}

void fh_hook_heap_cleared(uint32_t number) {
    if (own_profile()) fh_samples_each_of(number, drop, NULL);
}

static fh_weight weight_of(const fh_profile_sample *s) {
    return fh_sampling_weight(s->size, fh_profile_plain(s->drawn), fh_profile_plain(s->interval));
}

void fh_hook_freed(const void *p, bool surely) {
    fh_profile_header *profile = own_profile();
    if (!profile) return;
    fh_profile_control *control = fh_profile_controls(profile);
    fh_profile_sample sample;
    uint64_t now = fh_system_nanoseconds();
    if (!fh_samples_remove((uintptr_t)p, now, &sample)) {
        if (surely) count(&control->unknown_frees);
        return;
    }
    fh_weight w = weight_of(&sample);
    fh_site_freed(control, sample.site, &w, now, sample.born_ns);
}

void fh_hook_resized(const void *p, size_t n) {
    fh_profile_header *profile = own_profile();
    fh_profile_sample *sample = profile ? fh_samples_find((uintptr_t)p) : NULL;
    if (!sample || fh_load(fh_profile_word(&sample->size)) == n) return;
    fh_weight before = weight_of(sample);
    fh_store(fh_profile_word(&sample->size), n);
    fh_weight after = weight_of(sample);
    uint64_t now = fh_system_nanoseconds(), age = now > sample->born_ns ? now - sample->born_ns : 0;
    fh_site_resized(fh_profile_controls(profile), sample->site, &before, &after, age);
}

void fh_hook_moving(const void *p) {
    if (own_profile()) fh_samples_rename((uintptr_t)p, (uintptr_t)p + 1);
}

void fh_hook_stayed(const void *p) {
    if (own_profile()) fh_samples_rename((uintptr_t)p + 1, (uintptr_t)p);
}

/* ── Faults ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

void fh_observe_fault(fh_profile_fault *fault) {
    fh_profile_header *profile = FH_SETTING(observe) ? begin_profile() : own_profile();
    if (!profile) return;
    fh_profile_fault *file = fh_profile_fault_of(profile);
    fh_word *written = fh_profile_word(&file->written);
    uint64_t none = 0;
    /* relaxed: what is guarded is that one thread only writes it. */
    if (fh_load(written) || !fh_cas_relaxed(written, &none, FH_PROFILE_FAULT_BEGUN)) return;
    fh_modules_enter(profile, true);
    const size_t from = offsetof(fh_profile_fault, ns);
    fault->check = fh_profile_checked(fh_profile_check(0, (const char *)fault + from, sizeof *fault - from));
    memcpy((char *)file + offsetof(fh_profile_fault, check), &fault->check,
           sizeof *fault - offsetof(fh_profile_fault, check));
    fh_store_release(written, FH_PROFILE_FAULT_WRITTEN); /* release: all of it before */
}

/* ── The process ─────────────────────────────────────────────────────────────────────────────────────────────────── */

void fh_hook_observe_refusal(void) {
    fh_profile_header *profile = own_profile();
    if (profile) fh_refresh(profile, FH_REFRESH_SOON);
}

void fh_hook_observe_fork(void) {
    fh_profile_forked();
}

void fh_observe_end(void) {
    fh_profile_header *profile = own_profile();
    if (!profile) return;
    fh_refresh(profile, FH_REFRESH_NOW);
    fh_profile_end();
}
