#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# run.py - mutates the reference implementations and the shared C of every stem, lets `touchstone
# check` examine each mutant, and lists those that no test noticed. See doc/adding-a-kernel.md.
import argparse
import collections
import hashlib
import json
import os
import pathlib
import platform
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

from mutate import mutants_of

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EQUIVALENTS = HERE / "equivalent.txt"
SEED_OF_CASES = "0x5eed"
LEAST_RATE, LEAST_RATE_OF_TASK = 0.99, 0.97
FAST = "neon" if platform.machine() in ("aarch64", "arm64") else "avx2"

# Of each folder of kernel/: the tasks that examine it. Where there are two, the name of a function
# says whose it is, and what both have is examined by both.
TASKS = {
    "adamw": ["adamw_step"],
    "attention": ["flash_attention", "flash_attention_backward", "flash_attention_fp8"],
    "beam_search": ["beam_search"],
    "cross_entropy": ["cross_entropy", "cross_entropy_logits"],
    "embedding": ["embedding_forward", "embedding_backward"],
    "kv_cache": ["kv_cache"],
    "layernorm": ["layernorm_forward", "layernorm_backward"],
    "rms_norm": ["rms_norm_forward", "rms_norm_backward"],
    "rope": ["rope"],
    "softmax_topk": ["softmax_topk"],
    "swiglu": ["swiglu_forward", "swiglu_backward"],
    "ternary": ["ternary_linear"],
    "ternary_training": ["ternary_training"],
    "tree_verify": ["tree_verify"],
}
# Files that need an instruction set or a device of their own are examined by their own tests.
LEFT_OUT = re.compile(r"_(avx2|avx512|amx|neon|cuda|simd|simd_store|x86)\.[ch]$")


# Functions of a contract that no task calls, and the tests that examine them instead.
BY_TESTS = [
    (r"/beam_search\w*\.c:(look|host|ts_beam_search_host)$", ["unit_beam_search", "unit_beam_search_random"]),
    (r"/tree_verify\w*\.c:\w*host\w*$", ["unit_tree_verify", "unit_tree_verify_random"]),
    (r"/kv_cache\w*\.[ch]:(ts_kv_as_\w+|ts_kv_position|ts_kv_base)$", ["unit_kv_tree"]),
    (r"/ternary_training_layer\.c:ts_layers_add$", ["unit_train"]),
]


def row_of(name):
    """The row that runs what is in a file; "": several."""
    for entrant in ("textbook", "three_pass"):
        if name.endswith(f"_{entrant}.c"):
            return entrant
    if re.search(r"_(threads\.c|list\.h)$", name):
        return FAST
    return "ref" if name.endswith("_ref.c") else ""


def tests_of(m):
    return next((tests for where, tests in BY_TESTS if re.search(where, f"{m.file}:{m.function}")), [])


def tasks_of(m):
    """The task that a mutant is counted for comes first."""
    tasks = TASKS[m.file.split("/")[1]]
    if "_fp8" in m.file:
        return [t for t in tasks if t.endswith("_fp8")]
    backward = [t for t in tasks if "backward" in t]
    if backward and re.search("backward|grad", m.function):
        return backward
    if backward and "forward" in m.function:
        return [t for t in tasks if t not in backward]
    return tasks


def asked_of(m):
    """The tasks of a mutant; a name includes its passes."""
    tasks = tasks_of(m)
    return [t for t in tasks if not any(t.startswith(u + "_") for u in tasks)]


def all_mutants():
    for folder in sorted(TASKS):
        for path in sorted((ROOT / "kernel" / folder).glob("*.[ch]")):
            name = str(path.relative_to(ROOT))
            if not LEFT_OUT.search(name):
                yield from mutants_of(name, path.read_text())


def read_equivalents():
    """{(file, function, fingerprint, mutation): reason}; a star for the last two: the whole function."""
    found = {}
    for n, line in enumerate(EQUIVALENTS.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        part = [p.strip() for p in line.split(" | ")]
        if len(part) != 5 or not part[4]:
            sys.exit(f"{EQUIVALENTS.name}:{n}: expected FILE | FUNCTION | STATEMENT | MUTATION | REASON")
        found[tuple(part[:4])] = part[4]
    return found


def keys_of(m):
    return (m.file, m.function, m.fingerprint, m.mutation), (m.file, m.function, "*", "*")


# ---- one mutant: compiled alone, linked into a copy of the program, examined ----

class Lab:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.flags = {}
        for c in json.loads((build / "compile_commands.json").read_text()):
            path = os.path.relpath(c["file"], ROOT)
            if not path.startswith("kernel/") or "kernel.dir" not in c["command"]:
                continue
            words = [w for w in shlex.split(c["command"]) if not re.match("-g|-W", w) and "ccache" not in w]
            out = words.index("-o")
            self.flags[path] = (words[:out] + ["-Werror=incompatible-pointer-types", "-Werror=int-conversion",
                                               f"-iquote{(ROOT / path).parent}"], words[out + 1])
        self.link = self.link_of("touchstone")
        self.tests = {t: self.link_of(f"test/{t}") for _, tests in BY_TESTS for t in tests}
        self.plain, self.known, self.cost = {}, {}, {}
        self.lock, self.measuring = threading.Lock(), collections.defaultdict(threading.Lock)

    def link_of(self, target):
        """The words that link a program."""
        said = subprocess.run(["ninja", "-C", self.build, "-t", "commands", target], capture_output=True, text=True,
                              check=True).stdout.splitlines()[-1]
        return [w for w in shlex.split(said.split("&&")[1]) if w != "-g1"]

    def units_of(self, name):
        """The C files that a mutated file is compiled in."""
        if name.endswith(".c"):
            return [name]
        folder, header = os.path.dirname(name), os.path.basename(name)
        wanted = re.compile(rf'#include "{re.escape(header)}"')
        return [u for u in self.flags if os.path.dirname(u) == folder and wanted.search((ROOT / u).read_text())
                and (not LEFT_OUT.search(u) or row_of(name) in ("", FAST))]

    def compile(self, unit, folder):
        """The object as bytes; names in it are those of the folder, so equal code gives equal bytes."""
        name = os.path.basename(unit)
        obj = folder / (name + ".o")
        done = subprocess.run(self.flags[unit][0] + ["-c", name, "-o", obj.name], cwd=folder, capture_output=True)
        return obj.read_bytes() if done.returncode == 0 else None

    def originals(self, units):
        with self.lock:
            for u in units:
                if u not in self.plain:
                    folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
                    (folder / os.path.basename(u)).write_text((ROOT / u).read_text())
                    self.plain[u] = self.compile(u, folder)
            return [self.plain[u] for u in units]

    def program(self, folder, units):
        words, program = list(self.link), folder / "touchstone"
        for u in units:
            words[words.index(self.flags[u][1])] = str(folder / (os.path.basename(u) + ".o"))
        words[words.index("-o") + 1] = str(program)
        subprocess.run(words, cwd=self.build, check=True, capture_output=True)
        return program

    def check(self, program, task, ask, cpu_s, wall_s):
        """The first complaint, or None; and the processor time it took."""
        words = [str(program), "check", "--task", task, "--device", "cpu", "--seed", SEED_OF_CASES, *ask]
        p = subprocess.Popen(["sh", "-c", f'ulimit -t {cpu_s}; exec "$@"', "sh", *words], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, start_new_session=True,
                             env={**os.environ, "OMP_WAIT_POLICY": "passive"})
        timer = threading.Timer(wall_s, os.killpg, (p.pid, signal.SIGKILL))
        timer.start()
        complaint, last = None, ""
        for line in p.stdout:
            last = line.strip() or last
            if line.startswith("FAIL") or complaint:
                complaint = f"{complaint}: {line.strip()}" if complaint else line.split()[-1]
                if ": " in complaint:
                    break
        hung = not timer.is_alive()
        timer.cancel()
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        p.stdout.close()
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = status
        if hung:
            return "hang", 0
        if not complaint and not re.search(r"[1-9]\d* passed, 0 failed", last):
            complaint = f"the examiner itself: {last}"
        return complaint, used.ru_utime + used.ru_stime

    def fails(self, test, folder, units, sanitize):
        """A unit test. Under the sanitizers, too: it has no guards of its own."""
        words, program, flags = list(self.tests[test]), folder / test, []
        if sanitize:
            flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        words[words.index("-o") + 1] = str(program)
        at = words.index("libtouchstone.a")  # which has the originals
        for u in units:
            name = os.path.basename(u)
            subprocess.run(self.flags[u][0] + [*flags, "-c", name, "-o", name + ".test.o"], cwd=folder, check=True)
            words.insert(at, str(folder / (name + ".test.o")))
        subprocess.run(words + flags, cwd=self.build, check=True, capture_output=True)
        p = subprocess.Popen(["timeout", "300", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}, start_new_session=True)
        for line in p.stdout:
            if b"[  FAILED  ]" in line:
                os.killpg(p.pid, signal.SIGKILL)
                break
        p.stdout.close()
        return p.wait() != 0

    def measure(self, task, ask):
        """The time of the unchanged program, which limits that of a mutant."""
        key = (task, *ask)
        with self.lock:
            turn = self.measuring[key]
        with turn:
            if key not in self.cost:
                begin = time.time()
                complaint, cpu = self.check(self.build / "touchstone", task, ask, 1800, 3600)
                if complaint:
                    print(f"{task} fails without any mutation: {complaint}", flush=True)
                    os._exit(2)
                self.cost[key] = cpu, time.time() - begin
            return self.cost[key]

    def examine(self, m):
        """What becomes of a mutant, and what shows it."""
        units = self.units_of(m.file)
        plain = self.originals(units)
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            folder = pathlib.Path(name)
            for u in units:
                (folder / os.path.basename(u)).write_text((ROOT / u).read_text())
            (folder / os.path.basename(m.file)).write_text(m.apply((ROOT / m.file).read_text()))
            objects = [self.compile(u, folder) for u in units]
            if None in objects:
                return "uncompiled", ""
            if objects == plain:
                return "equivalent", "the same machine code"
            key = hashlib.sha256(b"\0".join(objects)).digest()
            with self.lock:
                twin = self.known.setdefault((units[0], key), m)
            if twin is not m:
                return "twin", twin.id
            for sanitize in (False, True):
                for test in tests_of(m):
                    if self.fails(test, folder, units, sanitize):
                        return "tested", test
            program = self.program(folder, units)
            row = row_of(m.file)
            for ask in (["--impl", row or "ref", "--small"], ["--impl", row] if row else ["--no-mutants"]):
                for task in asked_of(m):  # the small cases first: most mutants get no further
                    cpu, wall = self.measure(task, ask)
                    complaint = self.check(program, task, ask, int(3 * cpu + 5), 6 * wall + 60)[0]
                    if complaint:
                        return "killed", complaint
        return "survived", ""


# ---- all of them ----

def choose(only, count, seed, rows, ids):
    """The mutants to try, of each task in an order that the seed alone decides."""
    of_task, every = collections.defaultdict(list), list(all_mutants())
    for m in every:
        task = tasks_of(m)[0]
        if (ids is not None and m.id not in ids) or (rows == "ref" and row_of(m.file) not in ("", "ref")):
            continue
        if only and only not in (m.id, task, m.file.split("/")[1]) and not m.file.endswith(only):
            continue
        of_task[task].append(m)
    if not of_task:
        sys.exit(f"ONLY={only}: no task, folder or file of kernel/, and no mutant, has this name")
    for task, list_ in of_task.items():
        random.Random(f"{seed}/{task}").shuffle(list_)
        del list_[len(list_) if count is None else count:]
    return of_task, every


def describe(m):
    lines = (ROOT / m.file).read_text().splitlines()
    return f"{m.id} {m.file}:{m.line} {m.function or '-'} | {m.fingerprint} | {m.mutation} | {lines[m.line - 1].strip()}"


def stale(equivalents, every):
    known = {k for m in every for k in keys_of(m)}
    return [k for k in equivalents if k not in known]


def main():
    p = argparse.ArgumentParser(description="mutation testing of `touchstone check`")
    p.add_argument("--build", default="build")
    p.add_argument("--only", default="", help="a task, a folder or file of kernel/, or the id of a mutant")
    p.add_argument("--count", default="100", help="mutants of each task, or all")
    p.add_argument("--seed", default="1")
    p.add_argument("--rows", default="ref", choices=("ref", "all"), help="all: also what faster rows share")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--ids", help="a file of ids: only these")
    p.add_argument("--log", help="append what became of each mutant")
    p.add_argument("--list", action="store_true", help="print the mutants and stop")
    o = p.parse_args()
    build = (ROOT / o.build).resolve()
    equivalents = read_equivalents()
    ids = set(pathlib.Path(o.ids).read_text().split()) if o.ids else None
    count = None if o.count == "all" else int(o.count)
    of_task, every = choose(o.only, count, o.seed, o.rows, ids)
    if o.list:
        for list_ in of_task.values():
            print("\n".join(map(describe, list_)))
        return 0
    bad = 0
    for k in stale(equivalents, every):
        print("stale: no such mutant:", " | ".join(k))
        bad = 1
    print(f"seed {o.seed}, {o.count} mutants of each task, cases with seed {SEED_OF_CASES}", flush=True)
    os.nice(5)
    counts = {t: collections.Counter() for t in of_task}
    todo = [(t, m) for n in range(max(map(len, of_task.values()))) for t, l in of_task.items() for m in l[n:n + 1]]
    lock, log, begin = threading.Lock(), open(o.log, "a") if o.log else None, time.time()
    n_all, done = len(todo), 0

    def work():
        nonlocal done
        while True:
            with lock:
                if not todo:
                    return
                task, m = todo.pop(0)
            reason = next((equivalents[k] for k in keys_of(m) if k in equivalents), None)
            since = time.time()
            try:
                outcome, why = ("equivalent", reason) if reason else lab.examine(m)
            except Exception as e:  # of the tools: no word on the mutant
                print("broken", describe(m), e, flush=True)
                outcome, why = "broken", str(e)
            with lock:
                done += 1
                counts[task][outcome] += 1
                if outcome == "survived":
                    print("survived", describe(m), flush=True)
                if log:
                    print(outcome, f"{time.time() - since:.1f}s", describe(m), "|", why, file=log, flush=True)
                if sys.stderr.isatty():
                    print(f"\r\033[K{done}/{n_all}", end="", file=sys.stderr)

    with tempfile.TemporaryDirectory(prefix="touchstone-mutation-") as folder:
        lab = Lab(build, pathlib.Path(folder))
        workers = [threading.Thread(target=work) for _ in range(o.jobs)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print(f"{'task':<26}{'compiled':>9}{'killed':>8}{'by tests':>9}{'survived':>9}{'equivalent':>11}{'rate':>8}"
          "  (not compiled, twins)")
    total = collections.Counter()
    for task, c in counts.items():
        bad |= show(task, c, LEAST_RATE_OF_TASK)
        total += c
    bad |= show("all", total, LEAST_RATE)
    bad |= total["broken"] > 0
    print(f"{time.time() - begin:.0f} s")
    print(f"{total['killed'] + total['tested']} killed, {total['survived']} survived, "
          f"{total['equivalent']} equivalent")
    return int(bad)


def show(name, c, least):
    """Killed are also those that unit tests noticed, for functions that no task calls."""
    killed = c["killed"] + c["tested"]
    tried = killed + c["survived"]
    rate = killed / tried if tried else 1.0
    print(f"{name:<26}{tried + c['equivalent']:>9}{killed:>8}{c['tested']:>9}{c['survived']:>9}{c['equivalent']:>11}"
          f"{rate:>8.3f}  ({c['uncompiled']}, {c['twin']}){'' if rate >= least else f'  below {least}'}")
    return int(rate < least)


if __name__ == "__main__":
    sys.exit(main())
