# SPDX-License-Identifier: Apache-2.0
"""beam_search.py - beam search as in a textbook: every extension of every beam is sorted."""
import numpy as np


def log_softmax(logits):
    """In double. A row that is none is an error of the model."""
    x = logits.astype(np.float64)
    if np.isnan(x).any() or (x == np.inf).any() or (x.max(axis=1) == -np.inf).any():
        raise ArithmeticError("a row without a distribution")
    x -= x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def best_tokens(row, k):
    """The k largest logits that are not -inf, equal ones by token."""
    tokens = np.argsort(-row, kind="stable")
    return tokens[row[tokens] != -np.inf][:k]


def extend(beams, rows, logits, k, alpha, eos):
    """The k best of an item's finished beams and of all extensions of the others."""
    pool, row = [], 0
    for slot, beam in enumerate(beams):
        tokens, logprob, score, finished = beam
        if finished:
            pool.append((-score, slot, 0, beam))
            continue
        for order, t in enumerate(best_tokens(logits[row], k).tolist()):
            total = logprob + float(rows[row][t])
            new = total / (len(tokens) + 1) ** alpha
            pool.append((-new, slot, order, (tokens + [t], total, new, t == eos)))
        row += 1
    pool.sort(key=lambda member: member[:3])
    return [member[3] for member in pool[:k]]


def beam_search(model, prompts, beam_width, max_new_tokens, alpha, eos):
    items = [[([], 0.0, 0.0, False)] for _ in prompts]
    for _ in range(max_new_tokens):
        going = [[b for b in beams if not b[3]] for beams in items]
        strings = [prompt + b[0] for prompt, some in zip(prompts, going) for b in some]
        if not strings:
            break
        logits = model.next(strings)
        rows, at = log_softmax(logits), 0
        for i, some in enumerate(going):
            end = at + len(some)
            if some:
                items[i] = extend(items[i], rows[at:end], logits[at:end], beam_width, alpha, eos)
            at = end
    return items
