#include "observe/json.h"

#include "observe/fields.h"
#include "observe/statistics.h"

#include "freehold/freehold.h"

/* The number of the schema. New members do not change it; one that goes, or means something else, does. */
#define SCHEMA 1u

static void put_key(fh_output *out, const char *before, const char *key) {
    fh_put(out, before);
    fh_put(out, "\"");
    fh_put(out, key);
    fh_put(out, "\":");
}

static void put_member(fh_output *out, const char *before, const char *key, uint64_t value) {
    put_key(out, before, key);
    fh_put_number(out, value);
}

static void put_word(fh_output *out, const char *before, const char *key, const char *word) {
    put_key(out, before, key);
    fh_put(out, "\"");
    fh_put(out, word);
    fh_put(out, "\"");
}

/* One object with a member for each field of the group. */
static void put_group(fh_output *out, const fh_profile_statistics *f, fh_field_group group, const char *name) {
    put_key(out, ",\n", name);
    const char *before = "{";
    for (size_t i = 0; i < fh_fields_count; i++) {
        if (fh_fields[i].group != group) continue;
        put_member(out, before, fh_fields[i].key, fh_field_of(&fh_fields[i], f));
        before = ",";
    }
    fh_put(out, "}");
}

static void put_row(fh_output *out, const fh_profile_row *row) {
    put_member(out, "{", "size", row->size);
    put_word(out, ",", "use", fh_field_use_name(row->class_use));
    for (size_t i = 0; i < fh_row_fields_count; i++) {
        put_member(out, ",", fh_row_fields[i].key, fh_field_of(&fh_row_fields[i], row));
    }
    const char *before = ",\"occupancy\":[";
    for (size_t i = 0; i < 4; i++) {
        fh_put(out, before);
        fh_put_number(out, row->occupancy[i]);
        before = ",";
    }
    fh_put(out, "]}");
}

/* Classes without a slab say nothing, and are left out. */
void fh_json_put(fh_output *out, const fh_profile_statistics *f) {
    put_member(out, "{", "schema", SCHEMA);
    put_word(out, ",", "version", FH_VERSION);
    put_member(out, ",", "taken_ns", f->taken_ns);
    put_member(out, ",", "cost_ns", f->cost_ns);
    put_key(out, ",\n", "options");
    put_word(out, "{", "purge", fh_field_purge_name(f->purge_mode));
    put_word(out, ",", "thp", fh_field_thp_name(f->thp_mode));
    fh_put(out, "}");
    put_group(out, f, FH_FIELD_HEAP, "heap");
    put_group(out, f, FH_FIELD_LIMITS, "limits");
    put_group(out, f, FH_FIELD_COUNTERS, "counters");
    put_key(out, ",\n", "classes");
    const char *before = "[\n";
    for (size_t i = 0; i < f->rows; i++) {
        if (!f->row[i].slabs) continue;
        fh_put(out, before);
        put_row(out, &f->row[i]);
        before = ",\n";
    }
    fh_put(out, before[0] == '[' ? "[]}\n" : "]}\n");
}
