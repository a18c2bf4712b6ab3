# SPDX-License-Identifier: Apache-2.0
"""kv_cache.py - your cache. The prompt is the specification."""
import numpy as np  # noqa: F401


class kv_cache:
    # nbytes: the bytes that it has reserved.
    # Brain floats come and go as uint16, their bits: the prompt has the lines that convert them.
    def __init__(self, dims):
        raise NotImplementedError("begin here")

    def open(self):
        """A new sequence: a number."""

    def fork(self, seq):
        """Another of equal content: a number."""

    def truncate(self, seq, n):
        """Keeps the first n tokens, in every layer."""

    def free(self, seq):
        """Ends it."""

    def append(self, layer, seqs, n_new, k, v):
        """k, v: (sum of n_new, n_kv_head, head_dim)."""

    def attend(self, layer, seqs, n_q, q):
        """Returns out (sum of n_q, n_q_head, head_dim) and lse (sum of n_q, n_q_head)."""

    def read(self, layer, seq, begin, n):
        """Returns k and v, (n, n_kv_head, head_dim)."""

    def status(self, layer, seq):
        """Returns length, n_page, n_free, bytes_reserved, bytes_live."""
