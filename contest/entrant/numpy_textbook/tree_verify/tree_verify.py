# SPDX-License-Identifier: Apache-2.0
"""tree_verify.py - tree verification as in a textbook: the distribution of every node, then one
walk."""
import numpy as np

UNREACHED, ACCEPTED, REJECTED = range(3)


def tree_mask(n_prompt, parent):
    """The attention mask, and the positions of the rows."""
    n = n_prompt + len(parent)
    visible, position = np.zeros((n, n), bool), np.arange(n)
    visible[:n_prompt, :n_prompt] = np.tri(n_prompt, dtype=bool)
    for i, p in enumerate(parent):
        row, above = n_prompt + i, n_prompt + p if p >= 0 else n_prompt - 1
        visible[row] = visible[above]
        visible[row, row] = True
        position[row] = position[above] + 1
    return visible, position


def distribution(row, temperature):
    """Weights that need not add up to 1; None of a row that has none."""
    x = row.astype(np.float64)
    if np.isnan(x).any() or (x == np.inf).any() or x.max() == -np.inf:
        return None
    return np.exp((x - x.max()) / temperature) if temperature else (np.arange(len(x)) == x.argmax()).astype(float)


def choose(weight, u):
    if weight is None:
        raise ArithmeticError("a row without a distribution")
    total = np.cumsum(weight)
    return min(int(np.searchsorted(total, u * total[-1], side="right")), int(weight.nonzero()[0][-1]))


def tree_verify(model, prompt, token, parent, max_new, temperature, u):
    n_prompt, n_node = len(prompt), len(token)
    out, path, status = [], [], np.full(n_node, UNREACHED)
    if max_new == 0:
        return out, path, status
    visible, position = tree_mask(n_prompt, parent.tolist())
    logits = model.forward(np.concatenate([prompt, token]), position, visible,
                           np.arange(n_prompt - 1, n_prompt + n_node))
    weights = [distribution(row, temperature) for row in logits]
    node = -1
    while len(out) < max_new:
        t = choose(weights[node + 1], u[len(out)])
        out.append(t)
        children = np.flatnonzero(parent == node)
        status[children] = REJECTED
        right = children[token[children] == t]
        if not right.size:
            break
        node = int(right[0])
        status[node] = ACCEPTED
        path.append(node)
    return out, path, status
