/* Blocks that hold pointers and blocks that do not are never in one slab, nor does one come to where the other was: by
 * fh_malloc_type, and in the drop-in by the names that clang gives the calls of a program. Run with and without harden=1. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <freehold/freehold.h>

#include <pthread.h>
#include <string.h>

/* Where the one kind was and where the other: a bit for each 64 KiB of a TiB from the lowest address on that was seen. */
#define SLOT_SHIFT 16
enum { MAP = 1 << 24, HELD = 500, ROUNDS = 60000 };
static unsigned char was[2][MAP / 8];
static uintptr_t base;

static size_t index_of(uintptr_t p) {
    if (!base) base = p - ((uintptr_t)1 << 39);
    size_t i = (p - base) >> SLOT_SHIFT;
    CHECK(i < MAP, "a block at %#zx, far from others", (size_t)p);
    return i;
}

/* A block of that kind is at p. */
static void see(const char *call, const void *p, size_t n, int points) {
    CHECK(p, "%s: no memory for %zu bytes", call, n);
    size_t last = index_of((uintptr_t)p + (n ? n - 1 : 0));
    for (size_t i = index_of((uintptr_t)p); i <= last; i++) {
        CHECK(!(was[!points][i / 8] >> i % 8 & 1), "%s: %zu bytes %s pointers at %p, where the others were", call, n,
              points ? "with" : "without", p);
        was[points][i / 8] |= (unsigned char)(1 << i % 8);
    }
}

static unsigned next(unsigned *state) {
    return (*state = *state * 1103515245u + 12345u) / 65536;
}

static size_t some_size(unsigned *state) {
    static const size_t most[] = {64, 64, 300, 300, 1024, 5000, 5000, 70000, 300000, 3000000};
    unsigned of = next(state) % (next(state) % 20 ? 7 : 10);
    return next(state) * 32768u % most[of] + next(state) % 50;
}

/* ── The names ───────────────────────────────────────────────────────────────────────────────────────────────────── */

#ifndef T_EMBED
// NOLINTBEGIN(bugprone-macro-parentheses): pieces of names and of argument lists
#define FAMILY(prefix, more)                                                                                           \
    void *prefix##malloc(size_t more);                                                                                 \
    void *prefix##calloc(size_t, size_t more);                                                                         \
    void *prefix##realloc(void *, size_t more);                                                                        \
    void *prefix##reallocarray(void *, size_t, size_t more);                                                           \
    void *prefix##aligned_alloc(size_t, size_t more);                                                                  \
    int prefix##posix_memalign(void **, size_t, size_t more);                                                          \
    void *prefix##memalign(size_t, size_t more);                                                                       \
    void *prefix##valloc(size_t more);                                                                                 \
    void *prefix##pvalloc(size_t more);                                                                                \
    void *prefix##_Znwm(size_t more);                                                                                  \
    void *prefix##_Znam(size_t more);                                                                                  \
    void *prefix##_ZnwmRKSt9nothrow_t(size_t, const void *more);                                                       \
    void *prefix##_ZnamRKSt9nothrow_t(size_t, const void *more);                                                       \
    void *prefix##_ZnwmSt11align_val_t(size_t, size_t more);                                                           \
    void *prefix##_ZnamSt11align_val_t(size_t, size_t more);                                                           \
    void *prefix##_ZnwmSt11align_val_tRKSt9nothrow_t(size_t, size_t, const void *more);                                \
    void *prefix##_ZnamSt11align_val_tRKSt9nothrow_t(size_t, size_t, const void *more);                                \
    sized prefix##__size_returning_new(size_t more);                                                                   \
    sized prefix##__size_returning_new_aligned(size_t, size_t more);                                                   \
    sized prefix##__size_returning_new_hot_cold(size_t, unsigned char more);                                           \
    sized prefix##__size_returning_new_aligned_hot_cold(size_t, size_t, unsigned char more);
#define TOKEN , size_t
typedef struct {
    void *p;
    size_t n;
} sized;
FAMILY(__alloc_token_, TOKEN)
FAMILY(__alloc_token_0_, )
FAMILY(__alloc_token_1_, )

enum { CALLS = 21 };

/* The call of that number with a token that says whether there are pointers. *n: the bytes that came of it; *align. */
#define CALL(prefix, more)                                                                                             \
    switch (call) {                                                                                                    \
    case 0:                                                                                                            \
        return prefix##malloc(*n more);                                                                                \
    case 1:                                                                                                            \
        return prefix##calloc(*n, 1 more);                                                                             \
    case 2:                                                                                                            \
        return prefix##realloc(prefix##malloc(*n / 2 + 1 more), *n more);                                              \
    case 3:                                                                                                            \
        return prefix##reallocarray(NULL, *n, 1 more);                                                                 \
    case 4:                                                                                                            \
        return prefix##aligned_alloc(*align, *n more);                                                                 \
    case 5:                                                                                                            \
        return prefix##posix_memalign(&p, *align, *n more) ? NULL : p;                                                 \
    case 6:                                                                                                            \
        return prefix##memalign(*align, *n more);                                                                      \
    case 7:                                                                                                            \
        *align = 4096;                                                                                                 \
        return prefix##valloc(*n more);                                                                                \
    case 8:                                                                                                            \
        *align = 4096;                                                                                                 \
        return prefix##pvalloc(*n more);                                                                               \
    case 9:                                                                                                            \
        return prefix##_Znwm(*n more);                                                                                 \
    case 10:                                                                                                           \
        return prefix##_Znam(*n more);                                                                                 \
    case 11:                                                                                                           \
        return prefix##_ZnwmRKSt9nothrow_t(*n, "" more);                                                               \
    case 12:                                                                                                           \
        return prefix##_ZnamRKSt9nothrow_t(*n, "" more);                                                               \
    case 13:                                                                                                           \
        return prefix##_ZnwmSt11align_val_t(*n, *align more);                                                          \
    case 14:                                                                                                           \
        return prefix##_ZnamSt11align_val_t(*n, *align more);                                                          \
    case 15:                                                                                                           \
        return prefix##_ZnwmSt11align_val_tRKSt9nothrow_t(*n, *align, "" more);                                        \
    case 16:                                                                                                           \
        return prefix##_ZnamSt11align_val_tRKSt9nothrow_t(*n, *align, "" more);                                        \
    case 17:                                                                                                           \
        s = prefix##__size_returning_new(*n more);                                                                     \
        break;                                                                                                         \
    case 18:                                                                                                           \
        s = prefix##__size_returning_new_aligned(*n, *align more);                                                     \
        break;                                                                                                         \
    case 19:                                                                                                           \
        s = prefix##__size_returning_new_hot_cold(*n, 1 more);                                                         \
        break;                                                                                                         \
    default:                                                                                                           \
        s = prefix##__size_returning_new_aligned_hot_cold(*n, *align, 1 more);                                         \
        break;                                                                                                         \
    }                                                                                                                  \
    CHECK(s.n >= *n, "%zu of %zu bytes", s.n, *n);                                                                     \
    *n = s.n;                                                                                                          \
    return s.p;
// NOLINTEND(bugprone-macro-parentheses)

static void *by_token(int call, size_t *n, size_t *align, size_t token) {
    void *p;
    sized s;
#define AND , token
    CALL(__alloc_token_, AND)
#undef AND
}
static void *by_name_0(int call, size_t *n, size_t *align) {
    void *p;
    sized s;
    CALL(__alloc_token_0_, )
}
static void *by_name_1(int call, size_t *n, size_t *align) {
    void *p;
    sized s;
    CALL(__alloc_token_1_, )
}

static void *allocate(unsigned *state, size_t *n, int points) {
    static const size_t tokens[2][3] = {{0, SIZE_MAX / 2 - 1, 12345}, {1, SIZE_MAX / 2, SIZE_MAX - 1}};
    int call = (int)(next(state) % (CALLS + 1));
    if (call == CALLS) return fh_malloc_type(*n, tokens[points][next(state) % 3]);
    bool aligns = (call >= 4 && call <= 6) || (call >= 13 && call <= 16) || call == 18 || call == 20;
    size_t align = aligns ? (size_t)16 << next(state) % 10 : 16;
    void *p;
    if (next(state) % 2) {
        p = by_token(call, n, &align, tokens[points][next(state) % 3]);
    } else {
        p = points ? by_name_1(call, n, &align) : by_name_0(call, n, &align);
    }
    CHECK((uintptr_t)p % align == 0, "call %d: %p is no multiple of %zu", call, p, align);
    for (size_t i = 0; call == 1 && i < *n; i++) CHECK(((char *)p)[i] == 0, "calloc: byte %zu is not 0", i);
    return p;
}
#else
static void *allocate(unsigned *state, size_t *n, int points) {
    static const size_t tokens[2][3] = {{FH_TYPE_DATA, SIZE_MAX / 2 - 1, 12345},
                                        {FH_TYPE_POINTERS, SIZE_MAX / 2, SIZE_MAX - 1}};
    return fh_malloc_type(*n, tokens[points][next(state) % 3]);
}
#endif

/* ── What is checked ─────────────────────────────────────────────────────────────────────────────────────────────── */

static void *free_it(void *p) {
    t_free(p);
    return NULL;
}

/* In waves: mostly the one kind is allocated while mostly the other is freed, so that each would come to where the other was. */
static void mix(unsigned *state) {
    static struct {
        char *p;
        size_t n;
        int points;
    } held[HELD];
    for (unsigned i = 0; i < ROUNDS; i++) {
        int points = (i / 3000 + (next(state) % 8 == 0)) % 2;
        unsigned at = next(state) % HELD;
        if (held[at].p) {
            CHECK(held[at].p[0] == (char)at && held[at].p[held[at].n - 1] == (char)at, "a block has changed");
            t_free(held[at].p);
        }
        size_t n = some_size(state) + 1;
        char *p = allocate(state, &n, points);
        see("allocate", p, n, points);
        if (next(state) % 8 == 0) {
            n = some_size(state) + 1;
            p = t_realloc(p, n); /* keeps its kind */
            see("realloc", p, n, points);
        }
        memset(p, (int)at, n);
        held[at].p = p;
        held[at].n = n;
        held[at].points = points;
        /* What has no token is as what holds no pointers. */
        void *plain = t_malloc(some_size(state));
        see("malloc", plain, 1, 0);
        t_free(plain);
        if (i % 5000 == 0) t_malloc_trim(0);
    }
    for (unsigned i = 0; i < HELD; i++) t_free(held[i].p);
}

/* All of one kind is freed, by another thread too, and returned to the OS; then as much of the other is allocated. */
static void one_after_the_other(unsigned *state) {
    static void *held[20000];
    enum { MANY = sizeof held / sizeof held[0] };
    for (unsigned turn = 0; turn < 4; turn++) {
        for (unsigned i = 0; i < MANY; i++) {
            size_t n = 1 + next(state) % 400;
            held[i] = allocate(state, &n, turn % 2);
            see("allocate", held[i], n, turn % 2);
        }
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, free_it, held[0]) == 0, "no thread");
        pthread_join(thread, NULL);
        for (unsigned i = 1; i < MANY; i++) t_free(held[i]);
        if (turn < 2) t_malloc_trim(0);
    }
}

#ifndef T_EMBED
/* A realloc with a token moves a block to the side that it belongs to. */
static void change_of_kind(void) {
    char *p = malloc(100);
    see("malloc", p, 100, 0);
    memcpy(p, "contents", sizeof "contents");
    p = __alloc_token_realloc(p, 120, 1);
    see("realloc with a token", p, 120, 1);
    CHECK(strcmp(p, "contents") == 0, "the contents are lost");
    p = __alloc_token_1_realloc(p, 200000);
    see("realloc with a token", p, 200000, 1);
    p = __alloc_token_realloc(p, 90, 0);
    see("realloc without pointers", p, 90, 0);
    CHECK(strcmp(p, "contents") == 0, "the contents are lost");
    CHECK(__alloc_token_realloc(p, 0, 1) == NULL, "realloc to 0 bytes frees");
}

static void errors(void) {
    void *p = &p;
    CHECK(__alloc_token_malloc(SIZE_MAX, 1) == NULL && errno == ENOMEM, "errno %d", errno);
    CHECK(__alloc_token_calloc(SIZE_MAX / 2, 3, 1) == NULL && errno == ENOMEM, "errno %d", errno);
    CHECK(__alloc_token_reallocarray(NULL, SIZE_MAX / 2, 3, 1) == NULL && errno == ENOMEM, "errno %d", errno);
    CHECK(__alloc_token_aligned_alloc(24, 100, 1) == NULL && errno == EINVAL, "errno %d", errno);
    CHECK(__alloc_token_posix_memalign(&p, 24, 100, 1) == EINVAL && p == &p, "no EINVAL");
    CHECK(__alloc_token_posix_memalign(&p, 64, SIZE_MAX / 2, 1) == ENOMEM && p == &p, "no ENOMEM");
    CHECK(__alloc_token__ZnwmRKSt9nothrow_t(SIZE_MAX / 2, "", 1) == NULL, "nothrow");
    p = __alloc_token_memalign(33, 100, 1);
    CHECK((uintptr_t)p % 64 == 0, "memalign(33) is %p", p);
    free(p);
}
#else
static void change_of_kind(void) {
}
static void errors(void) {
}
#endif

/* With as many tokens as the program was compiled with. Last: from here on other tokens have pointers. */
static void few_tokens(void) {
    CHECK(fh_option_set("tokens", "512") == 0, "no such option");
    for (size_t token = 0; token < 512; token += 17) {
        void *p = fh_malloc_type(100, token);
        see("512 tokens", p, 100, token >= 256);
        t_free(p);
    }
}

int main(void) {
    unsigned state = 1;
    mix(&state);
    one_after_the_other(&state);
    change_of_kind();
    errors();
    few_tokens();
    CHECK(fh_verify() == 0, "the heap is not whole");
    size_t slots[2] = {0, 0};
    for (size_t i = 0; i < MAP; i++) {
        for (int kind = 0; kind < 2; kind++) slots[kind] += was[kind][i / 8] >> i % 8 & 1;
    }
    printf("%zu slots have had blocks without pointers, and %zu others such with pointers\n", slots[0], slots[1]);
    CHECK(slots[0] > 50 && slots[1] > 50, "too few to say anything");
    return 0;
}
