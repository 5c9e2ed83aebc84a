/* A library that is opened with RTLD_DEEPBIND: its malloc is the C library's own, unless that flag is dropped. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

void *plugin_make(size_t size);
void *plugin_align(size_t align, size_t size);
void *plugin_grow(void *p, size_t size);
void plugin_drop(void *p);
void *plugin_open_sibling(const char *name);

void *plugin_make(size_t size) {
    return malloc(size);
}

void *plugin_align(size_t align, size_t size) {
    return memalign(align, size);
}

void *plugin_grow(void *p, size_t size) {
    return realloc(p, size);
}

void plugin_drop(void *p) {
    free(p);
}

/* Found by the search path of this library ($ORIGIN), and of no other. */
void *plugin_open_sibling(const char *name) {
    void *handle = dlopen(name, RTLD_NOW);
    return handle;
}
