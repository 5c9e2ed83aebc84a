#ifndef FREEHOLD_TESTS_STACK_PLUGIN_H
#define FREEHOLD_TESTS_STACK_PLUGIN_H

struct plugin_notes {
    unsigned long came_from;
};

unsigned plugin_call(struct plugin_notes *notes, void (*next)(void));

#endif
