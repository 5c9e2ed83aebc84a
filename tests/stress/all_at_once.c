/* What elsewhere is tested one by one, at the same time: limits that are set, met and lifted, forks, threads that end, huge
 * blocks that grow and shrink, and options that change. Nothing may be lost.
 *
 *     workers    six at a time. Each holds blocks of all sizes, written with a pattern, and ends after some hundred calls;
 *                the next one goes on with its blocks. Some are left in mailboxes, for others to take
 *     limiter    sets a limit, sees that it is kept, and lifts it
 *     changer    changes options
 *     forker     forks. The child finds the letters whole, frees them, and can allocate what the limit leaves
 *
 * A call may be refused only while a limit is set. Under a limit that has been there for one call of each worker, what
 * the program holds and what the library counts stay below it, or below what was in use when it was set.
 *
 * After each round the heap is at rest. Every block has its bytes. The library counts the blocks and bytes that the program
 * holds, all equations hold, and when all is freed no block is out. Then a limit can be used up: none of it was lost.
 *
 * FREEHOLD_TEST_SECONDS or FREEHOLD_SOAK: how long in all. FREEHOLD_TEST_SEED: what each worker does. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"
#include "../support/whole.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>

#if !defined(T_EMBED)
extern size_t fh_stats_json(char *buffer, size_t size);
extern int fh_limit_set(size_t soft, size_t hard, void (*callback)(size_t in_use, size_t limit));
#endif

/* A child of a program with threads may start none under the thread sanitizer. */
#if defined(__SANITIZE_THREAD__)
#define THREADS_IN_CHILD false
#else
#define THREADS_IN_CHILD true
#endif

enum { WORKERS = 6, HELD = 160, MAILBOXES = 64, MOST_HUGE = 2, CHILD_SECONDS = 120, ROUND_SECONDS = 5 };
static const size_t mib = (size_t)1 << 20, dense = (size_t)64 << 10, stretch = 64, page = 4096;

struct note {
    unsigned char *block;
    size_t size, alignment;
    uint64_t key;
};

struct worker {
    pthread_t id;
    uint64_t random;
    unsigned huge;
    bool exists;
    atomic_bool ended;  /* no thread, or one that calls nothing any more */
    atomic_ulong calls; /* that have come back */
    struct note held[HELD];
};

static struct worker workers[WORKERS];
static _Atomic(struct note *) mailboxes[MAILBOXES];
static atomic_bool stop;
static atomic_uint phase;  /* odd while a limit is set, or is being set or lifted */
static atomic_size_t held; /* bytes that were asked for: added after a call, subtracted before */
static atomic_ulong threads, refusals, limits, checks, forks, changes, resizes, told;

/* ── What a block holds ──────────────────────────────────────────────────────────────────────────────────────────── */

/* Small blocks are written to the last byte, larger ones at the beginning of each page and at the end. */
static void write_block(const struct note *n) {
    if (n->size <= dense) {
        pattern_fill(n->block, n->size, n->key);
        return;
    }
    for (size_t at = 0; at + stretch <= n->size; at += page) pattern_fill(n->block + at, stretch, n->key + at);
    pattern_fill(n->block + n->size - stretch, stretch, ~n->key);
}

/* Whether the first `kept` bytes of a block that was written as `n` says are at `block`. */
static long wrong_byte(const unsigned char *block, const struct note *n, size_t kept) {
    if (n->size <= dense) return pattern_wrong(block, kept, n->key);
    size_t end = n->size - stretch;
    for (size_t at = 0; at + stretch <= kept; at += page) {
        /* The last stretch was written over what the one of its page held. */
        size_t length = at + stretch <= end ? stretch : at < end ? end - at : 0;
        long wrong = pattern_wrong(block + at, length, n->key + at);
        if (wrong >= 0) return (long)at + wrong;
    }
    long wrong = kept == n->size ? pattern_wrong(block + end, stretch, ~n->key) : -1;
    return wrong < 0 ? -1 : (long)end + wrong;
}

static void examine(const struct note *n, const char *when) {
    long wrong = wrong_byte(n->block, n, n->size);
    CHECK(wrong < 0, "%s: block %p of %zu bytes is wrong at byte %ld", when, (void *)n->block, n->size, wrong);
}

/* ── A worker ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A call has come back with nothing. */
static void refused(unsigned before, size_t size, const char *call) {
    CHECK(errno == ENOMEM, "%s of %zu bytes set errno %d", call, size, errno);
    CHECK(before % 2 == 1 || before != atomic_load(&phase), "%s of %zu bytes is refused, and no limit is set", call,
          size);
    atomic_fetch_add(&refusals, 1);
}

static size_t some_size(struct worker *me) {
    uint64_t kind = random_below(&me->random, 1000);
    if (kind < 700) return random_below(&me->random, kind < 450 ? 300 : 5000);
    if (kind < 920) return random_below(&me->random, 70000);
    if (kind < 985 || me->huge >= MOST_HUGE) return random_below(&me->random, 500000);
    return 2 * mib + random_below(&me->random, 10 * mib);
}

static void count_huge(struct worker *me, const struct note *n, int by) {
    if (n->size >= 2 * mib) me->huge += (unsigned)by;
}

static void release(struct worker *me, struct note *n) {
    examine(n, "at free");
    count_huge(me, n, -1);
    atomic_fetch_sub(&held, n->size);
    if (n->alignment == 1 && n->key % 4 == 0) {
        t_free_sized(n->block, n->size);
    } else {
        t_free(n->block);
    }
    n->block = NULL;
}

static void *allocate(struct worker *me, struct note *n) {
    n->alignment = 1;
    switch (random_below(&me->random, 6)) {
    case 0: {
        unsigned char *block = t_calloc(1, n->size);
        long wrong = block ? first_not_zero(block, n->size <= dense ? n->size : page) : -1;
        CHECK(wrong < 0, "calloc(%zu): byte %ld is not zero", n->size, wrong);
        return block;
    }
    case 1:
        n->alignment = (size_t)1 << random_below(&me->random, 15);
        return t_aligned_alloc(n->alignment, n->size);
    case 2:
        return t_realloc(NULL, n->size);
    default:
        return t_malloc(n->size);
    }
}

static void fill_place(struct worker *me, struct note *n) {
    unsigned before = atomic_load(&phase);
    n->size = some_size(me);
    errno = 0;
    n->block = allocate(me, n);
    if (!n->block) {
        refused(before, n->size, "an allocation");
        return;
    }
    CHECK((uintptr_t)n->block % n->alignment == 0, "block %p is not at %zu", (void *)n->block, n->alignment);
    atomic_fetch_add(&held, n->size);
    count_huge(me, n, 1);
    n->key = random_next(&me->random);
    write_block(n);
}

/* Huge blocks go on being huge: they grow by some MiB, or are cut. */
static void resize(struct worker *me, struct note *n) {
    unsigned before = atomic_load(&phase);
    size_t old = n->size, size = some_size(me) + 1;
    if (old >= mib) size = random_below(&me->random, 3) ? old + random_below(&me->random, 4 * mib) : old / 2;
    if (size > 24 * mib) size = mib;
    if (size < old) atomic_fetch_sub(&held, old - size);
    errno = 0;
    unsigned char *moved = t_realloc(n->block, size);
    if (!moved) {
        refused(before, size, "realloc");
        if (size < old) atomic_fetch_add(&held, old - size);
        examine(n, "after a refused realloc");
        return;
    }
    long wrong = wrong_byte(moved, n, old < size ? old : size);
    CHECK(wrong < 0, "realloc(%zu -> %zu) lost byte %ld", old, size, wrong);
    if (size > old) atomic_fetch_add(&held, size - old);
    count_huge(me, n, -1);
    *n = (struct note){moved, size, 1, n->key};
    count_huge(me, n, 1);
    write_block(n);
    atomic_fetch_add(&resizes, old >= mib);
}

/* Leaves the block in a mailbox and takes what was there. */
static void swap_by_mail(struct worker *me, struct note *n) {
    unsigned before = atomic_load(&phase);
    errno = 0;
    struct note *letter = t_malloc(sizeof *letter);
    if (!letter) {
        refused(before, sizeof *letter, "a letter");
        return;
    }
    *letter = *n;
    count_huge(me, n, -1);
    n->block = NULL;
    letter = atomic_exchange_explicit(&mailboxes[random_below(&me->random, MAILBOXES)], letter, memory_order_acq_rel);
    if (!letter) return;
    *n = *letter;
    t_free(letter);
    count_huge(me, n, 1);
    examine(n, "from the mailbox");
}

static void *work(void *argument) {
    struct worker *me = argument;
    uint64_t calls = 100 + random_below(&me->random, 1500);
    for (uint64_t i = 0; i < calls && !atomic_load_explicit(&stop, memory_order_relaxed); i++) {
        struct note *n = &me->held[random_below(&me->random, HELD)];
        uint64_t choice = random_below(&me->random, 100);
        if (!n->block) {
            fill_place(me, n);
        } else if (choice < 35) {
            resize(me, n);
        } else if (choice < 55) {
            swap_by_mail(me, n);
        } else {
            release(me, n);
        }
        if (random_below(&me->random, 400) == 0) t_thread_flush();
        if (random_below(&me->random, 4000) == 0) t_malloc_trim(0);
        atomic_fetch_add(&me->calls, 1);
    }
    atomic_store(&me->ended, true);
    return NULL;
}

/* ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static size_t counted(const char *name) {
    static char json[1 << 16];
    size_t length = fh_stats_json(json, sizeof json);
    CHECK(length > 0 && length < sizeof json, "statistics of %zu bytes", length);
    const char *place = strstr(json, name);
    CHECK(place, "no %s in the statistics", name);
    return strtoull(strchr(place, ':') + 1, NULL, 10);
}

/* Called by the thread that allocates. It may allocate itself. */
static void tell(size_t in_use, size_t limit) {
    (void)in_use, (void)limit;
    t_free(t_malloc(100));
    atomic_fetch_add(&told, 1);
}

static void set_option(const char *key, const char *value) {
    CHECK(fh_option_set(key, value) == 0, "%s=%s", key, value);
    atomic_fetch_add(&changes, 1);
}

/* Each worker has come back from a call, so that none was admitted under an earlier limit. */
static void wait_for_calls(unsigned long many) {
    unsigned long before[WORKERS];
    for (int i = 0; i < WORKERS; i++) before[i] = atomic_load(&workers[i].calls);
    for (int i = 0; i < WORKERS; i++) {
        while (atomic_load(&workers[i].calls) < before[i] + many && !atomic_load(&workers[i].ended)) usleep(200);
    }
}

static void see_that_it_is_kept(size_t limit) {
    wait_for_calls(1);
    size_t in_use = counted("\"limit_in_use\""), most = in_use > limit ? in_use : limit;
#if !defined(T_EMBED)
    most += mib; /* the C library and this test's other threads allocate too */
#endif
    for (int i = 0; i < 8 && !atomic_load(&stop); i++) {
        wait_for_calls(5);
        size_t now = atomic_load(&held), count = counted("\"limit_in_use\"");
        CHECK(now <= most, "%zu bytes are held under a limit of %zu; %zu were in use", now, limit, in_use);
        CHECK(count <= most, "%zu bytes are counted under a limit of %zu; %zu were in use", count, limit, in_use);
        atomic_fetch_add(&checks, 1);
    }
}

static void *change_limits(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!atomic_load(&stop)) {
        size_t limit = (16 + random_below(&random, 100)) * mib;
        atomic_fetch_add(&phase, 1);
        if (random_below(&random, 3) == 0) {
            char text[32];
            snprintf(text, sizeof text, "%zum", limit / mib);
            set_option("limit", text);
        } else {
            bool soft = random_below(&random, 2);
            CHECK(fh_limit_set(soft ? limit / 2 : 0, limit, soft ? tell : NULL) == 0, "no limit");
        }
        atomic_fetch_add(&limits, 1);
        see_that_it_is_kept(limit);
        CHECK(fh_limit_set(0, 0, NULL) == 0, "the limit is not lifted");
        atomic_fetch_add(&phase, 1);
        wait_for_calls(100);
    }
    return NULL;
}

static void *change_options(void *none) {
    static const char *const purge[] = {"eager", "lazy", "budget", "background"};
    static const char *const thp[] = {"never", "always", "auto"};
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        set_option("purge", purge[i % 4]);
        set_option("thp", thp[i % 3]);
        set_option("on_error", i % 2 ? "report" : "abort");
        usleep(3000);
    }
    set_option("purge", "budget");
    set_option("thp", "auto");
    set_option("on_error", "abort");
    return none;
}

/* ── Forks ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void *thread_of_child(void *none) {
    for (int i = 0; i < 50; i++) t_free(t_malloc((size_t)i * 3000));
    return none;
}

static void child(uint64_t random) {
    alarm(CHILD_SECONDS);
    if (!THREADS_IN_CHILD) set_option("purge", "budget");                         /* which needs no thread */
    for (int i = 0; i < 20; i++) t_free(t_malloc(random_below(&random, 100000))); /* may be refused */
    for (int i = 0; i < MAILBOXES; i++) {
        struct note *letter = atomic_exchange(&mailboxes[i], NULL);
        if (!letter) continue;
        examine(letter, "in the child");
        t_free(letter->block);
        t_free(letter);
    }
    CHECK(fh_limit_set(0, 0, NULL) == 0, "no limit is lifted in the child");
    struct note n = {NULL, 0, 1, random};
    for (size_t size = 1000; size < 12 * mib; size *= 3) {
        unsigned char *moved = t_realloc(n.block, size);
        CHECK(moved, "realloc to %zu bytes is refused in a child without a limit", size);
        CHECK(!n.block || wrong_byte(moved, &n, n.size) < 0, "realloc to %zu bytes lost some in the child", size);
        n.block = moved;
        n.size = size;
        write_block(&n);
    }
    t_free(n.block);
    pthread_t id;
    if (THREADS_IN_CHILD && random % 4 == 0) {
        CHECK(pthread_create(&id, NULL, thread_of_child, NULL) == 0, "no thread in the child");
        pthread_join(id, NULL);
    }
    _exit(0);
}

static void *fork_again(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!atomic_load(&stop)) {
        uint64_t number = random_next(&random);
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) child(number);
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "fork: %s", strerror(errno));
        CHECK(status == 0, "a child ended with status %#x", (unsigned)status);
        atomic_fetch_add(&forks, 1);
        usleep((useconds_t)random_below(&random, 20000));
    }
    return NULL;
}

/* ── The books ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The thread of purge=background may be in the middle of something for a moment longer. */
static void wait_for_rest(void) {
    for (int i = 0; i < 200 && t_verify() != 0; i++) usleep(10000);
}

static size_t blocks, huge, bytes;

static void add_block(void *block) {
    size_t usable = t_usable_size(block);
    blocks++;
    huge += usable > 2 * mib;
    bytes += usable;
}

/* What the program has is what the library says that it has. */
static void compare_books(void) {
    size_t asked = 0;
    blocks = huge = bytes = 0;
    for (int w = 0; w < WORKERS; w++) {
        for (int i = 0; i < HELD; i++) {
            struct note *n = &workers[w].held[i];
            if (!n->block) continue;
            examine(n, "at the end of a round");
            add_block(n->block);
            asked += n->size;
        }
    }
    for (int i = 0; i < MAILBOXES; i++) {
        struct note *letter = atomic_load(&mailboxes[i]);
        if (!letter) continue;
        examine(letter, "in a mailbox, at the end of a round");
        add_block(letter);
        add_block(letter->block);
        asked += letter->size;
    }
    CHECK(asked == atomic_load(&held), "the test lost count: %zu bytes, or %zu", asked, atomic_load(&held));
#if defined(T_EMBED)
    size_t live = 0;
    CHECK(fh_check_all(fh_check_say, &live) == 0, "the heap is not whole");
    t_mallinfo2_result m = t_mallinfo2();
    CHECK(live == blocks && m.hblks == huge, "%zu blocks are counted, %zu of them huge; %zu and %zu are held", live,
          m.hblks, blocks, huge);
    /* A cached guest block counts as one of its class. What its parts have beyond that is taken for live. */
    size_t counts = m.uordblks + m.hblkhd, guests = m.fsmblks / 4;
    CHECK(counts >= bytes && counts <= bytes + guests, "%zu bytes are counted, %zu are held, %zu in caches", counts,
          bytes, m.fsmblks);
#endif
}

static void free_all(void) {
    for (int w = 0; w < WORKERS; w++) {
        for (int i = 0; i < HELD; i++) {
            if (workers[w].held[i].block) release(&workers[w], &workers[w].held[i]);
        }
    }
    for (int i = 0; i < MAILBOXES; i++) {
        struct note *letter = atomic_exchange(&mailboxes[i], NULL);
        if (!letter) continue;
        atomic_fetch_sub(&held, letter->size);
        t_free(letter->block);
        t_free(letter);
    }
}

/* What a claim has lost counts against each later limit. Edges of large blocks are shared, so a little is left over. */
static void use_up_a_limit(void) {
    enum { MOST = 1024 };
    static void *taken[MOST];
    const size_t limit = 64 * mib, reserve = 4 * mib, slack = 512 << 10;
    size_t n = 0;
    CHECK(fh_limit_set(0, limit, NULL) == 0, "no limit");
    while (n < MOST && (taken[n] = t_malloc(100000)) != NULL) n++;
    size_t in_use = counted("\"limit_in_use\"");
    CHECK(n < MOST && n > 100, "a limit of 64 MiB leaves %zu blocks of 100,000 bytes", n);
    CHECK(in_use <= limit && in_use + slack > limit - reserve, "refused where %zu bytes are in use of a limit of %zu",
          in_use, limit);
    while (n > 0) t_free(taken[--n]);
    CHECK(fh_limit_set(0, 0, NULL) == 0, "the limit is not lifted");
}

/* ── Rounds ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Under a limit over the drop-in a thread may not be had: then later. */
static void start(struct worker *w) {
    atomic_store(&w->ended, false);
    w->exists = pthread_create(&w->id, NULL, work, w) == 0;
    if (!w->exists) atomic_store(&w->ended, true);
    atomic_fetch_add(&threads, w->exists);
}

static void end(struct worker *w) {
    if (w->exists) pthread_join(w->id, NULL);
    w->exists = false;
}

static void round_of(double seconds, uint64_t seed) {
    void *(*const others[])(void *) = {change_limits, change_options, fork_again};
    enum { OTHERS = sizeof others / sizeof *others };
    pthread_t ids[OTHERS];
    atomic_store(&stop, false);
    for (int i = 0; i < OTHERS; i++)
        CHECK(pthread_create(&ids[i], NULL, others[i], (void *)(uintptr_t)(seed + (uint64_t)i)) == 0, "no thread");
    for (double until = seconds_now() + seconds; seconds_now() < until; usleep(1000)) {
        for (int i = 0; i < WORKERS; i++) {
            if (!atomic_load(&workers[i].ended)) continue;
            end(&workers[i]);
            start(&workers[i]);
        }
    }
    atomic_store(&stop, true);
    for (int i = 0; i < WORKERS; i++) end(&workers[i]);
    for (int i = 0; i < OTHERS; i++) pthread_join(ids[i], NULL);
    wait_for_rest();
    compare_books();
    free_all();
    check_whole_and_empty();
    use_up_a_limit();
}

static bool all_was_tested(void) {
    return atomic_load(&threads) > WORKERS && atomic_load(&refusals) && atomic_load(&checks) && atomic_load(&forks) &&
           atomic_load(&resizes);
}

int main(void) {
    uint64_t seed = random_seed();
    double seconds = test_seconds(3);
    unsigned rounds = seconds < 3 * ROUND_SECONDS ? 3 : (unsigned)(seconds / ROUND_SECONDS);
    setvbuf(stdout, NULL, _IOLBF, 0);
    set_option("on_oom", "silent");
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].random = seed + i;
        atomic_store(&workers[i].ended, true);
    }
    double each = seconds / rounds;
    for (unsigned i = 0; i < rounds; i++) round_of(each, seed + 1000 * i);
    for (; !all_was_tested(); rounds++) round_of(each, seed + 1000 * rounds); /* on a busy machine */
    unsigned long calls = 0;
    for (int i = 0; i < WORKERS; i++) calls += atomic_load(&workers[i].calls);
    printf(
        "%u rounds, %lu calls of %lu threads: %lu refused, %lu limits, %lu times seen to be kept, %lu soft ones told,\n"
        "%lu forks, %lu options changed, %lu huge blocks resized\n",
        rounds, calls, atomic_load(&threads), atomic_load(&refusals), atomic_load(&limits), atomic_load(&checks),
        atomic_load(&told), atomic_load(&forks), atomic_load(&changes), atomic_load(&resizes));
    return 0;
}
