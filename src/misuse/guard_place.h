/* Where the slots of guarded blocks are, and which block an address was meant for. guard.h has the picture. */
#ifndef FH_MISUSE_GUARD_PLACE_H
#define FH_MISUSE_GUARD_PLACE_H

#include "misuse/guard_slots.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes of a slot: 64 KiB, or a page if that is more; and from one slot to the next. */
size_t fh_guard_slot_size(void);
size_t fh_guard_pitch(void);

char *fh_guard_slot_address(unsigned slot);

/* Of an address of the region. FH_GUARD_NONE: it is before the first slot. */
unsigned fh_guard_slot_of(uintptr_t address);

/* Which block was an address of the region meant for? That which it is in, or the nearest one. */
typedef enum { FH_GUARD_NO_BLOCK, FH_GUARD_BEFORE, FH_GUARD_INSIDE, FH_GUARD_BEHIND } fh_guard_side;

fh_guard_side fh_guard_find(uintptr_t address, fh_guard_view *view);

#endif
