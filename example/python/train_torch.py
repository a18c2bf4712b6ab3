# SPDX-License-Identifier: Apache-2.0
"""train_torch.py - a small transformer in PyTorch that learns a text, with Touchstone's operators."""
import torch
from torch import nn

import touchstone.torch as tt

torch.manual_seed(0)
TEXT = "the stone that one rubs the gold on shows whether it is gold. " * 8
device = "cuda" if torch.cuda.is_available() else "cpu"


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after = tt.RMSNorm(width), tt.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, h):
        b, n, d = h.shape
        q, k, v = self.qkv(self.before(h)).view(b, n, 3, self.heads, -1).unbind(2)
        a = tt.flash_attention(q, k, v, causal=True, layout="bnhd").reshape(b, n, d)
        x, h = self.after(self.out(a), h)  # adds the residual on the way
        return h + self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    def __init__(self, vocab, width=64, heads=4, layers=2, n_max=128):
        super().__init__()
        self.embed, self.place = nn.Embedding(vocab, width), nn.Embedding(n_max, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.loss = tt.RMSNorm(width), tt.LinearCrossEntropy(width, vocab)

    def forward(self, tokens, target):
        h = self.embed(tokens) + self.place.weight[:tokens.shape[1]]
        for layer in self.layers:
            h = layer(h)
        return self.loss(self.norm(h), target)


letters = sorted(set(TEXT))
data = torch.tensor([letters.index(c) for c in TEXT], device=device)
model = Model(len(letters)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(61):
    begin = torch.randint(0, len(data) - 65, (8,))
    batch = torch.stack([data[b:b + 65] for b in begin])
    loss = model(batch[:, :-1], batch[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print("step %d: loss %.3f" % (step, loss.item()))
assert loss.item() < 1.0, "the loss did not fall"
