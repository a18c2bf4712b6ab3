# SPDX-License-Identifier: Apache-2.0
"""selftest.py - public cases for beam_search against the definition: one pool of everything,
sorted, under a model that hashes its whole string."""
import math

from selftest_common import case, np, verdict
from beam_search import beam_search


class Toy:
    def __init__(self, n_vocab):
        self.n_vocab, self.n_calls, self.n_rows = n_vocab, 0, 0

    def row(self, string):
        seed = 1
        for token in string:
            seed = (seed * 6364136223846793005 + 2 * int(token) + 3) % 2 ** 61
        return (8 * np.random.default_rng(seed).random(self.n_vocab)).astype(np.float32)

    def next(self, strings):
        self.n_calls, self.n_rows = self.n_calls + 1, self.n_rows + len(strings)
        return np.stack([self.row(s) for s in strings])


def definition(model, prompt, width, steps, alpha, eos):
    """The beams, and the rows of each step."""
    beams, rows = [([], 0.0, 0.0, False)], []
    for _ in range(steps):
        pool, going = [], 0
        for slot, (tokens, logprob, score, finished) in enumerate(beams):
            if finished:
                pool.append((-score, slot, -1, (tokens, logprob, score, True)))
                continue
            going += 1
            x = model.row(prompt + tokens).astype(float)
            x -= math.log(np.exp(x).sum())
            for t in range(model.n_vocab):
                total = logprob + x[t]
                new = total / (len(tokens) + 1) ** alpha
                pool.append((-new, slot, t, (tokens + [t], total, new, t == eos)))
        if not going:
            break
        rows.append(going)
        beams = [member[3] for member in sorted(pool, key=lambda m: m[:3])[:width]]
    return beams, rows


def try_it(n_items, n_vocab, width, steps, alpha, eos):
    model = Toy(n_vocab)
    prompts = [[(7 * i + j) % n_vocab for j in range(n)] for i, n in enumerate((1, 5, 20)[:n_items])]

    def play(out):
        found = beam_search(model, prompts, width, steps, alpha, eos)
        calls, n_rows = model.n_calls, model.n_rows
        wanted = [definition(model, p, width, steps, alpha, eos) for p in prompts]
        for got, (want, _) in zip(found, wanted):
            if [list(b[0]) for b in got] != [b[0] for b in want]:
                raise ArithmeticError("tokens: %s, expected %s" % ([b[0] for b in got],
                                                                   [b[0] for b in want]))
            if [bool(b[3]) for b in got] != [b[3] for b in want]:
                raise ArithmeticError("finished")
            if not np.allclose([b[1:3] for b in got], [b[1:3] for b in want], 0, 1e-12 * (steps + 1)):
                raise ArithmeticError("logprob or score")
        if calls != max([len(rows) for _, rows in wanted] + [0]):
            raise ArithmeticError("%d calls of next" % calls)
        if n_rows != sum(sum(rows) for _, rows in wanted):
            raise ArithmeticError("%d strings in all" % n_rows)

    case("items=%d vocab=%d width=%d steps=%d alpha=%g eos=%d"
         % (n_items, n_vocab, width, steps, alpha, eos), play, {}, {}, {})


for alpha in 0, 0.6, 1, 2:
    try_it(1, 5, 1, 8, alpha, 4)
    try_it(1, 3, 4, 6, alpha, 2)
    try_it(3, 97, 4, 12, alpha, 1)
    try_it(3, 97, 8, 6, alpha, -1)
    try_it(2, 11, 3, 12, alpha, 7)
    try_it(2, 7, 8, 1, alpha, 0)
try_it(2, 5, 3, 0, 1, 2)
verdict()
