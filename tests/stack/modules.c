/* The page's modules: modules PLUGIN. The program, its libraries and the kernel's are there, with range, bias and build-id; a
 * library that is loaded appears, has a time of its end when it is unloaded, and none when it is back. */
#include "../support/check.h"

#include "observe/profile.h"

#include <freehold/freehold.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <sys/mman.h>

static char *page;
static fh_profile_control *control;

static uint64_t load(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void open_page(void) {
    char path[600];
    const char *folder = getenv("REACH_PAGE");
    CHECK(folder, "REACH_PAGE is not set");
    for (unsigned i = 0; i < 1000; i++) fh_free(fh_malloc(100 + i * 50));
    snprintf(path, sizeof path, "%s/freehold-%d", folder, (int)getpid());
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0, "no page at %s", path);
    page = mmap(NULL, 1 << 26, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(page != MAP_FAILED, "mmap");
    close(fd);
    unlink(path);
    control = (fh_profile_control *)(page + FH_PROFILE_CONTROL_OFFSET);
}

/* New figures, and with them the modules as they are now. */
static void refresh(void) {
    uint64_t number = load(&control->refresh) + 1;
    double end = seconds_now() + 60;
    __atomic_store_n(&control->refresh, number, __ATOMIC_RELEASE);
    while (load(&control->refreshed) < number) {
        void *volatile p = fh_malloc(300000);
        fh_free(p);
        CHECK(seconds_now() < end, "no new figures");
    }
}

/* The word has a check below the time. */
static bool unloaded(const fh_profile_module *m) {
    return m->unloaded_ns >> 16 != 0;
}

/* The module that has code at the address and is still there, else the last one that was; NULL: none. */
static const fh_profile_module *module_at(uintptr_t address) {
    const fh_profile_section *s = &((const fh_profile_header *)page)->section[FH_PROFILE_MODULES];
    const fh_profile_module *found = NULL;
    uint64_t seen = 0, used = load(&s->used);
    for (unsigned k = 0; k < FH_PROFILE_EXTENTS && s->extent[k]; k++) {
        const fh_profile_module *m = (const fh_profile_module *)(page + s->extent[k]);
        for (uint64_t i = 0; i < (uint64_t)s->first << k && seen < used; i++, seen++) {
            if (address < m[i].begin || address >= m[i].end) continue;
            if (!found || !unloaded(&m[i])) found = &m[i];
        }
    }
    return found;
}

static void check_module(uintptr_t address, const char *name) {
    const fh_profile_module *m = module_at(address);
    Dl_info info;
    struct link_map *map = NULL;
    CHECK(m, "%s: no module at %#lx", name, (unsigned long)address);
    CHECK(strstr(m->path, name) && !unloaded(m), "%s: is %s, unloaded %#llx", name, m->path,
          (unsigned long long)m->unloaded_ns);
    CHECK(m->build_id_bytes == 20 || m->build_id_bytes == 16, "%s: a build-id of %u bytes", name, m->build_id_bytes);
    CHECK(dladdr1((void *)address, &info, (void **)&map, RTLD_DL_LINKMAP) && m->bias == map->l_addr, "%s: bias %#llx",
          name, (unsigned long long)m->bias);
}

int main(int arguments, char **argument) {
    CHECK(arguments == 2, "modules PLUGIN");
    open_page();
    refresh();
    check_module((uintptr_t)&main, "test-stack-modules");
    check_module((uintptr_t)&qsort, "libc.so");
    for (unsigned i = 0; i < 5; i++) {
        void *library = dlopen(argument[1], RTLD_NOW);
        CHECK(library, "%s", dlerror());
        uintptr_t code = (uintptr_t)dlsym(library, "plugin_call");
        refresh();
        check_module(code, "stack-plugin");
        dlclose(library);
        refresh();
        const fh_profile_module *m = module_at(code);
        CHECK(m && strstr(m->path, "stack-plugin") && unloaded(m), "round %u: the plugin has gone, and is %s", i,
              m ? "still there" : "missing");
    }
    printf("modules come and go as they should\n");
    return 0;
}
