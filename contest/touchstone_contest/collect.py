# SPDX-License-Identifier: Apache-2.0
"""touchstone-contest LOG... --answers DIR - answers out of Inspect logs, as a tree that the judge reads.

Writes DIR/MODEL/CHALLENGE/sample-N.md (or .c, .py ... of an agent's file), N being the epoch, and next
to it sample-N.judge.log, which `touchstone report` reads. Judge the tree to have all models in one
run on one machine: only then are times compared.
"""
import argparse
import os
import re
import sys


def logs_in(paths):
    from inspect_ai.log import list_eval_logs, read_eval_log
    for path in paths:
        names = [path] if os.path.isfile(path) else list_eval_logs(path)
        for name in names:
            yield read_eval_log(name)


def safe(model):
    """A model's name as folders: letters, digits and ._-, each part not hidden."""
    parts = [re.sub(r"[^A-Za-z0-9._-]", "-", part).lstrip(".") for part in model.split("/")]
    return "/".join(part for part in parts if part) or "model"


def answers(logs):
    """(model, challenge, language, epoch, score) of every sample that was scored; the newest one of equals."""
    found = {}
    for log in sorted(logs, key=lambda log: log.eval.created):
        for sample in log.samples or []:
            score = (sample.scores or {}).get("verdict")
            if score is not None and score.metadata:
                m = score.metadata
                found[log.eval.model, m["challenge"], m["language"], sample.epoch] = score
    return found


def main():
    parser = argparse.ArgumentParser(prog="touchstone-contest", description=__doc__.split("\n")[0],
                                     epilog="Then: touchstone judge DIR --out page")
    parser.add_argument("logs", nargs="+", metavar="LOG", help="an Inspect log, or a folder of them")
    parser.add_argument("--answers", required=True, metavar="DIR", help="where the answers go; a new folder")
    options = parser.parse_args()
    if os.path.exists(options.answers) and os.listdir(options.answers):
        sys.exit("touchstone-contest: %s: got a folder with files, expected a new one" % options.answers)
    missing = [path for path in options.logs if not os.path.exists(path)]
    if missing:
        sys.exit("touchstone-contest: %s: no such file or folder" % missing[0])
    found = answers(logs_in(options.logs))
    if not found:
        sys.exit("touchstone-contest: got logs without a scored answer, expected those of `inspect eval touchstone/...`")
    languages = {}
    for model, challenge, language, _ in found:
        languages.setdefault(model, set()).add(language)
    for (model, challenge, language, epoch), score in sorted(found.items()):
        name = safe(model) if len(languages[model]) == 1 else safe(model) + "-" + safe(language)
        folder = os.path.join(options.answers, name, challenge)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "sample-%d" % epoch)
        with open("%s.%s" % (path, score.metadata["ending"]), "w") as f:
            f.write(score.answer or "")
        with open(path + ".judge.log", "w") as f:
            f.write(score.metadata["judge"]["log"])
    passed = sum(score.value["passed"] for score in found.values())
    print("%d answers of %d models in %s; %d passed when they were bought" % (len(found), len(languages), options.answers, passed))


if __name__ == "__main__":
    main()
