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

static const version second = {{"/memory.max", "/memory.high"}, "/memory.current", "file ", "shmem "};
static const version first = {
    {"/memory.limit_in_bytes", NULL}, "/memory.usage_in_bytes", "total_cache ", "total_shmem "};

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

static void cut(path *p, size_t length) {
    p->length = length;
    p->text[length] = 0;
}

/* Reads the beginning of the file at directory/name; the text is terminated. False: there is none, or it is empty. The name
 * is behind the path for as long as that takes, because a copy of the path would be too much for a small stack. */
static bool read_text(path *directory, const char *name, char *text, size_t size) {
    size_t length = directory->length;
    append(directory, name, strlen(name));
    bool there = fh_read_file(directory->text, text, size) > 0;
    cut(directory, length);
    return there;
}

/* "max", or what version 1 writes for it (the largest multiple of a page), is no limit. */
static size_t read_number(path *directory, const char *name) {
    char text[32];
    uint64_t number = NO_LIMIT;
    if (!name || !read_text(directory, name, text, sizeof text)) return NO_LIMIT;
    (void)fh_read_number(text, &number);
    return number < UINT64_C(1) << 60 ? (size_t)number : NO_LIMIT;
}

/* Cached files fill every group to its limit sooner or later and are dropped when memory is wanted: they do not count. */
static size_t used_by(path *directory, const version *v) {
    const char *const keys[] = {v->files, v->shared};
    uint64_t bytes[2];
    size_t used = read_number(directory, v->usage), length = directory->length;
    if (used == NO_LIMIT) return 0;
    append(directory, "/memory.stat", strlen("/memory.stat"));
    fh_numbers_of(directory->text, keys, 2, bytes);
    cut(directory, length);
    size_t droppable = bytes[0] > bytes[1] ? bytes[0] - bytes[1] : 0;
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

/* A group of this process, and then one after another of those above it. */
typedef struct {
    int version;
    size_t root; /* length of the part of the path where all groups of that controller begin */
    path path;
} own;

/* The directory of the group of that name. */
static void enter(own *o, int version, const char *base, const char *controller, const char *group) {
    o->version = version;
    cut(&o->path, 0);
    append(&o->path, base, strlen(base));
    if (version == 1) {
        append(&o->path, "/", 1);
        append(&o->path, controller, strlen(controller));
    }
    o->root = o->path.length;
    append(&o->path, group, strlen(group));
}

/* Looks at a line of /proc/self/cgroup, "2:cpu,cpuacct:/a/b" or "0::/a/b". True: no other line can say more. */
static bool read_line(own *o, char *line, const char *base, const char *controller) {
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) return false;
    *group++ = 0;
    /* A machine with both versions has the controller in one of them, and then in the first. */
    if (has_word(controllers + 1, controller)) {
        enter(o, 1, base, controller, group);
        return true;
    }
    if (controllers[1] == 0) enter(o, 2, base, controller, group);
    return false;
}

static void end_without_slash(own *o) {
    while (o->path.length > o->root && o->path.text[o->path.length - 1] == '/') cut(&o->path, o->path.length - 1);
}

/* Not inlined: its buffer is gone when the group is read. */
__attribute__((noinline)) static bool find_own(own *o, const char *controller) {
    bool ready;
    char buffer[LONGEST_PATH + 128]; /* with the names of the controllers */
    fh_lines lines;
    /* A door for tests: a directory that stands for both /sys/fs/cgroup and, with the file self.cgroup, for /proc. */
    const char *fake = fh_system_environment("FREEHOLD_GROUP_ROOT", &ready);
    const char *base = fake ? fake : "/sys/fs/cgroup";
    o->version = 0;
    o->root = 0;
    cut(&o->path, 0);
    if (fake) append(&o->path, fake, strlen(fake));
    append(&o->path, fake ? "/self.cgroup" : "/proc/self/cgroup",
           fake ? strlen("/self.cgroup") : strlen("/proc/self/cgroup"));
    if (!fh_lines_open(&lines, o->path.text, buffer, sizeof buffer)) return false;
    for (char *line; (line = fh_lines_next(&lines)) && !read_line(o, line, base, controller);) {
    }
    fh_lines_close(&lines);
    end_without_slash(o);
    return o->version != 0;
}

/* From a group to the one above it. False: there is none. */
static bool go_up(own *o) {
    if (o->path.length == o->root) return false;
    while (o->path.length > o->root && o->path.text[o->path.length - 1] != '/') cut(&o->path, o->path.length - 1);
    end_without_slash(o);
    return true;
}

/* ── Answers ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

bool fh_system_group_memory(size_t *limit, size_t *used) {
    own o;
    if (!find_own(&o, "memory")) return false;
    const version *v = o.version == 2 ? &second : &first;
    size_t nearest = 0;
    *limit = NO_LIMIT;
    do {
        size_t most = read_number(&o.path, v->limits[0]), high = read_number(&o.path, v->limits[1]);
        if (high < most) most = high;
        if (most == NO_LIMIT || most < 1024) continue;
        size_t now = used_by(&o.path, v), thousandths = now / (most / 1024);
        if (*limit != NO_LIMIT && thousandths <= nearest) continue;
        nearest = thousandths;
        *limit = most;
        *used = now;
    } while (go_up(&o));
    return *limit != NO_LIMIT;
}

/* "some avg10=1.23 avg60=…": always with two digits behind the point. */
unsigned fh_system_group_stall(void) {
    own o;
    char text[128];
    if (!find_own(&o, "memory") || o.version != 2) return 0;
    if (!read_text(&o.path, "/memory.pressure", text, sizeof text)) return 0;
    const char *average = strstr(text, "some avg10=");
    if (!average) return 0;
    uint64_t whole = 0, hundredths = 0;
    const char *rest = fh_read_number(average + strlen("some avg10="), &whole);
    if (rest && *rest == '.') (void)fh_read_number(rest + 1, &hundredths);
    return (unsigned)(whole * 100 + hundredths);
}

/* Both in microseconds. Version 2 has them in one file, "max 100000" or "150000 100000"; in version 1 no quota is −1. */
static unsigned processors_of(path *directory, int version) {
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
    unsigned least = 0;
    do {
        unsigned here = processors_of(&o.path, o.version);
        if (here && (!least || here < least)) least = here;
    } while (go_up(&o));
    return least;
}
