/* Operator new with a token: see override_token.c. The names are those of the operators behind the same prefixes. */
#include "api/new_failed.h"
#include "api/token.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* The operators without a token, of this library or of the program. */
void *plain_new(size_t n) __asm__("_Znwm");
void *plain_new_array(size_t n) __asm__("_Znam");
void *plain_new_nothrow(size_t n, const void *nothrow) __asm__("_ZnwmRKSt9nothrow_t");
void *plain_new_array_nothrow(size_t n, const void *nothrow) __asm__("_ZnamRKSt9nothrow_t");
void *plain_new_aligned(size_t n, size_t align) __asm__("_ZnwmSt11align_val_t");
void *plain_new_array_aligned(size_t n, size_t align) __asm__("_ZnamSt11align_val_t");
void *plain_new_aligned_nothrow(size_t n, size_t align,
                                const void *nothrow) __asm__("_ZnwmSt11align_val_tRKSt9nothrow_t");
void *plain_new_array_aligned_nothrow(size_t n, size_t align,
                                      const void *nothrow) __asm__("_ZnamSt11align_val_tRKSt9nothrow_t");

static void *try_pointers(size_t n, size_t align, unsigned said) {
    bool clean;
    return fh_alloc_pointers(align < FH_MIN_ALIGN ? FH_MIN_ALIGN : align, n, &clean, said);
}

/* After a refusal the new handler runs until there is memory, or throws. What came of that is a block without a token: it is given
 * up again, for one where pointers may be. */
static void *new_pointers(size_t n, size_t align, unsigned said) {
    for (;;) {
        void *p = try_pointers(n, align, said);
        if (FH_LIKELY(p != NULL)) return p;
        fh_release(fh_new_failed(n, align));
    }
}

static void *new_pointers_nothrow(size_t n, size_t align, unsigned said) {
    for (;;) {
        void *p = try_pointers(n, align, said);
        if (FH_LIKELY(p != NULL)) return p;
        void *other = fh_new_failed_nothrow(n, align);
        if (!other) return NULL;
        fh_release(other);
    }
}

typedef struct {
    void *p;
    size_t n;
} sized_block;

/* Of blocks with pointers, which are 32 bytes at least in a hardened program. */
static sized_block sized(size_t n, size_t align, bool points) {
    if (align <= FH_MIN_ALIGN) n = fh_good_bytes(n);
    void *p = points ? new_pointers(n, align, FH_SAYS_NEW) : align ? plain_new_aligned(n, align) : plain_new(n);
    if (FH_UNLIKELY(fh_is_checking()) && align <= FH_MIN_ALIGN) fh_checked_set_rounded(p);
    return (sized_block){p, n};
}

/* Declares a C function for a name that is made of a prefix and an operator's mangled name. */
#define OPERATOR(type, prefix, mangled, function, ...)                                                                 \
    FH_EXPORT type function(__VA_ARGS__) __asm__(prefix mangled);                                                      \
    FH_EXPORT type function(__VA_ARGS__)

#define AND_TOKEN , size_t token

/* `tail` keeps the C names apart. */
#define FAMILY(prefix, tail, points, more)                                                                             \
    OPERATOR(void *, prefix, "_Znwm", new_##tail, size_t n more) {                                                     \
        return (points) ? new_pointers(n, 0, FH_SAYS_NEW) : plain_new(n);                                              \
    }                                                                                                                  \
    OPERATOR(void *, prefix, "_Znam", new_array_##tail, size_t n more) {                                               \
        return (points) ? new_pointers(n, 0, FH_SAYS_ARRAY) : plain_new_array(n);                                      \
    }                                                                                                                  \
    OPERATOR(void *, prefix, "_ZnwmRKSt9nothrow_t", new_nothrow_##tail, size_t n, const void *nothrow more) {          \
        return (points) ? new_pointers_nothrow(n, 0, FH_SAYS_NEW) : plain_new_nothrow(n, nothrow);                     \
    }                                                                                                                  \
    OPERATOR(void *, prefix, "_ZnamRKSt9nothrow_t", new_array_nothrow_##tail, size_t n, const void *nothrow more) {    \
        return (points) ? new_pointers_nothrow(n, 0, FH_SAYS_ARRAY) : plain_new_array_nothrow(n, nothrow);             \
    }                                                                                                                  \
    OPERATOR(void *, prefix, "_ZnwmSt11align_val_t", new_aligned_##tail, size_t n, size_t align more) {                \
        return (points) ? new_pointers(n, align, FH_SAYS_NEW) : plain_new_aligned(n, align);                           \
    }                                                                                                                  \
    OPERATOR(void *, prefix, "_ZnamSt11align_val_t", new_array_aligned_##tail, size_t n, size_t align more) {          \
        return (points) ? new_pointers(n, align, FH_SAYS_ARRAY) : plain_new_array_aligned(n, align);                   \
    }                                                                                                                  \
    OPERATOR(void *, prefix, "_ZnwmSt11align_val_tRKSt9nothrow_t", new_aligned_nothrow_##tail, size_t n, size_t align, \
             const void *nothrow more) {                                                                               \
        return (points) ? new_pointers_nothrow(n, align, FH_SAYS_NEW) : plain_new_aligned_nothrow(n, align, nothrow);  \
    }                                                                                                                  \
    OPERATOR(void *, prefix, "_ZnamSt11align_val_tRKSt9nothrow_t", new_array_aligned_nothrow_##tail, size_t n,         \
             size_t align, const void *nothrow more) {                                                                 \
        return (points) ? new_pointers_nothrow(n, align, FH_SAYS_ARRAY)                                                \
                        : plain_new_array_aligned_nothrow(n, align, nothrow);                                          \
    }                                                                                                                  \
    OPERATOR(sized_block, prefix, "__size_returning_new", sized_##tail, size_t n more) {                               \
        return sized(n, 0, points);                                                                                    \
    }                                                                                                                  \
    OPERATOR(sized_block, prefix, "__size_returning_new_aligned", sized_aligned_##tail, size_t n, size_t align more) { \
        return sized(n, align, points);                                                                                \
    }                                                                                                                  \
    OPERATOR(sized_block, prefix, "__size_returning_new_hot_cold", sized_hot_##tail, size_t n, uint8_t hint more) {    \
        (void)hint;                                                                                                    \
        return sized(n, 0, points);                                                                                    \
    }                                                                                                                  \
    OPERATOR(sized_block, prefix, "__size_returning_new_aligned_hot_cold", sized_aligned_hot_##tail, size_t n,         \
             size_t align, uint8_t hint more) {                                                                        \
        (void)hint;                                                                                                    \
        return sized(n, align, points);                                                                                \
    }

FAMILY("__alloc_token_", token, fh_token_points(token), AND_TOKEN)
FAMILY("__alloc_token_0_", zero, false, )
FAMILY("__alloc_token_1_", one, true, )
