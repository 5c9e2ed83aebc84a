// The end of a thread, in every order: thread_local objects and pthread keys whose destructors allocate and free,
// also after the allocator's own destructor for this thread has run; threads that are cancelled or leave by
// pthread_exit; blocks that outlive their thread and are freed by another.
//
// The order in which keys are destroyed is nobody's promise, so keys are made before and after the allocator is
// first used, and set again from their own destructor: the C library then goes round up to four times, and in the
// last round whatever the allocator kept for the thread is gone.
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <pthread.h>
#include <string>
#include <thread>
#include <vector>

namespace {

// How often each key asks for another round. A sanitizer's own end of a thread comes before the last of them, and what
// it has instrumented does not run afterwards: with the system's allocator, too.
#ifdef T_SANITIZED
constexpr int early_rounds = 2, late_rounds = 1;
#else
constexpr int early_rounds = 4, late_rounds = 3;
#endif

std::atomic<int> object_destructors, key_destructors;
pthread_key_t early_key, late_key;

void use_heap(std::size_t salt) {
    void *blocks[40];
    for (std::size_t i = 0; i < 40; i++) {
        const std::size_t size = (i * 7919 + salt * 31) % 9000;
        blocks[i] = t_malloc(size);
        CHECK(blocks[i], "malloc(%zu) at the end of a thread: NULL", size);
        std::memset(blocks[i], static_cast<int>(i), size);
    }
    void *large = t_realloc(t_malloc(100), 300000);
    CHECK(large, "realloc at the end of a thread: NULL");
    std::memset(large, 3, 300000);
    t_free(large);
    for (void *block : blocks) {
        t_free(block);
    }
}

// Holds memory of the allocator under test, allocated when made, resized and freed when destroyed.
struct Resident {
    char *memory = static_cast<char *>(t_malloc(500));
    std::string name = std::string(100, 'n');
    ~Resident() {
        memory = static_cast<char *>(t_realloc(memory, 5000));
        CHECK(memory, "realloc in a thread_local destructor: NULL");
        use_heap(1);
        t_free(memory);
        object_destructors++;
    }
};

thread_local Resident resident;

// The value counts the rounds still wanted; setting it again asks the C library for another round.
void key_destructor(pthread_key_t key, void *value) {
    auto *rounds = static_cast<int *>(value);
    use_heap(2);
    key_destructors++;
    if (--*rounds > 0) {
        auto *next = static_cast<int *>(t_malloc(sizeof(int)));
        CHECK(next, "malloc in a key's destructor: NULL");
        *next = *rounds;
        pthread_setspecific(key, next);
    }
    t_free(rounds);
}

void early_destructor(void *value) {
    key_destructor(early_key, value);
}
void late_destructor(void *value) {
    key_destructor(late_key, value);
}

void set_key(pthread_key_t key, int rounds) {
    auto *value = static_cast<int *>(t_malloc(sizeof(int)));
    *value = rounds;
    CHECK(pthread_setspecific(key, value) == 0, "pthread_setspecific");
}

// The ways out of a thread.
enum Way { RETURN, EXIT, CANCEL };

void *thread_body(void *argument) {
    const auto way = static_cast<Way>(reinterpret_cast<std::intptr_t>(argument) % 3);
    set_key(early_key, early_rounds);
    CHECK(resident.memory, "the thread_local object has no memory");
    set_key(late_key, late_rounds);
    use_heap(3);
    auto *left_behind = static_cast<char *>(t_malloc(1234));
    pattern_fill(left_behind, 1234, 99);
    if (way == EXIT) {
        pthread_exit(left_behind);
    }
    if (way == CANCEL) {
        t_free(left_behind);
        for (;;) {
            use_heap(4);
            pthread_testcancel();
        }
    }
    return left_behind;
}

void storm(int rounds, int at_once) {
    for (int round = 0; round < rounds; round++) {
        std::vector<pthread_t> threads(static_cast<std::size_t>(at_once));
        for (std::size_t i = 0; i < threads.size(); i++) {
            CHECK(pthread_create(&threads[i], nullptr, thread_body, reinterpret_cast<void *>(i)) == 0, "create");
        }
        for (std::size_t i = 0; i < threads.size(); i++) {
            if (i % 3 == CANCEL) {
                pthread_cancel(threads[i]);
            }
            void *left = nullptr;
            pthread_join(threads[i], &left);
            if (left != PTHREAD_CANCELED) {
                CHECK(pattern_wrong(left, 1234, 99) < 0, "what a dead thread left behind changed");
                t_free(left);
            }
        }
    }
}

} // namespace

int main() {
    CHECK(pthread_key_create(&early_key, early_destructor) == 0, "pthread_key_create");
    use_heap(0);
    CHECK(pthread_key_create(&late_key, late_destructor) == 0, "pthread_key_create");
    const int rounds = 60, at_once = 12;
    storm(rounds, at_once);
    CHECK(object_destructors == rounds * at_once, "%d thread_local objects were destroyed", object_destructors.load());
    CHECK(key_destructors == rounds * at_once * (early_rounds + late_rounds), "%d key destructors ran",
          key_destructors.load());
    // The main thread's own thread_local object goes at exit; so does this handler's memory.
    std::atexit([] { use_heap(5); });
    std::printf("%d threads ended in three ways\n", rounds * at_once);
}
