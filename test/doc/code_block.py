# SPDX-License-Identifier: Apache-2.0
"""code_block.py - compiles and runs the C, C++, CUDA and Python blocks of a document.

A block with main() is a program. Another C block is a part of one: declarations, or statements, which get the
public headers and, for names that the text leaves to the reader, the declarations below. A comment such as
/* y = 4 6, mean = 2 */ after a call says what those variables then hold. The Python blocks of a document
run in one interpreter, in their order, as in a notebook, after PYTHON."""
import json
import re
import shutil
import subprocess

import rule

INCLUDES = "".join(f"#include <touchstone/{path.name}>\n" for path in sorted((rule.ROOT / "include/touchstone").glob("*.h")))
HEADERS = "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n" + INCLUDES
NAMES = {  # C names that a document leaves to the reader
    "exec": "ts_exec exec = { .device = TS_CPU };",
    "dims": "ts_kv_dims dims = { .n_layer = 2, .n_seq_max = 1, .n_q_head = 2, .n_kv_head = 1, .head_dim = 4, .capacity = 8, .key_group = 1, "
            ".max_call_tokens = 2, .io_dtype = TS_F32, .store_dtype = TS_F32, .meta_dtype = TS_F32, .scale = 0.5 };",
    "cache": "ts_kv *cache = NULL;", "seq": "int32_t seq = 0;", "n": "int64_t n = 2;", "state_bytes": "size_t state_bytes = 0;",
    "workspace_bytes": "size_t workspace_bytes = 0;", "memory": "static _Alignas(4096) char memory[1 << 20];",
    "k": "static float k[2][8];", "v": "static float v[2][8];", "q": "static float q[2][16];", "out": "static float out[16];",
}
PYTHON = """
import numpy as np, touchstone, touchstone as ts
r = np.random.default_rng(0)
x = r.standard_normal((4, 64), dtype=np.float32)
weight = bias = np.ones(64, np.float32)
logits = r.standard_normal((4, 1000), dtype=np.float32)
q, k, v = (r.standard_normal((128, heads, 64), dtype=np.float32) for heads in (8, 2, 2))
tokens, parents, prompt = np.arange(128), np.arange(-1, 127), [1, 2, 3]
logits_of = lambda strings: np.tile(np.arange(32000, dtype=np.float32), (len(strings), 1))
model = lambda tokens, positions, visible, want: np.tile(np.arange(32000, dtype=np.float32), (len(want), 1))
"""
QUICK = "import touchstone._judge as _j, functools\n_j.judge = touchstone.judge = functools.partial(touchstone.judge, timing=False, case=%r)\n"
DRIVER = """
import contextlib, io, json, sys, traceback
space, results = {"__name__": "__main__"}, []
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), space)
for path in sys.argv[2:]:
    said, flaw, missing = io.StringIO(), "", ""
    try:
        with contextlib.redirect_stdout(said):
            exec(compile(open(path).read(), path, "exec"), space)
    except ModuleNotFoundError as error:
        missing = error.name or str(error)
    except BaseException as error:
        flaw = traceback.format_exc().strip().splitlines()[-1]
    results.append([said.getvalue(), flaw, missing])
print(json.dumps(results))
"""


def run(command, folder, **more):
    return subprocess.run(command, cwd=str(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, **more)


def figures(text):
    """[name, values] of a comment such as /* y = 4 6, mean = 2; more */."""
    found = []
    for comment in re.findall(r"/\*\s*(.*?)\s*\*/", text, re.S):
        for name, values in re.findall(r"\b(\w+) = ((?:-?\d[\d.e+-]*(?:, |\s+|(?=[;:.,]|$)))+)", re.split(r"[;:]", comment + ";")[0] + ";"):
            if re.search(r"\b(float|double|int32_t|int64_t)\b[^;]*\b%s\b" % name, text):
                found.append((name, [float(value) for value in re.findall(r"-?\d[\d.e+-]*", values)]))
    return found


def part(text, folder, compiler):
    """A C block without main: as declarations, else as statements. Returns a program's source, or None and the flaw."""
    (folder / "part.c").write_text(HEADERS + text)
    if run(compiler + ["-fsyntax-only", "part.c"], folder).returncode == 0:
        return HEADERS + text + "\nint main(void) { return 0; }\n", ""
    given, flaw = [], ""
    show = ""
    for name, values in figures(text):
        kind = re.search(r"\b(float|double|int32_t|int64_t)\b[^;]*\b%s\b" % name, text)[1]
        show += f'    for (size_t i = 0; i < {len(values)}; i++) printf("{name} %.9g\\n", (double)((const {kind} *)(const void *)&{name})[i]);\n'
    for _ in range(len(NAMES) + 1):
        source = HEADERS + "int main(void)\n{\n" + "\n".join(given) + "\n" + text + "\n" + show + "}\n"
        (folder / "part.c").write_text(source)
        got = run(compiler + ["-fsyntax-only", "part.c"], folder)
        if got.returncode == 0:
            return source, ""
        unknown = [name for name in re.findall(r"[‘'](\w+)[’'] undeclared|undeclared identifier '(\w+)'", got.stderr) for name in name if name]
        more = [NAMES[name] for name in dict.fromkeys(unknown) if name in NAMES and NAMES[name] not in given]
        flaw = next((row for row in got.stderr.splitlines() if "error" in row), got.stderr[-200:])
        if not more:
            return None, flaw
        given += more
    return None, flaw


def native(item, folder, build):
    """(output, flaw, missing) of a C, C++ or CUDA block."""
    end = {"c": ".c", "c++": ".cpp", "cuda": ".cu"}[item.kind]
    if item.kind == "cuda":
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        if not shutil.which(nvcc):
            return "", "", "nvcc"
        compiler = [nvcc, "-std=c++17", "-arch=sm_90a", "-I", str(rule.ROOT / "include")]
    else:
        compiler = ["cc", "-std=gnu11"] if item.kind == "c" else ["c++", "-std=c++17"]
        compiler += ["-Wall", "-Wno-unused", "-Werror=implicit-function-declaration", "-I", str(rule.ROOT / "include")]
    source, flaw = item.text, ""
    if item.kind == "c" and not re.search(r"\bmain\s*\(", source):
        source, flaw = part(source, folder, compiler)
        if flaw:
            return "", flaw, ""
    (folder / f"block{end}").write_text(source)
    if not re.search(r"\bmain\s*\(", source):
        got = run(compiler + (["-ptx", "-o", "/dev/null"] if item.kind == "cuda" else ["-fsyntax-only"]) + [f"block{end}"], folder)
        return "", "" if got.returncode == 0 else next((row for row in got.stderr.splitlines() if "error" in row), "does not compile"), ""
    link = ["-L", str(build), "-ltouchstone"] + (["-Xlinker", f"-rpath={build}"] if item.kind == "cuda" else ["-lm", f"-Wl,-rpath,{build}"])
    got = run(compiler + [f"block{end}", "-o", "block"] + link, folder)
    if got.returncode:
        return "", next((row for row in got.stderr.splitlines() if "error" in row), got.stderr[-200:]), ""
    if item.kind == "cuda" and not rule.DEVICE:
        return "", "", "a GPU (it compiles)"
    got = run(["./block"], folder, timeout=60)
    flaw = "" if got.returncode == 0 else f"exit status {got.returncode}: {(got.stderr or got.stdout).strip()[-200:]}"
    for name, values in figures(item.text) if not re.search(r"\bmain\s*\(", item.text) else []:
        held = [float(value) for value in re.findall(r"^%s (\S+)$" % name, got.stdout, re.M)]
        if [f"{value:.4g}" for value in held] != [f"{value:.4g}" for value in values]:
            flaw = flaw or f"{name}: got {held}, and the document says {values}"
    return got.stdout, flaw, ""


def python(items, scratch, interpreter, env, short):
    """[(output, flaw, missing)] of a document's Python blocks."""
    folder = scratch / ".python"
    folder.mkdir(exist_ok=True)
    (folder / "prelude.py").write_text(PYTHON + (QUICK % short if short else ""))
    (folder / "driver.py").write_text(DRIVER)
    paths = []
    for number, item in enumerate(items):
        paths.append(folder / f"block{number}.py")
        paths[-1].write_text(item.text)
    got = run([interpreter, str(folder / "driver.py"), str(folder / "prelude.py")] + [str(path) for path in paths], scratch, env=env, timeout=900)
    try:
        return json.loads(got.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return [["", (got.stderr.strip().splitlines() or ["no output"])[-1], ""]] * len(items)
