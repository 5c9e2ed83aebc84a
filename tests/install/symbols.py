#!/usr/bin/env python3
"""The symbols that Debian's package says the libraries have are those that they have: symbols.py FILE LIBRARY... [--write]

FILE is debian/libfreehold0.symbols. dpkg refuses to build a package when it is not complete, and a package is built only where
debhelper is. So this looks at it in every run of the tests; --write writes it anew."""

import os
import re
import subprocess
import sys

PACKAGE, VERSION = "libfreehold0", "0.1.0"


def exported(library):
    """Of a library: its soname, and its symbols as dpkg writes them."""
    dynamic = subprocess.run(["readelf", "-dW", library], check=True, capture_output=True, text=True).stdout
    soname = re.search(r"soname: \[(.+?)\]", dynamic).group(1)
    names = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True, capture_output=True,
                           text=True).stdout
    symbols = set()
    for line in names.splitlines():
        name, _, version = line.split()[-1].replace("@@", "@").partition("@")
        if re.fullmatch(r"FREEHOLD_[\d.]+", name):
            version = name
        symbols.add(f"{name}@{version or 'Base'}")
    return soname, symbols


def said(path):
    """What the file says: the symbols of each soname."""
    libraries, at = {}, None
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith(" "):
                libraries[at].add(line.split()[0])
            else:
                at = line.split()[0]
                libraries[at] = set()
    return libraries


def main():
    arguments = [word for word in sys.argv[1:] if word != "--write"]
    path, true = arguments[0], dict(exported(library) for library in arguments[1:])
    if "--write" in sys.argv:
        with open(path, "w", encoding="utf-8") as file:
            for soname, symbols in sorted(true.items()):
                file.write(f"{soname} {PACKAGE} #MINVER#\n")
                file.writelines(f" {symbol} {VERSION}\n" for symbol in sorted(symbols))
    told, wrong = said(path), 0
    for soname in sorted(set(told) | set(true)):
        for what, symbols in (("lacks", true.get(soname, set()) - told.get(soname, set())),
                              ("has, which the library has not:", told.get(soname, set()) - true.get(soname, set()))):
            for symbol in sorted(symbols):
                print(f"{os.path.basename(path)}: {soname} {what} {symbol}")
                wrong += 1
    print(f"{sum(map(len, true.values()))} symbols, {wrong} wrong")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
