"""For the tests that read the sources themselves: which files these are."""

import os
import pathlib
import subprocess

# What is no source, where git cannot be asked: the folders that builds make, at the top and anywhere.
MADE, MADE_ANYWHERE = ("build", "dist", "obj-"), ("target", "__pycache__", ".")


def is_checkout(root):
    """True if root is the top of a checkout, and not a folder that was unpacked somewhere in another one."""
    asked = subprocess.run(["git", "-C", root, "rev-parse", "--show-prefix"], capture_output=True, text=True, check=False)
    return asked.returncode == 0 and asked.stdout.strip() == ""


def unpacked(root):
    for folder, folders, names in os.walk(root):
        made = MADE_ANYWHERE + (MADE if folder == root else ())
        folders[:] = sorted(name for name in folders if not name.startswith(made))
        yield from (os.path.relpath(os.path.join(folder, name), root) for name in sorted(names))


def listed(root, *endings):
    """The source files below root with one of these endings, relative to it. Git's list, or, of an archive that was unpacked, all
    that is there and that no build has made."""
    root = pathlib.Path(root)
    try:
        checkout = is_checkout(root)
    except FileNotFoundError: # no git
        checkout = False
    if checkout:
        names = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines()
    else:
        names = unpacked(str(root))
    return [name for name in names if name.endswith(endings) and (root / name).exists()]
