/* Linux: the memory control group that the process lives in, of either version.
 *
 * Everything is read anew each time, because a process can be moved and a limit changed while it runs; the caller sees to
 * it that this is seldom. All groups on the way up to the root of what can be seen count, as a limit of any of them is
 * one of ours. In a container the path that the kernel names may not exist inside: then the walk ends at the root, which
 * there is the container's own group. */
#include "system/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LONGEST_PATH 1024
#define NO_LIMIT SIZE_MAX

/* The names of the same things in the two versions. */
typedef struct {
    const char *folder; /* below the root of all groups */
    const char *limits[2];
    const char *usage;
    const char *files;  /* lines of memory.stat: cached files, */
    const char *shared; /*   of which these cannot be dropped */
} version;

static const version second = {"", {"/memory.max", "/memory.high"}, "/memory.current", "\nfile ", "\nshmem "};
static const version first = {
    "/memory", {"/memory.limit_in_bytes", NULL}, "/memory.usage_in_bytes", "\ntotal_cache ", "\ntotal_shmem "};

/* A path that is put together from pieces. Too long a one is as good as one that does not exist. */
typedef struct {
    char text[LONGEST_PATH];
    size_t length;
} path;

static void append(path *p, const char *piece, size_t length) {
    if (p->length + length >= sizeof p->text) return;
    memcpy(p->text + p->length, piece, length);
    p->length += length;
    p->text[p->length] = 0;
}

/* Reads the beginning of the file at folder/name; the text is terminated. False: there is none. No cancellation point. */
static bool read_text(const path *folder, const char *name, char *text, size_t size) {
    path whole = *folder;
    append(&whole, name, strlen(name));
    int saved = errno;
    long got = -1, fd = syscall(SYS_openat, AT_FDCWD, whole.text, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        got = syscall(SYS_read, fd, text, size - 1);
        syscall(SYS_close, fd);
    }
    errno = saved;
    text[got > 0 ? got : 0] = 0;
    return got > 0;
}

/* "max", or what version 1 writes for it (the largest multiple of a page), is no limit. */
static size_t read_number(const path *folder, const char *name) {
    char text[32];
    if (!name || !read_text(folder, name, text, sizeof text) || text[0] < '0' || text[0] > '9') return NO_LIMIT;
    size_t number = strtoul(text, NULL, 10);
    return number < (size_t)1 << 60 ? number : NO_LIMIT;
}

static size_t line_of(const char *text, const char *name) {
    const char *line = strstr(text, name);
    return line ? strtoul(line + strlen(name), NULL, 10) : 0;
}

/* Cached files fill every group to its limit sooner or later and are dropped when memory is wanted: they do not count. */
static size_t used_by(const path *folder, const version *v) {
    char text[3072];
    size_t used = read_number(folder, v->usage);
    if (used == NO_LIMIT || !read_text(folder, "/memory.stat", text, sizeof text)) return used == NO_LIMIT ? 0 : used;
    size_t files = line_of(text, v->files), shared = line_of(text, v->shared);
    size_t droppable = files > shared ? files - shared : 0;
    return used > droppable ? used - droppable : 0;
}

/* Finds the line of /proc/self/cgroup that is about memory, and its path. */
static const version *own_group(char *lines, const char **group) {
    const version *found = NULL;
    for (char *line = lines; *line;) {
        char *end = line + strcspn(line, "\n"), *next = *end ? end + 1 : end;
        *end = 0;
        char *controllers = strchr(line, ':'), *place = controllers ? strchr(controllers + 1, ':') : NULL;
        if (place) {
            *place++ = 0;
            /* A machine with both versions has the controller in one of them, and then in the first. */
            if (strstr(controllers, "memory")) {
                *group = place;
                return &first;
            }
            if (controllers[1] == 0) {
                *group = place;
                found = &second;
            }
        }
        line = next;
    }
    return found;
}

bool fh_system_group_memory(size_t *limit, size_t *used) {
    bool ready;
    /* A door for tests: a folder that stands for both /sys/fs/cgroup and, with the file self.cgroup, for /proc. */
    const char *fake = fh_system_environment("FREEHOLD_GROUP_ROOT", &ready), *group = NULL;
    path root = {.length = 0};
    if (fake) append(&root, fake, strlen(fake));
    char lines[2048];
    if (!read_text(&root, fake ? "/self.cgroup" : "/proc/self/cgroup", lines, sizeof lines)) return false;
    const version *v = own_group(lines, &group);
    if (!v) return false;
    if (!fake) append(&root, "/sys/fs/cgroup", strlen("/sys/fs/cgroup"));
    append(&root, v->folder, strlen(v->folder));
    size_t length = strlen(group), nearest = 0;
    *limit = NO_LIMIT;
    for (;;) {
        while (length > 0 && group[length - 1] == '/') length--;
        path folder = root;
        append(&folder, group, length);
        size_t most = read_number(&folder, v->limits[0]), high = read_number(&folder, v->limits[1]);
        if (high < most) most = high;
        if (most != NO_LIMIT && most >= 1024) {
            size_t now = used_by(&folder, v), thousandths = now / (most / 1024);
            if (*limit == NO_LIMIT || thousandths > nearest) {
                nearest = thousandths;
                *limit = most;
                *used = now;
            }
        }
        if (length == 0) return *limit != NO_LIMIT;
        while (length > 0 && group[length - 1] != '/') length--;
    }
}
