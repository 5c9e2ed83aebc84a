/* The figures as JSON, for programs that ask themselves: the schema is in the public header. */
#ifndef FH_SEE_JSON_H
#define FH_SEE_JSON_H

#include "see/output.h"
#include "see/page.h"

void fh_json_put(fh_output *out, const fh_page_figures *f);

#endif
