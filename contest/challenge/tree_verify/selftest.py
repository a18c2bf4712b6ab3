# SPDX-License-Identifier: Apache-2.0
"""selftest.py - public cases for tree_verify against plain decoding, under a model that hashes what
a row sees: tokens, and their positions."""
from selftest_common import case, np, random, verdict
from tree_verify import tree_verify


class Toy:
    def __init__(self, n_vocab):
        self.n_vocab, self.passed = n_vocab, []

    def row(self, seen):
        seed = sum(hash((int(p) + 1, int(t))) for p, t in seen) % 2 ** 61
        return (6 * np.random.default_rng(seed).random(self.n_vocab)).astype(np.float32)

    def forward(self, token, position, visible, want):
        token, position, visible = np.asarray(token), np.asarray(position), np.asarray(visible) != 0
        self.passed.append((token, position, visible, np.asarray(want)))
        return np.stack([self.row(zip(position[visible[r]], token[visible[r]])) for r in want])

    def next(self, strings):
        raise ArithmeticError("next was called")


def choose(row, temperature, u):
    x = row.astype(float)
    if temperature == 0:
        return int(x.argmax())
    sums = np.cumsum(np.exp(x / temperature))
    return int(np.argmax(sums > u * sums[-1]))


def decode(model, prompt, emitted, temperature, u):
    return choose(model.row(enumerate(list(prompt) + emitted)), temperature, u[len(emitted)])


def definition(model, prompt, token, parent, max_new, temperature, u):
    out, path, status, node = [], [], [0] * len(token), -1
    while len(out) < max_new:
        out.append(decode(model, prompt, out, temperature, u))
        children = [i for i in range(len(token)) if parent[i] == node]
        for i in children:
            status[i] = 2
        right = [i for i in children if token[i] == out[-1]]
        if not right:
            break
        node = right[0]
        status[node] = 1
        path.append(node)
    return out, path, status


def grow(model, prompt, n, shape, temperature, u):
    """A tree around the tokens that will be emitted, with wrong nodes around those."""
    right, token, parent, last, depth = [], [], [], -1, 0
    for _ in range(n + 1):
        right.append(decode(model, prompt, right, temperature, u))
    for i in range(n):
        goes_right = (i < n - 1, i % 2, random.integers(3) > 0)[shape]
        parent.append(last if goes_right or shape == 0 else int(random.integers(-1, i)))
        token.append(right[depth if goes_right else (depth + 1) % (n + 1)])
        if goes_right:
            last, depth = i, depth + 1
    return np.array(token, np.int32), np.array(parent, np.int32)


def check_pass(model, prompt, token, parent, max_new):
    if len(model.passed) != (max_new > 0):
        raise ArithmeticError("%d passes" % len(model.passed))
    for tokens, position, visible, want in model.passed:
        n = len(prompt)
        ways = [list(range(r + 1)) for r in range(n)]
        for i in range(len(token)):
            ways.append((ways[n + parent[i]] if parent[i] >= 0 else ways[n - 1]) + [n + i])
        for r, way in enumerate(ways):
            if visible[r].nonzero()[0].tolist() != way or position[r] != len(way) - 1:
                raise ArithmeticError("mask or position of row %d" % r)
        if tokens.tolist() != list(prompt) + list(token):
            raise ArithmeticError("tokens of the pass")
        if sorted(want.tolist()) != list(range(n - 1, n + len(token))):
            raise ArithmeticError("wanted rows")


def try_it(n_prompt, n_node, n_vocab, max_new, temperature, shape):
    model, u = Toy(n_vocab), random.random(64)
    prompt = random.integers(0, n_vocab, n_prompt).astype(np.int32)
    token, parent = grow(model, prompt, n_node, shape, temperature, u)

    def play(out):
        got = tree_verify(model, prompt, token, parent, max_new, temperature, u)
        want = definition(model, prompt, token, parent, max_new, temperature, u)
        for what, g, w in zip(("out", "path", "status"), got, want):
            if list(map(int, g)) != w:
                raise ArithmeticError("%s: %s, expected %s" % (what, list(g), w))
        check_pass(model, prompt, token, parent, max_new)

    case("prompt=%d nodes=%d vocab=%d max_new=%d temperature=%g shape=%d"
         % (n_prompt, n_node, n_vocab, max_new, temperature, shape), play, {}, {}, {})


for shape in range(3):
    for temperature in 0, 1:
        try_it(1, 1, 11, 4, temperature, shape)
        try_it(3, 3, 97, 4, temperature, shape)
        try_it(5, 7, 97, 8, temperature, shape)
        try_it(17, 20, 31, 21, temperature, shape)
        try_it(5, 12, 97, 2, temperature, shape)
try_it(4, 0, 11, 3, 0, 0)
try_it(4, 6, 11, 0, 0, 0)
verdict()
