# SPDX-License-Identifier: Apache-2.0
"""train_peer.py [N_BATCH N_TOKEN [way...]] - train_bench.c's steps in PyTorch.

Weights float, products bf16 by autocast, attention by scaled_dot_product_attention, AdamW fused.
Ways: eager, compile, graphs (compile with CUDA graphs); a word more, ternary, for the projection.
"""
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, WIDTH, HEADS, KV_HEADS, DIM, FFN, VOCAB = 28, 1024, 16, 8, 128, 3072, 151936
WARM, STEPS, RATE = 4, 20, 989e12


def project(w):
    """-s, 0 or +s in groups of 128, straight through."""
    g = w.detach().view(-1, 128)
    s = g.abs().mean(1, keepdim=True, dtype=torch.float64).half().float()
    return w + ((torch.sign(g) * s * (2 * g.abs() > s)).view_as(w) - w).detach()


class Linear(nn.Module):
    def __init__(self, n_out, n_in, ternary):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_out, n_in) * 0.5 / n_in**0.5)
        self.ternary = ternary

    def forward(self, x):
        return F.linear(x, project(self.weight) if self.ternary else self.weight)


def turn(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Layer(nn.Module):
    def __init__(self, ternary):
        super().__init__()
        self.qkv = Linear((HEADS + 2 * KV_HEADS) * DIM, WIDTH, ternary)
        self.o = Linear(WIDTH, HEADS * DIM, ternary)
        self.gate_up = Linear(2 * FFN, WIDTH, ternary)
        self.down = Linear(WIDTH, FFN, ternary)
        self.norm_1, self.norm_2 = (nn.Parameter(torch.ones(WIDTH)) for _ in range(2))
        self.norm_q, self.norm_k = (nn.Parameter(torch.ones(DIM)) for _ in range(2))

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        qkv = self.qkv(F.rms_norm(x, (WIDTH,), self.norm_1, 1e-6)).view(b, t, -1, DIM)
        q, k, v = qkv.split((HEADS, KV_HEADS, KV_HEADS), 2)
        q = turn(F.rms_norm(q, (DIM,), self.norm_q.to(q.dtype), 1e-6), cos, sin)
        k = turn(F.rms_norm(k, (DIM,), self.norm_k.to(k.dtype), 1e-6), cos, sin)
        q, k, v = (z.transpose(1, 2) for z in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, -1))
        gate, up = self.gate_up(F.rms_norm(x, (WIDTH,), self.norm_2, 1e-6)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Net(nn.Module):
    def __init__(self, n_token, ternary):
        super().__init__()
        self.embed = nn.Parameter(torch.randn(VOCAB, WIDTH) * 0.5 / WIDTH**0.5)
        self.layers = nn.ModuleList(Layer(ternary) for _ in range(LAYERS))
        self.norm = nn.Parameter(torch.ones(WIDTH))
        self.ternary = ternary
        f = 1e6 ** (-torch.arange(0, DIM, 2, dtype=torch.float64) / DIM)
        a = (torch.arange(n_token, dtype=torch.float64)[:, None] * f)[:, None, :]
        self.register_buffer("cos", a.cos().bfloat16())
        self.register_buffer("sin", a.sin().bfloat16())

    def forward(self, row, target):
        e = project(self.embed) if self.ternary else self.embed
        x = F.embedding(row, e)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = F.linear(F.rms_norm(x, (WIDTH,), self.norm, 1e-6), e)
        return F.cross_entropy(logits.view(-1, VOCAB), target.view(-1))


def measure(way, ternary, n_batch, n_token):
    torch.manual_seed(1)
    torch._dynamo.reset()
    net = Net(n_token, ternary).cuda()
    row = torch.randint(VOCAB, (n_batch, n_token), device="cuda")
    target = torch.randint(VOCAB, (n_batch, n_token), device="cuda")
    matrices = [p for p in net.parameters() if p.dim() > 1]
    norms = [p for p in net.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
    mode = {"compile": "default", "graphs": "reduce-overhead"}.get(way)
    call = torch.compile(net, mode=mode) if mode else net

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = call(row, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        return loss

    for _ in range(WARM):
        loss = step()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(STEPS):
        loss = step()
        loss.item()
    torch.cuda.synchronize()
    took = (time.perf_counter() - begun) / STEPS
    rows = n_batch * n_token
    flops = 6 * sum(p.numel() for p in matrices) * rows
    flops += 14 / 2 * rows * n_token * HEADS * DIM * LAYERS
    print(f"torch {torch.__version__} {way:8} {'ternary' if ternary else 'float':7} "
          f"{n_batch} x {n_token}  {1e3 * took:8.3f} ms a step  {rows / took:9.0f} tokens/s  "
          f"{1e-12 * flops / took:6.1f} TFLOP/s, {100 * flops / took / RATE:4.1f} %", flush=True)


def main():
    n_batch, n_token = (int(a) for a in (sys.argv[1:3] or (4, 512)))
    words = sys.argv[3:] or ["eager", "compile", "graphs"]
    for way in (w for w in words if w != "ternary"):
        measure(way, "ternary" in words, n_batch, n_token)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
