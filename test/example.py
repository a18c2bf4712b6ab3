#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""example.py BUILD FOLDER [gcc|clang] - runs the commands of a section of example/README.md as they are written, in a
scratch copy of the tree with an installed library, and compares what they print with what the section says.

`cc` and `c++` are the named compiler with all warnings as errors. `make install` is `cmake --install BUILD` here.
--fill writes what the commands print into the README."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "example/README.md"
STRICT = {"cc": "{0} -Wall -Wextra -Wpedantic -Werror", "c++": "{1} -Wall -Wextra -Wpedantic -Werror",
          "nvcc": "nvcc -Xcompiler=-Wall,-Wextra,-Werror"}
MARK = "@@@ next command"


def blocks(text, folder):
    """[command, expected output] of the introduction and of the folder's section."""
    found = []
    for part in re.split(r"^## ", text, flags=re.M):
        if part.startswith(("# ", folder + ":")):
            for block in re.findall(r"^```console\n(.*?)^```", part, re.S | re.M):
                for line in block.splitlines():
                    if line.startswith("$ "):
                        found.append([line[2:], []])
                    else:
                        found[-1][1].append(line)
    return found


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def scratch(place, build, compiler):
    """A tree in which the commands leave nothing behind: sources are links, build/ is a folder of its own."""
    (place / "example").symlink_to(ROOT / "example")
    (place / "build").mkdir()
    (place / "build/touchstone").symlink_to(build / "touchstone")
    (place / "bin").mkdir()
    path = os.environ["PATH"] + ":/usr/local/cuda/bin"
    for name, command in STRICT.items():
        program, *options = command.format(compiler, {"gcc": "g++", "clang": "clang++"}[compiler]).split()
        real = shutil.which(program, path=path)
        if real:
            (place / "bin" / name).write_text(f"#!/bin/sh\nexec {real} {' '.join(options)} \"$@\"\n")
            (place / "bin" / name).chmod(0o755)
    return dict(os.environ, PATH=f"{place}/bin:{path}")


def run(build, folder, compiler):
    commands = blocks(PAGE.read_text(), folder)
    if len(commands) < 3:
        sys.exit(f"example: {PAGE}: section {folder}: {len(commands) - 2} commands, expected at least 1")
    with tempfile.TemporaryDirectory() as tmp:
        place = pathlib.Path(tmp)
        env = scratch(place, build, compiler)
        tools = {re.match(r"(?:\w+=\S+ )*(\S+)", c)[1] for c, _ in commands} | {"pkg-config"}
        for tool in sorted(tools & {"cc", "c++", "nvcc", "cmake", "pkg-config"}):
            if not shutil.which(tool, path=env["PATH"] if tool not in STRICT else f"{place}/bin"):
                skip(f"no {tool}")
        script = "set -e\n" + "".join(
            f"echo '{MARK}'\n" + re.sub(r"^make install PREFIX=(\S+)", rf"cmake --install {build} --prefix \1 >build/log", c) + "\n"
            for c, _ in commands)
        done = subprocess.run(["bash", "-c", script], cwd=place, env=env, text=True, timeout=280,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    shown = [[line.rstrip() for line in part.splitlines()] for part in done.stdout.split(MARK + "\n")[1:]]
    return commands, shown, done.returncode


def fill(commands, shown):
    """The README with what was printed behind every command."""
    text = PAGE.read_text()
    for (command, told), got in zip(commands, shown):
        old = "".join(line + "\n" for line in ["$ " + command, *told])
        text = text.replace(old, "".join(line + "\n" for line in ["$ " + command, *got]))
    PAGE.write_text(text)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--fill"]
    build, folder, compiler = pathlib.Path(arguments[0]).resolve(), arguments[1], (arguments + ["gcc"])[2]
    if not shutil.which(compiler):
        skip(f"no {compiler}")
    if not (build / "libtouchstone.so").exists():
        skip("no shared library was built")
    commands, shown, status = run(build, folder, compiler)
    if "--fill" in sys.argv[1:] and status == 0:
        fill(commands, shown)
    if status == 77:
        skip("compiled only: " + re.sub("^skipped: ", "", "; ".join(shown[-1])))
    bad = 0
    for (command, told), got in zip(commands, shown):
        if told != got:
            bad = 1
            print(f"example: {command}", *(f"  got {line}" for line in got), *(f"  expected {line}" for line in told),
                  sep="\n", file=sys.stderr)
    if status or len(shown) < len(commands):
        bad = 1
        print(f"example: {commands[len(shown) - 1][0]}: exit status {status}", file=sys.stderr)
    print(f"{len(shown)} commands of {folder}, {sum(len(t) for _, t in commands)} lines as printed")
    return bad


if __name__ == "__main__":
    sys.exit(main())
