/* The model's operating system: address space that is looked at but never written to, a clock that stands still, and
 * purging that costs nothing. What the explored code reaches of it never blocks and never fails. */
#include "base/assert.h"
#include "base/atomic.h"
#include "base/types.h"
#include "system/inspect.h"
#include "system/report.h"
#include "system/system.h"
#include "system/tools.h"

const fh_model_hooks *fh_model;

/* Called once for each shared object that is loaded. */
void fh_model_attach(const fh_model_hooks *hooks) {
    fh_model = hooks;
}

size_t fh_system_page_size(void) {
    return 4096;
}
int fh_system_block(void *p, size_t size) {
    (void)p, (void)size;
    return 0;
}
int fh_system_place(void *p, size_t size) {
    (void)p, (void)size;
    return fh_model->allows() ? 0 : 12;
}
/* Chunks are dropped whenever it is asked for. */
uint64_t fh_system_refused_bytes(void) {
    return 1;
}
bool fh_system_is_mapped(void *p, size_t size) {
    (void)p, (void)size;
    return true;
}
void *fh_system_find_place(size_t size, size_t align, unsigned attempt) {
    (void)attempt;
    return fh_model->map(size, align);
}
void *fh_system_map(size_t size, size_t align) {
    return fh_model->map(size, align);
}
bool fh_system_unmap(void *p, size_t size) {
    (void)p, (void)size;
    return true;
}
/* Gone is what was in these pages: nobody may be using them. The least block that is anywhere in them is looked for, or in a
 * long run its slots. */
static void touch_all(char *p, size_t size) {
    size_t step = size <= 8 * (size_t)65536 ? 1024 : 65536;
    for (size_t at = 0; at < size; at += step) fh_model->plain((uintptr_t)p + at, 16, 1);
}
void fh_system_purge(void *p, size_t size) {
    touch_all(p, size);
}
void fh_system_purge_pieces(const fh_piece *pieces, unsigned n) {
    for (unsigned i = 0; i < n; i++) fh_system_purge(pieces[i].p, pieces[i].size);
}
/* Records of free slots: nothing changes for those who read them, if that is what they are. */
void fh_system_forget_zeroes(void *p, size_t size) {
    uint64_t bits = 0;
    for (size_t i = 0; i < size / sizeof(fh_slab); i++) bits |= fh_load(&((fh_slab *)p)[i].state);
    FH_ASSERT(bits == 0);
}
bool fh_system_renew(void *p, size_t size) {
    touch_all(p, size);
    return true;
}
/* What the scenario wants. Of the contents the first bytes of each page are moved, where scenarios write. */
fh_move fh_system_move(void *p, size_t size, void *place) {
    fh_move answer = (fh_move)fh_model->move();
    if (answer != FH_MOVED) return answer;
    touch_all(p, size);
    touch_all(place, size);
    for (size_t at = 0; at < size; at += 4096) {
        uint64_t *from = (uint64_t *)((char *)p + at), *to = (uint64_t *)((char *)place + at);
        if (*to != *from) *to = *from; // a page that is only read costs nothing when the next run begins
        if (*from) *from = 0;
    }
    return FH_MOVED;
}
bool fh_system_resident(void *p, size_t size, unsigned char *pages) {
    (void)p;
    for (size_t i = 0; i < size / fh_system_page_size(); i++) pages[i] = 1;
    return true;
}
void fh_system_wake(fh_word *word) {
    (void)word;
}
uint32_t fh_system_thread_number(void) {
    return 1;
}
unsigned fh_system_group_stall(void) {
    return 0;
}
bool fh_system_is_restricted(void) {
    return false;
}
bool fh_system_group_memory(size_t *limit, size_t *used) {
    (void)limit, (void)used;
    return false;
}
void fh_system_huge_pages(void *p, size_t size, bool wanted) {
    (void)p, (void)size, (void)wanted;
}
int fh_system_set_traits(void *p, size_t size, unsigned traits, const char *name) {
    (void)p, (void)size, (void)traits, (void)name;
    return 0;
}
void fh_system_clear_traits(void *p, size_t size, unsigned traits) {
    (void)traits;
    touch_all(p, size);
}
bool fh_system_populate(void *p, size_t size) {
    (void)p, (void)size;
    return true;
}
uint64_t fh_system_touch(void *p) {
    fh_model->plain((uintptr_t)p, 16, 1);
    return 0;
}
bool fh_system_gather(void *p, size_t size, uint64_t *nanoseconds) {
    (void)p, (void)size, (void)nanoseconds;
    return false;
}

bool fh_system_huge_pages_always(void) {
    return false;
}
bool fh_system_counts_every_page(void) {
    return false;
}
uint64_t fh_system_most_bytes(void) {
    return FH_NO_LIMIT;
}
bool fh_system_refuses(size_t size) {
    (void)size;
    return false;
}
bool fh_system_counts_addresses(void) {
    return fh_model->counts();
}
uint64_t fh_system_nanoseconds(void) {
    return UINT64_C(1) << 40;
}
/* The end of a thread and the child of a fork are steps of a scenario: see calls.c. */
void (*fh_model_at_thread_exit)(void *);
void (*fh_model_at_fork)(void);

bool fh_system_at_thread_exit(void (*exit_of_thread)(void *), void *value) {
    (void)value;
    fh_model_at_thread_exit = exit_of_thread;
    return true;
}
void fh_system_at_fork(void (*child)(void)) {
    fh_model_at_fork = child;
}

/* What the layers above answer. */
void fh_hook_start(void) {
}
void fh_hook_metrics(void) {
}
void *fh_hook_heap_resize(void *p, size_t n) {
    (void)p, (void)n;
    return NULL;
}

/* No tool watches, and nothing is sampled. */
fh_tool_kind fh_tool_told = FH_TOOL_NONE;
void fh_tool_quiet(void) {
}
void fh_tool_loud(void) {
}
void fh_tool_misfreed(const void *p) {
    (void)p;
}

/* Gaps are looked at by nobody, and have no memory. */
bool fh_system_guard_close(void *p, size_t size, bool marks) {
    (void)marks;
    for (size_t at = 0; at < size; at += 65536) fh_model->plain((uintptr_t)p + at, 16, 1);
    return true;
}
bool fh_system_guard_open(void *p, size_t size, bool marks) {
    (void)marks;
    for (size_t at = 0; at < size; at += 65536) fh_model->plain((uintptr_t)p + at, 16, 1);
    return true;
}

unsigned fh_system_cpu_hint(void) {
    return fh_model->near();
}

void fh_report_fault(fh_fault fault, const char *call, const void *p, size_t a, size_t b) {
    (void)call, (void)a, (void)b;
    /* Where scenarios end a heap in use, these are the answers that they want. */
    if (fault == FH_FAULT_HEAP_ENDS || fault == FH_FAULT_HEAP_USED || fault == FH_FAULT_HEAP_OVER) return;
    fh_model->fault((int)fault, p);
}

/* What the compiler puts before each plain read and write (build.rs). */
#define BARE __attribute__((no_sanitize("thread")))
BARE static void access(uintptr_t address, uint64_t bytes, int writes) {
    if (fh_model) fh_model->plain(address, bytes, writes);
}
#define ACCESS(name, bytes, writes)                                                                                    \
    void __tsan_##name(void *p);                                                                                       \
    BARE void __tsan_##name(void *p) {                                                                                 \
        access((uintptr_t)p, bytes, writes);                                                                           \
    }
ACCESS(read1, 1, 0)
ACCESS(read2, 2, 0)
ACCESS(read4, 4, 0)
ACCESS(read8, 8, 0)
ACCESS(read16, 16, 0)
ACCESS(write1, 1, 1)
ACCESS(write2, 2, 1)
ACCESS(write4, 4, 1)
ACCESS(write8, 8, 1)
ACCESS(write16, 16, 1)
ACCESS(unaligned_read2, 2, 0)
ACCESS(unaligned_read4, 4, 0)
ACCESS(unaligned_read8, 8, 0)
ACCESS(unaligned_read16, 16, 0)
ACCESS(unaligned_write2, 2, 1)
ACCESS(unaligned_write4, 4, 1)
ACCESS(unaligned_write8, 8, 1)
ACCESS(unaligned_write16, 16, 1)

void __tsan_read_range(void *p, unsigned long n);
void __tsan_write_range(void *p, unsigned long n);
void __tsan_init(void);
void __tsan_atomic_signal_fence(int order);
void __tsan_func_entry(void *p);
void __tsan_func_exit(void);
BARE void __tsan_read_range(void *p, unsigned long n) {
    access((uintptr_t)p, n, 0);
}
BARE void __tsan_write_range(void *p, unsigned long n) {
    access((uintptr_t)p, n, 1);
}
/* Keeps the compiler from moving stores, and no processor. */
BARE void __tsan_atomic_signal_fence(int order) {
    (void)order;
}
BARE void __tsan_init(void) {
}
/* A mapping is no write for the explorer. */
void AnnotateIgnoreWritesBegin(const char *file, int line) {
    (void)file, (void)line;
}
void AnnotateIgnoreWritesEnd(const char *file, int line) {
    (void)file, (void)line;
}
BARE void __tsan_func_entry(void *p) {
    (void)p;
}
BARE void __tsan_func_exit(void) {
}
