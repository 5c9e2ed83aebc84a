#!/usr/bin/env bash
# gcc and clang: the objects that they make under Freehold must be the very ones that they make without.
. "$(dirname "$0")/common.sh"
need gcc gcc
here=$(dirname "$(realpath "$0")")/..
# A file that costs a compiler something: many instantiations of templates of the standard library.
cat >"$work/big.cc" <<'CC'
#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <variant>
#include <vector>
template <int N> struct Deep { std::map<std::string, std::variant<int, std::string, std::vector<Deep<N - 1>>>> m; };
template <> struct Deep<0> { int i; };
int main(int n, char **v) {
    std::regex r("(a|b)*c");
    std::vector<std::string> words(v, v + n);
    std::sort(words.begin(), words.end(), [](auto &a, auto &b) { return a.size() < b.size(); });
    Deep<12> d;
    for (auto &w : words) d.m[w] = std::regex_match(w, r) ? 1 : 2;
    std::cout << d.m.size() << "\n";
}
CC
compile() {
    local compiler=$1
    need "$compiler" "${compiler%++}"
    active "$compiler" --version
    # The driver starts the compiler proper as a process of its own; that one must have it, too.
    LD_PRELOAD=$library FREEHOLD=verbose=1 "$compiler" -c -o "$work/small.o" -x c - <<<'int f(void){return 1;}' \
        2>"$work/banner" || die "$compiler"
    [ "$(grep -c 'is active' "$work/banner")" -ge 1 ] || die "not active in what $compiler starts"
    local source name flags=(-O1)
    # What a C++ compiler allocates is the program that it reads.
    case $compiler in *++) flags=(-O0 -std=c++17) ;; esac
    for source in "${@:2}"; do
        name=$(basename "$source")
        "$compiler" "${flags[@]}" -pthread -D_GNU_SOURCE -I"$here/support" -c "$source" -o "$work/$name.without.o"
        under "$compiler" "${flags[@]}" -pthread -D_GNU_SOURCE -I"$here/support" -c "$source" -o "$work/$name.with.o" ||
            die "$compiler $name"
        cmp "$work/$name.without.o" "$work/$name.with.o" || die "$compiler made another object of $name"
    done
    say "$compiler: ${#} objects, bit for bit the same"
}
compile gcc "$here/stress/stress.c" "$here/conformance/contents.c"
compile g++ "$work/big.cc"
if command -v clang >/dev/null; then
    compile clang "$here/stress/stress.c"
    compile clang++ "$work/big.cc"
else
    skip_part "no clang (package clang); gcc only"
fi
under g++ "$work/big.cc.with.o" -o "$work/big" && under "$work/big" abc ac b | grep -qx 4 || die "what it made"
