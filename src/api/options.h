/* Options: FREEHOLD=key=value,key=value in the environment, and fh_option_set. One row of the table in options.c each. */
#ifndef FH_API_OPTIONS_H
#define FH_API_OPTIONS_H

/* Defined in override.c: only the drop-in library has it, so its presence tells the two libraries apart. The first name
 * may be missing, the second one must be there: it makes a linker take override.c along out of the static library. */
extern const char fh_overrides_malloc __attribute__((weak, visibility("hidden")));
extern const char fh_override_wanted __attribute__((visibility("hidden")));

#endif
