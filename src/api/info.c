/* The figures of see/stats.h in the forms in which they are asked for: a table for people, glibc's structures, XML. */
#include "base/settings.h"
#include "base/text.h"
#include "see/stats.h"
#include "store/purge.h"
#include "system/system.h"

#include "freehold/freehold.h"

#include <errno.h>
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

static void print_row(page *p, const fh_stats_row *row, size_t live_bytes) {
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

static void print_classes(page *p, const fh_stats *s) {
    print_header(p);
    for (unsigned c = 1; c < FH_BINS; c++) {
        if (s->row[c].slabs) print_row(p, &s->row[c], s->row[c].live * s->row[c].size);
    }
    const fh_stats_row *large = &s->row[FH_STATS_LARGE];
    if (large->slabs) print_row(p, large, s->large_bytes);
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

static void print_sums(page *p, const fh_stats *s) {
    fh_stats_total t = fh_stats_sum(s);
    print_sum(p, "live", t.live_bytes + s->huge_bytes, "   in ", t.live_blocks + s->huge_count,
              " blocks that the program holds");
    print_sum(p, "  of it huge", s->huge_bytes, "   in ", s->huge_count, " blocks with a mapping of their own");
    print_sum(p, "cached", t.cached_bytes, "   in ", t.cached_blocks, " blocks at hand for threads");
    print_sum(p, "free in slabs", t.free_bytes, "   in ", t.free_blocks, " blocks");
    print_sum(p, "never touched", t.fresh_bytes, "   at the ends of slabs", 0, NULL);
    print_sum(p, "dirty", s->dirty_bytes, "   free, still with memory behind it", 0, NULL);
    print_sum(p, "purged", s->purged_bytes, "   free, given back to the system", 0, NULL);
    print_sum(p, "huge, kept", s->huge_cached_bytes, "   freed mappings kept for the next request", 0, NULL);
    print_sum(p, "own use", s->metadata_bytes, "   at most, for the words about all this and the caches of ",
              s->threads, " threads");
    print_sum(p, "resident", fh_system_resident_bytes(), "   the whole process, as the system sees it", 0, NULL);
}

int fh_stats_print(int fd) {
    if (fd < 0) {
        errno = EINVAL;
        return -1;
    }
    fh_stats s;
    fh_stats_collect(&s);
    page p;
    p.fd = fd;
    p.text = fh_text_in(p.buffer, sizeof p.buffer);
    fh_text_string(&p.text, "freehold " FH_VERSION ": what the heap holds");
    end_line(&p);
    print_classes(&p, &s);
    print_sums(&p, &s);
    fh_system_write(fd, p.text.begin, fh_text_length(&p.text));
    return 0;
}

void fh_malloc_stats(void) {
    fh_stats_print(2);
}

/* ── glibc's structures ──────────────────────────────────────────────────────────────────────────────────────────── */

struct fh_mallinfo2 fh_mallinfo2(void) {
    fh_stats s;
    fh_stats_collect(&s);
    fh_stats_total t = fh_stats_sum(&s);
    return (struct fh_mallinfo2){
        .arena = t.live_bytes + t.cached_bytes + t.free_bytes + s.dirty_bytes,
        .ordblks = t.free_blocks + t.cached_blocks,
        .smblks = t.cached_blocks,
        .hblks = s.huge_count,
        .hblkhd = s.huge_bytes,
        .fsmblks = t.cached_bytes,
        .uordblks = t.live_bytes,
        .fordblks = t.free_bytes + s.dirty_bytes,
        .keepcost = s.dirty_bytes + s.huge_cached_bytes,
    };
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

/* The elements and attributes are those of glibc's version 1, so that a program that parses them goes on to work; what
 * glibc has one of for each arena, there is one of here. The figures are taken before the first byte is written, because
 * the stream may allocate. */
int fh_malloc_info(int options, FILE *stream) {
    if (options != 0 || !stream) return EINVAL;
    fh_stats s;
    fh_stats_collect(&s);
    fh_stats_total t = fh_stats_sum(&s);
    fprintf(stream, "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n");
    for (unsigned c = 1; c < FH_BINS; c++) {
        const fh_stats_row *row = &s.row[c];
        if (!row->slabs) continue;
        fprintf(stream, "  <size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"", s.row[c - 1].size + 1, row->size,
                row->free * row->size, row->free);
        fprintf(stream, " live=\"%zu\" cached=\"%zu\" slabs=\"%zu\"/>\n", row->live, row->cached, row->slabs);
    }
    fprintf(stream, "</sizes>\n</heap>\n");
    fprintf(stream, "<total type=\"fast\" count=\"%zu\" size=\"%zu\"/>\n", t.cached_blocks, t.cached_bytes);
    fprintf(stream, "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n", t.free_blocks, t.free_bytes + s.dirty_bytes);
    fprintf(stream, "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n", s.huge_count, s.huge_bytes);
    fprintf(stream, "<system type=\"current\" size=\"%zu\"/>\n",
            t.live_bytes + t.cached_bytes + t.free_bytes + s.dirty_bytes + s.metadata_bytes);
    fprintf(stream, "<aspace type=\"total\" size=\"%zu\"/>\n", s.chunks * FH_CHUNK_SIZE);
    fprintf(stream, "</malloc>\n");
    return 0;
}

/* ── mallopt ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The numbers of glibc's <malloc.h>, which musl does not have. */
enum {
    ARENA_MAX = -8,
    ARENA_TEST = -7,
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
    (void)value;
    switch (parameter) {
    case ARENA_MAX: /* there are no arenas */
    case ARENA_TEST:
    case CHECK_ACTION: /* no effect in glibc either since 2.26; see the option on_error */
    case MMAP_MAX:     /* huge blocks cost the same, mapped or not */
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
