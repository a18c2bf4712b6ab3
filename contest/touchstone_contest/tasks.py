# SPDX-License-Identifier: Apache-2.0
"""Tasks, solvers and the scorer. The judge is the scorer: it runs in its own sandbox, on this machine."""
import os

from inspect_ai import Task
from inspect_ai.agent import AgentPrompt, as_solver, react
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import CachePolicy, ChatMessageUser, GenerateConfig
from inspect_ai.scorer import Score, accuracy, mean, scorer, stderr
from inspect_ai.solver import solver
from inspect_ai.tool import bash
from inspect_ai.util import concurrency, sandbox

from . import program
from .answer import code_of

SELFTEST_SECONDS = 120
DOCKERFILE = os.path.join(os.path.dirname(__file__), "Dockerfile")


def file_of(state):
    return "%s.%s" % (state.metadata["challenge"], program.ENDINGS[state.metadata["language"]])


async def lay_out(state):
    """The author's folder, in the sandbox."""
    for path, text in program.scaffold(state.metadata["challenge"], state.metadata["language"]).items():
        await sandbox().write_file(path, text)


async def selftest():
    """Whether it passes, and what it says: the first flaws and the count."""
    run = await sandbox().exec(["timeout", "-k", "5", str(SELFTEST_SECONDS), "make", "test"],
                               timeout=SELFTEST_SECONDS + 30)
    lines = (run.stdout + run.stderr).splitlines()
    said = [line for line in lines if "FAIL" in line or "rror" in line][:12]
    said += [line for line in lines if line.endswith("failed") or " failed: " in line or line.startswith("SKIPPED")][:1]
    if run.returncode == 124:
        said.append("not finished after %d s" % SELFTEST_SECONDS)
    return run.success, "\n".join(said or lines[-12:])[:4000]


@solver
def attempts(n):
    """Requests up to n answers; each after the first gets the output of the public self-test."""

    async def solve(state, generate):
        tries = state.store.get("tries", [])
        for i in range(n):
            state = await generate(state)
            if i + 1 == n or state.completed:
                break
            code = code_of(state.output.completion, state.metadata["challenge"])
            if code is None:
                ok, said = False, "The answer has no code block in %s." % state.metadata["language"]
            else:
                await lay_out(state)
                await sandbox().write_file(file_of(state), code[0])
                ok, said = await selftest()
            tries.append({"passed": ok, "said": said})
            state.store.set("tries", tries)
            if ok:
                break
            state.messages.append(ChatMessageUser(content="The public self-test (`make test`) says:\n\n" + said +
                                                  "\n\nReply with the whole corrected file in one code block."))
        return state

    return solve


@solver
def agent(message_limit):
    """A model with a shell in the author's folder; its answer is the file that it leaves there."""
    prompt = AgentPrompt(instructions="You work in a folder with a challenge. Edit the starter file there, run "
                         "`make test`, and submit when you are done. The file as you leave it is your answer.")
    work = as_solver(react(prompt=prompt, tools=[bash(timeout=SELFTEST_SECONDS + 60)]))

    async def solve(state, generate):
        state.message_limit = message_limit
        await lay_out(state)
        state = await work(state, generate)
        state.store.set("file", await sandbox().read_file(file_of(state)))
        return state

    return solve


@scorer(metrics={"passed": [accuracy(), stderr()], "score": [mean()]})
def verdict(depth="quick"):
    """The judge's verdict and score; its whole log is in the score's metadata."""

    async def score(state, target):
        challenge, language = state.metadata["challenge"], state.metadata["language"]
        file = state.store.get("file", None)
        answer = state.output.completion if file is None else file
        ending = "md" if file is None else program.ENDINGS[language]
        async with concurrency("touchstone-judge", 1):  # it measures times
            v = await program.judge(challenge, language, str(state.model), answer, ending, depth, state.epoch)
        said = "%s %s %s %s" % (v["verdict"], v["reason"], v["text"], v["case"])
        return Score(value={"passed": float(v["passed"]), "score": v["score"]}, answer=answer,
                     explanation=" ".join(said.split()),
                     metadata={"challenge": challenge, "language": language, "ending": ending,
                               "tries": state.store.get("tries", []), "judge": v})

    return score


def challenge_task(names, language="c", attempts_=1, as_agent=False, depth="quick", cache="contest",
                   box="docker", message_limit=60):
    if language not in program.ENDINGS:
        raise ValueError("language: got %r, expected one of %s" % (language, ", ".join(program.ENDINGS)))
    samples = []
    for name in names:
        try:
            text = program.prompt(name, language)
        except program.Broken as error:
            if len(names) > 1 and "left out of" in str(error):
                continue  # of `all`: a challenge that this language does not have
            raise
        samples.append(Sample(id=name, input=text, metadata={"challenge": name, "language": language}))
    needs = as_agent or attempts_ > 1
    return Task(
        dataset=MemoryDataset(samples),
        solver=agent(message_limit) if as_agent else attempts(attempts_),
        scorer=verdict(depth),
        sandbox=None if not needs else ("docker", DOCKERFILE) if box == "docker" else box,
        # What was bought once is not bought again when a run is resumed; another name buys anew. Not expiry=None:
        # a resumed run reads its policy from the log, which drops None, so its key would be another.
        config=GenerateConfig(cache=CachePolicy(expiry="10Y", scopes={"contest": str(cache)}) if cache else None))
