/* Nobody blocks: a thread is stopped for ever at each step of the shared protocols in turn, and the others go on.
 *
 * A step is an atomic operation of the library (proof/include/base/atomic.h lists all of them). This program first runs each
 * scenario (stall_scenarios.c) with nobody stopped and notes the steps that its victim takes; where two threads have to
 * meet, once for each place at which the other can come between. Then, for each step that was seen, in up to so many
 * scenarios, at its first time and at one in the middle: the victim comes there and never goes on. Then the process forks. The child has
 * none of its threads, takes in what they had cached, and can have all of a limit that it sets (stall_fork.c). In the parent
 * two other threads
 *
 *   - allocate and free blocks of all kinds once, with fresh slabs and chunks on the way,
 *   - then allocate and free N blocks of the size that the victim was dealing with, giving everything back eight times
 *     meanwhile, so that fresh slabs are needed again. It is N/16 but at one step of sixteen, and N/50 when it has been stopped
 *     at this step before, at another time; N always in a soak; and a hundredth of blocks above 2 MiB, which are purged each time,
 *
 * and free everything. What is then not back must be no more than the blocks that the scenario's threads have and BOUND:
 *
 *     the magazines of the parked thread (2 MiB at most), and in the child of a fork those of a thread that it was about to
 *     hand in; the slots of one chunk that it has claimed in order to purge or to use them (4 MiB); as much once more,
 *     hidden by a mark that it was about to set or clear
 *
 * A step of store/, cache/ or heap/ that no scenario reaches must be in stall_unreached.txt with its reason, and one that is there
 * must not be reached. Of the observer's steps (observe/), which no allocation waits for or depends on, seven of ten must be.
 *
 *     test-proof-stall LIST          all of it
 *     FREEHOLD_STALL_OPERATIONS=N    else 10^6               FREEHOLD_STALL_SITES=TEXT      only steps whose name has this
 *     FREEHOLD_STALL_SECONDS=N       for one stop           FREEHOLD_STALL_SCENARIO=TEXT   only scenarios of that name
 *     FREEHOLD_SOAK=N                every scenario and four times of each step, 10^6 blocks at each: as many of these stops
 *                                    as five times N seconds allow, and it says where the next soak may go on:
 *                                    FREEHOLD_STALL_FIRST=N, else the clock draws where it begins
 *
 * Broken twins of the library must fail in it (CMakeLists.txt): one with a lock, one that keeps its memory, and four whose
 * child of a fork does not get what the other threads had. */
#include "stall.h"

#include "base/atomic.h"
#include "check/verify.h"
#include "freehold/freehold.h"
#include "store/events.h"
#include "store/purge.h"
#include "../support/check.h"

#include <dirent.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define BOUND ((size_t)12 << 20)
#define OTHERS 2
#define MOST_SITES 4096
#define MOST_PLANS 12
#define NEVER ~0ul
#define NOT_WHOLE 7        /* a status */
#define AT_ANOTHER_TIME 50 /* by this are the blocks fewer at the second and later stops at one step */
#define IN_TWO 4           /* one step in so many is tried in two scenarios, the others in one */
#define AT_OTHER_STEPS 16  /* and by this at the first stop, but for one step in so many */

extern fh_proof_site __start_fh_proof_sites[], __stop_fh_proof_sites[];

/* ── The steps ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* What a run tells the parent: memory that both have. */
typedef struct {
    unsigned long hits[MOST_SITES]; /* by canonical site, of the victim */
    unsigned long steps;
    size_t left;          /* bytes that did not come back, beyond the scenario's live blocks */
    unsigned left_caches; /* kinds of caches that a child took in */
    enum { RUNNING, WENT_THROUGH, PARKED } result;
} report;

static report *shared;
static unsigned
    canonical[MOST_SITES]; /* a function of a header is compiled into several files: the first of its sites */
static unsigned sites;

__thread int stall_is_victim;
volatile size_t stall_live, stall_size = 64, stall_slots;

static unsigned stop_at = ~0u;             /* the victim's last step, a canonical site; ~0: it goes through */
static unsigned long stop_after;           /* and how often it passes it before */
static unsigned long interfere_at = NEVER; /* before which of the victim's steps the other comes in */
static const stall_scenario *scenario;
static sem_t come_in, was_there;

static unsigned seconds_allowed;         /* for one stop, until it is said that somebody waits */
static unsigned long wanted, wanted_now; /* blocks for the others to allocate; in this run */

static void *drive(void *none);

/* Never goes on. A new thread takes over the test: in the child of a fork there may be no other. */
static void park(void) {
    stall_is_victim = 0;
    pthread_t driver;
    if (pthread_create(&driver, NULL, drive, NULL) != 0) _exit(4);
    for (;;) pause();
}

void fh_proof_step(fh_proof_site *site, const void *word, int writes) {
    (void)word, (void)writes;
    if (!stall_is_victim) return;
    unsigned me = canonical[site - __start_fh_proof_sites];
    shared->hits[me]++;
    if (shared->steps++ == interfere_at) {
        sem_post(&come_in);
        sem_wait(&was_there);
    }
    if (me == stop_at && stop_after-- == 0) park();
}

/* ── The others ──────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    size_t size;
    unsigned live;
} kind;
static const kind kinds[] = {{16, 20000},   {64, 20000},  {1024, 6000}, {40000, 200}, {131072, 40},
                             {1048576, 24}, {1500000, 4}, {3000000, 2}, {20000000, 1}};
#define KINDS (sizeof kinds / sizeof kinds[0])
#define MOST_LIVE 20000

static void *pool[OTHERS][MOST_LIVE];

/* An order in which blocks are freed that is not the one in which they were allocated: drawn once for a number of blocks,
 * as the drawing cost more than the allocating. */
typedef struct {
    unsigned live;
    uint16_t place[MOST_LIVE];
} order;

static void draw_order(order *o, unsigned live, uint64_t *seed) {
    o->live = live;
    for (unsigned i = 0; i < live; i++) {
        unsigned j = (unsigned)random_below(seed, i + 1);
        o->place[i] = o->place[j];
        o->place[j] = (uint16_t)i;
    }
}

/* Allocates so many of a kind, writes to each, and frees them in that order. Returns how many. */
static unsigned long round_of(size_t size, const order *o, void **block) {
    for (unsigned i = 0; i < o->live; i++) {
        block[i] = fh_malloc(size);
        CHECK(block[i] != NULL, "no block of %zu bytes", size);
        memset(block[i], 0x5A, size < 64 ? size : 64);
    }
    for (unsigned i = 0; i < o->live; i++) fh_free(block[o->place[i]]);
    return o->live;
}

/* So often each of the others gives everything back, and needs fresh slabs again. */
#define TIMES_GIVEN_BACK 8

static void *other(void *number) {
    static order orders[OTHERS];
    order *o = &orders[(uintptr_t)number];
    void **mine = pool[(uintptr_t)number];
    uint64_t seed = 2;
    for (unsigned k = 0; k < KINDS; k++) {
        draw_order(o, kinds[k].live, &seed);
        round_of(kinds[k].size, o, mine);
    }
    size_t size = stall_size;
    draw_order(o, size > (4 << 20) / MOST_LIVE ? (unsigned)((4 << 20) / size) + 1 : MOST_LIVE, &seed);
    /* What is over several chunks costs as much for each of them, and what is more than may be kept is purged each time. */
    unsigned long count = (size > (2 << 20) ? wanted_now / 100 : wanted_now) / OTHERS, done = 0, next = 0;
    while (done < count) {
        done += round_of(size, o, mine);
        if (done < next) continue;
        fh_thread_flush();
        fh_malloc_trim(0);
        next += count / TIMES_GIVEN_BACK + 1;
    }
    return NULL;
}

/* After the victim was parked: the others, then the account. */
static void *drive(void *none) {
    (void)none;
    alarm(seconds_allowed); /* in the child of a fork nobody has set it yet */
    if (scenario->clear) scenario->clear();
    stall_answer child = stall_ask_child(seconds_allowed, &shared->left_caches);
    if (child != STALL_HAS_ALL) _exit(child);
    pthread_t thread[OTHERS];
    for (uintptr_t i = 0; i < OTHERS; i++) {
        CHECK(pthread_create(&thread[i], NULL, other, (void *)i) == 0, "no thread");
    }
    for (int i = 0; i < OTHERS; i++) pthread_join(thread[i], NULL);
    fh_malloc_trim(0);
    size_t all = fh_used_bytes() + fh_dirty_bytes();
    size_t live = stall_live + stall_live / 8;
    shared->left = all > live ? all - live : 0;
    shared->result = PARKED;
    _exit(shared->left <= BOUND ? 0 : 5);
}

/* ── One run ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void *interfere(void *none) {
    sem_wait(&come_in);
    scenario->other();
    sem_post(&was_there);
    /* It stays, as its end would be the end of its cache, and the victim may never come to its own. */
    for (;;) pause();
    return none;
}

static void *be_victim(void *none) {
    stall_is_victim = 1;
    scenario->victim();
    stall_is_victim = 0;
    /* The other thread waits or is done for good, so the heap is at rest: a chance to see all that two threads can make of it
     * when they meet. */
    fh_verification check = {.found = fh_check_say, .held_slots = stall_slots, .counted_slots = stall_slots};
    if (stop_at == ~0u && !scenario->own_thread) fh_check_heap(&check);
    shared->result = WENT_THROUGH;
    _exit(check.violated ? NOT_WHOLE : 0);
    return none;
}

/* The whole of a child process. */
static void run(void) {
    alarm(seconds_allowed);
    sem_init(&come_in, 0, 0);
    sem_init(&was_there, 0, 0);
    if (scenario->prepare) scenario->prepare();
    pthread_t first, second;
    if (scenario->forks) {
        stall_is_victim = 1;
        pid_t pid = fork();
        stall_is_victim = 0;
        if (pid != 0) {
            int status;
            waitpid(pid, &status, 0);
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 6);
        }
        alarm(seconds_allowed);
    }
    if (scenario->other) CHECK(pthread_create(&second, NULL, interfere, NULL) == 0, "no thread");
    CHECK(pthread_create(&first, NULL, be_victim, NULL) == 0, "no thread");
    for (;;) pause();
}

char stall_folder[] = "/tmp/freehold-stall-XXXXXX";

/* A parked process leaves its files behind. */
static void empty_folder(void) {
    DIR *folder = opendir(stall_folder);
    CHECK(folder != NULL, "no folder %s", stall_folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
}

/* Runs a scenario in a process of its own. False: it failed, and `why` says how. */
static int in_child(const stall_scenario *s, unsigned long interfere_before, unsigned stop, unsigned long after,
                    const char **why) {
    memset(shared, 0, sizeof *shared);
    scenario = s;
    interfere_at = interfere_before;
    stop_at = stop;
    stop_after = after;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) run();
    int status;
    waitpid(pid, &status, 0);
    empty_folder();
    *why = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "somebody waits for the parked thread"
           : WIFSIGNALED(status)                              ? strsignal(WTERMSIG(status))
           : WEXITSTATUS(status) == 6                         ? "the child of the fork died; or somebody waits in it"
           : WEXITSTATUS(status) == 5                         ? "memory did not come back"
           : WEXITSTATUS(status) == STALL_CHILD_DIED          ? "a child died; or somebody waits in it"
           : WEXITSTATUS(status) == STALL_NO_PARKED           ? "a child does not get what was parked"
           : WEXITSTATUS(status) == STALL_NO_ORPHANS          ? "a child does not get what its orphans had"
           : WEXITSTATUS(status) == STALL_NOT_ITS_LIMIT       ? "a child cannot have all of its limit"
           : WEXITSTATUS(status) == NOT_WHOLE                 ? "the heap is not whole"
                                                              : "a check failed";
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ── All runs ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A way to come to a site. */
typedef struct {
    const stall_scenario *scenario;
    unsigned long interfere_before, hits;
} plan;

static plan plans[MOST_SITES][MOST_PLANS];
static unsigned plan_count[MOST_SITES];
static unsigned long searched, failures, left_caches;

/* From the last "/src/" of a path on: the tree itself may be in a folder of that name. */
static const char *in_source(const char *path) {
    const char *last = NULL;
    for (const char *at = path; (at = strstr(at, "/src/")) != NULL; at++) last = at;
    return last;
}

static const char *name_of(unsigned site) {
    static char text[256];
    const fh_proof_site *s = &__start_fh_proof_sites[site];
    const char *file = in_source(s->file);
    snprintf(text, sizeof text, "%s:%d %s %s", file ? file + 5 : s->file, s->line, s->function, s->operation);
    return text;
}

/* As stall_unreached.txt has it: without the line, which changes with every edit. */
static void key_of(unsigned site, char *key, size_t size) {
    const fh_proof_site *s = &__start_fh_proof_sites[site];
    const char *file = in_source(s->file);
    snprintf(key, size, "%s %s %s ", file ? file + 5 : s->file, s->function, s->operation);
}

static void number_sites(void) {
    sites = (unsigned)(__stop_fh_proof_sites - __start_fh_proof_sites);
    CHECK(sites <= MOST_SITES, "%u sites: MOST_SITES is too small", sites);
    for (unsigned i = 0; i < sites; i++) {
        const fh_proof_site *a = &__start_fh_proof_sites[i];
        canonical[i] = i;
        for (unsigned j = 0; j < i && canonical[i] == i; j++) {
            const fh_proof_site *b = &__start_fh_proof_sites[j];
            if (a->line == b->line && !strcmp(a->file, b->file) && !strcmp(a->operation, b->operation))
                canonical[i] = j;
        }
    }
}

/* What is shared by threads as part of the protocols; the rest are answers of the system that are asked for once. */
static int is_protocol(unsigned site) {
    const char *file = __start_fh_proof_sites[site].file;
    return canonical[site] == site &&
           (strstr(file, "/store/") || strstr(file, "/cache/") || strstr(file, "/heap/") || strstr(file, "/observe/"));
}

/* Runs a scenario without a stop and notes where its victim came by. */
static void note_steps(const stall_scenario *s, unsigned long interfere_before) {
    const char *why;
    searched++;
    if (!in_child(s, interfere_before, ~0u, 0, &why) || shared->result != WENT_THROUGH) {
        fprintf(stderr, "FAILED: scenario \"%s\", nobody parked, second thread at step %ld: %s\n", s->name,
                (long)interfere_before, why);
        failures++;
        return;
    }
    for (unsigned i = 0; i < sites; i++) {
        unsigned n = plan_count[i];
        if (!shared->hits[i] || n == MOST_PLANS || (n && plans[i][n - 1].scenario == s)) continue;
        plans[i][n] = (plan){s, interfere_before, shared->hits[i]};
        plan_count[i]++;
    }
}

static void find_in(const stall_scenario *all, size_t count) {
    const char *only = getenv("FREEHOLD_STALL_SCENARIO");
    for (size_t i = 0; i < count; i++) {
        const stall_scenario *s = &all[i];
        if (only && !strstr(s->name, only)) continue;
        note_steps(s, NEVER);
        unsigned long steps = s->other ? shared->steps : 0;
        /* Where there are very many, as where figures of the whole heap are taken, at 1,000 of the places between two. */
        unsigned long apart = steps / 1000 + 1;
        for (unsigned long k = 0; k < steps; k += apart) note_steps(s, k);
    }
}

static void find_plans(void) {
    find_in(stall_scenarios, stall_scenario_count);
    find_in(stall_meetings, stall_meeting_count);
}

/* True if the victim was parked there. Where a scenario draws by chance (observed ones do), it may not come by as often as
 * the first time; the caller sees to it that it does at least once. */
static int stop_there(unsigned site, const plan *p, unsigned long after, size_t *worst) {
    const char *why;
    int good = in_child(p->scenario, p->interfere_before, site, after, &why);
    if (shared->left > *worst) *worst = shared->left;
    left_caches += shared->left_caches;
    if (good) return shared->result == PARKED;
    fprintf(stderr, "FAILED with a thread parked at %s, time %lu, scenario \"%s\": %s, %zu KiB\n", name_of(site),
            after + 1, p->scenario->name, why, shared->left >> 10);
    failures++;
    return 1;
}

/* ── The stops ───────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    unsigned short site, plan;
    unsigned long after; /* how often the victim passes the step before it stops there */
} stop;

static stop stops[MOST_SITES * MOST_PLANS * 4];
static unsigned long stop_count;

/* In up to so many scenarios, at the first time that the victim comes by and at later ones. */
static void list_stops(unsigned site, int soak) {
    unsigned most = soak ? MOST_PLANS : site % IN_TWO ? 1 : 2;
    for (unsigned n = 0; n < plan_count[site] && n < most; n++) {
        unsigned long hits = plans[site][n].hits, times[4] = {0, hits / 2, hits / 4, hits - 1}, before = NEVER;
        for (unsigned t = 0; t < (soak ? 4 : n ? 1 : 2); t++) {
            if (times[t] == before) continue;
            before = times[t];
            stops[stop_count++] = (stop){(unsigned short)site, (unsigned short)n, times[t]};
        }
    }
}

static unsigned long tried[MOST_SITES], parked_at[MOST_SITES];

static void stop_once(const stop *where, int soak, size_t *worst) {
    unsigned site = where->site;
    unsigned long fewer = parked_at[site] ? AT_ANOTHER_TIME : site % AT_OTHER_STEPS ? AT_OTHER_STEPS : 1;
    wanted_now = soak ? wanted : wanted / fewer;
    parked_at[site] += (unsigned long)stop_there(site, &plans[site][where->plan], where->after, worst);
    tried[site]++;
}

static void shuffle_stops(void) {
    uint64_t seed = 1;
    for (unsigned long i = stop_count; i > 1; i--) {
        unsigned long other = random_below(&seed, i);
        stop last = stops[i - 1];
        stops[i - 1] = stops[other];
        stops[other] = last;
    }
}

/* Goes through all stops. In a soak there is an end to the time: then they come in an order that is always the same and in
 * which neighbours have nothing to do with each other, so that any part of it is spread over all steps. Where it begins is
 * given, or else drawn by the clock. */
static unsigned long stop_everywhere(double seconds, size_t *worst) {
    int soak = seconds > 0;
    unsigned long first = 0, done = 0;
    double end = seconds_now() + seconds;
    if (soak && stop_count) {
        shuffle_stops();
        first = env_number("FREEHOLD_STALL_FIRST", (unsigned long)time(NULL)) % stop_count;
    }
    while (done < stop_count && (!soak || seconds_now() < end)) {
        stop_once(&stops[(first + done) % stop_count], soak, worst);
        done++;
    }
    if (soak) {
        printf("%lu of %lu stops, from number %lu on; FREEHOLD_STALL_FIRST=%lu goes on with the rest\n", done,
               stop_count, first, (first + done) % stop_count);
    }
    return done;
}

/* Some steps of the observer are taken only so many milliseconds after others. What none of its stops met is looked for in all its
 * scenarios again. */
static void stop_at_missed(size_t *worst) {
    wanted_now = wanted / AT_OTHER_STEPS;
    for (unsigned i = 0; i < sites; i++) {
        for (unsigned n = 0; tried[i] && !parked_at[i] && n < 4 * plan_count[i]; n++)
            parked_at[i] += (unsigned long)stop_there(i, &plans[i][n % plan_count[i]], 0, worst);
    }
}

/* A step that was seen at first and then by none of the stops that were meant for it has not been tested. */
static void check_parked(void) {
    for (unsigned i = 0; i < sites; i++) {
        if (!tried[i] || parked_at[i]) continue;
        fprintf(stderr, "FAILED: %s was reached once and never again\n", name_of(i));
        failures++;
    }
}

/* The steps that cannot be reached, each with its reason. */
static void check_unreached(const char *list, unsigned *unreached) {
    static char text[1 << 16];
    unsigned observers = 0, observers_unreached = 0;
    FILE *file = fopen(list, "r");
    CHECK(file != NULL, "%s cannot be read", list);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    for (unsigned i = 0; i < sites; i++) {
        char key[256];
        if (!is_protocol(i)) continue;
        key_of(i, key, sizeof key);
        const char *entry = strstr(text, key);
        int listed = entry && (entry == text || entry[-1] == '\n');
        *unreached += !plan_count[i];
        int observer = strstr(key, "observe/") == key;
        observers += observer;
        observers_unreached += observer && !plan_count[i];
        if (!plan_count[i] && observer) printf("not reached, of the observer: %s\n", name_of(i));
        if (!plan_count[i] && !listed && !observer) {
            fprintf(stderr, "FAILED: no scenario reaches %s, and %s gives no reason\n", name_of(i), list);
            failures++;
        }
    }
    CHECK(observers_unreached * 10 <= observers * 3, "%u of the observer's %u steps are not reached",
          observers_unreached, observers);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (*line == '#' || !*line) continue;
        unsigned matches = 0, all_reached = 1;
        for (unsigned i = 0; i < sites; i++) {
            char key[256];
            key_of(i, key, sizeof key);
            if (!is_protocol(i) || strncmp(line, key, strlen(key)) != 0) continue;
            matches++;
            if (!plan_count[i]) all_reached = 0;
        }
        if (matches && !all_reached) continue;
        fprintf(stderr, "FAILED: %s has a line too many: %s\n", list, line);
        failures++;
    }
}

int main(int count, char **argument) {
    CHECK(count == 2, "usage: %s LIST-OF-UNREACHED-STEPS", argument[0]);
    int soak = getenv("FREEHOLD_SOAK") != NULL;
    const char *only = getenv("FREEHOLD_STALL_SITES");
    wanted = env_number("FREEHOLD_STALL_OPERATIONS", 1000000);
    seconds_allowed = (unsigned)env_number("FREEHOLD_STALL_SECONDS", 30 + wanted / 5000);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED, "no memory for the test itself");
    CHECK(mkdtemp(stall_folder) != NULL, "no folder for the scenarios' files");
    number_sites();
    double begun = seconds_now();
    find_plans();
    double found = seconds_now();
    unsigned distinct = 0, unreached = 0;
    if (!getenv("FREEHOLD_STALL_SCENARIO")) check_unreached(argument[1], &unreached);
    size_t worst = 0;
    for (unsigned i = 0; i < sites; i++) {
        if (!is_protocol(i)) continue;
        distinct++;
        if (!only || strstr(name_of(i), only)) list_stops(i, soak);
    }
    unsigned long done = stop_everywhere(soak ? 5 * (double)env_number("FREEHOLD_SOAK", 0) : 0, &worst);
    if (done == stop_count) {
        stop_at_missed(&worst);
        check_parked();
    }
    printf(
        "%u steps of the shared protocols, a thread parked at %u of them, %lu times; each time the others went on, for "
        "%lu blocks at most.\nAt most %zu KiB beyond the live blocks did not come back. %lu runs to find the steps in "
        "%.0f s, the stops took %.0f s.\n",
        distinct, distinct - unreached, done, wanted, worst >> 10, searched, found - begun, seconds_now() - found);
    fflush(stdout);
    rmdir(stall_folder);
    CHECK(failures == 0, "%lu failures", failures);
    CHECK(only || soak || done > distinct, "only %lu stops", done);
    CHECK(done > 0, "no stop at all");
    CHECK(left_caches >= done, "%lu caches were left to the children of %lu forks", left_caches, done);
    return 0;
}
