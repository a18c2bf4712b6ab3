# SPDX-License-Identifier: Apache-2.0
"""make_perplexity.py - writes test/checkpoint/perplexity.json: the loss of transformers on a fixed
list of tokens, in windows of 64.

    python test/make_perplexity.py        # needs torch and transformers

The windows are those of the guide to perplexity in transformers: from window to window `stride` tokens on; tokens that
an earlier window had get the label -100, and so the first token of a window has no loss. float64 throughout.
"""
import json
import os

import torch
import transformers

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "checkpoint")
CONTEXT, N_TOKEN = 64, 300


def loss_of(model, token, stride):
    total, n_scored, seen = 0.0, 0, 0
    for begin in range(0, len(token), stride):
        end = min(begin + CONTEXT, len(token))
        x = torch.tensor([token[begin:end]])
        labels = x.clone()
        labels[:, :seen - begin if seen > begin else 0] = -100
        n = int((labels[:, 1:] != -100).sum())
        with torch.no_grad():
            if n:
                total += float(model(x, labels=labels).loss) * n
        n_scored += n
        seen = end
        if end == len(token):
            break
    return {"stride": stride, "n_scored": n_scored, "loss": total / n_scored}


def main():
    out = {"made_by": "transformers %s, torch %s" % (transformers.__version__, torch.__version__), "context": CONTEXT,
           "models": {}}
    for name in ("qwen3", "llama", "qwen2", "mistral", "starcoder2"):
        model = transformers.AutoModelForCausalLM.from_pretrained(os.path.join(HERE, name), dtype=torch.float64).eval()
        n = model.config.vocab_size
        token = [(7 * i * i + 3 * i + 5) % n for i in range(N_TOKEN)]
        out["models"][name] = {"tokens": token, "runs": [loss_of(model, token, s) for s in (64, 63, 24, 1)]}
    with open(os.path.join(HERE, "perplexity.json"), "w") as f:
        json.dump(out, f)
        f.write("\n")


main()
