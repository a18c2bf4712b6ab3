#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# judge.py - plants bugs in the judge, those of planted.txt and mutations by operators, one at a time in
# copies of the tree, and lists those that the tests of `make test` do not notice. See CONTRIBUTING.md.
import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from mutate import mutants_of

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLANTED = HERE / "planted.txt"
LEAST_RATE = 0.95
# Where operators mutate: what measures, compares, confines, records and scores.
FOLDERS = ["arena", "cage", "call", "protocol", "read", "ruling", "run", "timing"]
FILES = ["task/check.c", "task/category.c", "report/score.c", "report/match.c", "report/timed.c", "report/derive.c"]
# Tests of the text of files, which would notice any change, those that need what a copy lacks, and those that run
# nothing of the judge.
NO_TESTS = re.compile(r"^(format|lint_.*|limits|prose|links|core|layering.*|version|docs|doc_commands.*|abi|adding|isa|"
                      r"example.*|wheel|contest|cuda.*|gpu_.*|torch|check|check_small|"
                      r"mutation|setup|dist|install_.*|headers_.*|sweep|charts|plan_page|pictures|bench_peers|slurm|"
                      r"serve|train_.*|unit_train.*|unit_model.*|unit_plan.*|unit_gguf|.*_cuda)$")
NO_FILES = re.compile("gpu|keep")  # what needs a device
CHEAP_S = 20


class Bug:
    def __init__(self, file, words, apply, id_, test=""):
        self.file, self.words, self.apply, self.id, self.test = file, words, apply, id_, test


def planted():
    text = "\n".join(l for l in PLANTED.read_text().splitlines() if not l.startswith("#"))
    for n, block in enumerate(re.split(r"\n\n+", text.strip()), 1):
        head, old, new, *test = block.split("\n")
        file, words = head.split(": ", 1)
        if not (old.startswith("- ") and new.startswith("+ ") and old[2:] in (ROOT / file).read_text()):
            sys.exit(f"planted.txt: {file}: {words}: the file has no such text")
        yield Bug(file, words, lambda s, old=old[2:], new=new[2:]: s.replace(old, new, 1), f"p{n}",
                  test[0][2:] if test else "")


def write_tests(noticed):
    """Into planted.txt: the test that noticed a bug, which is tried first the next time."""
    blocks = re.split(r"\n\n+", PLANTED.read_text().strip())
    for i, block in enumerate(blocks):
        lines = block.split("\n")
        test = noticed.get(lines[0])
        if test:
            blocks[i] = "\n".join([*lines[:3], f"@ {test}"])
    PLANTED.write_text("\n\n".join(blocks) + "\n")


def by_operators(count, seed):
    of_file = []
    for path in sorted([p for f in FOLDERS for p in (ROOT / "judge" / f).glob("*.c") if not NO_FILES.search(p.name)] +
                       [ROOT / "judge" / f for f in FILES]):
        name = str(path.relative_to(ROOT))
        of_file.append((name, mutants_of(name, path.read_text())))
    draw = random.Random(seed)
    every = [m for _, list_ in of_file for m in list_]
    for m in draw.sample(every, min(count, len(every))):
        yield Bug(m.file, f"{m.function}: {m.fingerprint}: {m.mutation}", m.apply, m.id)


# ---- a copy of the tree, with a build of its own ----

class Copy:
    def __init__(self, folder, jobs):
        self.folder, self.build, self.jobs = folder, folder / "build", jobs
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                                capture_output=True, check=True).stdout.decode().split("\0")
        for name in filter(None, listed):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        # Some tests ask git which files there are.
        for words in (["init", "-q"], ["add", "-A"],
                      ["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "copy"]):
            subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
        for path in [folder / "CMakeLists.txt", folder / "test" / "CMakeLists.txt", *folder.glob("cmake/*.cmake")]:
            path.write_text(path.read_text().replace("-Werror", "-Wno-error"))  # a bug may leave a name unused
        subprocess.run(["cmake", "-S", folder, "-B", self.build, "-G", "Ninja", "-DTS_CUDA=OFF"], check=True,
                       capture_output=True)
        self.make(check=True)
        shown = json.loads(subprocess.run(["ctest", "--test-dir", self.build, "--show-only=json-v1"],
                                          capture_output=True, text=True, check=True).stdout)
        self.program, self.cost = {}, {}
        for t in shown["tests"]:
            if not NO_TESTS.match(t["name"]):
                self.program[t["name"]] = pathlib.Path(t["command"][0])
                self.cost[t["name"]] = next((q["value"] for q in t["properties"] if q["name"] == "COST"), 1.0)
        self.bytes = self.digests()

    def digests(self):
        """Of the programs of the tests; scripts run other programs."""
        return {t: hashlib.sha256(p.read_bytes()).digest() for t, p in self.program.items()
                if self.build in p.parents}

    def changed(self):
        """The tests that may notice what was changed."""
        now = self.digests()
        return [t for t in self.program if t not in now or now[t] != self.bytes[t]]

    def write(self, file, apply=lambda text: text):
        (self.folder / file).write_text(apply((ROOT / file).read_text()))

    def make(self, check=False):
        done = subprocess.run(["ninja", "-C", self.build, "-j", str(self.jobs)], capture_output=True, text=True)
        if check and done.returncode:
            sys.exit(f"the unchanged tree cannot be built:\n{done.stdout[-2000:]}")
        return done.returncode == 0

    def failing(self, tests, jobs):
        """The first of these tests that fails; None: all pass or are skipped."""
        pattern = "^(" + "|".join(map(re.escape, tests)) + ")$"
        said = subprocess.run(["ctest", "--test-dir", self.build, "-R", pattern, "-j", str(jobs), "--timeout", "900",
                               "--stop-on-failure"], capture_output=True, text=True).stdout
        found = re.search(r"Test +#\d+: (\S+) [.]*\*\*\*(?!Skipped)", said)
        return found.group(1) if found else None


class Lab:
    """Copies of the tree, and what is known of the tests."""

    def __init__(self, folder, n_copies, jobs):
        self.jobs, self.lock = jobs, threading.Lock()
        self.kills = collections.defaultdict(collections.Counter)  # of a folder of the judge: by which tests
        self.right, self.wrong = set(), set()  # tests that pass, or fail, without any bug
        self.copies = [None] * n_copies
        threads = [threading.Thread(target=self.make, args=(folder, i)) for i in range(n_copies)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def make(self, folder, i):
        self.copies[i] = Copy(folder / str(i), self.jobs)

    def batches(self, copy, bug):
        """The test that noticed it before, those that noticed bugs near by, cheap ones, then all others."""
        with self.lock:
            tests = [t for t in copy.changed() if t not in self.wrong]
            near = [t for t, _ in self.kills[os.path.dirname(bug.file)].most_common(6) if t in tests and t != bug.test]
        before = [bug.test] if bug.test in tests else []
        left = sorted((t for t in tests if t not in before + near), key=copy.cost.get)
        units = [t for t in left if copy.cost[t] <= CHEAP_S and re.match("unit_|fuzz_", t)]
        cheap = [t for t in left if copy.cost[t] <= CHEAP_S and t not in units]
        return [b for b in (before, near, units, cheap, *([t] for t in left if copy.cost[t] > CHEAP_S)) if b]

    def notices(self, copy, bug, test):
        """Whether a test that failed fails again, and not without the bug: a busy machine fails tests, too."""
        if not copy.failing([test], 1):
            return False
        if test in self.right:
            return True
        copy.write(bug.file)
        right = copy.make() and not copy.failing([test], 1)
        with self.lock:
            (self.right if right else self.wrong).add(test)
        if right:
            return True
        print(f"left out: {test} fails without any bug", flush=True)
        copy.write(bug.file, bug.apply)
        copy.make()
        return False

    def examine(self, copy, bug):
        copy.write(bug.file, bug.apply)
        try:
            if not copy.make():
                return "uncompiled", ""
            for batch in self.batches(copy, bug):
                while batch and (failed := copy.failing(batch, self.jobs)):
                    if self.notices(copy, bug, failed):
                        with self.lock:
                            self.kills[os.path.dirname(bug.file)][failed] += 1
                        return "noticed", failed
                    batch = [t for t in batch if t != failed]
            return "survived", ""
        finally:
            copy.write(bug.file)


def show(outcome, bug, why, seconds):
    print(f"{outcome:<10} {bug.id} {bug.file}: {bug.words}{f' | {why}' if why else ''} ({seconds:.0f} s)", flush=True)


def main():
    p = argparse.ArgumentParser(description="bugs planted in the judge, which `make test` must notice")
    p.add_argument("--only", default="", help="text that the bug's file or words contain, or its id")
    p.add_argument("--count", type=int, default=20, help="mutations by operators, in addition to planted.txt")
    p.add_argument("--seed", default="1")
    p.add_argument("--copies", type=int, default=max(1, (os.cpu_count() or 2) // 4), help="bugs at a time")
    p.add_argument("--seconds", type=float, default=float("inf"), help="begin no bug after this time")
    p.add_argument("--list", action="store_true", help="print the bugs and stop")
    p.add_argument("--write", action="store_true", help="write into planted.txt which test noticed a bug")
    o = p.parse_args()
    bugs = [b for b in [*planted(), *by_operators(o.count, o.seed)] if o.only in f"{b.id} {b.file}: {b.words}"]
    if not bugs:
        sys.exit(f"ONLY={o.only}: no bug has this text")
    if o.list:
        for b in bugs:
            print(b.id, f"{b.file}: {b.words}")
        return 0
    print(f"seed {o.seed}: {len(bugs)} bugs", flush=True)
    counts, begin, lock, todo, noticed = collections.Counter(), time.time(), threading.Lock(), list(bugs), {}
    with tempfile.TemporaryDirectory(prefix="touchstone-bugs-") as folder:
        lab = Lab(pathlib.Path(folder), o.copies, max(1, (os.cpu_count() or 2) // o.copies))

        def work(copy):
            while True:
                with lock:
                    if not todo or time.time() - begin > o.seconds:
                        return
                    bug = todo.pop(0)
                since = time.time()
                outcome, why = lab.examine(copy, bug)
                with lock:
                    counts[outcome] += 1
                    noticed.update({f"{bug.file}: {bug.words}": why} if why else {})
                    show(outcome, bug, why, time.time() - since)
        workers = [threading.Thread(target=work, args=(c,)) for c in lab.copies]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
    if o.write:
        write_tests(noticed)
    tried = counts["noticed"] + counts["survived"]
    rate = counts["noticed"] / tried if tried else 0
    print(f"{counts['noticed']} of {tried} noticed ({rate:.3f}), {counts['survived']} survived, "
          f"{counts['uncompiled']} not compiled, {len(todo)} not reached; {time.time() - begin:.0f} s")
    return int(rate < LEAST_RATE or bool(todo))


if __name__ == "__main__":
    sys.exit(main())
