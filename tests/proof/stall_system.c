/* The system as stall.c's scenarios want it: the linker puts these functions in front of the library's calls. */
#include "stall.h"

#include "base/types.h"
#include "system/inspect.h"
#include "system/system.h"

#include <errno.h>

__thread unsigned stall_faults, stall_near;
__thread char *stall_foreign;
uint64_t stall_clock;
unsigned stall_pressure;

#define WRAP(type, name, parameters, arguments, fault, failure)                                                        \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters {                                                                                    \
        if (stall_faults & (fault)) return failure;                                                                    \
        return __real_##name arguments;                                                                                \
    }
/* A refusal is noted, as the real one is. */
WRAP(uint64_t, fh_system_refused_bytes, (void), (), STALL_CHUNK | STALL_MAP, 4096)
WRAP(void *, fh_system_map, (size_t n, size_t align), (n, align), STALL_MAP, NULL)
WRAP(void *, fh_system_find_place, (size_t n, size_t align, unsigned attempt), (n, align, attempt), STALL_PLACE, NULL)
WRAP(bool, fh_system_huge_pages_always, (void), (), STALL_ALWAYS, true)

/* Is the foreign mapping in the way of this? */
static bool meets(const char *p, size_t n) {
    return stall_faults & STALL_FOREIGN && stall_foreign >= p && stall_foreign < p + n;
}
int __real_fh_system_place(void *p, size_t n);
int __wrap_fh_system_place(void *p, size_t n);
int __wrap_fh_system_place(void *p, size_t n) {
    if (meets(p, n)) return EEXIST;
    return stall_faults & STALL_CHUNK ? ENOMEM : __real_fh_system_place(p, n);
}
int __real_fh_system_block(void *p, size_t n);
int __wrap_fh_system_block(void *p, size_t n);
int __wrap_fh_system_block(void *p, size_t n) {
    if (meets(p, n)) return EEXIST;
    return stall_faults & STALL_GUARD ? ENOMEM : __real_fh_system_block(p, n);
}

fh_move __real_fh_system_move(void *p, size_t n, void *place);
fh_move __wrap_fh_system_move(void *p, size_t n, void *place);
fh_move __wrap_fh_system_move(void *p, size_t n, void *place) {
    if (stall_faults & STALL_LOSE) return FH_PLACE_LOST;
    return stall_faults & STALL_MOVE ? FH_NOT_MOVED : __real_fh_system_move(p, n, place);
}

/* The page gets its memory; how long that took is said here, so that the steps are the same in each run. */
uint64_t __real_fh_system_touch(void *p);
uint64_t __wrap_fh_system_touch(void *p);
uint64_t __wrap_fh_system_touch(void *p) {
    __real_fh_system_touch(p);
    return stall_faults & STALL_SLOW ? 4000000 : 200000;
}

bool __real_fh_system_gather(void *p, size_t n, uint64_t *nanoseconds);
bool __wrap_fh_system_gather(void *p, size_t n, uint64_t *nanoseconds);
bool __wrap_fh_system_gather(void *p, size_t n, uint64_t *nanoseconds) {
    if (stall_faults & STALL_APART) return false;
    (void)__real_fh_system_gather(p, n, nanoseconds); /* where the kernel has no such call, nothing is different */
    *nanoseconds = 200000;
    return true;
}

uint64_t __real_fh_system_nanoseconds(void);
uint64_t __wrap_fh_system_nanoseconds(void);
uint64_t __wrap_fh_system_nanoseconds(void) {
    return __real_fh_system_nanoseconds() + __atomic_load_n(&stall_clock, __ATOMIC_RELAXED);
}

bool __wrap_fh_system_group_memory(size_t *limit, size_t *used);
bool __wrap_fh_system_group_memory(size_t *limit, size_t *used) {
    if (!stall_pressure) return false;
    *limit = 100 * FH_MIB;
    *used = stall_pressure * FH_MIB;
    return true;
}

/* The same in each run, or what is random would reach other steps each time. */
uint64_t __wrap_fh_system_random(void);
uint64_t __wrap_fh_system_random(void) {
    return 1;
}

unsigned __wrap_fh_system_cpu_hint(void);
unsigned __wrap_fh_system_cpu_hint(void) {
    return stall_near;
}

void *__real_fh_shared_extend(const fh_shared_file *f, uint64_t offset, size_t size, int *error);
void *__wrap_fh_shared_extend(const fh_shared_file *f, uint64_t offset, size_t size, int *error);
void *__wrap_fh_shared_extend(const fh_shared_file *f, uint64_t offset, size_t size, int *error) {
    *error = 28;
    return stall_faults & STALL_SHARE ? NULL : __real_fh_shared_extend(f, offset, size, error);
}
