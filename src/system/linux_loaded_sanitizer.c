/* Linux, only in the drop-in that is loaded (libfreehold.so): a program that was built with a sanitizer has a malloc of its own, which
 * is before ours where the sanitizer is linked into the program. Freehold is then idle, and says so: nobody should measure it
 * there. Where ours is first all the same, the sanitizer does not see the program's blocks. */
#include "system/report.h"
#include "system/system.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma weak dlsym

/* There if the program has it. Not by dlsym: what that does not find it remembers in memory of malloc. */
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));
extern void __msan_init(void) __attribute__((weak));

static const char *sanitizer(void) {
    return __asan_init ? "AddressSanitizer" : __tsan_init ? "ThreadSanitizer" : __msan_init ? "MemorySanitizer" : NULL;
}

/* Where this library begins and ends: the linker knows. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

/* True if the program's malloc is ours. */
static bool is_first(void) {
    uintptr_t first = (uintptr_t)dlsym(RTLD_DEFAULT, "malloc");
    return first >= (uintptr_t)__ehdr_start && first < (uintptr_t)_end;
}

__attribute__((constructor(102))) static void say_aside(void) {
    const char *name = sanitizer();
    if (!name || !dlsym) return;
    FH_REPORT_LINE(
        name,
        is_first()
            ? " is in this program and does not see its blocks: run it without LD_PRELOAD, or with FREEHOLD=check=1"
            : " is in this program and allocates for it: Freehold stands aside");
}
