/* Freehold: heaps for C++. C++17 and later; heap.h says what a heap is, and what each call costs. Header only.
 *
 *     freehold::heap query({.name = "query"});              ends with its scope, and all its blocks with it
 *     freehold::heap_resource memory(query);                for std::pmr
 *     std::pmr::vector<row> rows(&memory);
 *     std::vector<row, freehold::heap_allocator<row>> more{freehold::heap_allocator<row>(query)};
 *
 * Errors: std::bad_alloc where the C call returns NULL, and the process ends in a build without exceptions. Without run-time type
 * information (-fno-rtti) a heap_resource is equal to itself alone, as far as it can be told, and a `unique` frees only what begins
 * where its type does. Threads: as in heap.h. */
#ifndef FREEHOLD_FREEHOLD_HPP
#define FREEHOLD_FREEHOLD_HPP

#include "freehold/heap.h"
#include "freehold/pool.h"

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

namespace freehold {

namespace inside {
template <class E> [[noreturn]] inline void fail() {
#ifdef __cpp_exceptions
    throw E();
#else
    std::abort();
#endif
}
} // namespace inside

/* Owns a heap, and destroys it. Its children must be gone by then. A type-stable one stays if a reader has not passed yet: to be
 * sure, fh_heap_reset(get()) has returned 0 before. */
class heap {
  public:
    explicit heap(const fh_heap_options &options = {}) : h_(fh_heap_new(&options)) {
        if (!h_) inside::fail<std::bad_alloc>();
    }
    heap(heap &&from) noexcept : h_(std::exchange(from.h_, nullptr)) {
    }
    heap &operator=(heap &&from) noexcept {
        std::swap(h_, from.h_);
        return *this;
    }
    heap(const heap &) = delete;
    heap &operator=(const heap &) = delete;
    ~heap() {
        fh_heap_destroy(h_);
    }

    fh_heap *get() const noexcept {
        return h_;
    }
    /* Frees all blocks. No destructor of an object runs. */
    void reset() noexcept {
        fh_heap_reset(h_);
    }
    /* What it has, at the cost of fh_heap_stats. */
    fh_heap_figures figures() const noexcept {
        fh_heap_figures all{};
        fh_heap_stats(h_, &all);
        return all;
    }
    /* What it and all heaps below it have. None of them may be reset or destroyed meanwhile. */
    fh_heap_totals totals() const noexcept {
        fh_heap_totals all{};
        fh_heap_stats_below(h_, &all);
        return all;
    }

  private:
    fh_heap *h_;
};

/* While it lives, malloc and operator new of this thread take from the heap, also when an exception passes. */
class heap_scope {
  public:
    explicit heap_scope(const heap &h) : heap_scope(h.get()) {
    }
    explicit heap_scope(fh_heap *h) {
        if (fh_heap_enter(h) != 0) inside::fail<std::bad_alloc>();
    }
    heap_scope(const heap_scope &) = delete;
    heap_scope &operator=(const heap_scope &) = delete;
    ~heap_scope() {
        fh_heap_leave();
    }
};

/* Releases what fh_frame_malloc has given since, on a private heap. No destructor of an object runs. */
class heap_frame {
  public:
    explicit heap_frame(const heap &h) noexcept : h_(h.get()), mark_(fh_mark(h.get())) {
    }
    heap_frame(const heap_frame &) = delete;
    heap_frame &operator=(const heap_frame &) = delete;
    ~heap_frame() {
        fh_release_to(h_, mark_);
    }

  private:
    fh_heap *h_;
    fh_heap_mark mark_;
};

/* Objects of one type in cells of their own (pool.h). For one thread at a time. Objects that live when the pool ends are not
 * destroyed; their memory goes. */
template <class T> class pool {
  public:
    explicit pool(fh_heap *h = nullptr) {
        fh_pool_options options{};
        options.heap = h;
        p_ = fh_pool_new(sizeof(T), alignof(T) < 8 ? 8 : alignof(T), &options);
        if (!p_) inside::fail<std::bad_alloc>();
    }
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;
    ~pool() {
        fh_pool_destroy(p_);
    }

    /* An object. If its constructor throws, its cell is free again. */
    template <class... A> T *create(A &&...arguments) {
        struct guard {
            fh_pool *from;
            void *cell;
            ~guard() {
                fh_pool_free(from, cell);
            }
        } held{p_, fh_pool_alloc(p_)};
        if (!held.cell) inside::fail<std::bad_alloc>();
        T *made = ::new (held.cell) T(std::forward<A>(arguments)...);
        held.cell = nullptr;
        return made;
    }
    /* NULL is allowed. */
    void destroy(T *object) noexcept {
        if (!object) return;
        object->~T();
        fh_pool_free(p_, const_cast<std::remove_cv_t<T> *>(object));
    }
    fh_pool *get() const noexcept {
        return p_;
    }

  private:
    fh_pool *p_;
};

/* n bytes at a multiple of align, or std::bad_alloc. */
inline void *allocate(fh_heap *h, std::size_t n, std::size_t align) {
    void *p = align <= 16 ? fh_heap_malloc(h, n) : fh_heap_aligned_alloc(h, align, n);
    if (!p) inside::fail<std::bad_alloc>();
    return p;
}

/* std::pmr over a heap that lives longer. */
class heap_resource : public std::pmr::memory_resource {
  public:
    explicit heap_resource(const heap &h) noexcept : h_(h.get()) {
    }
    explicit heap_resource(fh_heap *h) noexcept : h_(h) {
    }
    fh_heap *get() const noexcept {
        return h_;
    }

  private:
    void *do_allocate(std::size_t n, std::size_t align) override {
        return freehold::allocate(h_, n, align);
    }
    void do_deallocate(void *p, std::size_t, std::size_t) override {
        fh_free(p);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#ifdef __cpp_rtti
        auto same = dynamic_cast<const heap_resource *>(&other);
        return same && same->h_ == h_;
#else
        return this == &other;
#endif
    }
    fh_heap *h_;
};

/* An allocator for containers, over a heap that lives longer. */
template <class T> class heap_allocator {
  public:
    using value_type = T;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    explicit heap_allocator(const heap &h) noexcept : h_(h.get()) {
    }
    explicit heap_allocator(fh_heap *h) noexcept : h_(h) {
    }
    template <class U> heap_allocator(const heap_allocator<U> &from) noexcept : h_(from.get()) {
    }

    T *allocate(std::size_t n) {
        if (n > std::numeric_limits<std::size_t>::max() / sizeof(T)) inside::fail<std::bad_array_new_length>();
        return static_cast<T *>(freehold::allocate(h_, n * sizeof(T), alignof(T)));
    }
#ifdef __cpp_lib_allocate_at_least
    std::allocation_result<T *> allocate_at_least(std::size_t n) {
        T *p = allocate(n);
        return {p, fh_malloc_usable_size(p) / sizeof(T)};
    }
#endif
    void deallocate(T *p, std::size_t) noexcept {
        fh_free(p);
    }
    fh_heap *get() const noexcept {
        return h_;
    }

    template <class U> friend bool operator==(const heap_allocator &a, const heap_allocator<U> &b) noexcept {
        return a.get() == b.get();
    }
    template <class U> friend bool operator!=(const heap_allocator &a, const heap_allocator<U> &b) noexcept {
        return a.get() != b.get();
    }

  private:
    fh_heap *h_;
};

/* For std::unique_ptr: destroys the object and frees its block. A base need not be where the block begins if its destructor is
 * virtual. */
struct deleter {
    template <class T> void operator()(T *p) const noexcept {
        const volatile void *block = p;
#ifdef __cpp_rtti
        if constexpr (std::has_virtual_destructor_v<T>) block = dynamic_cast<const volatile void *>(p);
#endif
        p->~T();
        fh_free(const_cast<void *>(block));
    }
};

template <class T> using unique = std::unique_ptr<T, deleter>;

/* An object in a heap. If its constructor throws, its block is freed. */
template <class T, class... A> unique<T> make(const heap &h, A &&...arguments) {
    struct guard {
        void *p;
        ~guard() {
            fh_free(p);
        }
    } block{allocate(h.get(), sizeof(T), alignof(T))};
    unique<T> made(::new (block.p) T(std::forward<A>(arguments)...));
    block.p = nullptr;
    return made;
}

} // namespace freehold

#endif
