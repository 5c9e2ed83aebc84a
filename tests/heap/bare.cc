/* freehold.hpp in a build without exceptions and without run-time type information, as engines and compilers have it. */
#include "../support/check.h"

#include <freehold/freehold.hpp>
#include <vector>

int main() {
    freehold::heap h;
    {
        freehold::heap_resource memory(h), same(h);
        CHECK(memory == memory && !(memory == same), "there is no telling that two are one");
        std::pmr::vector<int> numbers(1000, 7, &memory);
        std::vector<int, freehold::heap_allocator<int>> more(1000, 7, freehold::heap_allocator<int>(h));
        auto one = freehold::make<int>(h, 3);
        freehold::heap_scope within(h);
        freehold::pool<int> cells;
        cells.destroy(cells.create(1));
        CHECK(fh_heap_of(numbers.data()) == h.get() && fh_heap_of(one.get()) == h.get(), "another place");
    }
    CHECK(h.figures().count == 0, "%zu blocks are left", h.figures().count);
    return 0;
}
