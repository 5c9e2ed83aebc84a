/* Which limit explains that the kernel refused memory: pure arithmetic over what system.h reads. It is no part of the
 * seam; a port takes it as it is. */
#ifndef FH_SYSTEM_LIMITS_H
#define FH_SYSTEM_LIMITS_H

#include "system/system.h"

typedef enum {
    FH_REFUSED_TOO_LARGE, /* no program can have that much */
    FH_REFUSED_ADDRESSES,
    FH_REFUSED_DATA,
    FH_REFUSED_MAPPINGS,
    FH_REFUSED_COMMIT,
    FH_REFUSED_GUESS,  /* larger than the machine, where the kernel guesses */
    FH_REFUSED_WINDOW, /* by none of the kernel's: the heap has no free addresses for it */
    FH_REFUSED_UNKNOWN,
} fh_refusal;

/* Half of what the hardware can address: the other half is the kernel's. */
#define FH_ADDRESSES (UINT64_C(1) << 47)

/* Two mappings are what a piece of one can need: it is cut out of its neighbours. */
#define FH_MAPPINGS_SPARE 2u

static inline int fh_exceeds(uint64_t used, uint64_t more, uint64_t limit) {
    return limit != FH_NO_LIMIT && (used > limit || more > limit - used);
}

/* Pure arithmetic: which limit is met by `bytes` more. In the order in which the kernel looks. */
static inline fh_refusal fh_refusal_judge(const fh_system_limits *l, uint64_t bytes) {
    if (bytes >= FH_ADDRESSES) return FH_REFUSED_TOO_LARGE;
    if (fh_exceeds(l->mappings, FH_MAPPINGS_SPARE, l->mappings_limit)) return FH_REFUSED_MAPPINGS;
    if (fh_exceeds(l->address_used, bytes, l->address_limit)) return FH_REFUSED_ADDRESSES;
    if (fh_exceeds(l->data_used, bytes, l->data_limit)) return FH_REFUSED_DATA;
    if (l->overcommit == 2 && fh_exceeds(l->commit_used, bytes, l->commit_limit)) return FH_REFUSED_COMMIT;
    if (l->overcommit == 0 && l->machine_bytes && bytes > l->machine_bytes) return FH_REFUSED_GUESS;
    return FH_REFUSED_UNKNOWN;
}

#endif
