#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# core.py BUILD [--list] - derives the trusted core by nm and compares it with doc/threat-model.md.
#
# The core is what judge/ruling/ruling.c, the only writer of verdicts, links; and what the cage's
# program links from its main file. libc is left out. Both first have to fail on planted faults.
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
JUDGE = ["judge", "exam", "task", "script", "arena", "gpu", "protocol", "touchstone_base"]
CAGE = ["touchstone-cage", "gpu"]
TASKS = ("judge/task/", "judge/script/")
ROLE = {"base": "clock, hash, dtypes, the interface to CUDA", "base/real": "exact arithmetic", "judge/arena": "memory of a case",
        "judge/cage": "cage, the entrant's side", "judge/call": "cage, the judge's side", "judge/exam": "measured peak rates",
        "judge/gpu": "devices", "judge/protocol": "audit of objects", "judge/read": "what was read of an entrant",
        "judge/ruling": "verdicts", "judge/run": "build, cases, correctness, robustness, log", "judge/timing": "timing"}


def objects(targets):
    """Source to object, of all objects of these targets. A build folder may hold old ones, too."""
    found = {}
    for c in json.loads((BUILD / "compile_commands.json").read_text()):
        path = re.search(r" -o (\S+)", c["command"]).group(1)
        if path.split("/")[1] in [f"{t}.dir" for t in targets]:
            found[str(pathlib.Path(c["file"]).relative_to(ROOT))] = BUILD / path
    return found


def symbols(path, *options):
    """The global symbols that nm lists."""
    lines = subprocess.run(["nm", "-g", *options, path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in lines.splitlines() if line.split()}


def closure(root, targets):
    """The sources that the object of `root` needs, itself included."""
    of = objects(targets)
    definer = {s: source for source, path in of.items() for s in symbols(path, "--defined-only")}
    core, todo = set(), [root]
    while todo:
        source = todo.pop()
        if source not in core:
            core.add(source)
            todo += [definer[s] for s in symbols(of[source], "--undefined-only") if s in definer]
    return core, of


def with_headers(core, of):
    """The project's files that the objects of the core were compiled from, by ninja's record."""
    deps = subprocess.run(["ninja", "-C", BUILD, "-t", "deps", *(str(of[s].relative_to(BUILD)) for s in sorted(core))],
                          capture_output=True, text=True, check=True).stdout
    files = {(BUILD / line.strip()).resolve() for line in deps.splitlines() if line.startswith("    ")}
    return {str(f.relative_to(ROOT)) for f in files if f.is_relative_to(ROOT) and not f.is_relative_to(BUILD)}


def lines_of(files):
    """Lines that are neither blank nor comment."""
    n = 0
    for name in files:
        text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", "", m.group()), (ROOT / name).read_text(), flags=re.S)
        n += sum(1 for line in text.splitlines() if line.strip())
    return n


def complaints(core, section):
    """Differences between the derived core and the files that the document lists."""
    listed = set(re.findall(r"`([a-z0-9_]+/[a-z0-9_/]+\.c)`", section))
    derived = {s for s in core if not s.startswith(TASKS + ("base/isa/",))}
    return ([f"{s} decides verdicts but is not listed" for s in sorted(derived - listed)] +
            [f"{s} is listed but no verdict needs it" for s in sorted(listed - derived)])


def writers(tree):
    """Files that begin a record of type verdict, or change a verdict."""
    return sorted(str(p.relative_to(tree)) for p in tree.glob("judge/*/*.c")
                  if re.search(r'ts_log_begin\([^)]*"verdict"|->ruled = |\(ts_ruled \*\)', p.read_text()))


def table(core):
    """The rows of the document's table."""
    folders = {}
    for s in sorted(s for s in core if not s.startswith(TASKS + ("base/isa/",))):
        folders.setdefault(s.rsplit("/", 1)[0], []).append(f"`{s}`")
    return "\n".join(f"| {ROLE[folder]} | {' '.join(names)} |" for folder, names in folders.items())


def main():
    judge, of_judge = closure("judge/ruling/ruling.c", JUDGE)
    cage, of_cage = closure("judge/cage/main.c", CAGE)
    core = judge | cage
    if sys.argv[2:] == ["--list"]:
        return print(table(core))
    section = re.search(r"^## The trusted core$(.*?)^## ", (ROOT / "doc/threat-model.md").read_text(), re.M | re.S).group(1)
    faults = complaints(core, section)
    for planted in ("judge/timing/timing.c", "judge/cage/seal.c"):
        if not any(planted in c for c in complaints(core, section.replace(f"`{planted}`", ""))):
            faults.append(f"{planted} was left out of the list, unseen")
    if not complaints(core, section + "`judge/report/score.c`"):
        faults.append("a file that no verdict needs was listed, unseen")
    if any(s.startswith("kernel/") for s in core):
        faults.append("the core links a kernel")
    if writers(ROOT) != ["judge/ruling/ruling.c"]:
        faults.append(f"verdicts are written by {writers(ROOT)}, expected judge/ruling/ruling.c alone")
    files = with_headers(judge, of_judge) | with_headers(cage, of_cage)
    plain = {f for f in files if not f.startswith(TASKS)}
    n, all_lines = lines_of(plain), lines_of(files)
    print(f"core: {len(plain)} files, {n} lines; with tasks {len(files)} files, {all_lines} lines")
    said = int(re.search(r"([0-9,]+) lines", section).group(1).replace(",", ""))
    if abs(said - n) > 0.02 * n:
        faults.append(f"doc/threat-model.md says {said} lines, there are {n}")
    for fault in faults:
        print(f"core: {fault}", file=sys.stderr)
    return bool(faults)


sys.exit(main())
