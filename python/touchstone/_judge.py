# SPDX-License-Identifier: Apache-2.0
"""The judge from Python: a folder, a file or a function goes in, a verdict comes out."""
from __future__ import annotations

import ast
import dataclasses
import difflib
import functools
import html
import inspect
import json
import os
import subprocess
import symtable
import sys
import tempfile
import textwrap
import types
import warnings
from typing import Any, Callable, Dict, List, Optional, Union

import touchstone_program as _program



class JudgeError(RuntimeError):
    """The judge could not run: nothing was decided about the entrant."""


@dataclasses.dataclass
class Verdict:
    """What the judge found about one entrant and one challenge. True if it passed."""

    entrant: str
    challenge: str
    verdict: str  #: "PASS", or what it was stopped for
    flaws: List[str]  #: what was wrong, with the case in which it was; empty if it passed
    score: Optional[float] = None  #: of 1000
    grade: Optional[str] = None
    speed: Optional[float] = None  #: least possible time / measured time
    speed_interval: Optional[tuple] = None  #: of 95 %
    times: List[Dict[str, Any]] = dataclasses.field(default_factory=list)  #: case, time_ns, lo_ns, hi_ns, floor_ns
    cases: Dict[str, tuple] = dataclasses.field(default_factory=dict)  #: passed and run, by category
    worst_error: Optional[float] = None  #: largest error over its bound
    unsupported: List[str] = dataclasses.field(default_factory=list)  #: dtypes that it rejected; their cases do not count
    offers: str = ""  #: the scope that it declares; "": every case
    share: float = 1.0  #: of the challenge that the scope covers; the score is multiplied by it
    replay: str = ""  #: the case to give to judge(..., case=...)
    machine: str = ""
    log: Optional[str] = None

    @property
    def passed(self) -> bool:
        """True if the verdict is PASS or PASS (common)."""
        return self.verdict.startswith("PASS")

    def __bool__(self):
        return self.passed

    def _rows(self):
        yield "verdict", self.verdict
        for flaw in self.flaws:
            yield "flaw", flaw
        if self.unsupported:
            yield "unsupported", ", ".join(self.unsupported)
        if self.offers:
            yield "offers", "%s (%.0f %% of the challenge)" % (self.offers, 100 * self.share)
        if self.score is not None:
            yield "score", "%.0f (%s)" % (self.score, self.grade)
        if self.speed is not None:
            yield "speed", "%.1f %% of the floor [%.1f, %.1f]" % (
                100 * self.speed, *(100 * s for s in self.speed_interval))
        if self.worst_error is not None and self.passed:
            yield "error / bound", "%.3g" % self.worst_error
        ran = {k: v for k, v in self.cases.items() if v[1]}
        if ran:
            yield "cases", ", ".join("%s %d/%d" % (k, *v) for k, v in ran.items())
        for t in self.times:
            yield t["case"], "%.1f us [%.1f, %.1f], floor %.1f us" % tuple(
                t[k] / 1000 for k in ("time_ns", "lo_ns", "hi_ns", "floor_ns"))

    def __repr__(self):
        lines = ["%s, %s" % (self.entrant, self.challenge)]
        return "\n".join(lines + ["  %-14s %s" % row for row in self._rows()])

    def _repr_html_(self):
        colour = "#1a7f37" if self.passed else "#cf222e"
        cells = "".join("<tr><th style='text-align:left'>%s</th><td style='text-align:left'>%s</td></tr>"
                        % (html.escape(a), html.escape(b)) for a, b in self._rows())
        return ("<table><caption style='text-align:left'><b style='color:%s'>%s</b> %s, %s</caption>%s</table>"
                % (colour, html.escape(self.verdict), html.escape(self.entrant), html.escape(self.challenge), cells))


class Verdicts(List[Verdict]):
    """Verdicts of several entrants or challenges. True if all passed."""

    def __bool__(self):
        return len(self) > 0 and all(self)

    def __repr__(self):
        return "\n".join(repr(v) for v in self)

    def _repr_html_(self):
        return "".join(v._repr_html_() for v in self)


# ---- challenges ----


@functools.lru_cache(None)
def _challenges():
    done = subprocess.run([_program.path(), "list", "challenges"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return [line.split()[0] for line in done.stdout.splitlines() if line.split()]


def _known(where, challenge):
    """Raises for a name that is no challenge's, with the nearest that are."""
    if challenge in _challenges():
        return
    near = difflib.get_close_matches(challenge, _challenges(), 3, 0.4)
    raise ValueError("%s: challenge: got %r, expected %s" % (
        where, challenge, " or ".join(map(repr, near)) if near else "a name that `touchstone list challenges` prints"))


def _own_challenge(folder):
    """The challenge that a folder's entry.json names; None: it has no such file, or one that the judge rejects."""
    try:
        with open(os.path.join(folder, "entry.json")) as f:
            return json.load(f).get("challenge")
    except (OSError, ValueError, AttributeError):
        return None


# ---- functions as files ----


def _plain(function):
    """What a decorator such as triton.jit wrapped."""
    while not isinstance(function, types.FunctionType) and hasattr(function, "fn"):
        function = function.fn
    return inspect.unwrap(function)


def _source(function):
    """A function's text without the decorator `entrant`, and its syntax tree."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(_plain(function) if callable(function) else function)))
    except (OSError, TypeError, SyntaxError) as error:
        raise ValueError("judge: the source of %r cannot be found: %s; put it into a file"
                         % (getattr(function, "__name__", function), error)) from None
    for node in tree.body:
        node.decorator_list = [d for d in getattr(node, "decorator_list", [])
                               if "entrant" not in ast.unparse(d).split("(")[0].split(".")]
    return tree


def _check_function(function):
    """Refuses what has no text of its own that could go into a file."""
    name = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise ValueError("judge: got a lambda, expected a function that `def` defines")
    if not isinstance(function, types.FunctionType) and not hasattr(function, "fn"):
        raise ValueError("judge: got %s, a %s, expected a function that `def` defines" % (name, type(function).__name__))


def _check_closure(function):
    code = getattr(function, "__code__", None)
    if code is not None and code.co_freevars:
        raise ValueError("judge: %s uses %s of the function around it, which cannot be written down; make it a parameter "
                         "or a global, or put it into a file" % (function.__name__, ", ".join(code.co_freevars)))


def _check_module(name, module, folder):
    """Refuses a file of the caller's own: in the sandbox there are only installed modules."""
    path = getattr(module, "__file__", None)
    if path and os.path.dirname(os.path.abspath(path)) in (folder, os.getcwd()):
        raise ValueError("judge: the function uses the module %s, got %s, expected an installed module; judge a folder with "
                         "both files" % (name, path))


def _line(name, value, home, folder):
    """The statement that gives a global its value in a file of its own; None: it is defined here."""
    if isinstance(value, types.ModuleType):
        _check_module(name, value, folder)
        return "import %s as %s" % (value.__name__, name)
    if isinstance(value, (int, float, str, bool, bytes, tuple, type(None))):
        return "%s = %r" % (name, value)
    module = getattr(value, "__module__", None)
    if module and module != home and getattr(value, "__name__", None):
        _check_module(module, sys.modules.get(module), folder)
        return "from %s import %s as %s" % (module, value.__name__, name)
    if callable(value):
        return None
    raise ValueError("judge: the function uses the global %s, a %s, which cannot be written down; put it into a file"
                     % (name, type(value).__name__))


def _globals_used(table):
    """Names that are looked up outside the text; a parameter may well have the name of a global."""
    outside = table.get_type() == "module"
    names = {s.get_name() for s in table.get_symbols() if s.is_referenced() and (outside or s.is_global())}
    return names.union(*(_globals_used(t) for t in table.get_children()))


def _home(function):
    """The folder of the file that has the function; of a notebook there is none."""
    return os.path.dirname(os.path.abspath(function.__code__.co_filename)) if hasattr(function, "__code__") else ""


def _gather(function, lines, done):
    """Imports, constants and functions that a function needs, in an order in which they work."""
    tree = _source(function)
    plain = _plain(function) if callable(function) else function
    _check_closure(plain)
    space = getattr(plain, "__globals__", None) or vars(inspect.getmodule(function))
    for name in sorted(_globals_used(symtable.symtable(ast.unparse(tree), "<entrant>", "exec"))):
        if name in done or name not in space:
            continue
        done.add(name)
        if space[name] is function or name == getattr(plain, "__name__", None):
            continue
        line = _line(name, space[name], getattr(plain, "__module__", None), _home(plain))
        if line is None:
            _gather(space[name], lines, done)
        else:
            lines.append(line)
    lines.append("\n\n" + ast.unparse(tree) + "\n")


def source_of(function: Callable, challenge: str) -> str:
    """A file that defines the challenge's function by this one."""
    function = getattr(function, "function", function)
    _check_function(function)
    lines: List[str] = []
    _gather(function, lines, {getattr(_plain(function), "__name__", "")})
    name = getattr(_plain(function), "__name__", challenge)
    if name != challenge:
        lines.append("\n%s = %s\n" % (challenge, name))
    return "\n".join(lines)


def _folder(function, challenge, device, offers, place):
    text = source_of(function, challenge)
    name = getattr(_plain(getattr(function, "function", function)), "__name__", challenge)
    gpu = device == "cuda" or (device is None and "import triton" in text)
    entry = {"name": name, "author": "python", "challenge": challenge, "class": "python-gpu" if gpu else "python",
             "language": "python", "sources": [challenge + ".py"]}
    if offers:
        entry["offers"] = offers
    folder = os.path.join(place, "entrant")
    os.mkdir(folder)
    with open(os.path.join(folder, challenge + ".py"), "w") as f:
        f.write(text)
    with open(os.path.join(folder, "entry.json"), "w") as f:
        json.dump(entry, f)
    return folder


# ---- the judge ----


def _flaws(r):
    """What a verdict says against the entrant, and in which case."""
    flaw = r["text"] if r["text"].startswith(r["reason"]) else ": ".join(filter(None, (r["reason"], r["text"])))
    return [flaw + "; in " + r["case"] if r.get("case") else flaw] if flaw else []


def _verdict(name, r, scope, machine=""):
    """Of a record: an entrant that failed before anything was compared has no worst error."""
    return Verdict(name, r["task"], r["verdict"], _flaws(r), cases={k: tuple(v) for k, v in r.get("categories", {}).items()},
                   worst_error=r.get("worst") if r["verdict"].startswith("PASS") else r.get("worst") or None,
                   unsupported=r.get("unsupported", "").split(), offers=scope.get("offers", ""), share=scope.get("share", 1.0),
                   replay=r.get("case", ""), machine=machine)


def _read(path):
    entrants, found, run = {}, {}, {}
    with open(path) as f:
        for line in f:
            r = json.loads(line)
            key = r.get("entrant"), r.get("task")
            if r["type"] == "run":
                run = r
            elif r["type"] == "entrant":
                entrants[r["id"]] = r
            elif r["type"] == "verdict":
                who = entrants.get(key[0], {})
                found.setdefault(key, []).append(_verdict(who.get("name", "?"), r, {**who, **r}, run.get("machine", "")))
            elif r["type"] in ("time", "score"):
                found.setdefault(key, []).append(r)
    verdicts = Verdicts()
    for records in found.values():
        v = next((r for r in records if isinstance(r, Verdict)), None)
        if v is None:
            continue
        for r in records:
            if isinstance(r, dict) and r["type"] == "time":
                v.times.append({k: r[k] for k in ("case", "time_ns", "lo_ns", "hi_ns", "floor_ns")})
            elif isinstance(r, dict):
                v.score, v.grade, v.speed, v.speed_interval = r.get("score"), r["grade"], r["S"], (r["S_lo"], r["S_hi"])
        verdicts.append(v)
    return verdicts


def _read_case(path):
    """Verdicts on one case, of which the judge keeps no log."""
    with open(path) as f:
        found = json.load(f)["verdicts"]
    return Verdicts(_verdict(r["name"], r, r) for r in found)


def judge(entrant: Union[str, os.PathLike, Callable], challenge: Optional[str] = None, *, depth: str = "quick",
          timing: bool = True, device: Optional[str] = None, case: Optional[str] = None, seed: Optional[int] = None,
          threads: Optional[int] = None, log: Optional[str] = None, page: Optional[str] = None,
          offers: Optional[str] = None, unsafe: bool = False) -> Union[Verdict, Verdicts]:
    """Tests and times an entrant: a source file, a folder, a folder of folders, or a Python function.

    A function is judged with the modules, constants and functions that it uses; its parameters are those of
    the challenge, as `touchstone new` describes them. timing: False for correctness only. case: this one only, as a verdict's
    `replay` has it; there is no log then. depth: "quick", "normal" or "full". log and page keep the log and write
    the page. offers: the cases that a function supports, such as "cols <= 4096". Returns a Verdict, or Verdicts where there are several. JudgeError: the judge could not run."""
    if depth not in ("quick", "normal", "full"):
        raise ValueError("judge: depth: got %r, expected 'quick', 'normal' or 'full'" % (depth,))
    challenge = challenge or getattr(entrant, "challenge", None)
    is_path = isinstance(entrant, (str, os.PathLike))
    if not is_path and not callable(entrant):
        raise TypeError("judge: got %s, expected a path or a function" % type(entrant).__name__)
    if not is_path and challenge is None:
        raise ValueError("judge: challenge: got None, expected a name; `touchstone list challenges` prints them")
    if is_path and offers is not None:
        raise ValueError("judge: offers: got %r and a path, expected a function; entry.json or a comment in the file says it" % offers)
    if is_path and not os.path.exists(entrant):
        raise FileNotFoundError("judge: %s: no such file or folder" % os.fspath(entrant))
    if challenge is not None:
        _known("judge", challenge)
    own = _own_challenge(entrant) if is_path and challenge is not None else None
    if own is not None and own != challenge:
        raise ValueError("judge: challenge: got %r, expected %r, as %s says" % (
            challenge, own, os.path.join(os.fspath(entrant), "entry.json")))
    with tempfile.TemporaryDirectory(prefix="touchstone-") as place:
        path = os.fspath(entrant) if is_path else _folder(entrant, challenge, device, offers, place)
        kept = os.path.abspath(log) if log else os.path.join(place, "judge.log")
        command = [_program.path(), "judge", os.path.abspath(path), "--depth", depth, "--log", kept]
        for option, value in (("--challenge", challenge), ("--device", device), ("--case", case), ("--seed", seed),
                              ("--threads", threads), ("--out", page)):
            command += [option, str(value)] if value is not None else []
        command += ["--no-timing"] * (not timing) + ["--unsafe"] * unsafe
        one = os.path.join(place, "case.json")
        command += ["--json", one] if case is not None else []
        done = subprocess.run(command, env=_program.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
        for line in done.stderr.splitlines():
            if " ignored, such as " in line:
                warnings.warn(line, stacklevel=2)
        verdicts = Verdicts()
        if done.returncode in (0, 1) and os.path.exists(one if case is not None else kept):
            verdicts = _read_case(one) if case is not None else _read(kept)
        if len(verdicts) == 0:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise JudgeError(said[-1] if said else "judge: exit status %d" % done.returncode)
    for v in verdicts:
        v.log = os.path.abspath(log) if log and case is None else None
    return verdicts[0] if len(verdicts) == 1 else verdicts


class Entrant:
    """A function that enters a challenge. Called, it is the function; judge() judges it."""

    def __init__(self, function: Callable, challenge: str):
        self.function, self.challenge = function, challenge
        self.__doc__, self.__name__ = getattr(function, "__doc__", None), getattr(function, "__name__", challenge)

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    def judge(self, **options) -> Verdict:
        """touchstone.judge of this function; options are those of touchstone.judge."""
        return judge(self.function, self.challenge, **options)

    def __repr__(self):
        return "<entrant %s for %s; .judge() judges it>" % (self.__name__, self.challenge)


def entrant(challenge: str) -> Callable[[Callable], Entrant]:
    """A decorator: the function enters the challenge, and .judge() judges it."""
    if not isinstance(challenge, str):
        raise TypeError("entrant: got %s, expected the name of a challenge: @entrant(\"layernorm_forward\")"
                        % type(challenge).__name__)
    _known("entrant", challenge)
    return lambda function: Entrant(function, challenge)
