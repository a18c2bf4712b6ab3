# SPDX-License-Identifier: Apache-2.0
"""gpu_follow.py [--untimed] [--before TEXT] EXPECTED LOG JUDGE... - runs a judge that writes LOG and prints each
entrant's verdict as it comes, compared with what EXPECTED accepts.

EXPECTED has a line per entrant: name, class, and the accepted verdicts, comma-separated: `pass`; `common`; a reason of
rejection; `rejected`, for a wrong result of any kind; `no-gain`: passes, and does not win against the correct entrant
of its class (plain_sealed, plain_host). With --untimed there are no matches, and `no-gain` accepts every pass.
EXPECTED `built-in` is no file: the entrants are those that the judge itself names at the start of its log; touchstone
must pass, textbook too, if need be by the common contract, and the others must get a verdict.

Prints `plan NAME...`, then one line per name: `ok   NAME ...` or `NOT  NAME ...`, TEXT before every name. An entrant
without a verdict is `NOT`, and so are all of them if the judge dies before it reaches them. Exit status: 0 all ok, 1
otherwise.
"""
import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time

PLAIN = ("plain_sealed", "plain_host")
# Not for what the test or the machine did: it could not be built or loaded, was late, or ran out of time.
WRONG = ("value", "unwritten", "past", "before", "gap", "input", "crash", "status")
BUILT_IN = {"touchstone": ("pass",), "textbook": ("pass", "common")}
POLL_S = 0.2


class Follower:
    def __init__(self, expected, timed, before):
        self.expected = {} if expected is None else expected  # {name: (class, accepted)}, in the order of the file
        self.built_in, self.before = expected is None, before
        self.timed = timed
        self.name = {}  # of an entrant's number
        self.verdict = {}  # {name: (verdict, reason, case)}
        self.effect = {}  # {(a, b): (log of a's time over b's, whether a won)}
        self.told = {}  # {name: whether it is as expected}
        self.began = time.monotonic()

    def tell(self, name, ok, got, more=""):
        if name in self.told:
            return
        self.told[name] = ok
        print("%-4s %-40s %-24s %-16s %s[%.0f s]" % ("ok" if ok else "NOT", self.before + name, ",".join(self.expected[name][1]), got,
                                                    more and more + " ", time.monotonic() - self.began), flush=True)

    def read(self, record):
        kind = record.get("type")
        if kind == "entrant":
            name = self.name[record["id"]] = record["name"]
            if self.built_in:
                self.expected[name] = record["class"], BUILT_IN.get(name, ("any",))
                print("plan " + self.before + name, flush=True)
        elif kind == "verdict":
            name = self.name.get(record["entrant"])
            if name in self.expected:
                self.verdict[name] = record["verdict"], record.get("reason", ""), record.get("case", "")
                self.rule(name)
        elif kind == "match":
            a, b = self.name.get(record["a"]), self.name.get(record["b"])
            effect, won = record.get("effect") or 0.0, record.get("verdict")
            self.effect[a, b] = -effect, won == "a"
            self.effect[b, a] = effect, won == "b"
            for name in (a, b):
                self.rule(name)

    def rule(self, name):
        """Tells the verdict, if all that it depends on is known."""
        if name not in self.verdict or name in self.told:
            return
        cls, accepted = self.expected[name]
        verdict, reason, case = self.verdict[name]
        if "any" in accepted:
            return self.tell(name, verdict != "ERROR", f"{verdict} {reason}".strip(), case)
        if verdict == "PASS (common)":
            return self.tell(name, "common" in accepted, "PASS common", case)
        if verdict != "PASS":
            fits = reason in accepted or ("rejected" in accepted and verdict == "FAIL" and reason in WRONG)
            return self.tell(name, verdict in ("FAIL", "AUDIT") and fits, f"{verdict} {reason}", case)
        if "no-gain" not in accepted or not self.timed:
            return self.tell(name, bool({"pass", "no-gain"} & set(accepted)), "PASS")
        plain = next((p for p in PLAIN if p in self.expected and self.expected[p][0] == cls), None)
        if (name, plain) in self.effect:
            effect, won = self.effect[name, plain]
            self.tell(name, not won, "PASS " + ("gain" if won else "no-gain"), "%.3f of the correct time" % math.exp(effect))

    def end(self, why):
        """What has no verdict is a failure, and so is an expected match that was not held."""
        for name in self.expected:
            if name in self.verdict:
                self.tell(name, False, " ".join(self.verdict[name][:2]).strip(), "no match against the correct entrant: " + why)
            else:
                self.tell(name, False, "no verdict", why)


def follow(follower, log, judge):
    """Reads the log while the judge writes it; whole lines only. Returns the judge's exit status."""
    part, at = b"", 0
    while True:
        status = judge.poll()  # before the read, so that the last read sees everything
        if os.path.exists(log):
            with open(log, "rb") as f:
                f.seek(at)
                text = f.read()
            at += len(text)
            *lines, part = (part + text).split(b"\n")
            for line in lines:
                try:
                    follower.read(json.loads(line))
                except (ValueError, KeyError) as e:
                    print("gpu_follow: a line of the log cannot be read: %s" % e, flush=True)
        if status is not None:
            return status
        time.sleep(POLL_S)


def options():
    p = argparse.ArgumentParser(prog="gpu_follow.py")
    p.add_argument("--untimed", action="store_true")
    p.add_argument("--before", default="")
    p.add_argument("expected")
    p.add_argument("log")
    p.add_argument("judge", nargs=argparse.REMAINDER)
    return p.parse_args()


def read_expected(path):
    expected = {}
    with open(path) as f:
        for line in f:
            name, cls, accepted = line.split()
            expected[name] = cls, tuple(accepted.split(","))
    return expected


def main():
    o = options()
    log = o.log
    follower = Follower(None if o.expected == "built-in" else read_expected(o.expected), not o.untimed, o.before)
    expected = follower.expected
    if expected:
        print("plan " + " ".join(o.before + name for name in expected), flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of the `finally` below
    with open(log + ".err", "w+") as err:
        judge = subprocess.Popen(o.judge, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)
        try:
            status = follow(follower, log, judge)
        finally:  # interrupted: the judge must not go on alone
            if judge.poll() is None:
                judge.terminate()
                judge.wait()
        follower.end("the judge ended with status %d" % status)
        broken = status not in (0, 1)
        if broken:
            err.seek(0)
            print("gpu_follow: the judge ended with status %d\n%s" % (status, err.read()[-4000:]), flush=True)
    n_bad = sum(not ok for ok in follower.told.values())
    print("%d entrants, %d unexpected" % (len(expected), n_bad), flush=True)
    return 1 if n_bad or broken or not expected else 0


if __name__ == "__main__":
    sys.exit(main())
