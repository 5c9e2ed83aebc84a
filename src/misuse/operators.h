/* A module may have operators new and delete of its own, which call malloc and free: libLLVM and others that link the C++ library
 * into themselves. What it allocates the program may release by the operator that everybody has, and the other way round. To us
 * these are blocks of malloc that are deleted, and blocks of new that are freed, and no mistake of the program's. */
#ifndef FH_MISUSE_OPERATORS_H
#define FH_MISUSE_OPERATORS_H

#include <stdbool.h>
#include <stdint.h>

/* Was the stack's innermost call, of malloc and its kin, made by such an operator? For reports. */
bool fh_operators_new_called(uint32_t stack);

/* And may such an operator have called free? It usually jumps there and leaves no trace, so the module decides: one that has an
 * operator delete. */
bool fh_operators_delete_called(uint32_t stack);

#endif
