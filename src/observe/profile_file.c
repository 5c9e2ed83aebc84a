#include "observe/profile_file.h"

#include "base/assert.h"
#include "base/bits.h"
#include "base/settings.h"
#include "base/text.h"
#include "base/types.h"
#include "system/inspect.h"
#include "system/report.h"
#include "system/system.h"

#include "freehold/freehold.h"

#include <string.h>

/* What extent 0 of each section holds, and whether there may be more extents. Powers of two; together some 200 KiB, which
 * is what a program that hardly allocates pays. */
static const struct {
    uint32_t first;
    bool grows;
} shape[FH_PROFILE_SECTIONS] = {
    [FH_PROFILE_STATISTICS] = {1, false}, [FH_PROFILE_TIMELINE] = {1024, false}, [FH_PROFILE_MODULES] = {32, true},
    [FH_PROFILE_NODES] = {1024, true},    [FH_PROFILE_SITES] = {128, true},      [FH_PROFILE_SAMPLES] = {256, true},
    [FH_PROFILE_HEAPS] = {16, true},
};

static const uint32_t entry_bytes[FH_PROFILE_SECTIONS] = {
#define SECTION(kind, entry) [kind] = sizeof(entry),
#include "observe/contract.def"
};

/* The file never takes more than this: a program of which every block is sampled would else fill the machine. */
#define MOST_BYTES FH_GIB

/* Files that `freehold run` offers at most, and no descriptor has a higher number. */
#define OFFERED_MOST 64u
#define OFFERED_LAST (UINT64_C(1) << 30)

enum { NONE = 0, MAKING, LIVE, LEAVING, FAILED };

fh_word fh_profile_life; /* see profile_file.h */
static fh_word alive;    /* address of the word that is 1 in the process that made it, and wiped in its children */
static fh_word unwiped;  /* stands in for it where the kernel does not wipe: fh_profile_forked sets it to 0 */
static bool inherited;   /* forked from an observed program. Written while LEAVING */
static bool keep_file;   /* option page=DIR */
static fh_shared_file file;
static fh_word extents[FH_PROFILE_SECTIONS][FH_PROFILE_EXTENTS]; /* addresses; written once, by compare-and-swap */
static uint64_t first_bytes;                                     /* length of the first mapping */
static fh_word header_address;

/* ── Fork ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

static fh_word *alive_word(void) {
    fh_word *w = (fh_word *)(uintptr_t)fh_load(&alive);
    return w ? w : &unwiped;
}

/* Bytes of an extent that has a mapping of its own. */
static size_t extent_bytes(fh_profile_section_kind kind, unsigned k) {
    return fh_round_up(((size_t)entry_bytes[kind] * shape[kind].first) << k, fh_system_page_size());
}

static void unmap_extents(void) {
    for (unsigned kind = 0; kind < FH_PROFILE_SECTIONS; kind++) {
        for (unsigned k = 0; k < FH_PROFILE_EXTENTS; k++) {
            void *p = (void *)(uintptr_t)fh_load(&extents[kind][k]);
            /* First forgotten: a fork that comes between must not unmap it a second time. */
            fh_store(&extents[kind][k], 0);
            if (p && k > 0) fh_system_unmap(p, extent_bytes(kind, k));
        }
    }
}

bool fh_profile_is_parents(void) {
    return fh_load_acquire(&fh_profile_life) == LIVE && !fh_load(alive_word());
}

/* Unmapping does nothing to the parent or to the file. */
bool fh_profile_leave(void) {
    uint64_t seen = LIVE;
    if (!fh_cas_acq_rel(&fh_profile_life, &seen, LEAVING)) return false;
    if (fh_load(alive_word())) {
        /* Another thread has let go in the meantime, and made a file of our own. */
        fh_store_release(&fh_profile_life, LIVE);
        return false;
    }
    unmap_extents();
    void *header = (void *)(uintptr_t)fh_load(&header_address);
    fh_store(&header_address, 0);
    if (header) fh_system_unmap(header, first_bytes);
    fh_shared_forget(&file);
    inherited = true;
    fh_store(alive_word(), 1);
    return true;
}

void fh_profile_left(void) {
    /* release: all that was cleared, before another thread makes a file. */
    fh_store_release(&fh_profile_life, NONE);
}

void fh_profile_forked(void) {
    fh_store(alive_word(), 0);
    /* The thread that was letting go does not exist here: this process does it again from the beginning. */
    uint64_t seen = LEAVING;
    if (fh_cas_acq_rel(&fh_profile_life, &seen, LIVE)) return;
    /* The thread that was making it does not exist here either. What it had mapped so far stays mapped. */
    seen = MAKING;
    if (fh_cas_acq_rel(&fh_profile_life, &seen, NONE)) {
        fh_store(&header_address, 0);
        file.descriptor = -1;
        inherited = true;
    }
}

bool fh_profile_is_childs(void) {
    return fh_load_acquire(&fh_profile_life) == NONE && inherited;
}

bool fh_profile_failed(void) {
    return fh_load(&fh_profile_life) == FAILED;
}

fh_profile_header *fh_profile(void) {
    /* acquire: pairs with the release in fh_profile_begin, which comes after the file is filled in. */
    if (fh_load_acquire(&fh_profile_life) != LIVE || FH_UNLIKELY(!fh_load(alive_word()))) return NULL;
    return (fh_profile_header *)(uintptr_t)fh_load(&header_address);
}

/* ── Making ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The file offset of extent 0 of each section; returns the length of it all, in whole pages. */
static uint64_t lay_out(uint64_t offset_of[FH_PROFILE_SECTIONS]) {
    uint64_t at = FH_PROFILE_BODY_OFFSET;
    for (unsigned kind = 0; kind < FH_PROFILE_SECTIONS; kind++) {
        at = fh_round_up(at, FH_CACHE_LINE);
        offset_of[kind] = at;
        at += (uint64_t)entry_bytes[kind] * shape[kind].first;
    }
    return fh_round_up(at, fh_system_page_size());
}

static void copy_text(char *to, size_t size, const char *from) {
    size_t length = from ? strlen(from) : 0;
    if (length >= size) length = size - 1;
    if (length) memcpy(to, from, length);
    to[length] = 0;
}

/* What never changes again. */
static void check_header(fh_profile_header *profile) {
    const size_t begin = offsetof(fh_profile_header, page_size), end = offsetof(fh_profile_header, section);
    _Static_assert(offsetof(fh_profile_header, section) % 8 == 0, "whole words");
    uint64_t h = fh_profile_check(0, &profile->pid, 5 * sizeof(uint64_t));
    h = fh_profile_check(h, &profile->inherited, sizeof profile->inherited);
    profile->check = fh_profile_checked(fh_profile_check(h, (const char *)profile + begin, end - begin));
}

/* Where the first extents are, which never move. */
static uint64_t sections_check(const fh_profile_header *profile) {
    uint64_t h = 0;
    for (unsigned kind = 0; kind < FH_PROFILE_SECTIONS; kind++) {
        const fh_profile_section *s = &profile->section[kind];
        const uint64_t words[2] = {s->entry_bytes | (uint64_t)s->first << 32, s->extent[0]};
        h = fh_profile_check(h, words, sizeof words);
    }
    return fh_profile_checked(h);
}

static void fill_in(fh_profile_header *profile, const fh_process *self, const uint64_t *offset_of) {
    bool ready;
    profile->layout = FH_PROFILE_LAYOUT;
    profile->header_bytes = sizeof *profile;
    profile->pid = self->pid;
    profile->parent_pid = self->parent_pid;
    profile->process_start = self->start;
    profile->begun_unix_ns = self->unix_ns;
    profile->begun_ns = fh_system_nanoseconds();
    profile->inherited = inherited;
    profile->metadata_bytes = profile->metadata_again = profile->file_bytes = first_bytes;
    profile->page_size = (uint32_t)fh_system_page_size();
    profile->cpus = fh_system_processors();
    copy_text(profile->version, sizeof profile->version, FH_VERSION);
    fh_system_program(profile->program, sizeof profile->program);
    size_t path = strlen(profile->program) + 1;
    if (path < sizeof profile->program) fh_system_command(profile->program + path, sizeof profile->program - path);
    copy_text(profile->options, sizeof profile->options, fh_system_environment("FREEHOLD", &ready));
    check_header(profile);
    for (unsigned kind = 0; kind < FH_PROFILE_SECTIONS; kind++) {
        fh_profile_section *s = &profile->section[kind];
        s->entry_bytes = entry_bytes[kind];
        s->first = shape[kind].first;
        s->extent[0] = offset_of[kind];
        fh_store(&extents[kind][0], (uintptr_t)profile + offset_of[kind]);
    }
    profile->sections_check = sections_check(profile);
    /* Entry 0 is not a stack, a site or a heap; the root is all zero, which is what it should be. */
    profile->section[FH_PROFILE_NODES].used = profile->section[FH_PROFILE_SITES].used = 1;
    profile->section[FH_PROFILE_HEAPS].used = 1;
    fh_profile_controls(profile)->wanted_interval = FH_PROFILE_INTERVAL_AS_STARTED;
    profile->magic = FH_PROFILE_MAGIC;
}

/* Whose an offered file is, is decided by its header's pid: of the processes that find 0 there one puts itself in. */
static bool claim(fh_profile_header *profile, const fh_process *self) {
    uint64_t none = 0;
    return fh_cas_acq_rel(fh_profile_word(&profile->pid), &none, self->pid);
}

/* Takes one of the files that `freehold run` holds where no directory has room for them: path is /proc/PID/fd/NUMBER, and
 * the next ones have the numbers that follow. NULL: the path is nothing of the kind, or all are taken. */
static void *take_offered(const char *path, const fh_process *self) {
    const char *digits = strrchr(path, '/');
    uint64_t number = 0;
    if (!digits || strncmp(path, "/proc/", 6) != 0) return NULL;
    for (const char *c = digits + 1; *c >= '0' && *c <= '9' && number < OFFERED_LAST; c++)
        number = number * 10 + (uint64_t)(*c - '0');
    for (unsigned i = 0; i < OFFERED_MOST; i++, number++) {
        char name[64];
        int error;
        fh_text t = fh_text_in(name, sizeof name - 1);
        for (const char *c = path; c <= digits; c++) fh_text_char(&t, *c);
        fh_text_number(&t, number);
        *t.at = 0;
        if (fh_shared_open_nameless(&file, name, FH_PROFILE_MEMFD) != 0) return NULL;
        fh_profile_header *p = fh_shared_extend(&file, 0, first_bytes, &error);
        if (p && claim(p, self)) return p;
        /* This process had it before it called exec. */
        bool ours = p && p->pid == self->pid && p->process_start == self->start;
        if (ours) fh_shared_empty(&file);
        if (p) fh_system_unmap(p, first_bytes);
        p = ours ? fh_shared_extend(&file, 0, first_bytes, &error) : NULL;
        if (p && claim(p, self)) return p;
        fh_shared_forget(&file);
    }
    return NULL;
}

/* The mapped first part of the file, in the wanted directory or without a name; NULL after a message. */
static void *make_file(const fh_process *self) {
    char name[64];
    fh_text t = fh_text_in(name, sizeof name - 1);
    fh_text_string(&t, FH_PROFILE_PREFIX);
    fh_text_number(&t, self->pid);
    *t.at = 0;
    const char *wanted = fh_setting_path_get(&fh_settings.page);
    keep_file = wanted != NULL;
    const char *directory = wanted ? wanted : FH_PROFILE_DIRECTORY;
    int error = fh_shared_create(&file, directory, name);
    void *p = error ? NULL : fh_shared_extend(&file, 0, first_bytes, &error);
    if (!p && wanted && error) p = take_offered(wanted, self);
    if (p) return p;
    if (file.path[0]) fh_shared_remove(&file);
    if (file.path[0] && file.descriptor > 0) fh_shared_forget(&file);
    if (keep_file || FH_SETTING(verbose)) {
        FH_REPORT_LINE("the profile file cannot be made in ", directory, ": ", fh_system_error(error),
                       "; it is in memory, until the program ends");
    }
    error = fh_shared_create_nameless(&file, FH_PROFILE_MEMFD);
    p = error ? NULL : fh_shared_extend(&file, 0, first_bytes, &error);
    if (!p) {
        FH_REPORT_LINE("the program is not observed: no profile file in ", directory, ": ", fh_system_error(error),
                       ", and none in memory; see page=DIR");
    }
    return p;
}

static fh_profile_header *make(void) {
    uint64_t offset_of[FH_PROFILE_SECTIONS];
    first_bytes = lay_out(offset_of);
    if (!fh_load(&alive)) {
        fh_store(&alive, (uintptr_t)fh_system_map_wiped_on_fork(sizeof(fh_word)));
    }
    fh_store(alive_word(), 1);
    fh_process self = fh_system_process();
    file.descriptor = -1;
    fh_profile_header *profile = make_file(&self);
    if (profile) fill_in(profile, &self, offset_of);
    return profile;
}

fh_profile_header *fh_profile_begin(void) {
    fh_profile_header *profile = fh_profile();
    uint64_t seen = NONE;
    /* One thread makes it. acq_rel: it sees what was cleared before fh_profile_left. */
    if (profile || !fh_cas_acq_rel(&fh_profile_life, &seen, MAKING)) return profile;
    profile = make();
    if (profile) {
        fh_store(&header_address, (uintptr_t)profile);
        fh_store_release(fh_profile_word(&profile->state), FH_PROFILE_STATE_LIVE);
    }
    fh_store_release(&fh_profile_life, profile ? LIVE : FAILED);
    return profile;
}

void fh_profile_end(void) {
    fh_profile_header *profile = fh_profile();
    if (!profile) return;
    profile->ended_check = fh_profile_checked(fh_profile_check(0, &profile->pid, sizeof profile->pid));
    /* release: the last statistics before the word that says so. */
    fh_store_release(fh_profile_word(&profile->state), FH_PROFILE_STATE_ENDED);
    if (!keep_file) fh_shared_remove(&file);
}

/* ── Extents and entries ─────────────────────────────────────────────────────────────────────────────────────────── */

void *fh_profile_extent(fh_profile_section_kind kind, unsigned k, uint64_t *entries) {
    *entries = (uint64_t)shape[kind].first << k;
    /* acquire: zeroes of the extent before its address. */
    return k < FH_PROFILE_EXTENTS ? (void *)(uintptr_t)fh_load_acquire(&extents[kind][k]) : NULL;
}

void *fh_profile_entry(fh_profile_section_kind kind, uint64_t number) {
    uint64_t first = shape[kind].first, entries;
    unsigned k = fh_highest_bit(number / first + 1);
    char *extent = fh_profile_extent(kind, k, &entries);
    FH_ASSERT(number >= entries - first && number - (entries - first) < entries);
    return extent ? extent + (number - (entries - first)) * entry_bytes[kind] : NULL;
}

/* Once there was no room, only every 64th turn asks again, because each asking is two or three system calls.
 * Relaxed: one thread more or less that asks does no harm. */
static fh_word refusals, turns;

static bool take_turn(void) {
    return !fh_load(&refusals) || fh_add_relaxed(&turns, 1) % 64 == 0;
}

/* Makes extent k, which was seen to be missing. True if it is there afterwards, also if another thread made it. */
static bool make_extent(fh_profile_header *profile, fh_profile_section_kind kind, unsigned k) {
    size_t bytes = extent_bytes(kind, k);
    FH_ASSERT(bytes != 0 && k < FH_PROFILE_EXTENTS);
    fh_word *length = fh_profile_word(&profile->file_bytes);
    int error;
    if (fh_load(length) + bytes > MOST_BYTES || !take_turn()) return false;
    /* Each thread that comes here has a range of its own, so that two of them do not disturb each other. */
    uint64_t offset = fh_add_relaxed(length, bytes), end = offset + bytes;
    void *p = fh_shared_extend(&file, offset, bytes, &error);
    if (!p) {
        /* Nothing is there: the range is returned, if no thread has taken one behind it. */
        fh_cas_relaxed(length, &end, offset);
        fh_store(&refusals, fh_load(&refusals) + 1);
        return false;
    }
    fh_store(&refusals, 0);
    uint64_t none = 0;
    /* The offset first, for readers, who find zeroes. The thread that loses returns its range: a hole stays in the
     * file. */
    fh_profile_section *s = &profile->section[kind];
    if (!fh_cas_acq_rel(&extents[kind][k], &none, (uintptr_t)p)) {
        fh_shared_shrink(&file, offset, p, bytes);
        return true;
    }
    fh_add_relaxed(fh_profile_word(&profile->metadata_bytes), bytes);
    fh_add_relaxed(fh_profile_word(&profile->metadata_again), bytes);
    fh_store_release(fh_profile_word(&s->extent[k]), offset);
    return true;
}

bool fh_profile_grow(fh_profile_section_kind kind) {
    fh_profile_header *profile = fh_profile();
    uint64_t entries;
    if (!profile || !shape[kind].grows) return false;
    for (unsigned k = 0; k < FH_PROFILE_EXTENTS; k++) {
        if (!fh_profile_extent(kind, k, &entries)) return make_extent(profile, kind, k);
    }
    return false;
}

void fh_profile_drop(fh_profile_section_kind kind) {
    fh_profile_header *profile = fh_profile();
    if (profile) fh_add_relaxed(fh_profile_word(&profile->section[kind].dropped), 1);
}

uint64_t fh_profile_add(fh_profile_section_kind kind) {
    fh_profile_header *profile = fh_profile();
    if (!profile) return FH_PROFILE_NO_ENTRY;
    fh_word *used = fh_profile_word(&profile->section[kind].used);
    uint64_t number = fh_load(used);
    for (;;) {
        /* The room first, the number second: a number that was handed out has its entry. */
        if (!fh_profile_entry(kind, number) && !fh_profile_grow(kind)) {
            fh_profile_drop(kind);
            return FH_PROFILE_NO_ENTRY;
        }
        if (fh_cas_relaxed(used, &number, number + 1)) return number;
    }
}
