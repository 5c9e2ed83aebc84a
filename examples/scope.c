/* A plain C library in a heap, without its knowledge: the C library's regular expressions. Linked with the drop-in library.
 *
 * What regcomp allocates comes from the heap of the scope. Nobody calls regfree: the heap ends, and all of it is gone. A pattern
 * that wants more than the heap may have is refused by the library's own way for that, REG_ESPACE. */
#include <freehold/heap.h>

#include <regex.h>
#include <stdio.h>
#include <string.h>

/* What the pattern finds in `text` (how often), or −1: it is none, or it wanted too much. *taken: what that took. */
static int count_in(const char *pattern, const char *text, size_t *taken) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.name = "regex", .hard_limit = 4 << 20});
    if (!h) return -1;
    regex_t expression;
    regmatch_t match;
    int found = -1;
    fh_heap_enter(h);
    if (regcomp(&expression, pattern, REG_EXTENDED) == 0) {
        for (found = 0; regexec(&expression, text, 1, &match, 0) == 0 && match.rm_eo > 0; found++) text += match.rm_eo;
    }
    fh_heap_leave();
    fh_heap_figures f;
    fh_heap_stats(h, &f);
    *taken = f.live;
    fh_heap_destroy(h);
    return found;
}

int main(void) {
    size_t live = 0, taken, most = 0;
    int found = 0;
    for (unsigned i = 0; i < 200; i++) {
        /* By then a checked build keeps all that it keeps of heaps that have ended (16 slots): no heap may leave more. */
        if (i == 100) live = fh_mallinfo2().uordblks;
        found = count_in("[a-z]+(ing|ed)\\b", "sorting, merging, counted and sleeping", &taken);
        if (taken > most) most = taken;
    }
    int refused = count_in("((((a{1,200}){1,200}){1,200}){1,200}){1,200}", "a", &taken);
    size_t left = fh_mallinfo2().uordblks;
    printf("found %d; a pattern took %zu KiB at most; a greedy one: %d; %zu bytes more than before are live\n", found,
           most >> 10, refused, left > live ? left - live : 0);
    return found != 4 || refused != -1 || most == 0 || left > live + 4096;
}
