/* An interpreter whose calls have frames: what a call takes ends with the call, by one step back.
 *
 * It evaluates sums and products such as (+ 1 (* 2 3)). Each list is evaluated in a frame of its own, so that its arguments cost
 * five instructions each, and nothing is freed one by one. */
#include <freehold/heap.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fh_heap *stack;

typedef struct argument {
    struct argument *next;
    long value;
} argument;

static long evaluate(const char **at) {
    while (isspace((unsigned char)**at)) ++*at;
    if (**at != '(') {
        char *end;
        long value = strtol(*at, &end, 10);
        *at = end;
        return value;
    }
    fh_heap_mark frame = fh_mark(stack);
    argument *list = NULL;
    char how = (*at)[1];
    for (*at += 2;;) {
        while (isspace((unsigned char)**at)) ++*at;
        if (**at == ')' || **at == 0) break;
        argument *a = fh_frame_malloc(stack, sizeof *a);
        if (!a) exit(1);
        a->value = evaluate(at);
        a->next = list;
        list = a;
    }
    if (**at) ++*at;
    long value = how == '*';
    for (; list; list = list->next) value = how == '*' ? value * list->value % 1000003 : value + list->value;
    fh_release_to(stack, frame);
    return value;
}

int main(void) {
    /* A sum of sums, 1,000 deep and with 50 arguments on each level. */
    size_t most = 400000, n = 0;
    char *text = malloc(most);
    if (!text) return 1;
    for (unsigned level = 0; level < 1000; level++) {
        n += (size_t)snprintf(text + n, most - n, "(+");
        for (unsigned i = 0; i < 50; i++) n += (size_t)snprintf(text + n, most - n, " %u", i);
        n += (size_t)snprintf(text + n, most - n, " ");
    }
    n += (size_t)snprintf(text + n, most - n, "(* 2 3)");
    memset(text + n, ')', 1000);
    text[n + 1000] = 0;

    stack = fh_heap_new(&(fh_heap_options){.name = "stack", .flags = FH_HEAP_PRIVATE});
    if (!stack) return 1;
    long value = 0;
    for (unsigned i = 0; i < 20; i++) {
        const char *at = text;
        value = evaluate(&at);
    }
    fh_heap_figures f;
    fh_heap_stats(stack, &f);
    printf("value %ld; the stack took %zu KiB at most, and %zu blocks are left\n", value, f.peak >> 10, f.count);
    free(text);
    int good = value == 1000 * 1225 + 6 && f.count <= 1;
    return fh_heap_destroy(stack) != 0 || !good;
}
