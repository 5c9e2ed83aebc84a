#include "observe/metrics.h"

#include "base/hooks.h"
#include "base/settings.h"
#include "observe/fields.h"
#include "observe/statistics.h"
#include "store/events.h"
#include "system/inspect.h"
#include "system/system.h"

#include "freehold/freehold.h"

#define PREFIX "freehold_"

/* ── The text ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void put_line(fh_output *out, const char *what, const char *name, const char *value) {
    fh_put(out, "# ");
    fh_put(out, what);
    fh_put(out, " " PREFIX);
    fh_put(out, name);
    fh_put(out, " ");
    fh_put(out, value);
    fh_put(out, "\n");
}

static void put_head(fh_output *out, const fh_field *field) {
    put_line(out, "HELP", field->metric, field->help);
    put_line(out, "TYPE", field->metric, field->counter ? "counter" : "gauge");
    if (field->unit[0]) put_line(out, "UNIT", field->metric, field->unit);
}

static void put_sample(fh_output *out, const fh_field *field, const fh_profile_statistics *f) {
    fh_put(out, PREFIX);
    fh_put(out, field->metric);
    fh_put(out, field->counter ? "_total " : " ");
    fh_put_number(out, fh_field_of(field, f));
    fh_put(out, "\n");
}

/* The allocator's own classes are no part of a curve, nor are those that have nothing. */
static bool is_shown(const fh_profile_row *row) {
    return row->slabs && row->class_use != FH_PROFILE_USE_OWN;
}

/* {size="64",use="program" and no more. The runs above 1 MiB differ in size. */
static void put_labels(fh_output *out, const char *metric, const fh_profile_row *row) {
    fh_put(out, PREFIX);
    fh_put(out, metric);
    fh_put(out, "{size=\"");
    if (row->size) {
        fh_put_number(out, row->size);
    } else {
        fh_put(out, "large");
    }
    fh_put(out, "\",use=\"");
    fh_put(out, fh_field_use_name(row->class_use));
    fh_put(out, "\"");
}

static void put_class_family(fh_output *out, const fh_field *field, const fh_profile_statistics *f) {
    put_head(out, field);
    for (size_t i = 0; i < f->rows; i++) {
        if (!is_shown(&f->row[i])) continue;
        put_labels(out, field->metric, &f->row[i]);
        fh_put(out, "} ");
        fh_put_number(out, fh_field_of(field, &f->row[i]));
        fh_put(out, "\n");
    }
}

static void put_occupancy(fh_output *out, const fh_profile_statistics *f) {
    put_head(out, &fh_family_occupancy);
    for (size_t i = 0; i < f->rows; i++) {
        for (size_t q = 0; q < 4 && is_shown(&f->row[i]); q++) {
            put_labels(out, fh_family_occupancy.metric, &f->row[i]);
            fh_put(out, ",below=\"");
            fh_put(out, fh_occupancy_shares[q]);
            fh_put(out, "\"} ");
            fh_put_number(out, f->row[i].occupancy[q]);
            fh_put(out, "\n");
        }
    }
}

/* A gauge of 1 and not OpenMetrics' type "info", which readers of Prometheus' older text form refuse. */
static void put_build(fh_output *out, const fh_profile_statistics *f) {
    put_head(out, &fh_family_build);
    fh_put(out, PREFIX);
    fh_put(out, fh_family_build.metric);
    fh_put(out, "{version=\"" FH_VERSION "\",purge=\"");
    fh_put(out, fh_field_purge_name(f->purge_mode));
    fh_put(out, "\",thp=\"");
    fh_put(out, fh_field_thp_name(f->thp_mode));
    fh_put(out, "\"} 1\n");
}

void fh_metrics_put(fh_output *out, const fh_profile_statistics *f) {
    put_build(out, f);
    for (size_t i = 0; i < fh_fields_count; i++) {
        put_head(out, &fh_fields[i]);
        put_sample(out, &fh_fields[i], f);
    }
    for (size_t i = 0; i < fh_row_fields_count; i++) put_class_family(out, &fh_row_fields[i], f);
    put_occupancy(out, f);
    fh_put(out, "# EOF\n");
}

/* ── The file ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* FH_DUE_METRICS is set by the thread that finds in a slow path that a second has passed.
 * writing: other → own pid by exchange, own pid → 0 by the same thread. A thread that finds its own process's number goes
 * on, as the file is being written. Another number is left from the parent of a fork that happened at that moment.
 * Acquire and release: it guards the buffer below. */
static fh_word written_second; /* of the last look, in units of 2^30 ns */
static fh_word writing;
static char buffer[1024];

void fh_hook_metrics(void) {
    if (!fh_setting_path_get(&fh_settings.metrics)) return;
    uint64_t now = fh_system_seconds(), then = fh_load(&written_second);
    if (now != then && fh_cas_relaxed(&written_second, &then, now)) fh_set_due(FH_DUE_METRICS);
}

/* Put twice: how long the file will be has to be known before. */
static void put_into_file(const char *path, const fh_profile_statistics *f) {
    fh_output length = fh_output_to_buffer(NULL, 0);
    fh_metrics_put(&length, f);
    fh_file file;
    if (!fh_file_begin(&file, path, length.length)) return;
    fh_output out = fh_output_to_file(file.descriptor, buffer, sizeof buffer);
    fh_metrics_put(&out, f);
    fh_output_end(&out);
    fh_file_end(&file, out.length);
}

void fh_metrics_write(void) {
    const char *path = fh_setting_path_get(&fh_settings.metrics);
    if (!path) return;
    uint64_t pid = fh_system_pid();
    if (fh_swap_acq_rel(&writing, pid) == pid) return;
    fh_profile_statistics *f = fh_statistics_borrow();
    if (f) {
        fh_statistics_collect(f);
        put_into_file(path, f);
        fh_statistics_return(f);
    }
    fh_store_release(&writing, 0);
}

void fh_hook_write(void) {
    fh_metrics_write();
}
