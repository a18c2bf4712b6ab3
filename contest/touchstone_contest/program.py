# SPDX-License-Identifier: Apache-2.0
"""The program `touchstone`: where it is, what it offers, and its verdict on an answer."""
import asyncio
import json
import os
import shutil
import subprocess
import tempfile

ENDINGS = {"c": "c", "c++": "cpp", "cuda": "cu", "python": "py", "triton": "py"}
DEVICES = {"c": "cpu", "c++": "cpu", "cuda": "cuda", "python": "cpu", "triton": "cuda"}


class Broken(RuntimeError):
    """The judge could not work: an error of the sample, never a failed verdict."""


def program():
    """$TOUCHSTONE, or touchstone on PATH."""
    path = os.environ.get("TOUCHSTONE") or shutil.which("touchstone")
    if not path or not os.access(path, os.X_OK):
        raise Broken("touchstone: got %s, expected the program's path in $TOUCHSTONE, or touchstone on PATH" % (path or "none"))
    return path


def ask(*arguments):
    run = subprocess.run([program(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         stdin=subprocess.DEVNULL)
    if run.returncode:
        raise Broken(run.stderr.strip() or "touchstone %s: exit status %d" % (" ".join(arguments), run.returncode))
    return run.stdout


def challenges():
    return [line.split()[0] for line in ask("list", "challenges").splitlines()]


def prompt(challenge, language):
    return ask("new", "--prompt", "--challenge", challenge, "--language", language)


def scaffold(challenge, language):
    """The author's folder as {path: text}: self-test, headers, starter."""
    with tempfile.TemporaryDirectory() as tmp:
        folder = os.path.join(tmp, challenge)
        ask("new", folder, "--challenge", challenge, "--language", language)
        found = {}
        for root, _, files in os.walk(folder):
            for name in files:
                path = os.path.join(root, name)
                with open(path) as f:
                    found[os.path.relpath(path, folder)] = f.read()
        return found


def score_of(log):
    """The score that the judge's log has; 0 where the answer did not pass."""
    for line in log.splitlines():
        record = json.loads(line)
        if record.get("type") == "score":
            return record.get("score", 0)  # none where the judge had nothing to compare times with
    return 0.0


async def judge(challenge, language, model, answer, ending, depth, epoch):
    """Verdict, score and log of an answer: a text in Markdown, or a file's content."""
    with tempfile.TemporaryDirectory() as tmp:
        answers = os.path.join(tmp, "answers")
        folder = os.path.join(answers, model.replace("/", "_"), challenge)
        os.makedirs(folder)
        with open(os.path.join(folder, "sample-%d.%s" % (epoch, ending)), "w") as f:
            f.write(answer)
        log = os.path.join(tmp, "judge.log")
        process = await asyncio.create_subprocess_exec(
            program(), "judge", answers, "--challenge", challenge, "--depth", depth, "--device", DEVICES[language],
            "--log", log, "--json", "-", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE)
        try:
            out, err = await process.communicate()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
        if process.returncode not in (0, 1):
            lines = err.decode(errors="replace").strip().splitlines()
            raise Broken(lines[-1] if lines else "touchstone judge: exit status %d" % process.returncode)
        verdict = json.loads(out)["verdicts"][0]
        with open(log) as f:
            text = f.read()
    return dict(verdict, passed=verdict["verdict"] in ("PASS", "PASS (common)"), score=score_of(text), log=text)
