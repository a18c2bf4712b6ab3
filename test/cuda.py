# SPDX-License-Identifier: Apache-2.0
"""cuda.py [--seconds N] [--only PATTERN] [--rest] [--report FILE] [--list] - tests the CUDA kernels and the judge's device side on a
GPU, within N seconds (600), the most telling tests first.

--only runs the steps whose name the regular expression is found in, --rest those that the last run of this build did
not reach, and adds to its list. --list prints the steps in their order, with their estimates, and runs nothing. The
verdicts are written to build/cuda-tests.json and build/cuda-tests.txt. $JOBS is the number of steps at once (default:
a quarter of the cores).
"""
import argparse
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys

import cuda_plan
from cuda_plan import Step

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build")
REPORT = os.path.join(BUILD, "cuda-tests.json")
CHECK = ["build/touchstone", "check", "--device", "cuda"]
SMALL = [*CHECK, "--no-mutants", "--seed", "0x5eed"]  # sanitizers skip the mutants: some have the bugs that they report
DTYPES = ("f32", "bf16", "f16")
# racecheck takes seconds per call, however small, if a kernel uses clusters: there it runs one case per code path.
FEW = "rows=257,vocab=3|rows=1,vocab=2,|rows=2,vocab=1024,|rows=33,vocab=1024,|rows=9,vocab=7,|vocab=4099,k=1025,|vocab=32000,k=31,"
# The smallest attention cases have no full tile, so a few larger ones run too.
TILES = ("q=17,k=17,|q=5,k=64,|q=65,k=130,|q=63,k=63,|q=65,k=65,batch=1,q_heads=2,kv_heads=2,|q=17,k=33,|q=129,k=129,|q=40,k=40,")
FEW_TILES = "q=17,k=17,|q=5,k=64,|q=65,k=65,batch=1,q_heads=2,kv_heads=2,"
OF_STEM = {"flash_attention_backward", "flash_attention_fp8", "cross_entropy_logits"}  # tested with their stem
# All seconds are estimates: a measured one replaces them after a run. Here: of a check of all small cases, and of all cases, on an H200 and
# 16 cores; most of it is the CPU oracle.
CHECK_SECONDS = {"flash_attention": (60, 240), "softmax_topk": (20, 120), "kv_cache": (20, 90), "cross_entropy": (15, 60),
                 "ternary_linear": (15, 60)}


def has(program):
    return os.path.exists(os.path.join(BUILD, program))


def listed(kind):
    return subprocess.run(["build/touchstone", "list", kind], capture_output=True, text=True, check=True).stdout.splitlines()


def built_in():
    """{task: [implementation, ...]} with CUDA, in the order of the library's tables; `--task` takes a prefix."""
    tasks = {}
    for line in listed("impls"):
        task, impl, *_ = line.split()
        if impl in ("sm90", "cuda") and task not in OF_STEM:
            tasks.setdefault(task, []).append(impl)
    return tasks


def challenges():
    return [line.split()[0] for line in listed("challenges")]


def mutant_tasks():
    """{task: number of CUDA mutants}"""
    count = {}
    for task, name, *_ in (line.split() for line in listed("mutants")):
        if name.startswith("cuda_"):
            count[task] = count.get(task, 0) + 1
    return count


def exploit_classes():
    """{class: seconds}: one that may pass is examined whole and timed, one that is rejected is not."""
    with open("proof/exploit/gpu/expect.txt") as f:
        rows = [line.split() for line in f if line.strip() and not line.startswith("#")]
    seconds = {}
    for _, _, cls, _, accepted, *_ in rows:
        may_pass = {"pass", "no-gain"} & set(accepted.split(","))
        seconds[cls] = seconds.get(cls, 20) + (12 if may_pass else 3)
    return seconds


class Table:
    def __init__(self):
        self.steps = []
        self.no_sanitizer = "" if shutil.which("compute-sanitizer") else "no compute-sanitizer"

    def add(self, name, command, seconds, **more):
        self.steps.append(Step(name, command, seconds, **more))

    def unit(self, name, seconds, program, *arguments, needs="cmocka"):
        program = "test/" + program
        self.add(name, ["build/" + program, *arguments], seconds, skip="" if has(program) else "not built: no " + needs)

    def sanitize(self, tool, name, command, seconds, *options, needs=""):
        lacks = self.no_sanitizer or ("not built: no " + needs if needs and not os.path.exists(command[0]) else "")
        self.add(f"{tool}/{name}", ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", *options, *command], seconds,
                 size=0.5, skip=lacks)

    def core(self, tasks):
        """The most telling ones: an exploit that wins, a mutant that passes, a kernel that is wrong, a race."""
        for cls, seconds in exploit_classes().items():
            self.add("exploits/" + cls, ["test/gpu_exploit.sh", BUILD, cls], seconds, alone=True, tells=True)
        mutants = mutant_tasks()
        for task in [t for t in mutants if t not in OF_STEM]:
            self.add("mutants/" + task, ["test/gpu_caught.sh", BUILD, task], 40, tells=True)
        for task in tasks:
            self.add("check-small/" + task, [*SMALL, "--small", "--task", task], CHECK_SECONDS.get(task, (10, 0))[0])
        judged = [("mutants-judged/" + task, ["test/gpu_mutant.sh", BUILD, task], 60 + 3 * n) for task, n in mutants.items()]
        for name, command, seconds in judged[:1]:
            self.add(name, command, seconds, alone=True, tells=True)
        self.add("facts", ["test/gpu_judge.sh", BUILD, "facts"], 15, alone=True, tells=True)
        for task, impls in tasks.items():
            for impl in impls:
                for tool, seconds in (("memcheck", 25), ("racecheck", 35)):
                    few = ["--small", "--cases", "1/4"]
                    if task == "flash_attention":
                        few = ["--case", FEW_TILES]
                    elif task == "softmax_topk" and tool == "racecheck":
                        few = ["--small", "--case", "rows=1,vocab=2,|rows=9,vocab=7,|rows=2,vocab=1024,"]
                    self.sanitize(tool, f"few/{task}/{impl}", [*SMALL, "--task", task, "--impl", impl, *few], seconds)
        for name, command, seconds in judged[1:]:
            self.add(name, command, seconds, alone=True, tells=True)
        for task in ("ternary_linear", "kv_cache", "tree_verify", "beam_search"):
            self.add("script/" + task, ["test/gpu_script.sh", BUILD, task], 90, alone=True)
        for task in challenges():
            self.add("judge/" + task, ["test/gpu_judge.sh", BUILD, task], 75, alone=True, tells=True)

    def units(self):
        model, no_report = "jansson, CBLAS, PCRE2 or cmocka", ["--report-api-errors", "no"]
        self.unit("model", 30, "unit_model_cuda", needs=model)
        for name in ("story", "beam", "tree", "packed"):
            self.unit("model_" + name, 20, "unit_model_" + name, "cuda", needs=model)
        # The test requests more memory than exists on purpose: not an error of the program.
        for name, arguments in (("unit_model_cuda", []), ("unit_model_packed", ["cuda"])):
            self.sanitize("memcheck", name, ["build/test/" + name, *arguments], 60, *no_report, needs=model)
        self.unit("train", 20, "unit_train_cuda", needs=model)
        self.unit("train_run", 20, "unit_train_run", "cuda", needs=model)
        for tool in ("memcheck", "racecheck"):
            self.sanitize(tool, "train", ["build/test/unit_train_cuda"], 60, needs=model)
        for name in ("unit_ternary", "unit_ternary_linear", "unit_attention_fp8"):
            self.unit(name, 15, name, "cuda")
            self.sanitize("memcheck", name, ["build/test/" + name, "cuda"], 45, needs="cmocka")
        self.sanitize("racecheck", "ternary", ["build/test/unit_ternary_linear", "cuda", "few"], 45, needs="cmocka")
        for name in ("kv_tree", "beam_search", "beam_search_random", "tree_verify", "tree_verify_random"):
            self.unit(name, 15, "unit_" + name, "cuda")
        for name in ("kv_tree", "beam_search"):
            self.sanitize("memcheck", name, ["build/test/unit_" + name, "cuda"], 45, needs="cmocka")
        self.add("example_cuda_stream", [sys.executable, "test/example.py", "build", "cuda_stream"], 15)

    def rest(self, tasks):
        self.add("gpu_sanitize", ["test/gpu_sanitize.sh", BUILD], 240, alone=True, tells=True, skip=self.no_sanitizer)
        self.add("gpu_adapted", ["test/gpu_adapted.sh", BUILD], 60, alone=True, tells=True)
        self.add("gpu_python", ["test/gpu_python.sh", BUILD], 180, alone=True, tells=True)
        for task in tasks:
            self.add("check/" + task, [*CHECK, "--no-mutants", "--task", task], CHECK_SECONDS.get(task, (0, 45))[1])
        self.units()
        self.add("gpu_fair_20us", ["test/gpu_fair.sh", BUILD, "1"], 240, alone=True, tells=True)
        self.add("gpu_fair_200us", ["test/gpu_fair.sh", BUILD, "10"], 240, alone=True, tells=True)
        self.add("doc_commands", [sys.executable, "test/doc_commands.py", "build", "gpu"], 120, alone=True)
        for task, impls in tasks.items():
            for impl in impls:
                for dtype in DTYPES:
                    for tool in ("memcheck", "racecheck"):
                        cases = ["--small"]
                        if task == "flash_attention":
                            cases = ["--case", TILES]
                        elif task == "softmax_topk" and tool == "racecheck":
                            cases = ["--small", "--case", FEW]
                        self.sanitize(tool, f"{task}/{impl}/{dtype}", [*SMALL, "--task", task, "--impl", impl, "--dtype", dtype, *cases],
                                      40 if tool == "memcheck" else 60)


def table():
    tasks, t = built_in(), Table()
    t.core(tasks)
    t.rest(tasks)
    return t.steps


# ---- this build, and what its last run knows ----

def fingerprint():
    """Of what is tested: the programs and modules, the exploits and the tests."""
    paths = [p for pattern in ("build/touchstone*", "build/*.so", "build/test/unit_*", "proof/exploit/gpu/*", "test/gpu_*", "test/cuda*.py")
             for p in glob.glob(pattern) if os.path.isfile(p)]
    text = hashlib.sha256()
    for path in sorted(paths):
        with open(path, "rb") as f:
            text.update(path.encode() + b"\0" + hashlib.sha256(f.read()).digest())
    return text.hexdigest()


def last_run(report):
    try:
        with open(report) as f:
            return json.load(f)
    except (OSError, ValueError):
        return {"steps": []}


def estimate(steps, last):
    """Where the last run on this machine took longer or shorter, that is the better estimate."""
    took = {s["name"]: s["took_s"] for s in last["steps"] if s["state"] == cuda_plan.ENDED and s["took_s"] > 0
            and not any(v["verdict"] == cuda_plan.FAILED for v in s["verdicts"])}
    for step in steps:
        if step.name in took:
            step.seconds = round(1.2 * took[step.name] + 2)


def has_gpu():
    try:
        return "GPU" in subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout or os.path.exists("/dev/nvidia0")
    except OSError:
        return os.path.exists("/dev/nvidia0")


def options():
    p = argparse.ArgumentParser(prog="cuda.py", description="tests the CUDA kernels and the judge's device side on a GPU")
    p.add_argument("--seconds", type=float, default=600, help="the budget, from the start of the tests (default 600)")
    p.add_argument("--only", default="", metavar="PATTERN", help="only the steps whose name the regular expression is found in")
    p.add_argument("--rest", action="store_true", help="only the steps that the last run of this build did not reach")
    p.add_argument("--report", default=REPORT, metavar="FILE", help="where the list is, and goes (default build/cuda-tests.json)")
    p.add_argument("--list", action="store_true", help="print the steps and their estimates; run nothing")
    return p.parse_args()


def main():
    os.chdir(ROOT)
    o = options()
    if not o.list and not has_gpu():
        print("skipped: no CUDA device\n0 passed, 0 failed, 1 skipped")
        return 0
    os.environ["PATH"] += ":/usr/local/cuda/bin"
    jobs = int(os.environ.get("JOBS") or max(1, (len(os.sched_getaffinity(0)) + 3) // 4))
    steps = cuda_plan.select(table(), o.only)
    if not steps:
        print("cuda.py: --only: got '%s', expected a regular expression that is found in a step's name" % o.only, file=sys.stderr)
        return 2
    last, about, kept = last_run(o.report), {"build": fingerprint()}, []
    estimate(steps, last)
    if o.list:
        for step in steps:
            print("%-44s %4.0f s%s%s" % (step.name, step.seconds, ", alone" if step.alone else "", ", skipped: " + step.skip if step.skip else ""))
        return 0
    if o.rest and last.get("build") == about["build"]:
        kept = [s for s in last["steps"] if s["state"] == cuda_plan.ENDED]
        names = {s["name"] for s in kept}
        steps = [s for s in steps if s.name not in names]
    elif o.rest:
        print("the build has changed since the last run: every step runs")
    return cuda_plan.Plan(steps, o.seconds, jobs, o.report, about, kept).run()


if __name__ == "__main__":
    sys.exit(main())
