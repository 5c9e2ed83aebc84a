/* Linux: the control groups that the process is in, of either version: their memory and their share of CPUs.
 *
 * Everything is read again each time, because a process can be moved and a limit changed while it runs; the caller sees to
 * it that this is rare. All groups on the way up to the root of what can be seen count, because a limit of any of them is
 * one of ours. In a container the path that the kernel names may not exist inside: then the walk ends at the root, which
 * there is the container's own group. */
#include "system/linux_group.h"

#include "system/linux_read.h"
#include "system/system.h"

#include <string.h>

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

/* Reads the beginning of the file at directory/name; the text is terminated. False: there is none, or it is empty. */
static bool read_text(const path *directory, const char *name, char *text, size_t size) {
    path whole = *directory;
    append(&whole, name, strlen(name));
    return fh_read_file(whole.text, text, size) > 0;
}

/* "max", or what version 1 writes for it (the largest multiple of a page), is no limit. */
static size_t read_number(const path *directory, const char *name) {
    if (!name) return NO_LIMIT;
    path whole = *directory;
    append(&whole, name, strlen(name));
    uint64_t number = fh_number_in(whole.text, NO_LIMIT);
    return number < UINT64_C(1) << 60 ? (size_t)number : NO_LIMIT;
}

/* Cached files fill every group to its limit sooner or later and are dropped when memory is wanted: they do not count. */
static size_t used_by(const path *directory, const version *v) {
    char text[3072];
    size_t used = read_number(directory, v->usage);
    if (used == NO_LIMIT || !read_text(directory, "/memory.stat", text, sizeof text))
        return used == NO_LIMIT ? 0 : used;
    size_t files = fh_number_after(text, v->files), shared = fh_number_after(text, v->shared);
    size_t droppable = files > shared ? files - shared : 0;
    return used > droppable ? used - droppable : 0;
}

/* ── Which group ─────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Is the word one of a list of words with commas between them? */
static bool has_word(const char *list, const char *word) {
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
    for (char *line; (line = fh_line_cut(&lines));) {
        char *controllers = strchr(line, ':'), *place = controllers ? strchr(controllers + 1, ':') : NULL;
        if (place) {
            *place++ = 0;
            /* A machine with both versions has the controller in one of them, and then in the first. */
            if (has_word(controllers + 1, controller)) {
                *group = place;
                return 1;
            }
            if (controllers[1] == 0) {
                *group = place;
                found = 2;
            }
        }
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
    /* A door for tests: a directory that stands for both /sys/fs/cgroup and, with the file self.cgroup, for /proc. */
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

/* The directory of the own group (the first call, *length ~0) and of those above it, one after another; false: no more. */
static bool next_directory(const own *o, size_t *length, path *directory) {
    if (*length == 0) return false;
    if (*length == ~(size_t)0) {
        *length = strlen(o->group);
    } else {
        while (*length > 0 && o->group[*length - 1] != '/') --*length;
    }
    while (*length > 0 && o->group[*length - 1] == '/') --*length;
    *directory = o->root;
    append(directory, o->group, *length);
    return true;
}

/* ── Answers ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

bool fh_system_group_memory(size_t *limit, size_t *used) {
    own o;
    if (!find_own(&o, "memory")) return false;
    const version *v = o.version == 2 ? &second : &first;
    size_t length = ~(size_t)0, nearest = 0;
    *limit = NO_LIMIT;
    for (path directory; next_directory(&o, &length, &directory);) {
        size_t most = read_number(&directory, v->limits[0]), high = read_number(&directory, v->limits[1]);
        if (high < most) most = high;
        if (most == NO_LIMIT || most < 1024) continue;
        size_t now = used_by(&directory, v), thousandths = now / (most / 1024);
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
    char text[128];
    if (!find_own(&o, "memory") || o.version != 2) return 0;
    append(&o.root, o.group, strlen(o.group));
    if (!read_text(&o.root, "/memory.pressure", text, sizeof text)) return 0;
    const char *average = strstr(text, "some avg10=");
    if (!average) return 0;
    uint64_t whole = 0, hundredths = 0;
    const char *rest = fh_read_number(average + strlen("some avg10="), &whole);
    if (rest && *rest == '.') (void)fh_read_number(rest + 1, &hundredths);
    return (unsigned)(whole * 100 + hundredths);
}

/* Both in microseconds. Version 2 has them in one file, "max 100000" or "150000 100000"; in version 1 no quota is −1. */
static unsigned processors_of(const path *directory, int version) {
    char text[64];
    uint64_t quota = NO_LIMIT, period = NO_LIMIT;
    if (version == 1) {
        quota = read_number(directory, "/cpu.cfs_quota_us");
        period = read_number(directory, "/cpu.cfs_period_us");
    } else if (read_text(directory, "/cpu.max", text, sizeof text)) {
        const char *rest = fh_read_number(text, &quota);
        if (rest) (void)fh_read_number(rest, &period);
    }
    if (quota == NO_LIMIT || quota == 0 || period == NO_LIMIT || period == 0) return 0;
    return (unsigned)((quota + period - 1) / period);
}

unsigned fh_group_processors(void) {
    own o;
    if (!find_own(&o, "cpu")) return 0;
    size_t length = ~(size_t)0;
    unsigned least = 0;
    for (path directory; next_directory(&o, &length, &directory);) {
        unsigned here = processors_of(&directory, o.version);
        if (here && (!least || here < least)) least = here;
    }
    return least;
}
