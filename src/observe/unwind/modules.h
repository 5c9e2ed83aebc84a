/* Modules: the files and other places that hold code. Kept for the walker, which asks in which module an address lies, and
 * for the page, whose reader wants to name addresses when the process is long gone.
 *
 * Where they come from: /proc/self/maps, read into memory of our own, and for single addresses glibc's _dl_find_object, which
 * is wait-free. The loader is not asked for its list: dl_iterate_phdr takes the loader's lock, and the walker may be called
 * from a malloc inside dlopen, or while another thread sleeps in one. What a module says about itself (headers, build-id,
 * unwind information) is copied by the kernel (fh_system_peek), which answers with an error and no signal when another
 * thread has just unloaded it. So a module that goes while it is looked at costs a wrong or a missing name at most. A copy
 * takes some 2 µs, and a rule twenty of them: modules that cannot go, which are nearly all that programs have, are read as
 * memory instead, as far as the list of mappings says that they are there from end to end.
 *
 * The life of an entry; its number is never given to another module, because the page's entries and the walker's rules
 * refer to it:
 *
 *     (behind count) ──▶ LIVE ⇄ GONE       the same image at the same place is the same module again
 *
 * One thread at a time changes the table. It is not waited for: who comes meanwhile does without what is new. */
#ifndef FH_OBSERVE_MODULES_H
#define FH_OBSERVE_MODULES_H

#include "base/atomic.h"
#include "observe/unwind/index.h"
#include "system/code.h"

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
    fh_word index; /* fh_unwind_index*, of images without the linker's table; 0: none */
    fh_word spans; /* of lasting[], which is written before and never again */
    fh_span lasting[FH_MODULE_SPANS];
    fh_image image;
    bool in_program;   /* the program itself */
    bool stays;        /* cannot be unloaded as long as this code runs */
    bool loader_knows; /* so the loader can tell when it is gone */
    uint64_t entry; /* its number in the page of process `entered_by`; these two only in the hands of who changes the */
    uint64_t entered_by; /* table */
} fh_module;

/* Brings the table and the page's section in step with what is mapped: new modules are entered, those that are gone get
 * their unloaded_ns. For the moment when the page is made and for each time figures are taken. Any thread; does not
 * allocate; keeps errno. About 2 µs a module and 50 µs for the file. */
void fh_modules_note(void);

/* The number of the module that has code at the address, or one of the two constants. A search through all modules: for
 * addresses that are new. */
unsigned fh_module_find(uintptr_t address);

/* The same, but asks the system if the address is not known, or not known to be still there. The file of mappings is read
 * for at most 1 % of the time. */
unsigned fh_module_learn(uintptr_t address);

const fh_module *fh_module_at(unsigned number);

/* True if the module of that number is still the one that lies at the address. Some 200 ns, nothing for modules that stay. */
bool fh_module_stands(unsigned number, uintptr_t address);

/* Around the address, what can be read as memory of this module, now and as long as this code runs. Empty: nobody knows. */
fh_span fh_module_lasting(const fh_module *m, uintptr_t address);

/* The number of this library's own module; FH_MODULE_NONE when it is linked into the program. */
unsigned fh_module_own(void);

/* Bytes of memory that the table has taken. */
size_t fh_modules_memory(void);

#endif
