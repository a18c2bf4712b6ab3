#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doc_commands.py BUILD [whole|gpu] [--part I/N] [DOCUMENT...] - runs the commands and code blocks of the documents.

Documents are README.md, CONTRIBUTING.md and their like, doc/, and each README.md in contest/ and example/. Their
commands run as they are written, in their order, in a copy of the source tree where build/ is BUILD and a reader's own
files exist. The exit status must be the one that the document implies, and shown output must have the shape
that it shows: figures may differ, but not where the document says `prints`. A command that takes longer than ten
seconds runs in a shorter form; one that cannot run here is counted by the reason, and its options, targets, names and
files are still checked. test/doc/ has the parts: read.py, rule.py,
check.py, code_block.py, scratch.py.

whole: all commands that this machine can run, unshortened; minutes. gpu: those that need a GPU. --self plants errors
in documents, which must be found."""
import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "doc"))
import check  # noqa: E402
import code_block as code  # noqa: E402
import read  # noqa: E402
import rule  # noqa: E402
import scratch as place  # noqa: E402

ROOT = rule.ROOT
CLASSES = {"run": "run as written", "short": "run in a shorter form", "gpu": "need a GPU", "network": "need a network", "root": "need root", "minutes": "take minutes",
           "own": "are tests or benchmarks by themselves", "missing": "need what is not installed", "usage": "are synopses or names"}
SETUP = re.compile(r"(cat|export|mkdir|cp|cd|make install|make -C|(build/)?touchstone new) ")  # what later commands may need


def documents():
    found = sorted(ROOT.glob("*.md")) + sorted((ROOT / "doc").rglob("*.md")) + sorted((ROOT / "contest").glob("README.md")) + sorted((ROOT / "example").rglob("README.md"))
    return [str(path.relative_to(ROOT)) for path in found if path.name not in ("CHANGELOG.md", "CODE_OF_CONDUCT.md")]


def find_python(build):
    """A Python that can run the package: the one named, the usual one, or the one that test/wheel.sh made."""
    for name in (os.environ.get("TOUCHSTONE_PYTHON"), shutil.which("python3"), str(build / "venv/bin/python")):
        if name and shutil.which(name) and rule.has_module(name, "tvm_ffi, numpy"):
            return name
    return None


def shape(text):
    """Lines with every figure as #, and a machine's guarantees open, so that outputs of other machines are alike."""
    rows = []
    for row in text.splitlines():
        row = re.sub(r"0x[0-9a-f]+", "#", re.sub(r"^( +)(yes|NO)\b", r"\1yes or NO", re.sub(r"\b(badge:? )(full|reduced|none)", r"\1#", row)))
        row = re.sub(r"(?<![A-Za-z_])[-+]?(?:\d[\d,']*\.?\d*(?:e[-+]?\d+)?|nan|inf)\b", "#", row)
        rows.append(re.sub(r"\s+", " ", row).strip())
    return [row for row in rows if row]


def unlike(shown, got, exact, loose=False):
    """The first line of a shown output that is not in the real one, or None. A line of dots stands for any.
    loose: of a line `word: more` the word counts."""
    if loose:
        shown, got = (re.sub(r":.*", ":", text) for text in (shown, got))
    if exact:
        return None if shown.strip() in got else shown.strip()
    have = iter(shape(got))
    for row in shape(shown):
        if row.strip(". ~…") and not any(re.fullmatch(re.escape(row).replace(r"\.\.\.", ".*").replace("…", ".*"), real) for real in have):
            return row
    return None


def judged(command, status, output):
    """A judge that ran ends with 0 if all passed and 1 if one did not; the board says which."""
    if status not in (0, 1) or "verdict" not in output:
        return False
    return status == bool(re.search(r"^ +[\d=-]+ +\S.*\b(FAIL|ERROR|AUDIT)\b", output, re.M))


class Test:
    def __init__(self, build, mode, out=sys.stdout):
        self.build, self.mode, self.out = build, mode, out
        self.program = check.Program(build)
        self.cases = self.program.cases()
        self.mutants = [row.split()[:2] for row in self.program.says("list", "mutants").splitlines() if row.strip()]
        self.python = find_python(build)
        self.count, self.compared, self.flaws, self.names, self.seen = collections.Counter(), 0, [], 0, {}
        self.reasons = collections.defaultdict(list)
        self.slow = []

    def flaw(self, item, what):
        self.flaws.append(f"{item.place()}: {item.text.strip().splitlines()[0]}: {what}")

    def settle(self, item, kind, reason=""):
        self.count[kind] += 1
        self.reasons[kind].append(f"{item.place()}: {item.text.strip().splitlines()[0]}" + (f" ({reason})" if reason else ""))

    def output(self, item, got, verbatim):
        """Compares what an item, or its whole block, printed with what the document shows."""
        item.got = got if verbatim else None
        if item.shown and not (rule.DEVICE and re.search(r"no CUDA device|CUDA driver not found|GPU is needed", item.shown)):
            parts = [getattr(other, "got", None) for other in item.group or [item]]
            if None in parts:
                return
            got = "\n".join(parts)
            self.compared += 1
            own = {word for other in item.group or [item] for word in re.findall(r"\b[A-Z]{2,}\b", other.text)} if item.kind == "command" else ()
            shown = re.sub(r"\b[A-Z]{2,}\b", lambda m: rule.substituted(m[0], 0) if m[0] in own else m[0], item.shown)
            row = unlike(shown, got, item.exact, item.loose)
            if row:
                self.flaw(item, f"the document shows `{row}`, and the output has no such line: {got.strip()[-300:]}")

    def challenge(self, text, scratch):
        """The challenge of the first entrant that a command names, or None."""
        found = re.match(r"(?:\S+=\S+ )*(?:build/)?touchstone judge ([^|<>;&]*)", text)
        for word in found[1].split() if found else []:
            path = scratch.folder / word
            entry = path / "entry.json"
            if word.startswith(("-", "/")) or not path.exists():
                continue
            if entry.exists():
                return json.loads(entry.read_text())["challenge"]
            names = [path.stem] + ([inner.stem for inner in sorted(path.rglob("*"))] if path.is_dir() else re.findall(r"\bts_(\w+)\(", path.read_text(errors="replace")))
            known = [name for name in names if name in self.cases]
            return "softmax_topk" if "softmax_topk" in known else known[0] if known else None
        return None

    def command(self, item, scratch):
        text = rule.substituted(item.text, scratch.port)
        kind, reason = rule.classify(text, self.python)
        for flaw in check.flaws_of(self.program, self.build, item.text):
            return self.flaw(item, flaw)
        if item.kind == "name":
            self.names += 1
            return None
        unknown = rule.reader_words(text) if kind == "run" else []
        if unknown:
            return self.flaw(item, f"what stands for {unknown[0]}? Add it to WORDS of test/doc/rule.py")
        if re.search(r"\bfoo\b", text):
            kind, reason = "usage", "a kernel to be"
        if kind == "gpu" and rule.DEVICE and self.mode == "gpu" and not text.startswith("make "):
            kind = "run"
        elif self.mode == "gpu" and not re.search(r"GPU|triton", text) and not SETUP.match(text) \
                and not any(rule.classify(other.text, self.python)[0] == "gpu" for other in item.block or []):
            return None
        if kind == "minutes" and self.mode == "whole":
            kind = "run"
        short = rule.shortened(text, self.cases, self.mutants, self.challenge(text, scratch)) if self.mode != "whole" else None
        if kind == "minutes" and short and text.startswith("make install"):
            kind = "run"
        if kind != "run":
            item.why = kind
            return self.settle(item, kind, reason)
        again = re.match(r"(?:build/)?touchstone (check|bench|demo|list|plan)|make ", text)
        if again and text in self.seen and not item.shown:
            return None
        self.seen[text] = True
        began = time.monotonic()
        status, got = scratch.run(short or text, 1800 if self.mode == "whole" else 120)
        self.slow.append((time.monotonic() - began, item.place(), short or text))
        absent = re.search(r"ModuleNotFoundError: No module named '(?!touchstone)([\w.]+)'", got)
        if status and absent:
            return self.settle(item, "missing", f"{absent[1]} is not installed")
        absent = next((other.why for other in item.block or [] if hasattr(other, "why")), None)
        if status == 127 and absent:
            return self.settle(item, absent, "what it needs was not made")
        if not rule.DEVICE and "CUDA driver not found" in got and status and not item.shown:
            return self.settle(item, "gpu", "no CUDA driver")
        self.settle(item, "short" if short else "run")
        if "||" in text:
            right = status == 0
        elif re.match(r"(\S+=\S+ )*(build/)?touchstone judge", text) and not item.status and "verdict" in got and "|" not in text:
            right = judged(text, status, got)
        elif item.status == "fails":
            right = status > 0
        else:
            right = status == int(item.status or 0)
        if not right:
            return self.flaw(item, f"exit status {status}, the document implies {item.status or 0}; it ran as `{short or text}`: {got.strip()[-400:]}")
        return self.output(item, got, not short)

    def block(self, item, result):
        got, flaw, missing = result
        if flaw:
            return self.flaw(item, flaw)
        if missing:
            return self.settle(item, "gpu" if "GPU" in missing else "missing", missing)
        self.settle(item, "run")
        return self.output(item, got, True)

    def document(self, name, text, scratch):
        found = read.items(name, text)
        scratch.fresh([item for item in found if item.kind == "c" and re.search(r"\bmain\s*\(", item.text)])
        pythons, seen = [], set()
        for item in found:
            key = (item.kind, re.sub(r"^build/", "", item.text))
            if key in seen and not item.shown:
                continue
            seen.add(key)
            if item.path and not (ROOT / item.path).exists() and not item.path.startswith(("/", "..")):
                (scratch.folder / item.path).parent.mkdir(parents=True, exist_ok=True)
                (scratch.folder / item.path).write_text(item.text)
            if item.kind in ("command", "name"):
                self.command(item, scratch)
            elif self.mode == "gpu":
                continue
            elif item.kind in ("c", "c++", "cuda"):
                if re.search(r"\bfoo\w*\b|_foo_", item.text):
                    self.settle(item, "usage", "a kernel to be: test/adding.sh builds one")
                else:
                    self.block(item, code.native(item, scratch.folder / ".tmp", self.build))
            elif item.kind == "python" and re.search(r"\bcuda\b|@triton", item.text):
                self.settle(item, "gpu")
            elif item.kind == "python":
                pythons.append(item)
        if pythons and not self.python:
            for item in pythons:
                self.settle(item, "missing", "no Python with apache-tvm-ffi and NumPy")
        elif pythons:
            blocks = [dataclasses.replace(item, text=item.text.replace(":8080", f":{scratch.port}")) for item in pythons]
            case = self.cases["layernorm_forward"] if self.mode != "whole" else None
            for item, result in zip(pythons, code.python(blocks, scratch.folder, self.python, scratch.env, case)):
                self.block(item, result)
        for command in scratch.stop():
            self.flaws.append(f"{name}: {command}: the server did not end with status 0")
        return len(found)

    def report(self, names):
        for flaw in self.flaws:
            print("doc_commands:", flaw, file=sys.stderr)
        total = sum(self.count.values())
        parts = ", ".join(f"{self.count[kind]} {words}" for kind, words in CLASSES.items() if self.count[kind])
        print(f"{total} commands and code blocks in {len(names)} documents: {parts}; {self.compared} outputs compared, {self.names} names of commands checked, {len(self.flaws)} flaws", file=self.out)


def plant(build, out):
    """Errors planted in documents: an option, a file and outputs that are not. Each must be the one flaw that is found."""
    texts = {name: (ROOT / name).read_text() for name in documents()}
    found = [item for name, text in texts.items() for item in read.items(name, text)]
    option = next(i for i in found if i.kind == "command" and re.search(r"touchstone plan .*--context", i.text))
    script = next(i for i in found if i.kind == "command" and re.match(r"python3 \w+/\w+\.py", i.text))
    shown = next(i for i in found if i.exact and i.kind == "c")
    table = next(i for i in found if i.kind == "command" and i.shown and not i.group and "touchstone check --impl" in i.text)
    plants = {"option": (option, option.text, option.text.replace("--context", "--contexts"), "has no option --contexts"),
              "file": (script, script.text, script.text.replace(".py", "_removed.py"), "_removed.py"),
              "output": (shown, shown.shown, re.sub(r"\d", lambda m: str(9 - int(m[0])), shown.shown), "the document shows"),
              "word of an output": (table, table.shown, re.sub(r"[A-Za-z]{4,}", "planted", table.shown, count=1), "the document shows")}
    bad = 0
    for kind, (item, old, new, expected) in plants.items():
        text = texts[item.document]
        assert text.count(old) >= 1 and old != new, kind
        keep = [i for i in read.items(item.document, text.replace(old, new)) if i.line == item.line and i.kind == item.kind]
        with tempfile.TemporaryDirectory() as folder:
            test = Test(build, "short", out)
            test.python = None
            scratch = place.Scratch(pathlib.Path(folder), build, None)
            scratch.fresh([])
            for item in keep:
                if item.kind == "command":
                    test.command(item, scratch)
                else:
                    test.block(item, code.native(item, scratch.folder / ".tmp", build))
        right = len(test.flaws) == 1 and expected in test.flaws[0]
        print(f"planted {kind}: {'found: ' + test.flaws[0] if right else 'NOT FOUND: ' + repr(test.flaws)}", file=out)
        bad += not right
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("words", nargs="*", metavar="whole|gpu|DOCUMENT", help="(default: every document, long commands shortened)")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--list", action="store_true", help="print every command with its class")
    parser.add_argument("--self", action="store_true", help="plant errors, which must be found")
    given = parser.parse_intermixed_args()
    build = pathlib.Path(given.build).resolve()
    mode = next((word for word in given.words if word in ("whole", "gpu")), "short")
    chosen = [word for word in given.words if word != mode]
    if given.self:
        return bool(plant(build, sys.stdout))
    if mode == "gpu" and not rule.DEVICE:
        print("skipped: no CUDA device")
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    part, parts = (int(n) for n in given.part.split("/"))
    names = (chosen or documents())[part - 1::parts]
    test = Test(build, mode)
    with tempfile.TemporaryDirectory() as folder:
        scratch = place.Scratch(pathlib.Path(folder), build, test.python)
        try:
            for name in names:
                test.document(name, (ROOT / name).read_text(), scratch)
        finally:
            scratch.stop()
    if given.list:
        for kind, rows in test.reasons.items():
            for row in rows:
                print(f"{kind:8} {row}")
        for seconds, where, text in sorted(test.slow, reverse=True)[:25]:
            print(f"{seconds:6.1f} s  {where}: {text}")
    test.report(names)
    return bool(test.flaws) or not test.count["run"] and mode != "gpu"


if __name__ == "__main__":
    sys.exit(main())
