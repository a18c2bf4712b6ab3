# SPDX-License-Identifier: Apache-2.0
"""softmax_topk.py - softmax_topk by PyTorch's softmax and topk, with a second selection for rows in
which equal logits meet at the k-th place."""
import torch


def keys(x):
    """Integers in canonical order: the logit's bits made to compare as integers, then the index."""
    bits = (x + 0.0).view(torch.int32).to(torch.int64)
    ordered = torch.where(bits < 0, ~bits & 0xffffffff, bits | 0x80000000)
    return (ordered << 31) - torch.arange(x.shape[1], device=x.device)


def first(x, n):
    value, index = torch.topk(x, n)
    tied = (value[:, 1:] == value[:, :-1]).any() | ((x >= value[:, -1:]).sum(dim=1) > n).any()
    return torch.topk(keys(x), n).indices if tied else index


def softmax_topk(logits, k, inv_temperature, out):
    index, prob, lse = (out.get(name) for name in ("index", "prob", "lse"))
    x = logits.float()
    rows, vocab = x.shape
    if rows == 0:
        return
    n = min(k, vocab)
    if vocab == 0:
        if lse is not None:
            lse.fill_(-torch.inf)
        if k:
            index.fill_(-1), prob.zero_()
        return
    largest = x.amax(dim=1, keepdim=True)
    nonfinite = ~(largest < torch.inf)
    masked = largest == -torch.inf
    base = torch.where(nonfinite | masked, 0, largest)
    z = (x - base) * inv_temperature
    total = z.exp().sum(dim=1, keepdim=True)
    if lse is not None:
        whole = base * inv_temperature + total.log()
        lse.copy_(torch.where(nonfinite, torch.nan, whole).view(-1))
    if not k:
        return
    index.fill_(-1), prob.zero_()
    best = first(torch.where(nonfinite, 0, x), n)
    p = torch.where(masked, 0, z.gather(1, best).exp() / total)
    index[:, :n] = torch.where(nonfinite, -1, best).to(torch.int32)
    prob[:, :n] = p
    prob.masked_fill_(nonfinite, torch.nan)
