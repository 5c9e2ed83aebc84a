#include "observe/unwind/modules.h"

#include "base/bits.h"
#include "base/types.h"
#include "system/system.h"

#include <string.h>

#define CODE_RANGES 256u

/* Paths are kept one behind the other. Address space for 128 bytes a module; only what is used has memory. */
#define PATHS_BYTES (512 * FH_KIB)

/* Executable memory that is no file. Read without order: a range of which one end is old and the other new only decides
 * whether a frame pointer is tried, and that trusts nothing. */
typedef struct {
    fh_word begin, end;
} code_range;

/* One mapping, made when it is first needed. */
typedef struct {
    fh_word count;      /* modules; a new one is written, then counted */
    fh_word changes;    /* grows after each change that a reader of the list may want to know of */
    fh_word lost;       /* modules that there was no room for, each as often as it was met */
    fh_word ranges;     /* of code[] */
    fh_word busy;       /* the process whose thread is changing the table, 0: none. After a fork it is another number */
    fh_word own;        /* 1 + our own module */
    fh_word next_ns;    /* the list of mappings is not read again before, just because of an unknown address */
    fh_word indexes;    /* bytes of indexes */
    fh_word paths_used; /* of paths[]; the first byte is the empty path */
    code_range code[CODE_RANGES];
    _Alignas(8) char buffer[FH_MAPPINGS_BYTES];
    char path[FH_MAPPINGS_BYTES]; /* of the image that is being read */
    bool seen[FH_MODULES_MOST];
    fh_module module[FH_MODULES_MOST];
    char paths[PATHS_BYTES];
} table;

static fh_word table_address;

static table *get(void) {
    /* acquire: the zeroes of a new mapping that another thread made. */
    return (table *)(uintptr_t)fh_load_acquire(&table_address);
}

static table *make(void) {
    table *t = get();
    if (t) return t;
    size_t bytes = fh_round_up(sizeof *t, fh_system_page_size());
    t = fh_system_map(bytes, fh_system_page_size());
    uint64_t seen = 0;
    if (!t || fh_cas_acq_rel(&table_address, &seen, (uintptr_t)t)) return t;
    fh_system_unmap(t, bytes);
    return (table *)(uintptr_t)seen;
}

/* ── Asking ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static unsigned module_count(const table *t) {
    /* acquire: what was written about a module before it was counted. */
    return t ? (unsigned)fh_load_acquire(&t->count) : 0;
}

static bool has(const fh_module *m, uintptr_t address) {
    return address >= m->image.begin && address < m->image.end;
}

unsigned fh_module_find(uintptr_t address) {
    const table *t = get();
    for (unsigned i = module_count(t); i-- > 0;) {
        /* relaxed: its other fields are older than its number; the state alone changes. */
        if (has(&t->module[i], address) && fh_load(&t->module[i].state) == FH_MODULE_LIVE) return i;
    }
    for (unsigned i = 0; t && i < fh_load(&t->ranges); i++) {
        if (address >= fh_load(&t->code[i].begin) && address < fh_load(&t->code[i].end)) return FH_MODULE_CODE;
    }
    return FH_MODULE_NONE;
}

const fh_module *fh_module_at(unsigned number) {
    return &get()->module[number];
}

const char *fh_module_path(const fh_module *m) {
    return get()->paths + m->path;
}

unsigned fh_modules_count(void) {
    return module_count(get());
}

uint64_t fh_modules_changes(void) {
    const table *t = get();
    /* acquire: what has changed. */
    return t ? fh_load_acquire(&t->changes) : 0;
}

uint64_t fh_modules_lost(void) {
    const table *t = get();
    return t ? fh_load(&t->lost) : 0;
}

/* Two versions of a library may have all their addresses in common, but not their build-id. Peeked at, as another thread may
 * be unloading it if the address is a wrong one. */
static bool has_its_build_id(const fh_image *image) {
    uint8_t now[FH_BUILD_ID_MOST];
    return image->build_id_bytes == 0 ||
           (fh_system_peek(now, image->build_id_at, image->build_id_bytes) == image->build_id_bytes &&
            memcmp(now, image->build_id, image->build_id_bytes) == 0);
}

bool fh_module_stands(unsigned number, uintptr_t address) {
    const fh_module *m = fh_module_at(number);
    fh_loaded now;
    /* acquire: the number may come out of the table of rules, which orders nothing. */
    if (fh_load_acquire(&m->state) != FH_MODULE_LIVE) return false;
    if (m->stays || !m->loader_knows) return true;
    return fh_system_loaded(address, &now) == FH_LOADER_KNOWN && now.start == m->image.start &&
           now.frames_index == m->image.frames_index && has_its_build_id(&m->image);
}

fh_span fh_module_lasting(const fh_module *m, uintptr_t address) {
    /* acquire: pairs with the release behind the last span. */
    uint64_t spans = fh_load_acquire(&m->spans);
    for (unsigned i = 0; i < spans; i++) {
        if (address >= m->lasting[i].begin && address < m->lasting[i].end) return m->lasting[i];
    }
    return (fh_span){0, 0};
}

unsigned fh_module_own(void) {
    const table *t = get();
    return t ? (unsigned)(fh_load(&t->own) - 1) & FH_MODULE_NONE : FH_MODULE_NONE;
}

size_t fh_modules_memory(void) {
    const table *t = get();
    if (!t) return 0;
    return offsetof(table, module) + module_count(t) * sizeof t->module[0] + (size_t)fh_load(&t->paths_used) +
           (size_t)fh_load(&t->indexes);
}

/* ── Entering ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* release: the change before its number. */
static void tell(table *t) {
    fh_store_release(&t->changes, fh_load(&t->changes) + 1);
}

static void set_state(table *t, fh_module *m, uint64_t state) {
    if (fh_load(&m->state) == state) return;
    fh_store(&m->gone_ns, state == FH_MODULE_GONE ? fh_system_nanoseconds() : 0);
    /* release: a module that was gone is LIVE again with all that was written about it. */
    fh_store_release(&m->state, state);
    tell(t);
}

/* Keeps the path of the image that is being read; returns its place, that of the empty path if there is no room. */
static uint32_t keep_path(table *t) {
    size_t bytes = strlen(t->path) + 1, used = (size_t)fh_load(&t->paths_used), at = used ? used : 1;
    if (bytes > PATHS_BYTES - at) return 0;
    memcpy(t->paths + at, t->path, bytes);
    fh_store(&t->paths_used, at + bytes);
    return (uint32_t)at;
}

static bool same_image(const fh_image *a, const fh_image *b) {
    return a->start == b->start && a->begin == b->begin && a->end == b->end && a->frames_index == b->frames_index &&
           a->build_id_bytes == b->build_id_bytes && memcmp(a->build_id, b->build_id, a->build_id_bytes) == 0;
}

/* Code of ours, and of the C library that we are linked with. */
static bool is_code_of_ours(const fh_image *image) {
    uintptr_t code = (uintptr_t)&fh_module_find;
    return code >= image->begin && code < image->end;
}

static bool cannot_go(const fh_image *image) {
    uintptr_t libc = (uintptr_t)&memcpy;
    return is_code_of_ours(image) || (libc >= image->begin && libc < image->end) ||
           fh_system_is_program(image->begin, image->end);
}

/* Unwind information without the linker's table gets one of ours. */
static void index_frames(table *t, fh_module *m) {
    uintptr_t begin, end;
    if (m->image.frames_index || !fh_system_frames(t->path, &m->image, &begin, &end)) return;
    fh_unwind_index *index = fh_unwind_index_make(m->image.start, begin, end);
    if (!index) return;
    fh_add_relaxed(&t->indexes, index->bytes);
    /* release: the index's contents before its address. */
    fh_store_release(&m->index, (uintptr_t)index);
}

/* What was where this image is now, must be gone. */
static void displace(table *t, const fh_image *image) {
    for (unsigned i = 0; i < module_count(t); i++) {
        const fh_image *other = &t->module[i].image;
        bool apart = other->end <= image->begin || image->end <= other->begin;
        if (!apart && !same_image(other, image)) set_state(t, &t->module[i], FH_MODULE_GONE);
    }
}

/* A module that is not in the table; its path is in t->path. */
static unsigned add(table *t, const fh_image *image) {
    fh_loaded loaded;
    unsigned count = module_count(t);
    if (count == FH_MODULES_MOST) {
        fh_store(&t->lost, fh_load(&t->lost) + 1);
        tell(t);
        return FH_MODULE_NONE;
    }
    fh_module *m = &t->module[count];
    m->image = *image;
    m->in_program = fh_system_is_program(image->begin, image->end);
    m->loader_knows = fh_system_loaded(image->begin, &loaded) == FH_LOADER_KNOWN && loaded.start == image->start &&
                      loaded.frames_index == image->frames_index;
    m->stays = cannot_go(image) || (m->loader_knows && fh_system_loaded_for_good(&loaded));
    m->path = keep_path(t);
    index_frames(t, m);
    /* release: all of the above, for those who have its number from elsewhere than the count. */
    fh_store_release(&m->state, FH_MODULE_LIVE);
    if (is_code_of_ours(image) && !m->in_program) fh_store(&t->own, count + 1);
    /* release: all of the above. */
    fh_store_release(&t->count, count + 1);
    tell(t);
    return count;
}

static unsigned enter(table *t, const fh_image *image) {
    displace(t, image);
    for (unsigned i = module_count(t); i-- > 0;) {
        if (!same_image(&t->module[i].image, image)) continue;
        set_state(t, &t->module[i], FH_MODULE_LIVE);
        return i;
    }
    return add(t, image);
}

/* ── The list of mappings ────────────────────────────────────────────────────────────────────────────────────────── */

/* The image whose mappings are being read: it counts when one of its executable parts comes by, as a file with code may also
 * be mapped as mere data. Before an executable mapping comes, it is not read. */
typedef struct {
    fh_image image;
    uintptr_t start;
    fh_span mapped[FH_MODULE_SPANS]; /* from its file, and readable */
    unsigned spans;
    unsigned number; /* of its module, once it has one */
    unsigned ranges;
    bool was_read;
} reading;

/* The module that begins there, if it can be told without reading the image again. */
static unsigned known_at(const table *t, uintptr_t start) {
    for (unsigned i = module_count(t); i-- > 0;) {
        const fh_module *m = &t->module[i];
        if (m->image.start != start || fh_load(&m->state) != FH_MODULE_LIVE) continue;
        return (m->stays || m->loader_knows) && fh_module_stands(i, m->image.begin) ? i : FH_MODULE_NONE;
    }
    return FH_MODULE_NONE;
}

static bool is_part(const reading *r, const fh_mapping *line) {
    return r->image.end > r->image.begin && line->begin >= (r->image.begin & ~UINT64_C(0xFFF)) &&
           line->begin < r->image.end;
}

/* True if the executable mapping is a part of the image, which is then in the table. */
static bool read_code(table *t, reading *r, const fh_mapping *line) {
    if (!r->start) return false;
    unsigned known = r->was_read ? FH_MODULE_NONE : known_at(t, r->start);
    if (known != FH_MODULE_NONE) r->image = t->module[known].image;
    if (known == FH_MODULE_NONE && !r->was_read) (void)fh_system_image(r->start, &r->image);
    r->was_read = true;
    if (!is_part(r, line)) return false;
    if (r->number != FH_MODULE_NONE) return true;
    r->number = known != FH_MODULE_NONE ? known : enter(t, &r->image);
    if (r->number != FH_MODULE_NONE) t->seen[r->number] = true;
    return true;
}

/* A readable part of the image's file. */
static void read_span(const table *t, reading *r, const fh_mapping *line) {
    size_t length = strlen(t->path);
    if (!r->start || strlen(line->path) != length || memcmp(line->path, t->path, length) != 0) return;
    fh_span *last = r->spans ? &r->mapped[r->spans - 1] : NULL;
    if (last && last->end == line->begin) {
        last->end = line->end;
    } else if (r->spans < FH_MODULE_SPANS) {
        r->mapped[r->spans++] = (fh_span){line->begin, line->end};
    }
}

/* All mappings of the image have come by: those of a module that stays can be read as memory from now on. */
static void end_image(table *t, const reading *r) {
    fh_module *m = r->number == FH_MODULE_NONE ? NULL : &t->module[r->number];
    if (!m || !m->stays || fh_load(&m->spans) > 0) return;
    unsigned spans = 0;
    for (; spans < r->spans && r->mapped[spans].begin < m->image.limit; spans++) {
        m->lasting[spans] = r->mapped[spans];
        /* What begins behind it may be something else of the same file. */
        if (m->lasting[spans].end > m->image.limit) m->lasting[spans].end = m->image.limit;
    }
    /* release: the spans before their number. */
    fh_store_release(&m->spans, spans);
}

static void read_line(table *t, reading *r, const fh_mapping *line) {
    if (line->readable && line->offset == 0 && line->path[0]) {
        end_image(t, r);
        *r = (reading){.start = line->begin, .number = FH_MODULE_NONE, .ranges = r->ranges};
        /* The path is in the list's buffer, which moves on. */
        memcpy(t->path, line->path, strlen(line->path) + 1);
    }
    if (line->readable) read_span(t, r, line);
    if (!line->executable || read_code(t, r, line) || !line->readable || r->ranges == CODE_RANGES) return;
    fh_store(&t->code[r->ranges].begin, line->begin);
    fh_store(&t->code[r->ranges].end, line->end);
    r->ranges++;
}

static void read_mappings(table *t) {
    fh_mapping line;
    reading r = {.number = FH_MODULE_NONE};
    fh_mappings *list = fh_system_mappings_open(t->buffer, sizeof t->buffer);
    if (!list) return;
    uint64_t begun = fh_system_nanoseconds();
    memset(t->seen, 0, sizeof t->seen);
    while (fh_system_mappings_next(list, &line)) read_line(t, &r, &line);
    end_image(t, &r);
    bool complete = fh_system_mappings_close(list);
    fh_store(&t->ranges, r.ranges);
    for (unsigned i = 0; complete && i < module_count(t); i++) {
        if (!t->seen[i]) set_state(t, &t->module[i], FH_MODULE_GONE);
    }
    uint64_t now = fh_system_nanoseconds();
    fh_store(&t->next_ns, now + 100 * (now - begun));
}

/* True if the table is the caller's to change. A signal handler that comes in between, and another thread, do without. In
 * the child of a fork whose parent had it, it is free: no process but this one has this number. */
static bool take(table *t) {
    uint64_t me = fh_system_pid(), seen = fh_load(&t->busy);
    /* acq_rel: what the one before changed. */
    return seen != me && fh_cas_acq_rel(&t->busy, &seen, me);
}

static void leave(table *t) {
    fh_store_release(&t->busy, 0);
}

void fh_modules_refresh(void) {
    table *t = make();
    if (!t || !take(t)) return;
    read_mappings(t);
    leave(t);
}

/* The loader's answer spares the list: new addresses usually are in one image that was just loaded. */
static bool ask_loader(table *t, uintptr_t address) {
    fh_loaded loaded;
    fh_image image;
    if (fh_system_loaded(address, &loaded) != FH_LOADER_KNOWN || !fh_system_image(loaded.start, &image)) return false;
    if (address < image.begin || address >= image.end || !fh_system_loaded_path(&loaded, t->path, sizeof t->path)) {
        return false;
    }
    return enter(t, &image) != FH_MODULE_NONE;
}

/* The list of mappings is read while it changes, so that a part of a file may seem to be code without one. */
static bool is_certain(unsigned number, uintptr_t address) {
    fh_loaded loaded;
    if (number == FH_MODULE_CODE) return fh_system_loaded(address, &loaded) != FH_LOADER_KNOWN;
    return number != FH_MODULE_NONE && fh_module_stands(number, address);
}

unsigned fh_module_learn(uintptr_t address) {
    unsigned number = fh_module_find(address);
    if (is_certain(number, address)) return number;
    table *t = make();
    if (!t || !take(t)) return FH_MODULE_NONE;
    if (number < FH_MODULES_MOST) set_state(t, &t->module[number], FH_MODULE_GONE);
    /* relaxed: only who has the table writes it. */
    if (!ask_loader(t, address) && fh_system_nanoseconds() >= fh_load(&t->next_ns)) read_mappings(t);
    leave(t);
    number = fh_module_find(address);
    return is_certain(number, address) ? number : FH_MODULE_NONE;
}
