/* Linux: the share of CPUs that the control groups allow. linux_group.c answers what system.h asks about groups,
 * too. */
#ifndef FH_SYSTEM_LINUX_GROUP_H
#define FH_SYSTEM_LINUX_GROUP_H

/* How many CPUs' worth of time the control groups allow, rounded up; 0: any number. */
unsigned fh_group_processors(void);

#endif
