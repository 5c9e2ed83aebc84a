/* What the observer asks of the system about the process itself: its mappings, the images of code in them, and memory that
 * may not be there. linux_code.c answers. Nothing here allocates or takes a lock of the C library's; errno is kept. */
#ifndef FH_SYSTEM_CODE_H
#define FH_SYSTEM_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies up to n bytes of this process's memory and returns how many could be read, from the first one on. The kernel does
 * it, so what is not mapped is an answer and no signal. About 150 ns. */
size_t fh_system_peek(void *to, uintptr_t from, size_t n);

/* True if each page from `from` to `to` can be read now. */
bool fh_system_readable(uintptr_t from, uintptr_t to);

/* An address in the upper end of the first thread's stack, above all its frames; 0 if it is not known. */
uintptr_t fh_system_first_stack(void);

/* Where the calling thread's control block lies. The C libraries put it at the upper end of the stacks that they make. */
uintptr_t fh_system_thread_block(void);

/* The number of the calling process. Asked of the system each time: a fork changes it. */
uint64_t fh_system_process_number(void);

/* ── The list of mappings ────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    uintptr_t begin, end;
    bool readable, writable, executable, shared;
    uint64_t offset;  /* in its file */
    const char *path; /* terminated; "" if it has none. In the buffer of the list, until the next line is read */
} fh_mapping;

typedef struct {
    int fd;
    char *buffer; /* of the caller's; 8 KiB hold the longest line that there can be */
    size_t size, at, filled;
    bool complete; /* all lines were read, to the last */
} fh_mappings;

bool fh_system_mappings_open(fh_mappings *list, char *buffer, size_t size);
bool fh_system_mappings_next(fh_mappings *list, fh_mapping *next);
void fh_system_mappings_close(fh_mappings *list);

/* ── Images: files with code, as they lie in memory ──────────────────────────────────────────────────────────────── */

#define FH_BUILD_ID_MOST 36u

typedef struct {
    uintptr_t start;        /* where the file's first byte lies */
    uintptr_t begin, end;   /* its executable part */
    uintptr_t bias;         /* address = bias + address in the file's symbol table */
    uintptr_t frames_index; /* the sorted index of its unwind information, 0: it has none */
    uintptr_t limit;        /* the end of all that is mapped of it */
    uintptr_t build_id_at;  /* where it lies; 0: it has none */
    uint32_t build_id_bytes;
    uint8_t build_id[FH_BUILD_ID_MOST];
} fh_image;

/* Reads what the image that begins at `start` says about itself. False: there is none, or it is damaged. */
bool fh_system_image(uintptr_t start, fh_image *image);

/* Where the unwind information (.eh_frame) of an image without index lies, out of its file; a link without an index is what
 * some compilers do for static programs. False: not to be found. */
bool fh_system_frames(const char *path, const fh_image *image, uintptr_t *begin, uintptr_t *end);

/* What the loader says about an address, without its lock. */
typedef enum {
    FH_LOADER_SILENT,  /* it gives no such service */
    FH_LOADER_UNKNOWN, /* it has loaded nothing there */
    FH_LOADER_KNOWN
} fh_loader_answer;

typedef struct {
    uintptr_t start;
    uintptr_t frames_index;
    uintptr_t record; /* the loader's own, for fh_system_loaded_path */
} fh_loaded;

fh_loader_answer fh_system_loaded(uintptr_t address, fh_loaded *answer);

/* True if it is there as long as the program runs: it was loaded before the program began, or is the loader itself. Only for
 * what is there for certain, or has just been found. */
bool fh_system_loaded_for_good(const fh_loaded *answer);

/* The path of what was found, terminated. False: it has none, as the program itself, or does not fit. */
bool fh_system_loaded_path(const fh_loaded *answer, char *path, size_t size);

/* True if the program itself (and not a library) is the image in this range. */
bool fh_system_is_program(uintptr_t begin, uintptr_t end);

#endif
