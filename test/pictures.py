#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pictures.py BUILD - tests the pictures that the program draws: bench --svg and check --svg show the numbers of the run's
JSON, demo cage --svg its faults, and every SVG in doc/ is well-formed and follows the reader's colour scheme."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree

ROOT = pathlib.Path(__file__).resolve().parent.parent
SVG = "{http://www.w3.org/2000/svg}"
flaws = []


def ok(condition, what):
    if not condition:
        flaws.append(what)
        print("pictures:", what, file=sys.stderr)


def drawn(program, folder, *arguments):
    """The picture's elements, its text, and the JSON of the same run."""
    svg, out = folder / "picture.svg", folder / "run.json"
    done = subprocess.run([program, *arguments, "--svg", svg, "--json", out], capture_output=True, text=True, timeout=250)
    if done.returncode:
        sys.exit(f"pictures: {' '.join(arguments)}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    root = tree.parse(svg).getroot()
    return root, [t.text for t in root.iter(SVG + "text")], json.loads(out.read_text())


def titles(root):
    return sorted(t.text for t in root.iter(SVG + "title"))


def roofline(program, folder):
    root, text, run = drawn(program, folder, "bench", "--task", "tree_verify", "--case", "nodes=16,vocab=32000", "--rounds", "3")
    timed = [r for r in run["rows"] if "time_ns" in r]
    ok(timed, "bench: no case was timed")
    want = sorted("%.4g, %.4g" % (1e3 * r["tflops"] / r["gbs"], 1e3 * r["tflops"]) for r in timed)
    # the limit has no markers, so every title is a point of the run
    ok(titles(root) == want, f"bench --svg: got {titles(root)}, expected {want}")
    ok({r["impl"] for r in timed} | {"peak rates"} <= set(text), f"bench --svg: the legend has only {text}")
    ok(any(run["machine"] in t for t in text), "bench --svg: the machine is not named")


def errors(program, folder):
    root, text, run = drawn(program, folder, "check", "--task", "rope", "--small", "--no-mutants", "--seed", "7")
    lanes = [lane for lane in run["lanes"] if lane["worst_by_dtype"]]
    ok(lanes, "check: no implementation was examined")
    want = sorted("%s %.4g" % item for lane in lanes for item in lane["worst_by_dtype"].items())
    ok(titles(root) == want, f"check --svg: got {titles(root)}, expected {want}")
    ok({"%s %s" % (lane["task"], lane["impl"]) for lane in lanes} <= set(text), f"check --svg: rows are missing: {text}")
    for lane in lanes:
        worst = max(lane["worst_fraction_of_bound"], lane["worst_fraction_of_bound_16_bits"])
        ok(worst == max(lane["worst_by_dtype"].values()), f"check: {lane}: the dtypes' largest is not the largest")


def cage(program, folder):
    _, text, run = drawn(program, folder, "demo", "cage")
    for row in run["rows"][1:]:
        shown = [t for t in text if t.startswith(row["access"] + ": ")]
        ok(len(shown) == 1 and shown[0].endswith("band changed") == (row["signal"] == 0), f"demo cage --svg: {row}: {shown}")


def documents():
    files = sorted((ROOT / "doc").glob("*.svg"))
    ok(len(files) > 10, f"doc/ has {len(files)} SVG files")
    for path in files:
        root = tree.parse(path).getroot()  # raises where it is not XML
        ok(root.tag == SVG + "svg", f"{path.name}: not an SVG")
        ok(any("prefers-color-scheme: dark" in (s.text or "") for s in root.iter(SVG + "style")), f"{path.name}: light only")
        ok(not re.search(r'[="\s](nan|-?inf)["\s,]', path.read_text(), re.I), f"{path.name}: a place that is no number")


def main():
    program = pathlib.Path(sys.argv[1]).resolve() / "touchstone"
    documents()
    with tempfile.TemporaryDirectory() as tmp:
        for test in (roofline, errors, cage):
            test(program, pathlib.Path(tmp))
    print("pictures: %s" % ("%d flaws" % len(flaws) if flaws else "passed"))
    return bool(flaws)


if __name__ == "__main__":
    sys.exit(main())
