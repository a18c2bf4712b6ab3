# SPDX-License-Identifier: Apache-2.0
"""Registers one task per challenge, and `all`: `inspect eval touchstone/softmax_topk`.

Parameters (-T NAME=VALUE): language (c, c++, cuda, python, triton), attempts (above 1: with the
public self-test's words between them), agent (a shell instead of attempts), depth (the judge's:
quick, normal, full), sandbox (docker, local, none of them for one attempt), cache (a name; another
one buys new answers; empty: never reuse), message_limit (of an agent).
"""
from inspect_ai import task
from inspect_ai._util.registry import registry_add, registry_info

from . import program
from .tasks import agent, attempts, challenge_task, verdict  # noqa: F401  registered by being imported


def define(name, names):
    @task(name=name)
    def made(language: str = "c", attempts: int = 1, agent: bool = False, depth: str = "quick",
             sandbox: str = "docker", cache: str = "contest", message_limit: int = 60):
        return challenge_task(names or program.challenges(), language, attempts, agent, depth, cache, sandbox,
                              message_limit)

    # Inspect names a task after its import package, which is touchstone_contest; `touchstone/NAME` is shorter.
    info = registry_info(made)
    registry_add(made, info.model_copy(update={"name": "touchstone/" + name}))
    return made


try:
    found = program.challenges()
except program.Broken:
    found = []  # `all` says what is missing when it is run
for challenge in found:
    globals()[challenge] = define(challenge, [challenge])
globals()["all"] = define("all", None)
