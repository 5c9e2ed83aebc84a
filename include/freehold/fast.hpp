/* The C++ half of freehold/fast.h, which includes it: new and delete of one object, an allocator for containers, and operators for
 * a class. All in namespace freehold. C++14 and later.
 *
 * Errors: what allocates calls the new handler until there is memory or no handler, and throws std::bad_alloc. Without
 * exceptions the process ends. */
#ifndef FREEHOLD_FAST_HPP
#define FREEHOLD_FAST_HPP

#include "freehold/fast.h"

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace freehold {

class heap; /* of freehold.hpp, which has a make for it */

namespace inside {

template <class... Arguments> struct begins_with_heap : std::false_type {};
template <class First, class... Others>
struct begins_with_heap<First, Others...> : std::is_same<typename std::decay<First>::type, heap> {};

inline void *allocate_slow(std::size_t size, std::size_t alignment) {
    return alignment <= 16 ? fh_malloc(size) : fh_aligned_alloc(alignment, size);
}

/* The first attempt has failed. nullptr: there is no handler any more. */
inline void *ask_handler(std::size_t size, std::size_t alignment) {
    for (;;) {
        std::new_handler handler = std::get_new_handler();
        if (!handler) return nullptr;
        handler();
        if (void *p = allocate_slow(size, alignment)) return p;
    }
}

__attribute__((noinline, unused)) inline void *try_again(std::size_t size, std::size_t alignment) {
    if (void *p = ask_handler(size, alignment)) return p;
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
    throw std::bad_alloc();
#else
    std::abort();
#endif
}

/* The same for those who ask for nullptr. The handler may throw too. */
__attribute__((noinline, unused)) inline void *try_again_nothrow(std::size_t size, std::size_t alignment) noexcept {
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
    try {
        return ask_handler(size, alignment);
    } catch (...) {
        return nullptr;
    }
#else
    return ask_handler(size, alignment);
#endif
}

} // namespace inside

/* A block of `size` bytes at a multiple of `alignment`, never nullptr; and back, with the same two. It may be one from a heap's
 * scope. The look for a double free is left out, as fh_fast_free_sized says. Cost: as the C functions; alignments above 16 are a call. */
FH_FAST_INLINE void *allocate(std::size_t size, std::size_t alignment = 16) {
    void *p = alignment <= 16 ? fh_fast_malloc(size) : inside::allocate_slow(size, alignment);
    return FH_FAST_LIKELY(p != nullptr) ? p : inside::try_again(size, alignment);
}

/* nullptr where that throws. */
FH_FAST_INLINE void *allocate_nothrow(std::size_t size, std::size_t alignment = 16) noexcept {
    void *p = alignment <= 16 ? fh_fast_malloc(size) : inside::allocate_slow(size, alignment);
    return FH_FAST_LIKELY(p != nullptr) ? p : inside::try_again_nothrow(size, alignment);
}

FH_FAST_INLINE void deallocate(void *p, std::size_t size, std::size_t alignment = 16) {
    if (alignment <= 16) {
        fh_fast_free_sized(p, size);
    } else {
        fh_free(p);
    }
}

/* new and delete of one object, inlined. `remove` takes nullptr. A T that has heirs is not removed by a pointer to T,
 * because the size would be wrong: such a class is refused unless it is final. */
template <class T, class... Arguments,
          typename std::enable_if<!inside::begins_with_heap<Arguments...>::value, int>::type = 0>
T *make(Arguments &&...arguments) {
    void *p = allocate(sizeof(T), alignof(T));
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
    try {
        return ::new (p) T(std::forward<Arguments>(arguments)...);
    } catch (...) {
        deallocate(p, sizeof(T), alignof(T));
        throw;
    }
#else
    return ::new (p) T(std::forward<Arguments>(arguments)...);
#endif
}

template <class T> void remove(T *object) {
    static_assert(!std::has_virtual_destructor<T>::value || std::is_final<T>::value,
                  "the object may be larger than its type");
    if (!object) return;
    object->~T();
    deallocate(object, sizeof(T), alignof(T));
}

/* What allocate_at_least returns: the block and how many objects it has room for. */
#if defined(__cpp_lib_allocate_at_least)
template <class T> using allocation = std::allocation_result<T *>;
#else
template <class T> struct allocation {
    T *ptr;
    std::size_t count;
};
#endif

/* An allocator for containers. It has no state: all of its kind are equal, and each frees what another allocated. */
template <class T> struct allocator {
    using value_type = T;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using propagate_on_container_move_assignment = std::true_type;
    using is_always_equal = std::true_type;

    allocator() noexcept = default;
    template <class U> allocator(const allocator<U> &) noexcept {
    }

    T *allocate(std::size_t n) {
        return static_cast<T *>(freehold::allocate(bytes(n), alignof(T)));
    }

    /* C++23: room for n objects or more, as many as the block holds. `deallocate` is told any count between the two. */
    allocation<T> allocate_at_least(std::size_t n) {
        std::size_t size = alignof(T) <= 16 ? fh_good_size(bytes(n)) : bytes(n);
        /* Where all is a call the size is compared, and the library has to know that there are two. */
        void *p = FH_FAST_CALLS && alignof(T) <= 16 ? fh_malloc_at_least(bytes(n), &size) : nullptr;
        if (p == nullptr) p = freehold::allocate(size, alignof(T));
        return {static_cast<T *>(p), size / sizeof(T)};
    }

    void deallocate(T *p, std::size_t n) noexcept {
        freehold::deallocate(p, n * sizeof(T), alignof(T));
    }

    template <class U> bool operator==(const allocator<U> &) const noexcept {
        return true;
    }
    template <class U> bool operator!=(const allocator<U> &) const noexcept {
        return false;
    }

  private:
    /* A product that does not fit becomes a size that there cannot be. */
    static std::size_t bytes(std::size_t n) {
        return n <= static_cast<std::size_t>(-1) / 2 / sizeof(T) ? n * sizeof(T) : static_cast<std::size_t>(-1);
    }
};

} // namespace freehold

/* Of a class with an alignment above 16 the compiler calls these since C++17. Inlined or not, they have to be there: without them
 * it takes the others. */
#if defined(__cpp_aligned_new)
#define FREEHOLD_FAST_ALIGNED_OPERATORS                                                                                \
    static void *operator new(std::size_t size, std::align_val_t alignment) {                                          \
        return freehold::allocate(size, static_cast<std::size_t>(alignment));                                          \
    }                                                                                                                  \
    static void *operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept {         \
        return freehold::allocate_nothrow(size, static_cast<std::size_t>(alignment));                                  \
    }                                                                                                                  \
    static void operator delete(void *p, std::size_t, std::align_val_t) noexcept {                                     \
        fh_free(p);                                                                                                    \
    }                                                                                                                  \
    static void operator delete(void *p, std::align_val_t, const std::nothrow_t &) noexcept {                          \
        fh_free(p);                                                                                                    \
    }
#else
#define FREEHOLD_FAST_ALIGNED_OPERATORS
#endif

/* In a class: its objects, and those of its heirs, are allocated and freed inline by new and delete. */
#define FREEHOLD_FAST_OPERATORS                                                                                        \
    static void *operator new(std::size_t size) {                                                                      \
        return freehold::allocate(size);                                                                               \
    }                                                                                                                  \
    static void *operator new(std::size_t size, const std::nothrow_t &) noexcept {                                     \
        return freehold::allocate_nothrow(size);                                                                       \
    }                                                                                                                  \
    static void *operator new(std::size_t, void *place) noexcept {                                                     \
        return place;                                                                                                  \
    }                                                                                                                  \
    static void operator delete(void *p, std::size_t size) noexcept {                                                  \
        if (p) freehold::deallocate(p, size);                                                                          \
    }                                                                                                                  \
    static void operator delete(void *p, const std::nothrow_t &) noexcept {                                            \
        fh_fast_free(p);                                                                                               \
    }                                                                                                                  \
    static void operator delete(void *, void *) noexcept {                                                             \
    }                                                                                                                  \
    FREEHOLD_FAST_ALIGNED_OPERATORS

#endif
