/* Why the system refused memory: its limits as they are at this moment, and which of them is met. */
#ifndef FH_SYSTEM_MEMORY_H
#define FH_SYSTEM_MEMORY_H

#include <stdint.h>

#define FH_NO_LIMIT UINT64_MAX

typedef struct {
    uint64_t address_limit, address_used; /* RLIMIT_AS, and what is mapped */
    uint64_t data_limit, data_used;       /* RLIMIT_DATA, and what is private and writable */
    uint64_t commit_limit, commit_used;   /* of the whole machine; counts only where every page counts */
    uint64_t mappings_limit, mappings;    /* vm.max_map_count, and how many there are */
    uint64_t machine_bytes;               /* memory and swap together; 0: not known */
    uint64_t overcommit;                  /* vm.overcommit_memory: 0 by guess, 1 always, 2 never */
} fh_system_limits;

/* Reads a few files of the kernel's, and all of the list of mappings: some ms when there are many. Allocates nothing. */
void fh_system_limits_now(fh_system_limits *limits);

/* The size of the last piece of memory or address space that the system refused to this process. */
uint64_t fh_system_refused_bytes(void);

typedef enum {
    FH_REFUSED_TOO_LARGE, /* no program can have that much */
    FH_REFUSED_ADDRESSES,
    FH_REFUSED_DATA,
    FH_REFUSED_MAPPINGS,
    FH_REFUSED_COMMIT,
    FH_REFUSED_GUESS, /* larger than the machine, where the kernel guesses */
    FH_REFUSED_UNKNOWN,
} fh_refusal;

/* Half of what the hardware can address: the other half is the kernel's. */
#define FH_ADDRESSES (UINT64_C(1) << 47)

/* Two mappings are what a piece of one can need: it is cut out of its neighbours. */
#define FH_MAPPINGS_SPARE 2u

static inline int fh_exceeds(uint64_t used, uint64_t more, uint64_t limit) {
    return limit != FH_NO_LIMIT && (used > limit || more > limit - used);
}

/* Pure arithmetic: which limit is met by so many bytes more. In the order in which the kernel looks. */
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
