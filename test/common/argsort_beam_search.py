# SPDX-License-Identifier: Apache-2.0
"""argsort_beam_search.py - beam search as most often published: per prompt and step one call of the
model, the scores of all beams and tokens in one row, and the last of an argsort.

Equal scores have no defined order, and rows of invalid logits are not handled."""
import numpy as np


def beam_search(model, prompts, beam_width, max_new_tokens, alpha, eos):
    return [search(model, prompt, beam_width, max_new_tokens, alpha, eos) for prompt in prompts]


def search(model, prompt, beam_width, max_new_tokens, alpha, eos):
    beams = [([], 0.0, 0.0, False)]
    for step in range(max_new_tokens):
        going = [b for b in beams if not b[3]]
        if not going:
            break
        x = model.next([prompt + b[0] for b in going]).astype(np.float64)
        x -= x.max(axis=1, keepdims=True)
        x -= np.log(np.exp(x).sum(axis=1, keepdims=True))
        total = (x + np.array([b[1] for b in going])[:, None]).ravel()
        pool = [b for b in beams if b[3]]
        for i in np.argsort(total)[::-1][:beam_width]:
            beam, token = divmod(int(i), x.shape[1])
            if total[i] > -np.inf:
                pool.append((going[beam][0] + [token], total[i], total[i] / (step + 1) ** alpha, token == eos))
        pool.sort(key=lambda b: -b[2])
        beams = pool[:beam_width]
    return beams
