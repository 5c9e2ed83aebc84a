/* fh_good_size, fh_malloc_at_least, fh_try_grow: a block has what they say, and grows in place or not at all. */
#include <freehold/freehold.h>

#include "../support/check.h"

/* Each size class once, its borders, and whole pages. */
static void good_sizes(void) {
    size_t before = 0, steps = 0;
    for (size_t n = 0; n <= (size_t)3 << 20; n += n < 70000 ? 1 : 997) {
        size_t good = fh_good_size(n);
        CHECK(good >= n && good >= before && fh_good_size(good) == good, "%zu bytes: %zu", n, good);
        CHECK(n <= 128 || good <= n + n / 8 + 16, "%zu bytes get %zu", n, good);
        steps += good != before;
        if (good != before || n % 97 == 0) {
            size_t got = 1;
            unsigned char *p = fh_malloc_at_least(n, &got);
            CHECK(p && got == good, "%zu bytes: got %zu, not %zu", n, got, good);
            CHECK(fh_malloc_usable_size(p) >= got, "%zu bytes: %zu are usable", got, fh_malloc_usable_size(p));
            memset(p, 1, got);
            fh_free_sized(p, n % 2 ? n : got);
        }
        before = good;
    }
    CHECK(steps > 170, "only %zu sizes", steps);
    CHECK(fh_good_size(SIZE_MAX) == SIZE_MAX, "a size that there cannot be changes");
}

static void no_memory(void) {
    size_t got = 77;
    errno = 0;
    CHECK(fh_malloc_at_least(SIZE_MAX - 4096, &got) == NULL && errno == ENOMEM && got == 77, "errno %d, got %zu", errno,
          got);
}

static void small_grow(void) {
    for (size_t n = 1; n <= 65536; n = n * 5 / 4 + 1) {
        unsigned char *p = fh_malloc(n);
        CHECK(p != NULL, "no memory");
        size_t room = fh_malloc_usable_size(p);
        memset(p, 7, n);
        errno = 5;
        CHECK(fh_try_grow(p, n) == 1 && fh_try_grow(p, room) == 1 && fh_try_grow(p, 0) == 1, "%zu bytes within %zu", n,
              room);
        CHECK(fh_try_grow(p, room + 1) == 0, "%zu bytes grew beyond %zu", n, room);
        CHECK(errno == 5, "errno is %d", errno);
        CHECK(p[0] == 7 && p[n - 1] == 7, "the content changed");
        fh_free(p);
    }
    CHECK(fh_try_grow(NULL, 1) == 0 && fh_try_grow(NULL, 0) == 0, "NULL grew");
}

/* Large ones: what has grown is where it was, reaches as far as was said, and is nobody else's. With a block behind it, and with
 * the memory behind it free. */
static void large_grow(void) {
    unsigned grown = 0, refused = 0;
    for (size_t n = 100000; n < (size_t)20 << 20; n = n * 3 / 2) {
        for (int freed = 0; freed < 2; freed++) {
            unsigned char *p = fh_malloc(n), *behind = fh_malloc(n), *wall = fh_malloc(n);
            CHECK(p && behind && wall, "no memory");
            memset(p, 3, n);
            memset(wall, 4, n);
            if (freed) fh_free(behind);
            size_t more = n + n / 4;
            if (fh_try_grow(p, more)) {
                grown++;
                CHECK(fh_malloc_usable_size(p) >= more, "%zu bytes: %zu are usable", more, fh_malloc_usable_size(p));
                CHECK(p[0] == 3 && p[n - 1] == 3, "the content changed");
                memset(p, 5, more);
            } else {
                refused++;
                CHECK(fh_malloc_usable_size(p) >= n && p[n - 1] == 3, "a block that did not grow is another");
            }
            CHECK(wall[0] == 4 && wall[n - 1] == 4, "it grew into another block");
            CHECK(fh_try_grow(p, SIZE_MAX / 2) == 0, "it grew beyond all memory");
            fh_free(p);
            if (!freed) fh_free(behind);
            fh_free(wall);
        }
    }
    printf("large blocks: %u grew, %u did not\n", grown, refused);
    CHECK(grown > 0 && refused > 0, "%u grew and %u did not", grown, refused);
}

int main(void) {
    good_sizes();
    no_memory();
    small_grow();
    large_grow();
    CHECK(fh_verify() == 0, "the heap is damaged");
    return 0;
}
