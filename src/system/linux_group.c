/* Linux: the control groups that the process lives in, of either version: their memory and their share of processors.
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
    const char *limits[2];
    const char *usage;
    const char *files;  /* lines of memory.stat: cached files, */
    const char *shared; /*   of which these cannot be dropped */
} version;

static const version second = {{"/memory.max", "/memory.high"}, "/memory.current", "\nfile ", "\nshmem "};
static const version first = {
    {"/memory.limit_in_bytes", NULL}, "/memory.usage_in_bytes", "\ntotal_cache ", "\ntotal_shmem "};

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

/* ── Which group ─────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Is the word one of a list of words that are parted by commas? */
static bool lists(const char *list, const char *word) {
    for (size_t length = strlen(word); *list; list += *list != 0) {
        size_t part = strcspn(list, ",");
        if (part == length && memcmp(list, word, length) == 0) return true;
        list += part;
    }
    return false;
}

/* Finds the line of /proc/self/cgroup that is about a controller, and its path. 1 or 2: the version; 0: there is none. */
static int own_group(char *lines, const char *controller, const char **group) {
    int found = 0;
    for (char *line = lines; *line;) {
        char *end = line + strcspn(line, "\n"), *next = *end ? end + 1 : end;
        *end = 0;
        char *controllers = strchr(line, ':'), *place = controllers ? strchr(controllers + 1, ':') : NULL;
        if (place) {
            *place++ = 0;
            /* A machine with both versions has the controller in one of them, and then in the first. */
            if (lists(controllers + 1, controller)) {
                *group = place;
                return 1;
            }
            if (controllers[1] == 0) {
                *group = place;
                found = 2;
            }
        }
        line = next;
    }
    return found;
}

/* A group of this process: where all groups of that controller begin, and the way from there. */
typedef struct {
    int version;
    path root;
    const char *group; /* in lines */
    char lines[2048];
} own;

static bool find_own(own *o, const char *controller) {
    bool ready;
    /* A door for tests: a folder that stands for both /sys/fs/cgroup and, with the file self.cgroup, for /proc. */
    const char *fake = fh_system_environment("FREEHOLD_GROUP_ROOT", &ready);
    o->root.length = 0;
    if (fake) append(&o->root, fake, strlen(fake));
    if (!read_text(&o->root, fake ? "/self.cgroup" : "/proc/self/cgroup", o->lines, sizeof o->lines)) return false;
    o->version = own_group(o->lines, controller, &o->group);
    if (!o->version) return false;
    if (!fake) append(&o->root, "/sys/fs/cgroup", strlen("/sys/fs/cgroup"));
    if (o->version == 1) {
        append(&o->root, "/", 1);
        append(&o->root, controller, strlen(controller));
    }
    return true;
}

/* The folder of the own group (the first call, *length ~0) and of those above it, one after another; false: no more. */
static bool next_folder(const own *o, size_t *length, path *folder) {
    if (*length == 0) return false;
    if (*length == ~(size_t)0) {
        *length = strlen(o->group);
    } else {
        while (*length > 0 && o->group[*length - 1] != '/') --*length;
    }
    while (*length > 0 && o->group[*length - 1] == '/') --*length;
    *folder = o->root;
    append(folder, o->group, *length);
    return true;
}

/* ── Answers ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

bool fh_system_group_memory(size_t *limit, size_t *used) {
    own o;
    if (!find_own(&o, "memory")) return false;
    const version *v = o.version == 2 ? &second : &first;
    size_t length = ~(size_t)0, nearest = 0;
    *limit = NO_LIMIT;
    for (path folder; next_folder(&o, &length, &folder);) {
        size_t most = read_number(&folder, v->limits[0]), high = read_number(&folder, v->limits[1]);
        if (high < most) most = high;
        if (most == NO_LIMIT || most < 1024) continue;
        size_t now = used_by(&folder, v), thousandths = now / (most / 1024);
        if (*limit != NO_LIMIT && thousandths <= nearest) continue;
        nearest = thousandths;
        *limit = most;
        *used = now;
    }
    return *limit != NO_LIMIT;
}

/* "some avg10=1.23 avg60=…": always with two digits behind the point. */
unsigned fh_system_group_stall(void) {
    own o;
    char text[128], *rest;
    if (!find_own(&o, "memory") || o.version != 2) return 0;
    append(&o.root, o.group, strlen(o.group));
    if (!read_text(&o.root, "/memory.pressure", text, sizeof text)) return 0;
    const char *average = strstr(text, "some avg10=");
    if (!average) return 0;
    unsigned whole = (unsigned)strtoul(average + strlen("some avg10="), &rest, 10);
    return whole * 100 + (*rest == '.' ? (unsigned)strtoul(rest + 1, NULL, 10) : 0);
}

/* Both in microseconds. Version 2 has them in one file, "max 100000" or "150000 100000"; in version 1 no quota is −1. */
static unsigned processors_of(const path *folder, int version) {
    char text[64], *rest = NULL;
    size_t quota = NO_LIMIT, period = NO_LIMIT;
    if (version == 1) {
        quota = read_number(folder, "/cpu.cfs_quota_us");
        period = read_number(folder, "/cpu.cfs_period_us");
    } else if (read_text(folder, "/cpu.max", text, sizeof text) && text[0] >= '0' && text[0] <= '9') {
        quota = strtoul(text, &rest, 10);
        period = strtoul(rest, NULL, 10);
    }
    if (quota == NO_LIMIT || quota == 0 || period == NO_LIMIT || period == 0) return 0;
    return (unsigned)((quota + period - 1) / period);
}

unsigned fh_system_group_processors(void) {
    own o;
    if (!find_own(&o, "cpu")) return 0;
    size_t length = ~(size_t)0;
    unsigned least = 0;
    for (path folder; next_folder(&o, &length, &folder);) {
        unsigned here = processors_of(&folder, o.version);
        if (here && (!least || here < least)) least = here;
    }
    return least;
}
