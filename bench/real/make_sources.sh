#!/bin/sh
# Writes the inputs for the compilers: C++ that instantiates many templates, and C with many functions.
set -eu

if [ ! -s templates.cc ]; then
    {
        echo '#include <algorithm>'
        echo '#include <functional>'
        echo '#include <map>'
        echo '#include <memory>'
        echo '#include <regex>'
        echo '#include <string>'
        echo '#include <unordered_map>'
        echo '#include <variant>'
        echo '#include <vector>'
        echo 'template <int N> struct tag { int value[N % 7 + 1]; bool operator<(const tag &o) const { return value[0] < o.value[0]; } };'
        i=1
        while [ $i -le 3 ]; do
            echo "int work_$i(const std::string &s) {"
            echo "    std::map<tag<$i>, std::vector<std::string>> m; std::unordered_map<std::string, std::variant<int, std::string, tag<$i>>> u;"
            echo "    m[tag<$i>{}].push_back(s); u[s] = tag<$i>{}; std::vector<tag<$i>> v(m.size()); std::sort(v.begin(), v.end());"
            echo "    std::function<int(int)> f = [&](int x) { return x + static_cast<int>(u.size()); };"
            echo "    return f(static_cast<int>(m.size())) + (std::regex_match(s, std::regex(\"a+$i\")) ? 1 : 0); }"
            i=$((i + 1))
        done
    } > templates.part
    mv templates.part templates.cc
fi

if [ ! -s functions.c ]; then
    {
        echo '#include <stdint.h>'
        i=1
        while [ $i -le 400 ]; do
            echo "uint32_t f$i(uint32_t *a, uint32_t n) { uint32_t s = $i; for (uint32_t i = 0; i < n; i++) {"
            echo "  switch ((a[i] + $i) % 7) { case 0: s += a[i]; break; case 1: s ^= a[i] << $((i % 13 + 1)); break; case 2: s -= i; break;"
            echo "  case 3: a[i] = s; break; case 4: s = s * 31 + i; break; default: s = (s >> 3) | (s << 29); } } return s; }"
            i=$((i + 1))
        done
    } > functions.part
    mv functions.part functions.c
fi
