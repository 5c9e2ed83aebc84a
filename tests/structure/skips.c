/* For skips.py: a test that leaves out a part, and with an argument all of itself. */
#include "../support/check.h"

int main(int count, char **words) {
    (void)words;
    skip_part("a part by C");
    if (count > 1) skip_test("all by C");
    return 0;
}
