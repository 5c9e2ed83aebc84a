#include "heap/frames.h"

#include "base/assert.h"
#include "heap/free.h"
#include "heap/take.h"

#define SEGMENT_FIRST (4 * FH_KIB)
#define SEGMENT_MOST (256 * FH_KIB)

struct fh_segment {
    fh_segment *before;
    char *end;
    char frame[];
};

_Static_assert(sizeof(fh_segment) % FH_MIN_ALIGN == 0, "frames are as aligned as every block");

static void give(fh_segment *s) {
    fh_heap_give(NULL, fh_owned_at(s), s);
}

/* The segment that was released last is kept, or a mark at the end of one would be paid for again and again. */
static fh_segment *spare_for(fh_heap *h, size_t n) {
    fh_segment *s = h->spare;
    h->spare = NULL;
    if (s && (size_t)(s->end - s->frame) >= n) return s;
    if (s) give(s);
    return NULL;
}

/* Twice as large as the one before, so that a deep stack has few. */
static size_t bytes_of_next(const fh_heap *h) {
    size_t n = h->segment ? 2 * (size_t)(h->segment->end - (char *)h->segment) : SEGMENT_FIRST;
    return n < SEGMENT_MOST ? n : SEGMENT_MOST;
}

void *fh_frame_grow(fh_heap *h, size_t n) {
    bool clean;
    FH_ASSERT(fh_heap_is_private(h));
    if (n > FH_WINDOW_SIZE) n = FH_WINDOW_SIZE; /* which is refused */
    n = fh_round_up(n ? n : 1, FH_MIN_ALIGN);
    fh_segment *s = spare_for(h, n);
    if (!s) {
        size_t bytes = bytes_of_next(h), least = n + sizeof *s;
        if (bytes < least) bytes = least;
        s = fh_heap_take(h, FH_MIN_ALIGN, bytes, &clean);
        if (!s && bytes > least) s = fh_heap_take(h, FH_MIN_ALIGN, bytes = least, &clean);
        if (!s) return NULL;
        s->end = (char *)s + bytes;
    }
    s->before = h->segment;
    h->segment = s;
    h->next = s->frame + n;
    h->end = s->end;
    return s->frame;
}

bool fh_frame_release(fh_heap *h, void *segment, char *next) {
    fh_segment *s = h->segment;
    while (s && s != segment) s = s->before;
    if (!s && segment != h) return false;
    bool within = s ? next >= s->frame && next <= (s == h->segment ? h->next : s->end) : next == NULL;
    if (!within) return false;
    for (fh_segment *newest; (newest = h->segment) != s;) {
        h->segment = newest->before;
        if (h->spare) give(h->spare);
        h->spare = newest;
    }
    h->next = next;
    h->end = s ? s->end : NULL;
    return true;
}

bool fh_frame_is_segment(const fh_heap *h, const void *p) {
    const fh_segment *s = h->segment;
    while (s && s != p) s = s->before;
    return s || p == h->spare;
}

void fh_frame_forget(fh_heap *h) {
    h->segment = h->spare = NULL;
    h->next = h->end = NULL;
}
