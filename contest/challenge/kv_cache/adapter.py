# SPDX-License-Identifier: Apache-2.0
"""adapter_example.py - how a cache with other names enters. Unused until entry.json names it:

    "sources": ["theirs.py"], "adapter": "adapter.py"

Say that theirs.py has a class Cache(n_layer, n_head, head_dim) that holds one sequence, with
push(layer, k, v). Then the judge's class keeps one for each sequence:

    from theirs import Cache

    class kv_cache:
        def __init__(self, dims):
            if dims.page or dims.store_dtype != dims.io_dtype:  # said, not guessed
                raise NotImplementedError("only contiguous floats")  # and "offers" in entry.json says so
            self.dims, self.caches = dims, {}

        def open(self):
            if len(self.caches) == self.dims.n_seq_max:
                raise MemoryError("no sequence left")
            seq = next(i for i in range(self.dims.n_seq_max) if i not in self.caches)
            self.caches[seq] = Cache(self.dims.n_layer, self.dims.n_kv_head, self.dims.head_dim)
            return seq
"""
