#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""contest_doc.py BUILD - runs the commands of doc/contest.md, in their order, in an empty folder.

Commands that need a network, or minutes, are not run, but they must be among those known here: a command that is
neither run nor known is a flaw, as is one that fails. `judge.log` and the logs in `shards` are made ones."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

LATER = (  # why it is not run here, and which commands
    ("minutes", r"make (run|test|test-contest|test-slurm)"),
    ("minutes", r"(build/)?touchstone judge (example/contest|answers) .*"),
    ("minutes", r"(build/)?touchstone judge --replay judge.log answers"),
    ("named only", r"touchstone report"),
    ("network", r"pip install \./contest"),
    ("inspect-ai", r"(TOUCHSTONE=\S+ |LOCAL_\S+ )*inspect (eval|eval-retry|view)( .*)?"),
    ("inspect-ai", r"touchstone-contest logs --answers answers"),
    ("inspect-ai", r"touchstone report answers"),
)
WORDS = {"ID": "softmax_topk", "NAME": "c", "DIR": "made", "LOG": "judge.log"}  # values of the placeholders


def commands(text):
    """Lines of code blocks and code in sentences that begin like a command; comments and continuations are joined."""
    for fence, code in re.findall(r"^```(?:\w*)\n(.*?)^```|(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)", text, re.S | re.M):
        for line in re.sub(r"\\\n\s*", "", fence or code.replace("\n", " ")).splitlines():
            line = re.sub(r"\s+#.*", "", line).strip()
            if re.match(r"(\S+=\S+ )*(build/)?(make|touchstone|touchstone-contest|example/\S+|pip|inspect|export|python3|cp|mkdir) ", line):
                yield line


def main():
    build, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(__file__).resolve().parent.parent
    run, later, bad = [], [], []
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        for name in ("example", "contest"):
            (tmp / name).symlink_to(root / name)
        (tmp / "build").symlink_to(build)
        (tmp / "bin").mkdir()
        (tmp / "bin/touchstone").symlink_to(build / "touchstone")
        subprocess.run([build / "test/make_log", tmp / "judge.log", "14x3x3"], check=True)
        (tmp / "shards").mkdir()
        (tmp / "shards/all.log").symlink_to(tmp / "judge.log")
        for command in dict.fromkeys(commands((root / "doc/contest.md").read_text())):
            if any(re.fullmatch(known, command) for _, known in LATER):
                later.append(command)
                continue
            line = re.sub(r"\b(%s)\b" % "|".join(WORDS), lambda m: WORDS[m[0]], command).replace("...", "")
            for folder in ("made", "prompts"):  # the same folder may be named by several commands
                shutil.rmtree(tmp / folder, ignore_errors=True)
            got = subprocess.run(line, shell=True, cwd=tmp, capture_output=True, text=True, timeout=120, env={"PATH": f"{tmp}/bin:/usr/bin:/bin"})
            run.append(command)
            if got.returncode:
                bad.append(f"{line}: exit status {got.returncode}: {got.stderr.strip()[-200:]}")
    for flaw in bad:
        print("contest_doc:", flaw, file=sys.stderr)
    if len(run) < 6 or len(later) < 6:
        bad.append("too few")
        print(f"contest_doc: only {len(run)} commands run and {len(later)} known: are they found?", file=sys.stderr)
    print(f"{len(run)} commands of doc/contest.md run, {len(later)} need a network or minutes")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
