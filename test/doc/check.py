# SPDX-License-Identifier: Apache-2.0
"""check.py - what can be said of a command without running it: targets, options, names and files exist."""
import functools
import re
import shlex
import subprocess

import rule

ROOT = rule.ROOT


class Program:
    """The program's own lists and help, each asked for once."""

    def __init__(self, build):
        self.path = str(build / "touchstone")

    @functools.lru_cache(maxsize=None)
    def says(self, *words):
        return subprocess.run([self.path, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True).stdout

    @functools.lru_cache(maxsize=None)
    def names(self, what):
        return {row.split()[0] for row in self.says("list", what).splitlines() if row.split()}

    def cases(self):
        """A small case of each task, and not an empty one."""
        found = {}
        for row in self.says("list", "cases").splitlines():
            name = row.split()[1]
            if not re.search(r"/rows=[01]\b", name):
                found.setdefault(name.split("/")[0], name)
        return found


def words(command):
    try:
        return shlex.split(re.sub(r"\$\([^)]*\)|<<.*", "", command, flags=re.S), comments=False)
    except ValueError:
        return command.split()


def of_program(program, arguments):
    """Flaws of `touchstone ARGUMENTS`."""
    verbs = set(re.findall(r"^  ([a-z]+) ", program.says("--help"), re.M))
    if not arguments or arguments[0].startswith("-"):
        return [] if not arguments or arguments[0] in ("--help", "--version") else [f"touchstone has no {arguments[0]}"]
    verb, rest = arguments[0], arguments[1:]
    if verb not in verbs:
        return [f"touchstone has no command {verb}"]
    text = program.says(verb, "--help")
    flaws = [f"touchstone {verb} has no option {option}" for option in dict.fromkeys(re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(rest))) if not re.search(r"%s(?![\w-])" % option, text)]
    pairs = dict(zip(rest, rest[1:]))
    for option, lists in (("--task", ("tasks",)), ("--challenge", ("challenges",))):
        name = pairs.get(option, "")
        if name and name != "foo" and re.fullmatch(r"[a-z_0-9]+", name) and not any(known.startswith(name) for what in lists for known in program.names(what)):
            flaws.append(f"touchstone {verb}: no {option[2:]} is called {name}")
    if verb == "demo" and rest and re.fullmatch("[a-z]+", rest[0]) and not re.search(r"^  %s " % rest[0], text, re.M):
        flaws.append(f"touchstone demo: there is no {rest[0]}")
    if verb == "list" and rest and not all(kind in text for kind in re.split(r"\|", rest[0])):
        flaws.append(f"touchstone list: there is no {rest[0]}")
    for kind, option in (("models", "--model"), ("gpus", "--gpu")):
        name = pairs.get(option, "")
        if verb == "plan" and re.fullmatch(r"[a-z0-9.-]+", name) and not any(name in known for known in program.names(kind)):
            flaws.append(f"touchstone plan: list {kind} has no {name}")
    return flaws


def of_script(path, arguments):
    """Flaws of a script of the project's: it is there, can be read by its interpreter, and knows the options."""
    if not (ROOT / path).exists():
        return [f"there is no {path}"]
    text = (ROOT / path).read_text()
    flaws = []
    if path.endswith(".py"):
        try:
            compile(text, path, "exec")
        except SyntaxError as error:
            flaws.append(f"{path}: {error}")
    elif subprocess.run(["sh" if text.startswith("#!/bin/sh") else "bash", "-n", str(ROOT / path)], stderr=subprocess.DEVNULL).returncode:
        flaws.append(f"{path}: the shell cannot read it")
    return flaws + [f"{path} has no option {option}" for option in arguments if re.fullmatch(r"--[a-z][a-z-]*", option) and f"{option}\"" not in text and f"{option})" not in text]


def of_inspect(program, arguments):
    flaws, known = [], program.names("challenges") | {"all"}
    for name in re.findall(r"(?<![\w/])touchstone/(\w+)", " ".join(arguments)):
        if name not in known:
            flaws.append(f"inspect: there is no task touchstone/{name}")
    source = "".join(path.read_text() for path in (ROOT / "contest").rglob("*.py"))
    return flaws + [f"inspect: the tasks have no -T {name}" for name in re.findall(r"-T (\w+)=", " ".join(arguments)) if not re.search(r"\b%s\b" % name, source)]


def flaws_of(program, build, command):
    """Flaws of one command, as far as they show without running it. Pipes and lists are taken apart."""
    flaws = []
    for part in re.split(r"\s(?:&&|\|\||\||;)\s|;\s", re.sub(r"<<.*", "", command, flags=re.S)):
        part = re.sub(r"^\s*(?:[A-Za-z_]\w*=\S+ +)+", "", part.strip())
        given = words(part)
        if not given:
            continue
        tool = given[0]
        path = rule.script(part)
        if tool in ("touchstone", "build/touchstone"):
            flaws += of_program(program, given[1:])
        elif "touchstone" in given[1:4] and tool == "mpirun":
            flaws += of_program(program, given[given.index("touchstone") + 1:])
        elif tool == "make" and "-C" not in given:
            named = [word for word in given[1:] if "=" not in word and not word.startswith("-") and re.fullmatch("[a-z-]+", word)]
            flaws += [f"Makefile has no target {name}" for name in named[:1] if name not in rule.targets()]
            known = (ROOT / "Makefile").read_text() + "".join(path.read_text(errors="replace") for path in (ROOT / "contest" / "challenge").rglob("*.mk"))
            flaws += [f"Makefile has no variable {name}" for name in re.findall(r"\b([A-Z]+)=", part) if f"$({name}" not in known]
        elif path:
            flaws += of_script(path, given)
        elif tool.startswith(("build/test/", "build/bench/")):
            stem = tool.split("/")[-1]
            if not any((ROOT / folder / f"{stem}{end}").exists() for folder in ("test", "bench") for end in (".c", ".cu")):
                flaws.append(f"nothing builds {tool}")
        elif tool == "ctest":
            pattern = dict(zip(given, given[1:])).get("-R")
            listed = subprocess.run(["ctest", "--test-dir", str(build), "-N"] + (["-R", pattern] if pattern else []), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True).stdout
            if "Total Tests: 0" in listed and pattern != "NAME":
                flaws.append(f"ctest: no test matches {pattern}")
            if "--test-dir" not in given:
                flaws.append("ctest: no --test-dir: it finds no tests in the source folder")
        elif re.fullmatch(r"pip3?", tool):
            flaws += [f"pip: {word} has no pyproject.toml" for word in given if re.fullmatch(r"\.(/[\w/-]+)?", word) and not (ROOT / word / "pyproject.toml").exists()]
        elif tool == "inspect":
            flaws += of_inspect(program, given)
        elif tool == "touchstone-contest" and "touchstone-contest" not in (ROOT / "contest/pyproject.toml").read_text():
            flaws.append("contest/pyproject.toml has no touchstone-contest")
        elif tool == "cmake":
            known = (ROOT / "CMakeLists.txt").read_text()
            flaws += [f"CMakeLists.txt has no {name}" for name in re.findall(r"-D(TS_\w+)", part) if name not in known]
    return flaws
