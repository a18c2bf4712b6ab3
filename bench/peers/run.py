#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py - times our CUDA kernels and every installed peer in one process; writes a table, a JSON
file and a page of plots.

    run.py [--rows PATTERN] [--seconds N] [--out FOLDER] [--rounds N] [--compile PATTERN] [--peers NAMES]
    run.py --list                  print the rows
    run.py --page JSON [JSON]      write table and page from stored results; the second file is an earlier run
    run.py --warm I/N              compile what the peers compile for rows I, I + N, ...; times nothing

Exit status: 0; 1 if an output of ours was wrong or a call of ours failed; 2 usage; 77 no CUDA device or no PyTorch.
doc/peers.md describes the method."""
import argparse
import json
import os
import re
import sys
import time

import page
import rows

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "..", "python"))  # of peers.py
BUILD = os.path.join(HERE, "..", "..", "build")


def arguments():
    p = argparse.ArgumentParser(prog="run.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", default="", metavar="PATTERN", help="a regular expression; rows whose name contains it")
    p.add_argument("--seconds", type=float, default=0, help="begin no row after this time (default: no limit)")
    p.add_argument("--out", default=os.path.join(BUILD, "peers"), help="folder of results (default: build/peers)")
    p.add_argument("--rounds", type=int, default=21, help="timed calls per method (default 21)")
    p.add_argument("--library", default=os.path.join(BUILD, "libtouchstone.so"))
    p.add_argument("--peers", default="", metavar="NAMES", help="only these packages, separated by commas")
    p.add_argument("--compile", default="", metavar="PATTERN", help="rows that torch.compile takes part in; it takes "
                   "seconds per row (default: all)")
    p.add_argument("--list", action="store_true")
    p.add_argument("--page", nargs="+", metavar="JSON")
    p.add_argument("--warm", metavar="I/N")
    given = p.parse_args()
    for option in ("rows", "compile"):
        text = getattr(given, option)
        try:
            setattr(given, option, re.compile(text))
        except re.error as error:
            p.error("--%s: got %r, expected a regular expression; %s" % (option, text, error))
    if given.page and len(given.page) > 2:
        p.error("--page: got %d files, expected 1 or 2" % len(given.page))
    if given.seconds < 0 or given.rounds < 1:
        p.error("--seconds and --rounds: expected positive numbers")
    if given.warm:
        part = re.fullmatch(r"(\d+)/(\d+)", given.warm)
        if not part or int(part[1]) >= int(part[2]):
            p.error("--warm: got %r, expected I/N with I below N" % given.warm)
        given.part = int(part[1]), int(part[2])
    given.chosen = [r for r in rows.rows() if given.rows.search(rows.name(r))]
    if not given.chosen:
        p.error("--rows: no row's name contains %r; --list prints them" % given.rows.pattern)
    return given


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


class Run:
    """The results, rewritten after every row: a run that is cut off loses at most one."""

    def __init__(self, given, about):
        self.given, self.begun = given, time.time()
        self.data = {"about": about, "ceilings": [], "rows": [], "missing": {}, "not_reached": []}

    def left(self):
        return self.given.seconds - (time.time() - self.begun) if self.given.seconds else 1e9

    def save(self):
        os.makedirs(self.given.out, exist_ok=True)
        name = os.path.join(self.given.out, "peers.json")
        with open(name + ".new", "w") as f:
            json.dump(self.data, f, indent=1)
        os.replace(name + ".new", name)

    def add(self, row, which, case, times, errors):
        record = {"row": rows.name(row), "kernel": row[0], "pass": which, "work": case.work, "unit": case.unit,
                  "ceiling": case.ceiling, "note": case.note, "failed": case.failed,
                  "at": round(time.time() - self.begun, 1),
                  "methods": {n: {**t, "part": case.methods[n].part, **({"error": errors[n]} if n in errors else {})}
                              for n, t in times.items()}}
        self.data["rows"].append(page.judge(record))
        print(page.line(record, self.data), flush=True)
        self.save()


def train_steps(run, row):
    """Whole programs, since each holds most of the device: bench/train_bench, and test/train_peer.py per method."""
    import subprocess
    from method import Case
    shape = [str(n) for n in row[1]]
    case, times = Case(None, "", "", {}, 0), {}
    case.note = "one process per method"
    if not os.path.exists(os.path.join(BUILD, "bench", "train_bench")):
        case.failed["ours"] = page.ABSENT
        return run.add(row, "", case, times, {})
    peer = [sys.executable, os.path.join(HERE, "..", "..", "test", "train_peer.py"), *shape]
    for name, command in (("ours", [os.path.join(BUILD, "bench", "train_bench"), *shape]), ("torch eager", [*peer, "eager"]),
                          ("torch.compile", [*peer, "compile"]), ("torch.compile with graphs", [*peer, "graphs"])):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=max(5, min(300, run.left())))
            ms = re.search(r"float .*?([\d.]+) ms a step", done.stdout)
            if not ms:
                raise RuntimeError((done.stderr.strip().splitlines() or ["no figure in its output"])[-1][:160])
            us = 1e3 * float(ms[1])
            times[name] = {"us": us, "low": us, "high": us, "n": 20}
            case.add(name, lambda: None)
        except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
            case.failed[name] = str(error)[:160]
    run.add(row, "", case, times, {})


def main():
    given = arguments()
    if given.list:
        print("\n".join(rows.name(r) for r in given.chosen))
        return 0
    if given.page:
        stored = []
        for name in given.page:
            try:
                with open(name) as f:
                    stored.append(page.read(json.load(f)))
            except (OSError, ValueError) as error:
                print("bench/peers: %s: %s; expected a peers.json that run.py wrote" % (name, error), file=sys.stderr)
                return 2
        page.write(given.out, *stored)
        print(page.table(stored[0]))
        return 0
    try:
        import torch
    except ImportError:
        skip("no PyTorch")
    if not torch.cuda.is_available():
        skip("no CUDA device")
    import kernels
    import method
    import ours
    import peers
    if given.peers:
        for name in peers.PACKAGES:
            if name not in given.peers.split(","):
                peers.MISSING[name] = "left out by --peers"
    if given.warm:
        return warm(given, kernels, method)
    why = ours.load(given.library)
    if why:
        skip(why)
    peers.load()
    about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
             "cuda": torch.version.cuda, "date": time.strftime("%Y-%m-%d"), "rounds": given.rounds}
    run = Run(given, about)
    run.data["missing"] = peers.MISSING
    run.data["ceilings"].append(method.ceilings())
    print(page.opening(run.data), flush=True)
    torch.manual_seed(1)
    for i, row in enumerate(given.chosen):
        if run.left() < 3:
            run.data["not_reached"] = [rows.name(r) for r in given.chosen[i:]]
            break
        kernels.WITH_COMPILE = bool(given.compile.search(rows.name(row)))
        try:
            if row[0] == "training step":
                train_steps(run, row)
                continue
            if row[0] == "attention fp8" and not hasattr(ours.LIB, "ts_flash_attention_fp8"):
                case = method.Case(None, "", "", {}, 0)
                case.failed["ours"] = page.ABSENT
                run.add(row, "", case, {}, {})
                continue
            for which, case in kernels.KERNELS[row[0]](*row[1]):
                errors = method.check(case)
                run.add(row, which, case, method.measure(case, given.rounds, 2.0), errors)
        except torch.cuda.OutOfMemoryError as error:
            print("%s: %s" % (rows.name(row), method.words(error)), flush=True)
        if torch.cuda.mem_get_info()[0] < 40 << 30:
            torch.cuda.empty_cache()  # takes long, so only where large rows would not fit otherwise
    run.data["ceilings"].append(method.ceilings())
    run.data["about"]["seconds"] = round(time.time() - run.begun)
    run.save()
    page.write(given.out, run.data)
    print(page.closing(run.data))
    return 1 if page.ours_failed(run.data) else 0


def warm(given, kernels, method):
    """Compiles in the background of a build: no row needs our library here, and lengths are short."""
    import torch
    seen, part, count = set(), *given.part
    begun = time.time()
    for i, (kernel, shape) in enumerate(given.chosen):
        if kernel == "attention":  # FlashAttention-4 compiles per head dim, group, mask and dtype
            batch, heads, kv_heads, n, d, causal, kind, window = shape
            shape = (1, heads, kv_heads, 2048 if window else 1024, d, causal, kind, window)
            key = (kernel, heads // kv_heads, *shape[4:])
        elif kernel in ("layer norm", "softmax + top-k"):  # QuACK and Triton per columns and dtype
            key = (kernel, *shape[1:])
        elif kernel == "decode":
            key = (kernel, shape[2] // shape[3], shape[4])
            shape = (16, 256, *shape[2:5], "bf16")
        else:
            continue
        if key in seen:
            continue
        seen.add(key)
        if len(seen) % count != part:
            continue
        kernels.WITH_COMPILE = bool(given.compile.search(rows.name((kernel, shape))))
        for which, case in kernels.KERNELS[kernel](*shape):
            case.failed.pop("ours", None)
            case.methods.pop("ours", None)
            method.check(case)
            print("warm %s %s %.0f s; %s" % (rows.name((kernel, shape)), which, time.time() - begun,
                                             case.failed or "all"), flush=True)
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
