// A program that replaces some of the operators. The C++ library's other forms call those, so ours must too: each block that this
// program's new returned has a header before it, and whoever passes it to free directly passes what malloc never returned.
//
// PLAIN, ALIGNED and ARRAYS say which it replaces. The same program under the C library's malloc says what is right.
#include "../support/alloc.h"
#include "../support/check.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#ifndef PLAIN
#define PLAIN 0
#endif
#ifndef ALIGNED
#define ALIGNED 0
#endif
#ifndef ARRAYS
#define ARRAYS 0
#endif

namespace {

constexpr std::uint64_t MAGIC = 0x0f7ee601d;

struct header {
    void *block;
    std::uint64_t magic;
};

long allocated, released;
bool refuse;

void *take(std::size_t size, std::size_t alignment) {
    if (refuse) throw std::bad_alloc();
    const std::size_t before = alignment < sizeof(header) ? sizeof(header) : alignment;
    void *block = std::aligned_alloc(before, (size + 2 * before - 1) / before * before);
    CHECK(block, "no memory for %zu bytes", size);
    char *const p = static_cast<char *>(block) + before;
    const header h{block, MAGIC};
    std::memcpy(p - sizeof h, &h, sizeof h);
    allocated++;
    return p;
}

void give(void *p) {
    if (!p) return;
    header h{};
    std::memcpy(&h, static_cast<char *>(p) - sizeof h, sizeof h);
    CHECK(h.magic == MAGIC, "delete(%p), which this program's new did not return", p);
    std::memset(static_cast<char *>(p) - sizeof h, 0, sizeof h);
    released++;
    std::free(h.block);
}

} // namespace

#if PLAIN
void *operator new(std::size_t n) {
    return take(n, 1);
}
void operator delete(void *p) noexcept {
    give(p);
}
#endif
#if ALIGNED
void *operator new(std::size_t n, std::align_val_t align) {
    return take(n, static_cast<std::size_t>(align));
}
void operator delete(void *p, std::align_val_t) noexcept {
    give(p);
}
#endif
#if ARRAYS
void *operator new[](std::size_t n) {
    return take(n, 1);
}
void operator delete[](void *p) noexcept {
    give(p);
}
void *operator new[](std::size_t n, std::align_val_t align) {
    return take(n, static_cast<std::size_t>(align));
}
void operator delete[](void *p, std::align_val_t) noexcept {
    give(p);
}
#endif

namespace {

const std::align_val_t ALIGN{64};

// Is each form's block from this program's operator, and does it come back to it?
template <class New, class Delete> void round(const char *form, bool theirs, New allocate, Delete release) {
    const long before = allocated, back = released;
    void *p = allocate(100);
    CHECK(p, "%s returned nullptr", form);
    std::memset(p, 0x5A, 100);
    CHECK(allocated - before == (theirs ? 1 : 0), "%s: %ld calls of the program's new", form, allocated - before);
    release(p);
    CHECK(released - back == (theirs ? 1 : 0), "%s: %ld calls of the program's delete", form, released - back);
}

// A refusal by the program's new is nullptr from the forms that do not throw.
template <class New> void refused(const char *form, bool theirs, New allocate) {
    if (!theirs) return;
    refuse = true;
    void *p = allocate(100);
    refuse = false;
    CHECK(!p, "%s: %p where the program's new throws", form, p);
}

template <class New, class Quiet, class Plain, class Sized, class NoThrow>
void family(const char *form, bool theirs, New allocate, Quiet quietly, Plain plain, Sized sized, NoThrow nothrow) {
    round(form, theirs, allocate, plain);
    round(form, theirs, allocate, sized);
    round(form, theirs, allocate, nothrow);
    round(form, theirs, quietly, plain);
    round(form, theirs, quietly, sized);
    round(form, theirs, quietly, nothrow);
    refused(form, theirs, quietly);
    plain(nullptr);
    sized(nullptr);
}

void every_form() {
    using std::nothrow;
    using std::size_t;
    family(
        "new", PLAIN, [](size_t n) { return ::operator new(n); }, [](size_t n) { return ::operator new(n, nothrow); },
        [](void *p) { ::operator delete(p); }, [](void *p) { ::operator delete (p, size_t{100}); },
        [](void *p) { ::operator delete(p, nothrow); });
    family(
        "new[]", PLAIN || ARRAYS, [](size_t n) { return ::operator new[](n); },
        [](size_t n) { return ::operator new[](n, nothrow); }, [](void *p) { ::operator delete[](p); },
        [](void *p) { ::operator delete[](p, size_t{100}); }, [](void *p) { ::operator delete[](p, nothrow); });
    family(
        "aligned new", ALIGNED, [](size_t n) { return ::operator new(n, ALIGN); },
        [](size_t n) { return ::operator new(n, ALIGN, nothrow); }, [](void *p) { ::operator delete(p, ALIGN); },
        [](void *p) { ::operator delete (p, size_t{100}, ALIGN); },
        [](void *p) { ::operator delete(p, ALIGN, nothrow); });
    family(
        "aligned new[]", ALIGNED || ARRAYS, [](size_t n) { return ::operator new[](n, ALIGN); },
        [](size_t n) { return ::operator new[](n, ALIGN, nothrow); }, [](void *p) { ::operator delete[](p, ALIGN); },
        [](void *p) { ::operator delete[](p, size_t{100}, ALIGN); },
        [](void *p) { ::operator delete[](p, ALIGN, nothrow); });
}

struct shape {
    virtual ~shape() = default;
    std::string name = std::string(40, 'n');
};

struct circle : shape {
    std::vector<int> points = std::vector<int>(10, 7);
};

struct alignas(128) wide {
    char bytes[256];
};

// What programs write, half of it inside the C++ library.
void everyday() {
    std::vector<std::unique_ptr<shape>> shapes;
    for (int i = 0; i < 1000; i++) shapes.push_back(std::make_unique<circle>());
    shapes.resize(500);
    std::unique_ptr<circle[]> many(new circle[10]);
    std::vector<wide> wides(10);
    std::vector<std::string> names(100, std::string(200, 'x'));
    auto shared = std::make_shared<circle>();
    CHECK(shapes.size() + names.size() == 600 && shared->points[9] == 7, "contents");
}

} // namespace

int main() {
    every_form();
    everyday();
    CHECK(allocated == released, "%ld allocated, %ld released", allocated, released);
    const bool any = PLAIN || ALIGNED || ARRAYS;
    CHECK((allocated > 0) == any, "%ld calls", allocated);
    return 0;
}
