/* Operator new and delete, every form of C++17, under their mangled names.
 *
 * They are written in C because that is what their hot path is: malloc's, inline, once more. (Exported through malloc
 * they cost a third of the time of a C++ program that allocates much.) What needs C++, the new handler and the
 * exception, is in new_failed.cc; it is only reached by a jump when there is no memory. This file is compiled with
 * -fexceptions, so that the exception finds its way through these frames.
 *
 * The mangling of size_t is m on every 64-bit system that we know: unsigned long. */
#include "api/calls.h"
#include "api/new_failed.h"
#include "api/options.h"
#include "base/text.h"
#include "cache/thread.h"

_Static_assert(sizeof(size_t) == sizeof(unsigned long) && sizeof(size_t) == 8, "size_t is mangled as m");

/* A static program that calls operator new but not malloc itself would get malloc, which the C++ library calls, from the
 * C library. This reference makes it ours too. */
static const char *const take_override_along __attribute__((used)) = &fh_override_wanted;

/* Declares a C function for an operator's mangled name. Weak: in a static program those that it defines itself win. our_… is a second
 * name, by which ours is meant whatever the program has. */
#define OPERATOR(type, name, mangled, ...)                                                                             \
    FH_EXPORT __attribute__((weak)) type name(__VA_ARGS__) __asm__(mangled);                                           \
    static type our_##name(__VA_ARGS__) __attribute__((alias(mangled)));                                               \
    type name(__VA_ARGS__)

/* A program may replace some of the operators. The C++ library's own forms call each other, so a program that replaces new(n) and
 * delete(p) has replaced all that are not aligned. Each arrow is such a call:
 *
 *     new(n, nothrow)             ──▶  new(n)
 *     new[](n, nothrow)           ──▶  new[](n)            ──▶  new(n)
 *     delete(p, n or nothrow)     ──▶  delete(p)
 *     delete[](p, n or nothrow)   ──▶  delete[](p)         ──▶  delete(p)            the same again with `align`
 *
 * Ours go straight to the heap, and follow the arrow only where it leads to an operator of the program's. Preloaded, the library
 * comes behind the program and before the C++ library. So the program's new once met our sized delete, which freed what malloc
 * had not returned. A name is the program's if it leads elsewhere than to the function below. If the form's own name does so
 * too, a library has wrapped them all, as our recorder does, and calls each itself: then no arrow is followed. To ask costs a `new` three
 * instructions. A `delete` asks in its slow half only: see derived_delete. */
#define BOTH(operator) (uintptr_t)(operator), (uintptr_t)(our_##operator)
#define IS_THEIRS(operator) is_other(BOTH(operator))

static inline bool is_other(uintptr_t found, uintptr_t ours) {
    FH_HIDE(ours); /* or the compiler knows that both are the same */
    return FH_UNLIKELY(found != ours);
}

void *fh_new_again(size_t n, size_t align) {
    void *p = align ? fh_alloc_aligned(align, n) : fh_alloc(n);
    if (FH_UNLIKELY(fh_is_checking())) fh_checked_set_family(p, FH_SAYS_FAMILY); /* which operator, is not known here */
    return p;
}

void fh_new_nobody_catches(size_t n) {
    char buffer[160];
    fh_text t = fh_text_in(buffer, sizeof buffer);
    fh_text_string(&t, "freehold: operator new(");
    fh_text_number(&t, n);
    fh_text_string(&t, "): out of memory, and no std::bad_alloc in this process to throw\n");
    fh_system_write(2, buffer, fh_text_length(&t));
    fh_system_abort();
}

/* The hit of fh_alloc by itself, NULL for anything else. With what follows a miss left out, the operators need no stack
 * frame: they end in the jump to new_miss, which knows what to do when there is no memory. */
static inline void *hit(size_t n) {
    if (FH_UNLIKELY(n > FH_FINE_MAX)) return NULL;
    size_t offset = (n + FH_MIN_ALIGN - 1) & ~(size_t)(FH_MIN_ALIGN - 1);
    fh_bin *bin = (fh_bin *)((char *)fh_bins() + offset);
    return fh_bin_pop(bin);
}

/* Not once more the way that has just missed. */
static inline void *missed(size_t n) {
    size_t offset = (n + FH_MIN_ALIGN - 1) & ~(size_t)(FH_MIN_ALIGN - 1);
    return n > FH_FINE_MAX ? fh_alloc(n) : fh_alloc_slow(n, (fh_bin *)((char *)fh_bins() + offset));
}

/* In a checked program each call is a miss, and the block learns which operator it came from. */
static inline void *came_from(void *p, unsigned family) {
    if (FH_UNLIKELY(fh_is_checking())) fh_checked_set_family(p, family);
    return p;
}

__attribute__((noinline)) static void *new_miss(size_t n) {
    void *p = missed(n);
    return came_from(FH_LIKELY(p != NULL) ? p : fh_new_failed(n, 0), FH_SAYS_NEW);
}

__attribute__((noinline)) static void *new_array_miss(size_t n) {
    void *p = missed(n);
    return came_from(FH_LIKELY(p != NULL) ? p : fh_new_failed(n, 0), FH_SAYS_ARRAY);
}

__attribute__((noinline)) static void *new_miss_nothrow(size_t n) {
    void *p = missed(n);
    return came_from(FH_LIKELY(p != NULL) ? p : fh_new_failed_nothrow(n, 0), FH_SAYS_NEW);
}

__attribute__((noinline)) static void *new_array_miss_nothrow(size_t n) {
    void *p = missed(n);
    return came_from(FH_LIKELY(p != NULL) ? p : fh_new_failed_nothrow(n, 0), FH_SAYS_ARRAY);
}

/* ── new ─────────────────────────────────────────────────────────────────────────────────────────────────────────── */

OPERATOR(void *, operator_new, "_Znwm", size_t n) {
    void *p = hit(n);
    return FH_LIKELY(p != NULL) ? p : new_miss(n);
}

OPERATOR(void *, operator_new_array, "_Znam", size_t n) {
    if (IS_THEIRS(operator_new) && !IS_THEIRS(operator_new_array)) return operator_new(n);
    void *p = hit(n);
    return FH_LIKELY(p != NULL) ? p : new_array_miss(n);
}

/* The std::nothrow_t that selects these is an empty object; its address is not looked at. */
OPERATOR(void *, operator_new_nothrow, "_ZnwmRKSt9nothrow_t", size_t n, const void *nothrow) {
    (void)nothrow;
    bool theirs = IS_THEIRS(operator_new) && !IS_THEIRS(operator_new_nothrow);
    if (theirs) return fh_new_catch(operator_new, n);
    void *p = hit(n);
    return FH_LIKELY(p != NULL) ? p : new_miss_nothrow(n);
}

OPERATOR(void *, operator_new_array_nothrow, "_ZnamRKSt9nothrow_t", size_t n, const void *nothrow) {
    (void)nothrow;
    bool theirs = IS_THEIRS(operator_new_array) || IS_THEIRS(operator_new);
    if (theirs && !IS_THEIRS(operator_new_array_nothrow)) return fh_new_catch(operator_new_array, n);
    void *p = hit(n);
    return FH_LIKELY(p != NULL) ? p : new_array_miss_nothrow(n);
}

OPERATOR(void *, operator_new_aligned, "_ZnwmSt11align_val_t", size_t n, size_t align) {
    void *p = fh_alloc_aligned_new(align, n);
    return FH_LIKELY(p != NULL) ? p : fh_new_failed(n, align);
}

OPERATOR(void *, operator_new_array_aligned, "_ZnamSt11align_val_t", size_t n, size_t align) {
    bool theirs = IS_THEIRS(operator_new_aligned);
    if (theirs && !IS_THEIRS(operator_new_array_aligned)) return operator_new_aligned(n, align);
    void *p = fh_alloc_aligned_new_array(align, n);
    return FH_LIKELY(p != NULL) ? p : fh_new_failed(n, align);
}

OPERATOR(void *, operator_new_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t", size_t n, size_t align,
         const void *nothrow) {
    (void)nothrow;
    bool theirs = IS_THEIRS(operator_new_aligned);
    if (theirs && !IS_THEIRS(operator_new_aligned_nothrow)) return fh_new_catch_aligned(operator_new_aligned, n, align);
    void *p = fh_alloc_aligned_new(align, n);
    return FH_LIKELY(p != NULL) ? p : fh_new_failed_nothrow(n, align);
}

OPERATOR(void *, operator_new_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t", size_t n, size_t align,
         const void *nothrow) {
    (void)nothrow;
    bool theirs = IS_THEIRS(operator_new_array_aligned) || IS_THEIRS(operator_new_aligned);
    if (theirs && !IS_THEIRS(operator_new_array_aligned_nothrow))
        return fh_new_catch_aligned(operator_new_array_aligned, n, align);
    void *p = fh_alloc_aligned_new_array(align, n);
    return FH_LIKELY(p != NULL) ? p : fh_new_failed_nothrow(n, align);
}

/* ── delete ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

OPERATOR(void, operator_delete, "_ZdlPv", void *p) {
    fh_release_said(p, 0, 0, FH_SAYS_NEW);
}

/* How a block was aligned is of interest to a checked program alone: its class is looked up. */
OPERATOR(void, operator_delete_aligned, "_ZdlPvSt11align_val_t", void *p, size_t align) {
    fh_release_said(p, 0, align, FH_SAYS_NEW | FH_SAYS_ALIGN);
}

/* The other forms. The thread's bins as these see them: none, until its first such call has taken the slow half. */
static __thread fh_bin *delete_bins __attribute__((tls_model("initial-exec"))) = (fh_bin *)fh_no_row.bin;

void fh_hook_bins_change(void) {
    delete_bins = (fh_bin *)fh_no_row.bin;
}

static void derived_delete(void *p, size_t n, size_t align, unsigned said, uintptr_t found, uintptr_t ours);

OPERATOR(void, operator_delete_array, "_ZdaPv", void *p) {
    derived_delete(p, 0, 0, FH_SAYS_ARRAY, BOTH(operator_delete_array));
}

OPERATOR(void, operator_delete_array_aligned, "_ZdaPvSt11align_val_t", void *p, size_t align) {
    derived_delete(p, 0, align, FH_SAYS_ARRAY | FH_SAYS_ALIGN, BOTH(operator_delete_array_aligned));
}

OPERATOR(void, operator_delete_sized, "_ZdlPvm", void *p, size_t n) {
    derived_delete(p, n, 0, FH_SAYS_NEW | FH_SAYS_SIZE, BOTH(operator_delete_sized));
}

OPERATOR(void, operator_delete_array_sized, "_ZdaPvm", void *p, size_t n) {
    derived_delete(p, n, 0, FH_SAYS_ARRAY | FH_SAYS_SIZE, BOTH(operator_delete_array_sized));
}

/* Called when a constructor throws inside new (std::nothrow). */
OPERATOR(void, operator_delete_nothrow, "_ZdlPvRKSt9nothrow_t", void *p, const void *nothrow) {
    (void)nothrow;
    derived_delete(p, 0, 0, FH_SAYS_NEW, BOTH(operator_delete_nothrow));
}

OPERATOR(void, operator_delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", void *p, const void *nothrow) {
    (void)nothrow;
    derived_delete(p, 0, 0, FH_SAYS_ARRAY, BOTH(operator_delete_array_nothrow));
}

OPERATOR(void, operator_delete_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t", void *p, size_t align,
         const void *nothrow) {
    (void)nothrow;
    derived_delete(p, 0, align, FH_SAYS_NEW | FH_SAYS_ALIGN, BOTH(operator_delete_aligned_nothrow));
}

OPERATOR(void, operator_delete_array_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t", void *p, size_t align,
         const void *nothrow) {
    (void)nothrow;
    derived_delete(p, 0, align, FH_SAYS_ARRAY | FH_SAYS_ALIGN, BOTH(operator_delete_array_aligned_nothrow));
}

OPERATOR(void, operator_delete_sized_aligned, "_ZdlPvmSt11align_val_t", void *p, size_t n, size_t align) {
    derived_delete(p, n, align, FH_SAYS_NEW | FH_SAYS_SIZE | FH_SAYS_ALIGN, BOTH(operator_delete_sized_aligned));
}

OPERATOR(void, operator_delete_array_sized_aligned, "_ZdaPvmSt11align_val_t", void *p, size_t n, size_t align) {
    derived_delete(p, n, align, FH_SAYS_ARRAY | FH_SAYS_SIZE | FH_SAYS_ALIGN,
                   BOTH(operator_delete_array_sized_aligned));
}

/* Calls the program's operator that a form leads to; false if both on its way are ours. */
static bool delete_theirs(void *p, size_t align, unsigned said) {
    if (said & FH_SAYS_ALIGN) {
        if (said & FH_SAYS_ARRAY && IS_THEIRS(operator_delete_array_aligned)) {
            operator_delete_array_aligned(p, align);
        } else if (IS_THEIRS(operator_delete_aligned)) {
            operator_delete_aligned(p, align);
        } else {
            return false;
        }
    } else if (said & FH_SAYS_ARRAY && IS_THEIRS(operator_delete_array)) {
        operator_delete_array(p);
    } else if (IS_THEIRS(operator_delete)) {
        operator_delete(p);
    } else {
        return false;
    }
    return true;
}

/* From now on the thread's hot half sees its bins, until these change. A signal handler may change them in between. */
static void open_delete_bins(void) {
    fh_bin *bins = fh_release_bins();
    delete_bins = bins;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (fh_release_bins() != bins) delete_bins = (fh_bin *)fh_no_row.bin;
}

__attribute__((noinline)) static void derived_delete_slow(void *p, size_t n, size_t align, unsigned said, fh_bin *bin,
                                                          bool wrapped) {
    if (delete_bins != fh_no_row.bin) {
        fh_release_said_slow(p, bin, n, align, said);
        return;
    }
    if (!wrapped && delete_theirs(p, align, said)) return;
    bool any = IS_THEIRS(operator_delete) || IS_THEIRS(operator_delete_array) || IS_THEIRS(operator_delete_aligned) ||
               IS_THEIRS(operator_delete_array_aligned);
    if (!any) open_delete_bins();
    fh_release_said(p, n, align, said);
}

/* Where the program has replaced one of the forms that others lead to, these have no bins: each call asks. So the hot half has not
 * one instruction more than free. */
__attribute__((always_inline)) static inline void derived_delete(void *p, size_t n, size_t align, unsigned said,
                                                                 uintptr_t found, uintptr_t ours) {
    fh_bin *bin = delete_bins;
    fh_freed freed = FH_CHECKED ? FH_NO_ROOM : fh_try_release(bin, p, &bin);
    if (FH_LIKELY(freed == FH_FREED)) return;
    if (freed == FH_SUSPECT) {
        fh_release_suspect(p, bin);
    } else {
        derived_delete_slow(p, n, align, said, bin, is_other(found, ours));
    }
}

/* ── new that says how much it got ───────────────────────────────────────────────────────────────────────────────── */

/* tcmalloc's names, which LLVM knows and which std::allocator::allocate_at_least may call. The hint of how often the block will be
 * used is not looked at. Freed by operator delete; the sized form may name either size. */
typedef struct {
    void *p;
    size_t n;
} sized_block;

sized_block __size_returning_new(size_t n);
sized_block __size_returning_new_aligned(size_t n, size_t align);
sized_block __size_returning_new_hot_cold(size_t n, uint8_t hint);
sized_block __size_returning_new_aligned_hot_cold(size_t n, size_t align, uint8_t hint);

FH_EXPORT sized_block __size_returning_new(size_t n) {
    n = fh_good_bytes(n);
    sized_block block = {operator_new(n), n};
    if (FH_UNLIKELY(fh_is_checking())) fh_checked_set_rounded(block.p);
    return block;
}

/* Of an aligned block no more is promised than was asked for: which class it has is known when it is there. */
FH_EXPORT sized_block __size_returning_new_aligned(size_t n, size_t align) {
    return (sized_block){operator_new_aligned(n, align), n};
}

FH_EXPORT sized_block __size_returning_new_hot_cold(size_t n, uint8_t hint) {
    (void)hint;
    return __size_returning_new(n);
}

FH_EXPORT sized_block __size_returning_new_aligned_hot_cold(size_t n, size_t align, uint8_t hint) {
    (void)hint;
    return __size_returning_new_aligned(n, align);
}
