// The C++ half of freehold/fast.h: objects, containers, class operators, errors.
#include <freehold/fast.h>
#include <freehold/heap.h>

#include "../support/check.h"

#include <array>
#include <map>
#include <new>
#include <string>
#include <vector>

namespace {

int alive;

struct object {
    FREEHOLD_FAST_OPERATORS
    explicit object(int n) : number(n) {
        if (n < 0) throw n;
        alive++;
    }
    virtual ~object() {
        alive--;
    }
    int number;
};

struct heir : object {
    explicit heir(int n) : object(n) {
    }
    char more[300] = {};
};

struct plain {
    plain(int first, int second) : sum(first + second) {
    }
    int sum;
    char more[100] = {};
};

struct alignas(256) wide {
    char bytes[256];
};

// A size that no class of blocks is a multiple of, once something is in front of the block.
struct alignas(64) aligned_heir : object {
    FREEHOLD_FAST_OPERATORS
    explicit aligned_heir(int n) : object(n) {
    }
    char more[150] = {};
};

#if defined(__cpp_aligned_new)
const bool compiler_aligns = true;
#else
const bool compiler_aligns = false;
#endif

template <class T> void expect_aligned(const T *p) {
    CHECK(p && reinterpret_cast<uintptr_t>(p) % alignof(T) == 0, "at %p", static_cast<const void *>(p));
}

// Also where there is something in front of each block: in a heap, and in a checked program.
void class_operators_aligned() {
    object *held[100];
    fh_heap *heap = fh_heap_new(nullptr);
    for (int scope = 0; scope < 2; scope++) {
        CHECK(!scope || (heap && fh_heap_enter(heap) == 0), "no scope");
        for (int i = 0; i < 100; i++) {
            aligned_heir *p = i % 2 ? new aligned_heir(i) : new (std::nothrow) aligned_heir(i);
            expect_aligned(p);
            held[i] = p;
        }
        for (object *p : held) delete p;
        CHECK(!scope || fh_heap_leave() == 0, "no scope is left");
    }
    CHECK(fh_heap_destroy(heap) == 0 && alive == 0, "%d objects are left", alive);
}

void class_operators() {
    for (int i = 0; i < 1000; i++) {
        object *small = new object(i), *large = new heir(i);
        CHECK(fh_malloc_usable_size(large) >= sizeof(heir), "the heir got %zu bytes", fh_malloc_usable_size(large));
        delete small;
        delete large; // by a pointer to the base: the destructor knows the size
        try {
            delete new object(-1);
            CHECK(false, "nothing was thrown");
        } catch (int n) {
            CHECK(n == -1, "%d was thrown", n);
        }
        try {
            delete new (std::nothrow) object(-1);
            CHECK(false, "nothing was thrown");
        } catch (int n) {
            CHECK(n == -1, "%d was thrown", n);
        }
        delete new (std::nothrow) heir(i);
    }
    CHECK(alive == 0, "%d objects are left", alive);
}

// A container that was filled in a scope of a heap, and ends after it. Its block is none for a magazine.
void from_a_scope() {
    // The bin of that size has room.
    using twelve = std::array<int, 12>;
    for (int i = 0; i < 100; i++) freehold::remove(freehold::make<twelve>());
    twelve *kept = freehold::make<twelve>();
    fh_heap *heap = fh_heap_new(nullptr);
    CHECK(heap && fh_heap_enter(heap) == 0, "no heap");
    {
        std::vector<int, freehold::allocator<int>> numbers(12, 7);
        CHECK(fh_heap_leave() == 0 && fh_heap_of(numbers.data()) == heap, "not of the heap");
    }
    fh_heap_figures figures;
    CHECK(fh_heap_stats(heap, &figures) == 0 && figures.count == 0, "%zu blocks are left", figures.count);
    CHECK(fh_heap_destroy(heap) == 0, "not destroyed");
    freehold::remove(kept);
}

void objects() {
    for (int i = 0; i < 1000; i++) {
        plain *p = freehold::make<plain>(i, 2);
        CHECK(p->sum == i + 2, "%d", p->sum);
        wide *w = freehold::make<wide>();
        CHECK(reinterpret_cast<uintptr_t>(w) % 256 == 0, "at %p", static_cast<void *>(w));
        freehold::remove(p);
        freehold::remove(w);
        freehold::remove(static_cast<plain *>(nullptr));
    }
}

void containers() {
    std::vector<int, freehold::allocator<int>> numbers;
    std::map<int, std::string, std::less<int>, freehold::allocator<std::pair<const int, std::string>>> names;
    for (int i = 0; i < 20000; i++) {
        numbers.push_back(i);
        names[i] = "name " + std::to_string(i);
    }
    CHECK(numbers[19999] == 19999 && names[777] == "name 777", "other contents");
    for (int i = 0; i < 20000; i += 2) names.erase(i);
    CHECK(names.size() == 10000, "%zu names", names.size());
}

void at_least() {
    freehold::allocator<char> characters;
    freehold::allocator<plain> plains;
    for (std::size_t n = 1; n < 3000; n++) {
        auto got = characters.allocate_at_least(n);
        CHECK(got.count >= n && got.count == fh_good_size(n) && fh_malloc_usable_size(got.ptr) >= got.count, "%zu: %zu",
              n, got.count);
        characters.deallocate(got.ptr, n % 2 ? n : got.count);
        auto some = plains.allocate_at_least(n);
        CHECK(some.count >= n && fh_malloc_usable_size(some.ptr) >= some.count * sizeof(plain), "%zu: %zu", n,
              some.count);
        plains.deallocate(some.ptr, n % 2 ? n : some.count);
    }
}

int handled;

void handler() {
    if (++handled == 3) std::set_new_handler(nullptr);
}

void no_memory() {
    freehold::allocator<plain> plains;
    std::set_new_handler(handler);
    try {
        plains.deallocate(plains.allocate(static_cast<std::size_t>(-1) / 2), 1);
        CHECK(false, "there was memory");
    } catch (const std::bad_alloc &) {
        CHECK(handled == 3, "the handler was called %d times", handled);
    }
}

struct vast {
    FREEHOLD_FAST_OPERATORS
    char more[static_cast<std::size_t>(1) << 59];
};

// As the operators of all classes: the handler is asked, and then there is none.
void no_memory_nothrow() {
    handled = 0;
    std::set_new_handler(handler);
    CHECK(new (std::nothrow) vast == nullptr &&handled == 3, "the handler was called %d times", handled);
    std::set_new_handler([] { throw std::bad_alloc(); });
    CHECK(new (std::nothrow) vast == nullptr, "there was memory");
    std::set_new_handler(nullptr);
}

} // namespace

int main() {
    class_operators();
    if (compiler_aligns) class_operators_aligned();
    from_a_scope();
    objects();
    containers();
    at_least();
    no_memory();
    no_memory_nothrow();
    CHECK(fh_verify() == 0, "the heap is damaged");
    return 0;
}
