// SPDX-License-Identifier: MIT OR Apache-2.0
// What every workload shares: clocks, random numbers, a start line for threads, stamps on blocks, and memory
// figures.
//
// A workload is one program that knows nothing of the allocator it runs on; the allocator comes in by
// LD_PRELOAD.
//
//     int main(int argc, char **argv) {
//         BENCH_START(argc, argv, variants);     // answers --list, keeps the key=value arguments
//         ... own arrays by bench_map, never by malloc ...
//         bench_clock_start();
//         ... the measured section ...
//         bench_clock_stop(operations);
//         return bench_finish(checksum);
//     }
//
// The figures are lines "key value" on standard output, "ok" being the last. They are collected in a static
// buffer and leave by write(2): stdio would allocate its buffer with the allocator that is being measured.
#ifndef FREEHOLD_BENCH_H
#define FREEHOLD_BENCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "latency.h"

enum { BENCH_MAX_THREADS = 2048, BENCH_LINE = 64 };

// ---------------------------------------------------------------------------------------------------- output

// Quick variants take at most two seconds under glibc, full ones at most fifteen.
struct bench_variant {
    const char *name;
    const char *args;
    const char *kind; // "quick" or "full"
};

static char bench_text[1 << 17];
static size_t bench_text_used;
static int bench_argc;
static char **bench_argv;

// Appends to the output. What does not fit is a mistake of the workload, and silently cut figures would be
// worse than none.
__attribute__((format(printf, 1, 2), unused)) static void bench_print(const char *format, ...) {
    va_list list;
    va_start(list, format);
    size_t room = sizeof bench_text - bench_text_used;
    int length = vsnprintf(bench_text + bench_text_used, room, format, list);
    va_end(list);
    if (length < 0 || (size_t)length >= room) {
        static const char message[] = "bench: output buffer full\n";
        (void)!write(2, message, sizeof message - 1);
        _exit(2);
    }
    bench_text_used += (size_t)length;
}

__attribute__((unused)) static void bench_flush(void) {
    size_t done = 0;
    while (done < bench_text_used) {
        ssize_t wrote = write(1, bench_text + done, bench_text_used - done);
        if (wrote <= 0) {
            _exit(2);
        }
        done += (size_t)wrote;
    }
    bench_text_used = 0;
}

// A failed check ends the process at once, with a non-zero exit code: a wrong run must never look like a fast
// one.
__attribute__((format(printf, 1, 2), noreturn, cold, unused)) static void bench_fail(const char *format, ...) {
    char line[256];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(line, sizeof line - 1, format, list);
    va_end(list);
    if (length > 0) {
        size_t used = (size_t)length < sizeof line - 2 ? (size_t)length : sizeof line - 2;
        line[used] = '\n';
        (void)!write(2, line, used + 1);
    }
    _exit(1);
}

// ---------------------------------------------------------------------------------------------------- arguments

__attribute__((unused)) static void bench_start(int argc, char **argv, const struct bench_variant *variants,
                                                size_t count) {
    bench_argc = argc;
    bench_argv = argv;
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < count; i++) {
            bench_print("%s\t%s\t%s\n", variants[i].name, variants[i].args, variants[i].kind);
        }
        bench_flush();
        _exit(0);
    }
    for (int i = 1; i < argc; i++) {
        if (strchr(argv[i], '=') == NULL) {
            bench_fail("bench: argument \"%s\" is not key=value; --list shows the variants", argv[i]);
        }
    }
}

#define BENCH_START(argc, argv, variants) bench_start(argc, argv, variants, sizeof(variants) / sizeof *(variants))

__attribute__((unused)) static const char *bench_arg_text(const char *key, const char *fallback) {
    size_t length = strlen(key);
    for (int i = 1; i < bench_argc; i++) {
        if (strncmp(bench_argv[i], key, length) == 0 && bench_argv[i][length] == '=') {
            return bench_argv[i] + length + 1;
        }
    }
    return fallback;
}

// Numbers may end in k or m, which multiply by 2^10 and 2^20, for sizes are easier to read that way.
__attribute__((unused)) static uint64_t bench_arg(const char *key, uint64_t fallback) {
    const char *text = bench_arg_text(key, NULL);
    if (text == NULL) {
        return fallback;
    }
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    if (*end == 'k') {
        value <<= 10;
        end++;
    } else if (*end == 'm') {
        value <<= 20;
        end++;
    }
    if (end == text || *end != 0) {
        bench_fail("bench: %s=%s is not a number", key, text);
    }
    return value;
}

// ---------------------------------------------------------------------------------------------------- clocks

// The measured section: wall clock, and the user and system time of the whole process. A workload with phases
// of its own may stop and start the clock again; the parts add up.
static struct {
    double wall, user, system;
    double wall_at, user_at, system_at;
    uint64_t ops, faults, switches, faults_at, switches_at;
} bench_clock;

__attribute__((unused)) static double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

__attribute__((unused)) static double bench_seconds(struct timeval t) {
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

// getrusage splits the exact run time by sampled ticks; the sum stays exact, which is what the figure uses.
__attribute__((unused)) static void bench_clock_start(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    bench_clock.user_at = bench_seconds(use.ru_utime);
    bench_clock.system_at = bench_seconds(use.ru_stime);
    bench_clock.faults_at = (uint64_t)use.ru_minflt;
    bench_clock.switches_at = (uint64_t)(use.ru_nvcsw + use.ru_nivcsw);
    latency_start();
    bench_clock.wall_at = bench_now();
}

__attribute__((unused)) static void bench_clock_stop(uint64_t ops) {
    double wall = bench_now();
    latency_stop();
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    bench_clock.wall += wall - bench_clock.wall_at;
    bench_clock.user += bench_seconds(use.ru_utime) - bench_clock.user_at;
    bench_clock.system += bench_seconds(use.ru_stime) - bench_clock.system_at;
    bench_clock.faults += (uint64_t)use.ru_minflt - bench_clock.faults_at;
    bench_clock.switches += (uint64_t)(use.ru_nvcsw + use.ru_nivcsw) - bench_clock.switches_at;
    bench_clock.ops += ops;
}

__attribute__((unused)) static void bench_sleep(double seconds) {
    double until = bench_now() + seconds;
    for (double left = seconds; left > 0; left = until - bench_now()) {
        struct timespec t = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        nanosleep(&t, NULL);
    }
}

// ---------------------------------------------------------------------------------------------------- random numbers

// Marsaglia's xorshift64: three shifts, no multiplication, and the same sequence everywhere.
struct bench_rng {
    uint64_t state;
};

// Threads get different streams of one seed; the multiplication spreads neighbouring numbers over all bits.
__attribute__((unused)) static struct bench_rng bench_rng_make(uint64_t seed, uint64_t stream) {
    uint64_t mixed = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (stream + 1) * UINT64_C(0xd1b54a32d192ed03);
    return (struct bench_rng){mixed != 0 ? mixed : 1};
}

static inline uint64_t bench_random(struct bench_rng *rng) {
    uint64_t x = rng->state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    rng->state = x;
    return x;
}

// A number below limit, by multiplication of the upper half: no division in the measured loop. limit fits in
// 32 bits.
static inline uint32_t bench_below(struct bench_rng *rng, uint32_t limit) {
    return (uint32_t)(((bench_random(rng) >> 32) * (uint64_t)limit) >> 32);
}

static inline uint32_t bench_between(struct bench_rng *rng, uint32_t low, uint32_t high) {
    return low + bench_below(rng, high - low + 1);
}

// ---------------------------------------------------------------------------------------------------- blocks

// Each block is written in its first and last byte, with a stamp that the freer can work out again, and read
// before it is freed. Volatile keeps the compiler from dropping a pair of malloc and free as without effect.
static inline void bench_stamp(void *block, size_t size, uint8_t stamp) {
    volatile uint8_t *bytes = (volatile uint8_t *)block;
    bytes[size - 1] = (uint8_t)(stamp ^ 0xa5);
    bytes[0] = stamp;
}

// Returns what was read, so that the caller's checksum depends on every block.
static inline uint64_t bench_verify(const void *block, size_t size, uint8_t stamp) {
    const volatile uint8_t *bytes = (const volatile uint8_t *)block;
    uint8_t first = bytes[0];
    if (__builtin_expect(first != stamp, 0)) {
        bench_fail("bench: first byte of block %p of %zu is %#x, not %#x", block, size, first, stamp);
    }
    if (__builtin_expect(size > 1, 1)) {
        uint8_t last = bytes[size - 1];
        if (__builtin_expect(last != (uint8_t)(stamp ^ 0xa5), 0)) {
            bench_fail("bench: last byte of block %p of %zu is %#x, not %#x", block, size, last, stamp ^ 0xa5);
        }
    }
    return (uint64_t)first + 1;
}

static inline void *bench_take(size_t size, uint8_t stamp) {
    void *block = latency_malloc(size);
    if (__builtin_expect(block == NULL, 0)) {
        bench_fail("bench: malloc(%zu) failed", size);
    }
    bench_stamp(block, size, stamp);
    return block;
}

static inline uint64_t bench_give(void *block, size_t size, uint8_t stamp) {
    uint64_t seen = bench_verify(block, size, stamp);
    latency_free(block);
    return seen;
}

// A block and its size in one word, so that a table of a million of them costs 8 MB and one cache miss a
// look. User addresses have 47 or 48 bits; sizes up to 65,535 fit above them.
typedef uint64_t bench_slot;

static inline bench_slot bench_pack(void *block, size_t size) {
    return (uint64_t)(uintptr_t)block | (uint64_t)size << 48;
}

static inline void *bench_slot_block(bench_slot slot) {
    return (void *)(uintptr_t)(slot & ((UINT64_C(1) << 48) - 1));
}

static inline size_t bench_slot_size(bench_slot slot) {
    return (size_t)(slot >> 48);
}

static inline bench_slot bench_take_slot(size_t size, uint8_t stamp) {
    return bench_pack(bench_take(size, stamp), size);
}

static inline uint64_t bench_give_slot(bench_slot slot, uint8_t stamp) {
    return bench_give(bench_slot_block(slot), bench_slot_size(slot), stamp);
}

// ---------------------------------------------------------------------------------------------------- memory

static uint64_t bench_own_bytes;
static uint64_t bench_live_peak;

// Memory of the workload itself: mapped and touched before the clock starts, and reported, so that it can be
// subtracted.
__attribute__((unused)) static void *bench_map(size_t bytes) {
    bytes = (bytes + 4095) & ~(size_t)4095;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        bench_fail("bench: cannot map %zu bytes: %s", bytes, strerror(errno));
    }
    bench_own_bytes += bytes;
    return memory;
}

// The workload names the peak of its live payload: what RSS is to be compared with.
__attribute__((unused)) static void bench_live(uint64_t bytes) {
    if (bytes > bench_live_peak) {
        bench_live_peak = bytes;
    }
}

// Reads one of the files of /proc/self into the caller's buffer; the descriptor is closed again, as a
// workload may fork.
__attribute__((unused)) static size_t bench_read_proc(const char *path, char *buffer, size_t room) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return 0;
    }
    size_t used = 0;
    for (ssize_t got; used < room - 1 && (got = read(file, buffer + used, room - 1 - used)) > 0;) {
        used += (size_t)got;
    }
    close(file);
    buffer[used] = 0;
    return used;
}

// Resident bytes from statm: cheap enough to be called every few milliseconds, off by some pages for each
// processor.
__attribute__((unused)) static uint64_t bench_rss(void) {
    char text[128];
    if (bench_read_proc("/proc/self/statm", text, sizeof text) == 0) {
        return 0;
    }
    const char *second = strchr(text, ' ');
    return second != NULL ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

__attribute__((unused)) static uint64_t bench_rollup_field(const char *text, const char *key) {
    const char *line = strstr(text, key);
    return line != NULL ? strtoull(line + strlen(key), NULL, 10) * 1024 : 0;
}

// RSS and private dirty memory at a named moment, exact: smaps_rollup walks the page tables.
__attribute__((unused)) static void bench_moment(const char *name) {
    char text[2048];
    if (bench_read_proc("/proc/self/smaps_rollup", text, sizeof text) == 0) {
        bench_print("rss@%s %" PRIu64 "\n", name, bench_rss());
        return;
    }
    bench_print("rss@%s %" PRIu64 "\n", name, bench_rollup_field(text, "\nRss:"));
    bench_print("private_dirty@%s %" PRIu64 "\n", name, bench_rollup_field(text, "\nPrivate_Dirty:"));
}

// RSS over time. One series for a program; the array is static, as it must not come from the measured
// allocator.
static struct {
    double time[2048];
    uint64_t bytes[2048];
    size_t count;
} bench_series;

__attribute__((unused)) static void bench_series_point(void) {
    if (bench_series.count < 2048) {
        bench_series.time[bench_series.count] = bench_now();
        bench_series.bytes[bench_series.count++] = bench_rss();
    }
}

__attribute__((unused)) static void bench_series_wait(double seconds, double step) {
    double until = bench_now() + seconds;
    for (double now = bench_now(); now < until; now = bench_now()) {
        bench_sleep(until - now < step ? until - now : step);
        bench_series_point();
    }
}

__attribute__((unused)) static void bench_series_print(const char *name) {
    bench_print("series@%s ", name);
    for (size_t i = 0; i < bench_series.count; i++) {
        bench_print("%s%.4f:%" PRIu64, i == 0 ? "" : ",", bench_series.time[i] - bench_series.time[0],
                    bench_series.bytes[i]);
    }
    bench_print("\n");
}

// Asks whatever allocator is in the process to give back what it can. Each peer has its own name for that;
// only the one that is loaded resolves, and glibc's malloc_trim is there in any case. Asking only through
// malloc_trim would be unfair.
extern void mi_collect(bool force) __attribute__((weak));
extern int mallctl(const char *name, void *old, size_t *old_size, void *value, size_t size) __attribute__((weak));
extern void MallocExtension_ReleaseFreeMemory(void) __attribute__((weak));

__attribute__((unused)) static void bench_trim(void) {
    if (mi_collect != NULL) {
        mi_collect(true);
    }
    if (mallctl != NULL) {
        mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
        mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
    }
    if (MallocExtension_ReleaseFreeMemory != NULL) {
        MallocExtension_ReleaseFreeMemory();
    }
    malloc_trim(0);
}

// ---------------------------------------------------------------------------------------------------- threads

// What a team of threads does. Each thread prepares, and reports ready; the main thread takes the clock, and
// all work; they meet again before any of them cleans up and exits. So neither birth nor death of a thread,
// nor what it prepares and cleans up, is in the measured section. Only work is a must. "during" is called by
// the main thread while the others work, for taking samples, and has to end by itself.
struct bench_plan {
    void (*prepare)(void *context, unsigned index);
    void (*work)(void *context, unsigned index);
    void (*clean)(void *context, unsigned index);
    void (*during)(void *context);
    void *context;
};

struct bench_team {
    pthread_barrier_t ready, go, done, leave;
    const struct bench_plan *plan;
    pthread_t threads[BENCH_MAX_THREADS];
};

struct bench_member {
    struct bench_team *team;
    unsigned index;
};

__attribute__((unused)) static void *bench_member_run(void *argument) {
    struct bench_member *member = (struct bench_member *)argument;
    struct bench_team *team = member->team;
    const struct bench_plan *plan = team->plan;
    if (plan->prepare != NULL) {
        plan->prepare(plan->context, member->index);
    }
    pthread_barrier_wait(&team->ready);
    pthread_barrier_wait(&team->go);
    plan->work(plan->context, member->index);
    pthread_barrier_wait(&team->done);
    pthread_barrier_wait(&team->leave);
    if (plan->clean != NULL) {
        plan->clean(plan->context, member->index);
    }
    return NULL;
}

// With one thread the main thread does the work: a program with a single thread is what most programs are,
// and some allocators are faster in one.
__attribute__((unused)) static void bench_team_alone(const struct bench_plan *plan, uint64_t ops) {
    if (plan->prepare != NULL) {
        plan->prepare(plan->context, 0);
    }
    bench_clock_start();
    plan->work(plan->context, 0);
    bench_clock_stop(ops);
    bench_moment("end");
    if (plan->clean != NULL) {
        plan->clean(plan->context, 0);
    }
}

// Runs the plan on count threads; ops is what all of them do together.
__attribute__((unused)) static void bench_team_run(unsigned count, const struct bench_plan *plan, uint64_t ops) {
    if (count == 0 || count > BENCH_MAX_THREADS) {
        bench_fail("bench: %u threads are not possible", count);
    }
    if (count == 1 && plan->during == NULL) {
        bench_team_alone(plan, ops);
        return;
    }
    static struct bench_team team;
    static struct bench_member members[BENCH_MAX_THREADS];
    pthread_barrier_t *barriers[] = {&team.ready, &team.go, &team.done, &team.leave};
    for (size_t i = 0; i < 4; i++) {
        pthread_barrier_init(barriers[i], NULL, count + 1);
    }
    team.plan = plan;
    for (unsigned i = 0; i < count; i++) {
        members[i] = (struct bench_member){&team, i};
        if (pthread_create(&team.threads[i], NULL, bench_member_run, &members[i]) != 0) {
            bench_fail("bench: cannot create thread %u", i);
        }
    }
    pthread_barrier_wait(&team.ready);
    bench_clock_start();
    pthread_barrier_wait(&team.go);
    if (plan->during != NULL) {
        plan->during(plan->context);
    }
    pthread_barrier_wait(&team.done);
    bench_clock_stop(ops);
    bench_moment("end");
    pthread_barrier_wait(&team.leave);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(team.threads[i], NULL);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_barrier_destroy(barriers[i]);
    }
}

// Sums what each thread counted for itself: one cache line each, so that counting does not slow the others
// down.
struct bench_tally {
    uint64_t sum, live, ops, extra;
} __attribute__((aligned(BENCH_LINE)));

static struct bench_tally bench_tallies[BENCH_MAX_THREADS];

__attribute__((unused)) static uint64_t bench_tally_sum(unsigned count) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; i++) {
        sum += bench_tallies[i].sum;
    }
    return sum;
}

__attribute__((unused)) static uint64_t bench_tally_live(unsigned count) {
    uint64_t live = 0;
    for (unsigned i = 0; i < count; i++) {
        live += bench_tallies[i].live;
    }
    return live;
}

// ---------------------------------------------------------------------------------------------------- end

// How many blocks the program itself says that it allocated and freed: a test compares this with what was called.
__attribute__((unused)) static void bench_calls(uint64_t mallocs, uint64_t frees) {
    bench_print("mallocs %" PRIu64 "\nfrees %" PRIu64 "\n", mallocs, frees);
}

// Prints the figures. ns_per_op is processor time, of all threads, for an operation: unlike wall time it is
// comparable between machines with a different load, and unlike cpu_s it is comparable for workloads that run
// for a fixed time. With BENCH_AFTER set, a second of sleep and a request to trim follow, as the rules ask
// for.
__attribute__((unused)) static int bench_finish(uint64_t check) {
    bench_moment("freed");
    if (getenv("BENCH_AFTER") != NULL) {
        bench_sleep(1);
        bench_moment("freed_1s");
        bench_trim();
        bench_moment("trimmed");
    }
    double cpu = bench_clock.user + bench_clock.system;
    bench_print("ops %" PRIu64 "\n", bench_clock.ops);
    bench_print("ns_per_op %.3f\n", bench_clock.ops != 0 ? cpu * 1e9 / (double)bench_clock.ops : 0.0);
    bench_print("wall_s %.6f\ncpu_s %.6f\n", bench_clock.wall, cpu);
    bench_print("user_s %.6f\nsystem_s %.6f\n", bench_clock.user, bench_clock.system);
    bench_print("faults %" PRIu64 "\nswitches %" PRIu64 "\n", bench_clock.faults, bench_clock.switches);
    bench_print("live_bytes %" PRIu64 "\nown_bytes %" PRIu64 "\n", bench_live_peak, bench_own_bytes);
    latency_print(bench_print);
    bench_print("check %016" PRIx64 "\nok\n", check);
    bench_flush();
    return 0;
}

#endif
