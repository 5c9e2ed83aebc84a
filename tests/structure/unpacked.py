#!/usr/bin/env python3
"""The tests that read the sources find the same ones in an archive that was unpacked, where git cannot be asked:
unpacked.py SOURCE-ROOT"""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402
import sources  # noqa: E402


def main():
    root = sys.argv[1]
    if not sources.is_checkout(root):
        skips.skip("this is no checkout of git, so there is nothing to compare with")
    # Hidden folders have settings of tools alone.
    known = sorted(name for name in sources.listed(root, "") if "/." not in "/" + name)
    with tempfile.TemporaryDirectory() as copy:
        for name in known:
            os.makedirs(os.path.dirname(os.path.join(copy, name)), exist_ok=True)
            shutil.copy(os.path.join(root, name), os.path.join(copy, name))
        for made in ("build/a.md", "build-tsan/b.c", "tools/target/c.rs", ".git/d.md"):
            os.makedirs(os.path.dirname(os.path.join(copy, made)), exist_ok=True)
            with open(os.path.join(copy, made), "w", encoding="utf-8") as file:
                file.write("No source.")
        found = sorted(sources.listed(copy, ""))
        if found != known:
            sys.exit(f"CHECK FAILED: not the same files: {sorted(set(found) ^ set(known))[:20]}")
        for script in ("words", "sentences", "oldest_rust"):
            path = os.path.join(copy, "tests", "structure", script + ".py")
            if subprocess.run([sys.executable, path, copy], stdout=subprocess.DEVNULL, check=False).returncode:
                sys.exit(f"CHECK FAILED: {script}.py fails where it was unpacked")
    print(f"{len(known)} files")


main()
