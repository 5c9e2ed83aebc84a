// What operator new does when there is no memory: the program's new handler, then std::bad_alloc.
//
// The library must not depend on a C++ run-time library, as it is preloaded into programs that have none. So everything
// here that belongs to one is a weak reference, which is NULL in such a program. Three cases remain at run time:
//
//   - the program is linked with a C++ library: the references are there, and are used;
//   - the C++ library was loaded later, by dlopen: it is asked for by name, now, and does the work itself;
//   - there is none: then nobody can catch std::bad_alloc, and the process ends with a message.
#include "api/new_failed.h"

#include <dlfcn.h>
#include <new>

static_assert(sizeof(std::bad_alloc) == sizeof(void *), "std::bad_alloc has members that nobody would set");

// What the compiler itself refers to, for the catch below.
__asm__(".weak __cxa_begin_catch\n.weak __cxa_end_catch\n.weak _Unwind_Resume\n.weak _ZSt9terminatev");

// A throw expression would bring its own copy of std::bad_alloc's type along, because this file is compiled without
// run-time types, and would then stand in for the C++ library's. So the exception is made by hand, by the C++ binary
// interface: an object that is nothing but a pointer to its virtual table. (std::__throw_bad_alloc does the same and is
// missing from small static programs.)
extern "C" {
#define WEAK __attribute__((weak))
WEAK int __gxx_personality_v0(...);
WEAK void *allocate_exception(size_t) noexcept __asm__("__cxa_allocate_exception");
[[noreturn]] WEAK void throw_exception(void *, const void *, void (*)(void *)) __asm__("__cxa_throw");
extern WEAK const char bad_alloc_type __asm__("_ZTISt9bad_alloc");
extern WEAK const char bad_alloc_table[] __asm__("_ZTVSt9bad_alloc");
WEAK void *dlsym(void *__restrict, const char *__restrict) noexcept;
}

namespace std {
WEAK new_handler get_new_handler() noexcept;
} // namespace std

namespace {

// A function of the C++ library that some plug-in brought along. Looking it up may allocate; if that fails too, so does
// the search, and a message is what remains.
void *find(const char *name) {
    // A static program has no loader; naming dlopen here would earn each of them a warning of the linker's.
    using opener = void *(*)(const char *, int);
    auto open = dlsym ? reinterpret_cast<opener>(dlsym(RTLD_DEFAULT, "dlopen")) : nullptr;
    if (!open) return nullptr;
    static const char *const libraries[] = {"libstdc++.so.6", "libc++.so.1"};
    for (const char *library : libraries) {
        void *handle = open(library, RTLD_LAZY | RTLD_NOLOAD);
        if (!handle) continue;
        if (void *function = dlsym(handle, name)) return function;
    }
    return nullptr;
}

std::new_handler handler_of_program() {
    if (std::get_new_handler) return std::get_new_handler();
    using getter = std::new_handler (*)();
    auto get = reinterpret_cast<getter>(find("_ZSt15get_new_handlerv"));
    return get ? get() : nullptr;
}

[[noreturn]] void throw_bad_alloc(size_t n) {
    if (allocate_exception && &bad_alloc_type) {
        auto object = static_cast<const char **>(allocate_exception(sizeof(std::bad_alloc)));
        *object = bad_alloc_table + 2 * sizeof(void *); // behind the offset to the top and the type
        throw_exception(object, &bad_alloc_type, nullptr);
    }
    using thrower = void (*)();
    if (auto raise = reinterpret_cast<thrower>(find("_ZSt17__throw_bad_allocv"))) raise();
    fh_new_nobody_catches(n);
}

// Without a personality routine at load time, the catch clause below is blind. The C++ library's own operator can see:
// it calls the throwing one, which is ours, and catches.
void *ask_library(size_t n, size_t align) {
    using plain = void *(*)(size_t, const std::nothrow_t &);
    using aligned = void *(*)(size_t, std::align_val_t, const std::nothrow_t &);
    const std::nothrow_t tag{};
    if (align == 0) {
        auto allocate = reinterpret_cast<plain>(find("_ZnwmRKSt9nothrow_t"));
        return allocate ? allocate(n, tag) : nullptr;
    }
    auto allocate = reinterpret_cast<aligned>(find("_ZnwmSt11align_val_tRKSt9nothrow_t"));
    return allocate ? allocate(n, std::align_val_t(align), tag) : nullptr;
}

} // namespace

void *fh_new_failed(size_t n, size_t align) {
    for (;;) {
        std::new_handler handler = handler_of_program();
        if (!handler) throw_bad_alloc(n);
        handler();
        if (void *p = fh_new_again(n, align)) return p;
    }
}

void *fh_new_failed_nothrow(size_t n, size_t align) {
    if (!__gxx_personality_v0) return ask_library(n, align);
    // Without a handler there is nothing to do: no exception is made only to be caught.
    if (!handler_of_program()) return nullptr;
    try {
        return fh_new_failed(n, align);
    } catch (...) {
        return nullptr;
    }
}

// The program has an operator new, so it has the C++ library that lets us catch.
void *fh_new_catch(void *(*new_)(size_t), size_t n) {
    try {
        return new_(n);
    } catch (...) {
        return nullptr;
    }
}

void *fh_new_catch_aligned(void *(*new_)(size_t, size_t), size_t n, size_t align) {
    try {
        return new_(n, align);
    } catch (...) {
        return nullptr;
    }
}
