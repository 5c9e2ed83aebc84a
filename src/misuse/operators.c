#include "misuse/operators.h"

#include "misuse/stacks.h"
#include "system/inspect.h"

static const char *const news[] = {"_Znwm",
                                   "_Znam",
                                   "_ZnwmRKSt9nothrow_t",
                                   "_ZnamRKSt9nothrow_t",
                                   "_ZnwmSt11align_val_t",
                                   "_ZnamSt11align_val_t",
                                   "_ZnwmSt11align_val_tRKSt9nothrow_t",
                                   "_ZnamSt11align_val_tRKSt9nothrow_t",
                                   NULL};
static const char *const deletes[] = {"_ZdlPv",
                                      "_ZdaPv",
                                      "_ZdlPvm",
                                      "_ZdaPvm",
                                      "_ZdlPvRKSt9nothrow_t",
                                      "_ZdaPvRKSt9nothrow_t",
                                      "_ZdlPvSt11align_val_t",
                                      "_ZdaPvSt11align_val_t",
                                      "_ZdlPvmSt11align_val_t",
                                      "_ZdaPvmSt11align_val_t",
                                      NULL};

static bool is_called_by(uint32_t stack, const char *const *names, bool inside) {
    const uint64_t *addresses;
    /* The call is before the address that it returns to. */
    return fh_stacks_get(stack, &addresses) > 0 && fh_system_has_function((uintptr_t)addresses[0] - 1, names, inside);
}

bool fh_operators_new_called(uint32_t stack) {
    return is_called_by(stack, news, true);
}

bool fh_operators_delete_called(uint32_t stack) {
    return is_called_by(stack, deletes, false);
}
