/* The model's stand-in for src/base/assert.h: the cheap assertions are on, and one that fails is a finding. Then the run is
 * over, by a panic through the C code; or it goes on, if it is one of those that only teach the explorer an address. */
#ifndef FH_BASE_ASSERT_H
#define FH_BASE_ASSERT_H

#include "base/settings.h"

#define FH_ASSERT_IF(active, condition)                                                                                \
    do {                                                                                                               \
        if ((active) && !(condition)) fh_model->violated(__FILE__, #condition, __LINE__, 0);                           \
    } while (0)

#define FH_ASSERT(condition) FH_ASSERT_IF(1, condition)
#define FH_ASSERT_COSTLY(condition) FH_ASSERT_IF(0, condition)

#endif
