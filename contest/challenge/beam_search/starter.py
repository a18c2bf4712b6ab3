# SPDX-License-Identifier: Apache-2.0
"""beam_search.py - your search. The prompt is the specification."""
import numpy as np  # noqa: F401


def beam_search(model, prompts, beam_width, max_new_tokens, alpha, eos):
    # prompts: a list of lists of tokens. model.next(strings) gives float32 logits of the next token,
    # (len(strings), model.n_vocab). Return, for each prompt, a list of at most beam_width beams by
    # rank: (tokens, logprob, score, finished). A row without a distribution: raise ArithmeticError.
    raise NotImplementedError("begin here")
