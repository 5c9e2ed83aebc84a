/* Modules: the files and other places that hold code. Kept for the walker, which asks in which module an address lies, and
 * for the page, whose reader wants to name addresses when the process is long gone.
 *
 * They come from /proc/self/maps, read into memory of our own. The loader is not asked for its list: dl_iterate_phdr takes
 * its lock, and the walker may be called from a malloc inside dlopen, or while another thread sleeps in one. What a module
 * says about itself (headers, build-id, unwind information) is copied by the kernel (fh_system_peek), which answers with an
 * error and no signal when another thread has just unloaded it. */
#ifndef FH_SEE_MODULES_H
#define FH_SEE_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Brings the table and the page's section in step with what is mapped: new modules are entered, those that are gone get
 * their unloaded_ns. For the moment when the page is made and for each time figures are taken. A thread that comes while
 * another one is at it goes on without. Any thread; does not allocate; keeps errno. 50 µs and more: it reads a file. */
void fh_modules_note(void);

#endif
