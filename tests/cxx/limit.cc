// A hard limit in a C++ program: the new-handler is asked first, then std::bad_alloc is thrown, and there is memory left
// to make of it what error handlers make of it. Run with FREEHOLD=limit=64m.
#include "../support/alloc.h"
#include "../support/check.h"

#include <list>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using block = std::vector<char>;
std::list<block> *cache;
int handled;

// Gives up the program's cache; when that is gone there is nothing to be done.
void give_up_cache() {
    handled++;
    if (cache->empty()) throw std::bad_alloc();
    cache->clear();
}

// What a server does when a request cannot be served.
std::string answer(const std::exception &error) {
    std::string text = "the request failed: " + std::string(error.what()) + std::string(200, '.');
    std::vector<std::string> lines;
    for (int i = 0; i < 50; i++) lines.push_back(text + std::to_string(i));
    return lines.back();
}

void fill(std::list<block> &blocks, size_t size, size_t most) {
    for (size_t bytes = 0; bytes < most; bytes += size) blocks.emplace_back(size, 'x');
}

void refuse_and_answer(size_t size) {
    std::list<block> blocks;
    try {
        fill(blocks, size, SIZE_MAX);
    } catch (const std::bad_alloc &error) {
        std::string said = answer(error);
        CHECK(said.find("bad_alloc") != std::string::npos, "the answer is %s", said.c_str());
        // An exception with a text of its own, thrown and caught while memory is still short.
        try {
            throw std::runtime_error(said);
        } catch (const std::runtime_error &again) {
            CHECK(said == again.what(), "another text: %s", again.what());
        }
        CHECK(!blocks.empty(), "refused at the first block");
        return;
    }
    CHECK(false, "never refused");
}

} // namespace

int main() {
    for (size_t size : {40, 1000, 30000, 700000, 3000000}) {
        refuse_and_answer(size);
        // What was freed can be had again.
        std::list<block> blocks;
        fill(blocks, size, 16 << 20);
    }
    CHECK(!new (std::nothrow) char[opaque(100u << 20)], "100 MiB under a limit of 64");

    std::list<block> own;
    cache = &own;
    std::set_new_handler(give_up_cache);
    fill(own, 100000, 40 << 20);
    std::unique_ptr<char[]> large(new char[40u << 20]);
    CHECK(handled == 1 && own.empty(), "the handler was called %d times", handled);
    try {
        std::unique_ptr<char[]> more(new char[opaque(40u << 20)]);
        CHECK(false, "80 MiB under a limit of 64");
    } catch (const std::bad_alloc &error) {
        CHECK(handled == 2, "the handler was called %d times", handled);
        answer(error);
    }
    std::set_new_handler(nullptr);
    std::puts("bad_alloc came when it should, and could be dealt with");
    return 0;
}
