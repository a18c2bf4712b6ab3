# SPDX-License-Identifier: Apache-2.0
"""serve.py - `touchstone serve` from outside, with http.client: answers, streams, bad input,
limits, cancellation, the end.

    python test/serve.py BUILD

Models: share/austen, and test/checkpoint/llama, whose random bytes are rarely whole characters."""
import atexit
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

BUILD = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
AUSTEN = os.path.join(HERE, "..", "share", "austen")
BYTES = os.path.join(HERE, "checkpoint", "llama")
TEMPLATE = ("{% for m in messages %}{% if m.role == 'assistant' and loop.first %}{{ raise_exception('no question') }}{% endif %}"
            "{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}")
JSON = {"Content-Type": "application/json"}
TMP = tempfile.TemporaryDirectory()


def expect(truth, *what):
    if not truth:
        raise SystemExit("serve: " + " ".join(str(w) for w in what))


class Server:
    def __init__(self, model, *options):
        self.errors = tempfile.TemporaryFile("w+", dir=TMP.name)
        self.process = subprocess.Popen([BUILD + "/touchstone", "serve", model, "--port", "0", "--name", "m", *options],
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True)
        atexit.register(self.process.kill)
        line = self.process.stdout.readline()
        found = re.match(r"serving m at http://127\.0\.0\.1:(\d+)/v1\n", line)
        expect(found, "no port in", repr(line), self.said())
        self.port = int(found[1])

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method, path, body=None, headers=JSON):
        c = self.connect()
        c.request(method, path, body, headers)
        r = c.getresponse()
        text = r.read()
        c.close()
        return r, text

    def post(self, path, **body):
        r, text = self.ask("POST", path, json.dumps({"model": "m", **body}))
        expect(r.status == 200, path, body, r.status, text)
        return json.loads(text)

    def complete(self, prompt, **more):
        return self.post("/v1/completions", prompt=prompt, **{"temperature": 0, "max_tokens": 40, **more})

    def stream(self, path, **body):
        """The events of a stream, less [DONE]."""
        r, text = self.ask("POST", path, json.dumps({"model": "m", "stream": True, **body}))
        expect(r.status == 200 and r.getheader("Content-Type") == "text/event-stream", r.status, text)
        events = text.decode().split("\n\n")
        expect(events[-2:] == ["data: [DONE]", ""] and all(e.startswith("data: ") for e in events[:-1]), text)
        return [json.loads(e[6:]) for e in events[:-2]]

    def metrics(self):
        text = self.ask("GET", "/metrics")[1].decode()
        return {k: float(v) for k, v in re.findall(r"^touchstone_(\S+) (\S+)$", text, re.M)}

    def stop(self, wait=True):
        self.process.send_signal(signal.SIGTERM)
        return self.finish() if wait else None

    def finish(self):
        out = self.process.communicate(timeout=60)[0]
        expect(self.process.returncode == 0, "exit status", self.process.returncode, out, self.said())
        expect(re.search(r"^served \d+ requests, \d+ tokens; \d+ failed, \d+ cancelled$", out, re.M), out)
        return out


def joined(events, index=0):
    return "".join(c["text"] for e in events for c in e["choices"] if c["index"] == index)


def answers(s):
    """Whole answers, streams and the program `generate` agree."""
    r, text = s.ask("GET", "/v1/models")
    expect(json.loads(text)["data"][0]["id"] == "m", text)
    expect(json.loads(s.ask("GET", "/v1/models/m")[1])["object"] == "model")
    expect(json.loads(s.ask("GET", "/health")[1]) == {"status": "ok"})
    prompts = ["It is a truth", "Emma was", "They walked to the"]
    list_file = os.path.join(TMP.name, "prompts")
    with open(list_file, "w") as f:
        f.write("\n".join(prompts) + "\n")
    ours = json.loads(subprocess.run([BUILD + "/touchstone", "generate", AUSTEN, "--prompts", list_file, "--tokens", "40",
                                      "--json", "-"], stdout=subprocess.PIPE, check=True).stdout)["stories"]
    for prompt, story in zip(prompts, ours):
        whole = s.complete(prompt)
        expect(whole["choices"][0]["text"] == story["text"], whole, story)
        expect(whole["choices"][0]["finish_reason"] == story["finish"])
        expect(whole["usage"]["completion_tokens"] == len(story["tokens"]), whole, story)
        events = s.stream("/v1/completions", prompt=prompt, temperature=0, max_tokens=40, stream_options={"include_usage": True})
        expect(joined(events) == story["text"] and events[-1]["choices"] == [], events[-1])
        expect(events[-1]["usage"]["total_tokens"] == whole["usage"]["total_tokens"])
        expect([c["finish_reason"] for e in events for c in e["choices"] if c["finish_reason"]] == [story["finish"]])
    several = s.complete(prompts, echo=True)["choices"]
    expect([c["text"] for c in several] == [p + o["text"] for p, o in zip(prompts, ours)], several)
    text = ours[0]["text"]
    parts = s.complete(prompts[0], logprobs=0)["choices"][0]["logprobs"]["tokens"]
    stop = parts[20] + parts[21][:1]  # arrives in two pieces
    cut = text[:text.index(stop)]
    short = s.complete(prompts[0], stop=["no such text", stop])["choices"][0]
    expect(short["text"] == cut and short["finish_reason"] == "stop", short)
    events = s.stream("/v1/completions", prompt=prompts[0], temperature=0, max_tokens=40, stop=stop)
    expect(joined(events) == cut and events[-1]["choices"][0]["finish_reason"] == "stop", events)
    tokens = s.complete([5, 6, 7], max_tokens=5)["choices"][0]["text"]
    expect(tokens == s.complete([[5, 6, 7]], max_tokens=5)["choices"][0]["text"])
    expect(s.complete("x", max_tokens=0)["choices"][0] == {"index": 0, "text": "", "logprobs": None, "finish_reason": "length"})
    full = s.complete(list(range(200)), max_tokens=10 ** 15)
    expect(full["usage"]["total_tokens"] == 256 or full["choices"][0]["finish_reason"] == "stop", full)


def draws(s):
    """Seeds decide draws, choices differ, log-probabilities fit."""
    how = dict(prompt="She", temperature=1.5, max_tokens=20, n=3, seed=-7)
    a, b = s.complete(**how)["choices"], s.complete(**how)["choices"]
    expect(a == b and len({c["text"] for c in a}) == 3, a, b)
    events = s.stream("/v1/completions", **how)
    expect([joined(events, i) for i in range(3)] == [c["text"] for c in a], events)
    whole = s.complete("She", logprobs=3)["choices"][0]
    l = whole["logprobs"]
    expect("".join(l["tokens"]) == whole["text"] and len(l["tokens"]) == len(l["token_logprobs"]) == 40, whole)
    for token, logprob, top, at in zip(l["tokens"], l["token_logprobs"], l["top_logprobs"], l["text_offset"]):
        expect(top[token] == logprob == max(top.values()) <= 0 and len(top) == 3, token, logprob, top)
        expect(whole["text"][at:].startswith(token), at, token)
    parts = [c["logprobs"] for e in s.stream("/v1/completions", prompt="She", temperature=0, max_tokens=40, logprobs=3)
             for c in e["choices"]]
    for key in l:
        expect(sum((p[key] for p in parts), []) == l[key], key, parts)


def chats(s):
    """Templates, parts of content, shared pages."""
    text = "What did she say to him, when they had walked as far as the garden gate?"
    ask = dict(temperature=0, max_tokens=30)
    whole = s.post("/v1/chat/completions", messages=[{"role": "user", "content": text}], **ask)
    m = whole["choices"][0]["message"]
    expect(m["role"] == "assistant" and m["content"] and whole["usage"]["prompt_tokens_details"]["cached_tokens"] == 0, whole)
    plain = s.complete("user: " + text + "\nassistant:", max_tokens=30)["choices"][0]["text"]
    expect(m["content"] == plain, whole, plain)
    parts = [{"type": "text", "text": text[:9]}, {"type": "text", "text": text[9:]}]
    again = s.post("/v1/chat/completions", messages=[{"role": "user", "content": parts}], logprobs=True, top_logprobs=2, **ask)
    expect(again["choices"][0]["message"] == m, again)
    expect(again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 16, again["usage"])
    marks = again["choices"][0]["logprobs"]["content"]
    expect(bytes(b for k in marks for b in k["bytes"]).decode() == m["content"], marks)
    expect(all(k["top_logprobs"][0]["token"] == k["token"] and len(k["top_logprobs"]) == 2 for k in marks), marks)
    events = s.stream("/v1/chat/completions", messages=[{"role": "user", "content": text}], **ask)
    expect(events[0]["choices"][0]["delta"]["role"] == "assistant" and events[0]["object"] == "chat.completion.chunk", events[0])
    expect("".join(e["choices"][0]["delta"].get("content", "") for e in events) == m["content"], events)
    history = [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, m, {"role": "developer", "content": "b"}]
    expect(s.post("/v1/chat/completions", messages=history, max_completion_tokens=3)["usage"]["completion_tokens"] == 3)


BAD = [  # path, body, status, what the message names
    ("/v1/completions", b"", 400, "body"),
    ("/v1/completions", b"{", 400, "body"),
    ("/v1/completions", b"[]", 400, "body"),
    ("/v1/completions", b'{"model":"m","prompt":"\xff"}', 400, "body"),
    ("/v1/completions", b'{"model":"m","prompt":"a\\u0000"}', 400, "body"),
    ("/v1/completions", b'{"model":"m","prompt":"\\ud800"}', 400, "body"),
    ("/v1/completions", b'{"model":"m","model":"m","prompt":"a"}', 400, "body"),
    ("/v1/completions", b'{"model":"m","prompt":"a","temperature":NaN}', 400, "body"),
    ("/v1/completions", b'{"model":"m","prompt":"a","temperature":1e999}', 400, "body"),
    ("/v1/completions", b'{"model":"m","prompt":"a","max_tokens":99999999999999999999}', 400, "body"),
    ("/v1/completions", b"[" * 3000, 400, "body"),
    ("/v1/completions", {}, 400, "model"),
    ("/v1/completions", {"model": 1}, 400, "model"),
    ("/v1/completions", {"model": "gpt-4"}, 404, "model"),
    ("/v1/completions", {"model": "m"}, 400, "prompt"),
    ("/v1/completions", {"prompt": 7}, 400, "prompt"),
    ("/v1/completions", {"prompt": []}, 400, "prompt"),
    ("/v1/completions", {"prompt": [[]]}, 400, "prompt"),
    ("/v1/completions", {"prompt": ["a", 1]}, 400, "prompt"),
    ("/v1/completions", {"prompt": [1, "a"]}, 400, "prompt"),
    ("/v1/completions", {"prompt": [2048]}, 400, "2047"),
    ("/v1/completions", {"prompt": [-1]}, 400, "-1"),
    ("/v1/completions", {"prompt": ""}, 400, "0 tokens"),
    ("/v1/completions", {"prompt": list(range(300))}, 400, "300 tokens, expected at most 255"),
    ("/v1/completions", {"prompt": ["a"] * 5, "n": 2}, 400, "prompt"),
    ("/v1/completions", {"prompt": "a", "max_tokens": -1}, 400, "max_tokens"),
    ("/v1/completions", {"prompt": "a", "max_tokens": 1.5}, 400, "max_tokens"),
    ("/v1/completions", {"prompt": "a", "max_tokens": "9"}, 400, "max_tokens"),
    ("/v1/completions", {"prompt": "a", "temperature": -0.1}, 400, "temperature"),
    ("/v1/completions", {"prompt": "a", "temperature": 2.1}, 400, "temperature"),
    ("/v1/completions", {"prompt": "a", "temperature": "1"}, 400, "temperature"),
    ("/v1/completions", {"prompt": "a", "top_p": 1.1}, 400, "top_p"),
    ("/v1/completions", {"prompt": "a", "top_k": -1}, 400, "top_k"),
    ("/v1/completions", {"prompt": "a", "seed": 0.5}, 400, "seed"),
    ("/v1/completions", {"prompt": "a", "n": 0}, 400, "n:"),
    ("/v1/completions", {"prompt": "a", "n": 9}, 400, "n:"),
    ("/v1/completions", {"prompt": "a", "stop": ""}, 400, "stop"),
    ("/v1/completions", {"prompt": "a", "stop": [1]}, 400, "stop"),
    ("/v1/completions", {"prompt": "a", "stop": ["a"] * 9}, 400, "stop"),
    ("/v1/completions", {"prompt": "a", "stream": 1}, 400, "stream"),
    ("/v1/completions", {"prompt": "a", "stream_options": {"include_usage": True}}, 400, "stream_options"),
    ("/v1/completions", {"prompt": "a", "stream": True, "stream_options": {"x": 1}}, 400, "stream_options"),
    ("/v1/completions", {"prompt": "a", "logprobs": 21}, 400, "logprobs"),
    ("/v1/completions", {"prompt": "a", "logprobs": True}, 400, "logprobs"),
    ("/v1/completions", {"prompt": "a", "logprobs": 0, "echo": True}, 400, "echo"),
    ("/v1/completions", {"prompt": "a", "best_of": 3}, 400, "best_of"),
    ("/v1/completions", {"prompt": "a", "suffix": "b"}, 400, "suffix"),
    ("/v1/completions", {"prompt": "a", "presence_penalty": 0.5}, 400, "presence_penalty"),
    ("/v1/completions", {"prompt": "a", "logit_bias": {"5": 1}}, 400, "logit_bias"),
    ("/v1/completions", {"prompt": "a", "messages": []}, 400, "messages"),
    ("/v1/completions", {"prompt": "a", "no\u00e9\n": 1}, 400, "unknown"),
    ("/v1/chat/completions", {}, 400, "messages"),
    ("/v1/chat/completions", {"messages": {}}, 400, "messages"),
    ("/v1/chat/completions", {"messages": []}, 400, "messages"),
    ("/v1/chat/completions", {"messages": ["a"]}, 400, "messages[0]"),
    ("/v1/chat/completions", {"messages": [{"role": "user"}]}, 400, "content"),
    ("/v1/chat/completions", {"messages": [{"role": "tool", "content": "a"}]}, 400, "role"),
    ("/v1/chat/completions", {"messages": [{"role": 1, "content": "a"}]}, 400, "role"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": 1}]}, 400, "content"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, 400, "content"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a", "name": "b"}]}, 400, "role and content only"),
    ("/v1/chat/completions", {"messages": [{"role": "assistant", "content": "a"}]}, 400, "no question"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 0}, 400, "max_tokens"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "max_completion_tokens": 2}, 400, "max_completion_tokens"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2}, 400, "top_logprobs"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "tools": [{}]}, 400, "tools"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "json_object"}}, 400, "response_format"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a " * 300}]}, 400, "expected at most 255"),
]


def bad(s):
    for path, body, status, word in BAD:
        if isinstance(body, dict):
            known = "model" in body or not body and path == "/v1/completions"
            body = json.dumps(body if known else {"model": "m", **body}).encode()
        r, text = s.ask("POST", path, body)
        error = json.loads(text)["error"]
        expect(r.status == status and word in error["message"] and error["message"].isascii(), body[:80], r.status, error)
        expect(set(error) == {"message", "type", "param", "code"} and error["type"] == "invalid_request_error", error)
    for method, path, status, headers, body in [
            ("GET", "/", 404, {}, None), ("GET", "/v2/models", 404, {}, None), ("GET", "/v1/models/x", 404, {}, None),
            ("GET", "/v1/completions", 405, {}, None), ("POST", "/v1/models", 405, JSON, b"{}"), ("PUT", "/health", 405, {}, b""),
            ("POST", "/v1/completions", 415, {}, b"{}"), ("POST", "/v1/completions", 413, JSON, b" " * 20000),
            ("GET", "/v1/models", 403, {"Host": "example.org"}, None)]:
        r, text = s.ask(method, path, body, headers)
        expect(r.status == status and "error" in json.loads(text), method, path, r.status, text)
        expect(status != 405 or r.getheader("Allow"), "no Allow")


def together(s):
    """Streams at once are those of one alone."""
    asks = [("It was", 0, 60), ("The carriage", 0, 60), ("It was", 0.9, 50), ("My dear", 1.2, 70)]
    alone = [joined(s.stream("/v1/completions", prompt=p, temperature=t, max_tokens=n, seed=3)) for p, t, n in asks]
    got = [None] * 8

    def run(i):
        p, t, n = asks[i % 4]
        got[i] = joined(s.stream("/v1/completions", prompt=p, temperature=t, max_tokens=n, seed=3))
    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    expect(got == alone + alone, "streams at once differ:", got, alone)


def full(s):
    """Requests that find no place get 429; the others are answered."""
    seen = []

    def run():
        for _ in range(3):
            r, _text = s.ask("POST", "/v1/completions", json.dumps({"model": "m", "prompt": "a", "n": 8, "max_tokens": 40}))
            seen.append((r.status, r.getheader("Retry-After")))
    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    expect(len(seen) == 12 and set(seen) == {(200, None), (429, "1")}, seen)


def wait_for(s, what):
    """The metrics once `what` is true of them."""
    for _ in range(1200):
        m = s.metrics()
        if what(m):
            return m
        time.sleep(0.01)
    raise SystemExit("serve: waited in vain: %s" % m)


def is_idle(m):
    return not m["running"] and not m["waiting"] and not m['cache_pages{state="live"}']


def disconnect(s):
    """Clients that disconnect are cancelled, streaming or waiting for a whole answer, and their pages come back."""
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    cancelled = 'choices_total{finish="cancelled"}'

    def send(stream):
        body = json.dumps({"model": "m", "prompt": "Emma", "max_tokens": 250, "n": 4, "temperature": 1.8, "stream": stream}).encode()
        k = socket.create_connection(("127.0.0.1", s.port))
        k.sendall(head % len(body) + body)
        return k
    for stream in (False, True) * 2:
        before = wait_for(s, is_idle)[cancelled]
        k = send(stream)
        wait_for(s, lambda m: m["running"])
        k.close()
        expect(wait_for(s, is_idle)[cancelled] > before, "not cancelled; a stream:", stream)
    for k in [send(i % 2 == 0) for i in range(10)]:
        time.sleep(0.01)
        k.close()
    wait_for(s, is_idle)


def slow(s):
    """A client that takes too long to send a request is closed; the server works on."""
    begun = time.time()
    k = socket.create_connection(("127.0.0.1", s.port))
    k.settimeout(30)
    k.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: lo")
    closed = 0
    while not closed and time.time() - begun < 20:
        time.sleep(0.3)
        try:
            k.sendall(b"c")
            k.setblocking(False)
            closed = k.recv(100) == b""
        except BlockingIOError:
            pass
        except OSError:
            closed = 1
        k.settimeout(30)
    expect(closed and time.time() - begun < 10, "a slow client is still connected")


def framing(s):
    """A request whose end is ambiguous is rejected and the connection closed: what follows is no second request."""
    second = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    length = b"Content-Length: %d\r\n"
    chunked = b"Transfer-Encoding: chunked\r\n"
    body = b'{"model": "m", "prompt": "Emma", "max_tokens": 1}'
    for more in (length % 5 + length % len(body), length % len(body) * 2, length % len(body) + chunked, chunked + length % 4,
                 chunked * 2, b"Transfer-Encoding: gzip\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Host: other\r\n" + length % len(body)):
        for rest in (body, b"0\r\n\r\n"):
            k = socket.create_connection(("127.0.0.1", s.port))
            k.settimeout(20)
            got = b""
            try:
                k.sendall(head + more + b"\r\n" + rest + second)
                while part := k.recv(65536):
                    got += part
            except ConnectionResetError:
                pass # it closed with the rest unread
            expect(got.count(b"HTTP/1.1") == 1 and got.startswith(b"HTTP/1.1 400"), "framing", more, "got", got[:300])
            expect(b"application/json" in got and b'"error"' in got, "not this server's own answer:", more, got[:300])


def crowded(s):
    """A client that opens connections and sends nothing keeps no other out, and it is its connections that are closed."""
    opened = []
    other = socket.create_connection(("127.0.0.1", s.port), source_address=("127.0.0.2", 0))
    for _ in range(600):
        k = socket.create_connection(("127.0.0.1", s.port))
        k.sendall(b"GET /health HTTP/1.1\r\nHost: local")
        opened.append(k)
    begun = time.time()
    r, text = s.ask("GET", "/health")
    expect(r.status == 200 and time.time() - begun < 5, "health is kept waiting", r.status, time.time() - begun)
    other.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    other.settimeout(20)
    expect(other.recv(100).startswith(b"HTTP/1.1 200"), "the connection of another client was closed")
    for k in opened + [other]:
        k.close()


def large(s):
    """Headers have a limit, and chunks may have extensions: both get this server's own answer."""
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = b'{"model": "m", "prompt": "Emma", "max_tokens": 1}'
    chunk = b"%x;%s\r\n%s\r\n0\r\n\r\n" % (len(body), b"a=" + b"b" * 100000, body)
    for more, rest, status in ((b"Transfer-Encoding: chunked\r\n", chunk, b"200"), (b"X: %s\r\n" % (b"x" * 40000), b"", b"431"),
                               (b"X: y\r\n" * 101, b"", b"431")):
        with socket.create_connection(("127.0.0.1", s.port)) as k:
            k.settimeout(60)
            k.sendall(head + more + b"Connection: close\r\n\r\n" + rest)
            got = b""
            while part := k.recv(65536):
                got += part
            expect(got.startswith(b"HTTP/1.1 " + status) and b"application/json" in got, "large", more[:40], got[:300])


def drained(s):
    """SIGTERM: what runs is finished, what comes is not taken."""
    c = s.connect()
    c.request("POST", "/v1/completions", json.dumps({"model": "m", "prompt": "Emma", "max_tokens": 200, "temperature": 0, "stream": True}), JSON)
    r = c.getresponse()
    first = r.read(10)
    s.stop(wait=False)
    rest = r.read()
    expect((first + rest).endswith(b"data: [DONE]\n\n"), rest[-200:])
    s.finish()
    for line in s.said().splitlines():
        expect({"time", "path", "status", "seconds"} <= set(json.loads(line)), line)


def main():
    template = os.path.join(TMP.name, "template.jinja")
    with open(template, "w") as f:
        f.write(TEMPLATE)
    s = Server(AUSTEN, "--template", template, "--slots", "6", "--queue", "2", "--body", "16", "--receive", "1")
    answers(s)
    draws(s)
    chats(s)
    bad(s)
    together(s)
    full(s)
    other = subprocess.run([BUILD + "/touchstone", "serve", AUSTEN, "--port", str(s.port)], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    expect(other.returncode == 3 and other.stderr.count("\n") == 1 and "--port" in other.stderr, other)
    framing(s)
    slow(s)
    drained(s)

    s = Server(AUSTEN, "--keep", "0", "--slots", "12", "--quiet", "--timeout", "30")
    disconnect(s)
    crowded(s)
    large(s)
    s.stop()
    expect(s.said() == "", s.said())

    key = os.path.join(TMP.name, "key")
    with open(key, "w") as f:
        f.write("secret\n")
    s = Server(BYTES, "--api-key-file", key, "--seed", "5")
    for auth, status in [(None, 401), ("Bearer secre", 401), ("Bearer secretsecret", 401), ("Basic secret", 401), ("Bearer secret", 200)]:
        r, _text = s.ask("GET", "/v1/models", headers={"Authorization": auth} if auth else {})
        expect(r.status == status, auth, r.status)
    expect(s.ask("GET", "/health", headers={})[0].status == 200)
    JSON["Authorization"] = "Bearer secret"
    r, text = s.ask("POST", "/v1/chat/completions", json.dumps({"model": "m", "messages": [{"role": "user", "content": "a"}]}))
    expect(r.status == 400 and b"template" in text, text)
    n_odd = 0
    for seed in range(12):
        how = dict(prompt="The", temperature=2, max_tokens=50, seed=seed)
        whole = s.post("/v1/completions", **how)["choices"][0]["text"]
        expect(joined(s.stream("/v1/completions", **how)) == whole, whole)
        n_odd += any(ord(c) > 127 and c != "\ufffd" for c in whole)
    expect(n_odd, "no text had a character of several bytes")
    s.stop()

    s = Server(AUSTEN, "--timeout", "0.1")
    del JSON["Authorization"]
    r, text = s.ask("POST", "/v1/completions", json.dumps({"model": "m", "prompt": "a", "n": 64, "max_tokens": 200}))
    expect(r.status == 504 and b"time" in text, r.status, text[:200])
    s.stop()
    print("serve: %d bad requests rejected, all else answered" % len(BAD))


if __name__ == "__main__":
    main()
