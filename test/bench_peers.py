# SPDX-License-Identifier: Apache-2.0
"""bench_peers.py - tests of `make bench-peers` that need no GPU and no PyTorch: arguments, the list of rows, and the
table and the page from stored results."""
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUN = os.path.join(ROOT, "bench", "peers", "run.py")
failures = 0


def ok(condition, what):
    global failures
    if not condition:
        failures += 1
        print("FAIL: " + what)


def run(*arguments):
    return subprocess.run([sys.executable, RUN, *arguments], capture_output=True, text=True, timeout=60)


def method(us, part=False, **more):
    return {"us": us, "low": us * 0.9, "high": us * 1.1, "n": 21, "part": part, **more}


def record(row, kernel, which, methods, failed=None, work=1e9, unit="GB/s", ceiling="copy"):
    return {"row": row, "kernel": kernel, "pass": which, "work": work, "unit": unit, "ceiling": ceiling, "note": "",
            "failed": failed or {}, "methods": methods}


def sample(scale):
    return {"about": {"device": "a GPU", "torch": "2", "cudnn": 9, "cuda": "13", "date": "2026-01-01", "rounds": 21},
            "ceilings": [{"copy": 4000.0, "read": 4400.0, "matmul": 800.0}, {"copy": 4200.0, "read": 4400.0, "matmul": 800.0}],
            "missing": {"FlashAttention-2": "No module named 'flash_attn' <2>"}, "not_reached": ["training step 4 x 512"],
            "rows": [record("norm A", "layer norm", "forward", {"ours": method(500.0 * scale, error=1e-3),
                                                               "torch": method(1000.0), "QuACK": method(400.0)}),
                     # a part of the work is fast, and is no peer
                     record("top B", "softmax + top-k", "", {"ours": method(10.0), "torch": method(30.0),
                                                             "select only": method(1.0, part=True)}),
                     record("top C", "softmax + top-k", "", {"torch": method(30.0)}, {"ours": "wrong: relative error 1"}),
                     record("fp8 D", "attention fp8", "", {}, {"ours": "not in this library"}, None, "", "")]}


def main():
    listed = run("--list").stdout.splitlines()
    ok(len(listed) > 120 and len(set(listed)) == len(listed), "rows are listed once each")
    for kernel in ("attention", "layer norm", "softmax + top-k", "decode", "tree attention", "ternary linear", "beam step",
                   "call overhead", "training step"):
        ok(any(r.startswith(kernel) for r in listed[:400]), "there are rows of " + kernel)
        ok(kernel == "training step" or any(r.startswith(kernel) for r in listed[:20]), kernel + " is among the first 20")
    some = run("--list", "--rows", "D 96.*causal").stdout.splitlines()
    ok(some and all("D 96" in r for r in some), "--rows selects")
    for wrong, says in ((["--rows", "("], "--rows"), (["--compile", "*"], "--compile"), (["--rows", "no such row"], "no such row"), (["--warm", "3/2"], "--warm"),
                        (["--seconds", "-1"], "--seconds"), (["--page", "a", "b", "c"], "--page"), (["--odd"], "--odd")):
        done = run(*wrong)
        ok(done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr, "rejects %s" % wrong)

    with tempfile.TemporaryDirectory() as folder:
        now, before, bad = (os.path.join(folder, n) for n in ("now.json", "before.json", "bad.json"))
        for name, data in ((now, sample(1)), (before, sample(2)), (bad, [1])):
            with open(name, "w") as f:
                json.dump(data, f)
        for name in (bad, os.path.join(folder, "absent.json")):
            done = run("--page", name, "--out", folder)
            ok(done.returncode == 2 and name in done.stderr and "Traceback" not in done.stderr, "rejects " + name)
        done = run("--page", now, before, "--out", folder)
        ok(done.returncode == 0, "writes a page: " + done.stderr)
        table = done.stdout
        # 1e9 bytes in 500 us are 2000 GB/s, of 4100 on the average
        ok("| norm A, forward | 500.0 | 2000 GB/s, 49 % | QuACK | 400.0 | 0.80 |" in table, "the fastest peer counts")
        ok("| top B | 10.0 |" in table and "| torch | 30.0 | 3.00 |" in table, "a part is no peer")
        ok("| top C | wrong: relative error 1 |" in table and "ours failed: top C" in table, "a wrong output of ours is named")
        ok("ours failed: fp8 D" not in table, "a kernel that the library lacks is no failure")
        ok("1 peers missing" in table and "FlashAttention-2: No module" in table, "missing peers are counted and named")
        ok("1 rows not reached: training step 4 x 512" in table, "rows that were not reached are named")
        ok("4 rows, 2 with a peer; behind in 1; ratio 0.80 to 3.00" in table, "the summary counts")
        with open(os.path.join(folder, "peers.html")) as f:
            page = f.read()
        with open(os.path.join(folder, "peers.txt")) as f:
            ok(f.read() == table, "the file has the table")
        ok(page.count("<svg") == 2 and len(re.findall('<circle class="(ahead|behind)"', page)) == 2, "one dot per ratio")
        ok('<circle class="behind"' in page and "QuACK 400.0 us, ours 500.0 us: 0.80" in page, "a loss is marked")
        ok("before: 0.40" in page, "the earlier run is drawn")
        ok("prefers-color-scheme: dark" in page and "<script" not in page and "http" not in page, "one file, light and dark")
        ok("&lt;2&gt;" in page and "<2>" not in page, "text is escaped")
        # ratios lie in order on a logarithmic axis, 1 between them
        places = {k: float(re.search(r'class="%s" (?:x1|cx)="([\d.]+)"' % k, page)[1]) for k in ("behind", "one", "ahead")}
        ok(places["behind"] < places["one"] < places["ahead"], "losses are left of 1, wins right of it")
        picture = tree.parse(os.path.join(folder, "peers.svg")).getroot()
        dots = [e for e in picture.iter() if e.get("class") in ("ahead", "behind")]
        ok(sorted(d[0].text for d in dots) == ["QuACK 400.0 us, ours 500.0 us: 0.80", "torch 30.0 us, ours 10.0 us: 3.00"],
           "the picture has the ratios of the table")
    print("bench_peers: %s" % ("%d failed" % failures if failures else "passed"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
