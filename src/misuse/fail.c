#include "misuse/fail.h"

#include "base/settings.h"
#include "base/text.h"
#include "misuse/heap.h"
#include "misuse/report.h"
#include "misuse/stacks.h"
#include "observe/unwind/modules.h"
#include "system/inspect.h"
#include "system/system.h"

#include <errno.h>
#include <string.h>

#define SITES_LOG 16u /* sites that are told apart, for the log */
#define SITES (1u << SITES_LOG)
#define MOST_STEPS 64u
#define KNOWN_LOG 14u
#define KNOWN (1u << KNOWN_LOG)
#define LINES_MOST 16u
#define LINE_LONGEST ((size_t)8 * FH_KIB)

typedef enum { NONE, NTH, EVERY, AFTER, SITE } fail_kind;

typedef struct {
    fail_kind kind;
    uint64_t number; /* which one; the distance of one to the next; bytes before the first; the site */
} fail_when;

/* 0 → hash by compare-and-swap, relaxed: the number is all there is. The counts are added to. */
typedef struct {
    fh_word hash;
    fh_word failed; /* lines that were written */
    fh_word blocks; /* live at the end */
    fh_word bytes;
} fail_site;

fh_word fh_fail_on;
static fail_when when;    /* written before fh_fail_on, and never again */
static fail_site *sites;  /* NULL: there is no log */
static fh_word *known;    /* by the stack's number: a word is one stack and its hash, or 0 */
static fh_word counted;   /* allocations that asked */
static fh_word asked_for; /* and their bytes */
static fh_word said;      /* 1: what failed first was said */

/* ── The option ──────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Digits of a base, with a unit of size behind them if it may have one. */
static bool read_number(const char *word, size_t length, unsigned base, bool units, uint64_t *number) {
    static const char digits[] = "0123456789abcdef", sizes[] = "kmgt";
    uint64_t n = 0;
    size_t i = 0;
    for (; i < length; i++) {
        char low = (char)(word[i] >= 'A' && word[i] <= 'Z' ? word[i] | ' ' : word[i]);
        const char *digit = low ? memchr(digits, low, base) : NULL;
        if (!digit) break;
        if (n > (UINT64_MAX >> 8) / base) return false;
        n = n * base + (uint64_t)(digit - digits);
    }
    if (i == 0) return false;
    if (units && i + 1 == length) {
        const char *unit = strchr(sizes, word[i] | ' ');
        unsigned shift = unit && *unit ? 10 * (unsigned)(unit - sizes + 1) : 64;
        if (shift == 64 || n > UINT64_MAX >> (shift + 1)) return false;
        n <<= shift;
        i++;
    }
    *number = n;
    return i == length && n != 0;
}

static bool begins(const char *word, size_t length, const char *with, size_t *rest) {
    *rest = strlen(with);
    return length > *rest && memcmp(word, with, *rest) == 0;
}

static bool parse(const char *word, size_t length, fail_when *w) {
    size_t rest;
    *w = (fail_when){NONE, 0};
    if (length == 4 && memcmp(word, "none", 4) == 0) return true;
    if (begins(word, length, "every:", &rest)) {
        w->kind = EVERY;
        return read_number(word + rest, length - rest, 10, false, &w->number);
    }
    if (begins(word, length, "after:", &rest)) {
        w->kind = AFTER;
        return read_number(word + rest, length - rest, 10, true, &w->number);
    }
    if (begins(word, length, "site:", &rest)) {
        w->kind = SITE;
        if (length - rest > 2 && word[rest] == '0' && (word[rest + 1] | ' ') == 'x') rest += 2;
        return read_number(word + rest, length - rest, 16, false, &w->number) && w->number <= UINT32_MAX;
    }
    w->kind = NTH;
    return read_number(word, length, 10, false, &w->number);
}

bool fh_fail_is_valid(const char *value, size_t length) {
    fail_when w;
    return parse(value, length, &w);
}

static const char *log_path(void) {
    return fh_setting_path_get(&fh_settings.fail_log);
}

void fh_fail_start(void) {
    const char *word = fh_setting_path_get(&fh_settings.fail);
    if (word) (void)parse(word, strlen(word), &when);
    known = fh_system_map(KNOWN * sizeof *known, fh_system_page_size());
    if (log_path()) sites = fh_system_map(SITES * sizeof *sites, fh_system_page_size());
    fh_store_release(&fh_fail_on, 1);
}

/* ── Sites ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static uint32_t mix(uint32_t hash, uint64_t word) {
    for (unsigned i = 0; i < 8; i++) hash = (hash ^ (uint32_t)(word >> 8 * i & 0xFF)) * UINT32_C(0x01000193);
    return hash;
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The module of a return address, and the offset in it. NULL: no file is known there. */
static const fh_module *module_of(uintptr_t address, uint64_t *offset) {
    unsigned number = fh_module_learn(address - 1);
    if (number >= FH_MODULE_CODE) return NULL;
    const fh_module *m = fh_module_at(number);
    *offset = address - 1 - m->image.bias;
    return m;
}

/* Up to the first frame that has no file: code that was made at run time is elsewhere each time. */
static uint32_t hash_of(const uint64_t *addresses, unsigned n) {
    uint32_t hash = UINT32_C(0x811C9DC5);
    for (unsigned i = 0; i < n; i++) {
        uint64_t offset;
        const fh_module *m = module_of((uintptr_t)addresses[i], &offset);
        if (!m) break;
        /* The program itself has the name of its file, however it was called. */
        for (const char *c = file_name(fh_module_path(m)); *c; c++)
            hash = (hash ^ (unsigned char)*c) * UINT32_C(0x01000193);
        hash = mix(hash, offset);
    }
    return hash ? hash : 1;
}

/* Most allocations come from a few places. */
static uint32_t site_of(uint32_t stack) {
    fh_word *place = known ? &known[(stack * UINT32_C(0x9E3779B1)) >> (32 - KNOWN_LOG)] : NULL;
    uint64_t word = place ? fh_load(place) : 0; /* relaxed: the word is all there is */
    if (stack && word >> 32 == stack) return (uint32_t)word;
    const uint64_t *addresses = NULL;
    unsigned n = fh_stacks_get(stack, &addresses);
    uint32_t hash = n ? hash_of(addresses, n) : 0;
    if (stack && place) fh_store(place, (uint64_t)stack << 32 | hash);
    return hash;
}

/* Its entry; *is_new: nobody had it before. NULL: there is no log, or no room. */
static fail_site *entry_of(uint32_t hash, bool *is_new) {
    *is_new = false;
    for (unsigned i = 0; sites && i < MOST_STEPS; i++) {
        fail_site *s = &sites[(hash + i) & (SITES - 1)];
        uint64_t seen = fh_load(&s->hash);
        if (!seen && fh_cas_relaxed(&s->hash, &seen, hash)) {
            *is_new = true;
            return s;
        }
        if (seen == hash) return s;
    }
    return NULL;
}

/* ── The log ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void put_word(fh_text *t, uint64_t number) {
    fh_text_char(t, '\t');
    fh_text_number(t, number);
}

static void begin_line(fh_text *t, const char *what, uint32_t hash) {
    fh_text_string(t, what);
    put_word(t, fh_system_pid());
    fh_text_char(t, '\t');
    fh_text_hex(t, hash);
}

static void end_line(fh_text *t) {
    fh_text_char(t, '\n');
    fh_file_append(log_path(), t->begin, fh_text_length(t));
}

static void log_site(uint32_t hash, size_t n, uint32_t stack) {
    char *buffer = fh_system_map(LINE_LONGEST, fh_system_page_size());
    if (!buffer) return;
    fh_text t = fh_text_in(buffer, LINE_LONGEST);
    const uint64_t *addresses = NULL;
    unsigned frames = fh_stacks_get(stack, &addresses);
    begin_line(&t, "site", hash);
    put_word(&t, n);
    for (unsigned i = 0; i < frames; i++) {
        uint64_t offset = addresses[i];
        const fh_module *m = module_of((uintptr_t)addresses[i], &offset);
        fh_text_char(&t, '\t');
        fh_text_hex(&t, offset);
        fh_text_char(&t, '\t');
        fh_text_string(&t, m ? fh_module_path(m) : "?");
    }
    end_line(&t);
    fh_system_unmap(buffer, LINE_LONGEST);
}

static void log_numbers(const char *what, uint32_t hash, uint64_t first, uint64_t second, bool has_second) {
    char buffer[128];
    fh_text t = fh_text_in(buffer, sizeof buffer);
    begin_line(&t, what, hash);
    put_word(&t, first);
    if (has_second) put_word(&t, second);
    end_line(&t);
}

/* Without a log, the first one is said where a person sees it. */
static void say_failed(size_t n, uint32_t hash, uint32_t stack) {
    char buffer[2048];
    fh_text t = fh_text_in(buffer, sizeof buffer);
    if (fh_swap_acq_rel(&said, 1)) return;
    fh_text_string(&t, "freehold: an allocation of ");
    fh_text_number(&t, n);
    fh_text_string(&t, n == 1 ? " byte fails" : " bytes fails");
    fh_text_string(&t, ", because option fail says so; fail=site:");
    fh_text_hex(&t, hash);
    fh_text_string(&t, " repeats it\n");
    fh_misuse_put_noted(&t, "asked for", stack);
    fh_system_write(2, t.begin, fh_text_length(&t));
}

/* ── Failing ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool is_chosen(size_t n, uint32_t hash) {
    uint64_t number = fh_add_relaxed(&counted, 1) + 1, bytes;
    switch (when.kind) {
    case NTH:
        return number == when.number;
    case EVERY:
        return number % when.number == 0;
    case AFTER:
        bytes = fh_add_relaxed(&asked_for, n) + n;
        return bytes > when.number;
    case SITE:
        return hash == when.number;
    default:
        return false;
    }
}

bool fh_fail_asked(size_t n, uint32_t stack) {
    int saved = errno;
    uint32_t hash = site_of(stack);
    bool is_new = false, chosen = is_chosen(n, hash);
    fail_site *s = hash ? entry_of(hash, &is_new) : NULL;
    if (is_new) log_site(hash, n, stack);
    if (chosen && s && fh_add_relaxed(&s->failed, 1) < LINES_MOST) log_numbers("fail", hash, n, 0, false);
    if (chosen && !log_path()) say_failed(n, hash, stack);
    errno = chosen ? ENOMEM : saved;
    return chosen;
}

/* ── The end ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void count_live(uint32_t stack, size_t n) {
    bool is_new;
    fail_site *s = entry_of(site_of(stack), &is_new);
    if (!s) return;
    fh_add_relaxed(&s->blocks, 1);
    fh_add_relaxed(&s->bytes, n);
}

void fh_fail_end(void) {
    if (!fh_load(&fh_fail_on) || !sites) return;
    int saved = errno;
    fh_heap_each_live(count_live);
    for (unsigned i = 0; i < SITES; i++) {
        const fail_site *s = &sites[i];
        if (fh_load(&s->blocks)) {
            log_numbers("live", (uint32_t)fh_load(&s->hash), fh_load(&s->blocks), fh_load(&s->bytes), true);
        }
    }
    errno = saved;
}
