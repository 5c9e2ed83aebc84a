// A module with operators new and delete of its own, which it alone uses (-Bsymbolic), as libLLVM has them.
#include <cstdlib>
#include <new>

void *operator new(std::size_t n) {
    void *p = std::malloc(n + 8);
    if (!p) std::abort();
    return p;
}
void operator delete(void *p) noexcept {
    std::free(p);
}
void operator delete(void *p, std::size_t) noexcept {
    std::free(p);
}

extern "C" void *module_makes() {
    return new int(1);
}
extern "C" void module_drops(int *p) {
    delete p;
    __asm__ volatile(""); // a call, and no jump
}
extern "C" void *module_mallocs() {
    return std::malloc(40);
}
