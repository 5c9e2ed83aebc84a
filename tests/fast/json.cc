// A program that parses JSON into a tree and drops it again, over and over: json ROUNDS. Compiled with FAST its operators new and
// delete are the inlined ones of freehold/fast.h, else those of the library that it is linked with. Prints the CPU time.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

#ifdef FAST
#include <freehold/fast.h>
void *operator new(std::size_t size) {
    return freehold::allocate(size);
}
void operator delete(void *p) noexcept {
    fh_fast_free(p);
}
void operator delete(void *p, std::size_t size) noexcept {
    if (p) freehold::deallocate(p, size);
}
#endif

namespace {

struct value {
    double number = 0;
    std::string text;
    std::vector<std::unique_ptr<value>> list;
    std::map<std::string, std::unique_ptr<value>> members;
};

const char *skip(const char *at) {
    while (*at == ' ' || *at == ',' || *at == ':') at++;
    return at;
}

std::string parse_text(const char **at) {
    const char *begin = ++*at;
    while (**at != '"') ++*at;
    return std::string(begin, (*at)++);
}

std::unique_ptr<value> parse(const char **at) {
    std::unique_ptr<value> v(new value);
    *at = skip(*at);
    if (**at == '{') {
        for (*at = skip(*at + 1); **at != '}'; *at = skip(*at)) {
            std::string key = parse_text(at);
            v->members[std::move(key)] = parse(at);
        }
        ++*at;
    } else if (**at == '[') {
        for (*at = skip(*at + 1); **at != ']'; *at = skip(*at)) v->list.push_back(parse(at));
        ++*at;
    } else if (**at == '"') {
        v->text = parse_text(at);
    } else {
        char *end;
        v->number = std::strtod(*at, &end);
        *at = end;
    }
    return v;
}

std::string document() {
    std::string text = "[";
    for (int i = 0; i < 200; i++) {
        std::string n = std::to_string(i);
        text += "{\"id\":" + n + ",\"name\":\"a name that is longer than a string object, " + n +
                "\",\"tags\":[\"a\",\"b\",\"c\"],";
        text += "\"position\":{\"x\":1,\"y\":2,\"label\":\"here\"},\"scores\":[1,2,3,4,5,6,7,8]},";
    }
    return text + "]";
}

} // namespace

int main(int count, char **arguments) {
    int rounds = count > 1 ? std::atoi(arguments[1]) : 10;
    std::string text = document();
    std::size_t all = 0;
    std::clock_t begin = std::clock();
    for (int i = 0; i < rounds; i++) {
        const char *at = text.c_str();
        all += parse(&at)->list.size();
    }
    std::printf("%zu values, %.3f s\n", all, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    return all != static_cast<std::size_t>(rounds) * 200;
}
