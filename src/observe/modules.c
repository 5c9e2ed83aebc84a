#include "observe/modules.h"

#include "observe/profile_file.h"
#include "observe/unwind/modules.h"
#include "system/system.h"

#include <string.h>

/* The process whose thread is entering modules, 0: none. After a fork it is another number.
 *     other → own pid by compare-and-swap, acquire; own pid → 0 by the same thread, release: they guard told_lost */
static fh_word busy;
static fh_word entered;    /* fh_modules_changes() as it was when the file was brought in step */
static uint64_t told_lost; /* of fh_modules_lost(), those that are counted in the file */

/* The word that says when the module was found to be gone, with its check; 0: it is there. */
static uint64_t unloaded_word(const fh_profile_module *entry, uint64_t gone) {
    const uint64_t words[2] = {gone >> 16, entry->begin};
    return (gone >> 16) << 16 | fh_profile_checked_16(fh_profile_check(0, words, sizeof words));
}

static fh_profile_module *add(const fh_module *m) {
    uint64_t number = fh_profile_add(FH_PROFILE_MODULES);
    fh_profile_module *entry = number == FH_PROFILE_NO_ENTRY ? NULL : fh_profile_entry(FH_PROFILE_MODULES, number);
    if (!entry) return NULL;
    const char *path = fh_module_path(m);
    size_t length = strlen(path);
    if (length >= sizeof entry->path) length = sizeof entry->path - 1;
    memcpy(entry->path, path, length);
    memcpy(entry->build_id, m->image.build_id, m->image.build_id_bytes);
    entry->build_id_bytes = m->image.build_id_bytes;
    entry->bias = m->image.bias;
    entry->begin = m->image.begin;
    const uint64_t words[3] = {m->image.begin, m->image.end, m->image.bias};
    uint64_t h = fh_profile_check(0, words, sizeof words);
    const size_t begin = offsetof(fh_profile_module, build_id_bytes), end = offsetof(fh_profile_module, check);
    entry->check = fh_profile_checked(fh_profile_check(h, (const char *)entry + begin, end - begin));
    entry->unloaded_ns = unloaded_word(entry, 0);
    /* Last, so that a reader who finds an end finds the rest. */
    fh_store_release(fh_profile_word(&entry->end), m->image.end);
    return entry;
}

static void set_unloaded(fh_profile_module *entry, const fh_module *m) {
    /* acquire: when it was found to be gone. */
    uint64_t gone = fh_load_acquire(&m->state) == FH_MODULE_GONE ? fh_load(&m->gone_ns) : 0;
    uint64_t word = unloaded_word(entry, gone);
    if (fh_load(fh_profile_word(&entry->unloaded_ns)) != word) fh_store(fh_profile_word(&entry->unloaded_ns), word);
}

static void enter_all(fh_profile_header *profile) {
    uint64_t known = fh_load(fh_profile_word(&profile->section[FH_PROFILE_MODULES].used));
    for (unsigned i = 0; i < fh_modules_count(); i++) {
        const fh_module *m = fh_module_at(i);
        fh_profile_module *entry = i < known ? fh_profile_entry(FH_PROFILE_MODULES, i) : add(m);
        if (!entry) return;
        set_unloaded(entry, m);
    }
    for (; told_lost < fh_modules_lost(); told_lost++) fh_profile_drop(FH_PROFILE_MODULES);
}

void fh_modules_enter(fh_profile_header *profile, bool again) {
    for (uint64_t changes; (changes = fh_modules_changes()) != fh_load(&entered) || again; again = false) {
        uint64_t me = fh_system_pid(), seen = fh_load(&busy);
        if (seen == me || !fh_cas_acq_rel(&busy, &seen, me)) return;
        enter_all(profile);
        fh_store(&entered, changes);
        fh_store_release(&busy, 0);
    }
}

void fh_modules_clear(void) {
    fh_store(&entered, 0);
}
