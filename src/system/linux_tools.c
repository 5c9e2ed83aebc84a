/* Linux: what memcheck and AddressSanitizer are told.
 *
 * A program asks Valgrind by a request: instructions that change nothing on a real CPU, and that Valgrind knows when it
 * translates them. They are rotations of a register by 128 bits in all, and one more that does nothing. The address of six words
 * goes in one register, the request and its arguments; the answer, or what was there before, is in another one. The encoding and
 * the numbers are Valgrind's interface, the same since version 3.0 (arm64: 3.9): its manual, chapter "The Client Request
 * mechanism", and the headers valgrind.h and memcheck.h that it installs for everyone's use.
 *
 * Other tools of Valgrind (callgrind counts our instructions) are to see the allocator as it is. So fh_tool_find does not ask
 * whether Valgrind runs, but something that only memcheck answers. */
#include "system/tools.h"

#include <stdint.h>

/* ── Valgrind ────────────────────────────────────────────────────────────────────────────────────────────────────── */

#define VALGRIND 0x1001u        /* how many Valgrinds run within each other */
#define BLOCK_ALLOCATED 0x1301u /* address, bytes, bytes in front that are hidden, whether it is zero */
#define BLOCK_FREED 0x1302u     /* address, bytes in front */
#define BLOCK_RESIZED 0x130Bu   /* address, bytes before and after, bytes in front */
#define ERRORS_OFF_BY 0x1801u   /* 1: the calling thread's errors are not reported; -1 takes one such back */
#define MEMCHECK ((uintptr_t)'M' << 24 | (uintptr_t)'C' << 16)
#define NO_ACCESS (MEMCHECK | 0) /* address, bytes */
#define UNDEFINED (MEMCHECK | 1)
#define DEFINED (MEMCHECK | 2) /* memcheck answers all three by -1 */

static uintptr_t request(uintptr_t code, uintptr_t first, uintptr_t second, uintptr_t third, uintptr_t fourth) {
    const uintptr_t words[6] = {code, first, second, third, fourth, 0};
#if defined(__x86_64__)
    uintptr_t answer = 0;
    __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(words)
                     : "cc", "memory");
    return answer;
#elif defined(__aarch64__)
    register uintptr_t answer __asm__("x3") = 0;
    register const uintptr_t *at __asm__("x4") = words;
    __asm__ volatile(
        "ror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\tror x12, x12, #61\n\torr x10, x10, x10"
        : "+r"(answer)
        : "r"(at)
        : "cc", "memory");
    return answer;
#else
    return (void)words, 0;
#endif
}

/* ── AddressSanitizer ────────────────────────────────────────────────────────────────────────────────────────────── */

/* There if the program has it. */
extern void __asan_poison_memory_region(const volatile void *p, size_t n) __attribute__((weak));
extern void __asan_unpoison_memory_region(const volatile void *p, size_t n) __attribute__((weak));
extern void __lsan_register_root_region(const void *p, size_t n) __attribute__((weak));

/* ── Both ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

fh_tool_kind fh_tool_told;

fh_tool_kind fh_tool_find(bool embedded) {
    if (request(DEFINED, (uintptr_t)&fh_tool_told, 0, 0, 0)) return FH_TOOL_MEMCHECK;
    return embedded && __asan_poison_memory_region && __asan_unpoison_memory_region ? FH_TOOL_SANITIZER : FH_TOOL_NONE;
}

bool fh_tool_is_valgrind(void) {
    return request(VALGRIND, 0, 0, 0, 0) != 0;
}

void fh_tool_start(fh_tool_kind kind) {
    fh_tool_told = kind;
}

/* memcheck looks for pointers in all that is mapped. */
void fh_tool_heap_is(const void *p, size_t n) {
    if (fh_tool() == FH_TOOL_SANITIZER && __lsan_register_root_region) __lsan_register_root_region(p, n);
}

void fh_tool_allocated(const void *p, size_t n, size_t before, bool zeroed) {
    if (fh_tool() == FH_TOOL_MEMCHECK) request(BLOCK_ALLOCATED, (uintptr_t)p, n, before, zeroed);
    if (fh_tool() == FH_TOOL_SANITIZER) __asan_unpoison_memory_region(p, n);
}

void fh_tool_freed(const void *p, size_t n, size_t before) {
    if (fh_tool() == FH_TOOL_MEMCHECK) request(BLOCK_FREED, (uintptr_t)p, before, 0, 0);
    if (fh_tool() == FH_TOOL_SANITIZER) __asan_poison_memory_region(p, n);
}

void fh_tool_misfreed(const void *p) {
    if (fh_tool() != FH_TOOL_MEMCHECK) return;
    fh_tool_loud();
    request(BLOCK_FREED, (uintptr_t)p, 0, 0, 0);
    fh_tool_quiet();
}

void fh_tool_resized(const void *p, size_t old, size_t n, size_t before) {
    if (fh_tool() == FH_TOOL_MEMCHECK) request(BLOCK_RESIZED, (uintptr_t)p, old, n, before);
    if (fh_tool() == FH_TOOL_SANITIZER) __asan_poison_memory_region((const char *)p + n, old - n);
}

void fh_tool_hide(const void *p, size_t n) {
    if (fh_tool() == FH_TOOL_MEMCHECK) request(NO_ACCESS, (uintptr_t)p, n, 0, 0);
    if (fh_tool() == FH_TOOL_SANITIZER) __asan_poison_memory_region(p, n);
}

void fh_tool_show(const void *p, size_t n) {
    if (fh_tool() == FH_TOOL_MEMCHECK) request(UNDEFINED, (uintptr_t)p, n, 0, 0);
    if (fh_tool() == FH_TOOL_SANITIZER) __asan_unpoison_memory_region(p, n);
}

void fh_tool_quiet(void) {
    if (fh_tool() == FH_TOOL_MEMCHECK) request(ERRORS_OFF_BY, 1, 0, 0, 0);
}

void fh_tool_loud(void) {
    if (fh_tool() == FH_TOOL_MEMCHECK) request(ERRORS_OFF_BY, (uintptr_t)-1, 0, 0, 0);
}
