#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llama_train.py - trains a Hugging Face Llama of 1B sizes (random weights, bfloat16) on a GPU, as
it is and with touchstone.torch.patch(): tokens per second, memory, and the loss at every step.

    llama_train.py [--steps 100] [--batch 4] [--length 2048] [--out losses.json] [--tiny]

Tokens are the bytes of this repository's sources and documents. Both runs begin with the same weights and see
the same batches. --tiny is a small model on the CPU, to try the script."""
import argparse
import json
import time
from pathlib import Path

import torch
import transformers

import touchstone.torch as tt

p = argparse.ArgumentParser()
p.add_argument("--steps", type=int, default=100)
p.add_argument("--batch", type=int, default=4)
p.add_argument("--length", type=int, default=2048)
p.add_argument("--out", default="")
p.add_argument("--tiny", action="store_true")
given = p.parse_args()

device, dtype = ("cpu", torch.float32) if given.tiny else ("cuda", torch.bfloat16)
ROOT = Path(__file__).resolve().parent.parent
text = b"".join(f.read_bytes() for f in sorted([*ROOT.glob("doc/*.md"), *ROOT.glob("kernel/*/*.c"), *ROOT.glob("*/*.h")]))
data = torch.frombuffer(bytearray(text), dtype=torch.uint8).to(device)
sizes = dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
             num_key_value_heads=8, head_dim=64, max_position_embeddings=4096, tie_word_embeddings=True)
if given.tiny:
    sizes.update(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, head_dim=16)


def train(patched):
    torch.manual_seed(0)
    with torch.device(device):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(use_cache=False, **sizes)).to(dtype)
    if patched:
        done = tt.patch(model)
        print("patched: %d norms, %s" % (len(done) - 2, ", ".join(done[-2:])))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), fused=not given.tiny)
    draw, losses, begin = torch.Generator().manual_seed(1), [], 0
    for step in range(given.steps):
        if step == 10:  # what is made or compiled at first use is left out of the time
            torch.cuda.synchronize() if device == "cuda" else None
            begin = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = 3e-4 * min(1, (step + 1) / 20)
        start = torch.randint(0, len(data) - given.length, (given.batch,), generator=draw).tolist()
        tokens = torch.stack([data[s:s + given.length] for s in start]).long()
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    losses = torch.stack(losses).tolist()  # waits for the device
    rate = (given.steps - 10) * given.batch * given.length / (time.perf_counter() - begin)
    peak = torch.cuda.max_memory_allocated() / 2 ** 30 if device == "cuda" else 0
    print("%s: %d parameters, %.0f tokens/s, %.1f GiB at most, loss %.3f to %.3f" % (
        "touchstone" if patched else "transformers", sum(w.numel() for w in model.parameters()), rate, peak, losses[0],
        losses[-1]), flush=True)
    return {"tokens_per_second": rate, "peak_gib": peak, "losses": losses}


results = {}
for name, patched in (("transformers", False), ("touchstone", True)):
    results[name] = train(patched)
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
a, b = (results[n]["losses"] for n in ("transformers", "touchstone"))
marks = [i for i in (1, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100) if i <= given.steps]
print("| step | " + " | ".join(map(str, marks)) + " |\n|" + "-|" * (len(marks) + 1))
for name, losses in (("transformers", a), ("patched", b)):
    print("| %s | %s |" % (name, " | ".join("%.3f" % losses[i - 1] for i in marks)))
print("largest difference of the losses: %.4f" % max(abs(x - y) for x, y in zip(a, b)))
if given.out:
    Path(given.out).write_text(json.dumps(results))
