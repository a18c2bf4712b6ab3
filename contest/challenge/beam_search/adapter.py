# SPDX-License-Identifier: Apache-2.0
"""adapter_example.py - how a search with another interface enters. Unused until entry.json names
it:

    "sources": ["theirs.py"], "adapter": "adapter.py"

Say that theirs.py has search(step, batch, width, steps, penalty, stop), where step(sequences) returns
log-probabilities, and which returns (sequences, sums). Then the judge's function is

    from theirs import search

    def beam_search(model, prompts, beam_width, max_new_tokens, alpha, eos):
        def step(sequences):
            x = model.next(sequences).astype(float)
            x -= x.max(axis=1, keepdims=True)
            return x - np.log(np.exp(x).sum(axis=1, keepdims=True))

        found = search(step, prompts, beam_width, max_new_tokens, alpha, eos)
        return [[(tokens, total, total / len(tokens) ** alpha, tokens[-1] == eos)
                 for tokens, total in item] for item in found]
"""
