/* The figures as JSON, for programs that ask themselves: the schema is in the public header. */
#ifndef FH_OBSERVE_JSON_H
#define FH_OBSERVE_JSON_H

#include "observe/output.h"
#include "observe/profile.h"

void fh_json_put(fh_output *out, const fh_profile_statistics *f);

#endif
