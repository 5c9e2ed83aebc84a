#include "observe/unwind/index.h"

#include "base/bits.h"
#include "system/system.h"

/* ── The linker's table ──────────────────────────────────────────────────────────────────────────────────────────── */

/*     1 byte version, 3 bytes encodings; address of .eh_frame; number of entries; then for each function
 *     4 bytes address, 4 bytes entry, both relative to the header, sorted by address.
 * No linker writes the table in any other encoding than this one. */
#define TABLE_ENCODING 0x3Bu
#define PLACE_BYTES 8u

/* So many places fit into one copy of the cursor's: from there on, reading on is cheaper than jumping. */
#define NEAR 12u

typedef struct {
    uintptr_t first; /* address of the first place */
    uint64_t count;
} table;

static bool open_table(uintptr_t header, const fh_tables *tables, table *t) {
    fh_cursor c;
    fh_cursor_open(&c, tables);
    fh_cursor_set(&c, header, tables->limit);
    unsigned version = (unsigned)fh_cursor_number(&c, 1), frames = (unsigned)fh_cursor_number(&c, 1);
    unsigned count = (unsigned)fh_cursor_number(&c, 1), places = (unsigned)fh_cursor_number(&c, 1);
    if (version != 1 || places != TABLE_ENCODING || count == FH_ENCODING_OMITTED) return false;
    (void)fh_cursor_address(&c, frames, header);
    t->count = fh_cursor_address(&c, count, header);
    t->first = c.at;
    return !c.bad && t->count > 0 && t->count <= (tables->limit - t->first) / PLACE_BYTES;
}

uintptr_t fh_unwind_by_header(uintptr_t header, const fh_tables *tables, uintptr_t address) {
    table t;
    fh_cursor c;
    fh_cursor_open(&c, tables);
    if (header >= tables->limit || !open_table(header, tables, &t)) return 0;
    /* 4 GiB around the header is all that the places can say. */
    int64_t wanted = (int64_t)(address - header);
    uint64_t low = 0, high = t.count;
    while (high - low > NEAR) {
        uint64_t middle = low + (high - low) / 2;
        fh_cursor_set(&c, t.first + middle * PLACE_BYTES, tables->limit);
        if ((int32_t)fh_cursor_number(&c, 4) <= wanted) {
            low = middle;
        } else {
            high = middle;
        }
        if (c.bad) return 0;
    }
    uintptr_t entry = 0;
    fh_cursor_set(&c, t.first + low * PLACE_BYTES, tables->limit);
    for (; low < high; low++) {
        int32_t function = (int32_t)fh_cursor_number(&c, 4), offset = (int32_t)fh_cursor_number(&c, 4);
        if (c.bad || function > wanted) break;
        entry = header + (uintptr_t)(intptr_t)offset;
    }
    return entry;
}

/* ── Our own ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Heap sort: in place, and n log n for any order. */
static void sift(uint64_t *a, size_t root, size_t n) {
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && a[child] < a[child + 1]) child++;
        if (a[root] >= a[child]) return;
        uint64_t swap = a[root];
        a[root] = a[child];
        a[child] = swap;
    }
}

static void sort(uint64_t *a, size_t n) {
    for (size_t root = n / 2; root-- > 0;) sift(a, root, n);
    while (n > 1) {
        uint64_t swap = a[--n];
        a[n] = a[0];
        a[0] = swap;
        sift(a, 0, n);
    }
}

/* Goes through all entries; `place` may be NULL, to count them. */
static size_t read_all(uintptr_t base, uintptr_t begin, uintptr_t end, uint64_t *place, size_t most) {
    const fh_tables tables = {.limit = end};
    fh_entry_memo memo = {0};
    size_t count = 0;
    for (uintptr_t at = begin; at < end;) {
        fh_cursor c;
        fh_entry_head head;
        uintptr_t function;
        fh_cursor_open(&c, &tables);
        fh_cursor_set(&c, at, end);
        if (!fh_entry_read(&c, &head) || head.last) break;
        if (head.common && fh_entry_begin(&c, &head, &memo, &function) && function - base <= UINT32_MAX) {
            if (place && count < most) place[count] = (uint64_t)(function - base) << 32 | (at - base);
            count++;
        }
        at = head.next;
    }
    return count < most || !place ? count : most;
}

fh_unwind_index *fh_unwind_index_make(uintptr_t base, uintptr_t begin, uintptr_t end) {
    if (begin < base || end - base > UINT32_MAX) return NULL;
    size_t count = read_all(base, begin, end, NULL, 0);
    if (count == 0) return NULL;
    size_t bytes = fh_round_up(sizeof(fh_unwind_index) + count * sizeof(uint64_t), fh_system_page_size());
    fh_unwind_index *index = fh_system_map(bytes, fh_system_page_size());
    if (!index) return NULL;
    index->base = base;
    index->bytes = bytes;
    index->count = read_all(base, begin, end, index->place, count);
    sort(index->place, index->count);
    return index;
}

uintptr_t fh_unwind_by_index(const fh_unwind_index *index, uintptr_t address) {
    size_t low = 0, high = index->count;
    uintptr_t wanted = address - index->base;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->place[middle] >> 32 <= wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 ? index->base + (uint32_t)index->place[low - 1] : 0;
}
