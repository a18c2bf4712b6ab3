# SPDX-License-Identifier: Apache-2.0
"""ours.py - calls of libtouchstone by ctypes, for this folder and the scripts of bench/: arguments are filled and
workspaces allocated before anything is timed."""
import ctypes
import os
import time

import numpy as np
import torch

I, L, D, P, SIZE = ctypes.c_int, ctypes.c_int64, ctypes.c_double, ctypes.c_void_p, ctypes.c_size_t
F32, F64, F16, BF16, U8, U4 = range(6)  # ts_dtype
KINDS = {torch.float32: F32, torch.float16: F16, torch.bfloat16: BF16}
LIB = None


def struct(*fields):
    """A ctypes structure from (type, names)."""
    return type("Struct", (ctypes.Structure,), {"_fields_": [(n, t) for t, names in fields for n in names.split()]})


Exec = struct((I, "device n_threads deterministic"), (P, "stream workspace"), (SIZE, "workspace_bytes"))
Norm = struct((I, "dtype"), (L, "n_rows n_cols row_stride"), (D, "eps"), (P, "x gamma beta y mean rstd"))
NormBack = struct((I, "dtype accumulate"), (L, "n_rows n_cols row_stride"), (P, "x dy gamma mean rstd dx dgamma dbeta"))
RmsNorm = struct((I, "dtype w_offset"), (L, "n_rows n_cols row_stride"), (D, "eps"), (P, "x residual w r y rstd"))
RmsNormBack = struct((I, "dtype w_offset accumulate"), (L, "n_rows n_cols row_stride"), (P, "r dy dr w rstd dx dw"))
CrossEntropy = struct((I, "dtype grad_dtype mean accumulate"), (ctypes.c_int32, "ignore_index"),
                      (L, "n_rows n_vocab n_hidden h_stride w_stride chunk"), (D, "scale smoothing z_loss softcap"),
                      (P, "h w bias target loss lse total dh dw"))
TopK = struct((I, "dtype"), (L, "n_rows n_vocab row_stride k"), (D, "inv_temperature"), (P, "logits index prob lse"))
DIMS = ((I, "dtype layout causal"), (L, "n_batch n_q n_k n_q_head n_kv_head head_dim window tile_q tile_k"), (D, "scale"))
Attention = struct(*DIMS, (P, "q k v kv_len o lse"))
AttentionBack = struct(*DIMS, (P, "q k v o dout lse kv_len dq dk dv"))
AttentionFp8 = struct(*DIMS, (P, "q k v q_scale k_scale v_scale kv_len o lse"))
Ternary = struct((I, "dtype"), (L, "n_out n_in n_rows"), (P, "a b c d"))
Cache = struct((L, "n_layer n_seq_max n_q_head n_kv_head head_dim capacity page n_page window n_sink key_group "
                "max_call_tokens"), (I, "key_axis io_dtype store_dtype meta_dtype"), (D, "scale"))
Tree = struct((P, "parent k v"))
Model = struct((P, "self"), (L, "n_vocab"), (P, "next forward"))
Beam = struct((L, "n_items beam_width max_new_tokens"), (D, "alpha"), (ctypes.c_int32, "eos"),
              (P, "model prompts prompt_len tokens length logprob score finished n_found host"), (SIZE, "host_bytes"))
NEXT = ctypes.CFUNCTYPE(I, P, L, P, P, P)


def load(path):
    global LIB
    LIB = ctypes.CDLL(os.path.abspath(path))
    LIB.ts_status_text.restype = LIB.ts_cuda_unavailable_reason.restype = ctypes.c_char_p
    why = LIB.ts_cuda_unavailable_reason()
    return why.decode() if why else None


def ok(status, what):
    if status:
        raise RuntimeError("%s: %s" % (what, LIB.ts_status_text(status).decode()))


def at(*tensors):
    return [t.data_ptr() if t is not None else None for t in tensors]


def execution(deterministic=0):
    return Exec(1, 0, deterministic, torch.cuda.current_stream().cuda_stream, None, 0)


class Call:
    """A call with its workspace. `keep` holds the tensors whose addresses the arguments contain."""

    def __init__(self, name, args, *keep):
        self.name, self.run, self.args, self.keep = name, getattr(LIB, name), args, keep
        self.exec, need = execution(), SIZE()
        self.a, self.x = ctypes.byref(args), ctypes.byref(self.exec)
        ok(getattr(LIB, name + "_workspace")(self.a, self.x, ctypes.byref(need)), name)
        self.memory = torch.empty(need.value + 256, dtype=torch.uint8, device="cuda")
        self.exec.workspace, self.exec.workspace_bytes = self.memory.data_ptr(), need.value

    def __call__(self):
        status = self.run(self.a, self.x)
        if status:
            ok(status, self.name)


def layer_norm(x, gamma, beta, y, mean, rstd):
    n, d = x.shape
    return Call("ts_layernorm_forward", Norm(KINDS[x.dtype], n, d, x.stride(0), 1e-5, *at(x, gamma, beta, y, mean, rstd)),
                x, gamma, beta, y, mean, rstd)


def layer_norm_backward(x, dy, gamma, mean, rstd, dx, dgamma, dbeta):
    n, d = x.shape
    t = (x, dy, gamma, mean, rstd, dx, dgamma, dbeta)
    return Call("ts_layernorm_backward", NormBack(KINDS[x.dtype], 0, n, d, x.stride(0), *at(*t)), *t)


def softmax_topk(x, k, index, prob, lse):
    n, v = x.shape
    return Call("ts_softmax_topk", TopK(KINDS[x.dtype], n, v, x.stride(0), k, 1.0, *at(x, index, prob, lse)),
                x, index, prob, lse)


def dims(q, k, causal, window):
    b, h, n, d = q.shape
    return KINDS[q.dtype], 0, int(causal), b, n, k.shape[2], h, k.shape[1], d, window, 0, 0, d ** -0.5


def attention(q, k, v, o, lse, causal, window=0):
    return Call("ts_flash_attention", Attention(*dims(q, k, causal, window), *at(q, k, v, None, o, lse)), q, k, v, o, lse)


def attention_backward(q, k, v, o, dout, lse, dq, dk, dv, causal, window=0):
    t = (q, k, v, o, dout, lse, None, dq, dk, dv)
    return Call("ts_flash_attention_backward", AttentionBack(*dims(q, k, causal, window), *at(*t)), *t)


def attention_fp8(code, scale, o, lse, causal):
    q, k, _ = code
    b, h, n, d = q.shape
    return Call("ts_flash_attention_fp8", AttentionFp8(KINDS[o.dtype], 0, int(causal), b, n, n, h, k.shape[1], d, 0, 0, 0,
                                                       d ** -0.5, *at(*code, *scale, None, o, lse)), code, scale, o, lse)


def ternary_pack(w):
    """Codes, scales and the weights they stand for."""
    n_out, n_in = w.shape
    groups = -(-n_in // 128)
    code = torch.empty(n_out, 32 * groups, dtype=torch.uint8, device="cuda")
    scale = torch.empty(n_out, groups, dtype=torch.float16, device="cuda")
    weight = torch.empty(n_out, n_in, device="cuda")
    Call("ts_ternary_pack", Ternary(BF16, n_out, n_in, 0, *at(w, code, scale), None))()
    Call("ts_ternary_unpack", Ternary(BF16, n_out, n_in, 0, *at(code, scale, weight), None))()
    torch.cuda.synchronize()
    return code, scale, weight


def ternary_linear(code, scale, x, y):
    return Call("ts_ternary_linear_packed", Ternary(KINDS[x.dtype], y.shape[1], x.shape[1], x.shape[0],
                                                    *at(code, scale, x, y)), code, scale, x, y)


class KV:
    """One layer of a paged cache, filled with k and v, [sequence][token][head][dim]."""

    def __init__(self, k, v, n_q_head, store="bf16", page=16, extra=0):
        n_seq, length, heads, d = k.shape
        self.n = n_seq
        pages, step = -(-(length + 8) // page), max(4096, n_seq * max(1, extra))
        coded = store != "bf16"
        self.dims = Cache(1, n_seq, n_q_head, heads, d, pages * page, page, pages * n_seq, 0, 0, d if coded else 1, step, 0,
                          BF16, {"bf16": BF16, "int8": U8, "int4": U4}[store], F16 if coded else F32, d ** -0.5)
        self.exec, state, work = execution(), SIZE(), SIZE()
        self.x = ctypes.byref(self.exec)
        ok(LIB.ts_kv_bytes(ctypes.byref(self.dims), self.x, ctypes.byref(state), ctypes.byref(work)), "ts_kv_bytes")
        self.state = torch.empty(state.value + 256, dtype=torch.uint8, device="cuda")
        self.work = torch.empty(work.value + 256, dtype=torch.uint8, device="cuda")
        self.exec.workspace, self.exec.workspace_bytes = self.work.data_ptr(), work.value
        self.cache, self.seq = P(), (ctypes.c_int32 * n_seq)()
        ok(LIB.ts_kv_create(ctypes.byref(self.dims), self.x, P(self.state.data_ptr()), state, ctypes.byref(self.cache)),
           "ts_kv_create")
        for i in range(n_seq):
            one = ctypes.c_int32()
            ok(LIB.ts_kv_open(self.cache, self.x, ctypes.byref(one)), "ts_kv_open")
            self.seq[i] = one.value
            for begin in range(0, length, step):
                count = min(step, length - begin)
                ok(LIB.ts_kv_append(self.cache, self.x, L(0), L(1), (ctypes.c_int32 * 1)(one.value), (L * 1)(count),
                                    P(k[i, begin:].data_ptr()), P(v[i, begin:].data_ptr())), "ts_kv_append")
        torch.cuda.synchronize()

    def attend(self, q, out):
        run, ones = LIB.ts_kv_attend, (L * self.n)(*[1] * self.n)
        arguments = (self.cache, self.x, L(0), L(self.n), self.seq, ones, P(q.data_ptr()), P(out.data_ptr()), None)
        return lambda: ok(run(*arguments), "ts_kv_attend")

    def tree(self, parent, k, v, q, out):
        rows = (L * self.n)(*[len(parent)] * self.n)
        parents = (ctypes.c_int32 * (len(parent) * self.n))(*list(parent) * self.n)
        tree = Tree(ctypes.cast(parents, P), k.data_ptr(), v.data_ptr())
        arguments = (self.cache, self.x, L(0), L(self.n), self.seq, rows, ctypes.byref(tree), P(q.data_ptr()),
                     P(out.data_ptr()), None)
        return lambda _keep=parents: ok(LIB.ts_kv_attend_tree(*arguments), "ts_kv_attend_tree")

    def close(self):
        LIB.ts_kv_destroy(ctypes.byref(self.cache))


class BeamSearch:
    """Searches over fixed logits; `seconds(n)` is the time of n new tokens without that of the model's copies."""

    def __init__(self, items, width, logits):
        self.items, self.width, self.logits, vocab = items, width, logits, logits.shape[1]
        self.clock, self.spent = time.perf_counter, 0.0
        runtime = ctypes.CDLL("libcudart.so.13")
        runtime.cudaMemcpyAsync.argtypes = [P, P, SIZE, I, P]

        def answer(_self, n_seq, _len, _tokens, out):
            begun = self.clock()
            status = runtime.cudaMemcpyAsync(out, logits.data_ptr(), n_seq * vocab * 4, 3,
                                             torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
            self.spent += self.clock() - begun
            return status
        self.answer = NEXT(answer)
        self.model = Model(None, vocab, ctypes.cast(self.answer, P), None)

    def seconds(self, n_token):
        items, width = self.items, self.width
        prompt, length = np.zeros(items, np.int32), np.ones(items, np.int64)
        out = [np.empty((items, width, n_token), np.int32), np.empty((items, width), np.int64),
               np.empty((items, width)), np.empty((items, width)), np.empty((items, width), np.uint8),
               np.empty(items, np.int64)]
        a = Beam(items, width, n_token, 0.6, -1, ctypes.addressof(self.model), prompt.ctypes.data, length.ctypes.data,
                 *[o.ctypes.data for o in out], None, 0)
        x, need = execution(), SIZE()
        ok(LIB.ts_beam_search_workspace(ctypes.byref(a), ctypes.byref(x), ctypes.byref(need)), "ts_beam_search_workspace")
        work = torch.empty(need.value + 256, dtype=torch.uint8, device="cuda")
        x.workspace, x.workspace_bytes = work.data_ptr(), need.value
        ok(LIB.ts_beam_search_host(ctypes.byref(a), ctypes.byref(x), ctypes.byref(need)), "ts_beam_search_host")
        host = np.empty(need.value + 1, np.uint8)
        a.host, a.host_bytes, self.spent, self.logprob = host.ctypes.data, need.value, 0.0, out[2]
        torch.cuda.synchronize()
        begun = self.clock()
        ok(LIB.ts_beam_search(ctypes.byref(a), ctypes.byref(x)), "ts_beam_search")
        return self.clock() - begun - self.spent
