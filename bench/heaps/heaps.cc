// SPDX-License-Identifier: MIT OR Apache-2.0
// A place for blocks that ends as a whole: made, filled and ended, over and over. `freehold bench heaps` runs it.
//
// With form=heap the place is what the allocator in the process calls one: a heap of Freehold or mimalloc, or an
// arena of jemalloc. An allocator without any says "absent 1". private and frame are further kinds of Freehold's.
// apr and monotonic are places over plain malloc, of any allocator. single is none: each block is freed.
//
// In the first round, which is not timed, each block is written and read again. The checksum is of that round.
// Where the place has an account of its own, "counted" is how many blocks it says that it has.
// Arguments: form=, blocks= in a place, rounds=, quota=, scope=.
#pragma weak fh_heap_new
#pragma weak fh_heap_malloc
#pragma weak fh_heap_destroy
#pragma weak fh_heap_stats
#pragma weak fh_heap_enter
#pragma weak fh_heap_leave
#pragma weak fh_frame_more
#include <freehold/heap.h>

#include "../workloads/bench.h"

#include <dlfcn.h>

#include <algorithm>
#include <memory_resource>
#include <new>

// What is used of the peers, as their documents have it. Only the allocator that is loaded has it.
extern "C" {
struct mi_heap;
struct mi_theap;
using mi_visitor = bool(const mi_heap *, const void *area, void *block, size_t size, void *argument);
mi_heap *mi_heap_new() __attribute__((weak));
void mi_heap_destroy(mi_heap *heap) __attribute__((weak));
void *mi_heap_malloc(mi_heap *heap, size_t size) __attribute__((weak));
bool mi_heap_visit_blocks(const mi_heap *heap, bool all, mi_visitor *visit, void *argument) __attribute__((weak));
mi_heap *mi_heap_set_default(mi_heap *heap) __attribute__((weak));    // mimalloc 2
mi_theap *mi_heap_theap(mi_heap *heap) __attribute__((weak));         // mimalloc 3
mi_theap *mi_theap_set_default(mi_theap *heap) __attribute__((weak)); // mimalloc 3
void *mallocx(size_t size, int flags) __attribute__((weak));
int mallctlnametomib(const char *name, size_t *mib, size_t *count) __attribute__((weak));
int mallctlbymib(const size_t *mib, size_t count, void *old, size_t *old_size, void *value, size_t size)
    __attribute__((weak));
}

namespace {

enum { MOST_SIZE = 128, SAMPLES = 4096 };

// Far more than any round takes: what is measured is that there is one.
constexpr size_t quota_bytes = size_t{1} << 30;

struct {
    uint64_t blocks, rounds;
    uint16_t *sizes;
    void **slots;
    bool quota, scope;
} all;

[[noreturn]] void absent(const char *why) {
    bench_print("absent 1\nok\n");
    bench_flush();
    // Figures are numbers; the reason is for who runs it by hand.
    dprintf(STDERR_FILENO, "heaps: %s\n", why);
    _exit(0);
}

void *must(void *block) {
    if (__builtin_expect(block == nullptr, 0)) {
        bench_fail("bench: a place has no room");
    }
    return block;
}

void must_do(bool good, const char *what) {
    if (__builtin_expect(!good, 0)) {
        bench_fail("bench: %s failed", what);
    }
}

// A place has: begin and end; take, a block of it; counted, how many blocks it says that it has, or -1. With Scope
// the blocks come by plain malloc, because the thread is in a scope of the place.

template <bool Scope, unsigned Flags> class Freehold {
  public:
    void begin() {
        fh_heap_options options = {};
        options.hard_limit = all.quota ? quota_bytes : 0;
        options.flags = Flags;
        heap_ = fh_heap_new(&options);
        must_do(heap_ != nullptr, "fh_heap_new");
        if (Scope) {
            must_do(fh_heap_enter(heap_) == 0, "fh_heap_enter");
        }
    }
    void *take(uint64_t i) {
        return Scope ? malloc(all.sizes[i]) : fh_heap_malloc(heap_, all.sizes[i]);
    }
    int64_t counted() {
        fh_heap_figures figures;
        must_do(fh_heap_stats(heap_, &figures) == 0, "fh_heap_stats");
        return static_cast<int64_t>(figures.count);
    }
    void end() {
        if (Scope) {
            must_do(fh_heap_leave() == 0, "fh_heap_leave");
        }
        must_do(fh_heap_destroy(heap_) == 0, "fh_heap_destroy");
    }

  protected:
    fh_heap *heap_ = nullptr;
};

// Blocks of frames have no account of their own.
class Frames : public Freehold<false, FH_HEAP_PRIVATE> {
  public:
    void *take(uint64_t i) {
        return fh_frame_malloc(heap_, all.sizes[i]);
    }
    int64_t counted() {
        return -1;
    }
};

bool count_block(const mi_heap *, const void *, void *block, size_t, void *count) {
    *static_cast<int64_t *>(count) += block != nullptr;
    return true;
}

template <bool Scope> class Mimalloc {
  public:
    void begin() {
        heap_ = mi_heap_new();
        must_do(heap_ != nullptr, "mi_heap_new");
        if (Scope && mi_heap_set_default != nullptr) {
            before_ = mi_heap_set_default(heap_);
        } else if (Scope) {
            thread_before_ = mi_theap_set_default(mi_heap_theap(heap_));
        }
    }
    void *take(uint64_t i) {
        return Scope ? malloc(all.sizes[i]) : mi_heap_malloc(heap_, all.sizes[i]);
    }
    int64_t counted() {
        int64_t count = 0;
        must_do(mi_heap_visit_blocks(heap_, true, count_block, &count), "mi_heap_visit_blocks");
        return count;
    }
    void end() {
        if (Scope && mi_heap_set_default != nullptr) {
            mi_heap_set_default(before_);
        } else if (Scope) {
            mi_theap_set_default(thread_before_);
        }
        mi_heap_destroy(heap_);
    }

  private:
    mi_heap *heap_ = nullptr, *before_ = nullptr;
    mi_theap *thread_before_ = nullptr;
};

// A name of mallctl, looked up once.
struct Control {
    size_t mib[8], count = 8;
    explicit Control(const char *name) {
        must_do(mallctlnametomib(name, mib, &count) == 0, name);
    }
    template <typename T> T get() const {
        T value;
        size_t size = sizeof value;
        must_do(mallctlbymib(mib, count, &value, &size, nullptr, 0) == 0, "reading by mallctl");
        return value;
    }
    template <typename T> void set(T value) const {
        must_do(mallctlbymib(mib, count, nullptr, nullptr, &value, sizeof value) == 0, "writing by mallctl");
    }
    void act() const {
        must_do(mallctlbymib(mib, count, nullptr, nullptr, nullptr, 0) == 0, "mallctl");
    }
};

// Blocks in the thread's cache would outlive their arena, so no form uses it.
template <bool Scope> class Jemalloc {
  public:
    Jemalloc() {
        if (Scope) {
            Control("thread.tcache.enabled").set(false);
        }
    }
    void begin() {
        arena_ = create_.get<unsigned>();
        flags_ = static_cast<int>((arena_ + 1) << 20 | 1u << 8); // MALLOCX_ARENA and MALLOCX_TCACHE_NONE
        if (Scope) {
            before_ = thread_.get<unsigned>();
            thread_.set(arena_);
        }
    }
    void *take(uint64_t i) {
        return Scope ? malloc(all.sizes[i]) : mallocx(all.sizes[i], flags_);
    }
    int64_t counted() {
        Control("epoch").set(uint64_t{1});
        Control taken("stats.arenas.0.small.nmalloc"), given("stats.arenas.0.small.ndalloc");
        taken.mib[2] = given.mib[2] = arena_;
        return static_cast<int64_t>(taken.get<uint64_t>() - given.get<uint64_t>());
    }
    void end() {
        if (Scope) {
            thread_.set(before_);
        }
        destroy_.mib[1] = arena_;
        destroy_.act();
    }

  private:
    Control create_{"arenas.create"}, thread_{"thread.arena"}, destroy_{"arena.0.destroy"};
    unsigned arena_ = 0, before_ = 0;
    int flags_ = 0;
};

// The pools of the Apache Portable Runtime. Its headers are not needed, nor is it at build time.
class Apr {
  public:
    Apr() {
        void *library = dlopen("libapr-1.so.0", RTLD_NOW);
        if (library == nullptr) {
            absent("libapr-1.so.0 is not installed; Debian's package is libapr1");
        }
        // POSIX lets a data pointer that dlsym returned be used as a function.
        auto start = reinterpret_cast<int (*)()>(find(library, "apr_initialize"));
        create_ = reinterpret_cast<int (*)(void **, void *, void *, void *)>(find(library, "apr_pool_create_ex"));
        take_ = reinterpret_cast<void *(*)(void *, size_t)>(find(library, "apr_palloc"));
        destroy_ = reinterpret_cast<void (*)(void *)>(find(library, "apr_pool_destroy"));
        must_do(start() == 0, "apr_initialize");
    }
    void begin() {
        must_do(create_(&pool_, nullptr, nullptr, nullptr) == 0, "apr_pool_create_ex");
    }
    void *take(uint64_t i) {
        return take_(pool_, all.sizes[i]);
    }
    int64_t counted() {
        return -1;
    }
    void end() {
        destroy_(pool_);
    }

  private:
    static void *find(void *library, const char *name) {
        void *found = dlsym(library, name);
        must_do(found != nullptr, name);
        return found;
    }
    void *pool_ = nullptr;
    int (*create_)(void **pool, void *parent, void *abort, void *allocator) = nullptr;
    void *(*take_)(void *pool, size_t size) = nullptr;
    void (*destroy_)(void *pool) = nullptr;
};

class Monotonic {
  public:
    void begin() {
        place_ = new (room_) std::pmr::monotonic_buffer_resource;
    }
    void *take(uint64_t i) {
        return place_->allocate(all.sizes[i], 16);
    }
    int64_t counted() {
        return -1;
    }
    void end() {
        place_->~monotonic_buffer_resource();
    }

  private:
    alignas(std::pmr::monotonic_buffer_resource) char room_[sizeof(std::pmr::monotonic_buffer_resource)];
    std::pmr::monotonic_buffer_resource *place_ = nullptr;
};

class Single {
  public:
    void begin() {
    }
    void *take(uint64_t i) {
        return all.slots[i] = malloc(all.sizes[i]);
    }
    int64_t counted() {
        return -1;
    }
    void end() {
        for (uint64_t i = 0; i < all.blocks; i++) {
            free(all.slots[i]);
        }
    }
};

template <typename Place> uint64_t check(Place &place) {
    uint64_t sum = 0, blocks = 0;
    place.begin();
    for (uint64_t i = 0; i < all.blocks; i++) {
        all.slots[i] = must(place.take(i));
        bench_stamp(all.slots[i], all.sizes[i], static_cast<uint8_t>(i));
    }
    for (uint64_t i = 0; i < all.blocks; i++, blocks++) {
        sum += bench_verify(all.slots[i], all.sizes[i], static_cast<uint8_t>(i)) * all.sizes[i];
    }
    int64_t counted = place.counted();
    place.end();
    bench_print("blocks %" PRIu64 "\n", blocks);
    if (counted >= 0) {
        bench_print("counted %" PRId64 "\n", counted);
    }
    return sum;
}

template <typename Place> inline void fill(Place &place) {
    for (uint64_t i = 0; i < all.blocks; i++) {
        bench_stamp(must(place.take(i)), all.sizes[i], static_cast<uint8_t>(i));
    }
}

double middle(double *times, size_t count) {
    std::nth_element(times, times + count / 2, times + count);
    return times[count / 2];
}

// Processor time where a step is long, because somebody else may run meanwhile. That clock is too slow for short ones.
double step_now() {
    timespec t;
    clock_gettime(all.blocks >= 100000 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Each step by itself: the median of the rounds, without what the clock takes.
template <typename Place> void steps(Place &place) {
    static double begin[SAMPLES], filled[SAMPLES], end[SAMPLES], clock[SAMPLES];
    size_t count = std::min<uint64_t>(all.rounds, SAMPLES);
    for (size_t i = 0; i < count; i++) {
        double at[5] = {step_now(), step_now()};
        place.begin();
        at[2] = step_now();
        fill(place);
        at[3] = step_now();
        place.end();
        at[4] = step_now();
        clock[i] = at[1] - at[0];
        begin[i] = at[2] - at[1];
        filled[i] = at[3] - at[2];
        end[i] = at[4] - at[3];
    }
    double off = middle(clock, count);
    auto ns = [&](double *times) { return std::max(middle(times, count) - off, 0.0) * 1e9; };
    bench_print("begin_ns %.1f\nfill_ns %.1f\nend_ns %.1f\n", ns(begin), ns(filled), ns(end));
}

template <typename Place> int run() {
    static Place place;
    uint64_t sum = check(place);
    bench_clock_start();
    for (uint64_t i = 0; i < all.rounds; i++) {
        place.begin();
        fill(place);
        place.end();
    }
    bench_clock_stop(all.rounds);
    steps(place);
    return bench_finish(sum);
}

int run_heap() {
    bool scope = all.scope;
    if (fh_heap_new != nullptr) {
        return scope ? run<Freehold<true, 0>>() : run<Freehold<false, 0>>();
    }
    if (all.quota) {
        absent("its heaps have no limit");
    }
    if (mi_heap_new != nullptr) {
        if (scope && mi_heap_set_default == nullptr && mi_theap_set_default == nullptr) {
            absent("its heaps have no scope");
        }
        return scope ? run<Mimalloc<true>>() : run<Mimalloc<false>>();
    }
    if (mallocx != nullptr && mallctlbymib != nullptr) {
        return scope ? run<Jemalloc<true>>() : run<Jemalloc<false>>();
    }
    absent("it has no heaps");
}

} // namespace

int main(int argc, char **argv) {
    static const bench_variant none[] = {{"heap-1000", "form=heap blocks=1000 rounds=2000", "quick"}};
    BENCH_START(argc, argv, none);
    all.blocks = bench_arg("blocks", 1000);
    all.rounds = std::max<uint64_t>(bench_arg("rounds", 2000), 1);
    all.quota = bench_arg("quota", 0) != 0;
    all.scope = bench_arg("scope", 0) != 0;
    all.sizes = static_cast<uint16_t *>(bench_map(all.blocks * sizeof *all.sizes));
    all.slots = static_cast<void **>(bench_map(all.blocks * sizeof *all.slots));
    bench_rng rng = bench_rng_make(bench_arg("seed", 1), 0);
    uint64_t live = 0;
    for (uint64_t i = 0; i < all.blocks; i++) {
        live += all.sizes[i] = static_cast<uint16_t>(bench_between(&rng, 16, MOST_SIZE));
    }
    bench_live(live);
    const char *form = bench_arg_text("form", "heap");
    bool is_ours = strcmp(form, "private") == 0 || strcmp(form, "frame") == 0;
    if (is_ours && fh_heap_new == nullptr) {
        absent("only Freehold has such heaps");
    }
    if (strcmp(form, "heap") == 0) {
        return run_heap();
    }
    if (strcmp(form, "private") == 0) {
        return run<Freehold<false, FH_HEAP_PRIVATE>>();
    }
    if (strcmp(form, "frame") == 0) {
        return run<Frames>();
    }
    if (strcmp(form, "apr") == 0) {
        return run<Apr>();
    }
    if (strcmp(form, "monotonic") == 0) {
        return run<Monotonic>();
    }
    if (strcmp(form, "single") == 0) {
        return run<Single>();
    }
    bench_fail("bench: there is no form %s", form);
}
