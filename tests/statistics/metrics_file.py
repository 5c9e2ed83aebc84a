#!/usr/bin/env python3
"""FREEHOLD=metrics=FILE: metrics_file.py PROGRAM FOLDER

While the program runs, the file is read as fast as possible: each time it is whole. It is written again while the program
allocates and once more at the end, by parent and child each into their own; and where it cannot be written, nothing happens. What is there and is no file stays what it is."""

import os
import pathlib
import resource
import shutil
import stat
import subprocess
import sys
import time

import openmetrics

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import skips  # noqa: E402

PROGRAM, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])


def check(condition, message):
    if not condition:
        sys.exit(f"CHECK FAILED: {message}")


def start(options, seconds=0.3):
    return subprocess.Popen([PROGRAM, str(seconds)], env={**os.environ, "FREEHOLD": options}, stderr=subprocess.PIPE, text=True)


shutil.rmtree(FOLDER, ignore_errors=True)
FOLDER.mkdir(parents=True)
begun = time.monotonic()
program = start(f"metrics={FOLDER}/m.%p.prom", 3.5)
path = FOLDER / f"m.{program.pid}.prom"
contents, reads = {}, 0
while program.poll() is None:
    try:
        text = path.read_text()
    except FileNotFoundError:
        time.sleep(0.01)
        continue
    reads += 1
    check(text.endswith("# EOF\n"), f"a part of the file was read, {len(text)} bytes")
    contents.setdefault(text, time.monotonic())
    time.sleep(0.0005)
ran = time.monotonic() - begun
check(program.returncode == 0, f"status {program.returncode}: {program.stderr.read()}")
moments = sorted(contents.values())
check(len(moments) >= 3, f"{len(moments)} versions of the file in some seconds")
# However long a busy machine took: one a second, the one at the end, and the parts of a second at both ends.
most = ran / 1.0 + 3
check(len(moments) <= most, f"{len(moments)} versions of the file in {ran:.1f} seconds: more than one a second")
refills = []
for text in sorted(contents, key=contents.get):
    openmetrics.parse(text)
    refills.append(int(text.split("\nfreehold_refills_total ")[1].split("\n")[0]))
check(refills == sorted(refills) and refills[-1] > refills[0], f"the counter of refills went {refills}")
left = sorted(p.name for p in FOLDER.iterdir())
check(len(left) == 2 and all(name.endswith(".prom") for name in left), f"parent and child left {left}")
for name in left:
    openmetrics.parse((FOLDER / name).read_text())

for bad in (f"{FOLDER}/no/such/folder/m", f"{FOLDER}", "/proc/m"):
    program = start(f"metrics={bad}")
    said = program.communicate()[1]
    check(program.returncode == 0 and said == "", f"metrics={bad}: status {program.returncode}, {said}")

# A device, a link and a pipe: as root, a rename onto /dev/null would take it from the whole machine. Where the test may not make
# devices, the machine's own stays for another reason, and the link and the pipe are what is tested.
device, target, link, pipe = (FOLDER / name for name in ("device", "target", "link", "pipe"))
try:
    os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
except PermissionError:
    skips.skip_part("devices may not be made here")
target.write_text("first\n")
link.symlink_to(target)
os.mkfifo(pipe)
for place in (device, link, pipe):
    if not os.path.lexists(place):
        continue
    before = os.lstat(place)
    program = start(f"metrics={place}")
    said = program.communicate()[1]
    check(program.returncode == 0 and said == "", f"metrics={place}: status {program.returncode}, {said}")
    check(os.path.samestat(before, os.lstat(place)), f"metrics={place} replaced what is no file")
check(target.read_text() == "first\n", "the file behind a link was written to")
check(not list(FOLDER.glob("*.new")), f"left behind: {list(FOLDER.iterdir())}")
# A file that may not be so long, and a disk that is full: what was there stays, and the program goes on.
limited = FOLDER / "limited"
program = start(f"metrics={limited}")
check(program.wait() == 0 and limited.read_text().endswith("# EOF\n"), "no file to begin with")
before = limited.read_text()
program = subprocess.Popen([PROGRAM, "0.3"], env={**os.environ, "FREEHOLD": f"metrics={limited}"},
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
check(program.wait() == 0, f"the limit on the size of files ended it: status {program.returncode}")
check(limited.read_text() == before, "the file is another, and may not be so long")
FULL = """
mount -t tmpfs -o size=512k none "$1" 2>/dev/null || exit 9
FREEHOLD=metrics="$1/m" "$2" 0.2 || exit 1
cat /dev/zero >"$1/fill" 2>/dev/null
cp "$1/m" "$3"
FREEHOLD=metrics="$1/m" "$2" 0.2 || exit 2
cmp "$1/m" "$3" || exit 3
[ "$(ls "$1")" = "fill
m" ] || exit 4
"""
(FOLDER / "full").mkdir()
tried = subprocess.run(["unshare", "-m", "sh", "-c", FULL, "sh", FOLDER / "full", PROGRAM, FOLDER / "copy"], check=False).returncode
if tried in (1, 9) and os.geteuid() != 0:
    skips.skip_part("a disk of one's own may not be mounted here")
else:
    check(tried in (0, 9), f"a full disk: {tried}: 1 and 2: the program failed, 3: the file was replaced, 4: another was left")
program = start("metrics=")
said = program.communicate()[1]
check("option \"metrics\" has bad value" in said, f"an empty path: {said}")
print(f"{len(moments)} versions, read {reads} times, each whole")
