# SPDX-License-Identifier: Apache-2.0
"""rule.py - what stands for a reader's own words in a command, which commands run here, and how long ones are cut.

Every rule goes by a command's form, or by what Makefile says of a target; none goes by a document."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CASE = "softmax_topk/f32/rows=9,vocab=33,k=5,pad=2,heat=100,lse=1/normal@0x5eed"
WORDS = (  # what a document leaves to the reader, and what stands for it here; the first that fits
    (r"PROVIDER/MODEL", "mockllm/model"),
    (r"--case NAME", f"--case '{CASE}'"), (r"--class NAME", "--class sealed"), (r"--language NAME", "--language c"),
    (r"--(text|data) FILE", r"--\1 text.txt"), (r"--svg FILE", "--svg out.svg"), (r"--html FILE", "--html out.html"), (r"--json FILE", "--json out.json"),
    (r"--model DIR", "--model a-model"), (r"--model NAME", "--model llama-3.1-8b"), (r"--gpu NAME", "--gpu h100"), (r"--impl NAME", "--impl cuda"), (r"demo NAME", "demo cancellation"), (r"-R NAME", "-R unit_base"),
    (r"--model ID", "--model llama-3.1-8b"), (r"--gpu ID", "--gpu h100"), (r"NEW\.json", "new.json"), (r"OLD\.json", "old.json"),
    (r"\S+\.gguf", "a-model"), (r"--prompt TEXT", "--prompt 'Once upon a time'"),
    (r"MODEL", "a-model"), (r"DIR", "made"), (r"FOLDER", "made"), (r"ENTRANT", "mine.c"), (r"LOG(\.\.\.)?", "judge.log"), (r"ANSWERS", "example/contest"), (r"BUILD", "build"), (r"URL", "https://example.org/touchstone"),
    (r"CHALLENGE", "softmax_topk"), (r"ID", "softmax_topk"), (r"TASK 'A\|B'", "adamw_step 'a|b'"), (r"NAME", "name"), (r"FILE", "text.txt"),
    (r"WIDTHxDEPTH", "2x2"), (r"K", "4"), (r"N", "2"), (r"A", "0.6"),
)
LESS = ("--quick", "--tiny", "--rounds 1", "--repeat 2", "--steps 2", "--seconds 20", "--above 1000000", "--rows 256")  # options of bench/ that shorten it
DEVICE = pathlib.Path("/dev/nvidia0").exists() or bool(shutil.which("nvidia-smi") and b"GPU" in subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE).stdout)
PROVEN = ("help", "run", "install", "sweep", "docs")  # make targets that `whole` runs; each other one is a test or a benchmark itself


def substituted(command, port):
    """A command with the reader's words replaced, and the server's usual port by a free one."""
    for word, to in WORDS:
        command = re.sub(r"(?<![\w$./-])%s(?![\w.=-])" % word, to, command)
    command = command.replace(":8080", f":{port}")
    if re.match(r"(build/)?touchstone serve", command) and "--port" not in command:
        command += f" --port {port}"
    return command


def reader_words(command):
    """Words of the reader's that the table does not know: a command that has one cannot be run."""
    return [word for word in re.findall(r"(?<![\w$./=\"'{-])[A-Z]{2,}(?![\w.=-])", re.sub(r"<<.*|'[^']*'|\"[^\"]*\"", "", command, flags=re.S))]


def targets():
    """Makefile's targets, and what its help says of each."""
    return dict(re.findall(r"^([a-z-]+):.*?## (.*)", (ROOT / "Makefile").read_text(), re.M))


def script(command):
    """The project's own script that a command runs, or None."""
    found = re.search(r"(?:^|\s)(?:\./)?((?:test|bench|python|cmake|example)/[\w./-]+\.(?:py|sh))", command)
    return found[1] if found else None


def usage(command):
    """A synopsis: brackets, alternatives, dots. Its options are checked, but it is no command to run."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|\$\([^)]*\)|<<.*", "", command, flags=re.S)
    return "'...'" in command or bool(re.search(r"(^|\s)\[|<[\w-]+>|(^|\s|\w)\.\.\.(\s|$)|[\w-]\|[\w-]", bare))


def has_module(python, name):
    return subprocess.run([python, "-c", f"import {name}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def of_make(command):
    """Class of a `make TARGET`."""
    target = ([word for word in command.split()[1:] if "=" not in word and not word.startswith("-")] or ["help"])[0]
    says = targets().get(target, "")
    if "needs a GPU" in says:
        return "gpu", "make test-cuda and its like run alone"
    for word in ("network", "root"):
        if f"needs {word}" in says or f"needs a {word}" in says:
            return word, says
    return ("run" if target == "help" else "minutes" if target in PROVEN else "own"), says


def classify(command, python):
    """(class, reason) of a command: run, gpu, network, root, missing, own, minutes or usage."""
    bare = re.sub(r"<<.*", "", re.sub(r"^(?:[A-Za-z_]\w*=\S+ +)+", "", command), flags=re.S)
    word, path = bare.split()[0], script(command)
    if re.match(r"(cat|echo|printf|mkdir|cp|mv|export|cd) |python3? - *$|cc [^;&|]*-x c - ", bare):
        return ("missing", "no Python") if word.startswith("python") and not python else ("run", "")
    if usage(bare):
        return "usage", "a synopsis"
    if re.search(r"\bSHA256SUMS\b|-VERSION\b", bare):
        return "own", "needs the files of a release: make test-dist"
    if word == "make" and " -C " not in bare:
        return of_make(bare)
    if re.search(r"\bctest\b|cmake -S \. -B build(\s|$)|cmake --build build(\s|$)|ninja -C build(\s|$)", bare) or re.match(r"test/", bare) or word.startswith(("build/test/", "build/bench/")):
        return "own", "a test or benchmark by itself"
    if re.search(r"--device[ =]cuda|--sanitize\b|\bnvcc\b|\.cu\b|test/gpu_|ternary_time|-DTS_CUDA=ON", bare):
        return "gpu", "names a GPU"
    if path and path.endswith(".py") and (ROOT / path).exists() and "cuda" in (ROOT / path).read_text() and not path.startswith("example/"):
        return "gpu", "a script for a GPU"
    if re.match(r"pip3?\b|git (clone|fetch|push|pull)|docker|podman|apt|dnf|wget|gh\b|uv\b|cosign", bare) or re.search(r"(curl|inspect eval).*(https://|--model (?!mockllm|openai-api/local))", bare):
        return "network", "reaches other machines"
    if re.match(r"sudo|apt", bare):
        return "root", "changes the system"
    if word == "git" and not (ROOT / ".git").exists():
        return "missing", "not a Git checkout"
    if re.match(r"git (?!ls-files|log|status|describe|rev-parse|diff|show)", bare):
        return "own", "changes the repository"
    if re.match(r"inspect view|mkdocs serve", bare):
        return "own", "a server for a browser"
    if re.match(r"sbatch|srun", bare):
        return "root", "a Slurm cluster: make test-slurm has one"
    if re.match(r"mpirun|inspect|touchstone-contest|mkdocs", bare):
        return ("missing", f"{word} is not installed") if not shutil.which(word) else ("minutes", "a team of processes, an evaluation or a site")
    if re.match(r"python3?$", word) and not python:
        return "missing", "no Python with apache-tvm-ffi and NumPy"
    peers = re.search(r"--peers (\S+)", bare)
    if peers and not all(has_module(python or sys.executable, name.split(".")[0]) for name in peers[1].split(",")):
        return "missing", f"a peer of {peers[1]} is not installed"
    if re.search(r"touchstone demo (gradients|chunked|cache|ragged)|judge.*--(replay|resume)|python3? (bench|example/python/overhead|example/python/train)", bare):
        return "minutes", "takes minutes"
    if path and path.endswith(".py") and (ROOT / path).exists() and re.search(r"\bjudge\(", (ROOT / path).read_text()):
        return "minutes", "judges several times"
    return "run", ""


def with_options(command, more):
    """The command with more options: before what follows it in a pipe or a list, and before redirections."""
    end = re.search(r"\s(\|\|?|&&|\d?>|<|;)", command)
    return command[: end.start()] + " " + more + command[end.start():] if end else command + " " + more


def shortened(command, cases, mutants, challenge):
    """The shortest equivalent of a command that takes longer than ten seconds; None for one that does not.
    cases: one of each task. mutants: [task, name]. challenge: that of the entrants, or None."""
    bare = re.sub(r"^(?:[A-Za-z_]\w*=\S+ +)+", "", command)
    found = re.match(r"(?:build/)?touchstone (\w+)", bare)
    verb = found[1] if found else ""
    if verb == "check" and not re.search(r"--case\s|--help|--only-mutants.*--impl", bare):
        task = re.search(r"--task (\w+)", bare)
        if "--only-mutants" in bare:
            return with_options(command, "--impl " + next(name for of, name in mutants if of.startswith(task[1] if task else "") and name != "control"))
        return with_options(re.sub(r" --(cases|mutants) \S+| --small", "", command), "--small --cases 1/50 --mutants 1/1000")
    if verb == "bench" and "--help" not in bare:
        light = re.sub(r"--(rounds|case|task) \S+ ?|--quick ?", "", command).strip()  # attention's smallest case takes a minute
        return with_options(light, "--quick --task adamw" + ("" if re.search(r"--threads|cuda", bare) else " --threads 1"))
    if verb == "judge" and not re.search(r"--(case|selfcheck|slurm|help)\b", bare):
        named = re.search(r"--challenge (\w+)", bare)
        name = named[1] if named else challenge or "softmax_topk"
        return with_options(command, f"--case '{cases[name]}'" + ("" if named else f" --challenge {name}"))
    if verb == "train" and "--steps" not in bare:
        return with_options(command, "--steps 2 --layers 1 --eval-every 1 --vocab 300 --batch 1 --length 16")
    path = script(bare)
    if path and path.startswith("bench/") and (ROOT / path).exists():
        text = (ROOT / path).read_text()
        more = [option for option in LESS if f'"{option.split()[0]}"' in text and option.split()[0] not in bare]
        return with_options(command, " ".join(more)) if more and "--list" not in bare else None
    found = re.match(r"make install PREFIX=(\S+)", bare)
    return f"cmake --install build --prefix {found[1]}" if found else None


def environment(scratch, build, python):
    """What a command sees: this build's program first, nothing of the caller's but PATH's system part."""
    keep = {key: os.environ[key] for key in ("LANG", "TOUCHSTONE_LIBCUDA", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH") if key in os.environ}
    git = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--absolute-git-dir"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True) if shutil.which("git") else None
    extra = {"GIT_DIR": git.stdout.strip()} if git and git.returncode == 0 else {}
    return {**keep, **extra, "PATH": f"{scratch}/.bin:{os.environ['PATH']}", "HOME": str(scratch), "TMPDIR": str(scratch / ".tmp"), "PYTHONDONTWRITEBYTECODE": "1",
            **({"PYTHONPATH": str(scratch / ".site"), "TOUCHSTONE_PYTHON": python} if python else {})}
