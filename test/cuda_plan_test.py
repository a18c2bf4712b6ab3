# SPDX-License-Identifier: Apache-2.0
"""cuda_plan_test.py - tests the planner of `make test-cuda` (cuda_plan.py) with steps of sh, without a GPU: order,
budget, overruns, missing verdicts, interruption, death, and what the report says after each."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import cuda_plan

HERE = os.path.dirname(os.path.abspath(__file__))
failures = 0


def ok(condition, what, more=""):
    global failures
    if not condition:
        failures += 1
        print("FAIL: %s %s" % (what, more))


class Run:
    """Steps, as source of a list of cuda_plan.Step, in a process of their own: a plan ends by signals, too."""

    def __init__(self, steps, budget=60, jobs=2, wait=True):
        self.folder = tempfile.TemporaryDirectory()
        self.report = os.path.join(self.folder.name, "list.json")
        text = ("import sys; sys.path.insert(0, %r)\nimport cuda_plan\nfrom cuda_plan import Step\n"
                "def sh(text): return ['sh', '-c', text]\n"
                "sys.exit(cuda_plan.Plan([%s], %r, %r, %r).run())\n" % (HERE, ", ".join(steps), budget, jobs, self.report))
        self.process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.folder.name)
        if wait:
            self.end()

    def end(self, seconds=60):
        self.out = self.process.communicate(timeout=seconds)[0]
        self.status = self.process.returncode
        return self

    def read(self):
        with open(self.report) as f:
            return json.load(f)

    def verdicts(self):
        return {v["name"]: (v["verdict"], v["text"]) for s in self.read()["steps"] for v in s["verdicts"]}

    def states(self):
        return {s["name"]: s["state"] for s in self.read()["steps"]}

    def counts(self):
        return tuple(self.read()["counts"][k] for k in ("passed", "failed", "skipped", "not reached"))

    def at(self, what, name):
        """Position of a line of the output, -1 if there is none."""
        lines = self.out.splitlines()
        return next((i for i, line in enumerate(lines) if line[9:].split()[:1] == [what] and name in line), -1)

    def wait_for(self, text, seconds=30):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                with open(os.path.splitext(self.report)[0] + ".txt") as f:
                    if text in f.read():
                        return True
            except OSError:
                pass
            time.sleep(0.05)
        return False


def plain():
    r = Run(["Step('a', sh('echo fine'), 1)", "Step('b', sh('echo bad; exit 3'), 1)", "Step('c', sh('echo skipped: no tool; exit 77'), 1)",
             "Step('d', ['/nonexistent/program'], 1)", "Step('e', sh('true'), 1, skip='not built')"])
    ok(r.status == 1, "a failure ends with 1", r.status)
    ok(r.counts() == (1, 2, 2, 0), "counts", r.counts())
    ok(r.out.splitlines()[-1] == "1 passed, 2 failed, 2 skipped", "the last line", r.out)
    ok(r.out.splitlines()[-2] == "0 not reached", "the line before it", r.out)
    v = r.verdicts()
    ok(v["b"] == ("failed", "ended with status 3: bad") and v["c"] == ("skipped", "no tool") and v["e"] == ("skipped", "not built"), "why", v)
    ok("         | bad" in r.out, "the output of a failed step", r.out)
    ok(r.read()["finished"], "a report that is finished")
    r = Run(["Step('a', sh('true'), 1)"])
    ok(r.status == 0, "all passed ends with 0", r.out)


def verdicts():
    say = "echo plan x y z; echo ok x fine; sleep 1.5; echo NOT y wrong; echo skip z why"
    r = Run(["Step('t', sh(%r), 5, tells=True)" % say])
    ok(r.counts() == (1, 1, 1, 0) and r.status == 1, "verdicts are counted one by one", r.counts())
    ok(0 <= r.at("ok", "t: x") < r.at("NOT", "t: y"), "verdicts as they come", r.out)
    seconds = [float(line[1:5]) for line in r.out.splitlines() if line[0] == "[" and ("t: x" in line or "t: y" in line)]
    ok(seconds[1] > seconds[0], "the first verdict is printed before the second is there", seconds)
    for text, name, why in (
            ("echo plan x y; echo ok x", "y", "no verdict"),  # status 0, and a verdict is missing
            ("echo plan x y; echo ok x; kill -9 $$", "y", "no verdict"),  # killed in between
            ("echo ok x", "x", "without a plan"),
            ("true", "t", "told no verdict"),
            ("echo plan x; echo ok x; exit 2", "t", "status 2"),  # all is ok, and yet it failed
            ("echo plan x; echo NOT x; echo ok x", "x", ""),  # a failure stays one
            ("echo plan x; printf 'ok x and no newline'; exit 5", "t", "status 5"),
            ("echo plan x y; echo ok x; exit 77", "y", "no verdict")):
        r = Run(["Step('t', sh(%r), 5, tells=True)" % text])
        got = r.verdicts().get(name, ("none", ""))
        ok(r.status == 1 and got[0] == "failed" and why in got[1], "a failure: " + text, r.verdicts())
    r = Run(["Step('t', sh('echo skipped: nothing here; exit 77'), 5, tells=True)"])
    ok(r.status == 0 and r.counts() == (0, 0, 1, 0), "a step that tells may be skipped", r.out)
    r = Run(["Step('t', sh('echo plan x; sleep 60 & echo ok x'), 5, tells=True)"])
    ok(r.status == 0 and r.counts() == (1, 0, 0, 0), "a child that lives on does not hold the plan up", r.out)


def order():
    r = Run(["Step('a', sh('sleep 0.5'), 1, alone=True)", "Step('b', sh('sleep 3'), 4)", "Step('c', sh('sleep 3'), 4)",
             "Step('d', sh('true'), 1, alone=True)"])
    order = [line[9:].split()[1].rstrip(",") for line in r.out.splitlines() if line[9:14] == "start"]
    ok(order == ["a", "b", "c", "d"], "steps start in their order", order)
    ok(r.at("passed", "a,") < r.at("start", "b,"), "one that is alone ends before the next starts", r.out)
    ok(r.at("start", "c,") < r.at("passed", "b,"), "two run at once", r.out)
    ok(max(r.at("passed", "b,"), r.at("passed", "c,")) < r.at("start", "d,"), "one that is alone waits for all", r.out)
    r = Run(["Step('a', sh('sleep 2'), 6)", "Step('alone', sh('true'), 1, alone=True)", "Step('long', sh('true'), 30)", "Step('short', sh('true'), 1)"])
    ok(0 < r.at("start", "short,") < r.at("start", "alone,") < r.at("start", "long,"), "short steps fill a gap, long ones do not", r.out)
    r = Run(["Step('%s', sh('sleep 3'), 4, size=0.5)" % n for n in "abc"], jobs=1)
    ok(r.at("start", "b,") < r.at("passed", "a,") < r.at("start", "c,"), "two halves are a job", r.out)


def budget():
    r = Run(["Step('a', sh('sleep 1'), 2, alone=True)", "Step('big', sh('true'), 50)", "Step('c', sh('true'), 3)"], budget=8)
    ok(r.status == 0 and r.counts() == (2, 0, 0, 1) and r.states()["big"] == "not reached", "what does not fit is not reached", r.out)
    ok("1 not reached" in r.out and "needs about 50 s" in r.out, "and is printed, with why", r.out)
    r = Run(["Step('a', sh('true'), 50)"], budget=8)
    ok(r.status == 1 and r.counts() == (0, 0, 0, 1), "a run that reaches nothing has not passed", r.out)
    began = time.monotonic()
    r = Run(["Step('a', sh('echo plan x y; echo ok x; echo the tail; exec sleep 60'), 2, tells=True)", "Step('b', sh('sleep 60; true'), 2)", "Step('c', sh('true'), 2)"], budget=4, jobs=3)
    ok(time.monotonic() - began < 20, "the budget ends what runs")
    v = r.verdicts()
    ok(r.status == 1 and v["x"][0] == "passed" and v["y"][0] == v["a"][0] == v["b"][0] == "failed" and v["c"][0] == "passed", "with a truthful list", v)
    ok("budget of 4 s" in v["b"][1] and "| the tail" in r.out, "and with why and the tail", r.out)
    began = time.monotonic()
    ok(cuda_plan.Step("a", [], 30).limit() == 80, "the limit of a step")
    r = Run(["type('Short', (Step,), {'limit': lambda s: 1})('a', sh('trap \"\" TERM; while :; do sleep 1; done'), 2)", "Step('b', sh('true'), 1, alone=True)"], budget=40)
    v = r.verdicts()
    ok(time.monotonic() - began < 20 and v["a"][0] == "failed" and "overran" in v["a"][1] and v["b"][0] == "passed", "an overrun is ended, and the next starts", v)


STEPS = ["Step('a', sh('echo plan x y; sleep 2; echo ok x; sleep 100'), 50, tells=True)", "Step('b', sh('true'), 1)", "Step('c', sh('sleep 100'), 50, alone=True)"]


def interruption():
    for number in (signal.SIGTERM, signal.SIGINT):
        r = Run(STEPS, wait=False, budget=200)
        ok(r.wait_for("passed b") and r.wait_for("passed a: x"), "the list is written at every verdict")
        r.process.send_signal(number)
        r.end()
        v = r.verdicts()
        ok(r.status == 1 and v["x"][0] == "passed" and v["y"][0] == "failed" and "interrupted" in v["y"][1], "interrupted: what ran has failed", v)
        ok(r.states()["c"] == "not reached yet" and not r.read()["finished"] and "1 not reached" in r.out, "the rest is not reached", r.out)
    r = Run(STEPS, wait=False, budget=200)
    ok(r.wait_for("passed b") and r.wait_for("passed a: x"), "the list is written at every verdict")
    r.process.kill()
    r.end()
    with open(os.path.splitext(r.report)[0] + ".txt") as f:
        text = f.read()
    ok("NOT finished" in text and "passed a: x" in text and "running a" in text and "not reached c" in text, "killed: the list is true", text)
    ok(not r.read()["finished"] and r.states()["a"] == "running", "killed: so is the report", r.states())
    for line in subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout.splitlines():
        if "echo plan x y; sleep 2; echo ok x; sleep 100" in line and "-c import sys" not in line:
            os.killpg(int(line.split()[0]), signal.SIGKILL)  # its group is its own: nobody else's can be hit


def selection():
    steps = [cuda_plan.Step(n, [], 1) for n in ("check/a", "memcheck/a", "judge")]
    names = lambda only: [s.name for s in cuda_plan.select(steps, only) or ()]
    ok(names("check") == ["check/a", "memcheck/a"] and names("^check") == ["check/a"] and names("") == [s.name for s in steps], "ONLY selects by a pattern")
    ok(names("nothing") == [] and cuda_plan.select(steps, "(") is None, "ONLY without a match, or that is no pattern")


def table():
    """The real table, without a GPU: what the core is, and that each script exists."""
    if not os.path.exists(os.path.join(os.path.dirname(HERE), "build", "touchstone")):
        return
    run = lambda *a: subprocess.run([sys.executable, os.path.join(HERE, "cuda.py"), *a], capture_output=True, text=True)
    names = [line.split()[0] for line in run("--list").stdout.splitlines()]
    ok(len(names) == len(set(names)) and len(names) > 100, "steps have names of their own", len(names))
    first = lambda start: next((i for i, n in enumerate(names) if n.startswith(start)), 10**6)
    core = ["exploits/sealed-gpu", "mutants/softmax_topk", "check-small/", "mutants-judged/", "facts", "memcheck/few/", "judge/"]
    ok([first(n) for n in core] == sorted(first(n) for n in core) and first("judge/") < first("check/") < first("gpu_fair"), "the core comes first", names)
    ok(first("exploits/") == 0, "exploits come first of all", names[:3])
    with tempfile.TemporaryDirectory() as folder:  # a list that is continued
        with open(os.path.join(folder, "nvidia-smi"), "w") as f:
            f.write("#!/bin/sh\necho GPU 0\n")
        os.chmod(f.name, 0o755)
        environment = {**os.environ, "PATH": folder + ":" + os.environ["PATH"]}
        report = os.path.join(folder, "list.json")
        plan = ["--seconds", "30", "--only", "^(unit_ternary|check/flash_attention)$", "--report", report]
        part = lambda *a: subprocess.run([sys.executable, os.path.join(HERE, "cuda.py"), *plan, *a], capture_output=True, text=True, env=environment).stdout
        first, second = part(), part("--rest")
        with open(report) as f:
            kept = json.load(f)
        said = lambda out: [line for line in out.splitlines() if line.startswith("[") and "unit_ternary" in line]
        ok(said(first) and "1 not reached" in first, "a first part", first)
        ok(not said(second) and "1 not reached" in second and kept["counts"]["passed"] + kept["counts"]["skipped"] == 1, "the rest adds to the list", second)
        with open(report, "w") as f:
            json.dump({**kept, "build": "another"}, f)
        third = part("--rest")
        ok(said(third) and "changed" in third, "another build runs every step", third)
    wrong = run("--list", "--only", "no such step")
    ok(wrong.returncode == 2 and "no such step" in wrong.stderr, "ONLY without a match is an error", wrong.stderr)


def main():
    for test in (plain, verdicts, order, budget, interruption, selection, table):
        test()
    print("cuda_plan: %s" % ("%d failures" % failures if failures else "ok"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
