/* Blocks of operator new that go back the wrong way: checked_new CASE. With option check each is found; see checked.c. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

static void *volatile block;

struct sized_block {
    void *p;
    size_t n;
};
extern "C" sized_block __size_returning_new(size_t size);

struct alignas(64) wide {
    char bytes[128];
};

__attribute__((noinline)) static void size_of_other() {
    block = ::operator new(100);
    ::operator delete(block, 40);
}
static void new_then_free() {
    block = ::operator new(100);
    free(block);
}
static void new_array_then_delete() {
    block = new char[100];
    ::operator delete(block);
}
static void new_then_delete_array() {
    block = ::operator new(100);
    ::operator delete[](block);
}
static void malloc_then_delete() {
    block = malloc(100);
    ::operator delete(block);
}
static void new_then_realloc() {
    block = ::operator new(100);
    block = realloc(block, 200);
}
static void new_aligned_then_plain() {
    block = ::operator new (128, std::align_val_t{64});
    ::operator delete(block);
}
static void new_aligned_then_other() {
    block = ::operator new (128, std::align_val_t{64});
    ::operator delete (block, std::align_val_t{128});
}
static void new_aligned_then_free() {
    block = ::operator new (128, std::align_val_t{64});
    free(block);
}
static void deleted_twice() {
    block = ::operator new(100);
    ::operator delete(block);
    ::operator delete(block);
}

/* No misuse: nothing may be said. */
static void innocent() {
    delete new int(3);
    delete[] new int[30];
    delete new wide;
    delete[] new wide[3];
    ::operator delete(::operator new(10, std::nothrow), std::nothrow);
    ::operator delete[](::operator new[](10, std::nothrow), std::nothrow);
    ::operator delete (::operator new (10, std::align_val_t{256}), 10, std::align_val_t{256});
    ::operator delete (::operator new (10, std::align_val_t{8}), 10, std::align_val_t{8});
    ::operator delete(nullptr);
    for (size_t n = 0; n < 200000; n = n * 9 / 8 + 1) { /* either size is right */
        ::operator delete(__size_returning_new(n).p, n);
        sized_block sized = __size_returning_new(n);
        ::operator delete(sized.p, sized.n);
    }
    std::vector<std::string> words;
    for (int i = 0; i < 1000; i++) words.push_back(std::string(static_cast<size_t>(i), 'x'));
    words.clear();
    try {
        block = ::operator new(static_cast<size_t>(-1) / 4);
    } catch (const std::bad_alloc &) {
        block = nullptr;
    }
}

static const struct {
    const char *name;
    void (*run)();
} cases[] = {
    {"size_of_other", size_of_other},
    {"new_then_free", new_then_free},
    {"new_array_then_delete", new_array_then_delete},
    {"new_then_delete_array", new_then_delete_array},
    {"malloc_then_delete", malloc_then_delete},
    {"new_then_realloc", new_then_realloc},
    {"new_aligned_then_plain", new_aligned_then_plain},
    {"new_aligned_then_other", new_aligned_then_other},
    {"new_aligned_then_free", new_aligned_then_free},
    {"deleted_twice", deleted_twice},
    {"innocent", innocent},
};

int main(int count, char **arguments) {
    for (const auto &one : cases) {
        if (count > 1 && strcmp(arguments[1], one.name) == 0) {
            one.run();
            puts("went on");
            return 0;
        }
    }
    fprintf(stderr, "usage: checked_new CASE\n");
    return 2;
}
