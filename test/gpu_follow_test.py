# SPDX-License-Identifier: Apache-2.0
"""gpu_follow_test.py BUILD - tests gpu_follow.py, and with it gpu_mutant.sh and gpu_judge.sh, with scripts in the
place of the judge and of nvcc.

A verdict that is missing, wrong or for another reason is a failure, whatever ends the judge."""
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
failures = 0

JUDGE = r'''#!%(python)s
import json, os, signal, sys, time
say = os.environ["FAKE_JUDGE"]
if sys.argv[1] == "list":
    os.execv(%(touchstone)r, [%(touchstone)r, *sys.argv[1:]])
if "--selfcheck" in sys.argv:
    if say != "die":
        print("  yes  device-guards   all fault\n  %%s   device-busy     seen\n  NO   device-sanitizer  not found" %% ("NO " if say == "wrong" else "yes"))
    sys.exit(say == "die")
if say == "none":
    print("touchstone judge: no entrants; name one or check --challenge and --class", file=sys.stderr)
    sys.exit(2)
log = open(sys.argv[sys.argv.index("--log") + 1], "a", buffering=1)
def put(**row):
    log.write(json.dumps(row) + "\n")
folder = sys.argv[-1]
names = sorted(os.listdir(folder)) if os.path.isdir(folder) else ["torch", "touchstone", "textbook"]
for i, name in enumerate(names):
    put(type="entrant", id=i, name=name, **{"class": "host-gpu"})
if say == "nothing":
    sys.exit(0)
for i, name in enumerate(names):
    right = name in ("control", "cheat", "plain_host", "touchstone", "textbook")
    verdict, reason = ("PASS", "") if right else ("FAIL", "value")
    if say == "drop" and i == 1:
        continue
    if say == "die" and i == 2:
        log.write('{"type":"verdict","entr')
        os.kill(os.getpid(), signal.SIGKILL)
    if say == "reject" and right or say == "broken" and i == 0:
        verdict, reason = "FAIL", "value" if say == "reject" else "early"
    if say == "pass" and i == 0:
        verdict, reason = "PASS", ""
    if say == "error" and i == 0:
        verdict, reason = "ERROR", "judge"
    if say == "common" and i == 0 or say == "canon" and right:
        verdict = "PASS (common)"
    if say == "torn":
        log.write('{"type":"verd')
        log.flush()
        time.sleep(0.5)
        log.write('ict","entrant":%%d,"verdict":"%%s","reason":"%%s"}\n' %% (i, verdict, reason))
        continue
    put(type="verdict", entrant=i, verdict=verdict, reason=reason, case="a/case")
    if say == "slow":
        time.sleep(1)
if say == "gain":
    put(type="match", a=0, b=1, effect=0.7, verdict="a")
if say == "tie":
    put(type="match", a=1, b=0, effect=0.01, verdict="tie")
sys.exit(3 if say == "error" else 0)
'''
NVCC = '#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in -o) : >"$2" ;; esac; shift; done\n'


def ok(condition, what, more=""):
    global failures
    if not condition:
        failures += 1
        print("FAIL: %s\n%s" % (what, more))


def program(path, text):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)


class Fake:
    def __init__(self, folder, build):
        self.folder = folder
        program(os.path.join(folder, "touchstone"), JUDGE % {"python": sys.executable, "touchstone": os.path.join(build, "touchstone")})
        program(os.path.join(folder, "nvcc"), NVCC)

    def run(self, say, *command):
        environment = {**os.environ, "FAKE_JUDGE": say, "PATH": self.folder + ":" + os.environ["PATH"]}
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, cwd=os.path.dirname(HERE))

    def follow(self, say, expected, *options):
        path, log = os.path.join(self.folder, "expected"), os.path.join(self.folder, "log")
        entrants = os.path.join(self.folder, "entrants")
        os.makedirs(entrants, exist_ok=True)
        for line in expected:
            os.makedirs(os.path.join(entrants, line.split()[0]), exist_ok=True)
        with open(path, "w") as f:
            f.write("".join(line + "\n" for line in expected))
        if os.path.exists(log):
            os.remove(log)
        return self.run(say, sys.executable, os.path.join(HERE, "gpu_follow.py"), *options, path, log, os.path.join(self.folder, "touchstone"),
                        "judge", "--log", log, entrants)


def lines(r, word):
    return [line.split()[1] for line in r.stdout.splitlines() if line.split()[:1] == [word]]


def mutants(fake, build):
    script = [os.path.join(HERE, "gpu_mutant.sh"), fake.folder]
    listed = subprocess.run([os.path.join(build, "touchstone"), "list", "mutants"], capture_output=True, text=True).stdout.splitlines()
    all_of = {line.split()[0] + "." + line.split()[1][5:] for line in listed if line.split()[1].startswith("cuda_")}
    tasks = {name.split(".")[0] for name in all_of}
    r = fake.run("right", *script)
    ok(r.returncode == 0 and set(lines(r, "ok")) == all_of and not lines(r, "NOT"), "every CUDA mutant of every task is judged", r.stdout + r.stderr)
    ok({t + ".control" for t in tasks} <= set(lines(r, "ok")), "and every control, as `list mutants` calls it", r.stdout)
    planned = {word for line in r.stdout.splitlines() if line.startswith("plan ") for word in line.split()[1:]}
    ok(planned == all_of, "all are planned", planned ^ all_of)
    program(os.path.join(fake.folder, "cc"), NVCC)  # the real one has compiled all of them once
    task = "softmax_topk"
    n = sum(name.startswith(task + ".") for name in all_of)
    for say, n_bad in (("drop", 1), ("die", n - 2), ("nothing", n), ("none", n), ("reject", 1), ("canon", 1), ("pass", 1), ("broken", 1), ("error", 1)):
        r = fake.run(say, *script, task)
        ok(r.returncode != 0 and len(lines(r, "NOT")) == n_bad and len(lines(r, "ok")) == n - n_bad,
           "mutants: %s: %d of %d are unexpected" % (say, n_bad, n), r.stdout + r.stderr)
        ok(say in ("reject", "canon", "pass", "broken", "error") or "no verdict" in r.stdout, "mutants: %s: says no verdict" % say, r.stdout)
    r = fake.run("common", *script, task)
    ok(r.returncode == 0, "a mutant may break only the canon", r.stdout)
    for wrong in (["no_task"], [task, "no_mutant"]):
        r = fake.run("right", *script, *wrong)
        ok(r.returncode != 0 and not lines(r, "ok"), "a task or mutant that is none", r.stdout)
    r = fake.run("right", *script, task, "tail_dropped")
    ok(r.returncode == 0 and set(lines(r, "ok")) == {task + ".tail_dropped", task + ".control"}, "one mutant, and the control", r.stdout)


def matches(fake):
    pair = ["cheat host-gpu value,no-gain", "plain_host host-gpu pass"]
    for say, options, good in (("tie", [], True), ("gain", [], False), ("right", [], False), ("right", ["--untimed"], True), ("torn", ["--untimed"], True), ("drop", [], False)):
        r = fake.follow(say, pair, *options)
        ok((r.returncode == 0) == good, "no-gain: %s %s" % (say, options), r.stdout)
        ok(len(lines(r, "ok")) + len(lines(r, "NOT")) == 2, "a line for each", r.stdout)
    began = time.monotonic()
    environment = {**os.environ, "FAKE_JUDGE": "slow"}
    p = subprocess.Popen([sys.executable, os.path.join(HERE, "gpu_follow.py"), "--untimed", os.path.join(fake.folder, "expected"), os.path.join(fake.folder, "log2"),
                          os.path.join(fake.folder, "touchstone"), "judge", "--log", os.path.join(fake.folder, "log2"), os.path.join(fake.folder, "entrants")],
                         stdout=subprocess.PIPE, text=True, env=environment)
    p.stdout.readline()
    first = p.stdout.readline()
    seconds = time.monotonic() - began
    p.communicate()
    whole = time.monotonic() - began
    ok(first.startswith("ok") and whole - seconds > 0.9, "a verdict is printed when it is there", (first, seconds, whole))


def judge(fake):
    script = [os.path.join(HERE, "gpu_judge.sh"), fake.folder]
    for say, good, n_bad in (("right", True, 0), ("reject", False, 2), ("drop", False, 1), ("error", False, 1), ("die", False, 1), ("nothing", False, 3)):
        r = fake.run(say, *script, "softmax_topk")
        ok((r.returncode == 0) == good and len(lines(r, "NOT")) == n_bad, "built-in entrants: " + say, r.stdout + r.stderr)
    r = fake.run("none", *script, "softmax_topk")
    ok(r.returncode == 77 and "skipped" in r.stdout, "no built-in entrant: skipped", r.stdout)
    for say in ("right", "wrong", "die"):
        r = fake.run(say, *script, "facts")
        told = lines(r, "ok") + lines(r, "NOT") + lines(r, "skip")
        ok(r.returncode != 0 and len(told) > 10 and len(lines(r, "NOT")) >= len(told) - 3, "guarantees that selfcheck does not name are missing: " + say, r.stdout)
        ok(say == "die" or "device-guards" in lines(r, "ok"), "and those that it names are not", r.stdout)
        ok(("device-busy" in lines(r, "ok")) == (say == "right"), "NO is a failure: " + say, r.stdout)


def main():
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        fake = Fake(folder, build)
        mutants(fake, build)
        judge(fake)
        matches(fake)
    print("gpu_follow: %s" % ("%d failures" % failures if failures else "ok"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
