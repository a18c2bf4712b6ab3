#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""austen.py FOLDER OUT - writes Jane Austen's six novels as input for `touchstone train`.

FOLDER contains janeaustenr's data (Debian: r-cran-janeaustenr, <site-library>/janeaustenr/data): an
R lazy-load database. A chapter is a document, a paragraph one line of it. Titles, headings, ends
of volumes, editors' notes and italics marks are removed.
"""
import gzip
import re
import struct
import sys
import zlib

CHAPTER = re.compile(r"chapter\s+[ivxlc\d]+\.?$", re.I)
NO_TEXT = re.compile(r"(volume\s+[ivx\d]+|finis|the end|end of volume.*)\.?$", re.I)
NOTE = re.compile(r"A NOTE ON THE TEXT|\[?Transcriber")
NO_PARAGRAPH = re.compile(r"^\[.*\]$|^\(?end of (the )?(\w+ )?volume|^[* ]+$|Constable, Printers", re.I)


class Reader:
    """R's serialisation format, as far as these files use it."""

    def __init__(self, data):
        self.data, self.at, self.seen = data, 0, []
        if self.take(2) != b"X\n":
            sys.exit("austen: not R's binary serialisation")
        version = self.int()
        self.take(8)
        if version == 3:
            self.take(self.int())

    def take(self, n):
        self.at += n
        return self.data[self.at - n : self.at]

    def int(self):
        return struct.unpack(">i", self.take(4))[0]

    def pairs(self, flags):
        if flags & 0x200:
            self.item()
        tag = self.item() if flags & 0x400 else None
        value = self.item()
        return [(tag, value)] + (self.item() or [])

    def item(self):
        flags = self.int()
        kind = flags & 0xFF
        if kind == 0xFE:  # NULL
            return None
        if kind == 0xFF:  # a reference
            return self.seen[(flags >> 8 or self.int()) - 1]
        if kind == 1:  # a symbol
            self.seen.append(self.item())
            return self.seen[-1]
        if kind == 2:  # pairs: attributes
            return self.pairs(flags)
        if kind == 9:  # a string
            n = self.int()
            return "" if n < 0 else self.take(n).decode("utf-8")
        if kind in (10, 13):  # booleans; integers
            n = self.int()
            value = list(struct.unpack(f">{n}i", self.take(4 * n)))
        elif kind in (16, 19):  # strings; a list
            value = [self.item() for _ in range(self.int())]
        else:
            sys.exit(f"austen: R's type {kind} is not known here")
        names = dict(self.item()).get("names") if flags & 0x200 else None
        return dict(zip(names, value)) if names else value


def books(folder):
    with open(f"{folder}/Rdata.rdx", "rb") as f:
        packed = f.read()
    index = Reader(gzip.decompress(packed) if packed[0] == 0x1F else zlib.decompress(packed)).item()
    with open(f"{folder}/Rdata.rdb", "rb") as f:
        data = f.read()
    for begin, n in index["variables"].values():
        yield Reader(zlib.decompress(data[begin + 4 : begin + n])).item()


def chapters(lines):
    chapter, paragraph = None, []
    for line in [*lines, ""]:
        line = line.strip()
        ends = CHAPTER.match(line) or NO_TEXT.match(line) or NOTE.match(line)
        if line and not ends:
            paragraph.append(line)
            continue
        text = re.sub(r"\s+", " ", " ".join(paragraph)).replace("_", "").strip()
        if chapter is not None and text and not NO_PARAGRAPH.search(text):
            chapter.append(text)
        paragraph = []
        if NOTE.match(line) or CHAPTER.match(line):
            if chapter:
                yield chapter
            chapter = [] if CHAPTER.match(line) else None
    if chapter:
        yield chapter


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    text = ["\n".join(c) for book in books(sys.argv[1]) for c in chapters(book)]
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write("\n\n".join(text) + "\n")
    print(f"{len(text)} chapters, {sum(len(c.split()) for c in text)} words")


main()
