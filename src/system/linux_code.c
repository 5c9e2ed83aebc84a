/* Linux: what is where in this process: its mappings, the images of code in them, and what the loader knows. */
#include "base/bits.h"
#include "system/inspect.h"
#include "system/linux_read.h"
#include "system/system.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* ── Memory that may not be there ────────────────────────────────────────────────────────────────────────────────── */

/* A filter of system calls may refuse the first way (a debugger uses it on others; on itself any process may). The second
 * one opens a file each time. */
size_t fh_system_peek(void *to, uintptr_t from, size_t n) {
    if (fh_system_is_restricted()) return 0;
    int saved = errno;
    struct iovec here = {to, n}, there = {(void *)from, n};
    long got = syscall(SYS_process_vm_readv, fh_system_pid(), &here, 1L, &there, 1L, 0L);
    if (got < 0 && (errno == EPERM || errno == ENOSYS)) {
        int fd = fh_read_open("/proc/self/mem");
        got = (long)fh_read_at(fd, to, n, from);
        fh_read_close(fd);
    }
    errno = saved;
    return got < 0 ? 0 : (size_t)got;
}

/* One byte of each page, many pages a call. */
bool fh_system_readable(uintptr_t from, uintptr_t to) {
    enum { PIECES = 32 };
    if (fh_system_is_restricted()) return false;
    int saved = errno;
    size_t page = fh_system_page_size();
    uint64_t process = fh_system_pid();
    bool readable = true;
    for (uintptr_t at = from & ~(page - 1); at < to && readable;) {
        struct iovec there[PIECES];
        char bytes[PIECES];
        long pieces = 0;
        for (; pieces < PIECES && at < to; at += page) there[pieces++] = (struct iovec){(void *)at, 1};
        struct iovec here = {bytes, (size_t)pieces};
        readable = syscall(SYS_process_vm_readv, process, &here, 1L, there, pieces, 0L) == pieces;
    }
    errno = saved;
    return readable;
}

/* The kernel puts 16 random bytes above the arguments of the program. */
uintptr_t fh_system_first_stack(void) {
    return getauxval(AT_RANDOM);
}

uintptr_t fh_system_thread_block(void) {
    return (uintptr_t)__builtin_thread_pointer();
}

/* ── The list of mappings ────────────────────────────────────────────────────────────────────────────────────────── */

struct fh_mappings {
    fh_lines lines;
    char text[];
};

fh_mappings *fh_system_mappings_open(void *buffer, size_t size) {
    fh_mappings *list = buffer;
    if (size <= sizeof *list) return NULL;
    return fh_lines_open(&list->lines, "/proc/self/maps", list->text, size - sizeof *list) ? list : NULL;
}

bool fh_system_mappings_close(fh_mappings *list) {
    fh_lines_close(&list->lines);
    return list->lines.complete;
}

static uint64_t hex(char **at) {
    uint64_t n = 0;
    for (;; (*at)++) {
        char c = **at;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : 16;
        if (digit == 16) return n;
        n = n << 4 | digit;
    }
}

static char *after_blanks(char *at) {
    while (*at == ' ') at++;
    return at;
}

static char *after_word(char *at) {
    while (*at && *at != ' ') at++;
    return after_blanks(at);
}

/* 7f0000001000-7f0000002000 r-xp 00001000 fe:00 1234    /lib/libc.so.6 */
bool fh_system_mappings_next(fh_mappings *list, fh_mapping *next) {
    char *at = fh_lines_next(&list->lines);
    if (!at) return false;
    next->begin = hex(&at);
    if (*at == '-') at++;
    next->end = hex(&at);
    at = after_blanks(at);
    bool whole = strlen(at) > 4;
    next->readable = whole && at[0] == 'r';
    next->writable = whole && at[1] == 'w';
    next->executable = whole && at[2] == 'x';
    next->shared = whole && at[3] == 's';
    at = after_word(at);
    next->offset = hex(&at);
    at = after_word(after_word(after_blanks(at)));
    next->path = at;
    return true;
}

/* ── Images ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

#define MOST_HEADERS 64u
#define MOST_SEGMENTS 16u

/* The first bytes of an image. Linkers put the headers and the build-id there, so that one copy usually is all it takes. */
typedef struct {
    uintptr_t start;
    size_t bytes;
    unsigned char copy[1024];
} beginning;

/* Copies all n bytes at `from`, out of the beginning if they are in it. */
static bool copy_of(const beginning *b, void *to, uintptr_t from, size_t n) {
    uintptr_t offset = from - b->start;
    if (offset > b->bytes || n > b->bytes - offset) return fh_system_peek(to, from, n) == n;
    memcpy(to, b->copy + offset, n);
    return true;
}

/* The build-id among the notes of one segment. */
static void read_notes(fh_image *image, const beginning *b, uintptr_t at, uint64_t bytes) {
    for (unsigned notes = 0; notes < 16 && bytes >= sizeof(ElfW(Nhdr)); notes++) {
        ElfW(Nhdr) note;
        char name[4];
        if (!copy_of(b, &note, at, sizeof note)) return;
        uint64_t name_bytes = fh_round_up(note.n_namesz, 4), value_bytes = fh_round_up(note.n_descsz, 4);
        uintptr_t value = at + sizeof note + name_bytes;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && note.n_descsz <= FH_BUILD_ID_MOST &&
            copy_of(b, name, at + sizeof note, 4) && memcmp(name, "GNU", 4) == 0) {
            if (copy_of(b, image->build_id, value, note.n_descsz)) {
                image->build_id_bytes = note.n_descsz;
                image->build_id_at = value;
            }
            return;
        }
        uint64_t step = sizeof note + name_bytes + value_bytes;
        if (step > bytes) return;
        at += step;
        bytes -= step;
    }
}

static void read_segment(fh_image *image, const beginning *b, const ElfW(Phdr) * segment) {
    uintptr_t begin = image->bias + segment->p_vaddr, end = begin + segment->p_memsz;
    if (segment->p_type == PT_LOAD) {
        if (end > image->limit) image->limit = end;
        if (!(segment->p_flags & PF_X)) return;
        if (image->end == 0 || begin < image->begin) image->begin = begin;
        if (end > image->end) image->end = end;
    } else if (segment->p_type == PT_NOTE) {
        read_notes(image, b, begin, segment->p_memsz);
    } else if (segment->p_type == PT_GNU_EH_FRAME) {
        image->frames_index = begin;
    }
}

/* The segments' addresses are relative to where the file's first byte would have to be; the first loaded segment says by
 * how much it was moved. So they are gone through twice, once for the bias. */
static bool read_segments(fh_image *image, const beginning *b, uintptr_t at, unsigned segments) {
    bool biased = false;
    for (unsigned i = 0; i < 2 * segments; i++) {
        ElfW(Phdr) segment;
        if (!copy_of(b, &segment, at + i % segments * sizeof segment, sizeof segment)) return false;
        if (i >= segments) {
            read_segment(image, b, &segment);
        } else if (!biased && segment.p_type == PT_LOAD) {
            image->bias = image->start - (segment.p_vaddr - segment.p_offset);
            biased = true;
        }
    }
    return biased;
}

bool fh_system_image(uintptr_t start, fh_image *image) {
    ElfW(Ehdr) head;
    beginning b = {.start = start};
    memset(image, 0, sizeof *image);
    image->start = start;
    b.bytes = fh_system_peek(b.copy, start, sizeof b.copy);
    if (b.bytes < sizeof head) return false;
    memcpy(&head, b.copy, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof(ElfW(Phdr)) || head.e_phnum == 0 ||
        head.e_phnum > MOST_HEADERS) {
        return false;
    }
    unsigned count = head.e_phnum < MOST_SEGMENTS ? head.e_phnum : MOST_SEGMENTS;
    return read_segments(image, &b, start + head.e_phoff, count) && image->end > image->begin;
}

/* The section of that name, by the file's section headers, which are not in memory. */
static bool find_section(int fd, const ElfW(Ehdr) * head, const char *name, ElfW(Shdr) * section) {
    ElfW(Shdr) names;
    char text[16];
    uint64_t table = head->e_shoff;
    if (head->e_shentsize != sizeof names || head->e_shstrndx >= head->e_shnum) return false;
    if (fh_read_at(fd, &names, sizeof names, table + head->e_shstrndx * sizeof names) < sizeof names) return false;
    for (unsigned i = 0; i < head->e_shnum; i++) {
        if (fh_read_at(fd, section, sizeof *section, table + i * sizeof *section) < sizeof *section) return false;
        size_t got = fh_read_at(fd, text, sizeof text, names.sh_offset + section->sh_name);
        size_t length = strlen(name) + 1;
        if (got >= length && memcmp(text, name, length) == 0) return true;
    }
    return false;
}

bool fh_system_frames(const char *path, const fh_image *image, uintptr_t *begin, uintptr_t *end) {
    ElfW(Ehdr) head;
    ElfW(Shdr) section;
    int fd = fh_read_open(fh_system_is_program(image->begin, image->end) ? "/proc/self/exe" : path);
    bool found = fd >= 0 && fh_read_at(fd, &head, sizeof head, 0) == sizeof head &&
                 memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && find_section(fd, &head, ".eh_frame", &section);
    fh_read_close(fd);
    if (!found) return false;
    *begin = image->bias + section.sh_addr;
    *end = *begin + section.sh_size;
    return *begin >= image->start && *end <= image->limit && *begin < *end;
}

/* ── The loader ──────────────────────────────────────────────────────────────────────────────────────────────────── */

/* glibc 2.35 and later: made for unwinding, wait-free, allowed in a signal handler. Other C libraries do not have it; theirs
 * do not unload either (musl), or the program is static. Declared here, as older headers do not know it; the layout is part
 * of the C library's interface. */
struct found_object {
    unsigned long long flags;
    void *start, *end;
    const struct link_map *map;
    void *frames_index;
    unsigned long long reserved[8];
};

extern int find_object(void *address, struct found_object *result) __asm__("_dl_find_object") __attribute__((weak));

fh_loader_answer fh_system_loaded(uintptr_t address, fh_loaded *answer) {
    struct found_object object;
    if (!find_object) return FH_LOADER_SILENT;
    if (find_object((void *)address, &object) != 0) return FH_LOADER_UNKNOWN;
    *answer = (fh_loaded){(uintptr_t)object.start, (uintptr_t)object.frames_index, (uintptr_t)object.map};
    return FH_LOADER_KNOWN;
}

/* True if the record is that of `last`, or stands before it in a list that begins with the program. Records up to one that is
 * never taken out, and before which none is, can be read at any time. */
static bool stands_before(uintptr_t record, const struct link_map *last, const struct link_map *program) {
    bool found = false;
    for (const struct link_map *at = last; at; at = at->l_prev) {
        found = found || (uintptr_t)at == record;
        if (!at->l_prev) return found && at == program;
    }
    return false;
}

/* The loader appends to its list whatever it loads, and takes out what is unloaded. The C library was loaded for the program,
 * and so was all that stands before it, which the loader never unloads. The loader itself takes its place in the list, usually
 * a later one, before the program begins, so the same holds for it. The C library is found by the address of a function
 * that programs do not replace. In a list of its own (dlmopen), which does not begin with the program, nothing of
 * that holds. */
bool fh_system_loaded_for_good(const fh_loaded *answer) {
    struct found_object program, last;
    if (!find_object || find_object((void *)getauxval(AT_ENTRY), &program) != 0) return false;
    /* The kernel says where the loader begins; 0 if it was called by its name. */
    uintptr_t anchor[2] = {getauxval(AT_BASE), (uintptr_t)&__errno_location};
    for (unsigned i = 0; i < 2; i++) {
        if (!anchor[i] || find_object((void *)anchor[i], &last) != 0) continue;
        if ((uintptr_t)last.map == answer->record || stands_before(answer->record, last.map, program.map)) return true;
    }
    return false;
}

/* The loader's record may go while it is read, hence the peeks, and the path is cut where a page ends that is the last. */
bool fh_system_loaded_path(const fh_loaded *answer, char *path, size_t size) {
    uintptr_t name;
    uintptr_t field = answer->record + offsetof(struct link_map, l_name);
    if (fh_system_peek(&name, field, sizeof name) < sizeof name || name == 0) return false;
    size_t page = fh_system_page_size(), room = page - (name & (page - 1));
    size_t got = fh_system_peek(path, name, room < size ? room : size);
    if (got == room && got < size && !memchr(path, 0, got)) got += fh_system_peek(path + got, name + got, size - got);
    return memchr(path, 0, got) != NULL && path[0] != 0;
}

bool fh_system_is_program(uintptr_t begin, uintptr_t end) {
    uintptr_t entry = getauxval(AT_ENTRY);
    return entry >= begin && entry < end;
}
