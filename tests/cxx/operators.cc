// Every form of operator new and delete that C++17 declares, by its own signature: none may be missing from
// the drop-in, since whatever is missing falls back to the standard library's, which goes through malloc
// and would hide the gap at the price of a second call.
#include "../support/alloc.h"
#include "../support/check.h"

#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

using std::align_val_t;
using std::nothrow;
using std::nothrow_t;

namespace {

// A block by any of the eight forms of new must be aligned, of the size, and writable to its end.
void *taken(const char *form, void *block, std::size_t size, std::size_t alignment) {
    CHECK(block, "%s(%zu) returned nullptr", form, size);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % alignment == 0, "%s(%zu, %zu) = %p", form, size, alignment, block);
    CHECK(malloc_usable_size(block) >= size, "%s(%zu): usable %zu", form, size, malloc_usable_size(block));
    std::memset(block, 0x77, size);
    return block;
}

void plain_forms(std::size_t size) {
    const std::size_t natural = size >= 16 ? 16 : 1;
    ::operator delete(taken("new", ::operator new(size), size, natural));
    ::operator delete(taken("new", ::operator new(size), size, natural), size);
    ::operator delete(taken("new", ::operator new(size), size, natural), nothrow);
    ::operator delete(taken("new nothrow", ::operator new(size, nothrow), size, natural));
    ::operator delete[](taken("new[]", ::operator new[](size), size, natural));
    ::operator delete[](taken("new[]", ::operator new[](size), size, natural), size);
    ::operator delete[](taken("new[]", ::operator new[](size), size, natural), nothrow);
    ::operator delete[](taken("new[] nothrow", ::operator new[](size, nothrow), size, natural));
}

void aligned_forms(std::size_t size, std::size_t alignment) {
    const align_val_t align{alignment};
    ::operator delete(taken("new", ::operator new(size, align), size, alignment), align);
    ::operator delete(taken("new", ::operator new(size, align), size, alignment), size, align);
    ::operator delete(taken("new", ::operator new(size, align), size, alignment), align, nothrow);
    ::operator delete(taken("new nothrow", ::operator new(size, align, nothrow), size, alignment), align);
    ::operator delete[](taken("new[]", ::operator new[](size, align), size, alignment), align);
    ::operator delete[](taken("new[]", ::operator new[](size, align), size, alignment), size, align);
    ::operator delete[](taken("new[]", ::operator new[](size, align), size, alignment), align, nothrow);
    ::operator delete[](taken("new[] nothrow", ::operator new[](size, align, nothrow), size, alignment), align);
}

void deleting_nothing() {
    ::operator delete(opaque_pointer(nullptr));
    ::operator delete (opaque_pointer(nullptr), std::size_t{8});
    ::operator delete(opaque_pointer(nullptr), nothrow);
    ::operator delete (opaque_pointer(nullptr), align_val_t{64});
    ::operator delete[](opaque_pointer(nullptr));
    ::operator delete[](opaque_pointer(nullptr), std::size_t{8}, align_val_t{64});
}

// The mangled names, so that each can be asked for where it lives.
constexpr const char *names[] = {
    "_Znwm",
    "_ZnwmRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_Znam",
    "_ZnamRKSt9nothrow_t",
    "_ZnamSt11align_val_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    "_ZdlPv",
    "_ZdlPvm",
    "_ZdlPvRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t",
    "_ZdlPvmSt11align_val_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPv",
    "_ZdaPvm",
    "_ZdaPvRKSt9nothrow_t",
    "_ZdaPvSt11align_val_t",
    "_ZdaPvmSt11align_val_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
};

void all_are_ours() {
    if (!t_is_freehold()) {
        return;
    }
    Dl_info home;
    CHECK(dladdr(dlsym(RTLD_DEFAULT, "fh_version"), &home), "dladdr of fh_version");
    const std::string library = home.dli_fname;
    for (const char *name : names) {
        void *address = dlsym(RTLD_DEFAULT, name);
        CHECK(address && dladdr(address, &home), "%s is nowhere", name);
        CHECK(library == home.dli_fname, "%s is answered by %s, not by %s", name, home.dli_fname, library.c_str());
    }
}

struct alignas(256) Wide {
    char bytes[700];
};

// The standard library on top: containers, strings, over-aligned types, from several threads.
void containers() {
    auto work = [](int number) {
        std::map<int, std::string> map;
        for (int i = 0; i < 5000; i++) {
            map[i * 7919 % 10007] = std::string(static_cast<std::size_t>(i % 300), static_cast<char>('a' + number));
        }
        for (const auto &[key, text] : map) {
            CHECK(text.find_first_not_of(static_cast<char>('a' + number)) == std::string::npos, "key %d", key);
        }
        std::vector<std::unique_ptr<Wide>> wides;
        for (int i = 0; i < 200; i++) {
            wides.push_back(std::make_unique<Wide>());
            CHECK(reinterpret_cast<std::uintptr_t>(wides.back().get()) % 256 == 0, "Wide %d is not aligned", i);
        }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back(work, i);
    }
    for (auto &thread : threads) {
        thread.join();
    }
}

} // namespace

int main() {
    for (std::size_t size = 0; size < 70000; size += size / 30 + 1) {
        plain_forms(size);
    }
    plain_forms(std::size_t{1} << 20);
    plain_forms(std::size_t{9} << 20);
    for (std::size_t alignment = 1; alignment <= std::size_t{1} << 22; alignment *= 2) {
        for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{5000}, alignment,
                                 alignment * 2 + 1, std::size_t{100000}, std::size_t{3000000}}) {
            aligned_forms(size, alignment);
        }
    }
    deleting_nothing();
    all_are_ours();
    containers();
    std::puts("all forms of new and delete");
}
