#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# mutation.py BUILD - that the mutator works: what it changes and what it leaves alone, that known
# mutants are killed, and that equivalents are recognised.
import dataclasses
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "proof" / "mutation"))
import judge  # noqa: E402
import run  # noqa: E402
from mutate import mutants_of  # noqa: E402

SAMPLE = r'''
#define TWICE(x) \
    ((x) + 2)
enum { WIDTH = 8 };
/* a + b */ static const char *text = "a < b && c"; // a - b
static int f(const float *p, int n)
{
    if (n < 1 || !p) return TS_E_ARG;
    g(p, n);
    return n > 2 ? (int)p[0] : '+';
}
'''
WANTED = {
    "8 -> 9", "8 -> 7", "if negated", "if never", "< -> <=", "1 -> 2", "1 -> 0", "|| -> &&",
    "left of || dropped", "right of || dropped", "! dropped", "TS_E_ARG -> TS_OK", "TS_E_ARG -> TS_E_DTYPE",
    "statement dropped", "arguments 1 and 2 swapped", "> -> >=", "2 -> 3", "2 -> 1", "?: negated", "0 -> 1",
}
# Of ternary_ref.c, whose task takes no time: function, mutation, and what the statement has.
KILLED = [
    ("multiply", "+= -> -=", "sum [ r ] += part"),
    ("code_of", "<= -> <", "<= scale"),
    ("give_dx", "statement dropped", "ts_store"),
    ("weights", "arguments 1 and 2 swapped", "ts_ternary_width"),
    ("ts_ternary_unpack_ref", "TS_E_FORMAT -> TS_OK", "TS_E_FORMAT"),
]

# Of planted.txt: seven that the judge's tests once did not notice.
MUST = [
    "a NaN that is expected accepts anything", "errors above the bound score", "files can be opened for writing",
    "a second content at the same address is not asked for", "repeated calls are not compared",
    "gaps between rows are not compared", "changed inputs are not noticed",
]


def expect(what, got, want):
    if got != want:
        sys.exit(f"{what}: got {got}, expected {want}")


def name(m):
    return m.mutation.rsplit(" @", 1)[0]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    sample = mutants_of("sample.c", SAMPLE)
    expect("mutations of the sample", {name(m) for m in sample}, WANTED)
    expect("ids", len({m.id for m in sample}), len(sample))
    for m in sample:
        expect(f"lines after {m.mutation}", m.apply(SAMPLE).count("\n"), SAMPLE.count("\n"))
    planted = [b.words for b in judge.planted()]  # ends if a file no longer has a bug's text
    expect("planted bugs that must be there", [w for w in MUST if w not in planted], [])
    if len(planted) < 60:
        sys.exit(f"got {len(planted)} planted bugs, expected 60")
    moved = mutants_of("sample.c", "int before;\n" + SAMPLE)
    expect("ids after a line was added above", {m.id for m in moved}, {m.id for m in sample})

    every = list(run.all_mutants())
    equivalents = run.read_equivalents()
    expect("entries of equivalent.txt without a mutant", run.stale(equivalents, every), [])
    with tempfile.TemporaryDirectory() as folder:
        lab = run.Lab(build, pathlib.Path(folder))
        for function, mutation, has in KILLED:
            found = [m for m in every if m.file.endswith("ternary_ref.c") and m.function == function
                     and name(m) == mutation and has in m.statement]
            expect(f"{function}: {mutation}", bool(found), True)
            expect(run.describe(found[0]), lab.examine(found[0])[0], "killed")
        zero = next(m for m in every if m.file.endswith("ternary_ref.c") and name(m) == "0 -> 1")
        expect("other text, same code", lab.examine(dataclasses.replace(zero, new="(0)")),
               ("equivalent", "the same machine code"))
    listed = next(m for m in every if run.keys_of(m)[0] in equivalents and "ternary/" in m.file)
    said = subprocess.run([sys.executable, ROOT / "proof/mutation/run.py", "--build", build, "--only", listed.id],
                          capture_output=True, text=True)
    expect(f"the last line for {listed.id}", said.stdout.splitlines()[-1:], ["0 killed, 0 survived, 1 equivalent"])
    expect("its exit status", said.returncode, 0)
    print(f"{len(KILLED)} mutants killed, 1 equivalent, {len(equivalents)} entries")


main()
