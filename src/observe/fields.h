/* What each statistic is called, counted in and means: the tables of observe/contract.def for the JSON and the metrics. */
#ifndef FH_OBSERVE_FIELDS_H
#define FH_OBSERVE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { FH_FIELD_HEAP, FH_FIELD_LIMITS, FH_FIELD_COUNTERS } fh_field_group;
typedef enum { FH_FIELD_GAUGE, FH_FIELD_COUNTER } fh_field_kind;

/* The texts themselves and no pointers to them: those would have to be relocated in every process that starts (cmake/order.ld).
 *
 *     equation:  counter ⇔ the statistic never shrinks while the process lives */
typedef struct {
    fh_field_group group;
    bool counter;
    uint16_t offset; /* in fh_profile_statistics, of a uint64_t */
    char key[32];    /* in JSON: the name in fh_profile_statistics */
    char metric[32];
    char unit[16]; /* "": a bare number */
    char help[88]; /* one sentence */
} fh_field;

extern const fh_field fh_fields[] __attribute__((visibility("hidden")));
extern const size_t fh_fields_count __attribute__((visibility("hidden")));

/* The statistics of one size class: in fh_profile_row. */
extern const fh_field fh_row_fields[] __attribute__((visibility("hidden")));
extern const size_t fh_row_fields_count __attribute__((visibility("hidden")));

static inline uint64_t fh_field_of(const fh_field *field, const void *structure) {
    return *(const uint64_t *)((const char *)structure + field->offset);
}

/* Families of metrics that are not one member of a structure: only their names and texts are here. */
#define FAMILY(name, metric, unit, help) extern const fh_field fh_family_##name __attribute__((visibility("hidden")));
#include "observe/contract.def"

/* The shares at the ends of the four counts of fh_profile_row.occupancy. */
extern const char fh_occupancy_shares[][8] __attribute__((visibility("hidden")));

/* The words for the values of fh_profile_use, and of the options purge and thp. */
const char *fh_field_use_name(uint64_t use);
const char *fh_field_purge_name(uint64_t mode);
const char *fh_field_thp_name(uint64_t mode);

#endif
