/* What the options (api/options.c) set and the layers below read. Plain values, set once at start in the usual case;
 * a change while threads run takes effect when they next look. */
#ifndef FH_BASE_SETTINGS_H
#define FH_BASE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

/* Checked builds compare and verify where a release build trusts; both sides of `if (FH_CHECKED)` always compile. */
#ifndef FH_CHECKED
#define FH_CHECKED 0
#endif

typedef enum { FH_ON_ERROR_ABORT, FH_ON_ERROR_REPORT } fh_on_error;
typedef enum { FH_PURGE_BUDGET, FH_PURGE_EAGER, FH_PURGE_LAZY } fh_purge_mode;
typedef enum { FH_THP_AUTO, FH_THP_NEVER, FH_THP_ALWAYS } fh_thp_mode;

typedef struct {
    bool verbose;
    bool stats; /* print what the heap holds when the program ends */
    fh_on_error on_error;
    fh_purge_mode purge;
    fh_thp_mode thp;
    size_t limit; /* bytes that the heap may have at most; 0: no limit of its own */
} fh_settings_values;

extern fh_settings_values fh_settings __attribute__((visibility("hidden")));

#endif
