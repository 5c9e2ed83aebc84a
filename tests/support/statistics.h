/* One figure of what fh_stats_json says. */
#ifndef FREEHOLD_TESTS_STATISTICS_H
#define FREEHOLD_TESTS_STATISTICS_H

#include "check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline uint64_t statistic(const char *json, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *place = strstr(json, key);
    CHECK(place, "the statistics have no %s", name);
    return strtoull(place + strlen(key), NULL, 10);
}

#endif
