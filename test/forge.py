# SPDX-License-Identifier: Apache-2.0
"""forge.py IN OUT [--divide] [--pass] [--sign KEY] [--drop] - rewrites a log with valid hashes.

The times of its first timed entrant are divided by ten, each verdict is a PASS, it is signed, or has no signatures."""
import hashlib
import json
import subprocess
import sys

NUMBERS = "ns", "time_ns", "lo_ns", "hi_ns"


def divided(record, who):
    if record["type"] == "time" and record["entrant"] == who:
        for key in NUMBERS:
            value = record[key]
            record[key] = [x / 10 for x in value] if isinstance(value, list) else value / 10
    return record


def line(record, seq, prev):
    body = {"seq": seq, "prev": prev}
    body.update((k, v) for k, v in record.items() if k not in ("seq", "prev", "self"))
    text = json.dumps(body, separators=(",", ":"))[:-1]
    return '%s,"self":"%s"}' % (text, hashlib.sha256(text.encode()).hexdigest())


def main():
    source, to, *options = sys.argv[1:]
    records = [json.loads(x) for x in open(source, encoding="utf-8")]
    if "--drop" in options:
        records = [r for r in records if r["type"] != "signature"]
    if "--divide" in options:
        who = next(r["entrant"] for r in records if r["type"] == "time")
        # report derives again what a log does not have
        records = [divided(r, who) for r in records if r["type"] not in ("score", "match", "rank")]
    if "--pass" in options:
        for r in records:
            if r["type"] == "verdict":
                r.update(verdict="PASS", reason="", case="")
    lines, prev = [], 64 * "0"
    for seq, record in enumerate(records):
        lines.append(line(record, seq, prev))
        prev = hashlib.sha256(lines[-1].encode()).hexdigest()
    if "--sign" in options:
        key = options[options.index("--sign") + 1]
        made = subprocess.run(["ssh-keygen", "-Y", "sign", "-n", "touchstone-log", "-f", key], text=True,
                              input=prev + "\n", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        lines.append(line({"type": "signature", "signature": made.stdout}, len(lines), prev))
    with open(to, "w", encoding="utf-8") as file:
        file.write("".join(x + "\n" for x in lines))


main()
