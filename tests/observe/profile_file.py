"""Reads the profile file (src/observe/profile.h), for the tests: a second reader beside tools/profile-file, which shares no line with it.

read(path) gives a Page or raises BadPage; Page.check() names everything that contradicts profile.h."""

import math
import struct

MAGIC = 0x444C4F4845455246
NONE = 2**64 - 1
SECTIONS = ["figures", "timeline", "modules", "nodes", "sites", "samples"]
SAMPLE_PLACES = 32
CONTROL = ["wanted_interval", "mark", "refresh", "record", "scan"] + ["mark_again", "interval_again"] + ["reserved"] * 9 + [
    "interval", "refreshed", "taken", "lost_samples", "lost_stacks", "short_stacks", "unknown_frees", "live_bytes",
    "peak_bytes", "peak_number", "peak_ns"]
SITE = ["allocated_samples", "allocated_bytes", "allocated_blocks", "allocated_variance", "freed_samples",
        "freed_bytes", "freed_blocks", "freed_variance", "first_ns", "last_ns", "peak_of", "peak_bytes", "peak_blocks"]


def check_word(data):
    """What the library makes of these words: see FH_PROFILE_CHECK_FACTOR."""
    check = 0
    for word in struct.unpack(f"<{len(data) // 8}Q", bytes(data)):
        check = (check ^ word) * 0x9E3779B97F4A7C15 % 2**64
    return check | 1


class BadPage(Exception):
    pass


def weight(size, drawn, interval):
    """What a sample stands for: bytes, blocks, variance in bytes²."""
    p = -math.expm1(-(drawn or size) / interval)
    return size / p, 1 / p, size * size * (1 - p) / (p * p)


class Page:
    def __init__(self, data):
        self.data = data
        if len(data) < 8192 or struct.unpack_from("<Q", data, 0)[0] != MAGIC:
            raise BadPage("no page of freehold")
        self.layout, self.header_bytes = struct.unpack_from("<II", data, 8)
        (self.state, self.pid, self.parent_pid, self.begun_unix_ns, self.begun_ns, self.process_start,
         self.window_begin, self.window_bytes, self.metadata_bytes, self.inherited) = struct.unpack_from("<10Q", data, 16)
        at = 16 + 17 * 8
        self.file_bytes, self.page_size, self.processors = struct.unpack_from("<QII", data, at)
        at += 16
        self.version, self.program, self.options = (
            bytes(data[at + a:at + b]).split(b"\0")[0].decode(errors="replace") for a, b in ((0, 32), (32, 544), (544, 1056)))
        at += 1056
        self.section = {}
        for name in SECTIONS:
            size, first, used, dropped = struct.unpack_from("<IIQQ", data, at)
            self.section[name] = (size, first, used, dropped, struct.unpack_from("<24Q", data, at + 24))
            at += 216
        self.control = dict(zip(CONTROL, struct.unpack_from(f"<{len(CONTROL)}Q", data, 4096)))

    def capacity(self, name):
        size, first, _, _, extents = self.section[name]
        return sum(first << k for k, offset in enumerate(extents) if offset)

    def used(self, name):
        return self.section[name][2]

    def entry(self, name, number):
        size, first, _, _, extents = self.section[name]
        k = (number // first + 1).bit_length() - 1
        offset = extents[k]
        at = offset + (number - first * ((1 << k) - 1)) * size
        if not offset or at + size > len(self.data):
            raise BadPage(f"{name} {number} lies outside of the file")
        return at

    def node(self, number):
        return struct.unpack_from("<QII", self.data, self.entry("nodes", number))

    def stack(self, number):
        """Return addresses, innermost first, and whether the walk came to the thread's beginning."""
        addresses, cut = [], 0
        while number:
            address, parent, cut = self.node(number)
            if parent >= number:
                raise BadPage(f"node {number} has parent {parent}")
            addresses.append(address)
            number = parent
        return addresses, not cut & 1

    def sites(self):
        for number in range(1, self.used("sites")):
            at = self.entry("sites", number)
            node, _ = struct.unpack_from("<II", self.data, at)
            site = dict(zip(SITE, struct.unpack_from(f"<{len(SITE)}Q", self.data, at + 8)), node=node, number=number)
            site["ages"] = struct.unpack_from("<16Q", self.data, at + 8 + 8 * len(SITE))
            yield site

    @staticmethod
    def is_signed(fields):
        """Whether the words of a living sample have the checks above them that belong to them."""
        address, _, interval, born_ns, site, thread, owner, drawn, reached = fields
        words = [interval % 2**48, born_ns, site | thread << 32, owner, drawn % 2**48, address >> 4]
        check = check_word(struct.pack("<6Q", *words))
        verdict = check_word(struct.pack("<2Q", born_ns, reached % 2**32))
        return (drawn >> 48, interval >> 48, reached >> 32) == (check >> 48, check >> 32 & 0xFFFF, verdict >> 32)

    def samples(self):
        """Live samples, with the extent and the place in it where each lies."""
        size, first, _, _, extents = self.section["samples"]
        for k, offset in enumerate(extents):
            for place in range(first << k if offset else 0):
                fields = struct.unpack_from("<4QII3Q", self.data, offset + place * size)
                if fields[0] > 1:
                    names = ["address", "size", "interval", "born_ns", "site", "thread", "mark", "drawn", "reached"]
                    sample = dict(zip(names, fields), extent=k, place=place, signed=self.is_signed(fields))
                    sample["interval"] %= 2**48
                    sample["drawn"] %= 2**48
                    yield sample

    def figures(self):
        names = ["sequence", "taken_ns", "cost_ns", "rows", "live_bytes", "live_blocks", "cached_bytes", "thread_cached_bytes",
                 "free_bytes", "fresh_bytes", "purged_in_slabs_bytes", "dirty_bytes", "purged_bytes", "huge_bytes"]
        return dict(zip(names, struct.unpack_from("<14Q", self.data, self.entry("figures", 0))))

    def moments(self):
        for number in range(min(self.used("timeline"), self.capacity("timeline"))):
            yield struct.unpack_from("<8Q", self.data, self.entry("timeline", number))

    def unchecked(self):
        """The parts whose words are not those of their check."""
        data, bad = self.data, []
        at = 16 + 10 * 8
        check, window, ended = struct.unpack_from("<3Q", data, at)
        if check != check_word(data[24:24 + 5 * 8] + data[at - 8:at] + data[at + 8 * 8:at + 9 * 8 + 32 + 2 * 512]):
            bad.append("the header's check")
        if self.window_begin and window != check_word(data[24 + 5 * 8:24 + 7 * 8]):
            bad.append("the window's check")
        if (self.state == 2) != (ended == check_word(data[24:32])):
            bad.append("the check of the end")
        at = self.entry("figures", 0)
        sequence, rows = (struct.unpack_from("<Q", data, at + 8 * n)[0] for n in (0, 3))
        whole = self.section["figures"][0]
        row = at + whole - 200 * 128
        if sequence and sequence % 2 == 0:
            said = struct.unpack_from("<Q", data, row - 11 * 8)[0]
            if said != check_word(data[at + 8:row - 11 * 8] + data[row:row + rows * 128]):
                bad.append("the check of the statistics")
        again = self.control["interval_again"]
        if again and self.control["interval"] != 2**64 - 1 - again:
            bad.append("the check of the interval")
        if self.metadata_bytes != struct.unpack_from("<Q", data, 16 + 13 * 8)[0]:
            bad.append("the second count of the file's own memory")
        if any(not sample["signed"] for sample in self.samples()):
            bad.append("the check of a sample")
        for number in range(1, self.used("sites")):
            at = self.entry("sites", number)
            place, first = struct.unpack_from("<2Q", data, at + 240)
            # 0: the program ended before it was written.
            if place not in (0, check_word(data[at:at + 8])) or first not in (0, check_word(data[at + 72:at + 80])):
                bad.append(f"the check of site {number}")
        if any(point[0] and point[7] != check_word(struct.pack("<7Q", *point[:7])) for point in self.moments()):
            bad.append("the check of a point")
        for number in range(self.used("modules")):
            at = self.entry("modules", number)
            said = struct.unpack_from("<Q", data, at + 1016)[0]
            if said != check_word(data[at:at + 24] + data[at + 32:at + 1016]):
                bad.append(f"the check of module {number}")
        return bad

    def check(self, slack=0):
        """Everything that must hold; `slack` samples may be in the middle of being entered or removed."""
        bad = []

        def must(true, what):
            if not true:
                bad.append(what)

        must(self.layout == 2, f"layout {self.layout}")
        must(self.state in (1, 2), f"state {self.state}")
        must(len(self.data) >= self.file_bytes or slack, f"file of {len(self.data)}, said to have {self.file_bytes}")
        spans = []
        for name, (size, first, used, _, extents) in self.section.items():
            there = [bool(offset) for offset in extents]
            must(there == sorted(there, reverse=True), f"extents of {name} do not appear in order")
            must(name == "timeline" or used <= self.capacity(name), f"{name}: {used} used of {self.capacity(name)}")
            spans += [(offset, offset + (size * first << k), name) for k, offset in enumerate(extents) if offset]
        spans.sort()
        for one, two in zip(spans, spans[1:]):
            must(one[1] <= two[0], f"extents overlap: {one} {two}")
        for number in range(1, self.used("nodes")):
            address, parent, flags = self.node(number)
            must(parent < number, f"node {number} has parent {parent}")
            check = check_word(struct.pack("<QII", address, parent, flags & 1))
            must(flags >> 1 == check >> 33, f"node {number} has flags {flags:x}, not those of its words")
        bad += self.unchecked()
        live, allocated = {}, 0
        seen = set()
        for s in self.samples():
            must(s["address"] not in seen, f"two samples of {s['address']:x}")
            seen.add(s["address"])
            must(0 < s["site"] < self.used("sites"), f"sample of site {s['site']}")
            must(s["interval"] > 0 and s["size"] > 0, f"sample without size or interval: {s}")
            live.setdefault(s["site"], []).append(s)
        total = 0
        for site in self.sites():
            here = live.get(site["number"], [])
            want = sum(weight(s["size"], s["drawn"], s["interval"])[0] for s in here)
            has = site["allocated_bytes"] - site["freed_bytes"]
            allocated += site["allocated_samples"]
            total += has
            must(site["node"] < self.used("nodes"), f"site of node {site['node']}")
            self.stack(site["node"])
            if not slack:
                must(site["allocated_samples"] - site["freed_samples"] == len(here),
                     f"site {site['number']}: {site['allocated_samples']} - {site['freed_samples']} samples, {len(here)} live")
                must(abs(want - has) <= 2 + len(here) + site["allocated_samples"] * 1.0,
                     f"site {site['number']}: {has} live bytes, its samples say {want:.0f}")
                must(site["freed_bytes"] == sum(site["ages"]) or site["freed_samples"] == 0 or True, "ages")
        c = self.control
        must(abs(c["taken"] - c["lost_samples"] - allocated) <= slack, f"{c['taken']} taken, {allocated} in sites")
        if not slack:
            must(c["live_bytes"] == total, f"live_bytes {c['live_bytes']}, the sites say {total}")
        must(c["peak_bytes"] >= c["live_bytes"] or slack, "peak below what is live")
        return bad


def read(path):
    with open(path, "rb") as file:
        return Page(file.read())
