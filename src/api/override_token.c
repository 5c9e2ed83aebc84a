/* The malloc family with a token, under the names that clang gives the calls of a program that is compiled with
 * -fsanitize=alloc-token: __alloc_token_malloc(size, token). With -fsanitize-alloc-token-fast-abi the token is in the name, and
 * there are those of -falloc-token-max=2: __alloc_token_0_malloc(size), __alloc_token_1_malloc(size). */
#include "api/options.h"
#include "api/token.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* Their blocks are freed by free, so that has to be ours too: see new.c. */
static const char *const take_override_along __attribute__((used)) = &fh_override_wanted;

#define AND_TOKEN , size_t token

/* The family with that prefix. `points`: whether the type holds pointers. more: the parameter behind the others, if there is one. */
// NOLINTBEGIN(bugprone-macro-parentheses): pieces of names and of argument lists
#define FAMILY(prefix, points, more)                                                                                   \
    FH_EXPORT void *prefix##malloc(size_t size more) {                                                                 \
        return fh_token_malloc(size, points);                                                                          \
    }                                                                                                                  \
    FH_EXPORT void *prefix##calloc(size_t count, size_t size more) {                                                   \
        return fh_token_calloc(count, size, points);                                                                   \
    }                                                                                                                  \
    FH_EXPORT void *prefix##realloc(void *p, size_t size more) {                                                       \
        return fh_token_realloc(p, size, points);                                                                      \
    }                                                                                                                  \
    FH_EXPORT void *prefix##reallocarray(void *p, size_t count, size_t size more) {                                    \
        size_t n;                                                                                                      \
        return fh_product(count, size, &n) ? fh_token_realloc(p, n, points) : fh_fail(ENOMEM);                         \
    }                                                                                                                  \
    FH_EXPORT void *prefix##aligned_alloc(size_t align, size_t size more) {                                            \
        return fh_is_power_of_two(align) ? fh_token_aligned(align, size, points) : fh_fail(EINVAL);                    \
    }                                                                                                                  \
    FH_EXPORT int prefix##posix_memalign(void **result, size_t align, size_t size more) {                              \
        return posix_memalign_of(result, align, size, points);                                                         \
    }                                                                                                                  \
    FH_EXPORT void *prefix##memalign(size_t align, size_t size more) {                                                 \
        return memalign_of(align, size, points);                                                                       \
    }                                                                                                                  \
    FH_EXPORT void *prefix##valloc(size_t size more) {                                                                 \
        return fh_token_aligned(fh_system_page_size(), size, points);                                                  \
    }                                                                                                                  \
    FH_EXPORT void *prefix##pvalloc(size_t size more) {                                                                \
        return pvalloc_of(size, points);                                                                               \
    }
// NOLINTEND(bugprone-macro-parentheses)

static int posix_memalign_of(void **result, size_t align, size_t size, bool points) {
    if (!points) return fh_call_posix_memalign(result, align, size);
    if (!fh_is_power_of_two(align) || align % sizeof(void *)) return EINVAL;
    int saved = errno;
    void *p = fh_token_aligned(align, size, true);
    errno = saved;
    if (!p) return ENOMEM;
    *result = p;
    return 0;
}

/* The alignment is rounded as by memalign. */
static void *memalign_of(size_t align, size_t size, bool points) {
    if (!points) return fh_call_memalign(align, size);
    if (align > SIZE_MAX / 2 + 1) return fh_fail(EINVAL);
    if (align < FH_MIN_ALIGN) align = FH_MIN_ALIGN;
    if (!fh_is_power_of_two(align)) align = (size_t)2 << fh_highest_bit(align);
    return fh_token_aligned(align, size, true);
}

static void *pvalloc_of(size_t size, bool points) {
    size_t page = fh_system_page_size();
    if (size > SIZE_MAX - page) return fh_fail(ENOMEM);
    return fh_token_aligned(page, fh_round_up(size, page), points);
}

FAMILY(__alloc_token_, fh_token_points(token), AND_TOKEN)
FAMILY(__alloc_token_0_, false, )
FAMILY(__alloc_token_1_, true, )
