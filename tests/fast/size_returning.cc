// operator new that says how much it got, under tcmalloc's names.
#include <freehold/freehold.h>

#include "../support/check.h"

#include <new>

struct sized_block {
    void *p;
    size_t n;
};

extern "C" {
sized_block __size_returning_new(size_t size);
sized_block __size_returning_new_aligned(size_t size, std::align_val_t alignment);
sized_block __size_returning_new_hot_cold(size_t size, unsigned char hint);
sized_block __size_returning_new_aligned_hot_cold(size_t size, std::align_val_t alignment, unsigned char hint);
}

int main() {
    for (size_t n = 0; n < 200000; n = n * 9 / 8 + 1) {
        for (int form = 0; form < 2; form++) {
            sized_block b = form ? __size_returning_new_hot_cold(n, 3) : __size_returning_new(n);
            CHECK(b.p && b.n == fh_good_size(n) && fh_malloc_usable_size(b.p) >= b.n, "%zu bytes: %zu", n, b.n);
            memset(b.p, 1, b.n);
            ::operator delete(b.p, n % 2 ? n : b.n);
            std::align_val_t to{512};
            b = form ? __size_returning_new_aligned_hot_cold(n, to, 3) : __size_returning_new_aligned(n, to);
            CHECK(b.p && b.n >= n && fh_malloc_usable_size(b.p) >= b.n, "%zu aligned bytes: %zu", n, b.n);
            CHECK(reinterpret_cast<uintptr_t>(b.p) % 512 == 0, "at %p", b.p);
            ::operator delete(b.p, n % 2 ? n : b.n, to);
        }
    }
    try {
        __size_returning_new(static_cast<size_t>(-1));
        CHECK(false, "there was memory");
    } catch (const std::bad_alloc &) {
        puts("bad_alloc");
    }
    CHECK(fh_verify() == 0, "the heap is damaged");
    return 0;
}
