/* The figures as OpenMetrics text: what Prometheus and its kin read. */
#ifndef FH_OBSERVE_METRICS_H
#define FH_OBSERVE_METRICS_H

#include "observe/output.h"
#include "observe/profile.h"

void fh_metrics_put(fh_output *out, const fh_profile_figures *f);

/* Writes the file that the option metrics names, if it does and nobody else is at it. `now`: at once, else only if it is
 * due (see fh_hook_moment). Never waits for another thread. */
void fh_metrics_write(bool now);

#endif
