/* The model's stand-in for src/base/cpu.h: the barrier asks the explorer. */
#ifndef FH_BASE_CPU_H
#define FH_BASE_CPU_H

#define FH_CACHE_LINE 64

/* On every processor the barrier means what it means on the weakest: a sequentially consistent fence. That x86-64 gets by
 * with a compiler barrier rests on a locked instruction just before it; the hook verifies that as well. */
#define fh_fence_after_rmw() fh_model->fence()

#endif
