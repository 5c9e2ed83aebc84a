/* A tool that watches the program's memory: Valgrind's memcheck, or AddressSanitizer in the program that embeds the library. It
 * knows the C library's malloc. Of ours it knows what it is told here.
 *
 * A port may answer that there is none: then nothing else here is called, except what ThreadSanitizer is told. All of it is for any thread at any time, allocates
 * nothing and keeps errno. A range may be of no bytes. */
#ifndef FH_SYSTEM_TOOLS_H
#define FH_SYSTEM_TOOLS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    FH_TOOL_NONE,
    FH_TOOL_MEMCHECK,  /* reports and goes on. It sees each access, also the allocator's own */
    FH_TOOL_SANITIZER, /* ends the program, usually. It sees what was compiled for it, and memcpy and its kin */
} fh_tool_kind;

/* Which one watches, asked of the machine itself. `embedded`: the program has another malloc beside this library. Elsewhere the
 * sanitizer is not looked for: its own malloc is either before ours or not set up when ours is first called. */
fh_tool_kind fh_tool_find(bool embedded);

/* The one that is told from now on; none before the first call. By a program with one thread. */
void fh_tool_start(fh_tool_kind kind);

/* True under Valgrind, whichever of its tools runs. Asked of the machine itself. */
bool fh_tool_is_valgrind(void);

extern fh_tool_kind fh_tool_told __attribute__((visibility("hidden"))); /* written while there is one thread */
static inline fh_tool_kind fh_tool(void) {
    return fh_tool_told;
}

/* What the heap's address space is. A block of the other malloc that a pointer in it leads to has not leaked. */
void fh_tool_heap_is(const void *p, size_t n);

/* n bytes at p are a live block now, and no byte of it was written; zeroed: all are 0. `before` bytes in front of it are hidden. */
void fh_tool_allocated(const void *p, size_t n, size_t before, bool zeroed);

/* The block at p is freed and hidden. */
void fh_tool_freed(const void *p, size_t n, size_t before);

/* What was to be freed at p is no live block: memcheck says so. Between fh_tool_quiet and fh_tool_loud. */
void fh_tool_misfreed(const void *p);

/* The live block at p has n bytes from now on, which it had n or more of before. */
void fh_tool_resized(const void *p, size_t old, size_t n, size_t before);

/* Who touches these bytes from now on makes a mistake, until they are shown again. What is in them then is not defined. */
void fh_tool_hide(const void *p, size_t n);
void fh_tool_show(const void *p, size_t n);

/* Between the two the calling thread may touch what is hidden, but not by memcpy and its kin. They nest. */
void fh_tool_quiet(void);
void fh_tool_loud(void);

/* ThreadSanitizer takes a new mapping for a write to all of it by the thread that maps. Between the two it does not: others may use
 * the mapping as soon as the kernel has made it, and learn of it from the kernel. Nothing in a build without that sanitizer. */
#if defined(__SANITIZE_THREAD__)
void AnnotateIgnoreWritesBegin(const char *file, int line); /* of the sanitizer's own library */
void AnnotateIgnoreWritesEnd(const char *file, int line);
static inline void fh_tool_maps_for_all(void) {
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
static inline void fh_tool_has_mapped(void) {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
}
#else
static inline void fh_tool_maps_for_all(void) {
}
static inline void fh_tool_has_mapped(void) {
}
#endif

#endif
