/* What is live in a heap when it is destroyed, by call sites (option heap_left). The sites are those of samples, so in a program
 * that is observed with sample=1 each block has one. Others are counted without. */
#include "base/hooks.h"
#include "base/text.h"
#include "heap/frames.h"
#include "heap/heap.h"
#include "heap/told.h"
#include "misuse/report.h"
#include "observe/samples.h"
#include "system/system.h"

#include <errno.h>

#define LONGEST ((size_t)16 * 1024)
#define SITES 1024u
#define SITES_SAID 8u
#define DEPTH 16u

typedef struct {
    uint32_t site;
    size_t blocks, bytes;
} left_row;

/* Row 0 has the blocks without a site, and those that there is no row for. */
typedef struct {
    const fh_heap *heap;
    bool observed;
    size_t blocks, bytes;
    left_row rows[SITES];
    char text[LONGEST];
} left;

static left_row *row_of(left *l, uint32_t site) {
    for (unsigned i = 0; site && i < SITES / 2; i++) {
        left_row *r = &l->rows[(site + i) % SITES];
        if (r == l->rows) continue;
        if (r->site == 0) r->site = site;
        if (r->site == site) return r;
    }
    return l->rows;
}

static void add(void *block, size_t size, void *arg) {
    left *l = arg;
    if (fh_frame_is_segment(l->heap, block)) return;
    const fh_profile_sample *sample = l->observed ? fh_samples_find((uintptr_t)block) : NULL;
    left_row *r = row_of(l, sample ? sample->site : 0);
    size = fh_heap_asked_for(l->heap, block, size);
    r->blocks++;
    r->bytes += size;
    l->blocks++;
    l->bytes += size;
}

static void say_blocks(fh_text *t, size_t blocks, size_t bytes) {
    fh_text_number(t, blocks);
    fh_text_string(t, blocks == 1 ? " block of " : " blocks of ");
    fh_text_number(t, bytes);
    fh_text_string(t, bytes == 1 ? " byte" : " bytes");
}

static unsigned stack_of(uint32_t site, uint64_t stack[DEPTH]) {
    const fh_profile_site *s = site ? fh_profile_entry(FH_PROFILE_SITES, site) : NULL;
    unsigned n = 0;
    for (uint32_t at = s ? s->node : 0; at && n < DEPTH;) {
        const fh_profile_node *node = fh_profile_entry(FH_PROFILE_NODES, at);
        if (!node) break;
        stack[n++] = node->address;
        at = node->parent;
    }
    return n;
}

static left_row *largest(left *l) {
    left_row *most = &l->rows[1];
    for (unsigned i = 2; i < SITES; i++) {
        if (l->rows[i].bytes > most->bytes) most = &l->rows[i];
    }
    return most->blocks ? most : NULL;
}

/* The largest sites, each once, and the rest as one. */
static void say_sites(fh_text *t, left *l) {
    left_row *r, rest = l->rows[0];
    for (unsigned said = 0; (r = largest(l)) != NULL; said++) {
        if (said < SITES_SAID) {
            uint64_t stack[DEPTH];
            unsigned n = stack_of(r->site, stack);
            fh_text_string(t, "  ");
            say_blocks(t, r->blocks, r->bytes);
            fh_text_char(t, '\n');
            fh_misuse_put_stack(t, "allocated", stack, n);
        } else {
            rest.blocks += r->blocks;
            rest.bytes += r->bytes;
        }
        r->blocks = r->bytes = 0;
    }
    if (!rest.blocks) return;
    fh_text_string(t, "  ");
    say_blocks(t, rest.blocks, rest.bytes);
    fh_text_string(t, l->observed ? " from elsewhere\n" : "; FREEHOLD=observe=1,sample=1 shows where they are from\n");
}

static void say(left *l, size_t resident) {
    fh_text t = fh_text_in(l->text, sizeof l->text);
    fh_text_string(&t, "freehold: the heap \"");
    fh_text_string(&t, l->heap->name);
    fh_text_string(&t, "\" is destroyed with ");
    say_blocks(&t, l->blocks, l->bytes);
    fh_text_string(&t, " live, and ");
    fh_text_number(&t, resident);
    fh_text_string(&t, " bytes resident\n");
    say_sites(&t, l);
    fh_system_write(2, t.begin, fh_text_length(&t));
}

void fh_hook_heap_left(fh_heap *h) {
    int error = errno;
    left *l = fh_system_map(sizeof *l, fh_system_page_size()); /* it reads as zero */
    if (!l) return;
    l->heap = h;
    l->observed = fh_profile() != NULL;
    fh_heap_each(h, add, l);
    if (l->blocks) say(l, fh_heap_resident(h));
    fh_system_unmap(l, sizeof *l);
    errno = error;
}
