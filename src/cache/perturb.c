#include "cache/perturb.h"

#include "base/settings.h"
#include "cache/observed.h"
#include "store/locate.h"

#include <string.h>

void fh_perturb_set(unsigned byte) {
    fh_store(&fh_settings.perturb, byte & 0xFF);
    if (byte & 0xFF) fh_thread_take_bins(FH_MODE_PERTURB);
}

void fh_perturb_new(void *p, size_t n) {
    unsigned byte = (unsigned)FH_SETTING(perturb);
    if (p && byte) memset(p, (int)(byte ^ 0xFF), n);
}

void fh_perturb_freed(void *p) {
    unsigned byte = (unsigned)FH_SETTING(perturb);
    if (!p || !byte) return;
    fh_place at = fh_locate(p);
    bool is_block = at.kind == FH_AT_SLAB || at.kind == FH_AT_HOLE || at.kind == FH_AT_LARGE;
    if (is_block && at.begin == p && !at.free) memset(p, (int)byte, at.size);
}
