# SPDX-License-Identifier: Apache-2.0
"""adapter_example.py - how a verification with another interface enters. Unused until entry.json
names it:

    "sources": ["theirs.py"], "adapter": "adapter.py"

Say that theirs.py has verify(logits, tree), where tree is a list of (parent, token) and logits[0] are
those after the prompt, and which returns the nodes that it accepts and the token behind them. Then
the judge's function makes the pass:

    from theirs import mask_of, verify

    def tree_verify(model, prompt, token, parent, max_new, temperature, u):
        if temperature:  # said, not guessed
            raise NotImplementedError("only greedy")  # and "offers" in entry.json says so
        visible, position = mask_of(len(prompt), parent)
        rows = np.arange(len(prompt) - 1, len(prompt) + len(token))
        logits = model.forward(np.concatenate([prompt, token]), position, visible, rows)
        path, last = verify(logits, list(zip(parent, token)))
        status = np.where(np.isin(np.arange(len(token)), path), 1, 0)  # and 2, where it was visited
        return [int(token[i]) for i in path] + [last], path, status
"""
