/* The list of modules: the files and other places that hold code. The walker asks it in which module an address is.
 * observe/modules.c writes it into the profile file, whose reader names addresses when the process is gone.
 *
 * It comes from /proc/self/maps, read into memory of our own. For single addresses it comes from glibc's
 * _dl_find_object, which is wait-free. The loader is not asked for its list: dl_iterate_phdr takes the loader's lock. The
 * walker may be called from a malloc inside dlopen, or while another thread is idle in one.
 *
 * What a module says about itself (headers, build-id, unwind information) is copied by the kernel (fh_system_peek). It
 * answers with an error, and no signal, when another thread has just unloaded the module. So a module that goes in the
 * meantime costs a wrong or a missing name at most. A copy takes some 2 µs, and a rule needs twenty. Modules that cannot
 * go are nearly all that programs have: they are read as memory, as far as the list of mappings says they are mapped.
 *
 * The life of an entry. Its number is never given to another module, because the profile file's entries and the walker's
 * rules refer to it:
 *
 *     (behind count) ──▶ LIVE ⇄ GONE       the same image at the same place is the same module again
 *
 * One thread at a time changes the list. Nobody waits for it: a thread that comes meanwhile does without what is new. */
#ifndef FH_OBSERVE_UNWIND_MODULES_H
#define FH_OBSERVE_UNWIND_MODULES_H

#include "base/atomic.h"
#include "observe/unwind/index.h"
#include "system/inspect.h"

#define FH_MODULES_MOST 4096u
#define FH_MODULE_NONE 0xFFFFu /* no code that we know of */
#define FH_MODULE_CODE 0xFFFEu /* executable memory that is no file: made at run time */

/* Segments may have holes between them; of a file that a linker made, with two or three pieces are nearly all covered. */
#define FH_MODULE_SPANS 4u

#define FH_MODULE_LIVE UINT64_C(1)
#define FH_MODULE_GONE UINT64_C(2)

/* All but the words is written before the module is counted, and never again. */
typedef struct {
    fh_word state;
    fh_word gone_ns; /* when it was found to be gone; 0: LIVE */
    fh_word index;   /* fh_unwind_index*, of images without the linker's table; 0: none */
    fh_word spans;   /* of lasting[], which is written before and never again */
    fh_span lasting[FH_MODULE_SPANS];
    fh_image image;
    bool in_program;   /* the program itself */
    bool stays;        /* cannot be unloaded as long as this code runs */
    bool loader_knows; /* so the loader can tell when it is gone */
    uint32_t path;     /* for fh_module_path */
} fh_module;

/* Brings the list in step with what is mapped: new modules are entered, those that are gone are GONE. Any thread; does
 * not allocate; keeps errno. About 2 µs a module and 50 µs for the file. */
void fh_modules_refresh(void);

/* How many modules there are, LIVE and GONE: numbers below that are valid. */
unsigned fh_modules_count(void);

/* Another number after each change of the list, never a smaller one; 0: there is no list yet. */
uint64_t fh_modules_changes(void);

/* Modules that there was no room for, each as often as it was met. */
uint64_t fh_modules_lost(void);

/* The number of the module that has code at the address, or one of the two constants. A search through all modules: for
 * addresses that are new. */
unsigned fh_module_find(uintptr_t address);

/* The same, but asks the kernel and the loader if the address is not known, or not known to be still there. The file of mappings is read
 * for at most 1 % of the time. */
unsigned fh_module_learn(uintptr_t address);

const fh_module *fh_module_at(unsigned number);

/* Terminated; empty if the module's path is not known. */
const char *fh_module_path(const fh_module *m);

/* True if the module of that number is still the one at the address. Some 200 ns, nothing for modules that stay. */
bool fh_module_stands(unsigned number, uintptr_t address);

/* Around the address, what can be read as memory of this module, now and as long as this code runs. Empty: not known. */
fh_span fh_module_lasting(const fh_module *m, uintptr_t address);

/* The number of this library's own module; FH_MODULE_NONE when it is linked into the program. */
unsigned fh_module_own(void);

/* Bytes of memory that the list has taken. */
size_t fh_modules_memory(void);

#endif
