// SPDX-License-Identifier: MIT OR Apache-2.0
// Frames of the film. Nothing here calls the allocator that is filmed, and all memory is mapped shared.
#define _GNU_SOURCE
#include "film.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CELL = 65536, PAGE = 4096, BATCH = 512 };

// Cells by their number: open addressing, never more than half full.
static struct {
    struct film_cell *cells;
    uint64_t room, used;
} table;

static int out = -1, pagemap = -1;
static char *text; // of /proc/self/maps
enum { TEXT = 1 << 20 };

// What linux/fs.h says since 6.7: the pages of some categories, as regions.
struct region {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t size, flags, start, end, walk_end, regions, region_count, most_pages;
    uint64_t inverted, all_of, any_of, answer;
};
#define SCAN_PAGES _IOWR('f', 16, struct scan)
enum { IS_FILE = 1 << 2, IS_PRESENT = 1 << 3, IS_ZERO = 1 << 5, IS_HUGE = 1 << 6 };
static struct region *regions;
static uint64_t *entries;
static bool can_scan;

// An entry of /proc/self/pagemap: in memory; of a file or shared.
static const uint64_t ENTRY_PRESENT = UINT64_C(1) << 63, ENTRY_FILE = UINT64_C(1) << 61;

static void stop(const char *what) {
    fprintf(stderr, "freehold-replayer: the film: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void write_all(const void *from, size_t bytes) {
    for (const char *at = from; bytes > 0;) {
        ssize_t written = write(out, at, bytes);
        if (written <= 0) {
            stop("write");
        }
        at += written;
        bytes -= (size_t)written;
    }
}

static struct film_cell *place_of(uint64_t number) {
    uint64_t at = number * 0x9E3779B97F4A7C15u >> 20;
    while (table.cells[at % table.room].number != 0 && table.cells[at % table.room].number != number) {
        at++;
    }
    return &table.cells[at % table.room];
}

static void make_room(uint64_t room) {
    struct film_cell *old = table.cells;
    uint64_t had = table.room;
    table.cells = shared(room * sizeof *old);
    table.room = room;
    for (uint64_t i = 0; i < had; i++) {
        if (old[i].number != 0) {
            *place_of(old[i].number) = old[i];
        }
    }
    if (old != NULL) {
        munmap(old, had * sizeof *old + 1);
    }
}

static struct film_cell *cell_of(uint64_t address) {
    struct film_cell *cell = place_of(address / CELL + 1);
    if (cell->number == 0) {
        if (2 * ++table.used > table.room) {
            make_room(2 * table.room);
            cell = place_of(address / CELL + 1);
        }
        cell->number = address / CELL + 1;
    }
    return cell;
}

// The whole of a block counts as one in the cell where it begins.
static void add_block(const struct slot *slot) {
    uint64_t at = (uintptr_t)slot->block, end = at + slot->size;
    cell_of(at)->blocks++;
    while (at < end) {
        uint64_t next = (at / CELL + 1) * CELL;
        next = next < end ? next : end;
        cell_of(at)->live += (uint32_t)(next - at);
        at = next;
    }
}

static void add_pages(uint64_t at, uint64_t end, bool huge) {
    while (at < end) {
        uint64_t next = (at / CELL + 1) * CELL;
        next = next < end ? next : end;
        struct film_cell *cell = cell_of(at);
        cell->pages += (uint32_t)((next - at) / PAGE);
        cell->huge_pages += huge ? (uint32_t)((next - at) / PAGE) : 0;
        at = next;
    }
}

// The kernel finds the private pages of the whole process. False if it does not know how.
static bool scan_pages(void) {
    struct scan scan = {.size = sizeof scan,
                        .end = UINT64_C(1) << 47,
                        .regions = (uintptr_t)regions,
                        .region_count = BATCH,
                        .inverted = IS_FILE | IS_ZERO,
                        .all_of = IS_PRESENT | IS_FILE | IS_ZERO,
                        .answer = IS_PRESENT | IS_HUGE};
    scan.end -= PAGE;
    while (scan.start < scan.end) {
        int found = ioctl(pagemap, SCAN_PAGES, &scan);
        if (found < 0) {
            return false;
        }
        for (int i = 0; i < found; i++) {
            add_pages(regions[i].start, regions[i].end, (regions[i].categories & IS_HUGE) != 0);
        }
        scan.start = scan.walk_end;
    }
    return true;
}

static void read_entries(uint64_t at, uint64_t end) {
    for (; at < end; at += BATCH * PAGE) {
        uint64_t count = (end - at) / PAGE < BATCH ? (end - at) / PAGE : BATCH;
        ssize_t got = pread(pagemap, entries, count * sizeof *entries, (off_t)(at / PAGE * sizeof *entries));
        for (ssize_t i = 0; i < got / (ssize_t)sizeof *entries; i++) {
            if ((entries[i] & (ENTRY_PRESENT | ENTRY_FILE)) == ENTRY_PRESENT) {
                add_pages(at + (uint64_t)i * PAGE, at + (uint64_t)(i + 1) * PAGE, false);
            }
        }
    }
}

// For kernels before 6.7: page by page, of the mappings that can be written.
static void read_pages(void) {
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    for (ssize_t got; maps >= 0 && (got = read(maps, text + length, TEXT - 1 - length)) > 0;) {
        length += (size_t)got;
    }
    text[length] = 0;
    close(maps);
    for (char *line = text; line != NULL && *line != 0;) {
        char *rest = NULL;
        uint64_t from = strtoull(line, &rest, 16);
        uint64_t to = *rest == '-' ? strtoull(rest + 1, &rest, 16) : from;
        if (strncmp(rest, " rw", 3) == 0 && rest[4] == 'p') {
            read_entries(from, to);
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
}

void film_begin(const char *path) {
    out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (out < 0 || pagemap < 0) {
        stop(out < 0 ? path : "/proc/self/pagemap");
    }
    regions = shared(BATCH * sizeof *regions);
    entries = shared(BATCH * sizeof *entries);
    text = shared(TEXT);
    make_room(1 << 16);
    const char *asked = getenv("FREEHOLD_FILM_SCAN"); // 0: as on an older kernel
    can_scan = asked == NULL || *asked != '0';
    film_frame(0, NULL, 0);
}

void film_frame(uint64_t at, const struct slot *slots, uint32_t count) {
    memset(table.cells, 0, table.room * sizeof *table.cells);
    table.used = 0;
    if (!can_scan || !(can_scan = scan_pages())) {
        read_pages();
    }
    for (uint32_t i = 0; i < count; i++) {
        if (slots[i].block != NULL) {
            add_block(&slots[i]);
        }
    }
    struct film_cell *to = table.cells;
    for (uint64_t i = 0; i < table.room; i++) {
        if (table.cells[i].number != 0) {
            *to++ = table.cells[i];
        }
    }
    uint64_t head[2] = {at, (uint64_t)(to - table.cells)};
    write_all(head, sizeof head);
    write_all(table.cells, head[1] * sizeof *to);
}
