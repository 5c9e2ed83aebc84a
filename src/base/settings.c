#include "base/settings.h"

fh_settings_values fh_settings = {
    .verbose = {0},
    .stats = {0},
    .on_error = {FH_ON_ERROR_ABORT},
    .double_free = {FH_DOUBLE_FREE_CALL},
    .purge = {FH_PURGE_BUDGET},
    .thp = {FH_THP_AUTO},
    .limit = {0},
    .on_oom = {FH_ON_OOM_AUTO},
    .metrics = {.length = {0}},
    .observe = {0},
    .sample = {(uint64_t)512 << 10},
    .check = {0},
    .quarantine = {(uint64_t)8 << 20},
    .guard = {0},
    .harden = {FH_HARDEN_OFF},
    .tokens = {0},
    .fail = {.length = {0}},
    .fail_log = {.length = {0}},
    .defer = {(uint64_t)64 << 20},
    .page = {.length = {0}},
};
