# SPDX-License-Identifier: Apache-2.0
"""prompt.py BUILD - prompt, starter, self-test and runner agree on every argument, in every language.

For each (challenge, language) pair, what `touchstone new` wrote is compared with what the task
declares (`touchstone list`): that is what the judge's runner passes. The self-test's arguments are
recorded by running it. The header that a prompt shows is what the starter is compiled with. A prompt
has nothing of other languages, explains every dimension of a case, and, where it is to be pasted,
names nothing that only a folder has. Then the checks are shown to fail on pairs that were damaged on
purpose.
"""
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LANGUAGES = {"c": ("sealed", "c"), "c++": ("host", "cpp"), "cuda": ("host-gpu", "cu"),
             "python": ("python", "py"), "triton": ("python-gpu", "py")}

# Records what a self-test passes, by the name of the argument; runs nothing.
RECORDER = r"""
import json, runpy, sys, types
device = types.ModuleType("selftest_device")
device.skip, device.to_device, device.from_device = lambda: None, lambda a: a, lambda a, like: a
sys.modules["selftest_device"] = device
for name in "torch", "triton", "triton.language":
    sys.modules[name] = types.ModuleType(name)
sys.modules["triton"].language = sys.modules["triton.language"]
import selftest_common
calls = []
def case(name, function, arguments, out, want):
    calls.append([function.__name__, sorted(arguments), sorted(out), sorted(want)])
selftest_common.case = case
selftest_common.verdict = lambda: None
runpy.run_path("selftest.py")
print(json.dumps(calls))
"""


def touchstone(*arguments):
    return subprocess.run([BUILD + "/touchstone", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, stdin=subprocess.DEVNULL)


def listed(kind):
    """Rows of `touchstone list`, as lists of words."""
    return [line.split(None, 2) for line in touchstone("list", kind).stdout.splitlines()]


class Task:
    def __init__(self, name):
        self.name = name
        self.inputs, self.outputs, self.numbers = [], [], []
        for task, argument, what in ARGUMENTS:
            if task == name:
                kind = self.inputs if what.startswith("input") else self.outputs if what.startswith("output") else self.numbers
                kind.append(argument)
        self.required = [f for t, f, use in FUNCTIONS if t == name and use == "required"]
        with open("%s/contest/challenge/%s/PROMPT.md" % (ROOT, name)) as f:
            self.text = f.read()
        self.plain = "\n## Python\n" not in self.text  # else a script's, which says how Python is called


def flat(text):
    """Without comments and needless blanks."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"\s*([(),*])\s*", r"\1", " ".join(text.split()))


def code_blocks(prompt):
    return re.findall(r"^```(\w+)\n(.*?)^```$", prompt, re.M | re.S)


def parameters(node):
    """[(name, has a default)], without self."""
    a = node.args
    plain = len(a.args) - len(a.defaults)
    return [(p.arg, i >= plain) for i, p in enumerate(a.args) if p.arg != "self"]


def defined(source):
    """{"name" or "class.name": its parameters}"""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = parameters(node)
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    found[node.name + "." + member.name] = parameters(member)
    return found


def recorded(folder):
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    run = subprocess.run([NUMPY, "-c", RECORDER], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, env=environment)
    return json.loads(run.stdout.splitlines()[-1]) if run.returncode == 0 else run.stderr.strip()[-200:]


def check_plain_python(task, folder, prompt, starter, flaws):
    own = defined(starter).get(task.name)
    text = re.search(r"^    (%s\(.*?\))$" % task.name, prompt, re.M | re.S)
    if own is None or text is None:
        flaws.append("the prompt or the starter has no signature")
        return
    said = parameters(ast.parse("def %s: pass" % text.group(1)).body[0])
    if said != own:
        flaws.append("prompt %s, starter %s" % (said, own))
    names = [name for name, _ in own]
    runner = set(task.inputs) | set(task.numbers) | {"accumulate", "out"}
    flaws += ["%s: the runner does not pass it" % n for n in names if n not in runner]
    flaws += ["%s: passed by the runner, and not in the signature" % n for n in task.inputs + task.numbers if n not in names]
    if not NUMPY:
        return
    calls = recorded(folder)
    if isinstance(calls, str) or not calls:
        flaws.append("the self-test records nothing: %s" % calls)
        return
    for function, given, out, want in calls:
        must = [n for n, default in own if not default and n != "out"]
        flaws += ["%s: not passed by the self-test" % n for n in must if n not in given]
        flaws += ["%s: passed by the self-test, and not in the signature" % n for n in given if n not in names]
        flaws += ["out[%s]: in the self-test, and not in the task" % n for n in out + want
                  if n not in task.outputs + task.inputs]
        if function != task.name:
            flaws.append("the self-test calls %s" % function)
    seen = set().union(*(set(out) for _, _, out, _ in calls))
    flaws += ["out[%s]: never in the self-test" % n for n in task.outputs if n not in seen]


def check_script_python(task, folder, prompt, starter, flaws):
    """Replaces the runner by the NumPy entrant, which it has judged."""
    own = defined(starter)
    with open("%s/contest/entrant/numpy/%s/%s.py" % (ROOT, task.name, task.name)) as f:
        theirs = defined(f.read())
    section = flat(prompt.split("## Python\n", 1)[-1].split("\n## ", 1)[0])
    with open(folder + "/selftest.py") as f:
        test = f.read()
    for name, takes in own.items():
        if name not in theirs:
            flaws.append("%s: in the starter, and not in the NumPy entrant" % name)
        elif [n for n, _ in theirs[name]] != [n for n, _ in takes]:
            flaws.append("%s: starter %s, NumPy entrant %s" % (name, takes, theirs[name]))
        short = name.split(".")[-1]
        call = "%s(%s)" % (task.name if short == "__init__" else short, ",".join(n for n, _ in takes))
        if call not in section:
            flaws.append("%s: not in the prompt" % call)
        if not re.search(r"\b%s\(" % (task.name if short == "__init__" else short), test):
            flaws.append("%s: not called by the self-test" % short)


# What only other languages have.
FOREIGN = {"py": r"\bTS_[A-Z]|\bNULL\b|x->|_workspace\b|```c$|nvcc|gcc",
           "c": r"`None`|`out\[|\bIn Python\b|NotImplementedError|NumPy|torch"}


def check_words(task, language, prompt, flaws):
    """Of every prompt, in a folder or to be pasted."""
    kind = "py" if language in ("python", "triton") else "c"
    flaws += ["the prompt has %r, which is not of %s" % (word, language)
              for word in set(re.findall(FOREIGN[kind], prompt, re.M))]
    flaws += ["markup was left in place: %s" % mark for mark in set(re.findall(r"\{[a-z+,]+\||@[A-Z_]+@", prompt))]
    section = prompt.split("## Cases, and what is timed\n", 1)[-1].split("\n## ", 1)[0]
    explained = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.M))
    timed = re.findall(r"^- `([^`]*)` \((?:quick|normal|full)", section, re.M)
    used = re.findall(r"(\w+)=", ",".join(timed) + "".join(re.findall(r"`%s/f32/[^`]*`" % task.name, prompt)))
    untimed = task.name in ("beam_search", "tree_verify") and language == "cuda"  # their model runs on the host
    if bool(timed) == untimed or ("Nothing is timed" in section) != untimed:
        flaws.append("no case is timed" if not untimed else "it does not say that nothing is timed")
    flaws += ["%s: a dimension that is not explained" % name for name in set(used) | set(explained) if not explained.get(name, "").strip()]
    for part in ("A call may take", "log(e / 2) / log(e_best)", "`touchstone-offers: ") + (
            ("exactly one fault", "MiB plus twice", "log2(1 + m) / 4") if kind == "c" else ()):
        if part not in " ".join(prompt.split()):
            flaws.append("the prompt lacks %r" % part)


def check_pasted(task, language, prompt, flaws):
    check_words(task, language, prompt, flaws)
    flaws += ["the prompt to paste names %s" % word
              for word in set(re.findall(r"PROMPT\.md|make test|entry\.json|--depth|selftest", prompt))]
    if "## Your answer" not in prompt:
        flaws.append("the prompt to paste does not say how to answer")


def shown_header(task, prompt):
    """The declarations that a prompt shows; sealed.h is apart."""
    section = prompt.split("## The header\n", 1)[-1]
    blocks = [text for kind, text in code_blocks(section) if kind == "c"]
    return blocks[0] if blocks else "", "".join(blocks[1:])


def check_shown(task, language, prompt, starter, flaws):
    """The starter compiles with what the prompt shows, and nothing else."""
    header, sealed = shown_header(task, prompt)
    include = re.search(r'#include "touchstone/(\w+\.h)"', starter).group(1)
    with tempfile.TemporaryDirectory() as tmp:
        os.mkdir(tmp + "/touchstone")
        with open("%s/touchstone/%s" % (tmp, include), "w") as f:
            f.write(header if language == "c" else 'extern "C" {\n%s}\n' % header)
        with open(tmp + "/touchstone/sealed.h", "w") as f:
            f.write("#include <stdint.h>\n" + sealed)
        name = "%s/%s.%s" % (tmp, task.name, "c" if language == "c" else "cpp")
        with open(name, "w") as f:
            f.write(starter)
        command = ["cc", "-std=c11"] if language == "c" else ["c++", "-std=c++17"]
        run = subprocess.run(command + ["-fsyntax-only", "-Wall", "-Werror", "-I" + tmp, name], stderr=subprocess.PIPE, text=True)
        if run.returncode:
            flaws.append("the starter does not compile with the header shown: %s" % run.stderr.strip()[:300])


def check_c(task, language, folder, prompt, starter, flaws):
    header = flat(shown_header(task, prompt)[0])
    if language != "cuda":
        check_shown(task, language, prompt, starter, flaws)
    code = flat(starter)
    with open(folder + "/selftest.c") as f:
        test = f.read()
    for name in task.required:
        declared = re.search(r"ts_status %s\(([^)]*)\)" % name, header) or re.search(r"\b%s\(([^)]*)\)" % name, header)
        written = re.search(r"\b%s\(([^)]*)\)" % name, code)
        if not declared or not written:
            flaws.append("%s: not in the %s" % (name, "starter" if declared else "prompt's header"))
        elif declared.group(1) != written.group(1):
            flaws.append("%s: header (%s), starter (%s)" % (name, declared.group(1), written.group(1)))
        if not re.search(r"\b%s\b" % name, test):
            flaws.append("%s: not called by the self-test" % name)
    compiled = [["cc", "-std=c11", "selftest.c"]]
    if language != "cuda":
        compiled.append(["cc", "-std=c11", task.name + ".c"] if language == "c" else ["c++", "-std=c++17", task.name + ".cpp"])
    for command in compiled:
        run = subprocess.run(command + ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-DSELFTEST_CUDA"],
                             cwd=folder, stderr=subprocess.PIPE, text=True)
        if run.returncode:
            flaws.append("%s does not compile: %s" % (command[2], run.stderr.strip()[:200]))
    if not task.plain:
        return
    if "    %sts_status ts_%s(const ts_%s_args *a, const ts_exec *x);" % (
            'extern "C" ' if language == "cuda" else "", task.name, task.name) not in prompt:
        flaws.append("the prompt has no signature")
    flaws += ["%s: passed by the judge, and not in the prompt's header" % n
              for n in task.inputs + task.outputs + task.numbers
              if not re.search(r"\b%s\b" % n, header) and n + " is not needed" not in " ".join(task.text.split())]


def check(task, language, folder):
    flaws = []
    cls, ending = LANGUAGES[language]
    with open(folder + "/PROMPT.md") as f:
        prompt = f.read()
    with open("%s/%s.%s" % (folder, task.name, ending)) as f:
        starter = f.read()
    with open(folder + "/entry.json") as f:
        entry = json.load(f)
    if entry["class"] != cls or entry["challenge"] != task.name or entry["sources"] != ["%s.%s" % (task.name, ending)]:
        flaws.append("entry.json: %s" % entry)
    for part in ("`%s.%s`" % (task.name, ending), "class `%s`" % cls, "## The contract",
                 "`%s/DTYPE/" % task.name, "S * R^0.15 * P^0.10 * M^0.05 * share^0.5, at least 1", "## Example", starter):
        if part not in prompt:
            flaws.append("the prompt lacks %r" % part[:60])
    if language in ("c", "c++", "cuda") and "-O3" not in prompt:
        flaws.append("the prompt has no compiler flags")
    if language in ("cuda", "triton") and "`sm_90`" not in prompt:
        flaws.append("the prompt names no GPU")
    check_words(task, language, prompt, flaws)
    with open(folder + "/Makefile") as f:
        if not re.search(r"^test:", f.read(), re.M):
            flaws.append("no make test")
    if ending != "py":
        check_c(task, language, folder, prompt, starter, flaws)
    elif task.plain:
        check_plain_python(task, folder, prompt, starter, flaws)
    else:
        check_script_python(task, folder, prompt, starter, flaws)
    return sorted(set(flaws))


def example_differs(prompt):
    """The example of ternary_training, computed by the NumPy entrant: what is wrong, or None."""
    program = r"""
import json, runpy, sys, types
import numpy as np
made = runpy.run_path(sys.argv[1])["ternary_training"]
latent, gains, rate = json.load(sys.stdin)
dims = types.SimpleNamespace(n_vocab=3, width=2, n_layer=1, n_head=1, n_kv_head=1, head_dim=2, ffn=2, max_batch=1,
                             max_tokens=4, rope_theta=1e4, norm_eps=1e-6)
tokens = np.array([[0, 1, 2, 0]], np.int32)
model = made(dims, np.array(latent, np.float32), np.array(gains, np.float32))
loss, dlatent, dnorm = model.grad(tokens)
model.step(tokens, *rate)
print(json.dumps([[float(loss), *map(float, dlatent), *map(float, dnorm)], list(map(float, model.eval(tokens)))]))
"""
    text = prompt.split("\n## Example\n", 1)[1].split("\n## ", 1)[0]
    number = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
    row = r"\b%s((?: +" + number + r")+)"
    values = lambda names: [float(x) for name in names for x in re.search(row % name, text).group(1).split()]
    matrices = ["E", "Wq", "Wk", "Wv", "Wo", "Wgate", "Wup", "Wdown"]
    rate = [float(x) for x in re.search(r"lr = (%s), beta1 = (%s), beta2 = (%s), eps = (%s), weight_decay = (%s) and\s+clip_norm = (%s)"
                                        % ((number,) * 6), text).groups()]
    run = subprocess.run([NUMPY, "-c", program, ROOT + "/contest/entrant/numpy/ternary_training/ternary_training.py"], text=True,
                         input=json.dumps([values(matrices), values(["gains"]), rate]), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if run.returncode:
        return run.stderr.strip()[-200:]
    got, (total, count) = json.loads(run.stdout)
    said = values(["loss"]) + values("d" + name for name in matrices) + values(["dgains"])
    if len(said) != len(got) or any(abs(a - b) > 6e-6 * abs(a) for a, b in zip(said, got)):
        return "the prompt says %s, NumPy %s" % (said, got)
    sums = re.search(r"the sum (%s) and the count (\d+)" % number, " ".join(text.split())).groups()
    return None if abs(float(sums[0]) - total) < 1e-6 and int(sums[1]) == count else "the sum is %s" % total


def damage(folder, file, old, new):
    with open("%s/%s" % (folder, file)) as f:
        text = f.read()
    assert old in text, (file, old)
    with open("%s/%s" % (folder, file), "w") as f:
        f.write(text.replace(old, new, 1))


# What must be found: (challenge, language, file, text, instead).
DAMAGES = [
    ("flash_attention", "python", "flash_attention.py", "kv_len=None", "lengths=None"),
    ("flash_attention", "python", "PROMPT.md", "    flash_attention(q, k, v, layout", "    flash_attention(q, k, v, kv_len, layout"),
    ("softmax_topk", "c", "softmax_topk.c", "const ts_exec *x)", "ts_exec *x)"),
    ("softmax_topk", "cuda", "PROMPT.md", "inv_temperature;", "temperature;"),
    ("softmax_topk", "cuda", "selftest.c", "ts_softmax_topk(&a", "ts_softmax(&a"),
    ("kv_cache", "python", "kv_cache.py", "def append(self, layer, seqs", "def append(self, seqs, layer"),
    ("kv_cache", "c++", "PROMPT.md", "ts_kv_truncate(", "ts_kv_cut("),
    ("layernorm_backward", "triton", "entry.json", "python-gpu", "python"),
    ("layernorm_backward", "triton", "PROMPT.md", "xhat is recomputed", "xhat, if not NULL, is recomputed"),
    ("rms_norm_forward", "python", "PROMPT.md", "| `off` | w_offset |", "| `off` |  |"),
    ("tree_verify", "python", "PROMPT.md", "Raise `ArithmeticError`", "Return `TS_E_MODEL`"),
    ("flash_attention", "c", "PROMPT.md", "} ts_attention_dims;", "} ts_dims;"),
    ("cross_entropy", "c++", "PROMPT.md", "MiB plus twice", "MiB"),
    ("beam_search", "c", "PROMPT.md", "## How an entry", "{py|text} ## How an entry"),
]
SELFTEST_DAMAGES = [
    ("softmax_topk", "python", "selftest.py", '"inv_temperature": 0.5', '"temperature": 0.5'),
    ("rms_norm_forward", "triton", "selftest.py", '"rstd"', '"r_std"'),
]


def main():
    flaws = n_pairs = left_out = 0
    tmp = tempfile.mkdtemp()
    try:
        for language in LANGUAGES:
            run = touchstone("new", "%s/%s" % (tmp, language), "--language", language)
            out = re.findall(r"^touchstone new: (\w+): left out of .* because ", run.stderr, re.M)
            left_out += len(out)
            for name in set(os.listdir("%s/%s" % (tmp, language))) - set(TASKS):
                print("%s in %s: made, but no challenge" % (name, language))
                flaws += 1
            for name in TASKS:
                folder = "%s/%s/%s" % (tmp, language, name)
                if os.path.isdir(folder) == (name in out):
                    print("%s in %s: neither made nor left out" % (name, language))
                    flaws += 1
                if not os.path.isdir(folder):
                    continue
                n_pairs += 1
                pasted = []
                check_pasted(Task(name), language, touchstone("new", "--prompt", "--challenge", name, "--language", language).stdout, pasted)
                for flaw in check(Task(name), language, folder) + pasted:
                    flaws += 1
                    print("%s in %s: %s" % (name, language, flaw))
        unseen = 0
        damages = DAMAGES + (SELFTEST_DAMAGES if NUMPY else [])
        for name, language, file, old, new in damages:
            folder = "%s/damaged" % tmp
            shutil.copytree("%s/%s/%s" % (tmp, language, name), folder)
            damage(folder, file, old, new)
            if not check(Task(name), language, folder):
                unseen += 1
                print("not seen: %s in %s, %s: %r instead of %r" % (name, language, file, new, old))
            shutil.rmtree(folder)
        if NUMPY:
            prompt = touchstone("new", "--prompt", "--challenge", "ternary_training", "--language", "python").stdout
            wrong = example_differs(prompt)
            if wrong:
                flaws += 1
                print("ternary_training: example: %s" % wrong)
            unseen += example_differs(prompt.replace("2.314757", "2.3149")) is None
    finally:
        shutil.rmtree(tmp)
    print("%d (challenge, language) pairs, %d left out, %d flaws; %d of %d damages seen%s"
          % (n_pairs, left_out, flaws, len(damages) - unseen, len(damages),
             "" if NUMPY else "; Python self-tests not run: no NumPy"))
    return flaws or unseen or n_pairs + left_out != len(LANGUAGES) * len(TASKS) or n_pairs < 40


ARGUMENTS, FUNCTIONS = listed("arguments"), listed("functions")
TASKS = [row[0] for row in listed("challenges")]
NUMPY = subprocess.run([ROOT + "/test/python.sh"], stdout=subprocess.PIPE, text=True).stdout.strip()
sys.exit(1 if main() else 0)
