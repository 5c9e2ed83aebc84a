/* COUNT cells of SIZE bytes taken and freed, sixteen at a time, for counting instructions and for the clock:
 * pool-price FORM SIZE COUNT. Forms: pool, pmr (std::pmr::unsynchronized_pool_resource), malloc, empty. */
#include <freehold/pool.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory_resource>

static const int LIVE = 16;

template <class Take, class Give> static void run(size_t count, Take take, Give give) {
    void *cell[LIVE];
    for (; count >= (size_t)LIVE; count -= LIVE) {
        for (int i = 0; i < LIVE; i++) {
            cell[i] = take();
            __asm__ volatile("" : "+r"(cell[i])::"memory");
        }
        for (int i = 0; i < LIVE; i++) give(cell[i]);
    }
}

static void run_form(const char *form, size_t size, size_t count) {
    if (std::strcmp(form, "pool") == 0) {
        fh_pool *pool = fh_pool_new(size, 8, nullptr);
        run(
            count, [=] { return fh_pool_alloc(pool); }, [=](void *p) { fh_pool_free(pool, p); });
        fh_pool_destroy(pool);
    } else if (std::strcmp(form, "pmr") == 0) {
        std::pmr::unsynchronized_pool_resource pool;
        run(
            count, [&] { return pool.allocate(size, 8); }, [&](void *p) { pool.deallocate(p, size, 8); });
    } else if (std::strcmp(form, "malloc") == 0) {
        run(
            count, [=] { return fh_malloc(size); }, [](void *p) { fh_free(p); });
    } else {
        static char some;
        run(
            count, [] { return (void *)&some; }, [](void *) {});
    }
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    size_t size = std::strtoull(arguments[2], nullptr, 10), cells = std::strtoull(arguments[3], nullptr, 10);
    timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    run_form(arguments[1], size, cells);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    std::printf("%-6s %4zu bytes: %.2f ns a cell\n", arguments[1], size, ns / (double)cells);
}
