#include "misuse/owner.h"

#include "system/inspect.h"

#include <stdbool.h>
#include <string.h>

#define LONGEST_PATH 256

/* What the list of mappings says about an address. */
typedef struct {
    bool known, asked; /* asked: the list could be read */
    uintptr_t begin, end;
    bool writable, executable;
    char path[LONGEST_PATH]; /* of its own mapping; empty: it is of no file */
    char before
        [256]; /* of the mapping that ends where it begins, if that is data of a file: then this one is the file's too */
} place;

static void copy(char *to, const char *from, size_t size) {
    size_t n = strlen(from);
    if (n >= size) n = size - 1;
    memcpy(to, from, n);
    to[n] = 0;
}

static place find(uintptr_t address) {
    place found = {.known = false};
    uint64_t buffer[FH_MAPPINGS_BYTES / sizeof(uint64_t)];
    fh_mappings *list = fh_system_mappings_open(buffer, sizeof buffer);
    fh_mapping m;
    uintptr_t end = 0;
    found.asked = list != NULL;
    while (list && fh_system_mappings_next(list, &m)) {
        bool next = m.begin == end && m.writable && !m.path[0];
        if (address >= m.begin && address < m.end) {
            found.known = true;
            found.begin = m.begin;
            found.end = m.end;
            found.writable = m.writable;
            found.executable = m.executable;
            copy(found.path, m.path, sizeof found.path);
            if (!next) found.before[0] = 0;
            break;
        }
        end = m.end;
        /* What is behind the data of a file and has no name is the rest of them. */
        copy(found.before, m.path[0] == '/' && m.writable ? m.path : next ? found.before : "", sizeof found.before);
    }
    if (list) (void)fh_system_mappings_close(list);
    return found;
}

/* Is this a file with code, or one that the program has mapped to read? */
static bool is_image(const char *path) {
    uint64_t buffer[FH_MAPPINGS_BYTES / sizeof(uint64_t)];
    fh_mappings *list = fh_system_mappings_open(buffer, sizeof buffer);
    fh_mapping m;
    bool found = false;
    while (list && !found && fh_system_mappings_next(list, &m))
        found = m.executable && strncmp(m.path, path, LONGEST_PATH - 1) == 0;
    if (list) (void)fh_system_mappings_close(list);
    return found;
}

/* What the files of other allocators are called. */
static const char *const allocators[] = {"jemalloc", "mimalloc", "tcmalloc", "tbbmalloc",
                                         "snmalloc", "rpmalloc", "scudo",    "hoard"};

static bool is_allocator(const char *path) {
    const char *name = strrchr(path, '/');
    for (size_t i = 0; name && i < sizeof allocators / sizeof *allocators; i++) {
        if (strstr(name, allocators[i])) return true;
    }
    return false;
}

/* Neither an anonymous mapping nor brk says whose it is. But an allocator that is loaded beside us is the likely one. */
static bool find_allocator(char *path, size_t size) {
    uint64_t buffer[FH_MAPPINGS_BYTES / sizeof(uint64_t)];
    fh_mappings *list = fh_system_mappings_open(buffer, sizeof buffer);
    fh_mapping m;
    bool found = false;
    while (list && !found && fh_system_mappings_next(list, &m)) {
        found = m.executable && is_allocator(m.path);
        if (found) copy(path, m.path, size);
    }
    if (list) (void)fh_system_mappings_close(list);
    return found;
}

static void say_loaded(fh_text *t, const char *path) {
    fh_text_string(t, "perhaps another allocator's: ");
    fh_text_string(t, path);
    fh_text_string(t, " is loaded");
}

static void say_anonymous(fh_text *t) {
    char path[LONGEST_PATH];
    fh_text_string(t, " of no file, ");
    if (find_allocator(path, sizeof path)) {
        say_loaded(t, path);
    } else {
        fh_text_string(t, "perhaps another allocator's");
    }
}

/* tcmalloc, too, has its memory from brk. */
static void say_heap(fh_text *t) {
    char path[LONGEST_PATH];
    if (find_allocator(path, sizeof path)) {
        fh_text_string(t, "it is in the heap of the C library's allocator (brk), or ");
        say_loaded(t, path);
    } else {
        fh_text_string(t, "it is in the heap of another allocator, the C library's (brk)");
    }
}

static void say_mapping(fh_text *t, const place *at, const void *frame) {
    uintptr_t here = (uintptr_t)frame;
    if ((here >= at->begin && here < at->end) || strncmp(at->path, "[stack]", sizeof "[stack]") == 0) {
        fh_text_string(t, "it is on the stack of ");
        fh_text_string(t, here >= at->begin && here < at->end ? "this thread" : "the first thread");
    } else if (strncmp(at->path, "[heap]", sizeof "[heap]") == 0) {
        say_heap(t);
    } else if (at->before[0]) {
        fh_text_string(t, "it is static data of ");
        fh_text_string(t, at->before);
    } else if (at->path[0] == '/' && strncmp(at->path, "/dev/zero", 9) != 0) {
        bool image = is_image(at->path);
        fh_text_string(t, at->executable ? "it is code of "
                          : !image       ? "it is in a mapping of the file "
                          : at->writable ? "it is static data of "
                                         : "it is a constant of ");
        fh_text_string(t, at->path);
    } else {
        fh_text_string(t, "it is in a mapping of ");
        fh_text_size(t, at->end - at->begin);
        if (!at->path[0]) {
            say_anonymous(t);
            return;
        }
        fh_text_string(t, ", ");
        fh_text_string(t, at->path);
    }
}

void fh_owner_say(fh_text *t, const void *p, const void *frame) {
    place at = find((uintptr_t)p);
    if (at.known) {
        say_mapping(t, &at, frame);
    } else {
        fh_text_string(t, at.asked ? "nothing is mapped at it" : "it is none of ours");
    }
}
