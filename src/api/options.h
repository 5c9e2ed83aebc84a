/* Options: FREEHOLD=key=value,key=value in the environment, and fh_option_set. One row of the table in options.c each. */
#ifndef FH_API_OPTIONS_H
#define FH_API_OPTIONS_H

/* Defined in override.c: only the drop-in library has it, so its presence tells the two libraries apart. */
extern const char fh_overrides_malloc __attribute__((weak, visibility("hidden")));

#endif
