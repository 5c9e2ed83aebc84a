#include "observe/fields.h"

#include "base/settings.h"
#include "observe/profile.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* ── Tables out of the contract ──────────────────────────────────────────────────────────────────────────────────── */

const fh_field fh_fields[] = {
#define STATISTIC(group, kind, member, metric, unit, help)                                                             \
    {FH_FIELD_##group,                                                                                                 \
     FH_FIELD_##kind == FH_FIELD_COUNTER,                                                                              \
     offsetof(fh_profile_statistics, member),                                                                          \
     #member,                                                                                                          \
     metric,                                                                                                           \
     unit,                                                                                                             \
     help},
#include "observe/contract.def"
};
const size_t fh_fields_count = COUNT(fh_fields);

const fh_field fh_row_fields[] = {
#define CLASS_STATISTIC(member, metric, help)                                                                          \
    {FH_FIELD_HEAP, false, offsetof(fh_profile_row, member), #member, metric, "", help},
#include "observe/contract.def"
};
const size_t fh_row_fields_count = COUNT(fh_row_fields);

#define FAMILY(name, metric, unit, help)                                                                               \
    const fh_field fh_family_##name = {FH_FIELD_HEAP, false, 0, "", metric, unit, help};
#include "observe/contract.def"

const char fh_occupancy_shares[][8] = {
#define OCCUPANCY(share) share,
#include "observe/contract.def"
};

/* C lets a text fill its array without the zero behind it. */
#define FITS(text, part) _Static_assert(sizeof(text) <= sizeof(((fh_field *)0)->part), "a longer text: " text);
#define STATISTIC(group, kind, member, name, counted_in, sentence)                                                     \
    FITS(#member, key) FITS(name, metric) FITS(counted_in, unit) FITS(sentence, help)
#define CLASS_STATISTIC(member, name, sentence) FITS(#member, key) FITS(name, metric) FITS(sentence, help)
#define FAMILY(family, name, counted_in, sentence) FITS(name, metric) FITS(counted_in, unit) FITS(sentence, help)
#define OCCUPANCY(share) _Static_assert(sizeof(share) <= sizeof fh_occupancy_shares[0], "a longer text: " share);
#include "observe/contract.def"

_Static_assert(COUNT(fh_occupancy_shares) == COUNT(((fh_profile_row *)0)->occupancy), "a share for each count");

/* ── Names of values ─────────────────────────────────────────────────────────────────────────────────────────────── */

typedef char name[12];

static const char *name_of(const name *names, size_t count, uint64_t value) {
    return value < count && names[value][0] ? names[value] : "unknown";
}

const char *fh_field_use_name(uint64_t use) {
    static const name names[] = {
#define CLASS_USE(use, word) [use] = {word},
#include "observe/contract.def"
    };
    return name_of(names, COUNT(names), use);
}

const char *fh_field_purge_name(uint64_t mode) {
    static const name names[] = {FH_PURGE_NAMES};
    return name_of(names, COUNT(names), mode);
}

const char *fh_field_thp_name(uint64_t mode) {
    static const name names[] = {FH_THP_NAMES};
    return name_of(names, COUNT(names), mode);
}
