/* What the observer calls and this build may not have: no scan. Weak, so that the real one takes its place where it is
 * linked. */
#include "see/reachable.h"

__attribute__((weak)) void fh_reachable_poll(void) {
}
