/* The model's operating system: address space that is looked at but never written to, a clock that stands still, and
 * purging that costs nothing. What the explored code reaches of it never blocks and never fails. */
#include "base/atomic.h"
#include "system/report.h"
#include "system/system.h"

const fh_model_hooks *fh_model;

/* Called once for each shared object that is loaded. */
void fh_model_attach(const fh_model_hooks *hooks) {
    fh_model = hooks;
}

size_t fh_system_page_size(void) {
    return 4096;
}
void *fh_system_reserve(size_t size) {
    return fh_model->map(size, 4096);
}
bool fh_system_make_readable(void *p, size_t size) {
    (void)p, (void)size;
    return true;
}
bool fh_system_enable(void *p, size_t size) {
    (void)p, (void)size;
    return true;
}
int fh_system_place(void *p, size_t size) {
    (void)p, (void)size;
    return 0;
}
void *fh_system_find_place(size_t size, size_t align) {
    return fh_model->map(size, align);
}
void *fh_system_map(size_t size, size_t align) {
    return fh_model->map(size, align);
}
void fh_system_unmap(void *p, size_t size) {
    (void)p, (void)size;
}
void *fh_system_resize_in_place(void *p, size_t old_size, size_t new_size) {
    (void)p, (void)old_size, (void)new_size;
    return NULL;
}
void *fh_system_reserve_aligned(size_t size, size_t align) {
    return fh_model->map(size, align);
}
bool fh_system_move(void *p, size_t old_size, size_t new_size, void *place) {
    (void)p, (void)old_size, (void)new_size, (void)place;
    return true;
}
void fh_system_purge(void *p, size_t size) {
    fh_model->note(0, (uintptr_t)p, size);
}
bool fh_system_resident(void *p, size_t size, unsigned char *pages) {
    (void)p, (void)size, (void)pages;
    return false;
}
void fh_system_wake(fh_word *word) {
    (void)word;
}
unsigned fh_system_group_stall(void) {
    return 0;
}
bool fh_system_group_memory(size_t *limit, size_t *used) {
    (void)limit, (void)used;
    return false;
}
void fh_system_huge_pages(void *p, size_t size, bool wanted) {
    (void)p, (void)size, (void)wanted;
}
bool fh_system_huge_pages_always(void) {
    return false;
}
bool fh_system_counts_every_page(void) {
    return false;
}
uint64_t fh_system_nanoseconds(void) {
    return UINT64_C(1) << 40;
}
unsigned fh_system_near(void) {
    return fh_model->near();
}

void fh_report_fault(fh_fault fault, const char *call, const void *p, size_t a, size_t b) {
    (void)call, (void)a, (void)b;
    fh_model->fault((int)fault, p);
}
