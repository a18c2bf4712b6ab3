#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""links.py [ROOT] - every relative link and anchor of the Markdown files leads somewhere.

Also every mention of a document in a source file: `doc/NAME.md` and `doc/NAME.md#anchor` in comments, help and
messages. No network: a link with a scheme is not followed. Before that, the test plants broken links and
requires that each is found."""
import functools
import os
import pathlib
import re
import sys
import tempfile
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "doc" / "site"))
import text  # noqa: E402

SKIPPED = re.compile(r"^(build.*|\..*|answers|page|__pycache__)$")  # what is built, and what git has
SOURCES = (".c", ".h", ".cu", ".cuh", ".py", ".sh", ".cmake", ".txt", ".toml", ".yml", ".js", ".css", ".ipynb", "Makefile")
MENTION = re.compile(r"(?<![\w/.-])doc/[\w-]+\.(?:md|svg|png)(?:#[\w-]+)?")


def files(root):
    for folder, folders, names in os.walk(root):
        here = pathlib.Path(folder)
        folders[:] = sorted(f for f in folders if f == ".github" or not SKIPPED.match(f))
        yield from (here / n for n in sorted(names))


@functools.lru_cache(None)
def anchors(path):
    return text.anchors(path.read_text())


def fault(path, target, root):
    """What is wrong with a link in the file `path`, or None."""
    if re.match(r"[a-z][a-z+.-]*:", target):
        return None
    if target.startswith("/"):
        return "is absolute"
    name, _, part = target.partition("#")
    to = (path.parent / urllib.parse.unquote(name)).resolve() if name else path
    if root not in (to, *to.parents):
        return "leads out of the repository"
    if not to.exists():
        return "does not exist"
    if part and to.suffix == ".md" and urllib.parse.unquote(part) not in anchors(to):
        return "has no such heading"
    return None


def check(root):
    """(faults, number of links, number of mentions)"""
    found, n_links, n_mentions = [], 0, 0
    for path in files(root):
        if path.suffix == ".md":
            content = path.read_text()
            for start, _, target in text.links(content):
                n_links += 1
                for one in re.split(r",\s*", target) if "srcset" in content[max(0, start - 8):start] else [target]:
                    why = fault(path, one.split(" ")[0], root)
                    if why:
                        found.append(f"{path.relative_to(root)}:{content.count(chr(10), 0, start) + 1}: {one} {why}")
        elif path.name.endswith(SOURCES) and path.name != "links.py":
            content = path.read_text(errors="replace")
            if "doc/" not in content:
                continue
            for match in MENTION.finditer(content):
                n_mentions += 1
                why = fault(root / "README.md", match.group(), root)
                if why:
                    found.append(f"{path.relative_to(root)}:{content.count(chr(10), 0, match.start()) + 1}: {match.group()} {why}")
    return found, n_links, n_mentions


GOOD = """# One `two`, three
[a](#one-two-three) [b](doc/x.md#part-1) ![c](doc/p.svg "title") [d][e] <img alt="f" src="doc/p.svg"> [g](https://h.i/j)
`[code](no.md)` [k](<doc/x.md>)

```
[code](no.md)
```

[e]: doc/x.md#part
"""
BAD = {"[a](doc/no.md)": "doc/no.md does not exist", "[a](#two)": "#two has no such heading",
       "[a](doc/x.md#part-2)": "doc/x.md#part-2 has no such heading", "![a](doc/no.svg)": "doc/no.svg does not exist",
       "[a]: doc/y.md": "doc/y.md does not exist", "[a](../x.md)": "../x.md leads out of the repository",
       "<picture><source media='m' srcset='doc/q.png'></picture>": "doc/q.png does not exist",
       "[a](/doc/x.md)": "/doc/x.md is absolute", "[a `b`](doc/X.md)": "doc/X.md does not exist"}


def planted():
    """The test can fail: each of BAD is found, and nothing in GOOD."""
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp).resolve()
        (root / "doc").mkdir()
        (root / "doc" / "x.md").write_text("# X\n## Part\n## Part\n")
        (root / "doc" / "p.svg").write_text("<svg/>")
        readme = root / "README.md"
        for bad, want in {"": None, **BAD}.items():
            readme.write_text(GOOD + "\n" + bad + "\n")
            anchors.cache_clear()
            got = check(root)[0]
            if [g.split(": ", 1)[1] for g in got] != [want] * bool(bad):
                sys.exit(f"links: planted {bad!r}: got {got}, expected {want}")
        readme.write_text(GOOD)
        (root / "a.c").write_text("/* doc/x.md#part has it, doc/z.md not */\n")
        if check(root)[0] != ["a.c:1: doc/z.md does not exist"]:
            sys.exit(f"links: planted a comment that names doc/z.md: got {check(root)[0]}")
        anchors.cache_clear()


def main():
    planted()
    found, n_links, n_mentions = check(pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE)
    print("\n".join(found) if found else f"{n_links} links and {n_mentions} mentions of documents in sources; "
          f"{len(BAD) + 1} planted faults found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
