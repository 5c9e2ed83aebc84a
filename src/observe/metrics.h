/* The figures as OpenMetrics text: what Prometheus and its kin read. */
#ifndef FH_OBSERVE_METRICS_H
#define FH_OBSERVE_METRICS_H

#include "observe/output.h"
#include "observe/profile.h"

void fh_metrics_put(fh_output *out, const fh_profile_statistics *f);

/* Writes the file that the option metrics names, unless there is none, or another thread is writing it. Never waits. */
void fh_metrics_write(void);

#endif
