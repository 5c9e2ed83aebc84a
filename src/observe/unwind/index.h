/* Which entry of a module's unwind information describes the function at an address? The linker leaves a sorted table
 * (.eh_frame_hdr) for that question; it is searched where it is. For images without one (some static programs, some
 * compilers for musl) such a table is made here. */
#ifndef FH_OBSERVE_UNWIND_INDEX_H
#define FH_OBSERVE_UNWIND_INDEX_H

#include "observe/unwind/rule.h"

#include <stddef.h>
#include <stdint.h>

/* The entry for `address` by the linker's table at `header`; 0 if there is none. */
uintptr_t fh_unwind_by_header(uintptr_t header, const fh_tables *tables, uintptr_t address);

/* Our own: each place is the function's offset from `base` and, in the lower half, its entry's. Sorted.
 *     equation:  place[i] < place[i + 1] */
typedef struct {
    uintptr_t base;
    size_t count, bytes;
    uint64_t place[];
} fh_unwind_index;

/* Reads all entries of the unwind information from `begin` to `end`. NULL: there are none, or no memory. */
fh_unwind_index *fh_unwind_index_make(uintptr_t base, uintptr_t begin, uintptr_t end);
uintptr_t fh_unwind_by_index(const fh_unwind_index *index, uintptr_t address);

#endif
