# SPDX-License-Identifier: Apache-2.0
"""beam_heap.py - beam_search with a heap of the best, or a stable sort of all candidates.

Ways: heap sort
Common ways: float32

float32: NumPy's log-softmax, sums and scores in float32, and a sort by score."""
import heapq

import numpy as np


def log_softmax(logits, dtype):
    x = logits.astype(dtype)
    if np.isnan(x).any() or (x == np.inf).any() or (x.max(axis=1) == -np.inf).any():
        raise ArithmeticError("a row without a distribution")
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def best_of(pool, k):
    """By score, then slot, logit and token."""
    if WAY != "heap":
        return sorted(pool, key=lambda c: c[:4])[:k]
    heap = []
    for number, c in enumerate(pool):
        item = (tuple(-x for x in c[:4]), -number, c)  # the worst on top
        if len(heap) < k:
            heapq.heappush(heap, item)
        elif item[:2] > heap[0][:2]:
            heapq.heapreplace(heap, item)
    return [c for _, _, c in sorted(heap, reverse=True, key=lambda item: item[:2])]


def extend(beams, rows, logits, k, alpha, eos):
    pool, row = [], 0
    for slot, (tokens, total, score, finished) in enumerate(beams):
        if finished:
            pool.append((-score, slot, 0, 0, tokens, total, True))
            continue
        sums = rows[row] + rows.dtype.type(total)
        scores = sums / rows.dtype.type((len(tokens) + 1) ** alpha)
        order = np.argsort(-logits[row], kind="stable")[:k]
        for t in order[logits[row][order] != -np.inf].tolist():
            pool.append((-float(scores[t]), slot, -float(logits[row][t]), t, tokens + [t],
                         float(sums[t]), t == eos))
        row += 1
    return [(c[4], c[5], -c[0], c[6]) for c in best_of(pool, k)]


def beam_search(model, prompts, beam_width, max_new_tokens, alpha, eos):
    dtype = np.float32 if WAY == "float32" else np.float64
    items = [[([], 0.0, 0.0, False)] for _ in prompts]
    for _ in range(max_new_tokens):
        going = [[b for b in beams if not b[3]] for beams in items]
        strings = [list(prompt) + b[0] for prompt, some in zip(prompts, going) for b in some]
        if not strings:
            break
        logits = model.next(strings)
        rows, at = log_softmax(logits, dtype), 0
        for i, some in enumerate(going):
            if some:
                part = slice(at, at + len(some))
                items[i] = extend(items[i], rows[part], logits[part], beam_width, alpha, eos)
            at += len(some)
    return items
