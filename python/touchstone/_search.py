# SPDX-License-Identifier: Apache-2.0
"""Beam search and the verification of drafted trees, over a model that is a Python function."""
from __future__ import annotations

import ctypes
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Union

import numpy as np

from ._native import function
from ._values import integer

_beam_search = function("beam_search")
_tree_verify = function("tree_verify")
_tree_mask = function("tree_mask")

_I64, _I32 = ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int32)
_F32, _U8 = ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_uint8)
_NEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, _I64, ctypes.POINTER(_I32), _F32)
_FORWARD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, _I32, _I64, _U8,
                            ctypes.c_int64, _I64, _F32)

UNREACHED = 0  #: status of a node whose parent was not visited
ACCEPTED = 1  #: status of a node on the accepted path
REJECTED = 2  #: status of a node that is not on the path, but whose parent was visited


class Beam(NamedTuple):
    """One continuation that beam_search found."""

    tokens: List[int]
    logprob: float
    score: float  #: logprob / len(tokens)^alpha
    finished: bool  #: whether it ends in eos


class Verified(NamedTuple):
    """What tree_verify returns."""

    tokens: List[int]  #: what plain decoding would have given
    path: List[int]  #: the accepted nodes, root first
    status: np.ndarray  #: uint8 per node: UNREACHED, ACCEPTED or REJECTED


class BeamArrays(NamedTuple):
    """What beam_search writes, where it is given as out: NumPy arrays."""

    tokens: np.ndarray  #: int32 [prompts, beam_width, max_new_tokens], -1 behind the end
    length: np.ndarray  #: int64 [prompts, beam_width]
    logprob: np.ndarray  #: float64 [prompts, beam_width]
    score: np.ndarray  #: float64 [prompts, beam_width]
    finished: np.ndarray  #: uint8 [prompts, beam_width]
    found: np.ndarray  #: int64 [prompts]: how many beams each prompt has

    @classmethod
    def make(cls, n_prompts: int, beam_width: int, max_new_tokens: int) -> "BeamArrays":
        """Allocates the arrays for a search with these sizes."""
        two = (n_prompts, beam_width)
        return cls(np.empty(two + (max_new_tokens,), np.int32), np.empty(two, np.int64), np.empty(two), np.empty(two),
                   np.empty(two, np.uint8), np.empty(n_prompts, np.int64))


class TreeArrays(NamedTuple):
    """What tree_verify writes, where it is given as out: NumPy arrays."""

    tokens: np.ndarray  #: int32 [max_new], -1 behind the end
    path: np.ndarray  #: int32 [nodes], -1 behind the end
    status: np.ndarray  #: uint8 [nodes]
    counts: np.ndarray  #: int64 [2]: how many tokens, and how many nodes the path has

    @classmethod
    def make(cls, n_nodes: int, max_new: int) -> "TreeArrays":
        """Allocates the arrays for a tree of n_nodes nodes and at most max_new tokens."""
        return cls(np.empty(max_new, np.int32), np.empty(n_nodes, np.int32), np.empty(n_nodes, np.uint8),
                   np.empty(2, np.int64))


def _outputs(name, out, like):
    """`out`, if its arrays are such as those of `like`, which is returned for None; tokens are set to -1."""
    if out is None:
        out = like
    if len(out) != len(like):
        raise ValueError("%s: out: got %d arrays, expected %d, as %s.make makes them"
                         % (name, len(out), len(like), type(like).__name__))
    for field, a, b in zip(like._fields, out, like):
        if not isinstance(a, np.ndarray) or a.dtype != b.dtype or a.shape != b.shape or not (
                a.flags.c_contiguous and a.flags.writeable):
            raise ValueError("%s: out.%s: got %s, expected a contiguous NumPy array %s%s" % (
                name, field, "%s%s" % (a.dtype, list(a.shape)) if isinstance(a, np.ndarray) else type(a).__name__,
                b.dtype, list(b.shape)))
        a.fill(-1 if a.dtype == np.int32 else 0)
    return type(like)(*out)


def _to_numpy(logits):
    if hasattr(logits, "detach"):
        logits = logits.detach().float().cpu()
    elif hasattr(logits, "get"):
        logits = logits.get()
    return np.asarray(logits, dtype=np.float32)


class _Model:
    """A Python function as a C one; what it raises is kept for after the search."""

    def __init__(self, name, model, n_vocab):
        if not callable(model):
            raise TypeError("%s: model: got %s, expected a function" % (name, type(model).__name__))
        n_vocab = integer(name, "n_vocab", n_vocab, 1)
        self.name, self.model, self.n_vocab, self.error = name, model, n_vocab, None

    def fill(self, n, out, *arguments):
        try:
            logits = _to_numpy(self.model(*arguments))
            if logits.shape != (n, self.n_vocab):
                raise ValueError("%s: model: got logits of shape %s, expected %s"
                                 % (self.name, list(logits.shape), [n, self.n_vocab]))
            np.ctypeslib.as_array(out, (n, self.n_vocab))[...] = logits
            return 0
        except BaseException as error:  # carried across C, and raised behind it
            self.error = error
            return 1

    def next(self, _, n, length, tokens, out):
        strings = [np.ctypeslib.as_array(tokens[i], (length[i],)).copy() for i in range(n)]
        return self.fill(n, out, strings)

    def forward(self, _, n_row, token, position, visible, n_want, want, out):
        view = np.ctypeslib.as_array
        return self.fill(n_want, out, view(token, (n_row,)).copy(), view(position, (n_row,)).copy(),
                         view(visible, (n_row, n_row)).astype(bool), view(want, (n_want,)).copy())

    def run(self, function, pointer, *arguments):
        try:
            function(self.n_vocab, ctypes.cast(pointer, ctypes.c_void_p).value, *arguments)
        except Exception:
            if self.error is not None:
                raise self.error from None
            raise


def _tokens(name, what, tokens, n_vocab=None):
    if hasattr(tokens, "__dlpack_device__") and tokens.__dlpack_device__()[0] not in (1, 3):
        raise TypeError("%s: %s: got an array on a device, expected a list or an array on the host" % (name, what))
    a = np.ascontiguousarray(np.asarray(tokens).reshape(-1) if len(np.shape(tokens)) else [tokens])
    if a.size and a.dtype.kind not in "iu":
        raise TypeError("%s: %s: got %s, expected integers" % (name, what, a.dtype))
    if n_vocab is not None and a.size and (a.min() < 0 or a.max() >= n_vocab):
        raise ValueError("%s: %s: got a token outside the vocabulary, expected 0 to %d" % (name, what, n_vocab - 1))
    return a.astype(np.int32)


def beam_search(model: Callable[[List[np.ndarray]], Any], prompts: Sequence[Sequence[int]], *, n_vocab: int,
                beam_width: int, max_new_tokens: int, alpha: float = 0.0, eos: int = -1,
                archive: bool = False, out: Optional[BeamArrays] = None) -> Union[List[List[Beam]], BeamArrays]:
    """The best continuations of each prompt, best first: Beams, or the arrays given as out.

    model(strings) gets a list of int32 arrays and returns logits [len(strings), n_vocab] of the next
    token, as an array of any framework. alpha > 0 divides log-probabilities by length^alpha when ranking.
    archive: a beam that ends is kept aside and frees its place."""
    name = "beam_search"
    m = _Model(name, model, n_vocab)
    beam_width, eos = integer(name, "beam_width", beam_width, 1), integer(name, "eos", eos, -1)
    max_new_tokens = integer(name, "max_new_tokens", max_new_tokens)
    for i, p in enumerate(prompts):
        if np.ndim(p) == 0:
            raise TypeError("%s: prompts[%d]: got the number %s, expected a list of tokens; one prompt is [[1, 2, 3]]"
                            % (name, i, p))
    lists = [_tokens(name, "prompts[%d]" % i, p, n_vocab) for i, p in enumerate(prompts)]
    for i, p in enumerate(lists):
        if not p.size:
            raise ValueError("%s: prompts[%d]: got no token, expected at least 1" % (name, i))
    n = len(lists)
    flat = np.concatenate(lists) if lists else np.zeros(1, np.int32)
    lengths = np.array([len(p) for p in lists], np.int64)
    a = _outputs(name, out, BeamArrays.make(n, beam_width, max_new_tokens))
    call = _NEXT(m.next)
    m.run(_beam_search, call, flat, lengths, beam_width, max_new_tokens, float(alpha), eos, bool(archive), *a)
    if out is not None:
        return a
    return [[Beam(a.tokens[i, j, :a.length[i, j]].tolist(), float(a.logprob[i, j]), float(a.score[i, j]),
                  bool(a.finished[i, j])) for j in range(a.found[i])] for i in range(n)]


def tree_verify(model: Callable[..., Any], prompt: Sequence[int], tokens: Sequence[int],
                parents: Sequence[int], *, n_vocab: int, max_new: Optional[int] = None,
                temperature: float = 0.0, u: Optional[Sequence[float]] = None,
                out: Optional[TreeArrays] = None) -> Union[Verified, TreeArrays]:
    """Verifies a tree of drafted tokens in one pass of the model: a Verified, or the arrays given as out.

    Node i carries tokens[i] and follows node parents[i] < i, or the prompt where that is -1.
    model(tokens, positions, visible, want) gets the rows of the pass, the attention mask, and the rows whose
    logits [len(want), n_vocab] it returns. max_new: most tokens to emit, by default one more than there
    are nodes. temperature > 0 samples with the numbers u in [0, 1), drawn here if None."""
    name = "tree_verify"
    m = _Model(name, model, n_vocab)
    prompt = _tokens(name, "prompt", prompt, n_vocab)
    tokens = _tokens(name, "tokens", tokens, n_vocab)
    parents = _tokens(name, "parents", parents)
    if not prompt.size:
        raise ValueError("%s: prompt: got no token, expected at least 1" % name)
    if tokens.shape != parents.shape:
        raise ValueError("%s: parents: got %d, expected %d, as tokens" % (name, parents.size, tokens.size))
    bad = [i for i in range(parents.size) if not -1 <= parents[i] < i]
    if bad:
        raise ValueError("%s: parents[%d]: got %d, expected -1 to %d" % (name, bad[0], parents[bad[0]], bad[0] - 1))
    n_new = tokens.size + 1 if max_new is None else integer(name, "max_new", max_new)
    draws = np.random.default_rng().random(n_new) if u is None else np.ascontiguousarray(u, np.float64)
    if draws.shape != (n_new,):
        raise ValueError("%s: u: got shape %s, expected [%d]" % (name, list(draws.shape), n_new))
    a = _outputs(name, out, TreeArrays.make(tokens.size, n_new))
    call = _FORWARD(m.forward)
    m.run(_tree_verify, call, prompt, tokens, parents, draws, float(temperature), a.tokens, a.counts, a.path, a.status)
    if out is not None:
        return a
    return Verified(a.tokens[:a.counts[0]].tolist(), a.path[:a.counts[1]].tolist(), a.status)


def tree_mask(parents: Sequence[int], prompt_len: int):
    """(visible, position) of a pass over a prompt and a tree: visible[r, c] says whether row r sees c."""
    parents = _tokens("tree_mask", "parents", parents)
    prompt_len = integer("tree_mask", "prompt_len", prompt_len, 1)
    n = prompt_len + parents.size
    visible, position = np.zeros((n, n), np.uint8), np.zeros(n, np.int64)
    _tree_mask(parents, prompt_len, visible, position)
    return visible.astype(bool), position
