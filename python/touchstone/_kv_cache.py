# SPDX-License-Identifier: Apache-2.0
"""The KV cache as a class."""
from __future__ import annotations

import math
from typing import Any, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from ._arrays import FLOATS, like, named, on_host
from ._native import function
from ._values import integer

Array = Any
_DTYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3, "int8": 4, "int4": 5}
_bytes, _create, _destroy = function("kv_bytes"), function("kv_create"), function("kv_destroy")
_open, _fork, _truncate, _free = (function("kv_" + n) for n in ("open", "fork", "truncate", "free"))
_append, _attend, _attend_tree = (function("kv_" + n) for n in ("append", "attend", "attend_tree"))
_read, _status = function("kv_read"), function("kv_status")


class Usage(NamedTuple):
    """The memory of a cache."""

    n_page: int
    n_free: int
    bytes_reserved: int
    bytes_live: int  #: data and metadata of the tokens held


def _positive(name, value, least=1):
    return integer("KVCache", name, value, least, 2**63 - 1)


class KVCache:
    """Keys and values of past tokens for many sequences, and attention over them.

    Sequences are numbers that open() or fork() return. Each has a length per layer, advanced by append().
    Arrays hold tokens one behind the other: k and v are [tokens, n_kv_head, head_dim], q and results
    [tokens, n_q_head, head_dim]. With several sequences, counts says how many tokens are each one's.

    capacity      tokens per sequence
    page, n_page  page > 0: n_page pages of that many tokens are shared by all (default: enough for all)
    store         dtype of what is kept: dtype itself, "float32", "bfloat16", "float16", "int8" or "int4"
    key_axis      for codes: "token" groups key_group channels of a token, "channel" key_group tokens
    window        > 0: a query sees that many of the last tokens, and the first n_sink
    framework     "numpy", "torch" or "cupy", with `device` as torch names it
    """

    def __init__(self, n_layer: int, n_q_head: int, n_kv_head: int, head_dim: int, *, capacity: int,
                 max_seqs: int = 1, page: int = 0, n_page: Optional[int] = None, window: int = 0,
                 n_sink: int = 0, dtype: str = "float32", store: Optional[str] = None,
                 key_axis: str = "token", key_group: Optional[int] = None, meta: str = "float32",
                 max_call_tokens: Optional[int] = None, scale: Optional[float] = None,
                 framework: str = "numpy", device: Any = None):
        self._handle = 0
        self.kind = named(framework)
        self.n_layer, self.n_q_head = _positive("n_layer", n_layer), _positive("n_q_head", n_q_head)
        self.n_kv_head, self.head_dim = _positive("n_kv_head", n_kv_head), _positive("head_dim", head_dim)
        self.capacity, self.max_seqs = _positive("capacity", capacity), _positive("max_seqs", max_seqs)
        page = _positive("page", page, 0)
        dtype = str(dtype).replace("torch.", "")
        store = dtype if store is None else str(store).replace("torch.", "")
        if self.n_q_head % self.n_kv_head:
            raise ValueError("KVCache: n_q_head: got %d, expected a multiple of n_kv_head, %d"
                             % (n_q_head, n_kv_head))
        if dtype not in FLOATS:
            raise ValueError("KVCache: dtype: got %r, expected one of %s" % (dtype, ", ".join(FLOATS)))
        if store not in _DTYPES or (store == "float64" and dtype != store):
            raise ValueError("KVCache: store: got %r, expected dtype, 'float32', 'bfloat16', 'float16', "
                             "'int8' or 'int4'" % (store,))
        if key_axis not in ("token", "channel"):
            raise ValueError("KVCache: key_axis: got %r, expected 'token' or 'channel'" % (key_axis,))
        if meta not in ("float32", "float16"):
            raise ValueError("KVCache: meta: got %r, expected 'float32' or 'float16'" % (meta,))
        if key_group is None:
            key_group = self.head_dim if key_axis == "token" else (page or 32)
        if page and n_page is None:
            n_page = self.n_layer * self.max_seqs * -(-self.capacity // page)
        if max_call_tokens is None:
            max_call_tokens = self.max_seqs * self.capacity
        self.dtype, self.max_call_tokens = dtype, int(max_call_tokens)
        scale = 1.0 / math.sqrt(head_dim) if scale is None else float(scale)
        settings = np.array([n_layer, max_seqs, n_q_head, n_kv_head, head_dim, capacity, page, n_page or 0,
                             window, n_sink, key_group, max_call_tokens, key_axis == "channel",
                             _DTYPES[dtype], _DTYPES[store], _DTYPES[meta]], np.int64)
        empty = self._empty(device)
        place = str(self.kind.device(empty))
        kind, index = (2, int(place.partition(":")[2] or 0)) if place.startswith("cuda") else (1, 0)
        if kind == 1 and place != "cpu":
            raise ValueError("KVCache: device: got %s, expected cpu or cuda" % place)
        sizes = np.zeros(2, np.int64)
        try:
            self.kind.call(_bytes, settings, scale, kind, index, sizes)
        except ValueError as error:
            raise ValueError("%s; got %s" % (error, self._describe(settings, scale))) from None
        self._memory = self.kind.empty((int(sizes[0]),), "uint8", empty)
        self._place = self.kind.device(self._memory)
        self._work = int(sizes[1])
        self._seqs, self._last = set(), None
        self._handle = self.kind.call(_create, settings, scale, self._memory)

    @staticmethod
    def _describe(settings, scale):
        names = ("n_layer max_seqs n_q_head n_kv_head head_dim capacity page n_page window n_sink key_group "
                 "max_call_tokens").split()
        return ", ".join("%s %d" % p for p in zip(names, settings.tolist())) + ", scale %g" % scale

    def _empty(self, device):
        if self.kind.name == "torch":
            return self.kind.torch.empty(0, device=device or "cpu")
        if device not in (None, "cpu") and self.kind.name == "numpy":
            raise ValueError("KVCache: device: got %r, expected None with framework 'numpy'" % (device,))
        return self.kind.xp.empty(0)

    def close(self) -> None:
        """Gives the memory back. Nothing can be called afterwards."""
        if self._handle:
            _destroy(self._handle)
        self._handle, self._memory = 0, None

    def __del__(self):
        if getattr(self, "_handle", 0):
            self.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _begin(self, name, *seqs, layer=None):
        if not self._handle:
            raise ValueError("KVCache.%s: the cache is closed" % name)
        for s in seqs:
            if s not in self._seqs:
                raise KeyError("KVCache.%s: got sequence %r, expected one of those open: %s"
                               % (name, s, sorted(self._seqs)))
        if layer is not None and not 0 <= layer < self.n_layer:
            raise ValueError("KVCache.%s: layer: got %r, expected 0 to %d" % (name, layer, self.n_layer - 1))
        return self._handle, self._memory, self._work

    def _new(self, name, function, *args):
        try:
            seq = int(self.kind.call(function, *args))
        except MemoryError:
            if len(self._seqs) < self.max_seqs:
                raise
            raise MemoryError("KVCache.%s: got %d sequences open, expected fewer than max_seqs = %d"
                              % (name, len(self._seqs), self.max_seqs)) from None
        self._seqs.add(seq)
        return seq

    def open(self) -> int:
        """A new sequence of length 0."""
        return self._new("open", _open, *self._begin("open"))

    def fork(self, seq: int) -> int:
        """A new sequence that holds what seq holds; pages are shared until one of the two writes."""
        return self._new("fork", _fork, *self._begin("fork", seq), int(seq))

    def truncate(self, seq: int, length: int) -> None:
        """Forgets what seq holds past `length`, in every layer; all must hold as many."""
        self._begin("truncate", seq)
        shortest = min(self.length(seq, i) for i in range(self.n_layer))
        if not 0 <= length <= shortest:
            raise ValueError("KVCache.truncate: length: got %r, expected 0 to %d, the least length of a layer"
                             % (length, shortest))
        self.kind.call(_truncate, *self._begin("truncate", seq), int(seq), int(length))

    def free(self, seq: int) -> None:
        """Ends a sequence. Its pages go back."""
        self.kind.call(_free, *self._begin("free", seq), int(seq))
        self._seqs.discard(seq)
        self._last = None

    def _check_place(self, name, label, array):
        """C is given addresses: they must be of the cache's device, and dense."""
        if self.kind.device(array) != self._place:
            raise ValueError("KVCache.%s: %s: got an array on %s, expected %s, as the cache"
                             % (name, label, self.kind.device(array), self._place))
        if not self.kind.is_dense(array):
            raise ValueError("KVCache.%s: %s: got an array that is not contiguous, expected a contiguous one"
                             % (name, label))

    def _results(self, name, q, out, return_lse):
        if out is None:
            out = self.kind.like(q)
        else:
            self._check_place(name, "out", like("KVCache." + name, self.kind, out, q))
        return out, self.kind.empty(q.shape[:2], "float32", q) if return_lse else None

    def _batch(self, name, seqs, counts, n):
        """How many sequences, and the addresses of sequences and counts; those of the call before, if it was given
        the same."""
        if type(seqs) is not list:
            seqs = [int(seqs)] if isinstance(seqs, (int, np.integer)) else [int(s) for s in seqs]
        if counts is not None and type(counts) is not list:
            counts = [int(c) for c in counts]
        if self._last is not None and self._last[:3] == (seqs, counts, n):
            return self._last[3]
        self._begin(name, *seqs)
        given = counts
        if counts is None:
            if seqs and n % len(seqs):
                raise ValueError("KVCache.%s: counts: got None for %d tokens of %d sequences, expected a list"
                                 % (name, n, len(seqs)))
            counts = [n // len(seqs)] * len(seqs) if seqs else []
        if len(counts) != len(seqs) or sum(counts) != n or min(counts, default=0) < 0:
            raise ValueError("KVCache.%s: counts: got %s, expected %d numbers that sum to %d"
                             % (name, counts, len(seqs), n))
        if len(set(seqs)) != len(seqs):
            raise ValueError("KVCache.%s: seqs: got %s, expected each sequence once" % (name, seqs))
        s, c = np.array(seqs, np.int32), np.array(counts, np.int64)
        batch = len(seqs), s.ctypes.data, c.ctypes.data
        self._last = (list(seqs), None if given is None else list(given), n, batch, s, c)
        return batch

    def _call(self, name, layer, seqs, counts, heads, **tensors):
        """Checks a call over sequences; (what C's arguments begin with, tensors)."""
        begin = self._begin(name, layer=layer)
        kind = self.kind
        arrays = kind.inputs("KVCache." + name, tensors, *tensors.values())
        n = arrays[0].shape[0] if len(arrays[0].shape) else 0
        if n > self.max_call_tokens:
            raise ValueError("KVCache.%s: got %d tokens in one call, expected at most max_call_tokens = %d"
                             % (name, n, self.max_call_tokens))
        batch = self._batch(name, seqs, counts, n)
        for label, a, h in zip(tensors, arrays, heads):
            shape = (n, h, self.head_dim)
            if a.shape != shape or kind.dtype(a) != self.dtype:
                raise ValueError("KVCache.%s: %s: got %s%s, expected %s%s" % (
                    name, label, kind.dtype(a), list(a.shape), self.dtype, list(shape)))
            self._check_place(name, label, a)
        return begin + (layer,) + batch, arrays

    def append(self, layer: int, seqs: Union[int, Sequence[int]], k: Array, v: Array, *,
               counts: Optional[Sequence[int]] = None) -> None:
        """Appends tokens to one layer of the sequences. Where they do not fit, nothing changes and
        MemoryError is raised."""
        begin, (k, v) = self._call("append", layer, seqs, counts, (self.n_kv_head,) * 2, k=k, v=v)
        try:
            self.kind.call(_append, *begin, k, v)
        except MemoryError:
            s, c = self._last[4:]
            raise MemoryError(
                "KVCache.append: got %s more tokens for sequences of length %s, expected at most %d each and "
                "%d free pages to suffice" % (c.tolist(), [self.length(int(i), layer) for i in s], self.capacity,
                                              self.usage().n_free)) from None

    def attend(self, layer: int, seqs: Union[int, Sequence[int]], q: Array, *,
               counts: Optional[Sequence[int]] = None, return_lse: bool = False,
               out: Optional[Array] = None) -> Union[Array, Tuple[Array, Array]]:
        """Attention of each sequence's last counts tokens, which append has stored before."""
        begin, (q,) = self._call("attend", layer, seqs, counts, (self.n_q_head,), q=q)
        out, lse = self._results("attend", q, out, return_lse)
        try:
            self.kind.call(_attend, *begin, q, out, lse)
        except ValueError:
            for s, c in zip(*(a.tolist() for a in self._last[4:])):
                if c > self.length(s, layer):
                    raise ValueError("KVCache.attend: q: got %d tokens of sequence %d, expected at most %d, its length in layer "
                                     "%d; append comes first" % (c, s, self.length(s, layer), layer)) from None
            raise
        return (out, lse) if return_lse else out

    def attend_tree(self, layer: int, seqs: Union[int, Sequence[int]], q: Array, k: Array, v: Array,
                    parents: Sequence[int], *, counts: Optional[Sequence[int]] = None,
                    return_lse: bool = False, out: Optional[Array] = None) -> Union[Array, Tuple[Array, Array]]:
        """Attention of drafted tokens that are in no cache: row i of a sequence follows its row parents[i],
        or, with -1, the sequence's last token. Nothing is stored."""
        begin, (q, k, v) = self._call("attend_tree", layer, seqs, counts,
                                      (self.n_q_head, self.n_kv_head, self.n_kv_head), q=q, k=k, v=v)
        parents = on_host("KVCache.attend_tree", "parents", parents)
        if parents.shape != (q.shape[0],):
            raise ValueError("KVCache.attend_tree: parents: got shape %s, expected [%d]"
                             % (list(parents.shape), q.shape[0]))
        out, lse = self._results("attend_tree", q, out, return_lse)
        try:
            self.kind.call(_attend_tree, *begin, parents, k, v, q, out, lse)
        except ValueError:
            own = np.concatenate([np.arange(c) for c in self._last[5]] or [[]])
            for i in np.flatnonzero((parents < -1) | (parents >= own))[:1]:
                raise ValueError("KVCache.attend_tree: parents[%d]: got %d, expected -1 to %d, an earlier row of the same sequence"
                                 % (i, parents[i], own[i] - 1)) from None
            raise
        return (out, lse) if return_lse else out

    def read(self, layer: int, seq: int, start: int = 0, stop: Optional[int] = None) -> Tuple[Array, Array]:
        """(k, v) of tokens start to stop as the cache has them: float32 [tokens, n_kv_head, head_dim]."""
        begin = self._begin("read", seq, layer=layer)
        length = self.length(seq, layer)
        stop = length if stop is None else stop
        if not 0 <= start <= stop <= length:
            raise ValueError("KVCache.read: got %d to %d, expected a part of 0 to %d" % (start, stop, length))
        shape = (stop - start, self.n_kv_head, self.head_dim)
        k, v = (self.kind.empty(shape, "float32", self._memory) for _ in range(2))
        self.kind.call(_read, *begin, layer, int(seq), start, stop - start, k, v)
        return k, v

    def length(self, seq: int, layer: int = 0) -> int:
        """How many tokens of the sequence the layer holds."""
        self._begin("length", seq, layer=layer)
        what = np.zeros(5, np.int64)
        _status(self._handle, layer, int(seq), what)
        return int(what[0])

    def usage(self) -> Usage:
        """Pages and bytes, of the whole cache."""
        self._begin("usage")
        what = np.zeros(5, np.int64)
        _status(self._handle, 0, -1, what)
        return Usage(*(int(w) for w in what[1:]))

    def __repr__(self):
        if not self._handle:
            return "KVCache(closed)"
        return "KVCache(n_layer=%d, n_q_head=%d, n_kv_head=%d, head_dim=%d, capacity=%d, sequences=%s)" % (
            self.n_layer, self.n_q_head, self.n_kv_head, self.head_dim, self.capacity, sorted(self._seqs))
