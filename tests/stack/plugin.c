/* A library to be loaded and unloaded. Built twice, with frames of different sizes in functions at the same place: a rule that
 * outlives its module leads the walk astray. */
#include "plugin.h"

unsigned plugin_call(struct plugin_notes *notes, void (*next)(void)) {
    volatile char room[PLUGIN_FRAME];
    notes->came_from = (unsigned long)__builtin_return_address(0);
    room[0] = room[PLUGIN_FRAME - 1] = 1;
    next();
    return (unsigned)room[0] + (unsigned)room[PLUGIN_FRAME - 1];
}
