#!/usr/bin/env python3
"""How long the sentences of the documents are: sentences.py SOURCE-ROOT [DOCUMENT...]

Prints the number of sentences of each document, the median and the maximum of their words. Fails when the median is above 16 words
or a sentence above 25, and then prints what is too long. Without names it asks all documents of the repository.

A sentence ends at . ! or ? before a space, at the end of a paragraph, of a list item, or of a table's cell. Code, titles,
comments, the targets of links and the record of what a command printed do not count. Cells count for the maximum alone, and not below
five words."""

import os
import re
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import sources  # noqa: E402

MEDIAN, MOST = 16, 25

LABEL = 5
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|cf|vs)\.", re.I)


def blocks(text):
    """Paragraphs, list items and cells, without what is no prose: (text, whether it is a cell)."""
    text = re.sub(r"<!-- record: begins -->.*?<!-- record: ends -->", " ", text, flags=re.S)
    text = re.sub(r"<!--.*?-->", " ", text, flags=re.S)
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    lines, item = [], False
    for line in text.splitlines():
        starts = re.match(r"\s*([-*]|\d+\.)\s+", line)
        if not line.strip() or line.startswith("#") or line.startswith("|") or starts:
            if lines:
                yield " ".join(lines), False
            lines = []
        if starts:
            item = True
        elif line.strip() and not line[0].isspace():
            item = False
        if line.startswith("|"):
            yield from ((cell, True) for cell in line.strip("| \n").split("|") if len(words(cell)) >= LABEL)
        elif line.startswith("    ") and not item or line.startswith("#"):
            continue
        elif line.strip():
            lines.append(line[starts.end():] if starts else line.strip())
    if lines:
        yield " ".join(lines), False


def words(text):
    return [word for word in text.split() if re.search(r"\w", word)]


def sentences(text):
    """Each sentence, and whether it is in a cell."""
    for block, cell in blocks(text):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", block)
        plain = re.sub(r"`[^`]*`", "code", plain)
        plain = ABBREVIATION.sub(lambda found: found[0].replace(".", ""), plain)
        for sentence in re.split(r"(?<=[.!?])[*)\"”]*\s+", plain):
            if words(sentence):
                yield sentence.strip(), cell


def main():
    root, chosen = sys.argv[1], sys.argv[2:]
    failed = False
    for name in chosen or sources.listed(root, ".md"):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            pairs = list(sentences(file.read()))
        found = [sentence for sentence, _ in pairs]
        counts = [len(words(sentence)) for sentence in found]
        median = statistics.median([len(words(sentence)) for sentence, cell in pairs if not cell] or [0])
        beyond = median > MEDIAN or max(counts) > MOST or len(found) < 5
        failed |= beyond
        print(f"{'FAILED' if beyond else 'ok':8} {name}: "
              f"{len(counts)} sentences, median {median:g}, most {max(counts)}, "
              f"{sum(count > MOST for count in counts)} above {MOST}")
        if beyond or chosen:
            for sentence in sorted(found, key=lambda s: -len(words(s))):
                if len(words(sentence)) > MOST:
                    print(f"    {len(words(sentence))}: {sentence}")
    sys.exit(1 if failed else 0)


main()
