# SPDX-License-Identifier: Apache-2.0
"""test_contest.py - tests the contest with Inspect's mock model and the real judge: correct and
wrong answers, feedback, an agent, an interrupted run.

    python test_contest.py BUILD          what needs no timing; seconds
    python test_contest.py BUILD whole    everything; minutes

Needs inspect-ai; answers 77 where it is not installed."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ["TOUCHSTONE"] = os.path.join(os.path.abspath(sys.argv[1]), "touchstone")
HOME = tempfile.mkdtemp()
os.environ["INSPECT_CACHE_DIR"] = os.path.join(HOME, "cache")  # nothing of another run's, nothing left
sys.path.insert(0, os.path.join(ROOT, "contest"))
try:
    from inspect_ai import eval as run_eval
    from inspect_ai.log import read_eval_log
    from inspect_ai.model import ChatMessageAssistant, ChatCompletionChoice, ModelOutput, ModelUsage, get_model
    from inspect_ai.tool import ToolCall
except ImportError:
    print("skipped: no inspect-ai")
    sys.exit(77)

from touchstone_contest import _registry, answer, collect, program  # noqa: E402

CHALLENGE = "layernorm_forward"
failures = []


def expect(true, what):
    if not true:
        failures.append(what)
        print("contest: %s" % what)


def solution():
    """The obvious solution as one file."""
    with open(os.path.join(ROOT, "proof/plain/%s.c" % CHALLENGE)) as f, open(os.path.join(ROOT, "proof/plain/number.h")) as n:
        return f.read().replace('#include "number.h"\n', n.read())


RIGHT = "Here it is.\n\n```c\n%s```\n" % solution()
WRONG = RIGHT.replace("/ sqrt(", "/ cbrt(")
NONE = "I am not able to do this."


def said(text):
    output = ModelOutput.from_content("mockllm/model", text)
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def tool(name, **arguments):
    message = ChatMessageAssistant(content="", tool_calls=[ToolCall(id=name, function=name, arguments=arguments)])
    output = ModelOutput(model="mockllm/model", choices=[ChatCompletionChoice(message=message, stop_reason="tool_calls")])
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def run(outputs, name="run", epochs=1, **parameters):
    model = get_model("mockllm/model", custom_outputs=outputs, memoize=False)
    parameters.setdefault("cache", "")
    task = getattr(_registry, CHALLENGE)(sandbox="local", **parameters)
    return run_eval(task, model=model, epochs=epochs, max_samples=1, log_dir=os.path.join(HOME, name), display="none")[0]


def check_single():
    log = run([said(WRONG), said(RIGHT), said(NONE)], "single", epochs=3)
    expect(log.status == "success", "single: %s %s" % (log.status, log.error))
    by = [s.scores["verdict"] for s in log.samples]
    expect([s.value["passed"] for s in by] == [0, 1, 0], "single: passed %s" % [s.value for s in by])
    expect(by[1].value["score"] > 0 and by[0].value["score"] == 0, "single: scores %s" % [s.value for s in by])
    expect(by[0].metadata["judge"]["reason"] == "value", "single: reason %s" % by[0].metadata["judge"]["reason"])
    expect("value" in by[0].explanation, "single: the explanation says %s" % by[0].explanation)
    expect("got 0 code blocks" in by[2].explanation, "single: no code is %s" % by[2].explanation)
    first = json.loads(by[1].metadata["judge"]["log"].splitlines()[0])
    expect(first["type"] == "run" and "machine" in first, "single: the judge's log is not in Inspect's")


def check_rejected():
    """An answer without code and a wrong one, each rejected by the real judge before it is timed."""
    log = run([said(NONE), said(WRONG)], "rejected", epochs=2)
    expect(log.status == "success", "rejected: %s %s" % (log.status, log.error))
    by = [s.scores["verdict"] for s in log.samples]
    expect([s.value["passed"] for s in by] == [0, 0], "rejected: passed %s" % [s.value for s in by])
    expect("got 0 code blocks" in by[0].explanation, "rejected: no code is %s" % by[0].explanation)
    expect("value" in by[1].explanation, "rejected: the explanation says %s" % by[1].explanation)


def check_attempts():
    log = run([said(NONE), said(WRONG), said(RIGHT), said(NONE)], "attempts", attempts=4)
    sample = log.samples[0]
    tries = sample.scores["verdict"].metadata["tries"]
    expect([t["passed"] for t in tries] == [False, False, True], "attempts: %s" % tries)
    expect("no code block" in tries[0]["said"], "attempts: of no code it says %s" % tries[0]["said"])
    expect("off by" in tries[1]["said"], "attempts: of a wrong value it says %s" % tries[1]["said"])
    expect(sample.scores["verdict"].value["passed"] == 1, "attempts: %s" % sample.scores["verdict"].explanation)
    users = [m.text for m in sample.messages if m.role == "user"]
    expect(len(users) == 3 and "off by" in users[2], "attempts: the model was told %s" % users[1:])


def check_agent():
    write = tool("bash", command="cat > %s.c <<'EOF'\n%sEOF\nmake test | tail -n 1" % (CHALLENGE, solution()))
    log = run([write, tool("submit", answer="done")], "agent", agent=True)
    expect(log.status == "success", "agent: %s" % log.error)
    score = log.samples[0].scores["verdict"]
    expect(score.value["passed"] == 1, "agent: %s" % score.explanation)
    said = [m.text for m in log.samples[0].messages if m.role == "tool"]
    expect(any(" 0 failed" in text for text in said), "agent: its self-test says %s" % said)


def check_broken():
    was, os.environ["TOUCHSTONE"] = os.environ["TOUCHSTONE"], "/bin/false"
    try:
        task_made = True
        try:
            getattr(_registry, CHALLENGE)()
        except program.Broken:
            task_made = False
        expect(not task_made, "broken: a program that does not work makes a task")
    finally:
        os.environ["TOUCHSTONE"] = was


KILLED = textwrap.dedent('''
    import os, sys
    sys.path.insert(0, %(contest)r)
    sys.argv = ["x", %(build)r]
    from inspect_ai import eval as run_eval, eval_retry
    from inspect_ai.model import ModelAPI, ModelOutput, ModelUsage, modelapi

    class Counting(ModelAPI):
        """Records every call that reaches the provider, and exits in a given one."""
        async def generate(self, input, tools, tool_choice, config):
            with open(%(home)r + "/bought", "a") as f:
                f.write("%%d\\n" %% len(input))
            n = sum(1 for _ in open(%(home)r + "/bought"))
            if n == int(os.environ.get("DIE_IN", "0")):
                os.kill(os.getpid(), 9)
            out = ModelOutput.from_content("counting", "answer %%d: no code" %% n)
            out.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
            return out

    @modelapi(name="counting")
    def counting():
        return Counting

    from touchstone_contest import _registry
    log_dir = %(home)r + "/killed"
    if os.environ.get("RETRY"):
        from inspect_ai.log import list_eval_logs
        eval_retry(list_eval_logs(log_dir)[0], log_dir=log_dir, display="none", max_connections=1)
    else:
        run_eval("touchstone/" + %(challenge)r, model="counting/m", task_args={"attempts": 3, "sandbox": "local", "cache": "killed"},
                 epochs=3, max_samples=1, log_dir=log_dir, display="none", log_buffer=1)
''')


def check_killed():
    """3 samples of 3 attempts; killed by kill -9 inside call 5, the second of the second sample."""
    code = KILLED % {"contest": os.path.join(ROOT, "contest"), "build": sys.argv[1], "home": HOME, "challenge": CHALLENGE}
    environment = dict(os.environ, DIE_IN="5")
    first = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    expect(first.returncode == -9, "killed: exit status %d: %s" % (first.returncode, first.stdout[-400:]))
    environment = dict(os.environ, RETRY="1")
    again = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    expect(again.returncode == 0, "killed: the retry: %s" % again.stdout[-600:])
    with open(HOME + "/bought") as f:
        calls = f.read().split()
    # Answered: 4 before the kill, 5 after. The call that was cut off gave no answer, and is made again.
    expect(len(calls) == 10, "killed: %d calls, expected 10: 9 answers and the one that was cut off: %s" % (len(calls), calls))
    logs = [read_eval_log(os.path.join(HOME, "killed", n)) for n in os.listdir(HOME + "/killed")]
    done = [log for log in logs if log.status == "success"]
    expect(len(done) == 1 and len(done[0].samples) == 3, "killed: no whole log: %s" % [log.status for log in logs])
    print("killed and resumed: %d answers of 9 bought twice" % (len(calls) - 10))


def check_collect():
    target = HOME + "/answers"
    sys.argv = ["touchstone-contest", HOME + "/single", HOME + "/agent", "--answers", target]
    collect.main()
    names = sorted(os.path.relpath(os.path.join(r, f), target) for r, _, fs in os.walk(target) for f in fs)
    expect("mockllm/model/%s/sample-2.md" % CHALLENGE in names, "collect: %s" % names)
    json_path = HOME + "/board.json"
    board = subprocess.run([os.environ["TOUCHSTONE"], "report", "%s/mockllm/model/%s/sample-2.judge.log" % (target, CHALLENGE),
                            "--json", json_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    expect(board.returncode == 0, "collect: report says %s" % board.stderr)
    with open(json_path) as f:
        entrants = json.load(f)["entrants"]
    expect(len(entrants) == 1 and entrants[0]["passed"] == 1, "collect: board %s" % entrants)
    # All logs together: each of a model's answers counts.
    board = subprocess.run([os.environ["TOUCHSTONE"], "report", target, "--json", json_path],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    expect(board.returncode == 0, "collect: report of all logs says %s" % board.stderr)
    with open(json_path) as f:
        entrants = json.load(f)["entrants"]
    logs = [name for name in names if name.endswith(".judge.log")]
    expect(len(logs) > 1 and len(entrants) == 1 and entrants[0]["answers"] == len(logs), "collect: %s, board %s" % (logs, entrants))


def check_answer():
    """The same block as judge/reader/markdown.c takes: test/unit_answers.c has these cases, too."""
    cases = [("a\n```c\nint x;\n```\nb\n", "q", ("int x;\n", "c")),
             ("```c\nint f;\n```\n```python\nprint(1)\n```\n", "f;", ("int f;\n", "c")),
             ("```cpp\n__global__ void k();\n```", "q", ("__global__ void k();\n", "cu")),
             ("````c\n```c\nint x;\n```\n````\n", "q", ("```c\nint x;\n```\n", "c")),
             ("```\n#include <math.h>\n```\n", "q", ("#include <math.h>\n", "c")),
             ("```json\n{}\n```\n", "q", None), ("no code, ``` here\n", "q", None)]
    for text, challenge, want in cases:
        got = answer.code_of(text, challenge)
        expect(got == want, "answer: %r gives %r" % (text, got))


QUICK = [check_answer, check_broken, check_rejected]
WHOLE = QUICK + [check_single, check_attempts, check_agent, check_killed, check_collect]
try:
    for check in WHOLE if sys.argv[2:] == ["whole"] else QUICK:
        check()
finally:
    shutil.rmtree(HOME)
print("contest: %d failures" % len(failures))
sys.exit(1 if failures else 0)
