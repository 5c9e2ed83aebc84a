// SPDX-License-Identifier: MIT OR Apache-2.0
// Trace replay, the testbed of Vulcan's memory manager (2004): a list of "a <size> <id>" and "r <id>" is read
// into arrays before the clock starts, and every pass performs each operation once. What a trace leaves alive
// is released at the end of the pass. Traces come from a recorder (file=) or are made here as a synthetic
// server mix.
//
// The server mix: 90 % of the blocks have 8 to 255 bytes, 8 % 256 to 4,095, 2 % 4 to 64 KiB. Three quarters
// of the releases hit one of the 64 youngest blocks, a quarter any block. The live set grows to 20,000 blocks
// and then hovers. With several threads, each replays the trace into slots of its own; in swap mode each
// releases its neighbour's blocks.
// Arguments: file= (none: server mix), ops=, passes=, threads=, swap=1, seed=.
#include "bench.h"

#include <stdatomic.h>
#include <sys/stat.h>

static const struct bench_variant variants[] = {
    {"trace-server", "passes=10", "quick"},
    {"trace-server-long", "passes=100", "full"},
    {"trace-server-2t", "passes=10 threads=2", "full"},
    {"trace-server-8t", "passes=10 threads=8", "full"},
    {"trace-swap-2t", "passes=10 threads=2 swap=1", "quick"},
    {"trace-swap-8t", "passes=10 threads=8 swap=1", "full"},
};

// In swap mode a thread performs its neighbour's releases this many operations later than its own
// allocations, so that threads of slightly different speed do not wait for one another at every step.
enum { LAG = 4096, YOUNG = 64, HOVER = 20000, RELEASE = 1 };

// The size is kept with the release as well, since the block itself is all that a slot holds. Identifiers are
// unique within a pass: the loader renames those of the file.
struct op {
    uint32_t size;
    uint32_t id_and_kind; // id << 1 | RELEASE
};

static struct {
    struct op *ops;
    uint32_t count, ids, room;
    uint32_t *live; // while building: what is alive, in order of birth at its young end
    uint32_t *sizes;
    uint32_t live_count;
    uint64_t live_bytes;
} trace;

static struct {
    uint32_t threads, passes;
    bool swap;
    _Atomic(void *) *slots[64];
    pthread_barrier_t pass;
} all;

static void trace_reserve(uint32_t ops) {
    trace.room = ops;
    trace.ops = (struct op *)bench_map(2 * (size_t)ops * sizeof(struct op));
    trace.live = (uint32_t *)bench_map((size_t)ops * sizeof(uint32_t));
    trace.sizes = (uint32_t *)bench_map((size_t)ops * sizeof(uint32_t));
}

static uint32_t trace_allocate(uint32_t size) {
    uint32_t id = trace.ids++;
    trace.sizes[id] = size;
    trace.ops[trace.count++] = (struct op){size, id << 1};
    trace.live_bytes += size;
    bench_live(trace.live_bytes);
    return id;
}

static void trace_release(uint32_t id) {
    trace.ops[trace.count++] = (struct op){trace.sizes[id], id << 1 | RELEASE};
    trace.live_bytes -= trace.sizes[id];
}

static uint32_t server_size(struct bench_rng *rng) {
    uint32_t kind = bench_below(rng, 100);
    if (kind < 90) {
        return bench_between(rng, 8, 255);
    }
    return kind < 98 ? bench_between(rng, 256, 4095) : bench_between(rng, 4096, 65536);
}

// The last 64 entries of the live list are in order of birth; those before are only ever picked uniformly, so
// their order is free, and a removal there moves one of them into the hole and the young end down by one.
static void server_release(struct bench_rng *rng) {
    uint32_t old = trace.live_count > YOUNG ? trace.live_count - YOUNG : 0, at;
    if (bench_below(rng, 4) != 0 || old == 0) {
        at = old + bench_below(rng, trace.live_count - old);
    } else {
        at = bench_below(rng, trace.live_count);
    }
    trace_release(trace.live[at]);
    if (at < old) {
        trace.live[at] = trace.live[old - 1];
        at = old - 1;
    }
    memmove(trace.live + at, trace.live + at + 1, (trace.live_count - at - 1) * sizeof(uint32_t));
    trace.live_count--;
}

static void build_server_mix(uint32_t ops, uint64_t seed) {
    struct bench_rng rng = bench_rng_make(seed, 0);
    trace_reserve(ops);
    for (uint32_t i = 0; i < ops; i++) {
        uint32_t chance = trace.live_count < HOVER ? 60 : 40;
        if (trace.live_count == 0 || bench_below(&rng, 100) < chance) {
            trace.live[trace.live_count++] = trace_allocate(server_size(&rng));
        } else {
            server_release(&rng);
        }
    }
    for (uint32_t i = 0; i < trace.live_count; i++) {
        trace_release(trace.live[i]);
    }
}

static uint64_t read_number(const char **at, const char *end) {
    uint64_t number = 0;
    while (*at < end && **at == ' ') {
        ++*at;
    }
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        number = number * 10 + (uint64_t)(**at - '0');
    }
    return number;
}

// Identifiers of the file may be used again after a release; names[] maps them to the unique ones of the
// moment, plus one.
static void load(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (file < 0 || fstat(file, &info) != 0 || info.st_size == 0) {
        bench_fail("trace: cannot read %s", path);
    }
    const char *text = (const char *)mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (text == MAP_FAILED) {
        bench_fail("trace: cannot map %s", path);
    }
    const char *end = text + info.st_size;
    uint32_t lines = 0, largest = 1 << 25;
    for (const char *at = text; at < end; at++) {
        lines += *at == '\n';
    }
    trace_reserve(lines + 1);
    uint32_t *names = (uint32_t *)mmap(NULL, (size_t)largest * sizeof *names, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (const char *at = text; at < end; at++) {
        char kind = *at++;
        uint64_t size = kind == 'a' ? read_number(&at, end) : 0, id = read_number(&at, end);
        if ((kind != 'a' && kind != 'r') || id >= largest || size > UINT32_MAX || (kind == 'r') != (names[id] != 0)) {
            bench_fail("trace: bad operation at byte %td of %s", at - text, path);
        }
        if (kind == 'a') {
            names[id] = trace_allocate(size != 0 ? (uint32_t)size : 1) + 1;
        } else {
            trace_release(names[id] - 1);
            names[id] = 0;
        }
        while (at < end && *at != '\n') {
            at++;
        }
    }
    for (uint32_t id = 0; id < largest && trace.live_bytes != 0; id++) {
        if (names[id] != 0) {
            trace_release(names[id] - 1);
        }
    }
    munmap(names, (size_t)largest * sizeof *names);
    munmap((void *)text, (size_t)info.st_size);
    close(file);
}

static uint64_t pass_alone(_Atomic(void *) *slots) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < trace.count; i++) {
        struct op op = trace.ops[i];
        uint32_t id = op.id_and_kind >> 1;
        if ((op.id_and_kind & RELEASE) == 0) {
            atomic_store_explicit(&slots[id], bench_take(op.size, (uint8_t)id), memory_order_relaxed);
        } else {
            sum += bench_give(atomic_load_explicit(&slots[id], memory_order_relaxed), op.size, (uint8_t)id);
        }
    }
    return sum;
}

// The thread that is furthest behind never waits: what it needs was allocated by one further ahead.
static void *await(_Atomic(void *) *slot) {
    void *block;
    for (int spin = 0; (block = atomic_load_explicit(slot, memory_order_acquire)) == NULL; spin++) {
        if (spin > 200) {
            sched_yield();
        }
    }
    atomic_store_explicit(slot, NULL, memory_order_relaxed);
    return block;
}

static uint64_t pass_swap(_Atomic(void *) *slots, _Atomic(void *) *neighbours) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < trace.count + LAG; i++) {
        if (i < trace.count && (trace.ops[i].id_and_kind & RELEASE) == 0) {
            uint32_t id = trace.ops[i].id_and_kind >> 1;
            atomic_store_explicit(&slots[id], bench_take(trace.ops[i].size, (uint8_t)id), memory_order_release);
        }
        if (i >= LAG && (trace.ops[i - LAG].id_and_kind & RELEASE) != 0) {
            uint32_t id = trace.ops[i - LAG].id_and_kind >> 1;
            sum += bench_give(await(&neighbours[id]), trace.ops[i - LAG].size, (uint8_t)id);
        }
    }
    return sum;
}

static void work(void *context, unsigned index) {
    (void)context;
    uint64_t sum = 0;
    for (uint32_t pass = 0; pass < all.passes; pass++) {
        if (all.swap) {
            sum += pass_swap(all.slots[index], all.slots[(index + 1) % all.threads]);
            pthread_barrier_wait(&all.pass);
        } else {
            sum += pass_alone(all.slots[index]);
        }
    }
    bench_tallies[index].sum = sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    all.threads = (uint32_t)bench_arg("threads", 1);
    all.passes = (uint32_t)bench_arg("passes", 10);
    all.swap = bench_arg("swap", 0) != 0;
    if (all.threads == 0 || all.threads > 64) {
        bench_fail("trace: 1 to 64 threads");
    }
    const char *path = bench_arg_text("file", NULL);
    if (path != NULL) {
        load(path);
    } else {
        build_server_mix((uint32_t)bench_arg("ops", 400000), bench_arg("seed", 1));
    }
    for (uint32_t i = 0; i < all.threads; i++) {
        all.slots[i] = (_Atomic(void *) *)bench_map(trace.ids * sizeof(_Atomic(void *)));
    }
    pthread_barrier_init(&all.pass, NULL, all.threads);
    bench_live_peak *= all.threads;
    struct bench_plan plan = {.work = work};
    uint64_t ops = (uint64_t)trace.count * all.passes * all.threads;
    bench_team_run(all.threads, &plan, ops);
    bench_print("pairs %" PRIu64 "\n", ops / 2);
    return bench_finish(bench_tally_sum(all.threads));
}
