# SPDX-License-Identifier: Apache-2.0
"""cuda_plan.py - runs a list of test steps within a number of seconds, prints each verdict as it comes, and keeps a
list of what passed, failed, was skipped and was not reached.

A step is a command. Exit status 0 is passed, 77 skipped, anything else failed. A step that `tells` prints verdicts of
its own, a line each: first `plan NAME...`, once or several times, then `ok   NAME ...`, `NOT  NAME ...` or
`skip NAME ...` per name. A name without a line is a failure, and so is a step that tells without a plan.

Steps start in the order of the list, if their estimate fits into the time that is left; otherwise they are not
reached. One that is `alone` has the machine for itself. While it waits for others to end, shorter steps after it fill
the gap. A step that takes more than twice its estimate and 20 s, or reaches the end of the budget, is ended and has
failed. The report is written anew at every change, so that it is true even if this process is killed.
"""
import json
import os
import queue
import re
import signal
import subprocess
import threading
import time

TAIL = 40  # lines of a failed step's output that are printed
WAITING, RUNNING, ENDED, NOT_REACHED = "not reached yet", "running", "ended", "not reached"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Step:
    """seconds: the estimate; size: its part of a job, of which `jobs` run at once; skip: why it cannot run here."""

    def __init__(self, name, command, seconds, alone=False, tells=False, size=1.0, skip=""):
        self.name, self.command, self.seconds = name, command, seconds
        self.alone, self.tells, self.size, self.skip = alone, tells, size, skip
        self.state, self.verdicts, self.planned, self.took, self.why = WAITING, {}, [], 0.0, ""
        self.lines, self.began, self.process, self.log, self.ended_by, self.is_read = [], 0.0, None, None, "", False

    def limit(self):
        return 2 * self.seconds + 20

    def count(self, verdict):
        return sum(v[0] == verdict for v in self.verdicts.values())

    def record(self):
        return {"name": self.name, "state": self.state, "why": self.why, "estimate_s": self.seconds, "took_s": round(self.took, 1),
                "verdicts": [{"name": n, "verdict": v, "text": t} for n, (v, t) in self.verdicts.items()]}


class Plan:
    def __init__(self, steps, budget, jobs, report, about=None, kept=()):
        self.steps, self.budget, self.jobs, self.report = steps, budget, jobs, report
        self.about, self.kept = about or {}, list(kept)
        self.folder = os.path.splitext(report)[0]
        self.began, self.events, self.stopped, self.finished = time.monotonic(), queue.Queue(), "", False
        os.makedirs(self.folder, exist_ok=True)

    def now(self):
        return time.monotonic() - self.began

    def say(self, what, text):
        print("[%4.0f s] %-8s%s" % (self.now(), what, text), flush=True)

    # ---- the report ----

    def everything(self):
        return self.kept + [s.record() for s in self.steps]

    def lists(self):
        """{passed, failed, skipped, not reached, running: [(name, text)]}"""
        lists = {PASSED: [], FAILED: [], SKIPPED: [], NOT_REACHED: [], RUNNING: []}
        for s in self.everything():
            for v in s["verdicts"]:
                name = s["name"] if v["name"] == s["name"] else s["name"] + ": " + v["name"]
                lists[v["verdict"]].append((name, v["text"]))
            if s["state"] in (WAITING, NOT_REACHED):
                lists[NOT_REACHED].append((s["name"], s["why"]))
            elif s["state"] == RUNNING:
                lists[RUNNING].append((s["name"], "started, and not ended when this was written"))
        return lists

    def write(self):
        lists = self.lists()
        counts = {key: len(value) for key, value in lists.items()}
        whole = {**self.about, "finished": self.finished, "stopped": self.stopped, "budget_s": self.budget,
                 "took_s": round(self.now(), 1), "counts": counts, "steps": self.everything()}
        self.replace(self.report, json.dumps(whole, indent=1) + "\n")
        text = "".join("%s %s%s\n" % (key, name, ": " + why if why else "") for key, value in lists.items() for name, why in value)
        head = "finished" if self.finished else "NOT finished: this list was last written at %.0f s" % self.now()
        self.replace(self.folder + ".txt", head + (", " + self.stopped if self.stopped else "") + "\n" + text)

    @staticmethod
    def replace(path, text):
        with open(path + ".new", "w") as f:
            f.write(text)
        os.replace(path + ".new", path)

    # ---- steps ----

    def start(self, step):
        step.state, step.began = RUNNING, self.now()
        step.log = open(os.path.join(self.folder, step.name.replace("/", ".") + ".log"), "w")
        self.say("start", "%s, about %.0f s" % (step.name, step.seconds))
        try:
            step.process = subprocess.Popen(step.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                            text=True, errors="replace", start_new_session=True)
        except OSError as e:
            step.log.write("%s\n" % e)
            step.lines.append(str(e))
            self.end(step, 127)
        else:
            threading.Thread(target=self.read, args=(step,), daemon=True).start()
            threading.Thread(target=lambda: self.events.put((step, step.process.wait(), None)), daemon=True).start()
        self.write()

    def read(self, step):
        for line in step.process.stdout:
            self.events.put((step, None, line.rstrip("\n")))
        self.events.put((step, None, None))

    def line(self, step, line):
        step.lines.append(line)
        step.log.write(line + "\n")
        step.log.flush()
        if not step.tells:
            return
        word = line.split()
        if word[:1] == ["plan"]:
            step.planned += word[1:]
        elif len(word) > 1 and word[0] in ("ok", "NOT", "skip"):
            self.judge(step, word[1], {"ok": PASSED, "NOT": FAILED, "skip": SKIPPED}[word[0]], " ".join(word[2:]))

    def judge(self, step, name, verdict, text):
        if verdict == PASSED and name not in step.planned:
            verdict, text = FAILED, "a verdict without a plan: " + text
        if step.verdicts.get(name, ("",))[0] == FAILED:
            return  # a failure stays one
        step.verdicts[name] = verdict, text
        self.say({PASSED: "ok", FAILED: "NOT", SKIPPED: "skip"}[verdict], "%s: %s %s" % (step.name, name, text))
        self.write()

    def signal(self, step, number):
        try:
            os.killpg(step.process.pid, number)
        except OSError:
            pass

    def stop(self, step, why):
        """Ends a step, which has then failed: first so that it can clean up."""
        if not step.ended_by:
            step.ended_by = why
            self.signal(step, signal.SIGTERM)
            threading.Timer(3, self.signal, (step, signal.SIGKILL)).start()

    def drain(self, step):
        """What the ended step wrote, to the end; others' events keep their order. A child that lives on may hold the pipe."""
        self.signal(step, signal.SIGKILL)
        others, until = [], time.monotonic() + 2
        while time.monotonic() < until:
            try:
                event = self.events.get(timeout=0.1)
            except queue.Empty:
                continue
            if event[0] is not step:
                others.append(event)
            elif event[2] is None:
                break
            else:
                self.line(step, event[2])
        for event in others:
            self.events.put(event)

    def end(self, step, status):
        step.took = self.now() - step.began
        if step.process and not step.is_read:
            self.drain(step)
        step.state = ENDED
        if step.tells and step.planned:
            why = step.ended_by or "the step ended with status %d" % status
            for name in [n for n in step.planned if n not in step.verdicts]:
                self.judge(step, name, FAILED, "no verdict: " + why)
        last = next((line for line in reversed(step.lines) if line.strip()), "")
        # The step's own verdict: all of what it says, or what its verdicts do not tell.
        if step.ended_by:
            own = FAILED, step.ended_by
        elif status == 77 and not step.count(FAILED):
            own = SKIPPED, last.replace("skipped: ", "", 1)
        elif status and not step.count(FAILED):
            own = FAILED, "ended with status %d: %s" % (status, last)
        elif not status and step.tells and not step.verdicts:
            own = FAILED, "told no verdict"
        else:
            own = None if step.tells else (PASSED, last)
        if own:
            step.verdicts[step.name] = own
        verdict = FAILED if step.count(FAILED) else SKIPPED if step.count(SKIPPED) == len(step.verdicts) else PASSED
        told = ", %d of %d verdicts as expected" % (step.count(PASSED), len(step.verdicts)) if step.tells else ""
        self.say(verdict, "%s, %.0f s%s%s" % (step.name, step.took, told, ": " + own[1] if own and own[1] else ""))
        if verdict == FAILED:
            print("\n".join("         | " + line for line in step.lines[-TAIL:]), flush=True)
        step.log.close()
        self.write()

    # ---- order ----

    def running(self):
        return [s for s in self.steps if s.state == RUNNING]

    def room(self, step):
        running = self.running()
        if step.alone or any(s.alone for s in running):
            return not running
        return sum(s.size for s in running) + step.size <= max(self.jobs, step.size)

    def next(self):
        """The step to start now, or None. Decides what is skipped or not reached."""
        gap = None  # until when steps may run before one that waits to be alone
        for step in [s for s in self.steps if s.state == WAITING]:
            left = self.budget - self.now()
            if step.skip:
                step.state, step.verdicts[step.name] = ENDED, (SKIPPED, step.skip)
                self.say("skipped", "%s: %s" % (step.name, step.skip))
                self.write()
            elif step.seconds > left:
                step.state, step.why = NOT_REACHED, "needs about %.0f s, %.0f s were left" % (step.seconds, max(left, 0))
                self.write()
            elif self.room(step) and (gap is None or not step.alone and self.now() + step.seconds <= gap):
                return step
            elif step.alone and gap is None:
                gap = max(s.began + s.seconds for s in self.running())
        return None

    def look(self):
        """Ends what overruns."""
        for step in self.running():
            if self.now() >= self.budget:
                self.stop(step, "ended at the end of the budget of %.0f s, after %.0f s; estimated %.0f s" % (self.budget, self.now() - step.began, step.seconds))
            elif self.now() - step.began > step.limit():
                self.stop(step, "overran: ended after %.0f s; estimated %.0f s" % (self.now() - step.began, step.seconds))

    def interrupt(self, number, frame):
        self.stopped = "interrupted by " + signal.Signals(number).name

    def run(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.interrupt)
        self.write()
        while True:
            for step in self.running() if self.stopped else ():
                self.stop(step, self.stopped)
            while not self.stopped and (step := self.next()):
                self.start(step)
            if not self.running():
                break
            try:
                step, status, line = self.events.get(timeout=0.2)
            except queue.Empty:
                self.look()
                continue
            if line is not None:
                self.line(step, line)
            elif status is not None and step.state == RUNNING:
                self.end(step, status)
            elif status is None:
                step.is_read = True
            self.look()
        return self.finish()

    def finish(self):
        self.finished = not self.stopped
        self.write()
        lists = self.lists()
        for key in (SKIPPED, NOT_REACHED, FAILED):
            for name, why in lists[key]:
                print("%s: %s%s" % (key, name, ": " + why if why else ""))
        print("the list is in %s and %s.txt, all output in %s/" % (self.report, self.folder, self.folder))
        if self.stopped:
            print(self.stopped)
        print("%d not reached" % len(lists[NOT_REACHED]))
        print("%d passed, %d failed, %d skipped" % tuple(len(lists[key]) for key in (PASSED, FAILED, SKIPPED)), flush=True)
        return 1 if lists[FAILED] or self.stopped or not (lists[PASSED] or lists[SKIPPED]) else 0


def select(steps, only):
    """Those whose name the pattern is found in; None if it is no pattern."""
    try:
        pattern = re.compile(only)
    except re.error:
        return None
    return [s for s in steps if pattern.search(s.name)]
