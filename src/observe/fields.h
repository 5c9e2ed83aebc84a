/* What each figure is called, counted in and means: one table for the JSON, the metrics and their tests. */
#ifndef FH_OBSERVE_FIELDS_H
#define FH_OBSERVE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { FH_FIELD_HEAP, FH_FIELD_LIMITS, FH_FIELD_COUNTERS } fh_field_group;

/*     equation:  counter ⇔ the figure never shrinks while the process lives
 * `metric` is the name without the prefix freehold_ and, of a counter, without _total; it ends in _bytes, _seconds or
 * whatever its unit is. */
typedef struct {
    fh_field_group group;
    bool counter;
    uint16_t offset; /* in fh_profile_figures, of a uint64_t */
    const char *key; /* in JSON: the name in fh_profile_figures */
    const char *metric;
    const char *unit; /* NULL: a bare number */
    const char *help; /* one sentence */
} fh_field;

extern const fh_field fh_fields[] __attribute__((visibility("hidden")));
extern const size_t fh_fields_count __attribute__((visibility("hidden")));

/* The figures of one size class: in fh_profile_row. */
extern const fh_field fh_row_fields[] __attribute__((visibility("hidden")));
extern const size_t fh_row_fields_count __attribute__((visibility("hidden")));

static inline uint64_t fh_field_of(const fh_field *field, const void *structure) {
    return *(const uint64_t *)((const char *)structure + field->offset);
}

/* The names of the values of the options purge and thp, by their number in the figures. */
const char *fh_field_purge_name(uint64_t mode);
const char *fh_field_thp_name(uint64_t mode);

#endif
