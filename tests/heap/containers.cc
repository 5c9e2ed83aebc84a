/* freehold.hpp: containers, std::pmr and objects in a heap, its limit as an exception, and nothing that stays. */
#include "../support/check.h"

// Both headers have a freehold::make. All is a call, because the library may be a shared one.
#define FH_FAST_CALLS 1
#include <freehold/fast.h>
#include <freehold/freehold.hpp>
#include <map>
#include <string>
#include <vector>

struct sum {
    sum(int first, int second) : is(first + second) {
    }
    int is;
};

// One makes in a heap, the other where malloc does.
static void both_headers(freehold::heap &h) {
    const freehold::heap &same = h;
    auto one = freehold::make<sum>(h, 1, 2), two = freehold::make<sum>(same, 3, 4);
    sum *three = freehold::make<sum>(5, 6);
    CHECK(fh_heap_of(one.get()) == h.get() && fh_heap_of(two.get()) == h.get() && !fh_heap_of(three), "another place");
    CHECK(one->is == 3 && two->is == 7 && three->is == 11, "%d, %d and %d", one->is, two->is, three->is);
    freehold::remove(three);
}

static std::size_t live(const freehold::heap &h) {
    fh_heap_figures f;
    CHECK(fh_heap_stats(h.get(), &f) == 0, "no figures");
    return f.count;
}

struct thrower {
    explicit thrower(bool now) {
        if (now) throw 7;
    }
    alignas(64) char at[64];
};

static void containers(const freehold::heap &h) {
    freehold::heap_resource memory(h), same(h);
    CHECK(memory == same, "two resources over one heap differ");
    std::pmr::map<int, std::pmr::string> words(&memory);
    for (int i = 0; i < 1000; i++) words.emplace(i, "a string that is too long for its object");
    CHECK(fh_heap_of(words.at(1).data()) == h.get() && live(h) == 2000, "%zu blocks", live(h));
    std::vector<double, freehold::heap_allocator<double>> numbers{freehold::heap_allocator<double>(h)};
    for (int i = 0; i < 100000; i++) numbers.push_back(i);
    auto moved = std::move(numbers);
    CHECK(fh_heap_of(moved.data()) == h.get() && moved[99999] == 99999, "the vector is elsewhere");
}

struct number {
    virtual ~number() = default;
    long is = 7;
};
struct named {
    virtual ~named() = default;
    char name[40] = "";
};
struct both : named, number {};

/* Held by a base that begins in the middle of its block, and as a constant. */
static void other_types(const freehold::heap &h) {
    freehold::unique<number> one = freehold::make<both>(h);
    freehold::unique<const number> two = freehold::make<const both>(h);
    CHECK(one->is == 7 && two->is == 7 && live(h) == 2, "%zu objects", live(h));
    freehold::pool<const sum> cells(h.get());
    cells.destroy(cells.create(3, 4));
}

static void objects(const freehold::heap &h) {
    auto one = freehold::make<thrower>(h, false);
    CHECK(fh_heap_of(one.get()) == h.get() && (std::size_t)one.get() % 64 == 0 && live(h) == 1,
          "the object is elsewhere");
    int thrown = 0;
    try {
        (void)freehold::make<thrower>(h, true);
    } catch (int number) {
        thrown = number;
    }
    CHECK(thrown == 7 && live(h) == 1, "a constructor threw, and %zu blocks are there", live(h));
}

static void scopes(const freehold::heap &h) {
    int thrown = 0;
    try {
        freehold::heap_scope within(h);
        std::vector<std::string> words(100, "a string that is too long for its object");
        CHECK(fh_heap_entered() == h.get(), "not in the scope");
        throw words.size();
    } catch (std::size_t n) {
        thrown = (int)n;
    }
    CHECK(thrown == 100 && fh_heap_entered() == nullptr, "an exception has left the scope open");

    fh_heap_options options{};
    options.flags = FH_HEAP_PRIVATE;
    freehold::heap own(options);
    void *first = fh_frame_malloc(own.get(), 40);
    for (int i = 0; i < 100; i++) {
        freehold::heap_frame frame(own);
        for (int k = 0; k < 100; k++) CHECK(fh_frame_malloc(own.get(), 100) != first, "a frame block twice");
    }
    CHECK(live(own) <= 3, "%zu segments are left", live(own));
}

static void pools(const freehold::heap &h) {
    freehold::pool<thrower> cells(h.get());
    thrower *one = cells.create(false), *two = cells.create(false);
    CHECK(one != two && (std::size_t)two % 64 == 0 && fh_pool_live(cells.get()) == 2, "two objects of a pool");
    bool threw = false;
    try {
        cells.create(true);
    } catch (int) {
        threw = true;
    }
    CHECK(threw && fh_pool_live(cells.get()) == 2, "a constructor threw, and %zu cells are live",
          fh_pool_live(cells.get()));
    cells.destroy(one);
    cells.destroy(nullptr);
    CHECK(fh_pool_live(cells.get()) == 1, "%zu cells are live", fh_pool_live(cells.get()));
}

/* Both guards, when an exception passes them. */
static void guards() {
    fh_heap_options options{};
    options.flags = FH_HEAP_PRIVATE;
    freehold::heap h(options);
    fh_heap_mark before = fh_mark(h.get());
    void *within = nullptr;
    bool thrown = false;
    try {
        freehold::heap_scope scope(h);
        freehold::heap_frame frame(h);
        within = fh_malloc(50);
        CHECK(fh_frame_malloc(h.get(), 100) != nullptr, "no frame");
        throw 7;
    } catch (int) {
        thrown = true;
    }
    fh_heap_mark after = fh_mark(h.get());
    void *outside = fh_malloc(50);
    CHECK(thrown && fh_heap_entered() == nullptr, "still in the scope");
    CHECK(fh_heap_of(within) == h.get() && fh_heap_of(outside) == nullptr, "the scope is not as long as its guard");
    CHECK(before.segment == after.segment && before.next == after.next, "the frame is not released");
    fh_free(within);
    fh_free(outside);
}

static void totals() {
    fh_heap_options options{};
    options.flags = FH_HEAP_SIZES;
    freehold::heap above(options);
    options.parent = above.get();
    freehold::heap below(options);
    std::vector<int, freehold::heap_allocator<int>> one{freehold::heap_allocator<int>(above)},
        two{freehold::heap_allocator<int>(below)};
    one.reserve(33);
    two.reserve(44);
    fh_heap_totals all = above.totals(), part = below.totals();
    CHECK(all.heaps == 2 && all.count == 2 && all.requested == 77 * sizeof(int) && all.unknown == 0,
          "two heaps: %zu bytes", all.requested);
    CHECK(part.heaps == 1 && part.requested == 44 * sizeof(int), "one of them: %zu bytes", part.requested);
    CHECK(above.figures().count == 1, "it alone has %zu blocks", above.figures().count);
}

/* All of it is taken at the beginning, and what a container asks beyond is an exception. */
static void bounded() {
    fh_heap_options options{};
    options.flags = FH_HEAP_BOUNDED;
    options.hard_limit = 4 << 20;
    freehold::heap h(options);
    auto taken = h.totals().taken;
    containers(h);
    scopes(h);
    CHECK(live(h) == 0 && h.totals().taken == taken && taken <= (4 << 20), "%zu bytes were taken, then %zu", taken,
          h.totals().taken);
    std::map<int, char[4000], std::less<int>, freehold::heap_allocator<std::pair<const int, char[4000]>>> pages{
        freehold::heap_allocator<std::pair<const int, char[4000]>>(h)};
    int number = 0;
    bool full = false;
    try {
        for (; number < 4000; number++) pages[number][0] = 1;
    } catch (const std::bad_alloc &) {
        full = true;
    }
    CHECK(full && number > 700 && live(h) == (std::size_t)number, "%d pages in 4 MiB, %zu blocks", number, live(h));
}

int main() {
    totals();
    bounded();
    guards();
    fh_heap_options options{};
    options.hard_limit = 16 << 20;
    freehold::heap h(options);
    containers(h);
    CHECK(live(h) == 0, "%zu blocks of containers are left", live(h));
    objects(h);
    other_types(h);
    both_headers(h);
    CHECK(live(h) == 0, "%zu objects are left", live(h));
    scopes(h);
    CHECK(live(h) == 0, "%zu blocks of a scope are left", live(h));
    pools(h);
    CHECK(live(h) == 0, "%zu blocks of a pool are left", live(h));
    bool full = false;
    try {
        std::vector<char, freehold::heap_allocator<char>> large(32 << 20, 0, freehold::heap_allocator<char>(h));
    } catch (const std::bad_alloc &) {
        full = true;
    }
    CHECK(full, "more than the limit");
    freehold::heap other = std::move(h);
    CHECK(h.get() == nullptr && other.get() != nullptr, "the heap was not moved");
    return 0;
}
