/* Stacks through libraries that come and go: reload PLUGIN-A PLUGIN-B. Two libraries take turns at what is mostly the same
 * place in memory, while another thread walks its own stack, and a third one does nothing but load and unload. */
#include "chain.h"

#include "../support/check.h"
#include "observe/unwind/modules.h"
#include "plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_bool stop;
static const char *paths[2];

static __thread struct plugin_notes notes;
static __thread chain mine;
static __thread uintptr_t into_plugin;

__attribute__((noinline)) static void from_plugin(void) {
    CHAIN_ENTER();
    into_plugin = chain_now->expected[chain_now->depth - 1];
    chain_take(64);
    CHAIN_LEAVE();
}

/* While another thread changes the table of modules, nobody waits for it, and a stack may end where a module is new. It must
 * say so then, and be right up to there. */
static unsigned right, cut;

static bool is_cut(const chain *c) {
    unsigned depth = c->depth;
    const uintptr_t expected[] = {c->expected[depth + 1], into_plugin, notes.came_from};
    if (c->found > 3 || c->whole) return false;
    for (unsigned i = 0; i < c->found; i++) CHECK(c->got[i] == expected[i], "frame %u of a stack that is cut", i);
    return true;
}

__attribute__((noinline)) static void use_plugin(unsigned which, bool alone) {
    CHAIN_ENTER();
    void *library = dlopen(paths[which], RTLD_NOW | RTLD_LOCAL);
    CHECK(library, "%s", dlerror());
    unsigned (*call)(struct plugin_notes *, void (*)(void));
    *(void **)&call = dlsym(library, "plugin_call");
    for (unsigned i = 0; i < 3; i++) {
        call(&notes, from_plugin);
        const chain *c = chain_now;
        unsigned depth = c->depth;
        if (!alone && is_cut(c)) {
            cut++;
            continue;
        }
        CHECK(c->found > 4 && c->got[0] == c->expected[depth + 1] && c->got[1] == into_plugin &&
                  c->got[2] == notes.came_from,
              "through plugin %u: %u frames, %#lx %#lx %#lx, expected %#lx %#lx %#lx", which, c->found,
              (unsigned long)c->got[0], (unsigned long)c->got[1], (unsigned long)c->got[2],
              (unsigned long)c->expected[depth + 1], (unsigned long)into_plugin, notes.came_from);
        for (unsigned k = 0; k < depth; k++) CHECK(c->got[3 + k] == c->expected[depth - 1 - k], "frame %u above", k);
        right++;
    }
    dlclose(library);
    CHAIN_LEAVE();
}

static void *in_thread(void *loads) {
    chain_now = &mine;
    uintptr_t out[64];
    bool whole;
    while (!atomic_load(&stop)) {
        if (loads) {
            void *library = dlopen(paths[0], RTLD_NOW | RTLD_LOCAL);
            if (library) dlclose(library);
        } else {
            CHECK(fh_stack_walk(out, 64, __builtin_frame_address(0), &whole) >= 1 && whole, "a thread of its own");
            fh_modules_refresh();
            usleep(2000);
        }
    }
    return NULL;
}

/* What is read as memory: the program, the C library and the loader, which cannot go. Never a library that may, and no more of
 * a module than what has the address in it. */
static void check_what_stays(void) {
    void *library = dlopen(paths[0], RTLD_NOW | RTLD_LOCAL);
    CHECK(library, "%s", dlerror());
    uintptr_t plugin = (uintptr_t)dlsym(library, "plugin_call");
    const uintptr_t there[] = {(uintptr_t)&check_what_stays, (uintptr_t)&qsort,
                               (uintptr_t)dlsym(NULL, "__tls_get_addr")};
    fh_modules_refresh();
    for (unsigned i = 0; i < sizeof there / sizeof there[0]; i++) {
        unsigned number = fh_module_learn(there[i]);
        CHECK(number < FH_MODULES_MOST, "no module at %#lx", (unsigned long)there[i]);
        const fh_module *m = fh_module_at(number);
        fh_span span = fh_module_lasting(m, there[i]);
        CHECK(m->stays && span.begin <= there[i] && there[i] < span.end, "%u: cannot go, but is copied", i);
        CHECK(span.begin >= m->image.start && span.end <= m->image.limit, "%u: more than the module", i);
        CHECK(fh_module_lasting(m, plugin).end == 0, "%u: the plugin's address is not its own", i);
    }
    unsigned number = fh_module_learn(plugin);
    CHECK(number < FH_MODULES_MOST && !fh_module_at(number)->stays, "the plugin is taken for one that stays");
    CHECK(fh_module_lasting(fh_module_at(number), plugin).end == 0, "the plugin is read as memory");
    dlclose(library);
}

int main(int arguments, char **argument) {
    CHECK(arguments == 3, "reload PLUGIN-A PLUGIN-B");
    paths[0] = argument[1];
    paths[1] = argument[2];
    chain_now = &mine;
    check_what_stays();
    /* Alone: A and B take turns at one place. */
    for (unsigned i = 0; i < 400; i++) use_plugin(i % 2, true);
    pthread_t thread[2];
    for (uintptr_t i = 0; i < 2; i++) pthread_create(&thread[i], NULL, in_thread, (void *)i);
    for (unsigned i = 0; i < 300; i++) use_plugin(1, false);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    printf("%u stacks through plugins that came and went are right, %u were cut\n", right, cut);
    CHECK(right >= 1200 + 450, "only %u stacks were right, %u cut", right, cut);
    return 0;
}
