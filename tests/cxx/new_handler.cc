// Out of memory in C++: the new_handler is called, as often as it takes; it may free something and let the
// request succeed, throw, or be absent, and then bad_alloc is thrown; nothrow forms answer nullptr instead.
#include "../support/alloc.h"
#include "../support/check.h"

#include <csetjmp>
#include <new>
#include <stdexcept>
#include <sys/resource.h>
#include <vector>

using std::align_val_t;
using std::nothrow;

namespace {

const std::size_t impossible = opaque(PTRDIFF_MAX) - 100;
int handler_calls;

void handler_gives_up_third_time() {
    if (++handler_calls == 3) {
        std::set_new_handler(nullptr);
    }
}

struct Refusal : std::bad_alloc {};

void handler_throws() {
    ++handler_calls;
    throw Refusal();
}

template <typename Call> void throws_bad_alloc(const char *form, Call call) {
    handler_calls = 0;
    std::set_new_handler(handler_gives_up_third_time);
    bool caught = false;
    try {
        void *block = call();
        CHECK(false, "%s succeeded: %p", form, block);
    } catch (const std::bad_alloc &error) {
        caught = error.what() != nullptr;
    }
    CHECK(caught, "%s threw no bad_alloc", form);
    CHECK(handler_calls == 3, "%s called the handler %d times, not until it gave up", form, handler_calls);
}

template <typename Call> void answers_null(const char *form, Call call) {
    std::set_new_handler(nullptr);
    CHECK(call() == nullptr, "%s without a handler did not answer nullptr", form);
    handler_calls = 0;
    std::set_new_handler(handler_gives_up_third_time);
    CHECK(call() == nullptr, "%s did not answer nullptr", form);
    CHECK(handler_calls == 3, "%s called the handler %d times", form, handler_calls);
    // A handler that throws must not let its exception out of a function that promises not to throw.
    handler_calls = 0;
    std::set_new_handler(handler_throws);
    CHECK(call() == nullptr, "%s with a throwing handler did not answer nullptr", form);
    CHECK(handler_calls == 1, "%s called the throwing handler %d times", form, handler_calls);
    std::set_new_handler(nullptr);
}

void what_a_handler_throws_arrives() {
    std::set_new_handler(handler_throws);
    bool caught = false;
    try {
        ::operator delete(::operator new(impossible));
    } catch (const Refusal &) {
        caught = true;
    }
    CHECK(caught, "what the handler threw did not arrive");
    std::set_new_handler(nullptr);
}

// A handler may be in the middle of a longjmp to safety: nothing may be held when it is called.
std::jmp_buf safety;
void handler_jumps() {
    std::longjmp(safety, 1);
}

void a_handler_may_leave_by_longjmp() {
    std::set_new_handler(handler_jumps);
    if (setjmp(safety) == 0) {
        ::operator delete(::operator new(impossible));
        CHECK(false, "the handler that jumps was not called");
    }
    std::set_new_handler(nullptr);
    ::operator delete(::operator new(100));
}

void *reserve;
void handler_frees_reserve() {
    ++handler_calls;
    if (reserve) {
        std::free(reserve);
        reserve = nullptr;
    } else {
        std::set_new_handler(nullptr);
    }
}

// Under a limit on address space: the handler lets go of a reserve, and the request then succeeds.
void a_handler_that_frees_lets_it_succeed() {
    constexpr std::size_t piece = std::size_t{16} << 20;
    rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    const rlim_t before = limit.rlim_cur;
    reserve = std::malloc(8 * piece);
    CHECK(reserve, "no reserve");
    // What the process has mapped now, and four pieces more.
    unsigned long pages = 0;
    std::FILE *statm = std::fopen("/proc/self/statm", "r");
    CHECK(statm && std::fscanf(statm, "%lu", &pages) == 1, "/proc/self/statm");
    std::fclose(statm);
    limit.rlim_cur = pages * 4096 + 4 * piece;
    if (setrlimit(RLIMIT_AS, &limit) != 0) {
        skip_test("setrlimit(RLIMIT_AS) is not allowed");
    }
    std::vector<void *> held;
    held.reserve(1000);
    handler_calls = 0;
    std::set_new_handler(handler_frees_reserve);
    while (handler_calls == 0) {
        CHECK(held.size() < 900, "%zu pieces and no limit was met", held.size());
        held.push_back(::operator new(piece));
    }
    CHECK(handler_calls == 1 && !reserve, "the handler ran %d times", handler_calls);
    for (void *block : held) {
        ::operator delete(block);
    }
    std::set_new_handler(nullptr);
    limit.rlim_cur = before;
    setrlimit(RLIMIT_AS, &limit);
}

void arrays_that_cannot_be() {
    std::size_t count = opaque(PTRDIFF_MAX);
    bool caught = false;
    try {
        auto *array = new long double[count];
        opaque_pointer(array);
    } catch (const std::bad_alloc &) {
        // gcc throws the derived bad_array_new_length by itself; clang asks operator new[] for SIZE_MAX bytes.
        caught = true;
    }
    CHECK(caught, "new long double[PTRDIFF_MAX] threw no bad_alloc");
}

} // namespace

int main() {
    throws_bad_alloc("new", [] { return ::operator new(impossible); });
    throws_bad_alloc("new[]", [] { return ::operator new[](impossible); });
    throws_bad_alloc("new of SIZE_MAX", [] { return ::operator new(opaque(SIZE_MAX)); });
    throws_bad_alloc("aligned new", [] { return ::operator new (impossible, align_val_t{64}); });
    throws_bad_alloc("aligned new[]", [] { return ::operator new[](impossible, align_val_t{4096}); });
    answers_null("new nothrow", [] { return ::operator new(impossible, nothrow); });
    answers_null("new[] nothrow", [] { return ::operator new[](impossible, nothrow); });
    answers_null("aligned new nothrow", [] { return ::operator new (impossible, align_val_t{64}, nothrow); });
    answers_null("aligned new[] nothrow", [] { return ::operator new[](impossible, align_val_t{64}, nothrow); });
    what_a_handler_throws_arrives();
    a_handler_may_leave_by_longjmp();
    arrays_that_cannot_be();
    a_handler_that_frees_lets_it_succeed();
    std::puts("new_handler, bad_alloc and nothrow as the standard says");
}
