// Allocates before, while and after it is recorded, in two threads, and says when. The test reads and answers.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { EARLY = 500, PAIRS = 1000, OTHERS = 100 };

static void *volatile kept[EARLY];
static int go[2], done[2];

static void await(int from) {
    char byte;
    if (read(from, &byte, 1) != 1) {
        _exit(3);
    }
}

static void tell(int to, const char *line) {
    size_t length = 0;
    while (line[length++] != '\n') {
    }
    if (write(to, line, length) != (ssize_t)length) {
        _exit(3);
    }
}

static void pairs(int count) {
    for (int i = 0; i < count; i++) {
        void *volatile block = malloc(64 + (size_t)i);
        free(block);
    }
}

static void *other(void *unused) {
    pairs(OTHERS);
    tell(done[1], "\n");
    await(go[0]);
    pairs(OTHERS);
    tell(done[1], "\n");
    await(go[0]);
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pipe(go) != 0 || pipe(done) != 0 || pthread_create(&thread, NULL, other, NULL) != 0) {
        return 2;
    }
    for (int i = 0; i < EARLY; i++) {
        kept[i] = malloc(100);
    }
    // A thread that starts late would else be recorded before the test has answered.
    await(done[0]);
    tell(1, "early\n");
    await(0);
    pairs(PAIRS);
    for (int i = 0; i < EARLY; i++) {
        free(kept[i]);
    }
    tell(go[1], "\n");
    await(done[0]);
    tell(1, "recorded\n");
    await(0);
    pairs(PAIRS);
    tell(go[1], "\n");
    pthread_join(thread, NULL);
    tell(1, "late\n");
    return 0;
}
