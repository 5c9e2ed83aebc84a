/* The figures of observe/statistics.h in the forms in which they are asked for: a table for people, glibc's structures, XML. */
#include "base/settings.h"
#include "base/text.h"
#include "cache/perturb.h"
#include "observe/statistics.h"
#include "observe/json.h"
#include "observe/metrics.h"
#include "system/system.h"

#include "freehold/freehold.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>

/* ── The table ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Lines are collected and written together: one system call for some forty of them, and no other process's lines
 * between. */
typedef struct {
    int fd;
    fh_text text;
    char buffer[4096];
} page;

#define LONGEST_LINE 160

static void end_line(page *p) {
    fh_text_char(&p->text, '\n');
    if ((size_t)(p->text.end - p->text.at) >= LONGEST_LINE) return;
    fh_system_write(p->fd, p->text.begin, fh_text_length(&p->text));
    p->text = fh_text_in(p->buffer, sizeof p->buffer);
}

static void number_column(page *p, uint64_t n, size_t width) {
    size_t start = fh_text_length(&p->text);
    fh_text_number(&p->text, n);
    fh_text_align_right(&p->text, start, width);
}

static void size_column(page *p, uint64_t bytes, size_t width) {
    size_t start = fh_text_length(&p->text);
    fh_text_size(&p->text, bytes);
    fh_text_align_right(&p->text, start, width);
}

static void string_column(page *p, const char *s, size_t width) {
    size_t start = fh_text_length(&p->text);
    fh_text_string(&p->text, s);
    fh_text_align_right(&p->text, start, width);
}

static void print_header(page *p) {
    static const struct {
        const char *title;
        size_t width;
    } columns[] = {{"block of", 10}, {"slabs", 8}, {"live", 12},     {"cached", 9},
                   {"free", 10},     {"live", 11}, {"in slabs", 11}, {"used", 6}};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        string_column(p, columns[i].title, columns[i].width);
    }
    end_line(p);
}

static void print_row(page *p, const fh_profile_row *row, size_t live_bytes) {
    size_t slab_bytes = row->slots * FH_SLOT_SIZE;
    if (!row->size) {
        string_column(p, "> 1 MiB", 10);
    } else if (row->size > FH_SMALL_MAX) {
        size_column(p, row->size, 10);
    } else {
        /* In full: 1152 and 1280 bytes would both be "1.1 or 1.2 KiB". */
        number_column(p, row->size, 8);
        fh_text_string(&p->text, " B");
    }
    number_column(p, row->slabs, 8);
    number_column(p, row->live, 12);
    number_column(p, row->cached, 9);
    number_column(p, row->free, 10);
    size_column(p, live_bytes, 11);
    size_column(p, slab_bytes, 11);
    number_column(p, slab_bytes ? live_bytes * 100 / slab_bytes : 0, 5);
    fh_text_char(&p->text, '%');
    end_line(p);
}

static void print_classes(page *p, const fh_profile_statistics *f) {
    print_header(p);
    for (unsigned c = 1; c < FH_BINS; c++) {
        if (f->row[c].slabs) print_row(p, &f->row[c], f->row[c].live * f->row[c].size);
    }
    const fh_profile_row *large = &f->row[FH_FIGURES_LARGE];
    if (large->slabs) print_row(p, large, large->slots * FH_SLOT_SIZE);
}

/* "  live           12.3 MiB   in 4567 blocks" */
static void print_sum(page *p, const char *what, uint64_t bytes, const char *before, uint64_t n, const char *after) {
    size_t start = fh_text_length(&p->text);
    fh_text_string(&p->text, "  ");
    fh_text_string(&p->text, what);
    fh_text_pad(&p->text, start, 18);
    size_column(p, bytes, 11);
    fh_text_string(&p->text, before);
    if (after) {
        fh_text_number(&p->text, n);
        fh_text_string(&p->text, after);
    }
    end_line(p);
}

static void print_sums(page *p, const fh_profile_statistics *f) {
    fh_statistics_total t = fh_statistics_sum(f);
    print_sum(p, "live", f->live_bytes + f->huge_bytes + f->guarded_bytes, "   in ",
              f->live_blocks + f->huge_blocks + f->guarded_blocks, " blocks that the program holds");
    print_sum(p, "  of it huge", f->huge_bytes, "   in ", f->huge_blocks, " blocks above 2 MiB");
    if (f->guarded_blocks) {
        print_sum(p, "  of it guarded", f->guarded_bytes, "   in ", f->guarded_blocks,
                  " blocks that have pages to themselves");
    }
    print_sum(p, "cached", f->cached_bytes, "   in ", t.cached_blocks, " blocks that threads have cached");
    print_sum(p, "free in slabs", f->free_bytes, "   in ", t.free_blocks, " blocks");
    print_sum(p, "  of it purged", f->purged_in_slabs_bytes, "   whole pages, returned to the OS", 0, NULL);
    print_sum(p, "never handed out", f->fresh_bytes, "   the ends of slabs; memory is only where there was some before",
              0, NULL);
    print_sum(p, "dirty", f->dirty_bytes, "   free, still with memory behind it", 0, NULL);
    print_sum(p, "purged", f->purged_bytes, "   free, returned to the OS or never used", 0, NULL);
    print_sum(p, "own use", f->metadata_bytes, "   at most, for the words about all this and the caches of ",
              f->threads, " threads");
    print_sum(p, "resident", f->resident_bytes, "   the whole process, as the kernel counts it", 0, NULL);
}

int fh_stats_print(int fd) {
    if (fd < 0) {
        errno = EINVAL;
        return -1;
    }
    fh_profile_statistics *f = fh_statistics_borrow();
    if (!f) {
        errno = ENOMEM;
        return -1;
    }
    fh_statistics_collect(f);
    page p;
    p.fd = fd;
    p.text = fh_text_in(p.buffer, sizeof p.buffer);
    fh_text_string(&p.text, "freehold " FH_VERSION ": what the heap holds");
    end_line(&p);
    print_classes(&p, f);
    print_sums(&p, f);
    fh_statistics_return(f);
    fh_system_write(fd, p.text.begin, fh_text_length(&p.text));
    return 0;
}

void fh_malloc_stats(void) {
    fh_stats_print(2);
}

/* ── For programs ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Both forms: what is put, the figures taken for it, and the length. */
static size_t write_into(char *buffer, size_t size, void (*put)(fh_output *, const fh_profile_statistics *)) {
    fh_output out = fh_output_to_buffer(buffer, size);
    fh_profile_statistics *f = fh_statistics_borrow();
    if (!f) {
        errno = ENOMEM;
        return 0;
    }
    fh_statistics_collect(f);
    put(&out, f);
    fh_statistics_return(f);
    return out.length;
}

size_t fh_stats_json(char *buffer, size_t size) {
    return write_into(buffer, size, fh_json_put);
}

size_t fh_stats_metrics(char *buffer, size_t size) {
    return write_into(buffer, size, fh_metrics_put);
}

/* ── glibc's structures ──────────────────────────────────────────────────────────────────────────────────────────── */

/* Memory behind blocks of up to 2 MiB, used or free. */
static size_t arena_bytes(const fh_profile_statistics *f) {
    return f->live_bytes + f->guarded_bytes + f->cached_bytes + f->free_bytes + f->dirty_bytes;
}

struct fh_mallinfo2 fh_mallinfo2(void) {
    fh_profile_statistics *f = fh_statistics_borrow();
    if (!f) return (struct fh_mallinfo2){0}; /* the call has no way to say more */
    fh_statistics_collect(f);
    fh_statistics_total t = fh_statistics_sum(f);
    struct fh_mallinfo2 m = {
        .arena = arena_bytes(f),
        .ordblks = t.free_blocks + t.cached_blocks,
        .smblks = t.cached_blocks,
        .hblks = f->huge_blocks,
        .hblkhd = f->huge_bytes,
        .fsmblks = f->cached_bytes,
        .uordblks = f->live_bytes + f->guarded_bytes,
        .fordblks = f->free_bytes + f->dirty_bytes,
        .keepcost = f->dirty_bytes,
    };
    fh_statistics_return(f);
    return m;
}

static int as_int(size_t n) {
    return n > INT_MAX ? INT_MAX : (int)n;
}

struct fh_mallinfo fh_mallinfo(void) {
    struct fh_mallinfo2 m = fh_mallinfo2();
    return (struct fh_mallinfo){
        .arena = as_int(m.arena),
        .ordblks = as_int(m.ordblks),
        .smblks = as_int(m.smblks),
        .hblks = as_int(m.hblks),
        .hblkhd = as_int(m.hblkhd),
        .fsmblks = as_int(m.fsmblks),
        .uordblks = as_int(m.uordblks),
        .fordblks = as_int(m.fordblks),
        .keepcost = as_int(m.keepcost),
    };
}

/* ── XML ─────────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void print_total(FILE *stream, const char *type, uint64_t count, uint64_t size) {
    fprintf(stream, "<total type=\"%s\" count=\"%" PRIu64 "\" size=\"%" PRIu64 "\"/>\n", type, count, size);
}

/* The elements and attributes are those of glibc's version 1, so that a program that parses them goes on to work; what
 * glibc has one of for each arena, there is one of here. The figures are taken before the first byte is written, because
 * the stream may allocate. */
int fh_malloc_info(int options, FILE *stream) {
    if (options != 0 || !stream) return EINVAL;
    fh_profile_statistics *f = fh_statistics_borrow();
    if (!f) return ENOMEM;
    fh_statistics_collect(f);
    fh_statistics_total t = fh_statistics_sum(f);
    fprintf(stream, "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n");
    for (unsigned c = 1; c < FH_BINS; c++) {
        const fh_profile_row *row = &f->row[c];
        if (!row->slabs) continue;
        fprintf(stream, "  <size from=\"%" PRIu64 "\" to=\"%" PRIu64 "\" total=\"%" PRIu64 "\" count=\"%" PRIu64 "\"",
                f->row[c - 1].size + 1, row->size, row->free * row->size, row->free);
        fprintf(stream, " live=\"%" PRIu64 "\" cached=\"%" PRIu64 "\" slabs=\"%" PRIu64 "\"/>\n", row->live,
                row->cached, row->slabs);
    }
    fprintf(stream, "</sizes>\n</heap>\n");
    print_total(stream, "fast", t.cached_blocks, f->cached_bytes);
    print_total(stream, "rest", t.free_blocks, f->free_bytes + f->dirty_bytes);
    print_total(stream, "mmap", f->huge_blocks, f->huge_bytes);
    fprintf(stream, "<system type=\"current\" size=\"%zu\"/>\n", arena_bytes(f) + (size_t)f->metadata_bytes);
    fprintf(stream, "<aspace type=\"total\" size=\"%zu\"/>\n", (size_t)f->chunks * FH_CHUNK_SIZE);
    fprintf(stream, "</malloc>\n");
    fh_statistics_return(f);
    return 0;
}

/* ── mallopt ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The numbers of glibc's <malloc.h>, which musl does not have. */
enum {
    ARENA_MAX = -8,
    ARENA_TEST = -7,
    PERTURB = -6,
    CHECK_ACTION = -5,
    MMAP_MAX = -4,
    MMAP_THRESHOLD = -3,
    TOP_PAD = -2,
    TRIM_THRESHOLD = -1,
    MXFAST = 1,
    NLBLKS = 2,
    GRAIN = 3,
    KEEP = 4,
};

int fh_mallopt(int parameter, int value) {
    switch (parameter) {
    case PERTURB:
        fh_perturb_set((unsigned)value);
        return 1;
    case ARENA_MAX: /* there are no arenas */
    case ARENA_TEST:
    case CHECK_ACTION: /* no effect in glibc either since 2.26; see the option on_error */
    case MMAP_MAX:     /* blocks of any size are in the window */
    case MMAP_THRESHOLD:
    case TOP_PAD:        /* memory comes in chunks of 4 MiB */
    case TRIM_THRESHOLD: /* the budget follows the heap; see the option purge */
    case MXFAST:         /* caches follow their use */
    case NLBLKS:
    case GRAIN:
    case KEEP:
        return 1;
    default:
        return 0;
    }
}
