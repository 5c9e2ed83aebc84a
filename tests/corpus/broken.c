/* An allocator that is broken in a way that only a program's own order of calls meets: of blocks of some sizes one in a thousand
 * is somebody else's too. Preloaded over the C library's, for the test of corpus.replay. */
#include <stddef.h>

extern void *__libc_malloc(size_t size);

__attribute__((visibility("default"))) void *malloc(size_t size);
void *malloc(size_t size) {
    static _Thread_local void *last;
    static _Thread_local unsigned calls;
    if (size >= 200 && size <= 300 && ++calls % 1000 == 0 && last) return last;
    void *block = __libc_malloc(size);
    if (size == 300 || size == 256 || size == 224) last = block;
    return block;
}
