// What operator new does when there is no memory: the program's new handler, then std::bad_alloc.
//
// The library must not depend on a C++ run-time library, as it is preloaded into programs that have none. So everything
// here that belongs to one is a weak reference, which is NULL in such a program. Three cases remain at run time:
//
//   - the program is linked with a C++ library: the references are there, and are used;
//   - the C++ library was loaded later, by dlopen: it is asked for by name, now, and does the work itself;
//   - there is none: then nobody can catch anything, and the process ends with a message.
#include "api/new_failed.h"

#include <dlfcn.h>
#include <new>

extern "C" {
// The compiler refers to these from the catch clause below.
__attribute__((weak)) int __gxx_personality_v0(...);
__asm__(".weak __cxa_begin_catch\n.weak __cxa_end_catch\n.weak _Unwind_Resume\n.weak _ZSt9terminatev");

// In a static program without dynamic loading, there is no loader to ask.
__attribute__((weak)) void *dlopen(const char *, int) noexcept;
__attribute__((weak)) void *dlsym(void *__restrict, const char *__restrict) noexcept;
}

namespace std {
__attribute__((weak)) new_handler get_new_handler() noexcept;
[[noreturn]] __attribute__((weak)) void __throw_bad_alloc();
} // namespace std

namespace {

// A function of the C++ library that some plug-in brought along. Looking it up may allocate; if that fails too, so does
// the search, and a message is what remains.
void *find(const char *name) {
    if (!dlopen || !dlsym) return nullptr;
    static const char *const libraries[] = {"libstdc++.so.6", "libc++.so.1"};
    for (const char *library : libraries) {
        void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
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
    if (std::__throw_bad_alloc) std::__throw_bad_alloc();
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
