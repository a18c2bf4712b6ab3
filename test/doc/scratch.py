# SPDX-License-Identifier: Apache-2.0
"""scratch.py - the folder in which the commands of a document run, as a reader would have it."""
import fnmatch
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.request

import rule

ROOT = rule.ROOT
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"


class Scratch:
    """A copy of the source tree with what a reader would have: a build, a model, entrants, a log."""

    def __init__(self, folder, build, python):
        self.folder, self.build, self.python = folder, build, python
        # What git ignores, a command of the documents wrote there: judge.log, answers, page, builds.
        made = [line.strip("/") for line in (ROOT / ".gitignore").read_text().split() if line.startswith("/")]
        for path in ROOT.iterdir():
            if path.name.startswith(".") or any(fnmatch.fnmatch(path.name, name) for name in made):
                continue
            if path.is_dir():
                shutil.copytree(str(path), str(folder / path.name), symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(str(path), str(folder))
        for name in (".bin", ".tmp"):
            (folder / name).mkdir()
        (folder / "build").mkdir()  # what commands write there stays here
        for path in build.iterdir():
            if path.is_dir() and path.name not in ("bench", "test", "CMakeFiles"):
                continue  # what a reader, or another test, once wrote there
            (folder / "build" / path.name).symlink_to(path)
        (folder / ".bin/touchstone").symlink_to(build / "touchstone")
        if python:
            subprocess.run([str(ROOT / "test/site.sh"), str(build), python, str(folder / ".site")], check=True)
            for name in ("python", "python3"):
                (folder / f".bin/{name}").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
                (folder / f".bin/{name}").chmod(0o755)
        self.kept = {path.name for path in folder.iterdir()}
        self.env = rule.environment(folder, build, python)
        self.servers = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def fresh(self, programs):
        """For the next document: what the last one wrote is gone, and a reader's files are there."""
        self.stop()
        folder, entrant = self.folder, ROOT / "example/contest/careful/softmax_topk.c"
        for path in folder.iterdir():
            if path.name not in self.kept:
                shutil.rmtree(str(path)) if path.is_dir() and not path.is_symlink() else path.unlink()
        for name in ("mine.c", "c.c"):
            shutil.copy(str(entrant), str(folder / name))
        for name in ("a", "b", "theirs"):
            (folder / name).mkdir()
            shutil.copy(str(entrant), str(folder / name / "softmax_topk.c"))
        (folder / "my_folder").mkdir()
        shutil.copy(str(entrant.parent / "layernorm_forward.c"), str(folder / "my_folder"))
        (folder / "answers/model-a").mkdir(parents=True)
        shutil.copy(str(entrant), str(folder / "answers/model-a/softmax_topk.c"))
        shutil.copytree(str(ROOT / "share/austen"), str(folder / "a-model"))
        settings = json.loads((folder / "a-model/tokenizer_config.json").read_text())
        (folder / "a-model/tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": TEMPLATE}))
        (folder / "text.txt").write_text("It is a truth universally acknowledged, that a kernel must be judged.\n\n" * 40)
        (folder / "short.bin").write_bytes(b"".join(n.to_bytes(4, "little") for n in (64, 172, 5, 8, 4, 512, 512)) + bytes(1 << 10))
        if programs:
            (folder / "ex.c").write_text(programs[0].text)
        subprocess.run([str(self.build / "test/make_log"), "judge.log", "14x3x3"], cwd=str(folder), check=True)
        (folder / "shards").mkdir()
        shutil.copy(str(folder / "judge.log"), str(folder / "shards/all.log"))
        shutil.copy(str(folder / "judge.log"), str(folder / "answers/model-a/run.log"))
        (folder / ".state").write_text("")

    def run(self, command, limit):
        """(status, output) of a command. What it exports, and where it goes, is there for the next."""
        new = re.match(r"(?:(?:build/)?touchstone new|\S+/fill\.sh) (?!-)(\S+)", command)
        if new:
            shutil.rmtree(str(self.folder / new[1].lstrip("/")), ignore_errors=True)
        if re.match(r"(build/)?touchstone serve\b", command):
            return self.serve(command)
        where = ROOT if re.match(r"(\S+=\S+ )*make (?!-C)", command) else self.folder
        script = f". {self.folder}/.state\n{command}\nstatus=$?\n{{ export -p; echo cd \"'$PWD'\"; }} >{self.folder}/.state\nexit $status\n"
        if where == ROOT:
            script = re.sub(r"=made\b", f"={self.folder}/made", command)
        process = subprocess.Popen(["bash", "-c", script], cwd=str(where), env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, universal_newlines=True, errors="replace", start_new_session=True)
        try:
            output = process.communicate(timeout=limit)[0]
            if new and "fill.sh" in command:  # an evaluation leaves its log with the answers
                shutil.copy(str(self.folder / "judge.log"), str(self.folder / new[1]))
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return -1, f"it did not end within {limit} s"
        finally:
            if process.poll() is None:  # also when this test is stopped
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()

    def serve(self, command):
        """Starts a server, which the document's next commands may ask, and asks it itself."""
        self.stop()
        process = subprocess.Popen(["bash", "-c", "exec " + command], cwd=str(self.folder), env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        if not found:
            return process.wait(), line + process.stdout.read()
        self.servers.append(process)
        with urllib.request.urlopen(found[0] + "/models", timeout=20) as answer:
            return (0 if b'"data"' in answer.read() else 1), line

    def stop(self):
        bad = []
        for process in self.servers:
            process.send_signal(signal.SIGINT)
            if process.wait(40):
                bad.append(process.args[-1])
        self.servers = []
        return bad
