/* A mapping that other threads may use as soon as the kernel has made it, as the class map's second part (src/store/window.c): the
 * thread sanitizer must not take it for a race. Nothing but a relaxed word orders the two threads here. */
#include "../support/check.h"

#include "base/atomic.h"
#include "system/system.h"
#include "system/tools.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

enum { SIZE = 1 << 20 };
static fh_word place;

static void *use(void *none) {
    char *p;
    while (!(p = (char *)(uintptr_t)fh_load(&place))) sched_yield();
    p[5] = p[SIZE - 1] = 1;
    return none;
}

int main(void) {
    /* A place that is free: what the kernel chooses, given back. */
    char *p = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t user;
    CHECK(p != MAP_FAILED, "no place");
    CHECK(pthread_create(&user, NULL, use, NULL) == 0, "no thread");
    CHECK(munmap(p, SIZE) == 0, "munmap"); /* only now, or the thread's stack would be there */
    fh_tool_maps_for_all();
    int error = fh_system_place(p, SIZE);
    fh_tool_has_mapped();
    CHECK(error == 0, "error %d", error);
    fh_store(&place, (uintptr_t)p);
    CHECK(pthread_join(user, NULL) == 0, "join");
    CHECK(p[5] == 1 && p[SIZE - 1] == 1, "what was written is not there");
    return 0;
}
