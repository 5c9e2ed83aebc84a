/* Stacks of C++: virtual calls, templates, lambdas, constructors, destructors that an exception runs, handlers, and threads
 * of the C++ library. Compared address for address, as in chains.c. */
#include "chain.h"

#include "../support/check.h"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#define NOINLINE __attribute__((noinline))

static chain first_chain;

/* Taken somewhere inside; kept, because later calls overwrite what is expected. */
static __thread uintptr_t kept[64];
static __thread unsigned kept_depth;

NOINLINE static void take() {
    CHAIN_ENTER();
    chain_take(64);
    kept_depth = chain_now->depth + 1;
    for (unsigned i = 0; i < kept_depth; i++) kept[i] = chain_now->expected[i];
    CHAIN_LEAVE();
}

/* Only the frames of functions that take part are known; what the C++ library has between them is skipped. */
static void check_in_order(const char *what, bool all) {
    chain *c = chain_now;
    unsigned at = 0;
    for (unsigned i = kept_depth; i-- > 0; at++) {
        unsigned begin = at;
        while (at < c->found && c->got[at] != kept[i]) at++;
        CHECK(at < c->found, "%s: %#lx is missing, %u frames", what, (unsigned long)kept[i], c->found);
        CHECK(!all || at == begin, "%s: %u frames too many before %#lx", what, at - begin, (unsigned long)kept[i]);
    }
    CHECK(c->whole, "%s: not walked to the beginning", what);
}

struct shape {
    virtual ~shape() = default;
    virtual double area(double) = 0;
};
struct circle final : shape {
    double area(double r) override {
        CHAIN_ENTER();
        take();
        CHAIN_LEAVE();
        return r * r * 3;
    }
};
struct ring final : shape {
    shape *inner;
    explicit ring(shape *s) : inner(s) {
    }
    double area(double r) override {
        CHAIN_ENTER();
        double a = inner->area(r) + r;
        CHAIN_LEAVE();
        return a;
    }
};

template <typename T, int n> struct nested {
    NOINLINE static T down(T value) {
        CHAIN_ENTER();
        T result = nested<T, n - 1>::down(value + T(n)) + T(1);
        CHAIN_LEAVE();
        return result;
    }
};
template <typename T> struct nested<T, 0> {
    NOINLINE static T down(T value) {
        CHAIN_ENTER();
        take();
        CHAIN_LEAVE();
        return value;
    }
};

struct guard {
    std::string name;
    NOINLINE ~guard() {
        CHAIN_ENTER();
        take();
        CHAIN_LEAVE();
    }
};

/* Not noted by CHAIN_LEAVE when it throws: its caller sets the depth right. */
NOINLINE static void throwing(int n) {
    CHAIN_ENTER();
    std::vector<int> numbers(static_cast<size_t>(n));
    if (n > 3) throw std::runtime_error("three");
    throwing(n + 1);
    CHAIN_LEAVE();
}

NOINLINE static void guarded() {
    CHAIN_ENTER();
    unsigned depth = chain_now->depth;
    guard g{"a name that is too long to be kept inside of the string"};
    try {
        throwing(0);
    } catch (const std::exception &) {
        chain_now->depth = depth;
        take();
        check_in_order("in a handler", true);
        throw;
    }
}

NOINLINE static void check_exceptions() {
    CHAIN_ENTER();
    unsigned depth = chain_now->depth;
    for (int i = 0; i < 3; i++) {
        kept_depth = 0;
        try {
            guarded();
        } catch (const std::exception &) {
            /* Taken by the destructor, on the exception's way. */
            check_in_order("in a destructor", true);
            chain_now->depth = depth;
        }
    }
    CHAIN_LEAVE();
}

NOINLINE static void check_calls() {
    CHAIN_ENTER();
    circle c;
    ring a(&c), b(&a);
    shape *volatile s = &b;
    s->area(2);
    check_in_order("virtual calls", true);
    nested<double, 12>::down(1.5);
    check_in_order("templates, double", true);
    nested<short, 7>::down(1);
    check_in_order("templates, short", true);
    std::function<int(int)> f = [](int n) NOINLINE {
        CHAIN_ENTER();
        take();
        CHAIN_LEAVE();
        return n;
    };
    f(3);
    check_in_order("std::function", false);
    std::vector<int> numbers{5, 3, 8, 1};
    bool taken = false;
    std::sort(numbers.begin(), numbers.end(), [&](int x, int y) NOINLINE {
        CHAIN_ENTER();
        if (!taken) take();
        taken = true;
        CHAIN_LEAVE();
        return x < y;
    });
    check_in_order("std::sort", false);
    CHAIN_LEAVE();
}

NOINLINE static void everything() {
    CHAIN_ENTER();
    check_calls();
    check_exceptions();
    CHAIN_LEAVE();
}

int main() {
    chain_now = &first_chain;
    everything();
    std::thread t([]() {
        static chain mine;
        chain_now = &mine;
        everything();
    });
    t.join();
    everything();
    std::puts("all stacks as they should be");
}
