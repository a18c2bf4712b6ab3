# SPDX-License-Identifier: Apache-2.0
"""serve_soak.py - `touchstone serve` under load for SECONDS; memory and descriptors must not grow.

    python test/serve_soak.py BUILD [SECONDS]

64 clients at once, by asyncio, each again and again one of these: a stream read to its end, an answer in one piece, a
stream that is left, a request that is left half sent, a client that reads slowly, a request that is refused, a
conversation that goes on. Every RESTART seconds the server is sent SIGTERM amid all this and must end with status 0;
another follows. Resident memory and descriptors are taken every second: in the last third of each server's life
neither median may be above that of the second third, by 2 % and 2 MiB, or by 4 descriptors, and at the end, when all
clients have gone, nothing runs or waits. The seed is printed."""
import asyncio
import json
import os
import random
import re
import statistics
import sys
import time

from serve import AUSTEN, Server, expect

SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 1800
N_CLIENTS, RESTART = 64, max(60.0, SECONDS / 6)
SEED = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 32)))
DRAW = random.Random(SEED)
PROMPTS = ["It is a truth", "She was", "Mr. Darcy", "The carriage", "In the evening they"]


def request(path, body):
    text = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n"
            "Connection: close\r\n\r\n").encode() + text


def completion(**more):
    prompt = " ".join(DRAW.choice(PROMPTS) for _ in range(DRAW.randint(1, 6)))
    return request("/v1/completions", {"model": "m", "prompt": prompt, "max_tokens": DRAW.randint(1, 200), **more})


async def answer(reader):
    data = await asyncio.wait_for(reader.read(), 300)
    return int(data.split(b" ", 2)[1]) if data else 0, data


def right(truth, data):
    """Why the answer is wrong; "": it is not."""
    return "" if truth else repr(data[:400])


async def streamed(reader, writer):
    writer.write(completion(stream=True))
    status, data = await answer(reader)
    return right(status == 200 and b"data: [DONE]" in data, data)


async def whole(reader, writer):
    writer.write(completion(n=DRAW.randint(1, 3)))
    status, data = await answer(reader)
    return right(status == 200, data)


async def left(reader, writer):
    writer.write(completion(stream=True))
    await asyncio.wait_for(reader.read(DRAW.randint(1, 3000)), 300)
    return ""


async def half_sent(_reader, writer):
    text = completion()
    writer.write(text[:DRAW.randrange(1, len(text))])
    await writer.drain()
    await asyncio.sleep(DRAW.random() * 2)
    return ""


async def slow(reader, writer):
    writer.write(completion(stream=True))
    n = 0
    while True:
        data = await asyncio.wait_for(reader.read(64), 300)
        if not data or n > 40:
            return ""
        n += 1
        await asyncio.sleep(0.05)


async def refused(reader, writer):
    writer.write(request("/v1/completions", {"model": "m", "prompt": "a", "max_tokens": -1}))
    status, data = await answer(reader)
    return right(status == 400, data)


async def goes_on(reader, writer):
    """The same prompt each time: its pages are kept."""
    writer.write(request("/v1/completions", {"model": "m", "prompt": "It is a truth universally acknowledged", "temperature": 0,
                                             "max_tokens": 30}))
    status, data = await answer(reader)
    return right(status == 200 and b'"text"' in data, data)


KINDS = [streamed, streamed, streamed, whole, left, half_sent, slow, refused, goes_on]


class Life:
    """One server, from its start to SIGTERM."""

    def __init__(self):
        self.server = Server(AUSTEN, "--quiet", "--receive", "2")
        self.ending, self.seen, self.done, self.cut = False, [], {}, 0

    async def client(self):
        while not self.ending:
            kind = DRAW.choice(KINDS)
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
                wrong = await kind(reader, writer)
                writer.close()
            except (OSError, asyncio.TimeoutError) as e:
                wrong = repr(e)
            if wrong and self.ending:
                self.cut += 1  # by the end of the server
                return
            if wrong:
                print(f"serve_soak: {kind.__name__} was answered {wrong}", flush=True)
                os._exit(1)  # without the complaints of all the other clients
            self.done[kind.__name__] = self.done.get(kind.__name__, 0) + 1

    def look(self):
        place = f"/proc/{self.server.process.pid}"
        with open(place + "/status") as f:
            kib = int(re.search(r"VmRSS:\s*(\d+)", f.read())[1])
        self.seen.append((kib / 1024, len(os.listdir(place + "/fd"))))

    async def live(self, seconds, last):
        clients = [asyncio.create_task(self.client()) for _ in range(N_CLIENTS)]
        begin = time.time()
        while time.time() - begin < seconds:
            await asyncio.sleep(1)
            self.look()
        self.ending = True
        if last:  # when all have gone
            await asyncio.gather(*clients)
            await asyncio.sleep(3)
            metrics = await asyncio.to_thread(self.server.metrics)
            expect(metrics["running"] == 0 and metrics["waiting"] == 0, metrics)
            self.server.stop()
            return
        self.server.stop(wait=False)
        await asyncio.gather(*clients)
        self.server.finish()

    def flat(self):
        third = len(self.seen) // 3
        before, after = ([statistics.median(s[k] for s in part) for k in (0, 1)]
                         for part in (self.seen[third:2 * third], self.seen[2 * third:]))
        print("  %4d s: %5d requests, %3d cut by the end; %.1f then %.1f MiB, %d then %d descriptors; %s" %
              (len(self.seen), sum(self.done.values()), self.cut, before[0], after[0], before[1], after[1],
               ", ".join(f"{n} {k}" for k, n in sorted(self.done.items()))), flush=True)
        expect(after[0] <= 1.02 * before[0] + 2, "soak: memory grew")
        expect(after[1] <= before[1] + 4, "soak: descriptors grew")


def main():
    print(f"serve_soak: seed {SEED}, {SECONDS:.0f} s, {N_CLIENTS} clients, a server of {RESTART:.0f} s at a time", flush=True)
    end = time.time() + SECONDS
    while time.time() < end - 1:
        last = end - time.time() <= 1.5 * RESTART
        life = Life()
        asyncio.run(life.live(end - time.time() if last else RESTART, last))
        life.flat()
    print("serve_soak: flat")


main()
