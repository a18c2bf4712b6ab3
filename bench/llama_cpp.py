# SPDX-License-Identifier: Apache-2.0
"""llama_cpp.py - times `generate` next to llama.cpp (the package xllamacpp) on one GGUF file, in
turn: tokens per second and CPU time per token of a prompt and of decoding, the best of all rounds.

CPU time counts where other programs use the cores.

    python bench/llama_cpp.py BUILD MODEL.gguf [--threads 2] [--rounds 5] [--prompt 512] [--tokens 64]
"""
import argparse
import json
import os
import subprocess
import sys
import time
import urllib.request

PORT = 18517
SERVER = """if True:
    import time, xllamacpp
    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.cpuparams.n_threads = %r, 2048, 1, %d
    p.cpuparams_batch.n_threads = %d
    p.hostnames, p.port = ["127.0.0.1"], %d
    s = xllamacpp.Server(p)
    time.sleep(3600)
"""


def ask(path, body):
    request = urllib.request.Request("http://127.0.0.1:%d%s" % (PORT, path), json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    return json.loads(urllib.request.urlopen(request, timeout=600).read())


def start(model, threads):
    server = subprocess.Popen([sys.executable, "-c", SERVER % (model, threads, threads, PORT)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(240):
        try:
            ask("/tokenize", {"content": "a"})
            return server
        except OSError:
            time.sleep(0.5)
    server.kill()
    sys.exit("llama_cpp.py: the server of xllamacpp did not start")


def cpu_of(pid):
    fields = open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def theirs(server, n_prompt, n_new):
    before = cpu_of(server.pid)
    t = ask("/completion", {"prompt": [260] * n_prompt, "n_predict": n_new, "temperature": 0, "ignore_eos": True,
                            "cache_prompt": False})["timings"]
    return cpu_of(server.pid) - before, t["prompt_per_second"], t["predicted_per_second"]


def ours(o, n_prompt, n_new):
    before = os.times()
    run = [o.build + "/touchstone", "generate", o.model, "--prompt", "the " * n_prompt, "--tokens", str(n_new),
           "--temperature", "0", "--threads", str(o.threads), "--chunk", "512", "--json", "-"]
    d = json.loads(subprocess.run(run, check=True, stdout=subprocess.PIPE).stdout)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu, d["prefill_tokens_per_s"], d["decode_tokens_per_s"]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("build")
    a.add_argument("model")
    for name, n in ("threads", 2), ("rounds", 5), ("prompt", 512), ("tokens", 64):
        a.add_argument("--" + name, type=int, default=n)
    o = a.parse_args()
    server = start(o.model, o.threads)
    best = {}
    try:
        for _ in range(o.rounds):
            for who, run in ("llama.cpp", lambda *n: theirs(server, *n)), ("touchstone", lambda *n: ours(o, *n)):
                short, long, more = run(8, 2), run(o.prompt, 2), run(8, 2 + o.tokens)
                figures = {"prompt tokens/s": -long[1], "decode tokens/s": -more[2],
                           "prompt CPU ms": (long[0] - short[0]) / (o.prompt - 8) * 1e3,
                           "decode CPU ms": (more[0] - short[0]) / o.tokens * 1e3}
                for name, value in figures.items():
                    best[who, name] = min(value, best.get((who, name), value))
    finally:
        server.kill()
    for name in "prompt tokens/s", "decode tokens/s", "prompt CPU ms", "decode CPU ms":
        x, y = abs(best["llama.cpp", name]), abs(best["touchstone", name])
        print("%-16s llama.cpp %8.2f  touchstone %8.2f  ratio %.2f" % (name, x, y, y / x if "/s" in name else x / y))


main()
