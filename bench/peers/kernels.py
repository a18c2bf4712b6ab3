# SPDX-License-Identifier: Apache-2.0
"""kernels.py - one function per kernel of rows.py: inputs, float64 references and every method that does the same work.

Each yields (pass, Case). `ours` is always first; a generator frees its tensors when the row ends. A peer whose package
is missing, or that rejects the shape, is recorded by Case.add with the reason."""
import functools
import random

import torch
import torch.nn.functional as F

import ours
import peers
import topk  # noqa: F401: adds to the peers
from method import Case

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
LIMIT = {"f32": 2e-5, "bf16": 1e-2, "f16": 2e-3}  # relative error of an output; a peer above it does other work
WITH_COMPILE = True  # run.py --compile


def draw(*shape, dtype=torch.float32, scale=1.0):
    out = torch.empty(*shape, device="cuda", dtype=dtype)
    flat = out.view(-1)
    for begin in range(0, flat.numel(), 1 << 26):  # float temporaries of large bf16 inputs stay small
        part = flat[begin:begin + (1 << 26)]
        part.copy_(torch.randn(part.numel(), device="cuda") * scale)
    return out


def nan(*shape, dtype=torch.float32):
    return torch.full(shape, float("nan"), device="cuda", dtype=dtype)


def every(t):
    return t


@functools.cache
def peer(name):
    return peers.PEERS[name]("cuda", torch.get_num_threads())


def compare(case, task, names, **arguments):
    """Adds these peers, {name in the table: name in python/peers.py}."""
    for label, name in names.items():
        case.add(label, lambda: peers.ready(peer(name), task, arguments), every)



# ---- attention ----

def attention_reference(q, k, v, dout, causal, window):
    """Of the last KV head of the last batch, in float64: o, dq [group][n][d]; dk, dv [n][d]. Without dout o alone."""
    group, n, d = q.shape[1] // k.shape[1], q.shape[2], q.shape[3]
    kk, vv = k[-1, -1].double(), v[-1, -1].double()
    dk, dv, o, dq = torch.zeros_like(kk), torch.zeros_like(vv), [], []
    at = torch.arange(n, device="cuda")
    hidden = at[None] > at[:, None] if causal else None
    if window:
        hidden = hidden | (at[:, None] - at[None] >= window)
    for head in range(q.shape[1] - group, q.shape[1]):
        qq = q[-1, head].double()
        p = qq @ kk.t() * d ** -0.5
        if causal:
            p.masked_fill_(hidden, -float("inf"))
        p = torch.softmax(p, -1)
        o.append(p @ vv)
        if dout is None:
            continue
        g = dout[-1, head].double()
        dv += p.t() @ g
        p *= (g @ vv.t() - (g * o[-1]).sum(-1, keepdim=True)) * d ** -0.5  # now the gradient of the scores
        dq.append(p @ kk)
        dk += p.t() @ qq
        del p
    return torch.stack(o), torch.stack(dq) if dq else None, dk, dv


def attention(batch, heads, kv_heads, n, d, causal, kind, window):
    dtype = TYPES[kind]
    q, dout = draw(batch, heads, n, d, dtype=dtype), draw(batch, heads, n, d, dtype=dtype)
    k, v = draw(batch, kv_heads, n, d, dtype=dtype), draw(batch, kv_heads, n, d, dtype=dtype)
    o, lse = nan(batch, heads, n, d, dtype=dtype), nan(batch, heads, n)
    group = heads // kv_heads
    pairs = sum(min(i + 1, window) for i in range(n)) if window else n * n / 2 if causal else n * n
    flops = 4 * batch * heads * d * pairs
    ref = attention_reference(q, k, v, dout, causal, window)
    tail = {"o": (lambda t: t[-1, -group:], ref[0])}
    case = Case(flops, "TFLOP/s", "matmul", tail, LIMIT[kind])
    case.add("ours", lambda: ours.attention(q, k, v, o, lse, causal, window), lambda _: {"o": o})
    names = {"FlashAttention-4": "flash-attn-4", "FlashAttention-2": "flash-attn-2"} if kind != "f32" else {}
    if kind != "f32" and not window:
        names.update({"cuDNN": "torch.cudnn", "FA2 (torch)": "torch.flash"})
    if kind == "f32" and heads == kv_heads and not window:
        names["torch efficient"] = "torch.efficient"
    call = dict(q=q, k=k, v=v, causal=causal, scale=d ** -0.5, layout=0, window=window)
    compare(case, "flash_attention", names, **call)
    yield "forward", case

    grads = [nan(*t.shape, dtype=dtype) for t in (q, k, v)]
    want = {"dq": (lambda t: t[-1, -group:], ref[1]), "dk": (lambda t: t[-1, -1], ref[2]),
            "dv": (lambda t: t[-1, -1], ref[3])}
    case = Case(2.5 * flops, "TFLOP/s", "matmul", want, 1.5 * LIMIT[kind])
    case.add("ours", lambda: ours.attention_backward(q, k, v, o, dout, lse, *grads, causal, window),
             lambda _: dict(zip(want, grads)))
    compare(case, "flash_attention_backward", names, dout=dout, **call)
    yield "backward", case


def attention_fp8(batch, heads, kv_heads, n, d, causal, _kind, _window):
    """e4m3 codes with a scale per head. Peers have the same numbers in bf16: no peer here runs FP8 on Hopper."""
    real, code, scale = [], [], []
    for count in (heads, kv_heads, kv_heads):
        x = draw(batch, count, n, d)
        scale.append((x.abs().amax((2, 3)) / 448).contiguous())
        code.append((x / scale[-1][..., None, None]).to(torch.float8_e4m3fn).contiguous())
        real.append((code[-1].float() * scale[-1][..., None, None]).bfloat16())
    group = heads // kv_heads
    exact = [c.float() * s[..., None, None] for c, s in zip(code, scale)]
    ref = attention_reference(*exact, None, causal, 0)[0]
    case = Case(4 * batch * heads * d * (n * n / 2 if causal else n * n), "TFLOP/s", "matmul",
                {"o": (lambda t: t[-1, -group:], ref)}, 6e-2)
    case.note = "peers and the ceiling are bf16"
    o, lse = nan(batch, heads, n, d, dtype=torch.bfloat16), nan(batch, heads, n)
    plain = torch.empty_like(o)
    case.add("ours", lambda: ours.attention_fp8(code, scale, o, lse, causal), lambda _: {"o": o})
    case.add("ours, bf16", lambda: ours.attention(*real, plain, lse, causal), lambda _: {"o": plain}, part=True)
    compare(case, "flash_attention", {"cuDNN": "torch.cudnn", "FlashAttention-4": "flash-attn-4"}, q=real[0], k=real[1],
            v=real[2], causal=causal, scale=d ** -0.5, layout=0, window=0)
    yield "", case


# ---- layer norm ----

def layer_norm_inputs(n, d, kind, pad):
    dtype = TYPES[kind]
    def matrix(filled=True):
        t = torch.empty(n, d + pad, device="cuda", dtype=dtype)[:, pad:]
        return t.copy_(draw(n, d, dtype=dtype)) if filled else t.fill_(float("nan"))
    return (matrix(), matrix(), matrix(False), matrix(False), draw(d, dtype=dtype), draw(d, dtype=dtype),
            nan(n), nan(n), nan(d), nan(d))


def layer_norm(n, d, kind, pad):
    x, dy, y, dx, gamma, beta, mean, rstd, dgamma, dbeta = layer_norm_inputs(n, d, kind, pad)
    size = x.element_size()
    rows = torch.tensor(sorted({0, n - 1, *random.sample(range(n), min(n, 200))}), device="cuda")
    xs, dys, g64 = x[rows].double(), dy[rows].double(), gamma.double()
    m, r = xs.mean(1, keepdim=True), (xs.var(1, unbiased=False, keepdim=True) + 1e-5).rsqrt()
    hat = (xs - m) * r
    case = Case(2 * n * d * size, "GB/s", "copy", {"y": (lambda t: t[rows], hat * g64 + beta.double())}, LIMIT[kind])
    case.add("ours", lambda: ours.layer_norm(x, gamma, beta, y, mean, rstd), lambda _: {"y": y})
    names = {"torch": "torch", "QuACK": "quack", "Liger": "liger", **({"torch.compile": "torch.compile"} if WITH_COMPILE else {})}
    compare(case, "layernorm_forward", names, x=x, gamma=gamma, beta=beta, eps=1e-5)
    yield "forward", case

    both = dys * g64
    want = {"dx": (lambda t: t[rows], r * (both - both.mean(1, keepdim=True) - hat * (both * hat).mean(1, keepdim=True)))}
    sums = torch.zeros(2, d, device="cuda", dtype=torch.float64)
    for i in range(0, n, 4096):  # these sums need every row
        a, b = x[i:i + 4096].double(), dy[i:i + 4096].double()
        scale = (a.var(1, unbiased=False, keepdim=True) + 1e-5).rsqrt()
        sums += torch.stack(((b * (a - a.mean(1, keepdim=True)) * scale).sum(0), b.sum(0)))
    want["dgamma"], want["dbeta"] = (every, sums[0]), (every, sums[1])
    case = Case(3 * n * d * size, "GB/s", "copy", want, LIMIT[kind])
    case.add("ours", lambda: ours.layer_norm_backward(x, dy, gamma, mean, rstd, dx, dgamma, dbeta),
             lambda _: {"dx": dx, "dgamma": dgamma, "dbeta": dbeta})
    compare(case, "layernorm_backward", names, x=x, dy=dy, gamma=gamma, mean=mean, rstd=rstd)
    yield "backward", case


def captured(make, calls=20):
    """A graph of that many calls on a stream of its own."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        call = make()
        call()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(calls):
                call()
    def run(_keep=call):
        graph.replay()
    return run


def layer_norm_graph(n, d, kind):
    x, dy, y, dx, gamma, beta, mean, rstd, dgamma, dbeta = layer_norm_inputs(n, d, kind, 0)
    xs = x.double()
    hat = (xs - xs.mean(1, keepdim=True)) * (xs.var(1, unbiased=False, keepdim=True) + 1e-5).rsqrt()
    case = Case(None, "", "", {"y": (every, hat * gamma.double() + beta.double())}, LIMIT[kind])
    case.per = 20
    case.add("ours", lambda: captured(lambda: ours.layer_norm(x, gamma, beta, y, mean, rstd)), lambda _: {"y": y})
    case.add("torch", lambda: captured(lambda: lambda: torch.native_layer_norm(x, (d,), gamma, beta, 1e-5)))
    yield "forward", case
    case = Case(None, "", "", {"dgamma": (every, (dy.double() * hat).sum(0))}, LIMIT[kind])
    case.per, row = 20, (mean.view(-1, 1), rstd.view(-1, 1))
    case.add("ours", lambda: captured(lambda: ours.layer_norm_backward(x, dy, gamma, mean, rstd, dx, dgamma, dbeta)),
             lambda _: {"dgamma": dgamma})
    case.add("torch", lambda: captured(lambda: lambda: torch.ops.aten.native_layer_norm_backward(
        dy, x, (d,), *row, gamma, beta, [True] * 3)))
    yield "backward", case


# ---- softmax + top-k ----

def logits(n, vocab, kind, layout):
    dtype = TYPES[kind]
    if layout == "ascending":
        return (torch.arange(vocab, device="cuda") * 1e-3).expand(n, -1).contiguous().to(dtype)
    if layout == "equal":
        return torch.zeros(n, vocab, device="cuda", dtype=dtype)
    if layout == "two values":
        return (torch.rand(n, vocab, device="cuda") < 0.5).to(dtype)
    if layout == "sparse":  # 11 finite logits
        x = torch.full((n, vocab), -float("inf"), device="cuda", dtype=dtype)
        x[:, ::vocab // 10] = 1.0
        return x
    return draw(n, vocab, dtype=dtype, scale=3.0)


def softmax_topk(n, vocab, k, kind, layout):
    x = logits(n, vocab, kind, layout)
    index = torch.full((n, k), -7, device="cuda", dtype=torch.int32)
    prob, lse = nan(n, k), nan(n)
    rows = torch.tensor(sorted({0, n - 1, *random.sample(range(n), min(n, 6))}), device="cuda")
    xs = x[rows].double()
    value, place = torch.sort(xs, dim=1, descending=True, stable=True)
    total = torch.logsumexp(xs, 1)
    want = {"prob": (lambda t: t[rows], torch.exp(value[:, :k] - total[:, None])), "lse": (lambda t: t[rows], total),
            "wrong": (every, torch.zeros(1, device="cuda"))}  # indices that differ; any makes the error infinite
    case = Case(n * vocab * x.element_size(), "GB/s", "read", want, 1e-4)
    case.add("ours", lambda: ours.softmax_topk(x, k, index, prob, lse), lambda _: {
        "prob": prob, "lse": lse, "wrong": (index[rows] != place[:, :k]).sum()[None]})

    def ordered(p):
        return {"prob": torch.sort(p.float(), dim=1, descending=True)[0]}
    case.add("torch softmax + topk", lambda: lambda: torch.softmax(x, -1, dtype=torch.float32).topk(k),
             lambda out: ordered(out[0]))

    def select_then_sum(select):
        def run():
            top, at = select()
            return torch.exp(top.float() - torch.logsumexp(x, -1, keepdim=True).float()), at
        return run
    if k == 1:
        case.add("torch max + lse", lambda: select_then_sum(lambda: x.max(-1, keepdim=True)))
    chosen, where = torch.empty(n, k, device="cuda", dtype=x.dtype), torch.empty(n, k, device="cuda", dtype=torch.int32)
    code, stream = ours.KINDS[x.dtype] and 1, torch.cuda.current_stream().cuda_stream
    P = ours.P

    def with_lse(run, name, keep=()):
        sums = peers.package("Triton lse")(x, chosen)
        def both(_keep=keep):
            if run():
                raise RuntimeError("%s returned an error" % name)
            sums()
            return sums
        return both

    def read(sums):
        return {**ordered(sums.prob), "lse": sums.lse}
    fixed = [P(t.data_ptr()) for t in (x, where, chosen)]

    case.add("Triton lse alone", lambda: peers.package("Triton lse")(x, chosen), part=True)

    def radix():
        state = torch.zeros(1 << 20, device="cuda", dtype=torch.uint8)
        f = peers.package("FlashInfer radix top-k").peer_radix
        return with_lse(lambda: f(code, *fixed, n, k, vocab, P(state.data_ptr()), 0, P(stream)), "FlashInfer", state)

    def clusters():
        f = peers.package("FlashInfer cluster top-k").peer_clusters
        if k > 2048 or vocab % 8 or n * vocab > 5e8:
            raise RuntimeError("not for this shape")
        count = 1 if vocab < 8192 else 8 if n <= 32 else 4 if n < 128 else 2 if n < 256 else 1
        spill = torch.empty(n, 4 * (vocab // count) * count, device="cuda", dtype=torch.int32)
        cached = (227 * 1024 // 2 - (k + 5 + 3 * 256 + 8) * 4 - 1024) // 16  # as its Python computes it
        return with_lse(lambda: f(code, *fixed, n, k, vocab, P(spill.data_ptr()), count, cached, P(stream)), "FlashInfer",
                        spill)

    def cub():
        f, need, i64 = peers.package("CUB top-k").peer_cub, ours.SIZE(), ours.L
        more = (i64(n), i64(k), i64(vocab))
        size = ours.ctypes.byref(need)
        if f(code, *fixed, *more, None, size, P(stream)):
            raise RuntimeError("CUB returned an error")
        work = torch.empty(need.value + 256, device="cuda", dtype=torch.uint8)
        return with_lse(lambda: f(code, *fixed, *more, P(work.data_ptr()), size, P(stream)), "CUB", (work, need))
    if kind != "f16":
        case.add("FlashInfer radix + lse", radix, read)
        case.add("FlashInfer clusters + lse", clusters, read)
        case.add("CUB + lse", cub, read)
    yield "", case


# ---- decode and trees ----

def decode(n_seq, length, heads, kv_heads, d, store):
    k, v = (draw(n_seq, length, kv_heads, d, dtype=torch.bfloat16) for _ in range(2))
    q, out = draw(n_seq, heads, d, dtype=torch.bfloat16), nan(n_seq, heads, d, dtype=torch.bfloat16)
    p = torch.softmax(torch.einsum("hgd,thd->hgt", q[-1].double().view(kv_heads, -1, d), k[-1].double()) * d ** -0.5, -1)
    ref = torch.einsum("hgt,thd->hgd", p, v[-1].double()).reshape(heads, d)
    bits = {"bf16": 16, "int8": 8 + 32 / d, "int4": 4 + 32 / d}[store]  # codes have a scale and an offset per head
    limit = {"bf16": 1e-2, "int8": 3e-2, "int4": 3e-1}[store]
    case = Case(2 * n_seq * length * kv_heads * d * bits / 8, "GB/s", "read", {"o": (lambda t: t[-1], ref)}, limit)

    def cached(kind, target):
        cache = ours.KV(k, v, heads, kind)
        case.keep.append(cache)
        return cache.attend(q, target)
    case.add("ours", lambda: cached(store, out), lambda _: {"o": out})
    if store != "bf16":
        plain = nan(n_seq, heads, d, dtype=torch.bfloat16)
        case.add("ours, bf16 cache", lambda: cached("bf16", plain), lambda _: {"o": plain}, part=True)
    kt, vt = (t.transpose(1, 2).contiguous() for t in (k, v))
    def flat(t):
        return {"o": t.reshape(n_seq, heads, d)}
    for name, backend in (("cuDNN", "CUDNN_ATTENTION"), ("FA2 (torch)", "FLASH_ATTENTION")):
        case.add(name, lambda: lambda backend=backend: peers.sdpa(backend, q.view(n_seq, heads, 1, d), kt, vt), flat)
    if n_seq >= 16 and store == "bf16":
        case.add("FlashAttention-4", lambda: lambda f=peers.package("FlashAttention-4"): f(
            q.view(n_seq, 1, heads, d), k, v, softmax_scale=d ** -0.5)[0], flat)
    yield "", case
    for cache in case.keep:
        cache.close()


def tree(n_seq, length, rows, heads=32, kv_heads=8, d=128):
    bf16 = torch.bfloat16
    k, v = (draw(n_seq, length, kv_heads, d, dtype=bf16) for _ in range(2))
    dk, dv = (draw(n_seq, rows, kv_heads, d, dtype=bf16) for _ in range(2))
    q, out = draw(n_seq, rows, heads, d, dtype=bf16), nan(n_seq, rows, heads, d, dtype=bf16)
    parent = [-1 if i < 4 else (i - 4) // 2 for i in range(rows)]
    seen = torch.zeros(rows, length + rows, dtype=torch.bool)
    seen[:, :length] = True
    for i in range(rows):
        j = i
        while j >= 0:
            seen[i, length + j] = True
            j = parent[j]
    seen = seen.cuda()
    keys, values = (torch.cat(t, 1).transpose(1, 2).contiguous() for t in ((k, dk), (v, dv)))
    s = torch.einsum("rhgd,htd->hgrt", q[-1].double().view(rows, kv_heads, -1, d), keys[-1].double()) * d ** -0.5
    s.masked_fill_(~seen, -float("inf"))
    ref = torch.einsum("hgrt,htd->rhgd", torch.softmax(s, -1), values[-1].double()).reshape(rows, heads, d)
    case = Case(4 * n_seq * heads * rows * d * (length + rows), "TFLOP/s", "matmul", {"o": (lambda t: t[-1], ref)}, 1e-2)

    def cached():
        cache = ours.KV(k, v, heads, extra=rows)
        case.keep.append(cache)
        return cache.tree(parent, dk, dv, q, out)
    case.add("ours", cached, lambda _: {"o": out})
    turned, columns = q.transpose(1, 2).contiguous(), length + rows
    bias = torch.full((rows, -(-columns // 16) * 16), -float("inf"), device="cuda", dtype=bf16)  # rows of 32 bytes
    bias[:, :columns].masked_fill_(seen, 0.0)
    mask = bias[:, :columns].expand(n_seq, heads, rows, columns)
    repeated = [t.repeat_interleave(heads // kv_heads, 1) for t in (keys, values)]
    def back(t):
        return {"o": t.transpose(1, 2)}
    case.add("cuDNN, dense mask", lambda: lambda: peers.sdpa("CUDNN_ATTENTION", turned, keys, values, mask=mask), back)
    case.add("torch efficient, dense mask", lambda: lambda: peers.sdpa(
        "EFFICIENT_ATTENTION", turned, *repeated, mask=mask), back)
    yield "", case
    for cache in case.keep:
        cache.close()


# ---- ternary linear ----

_weights = {}


def ternary_weights(n_out, n_in):
    """Our codes, the same weights in bf16, and in PyTorch's int4 layout: code 8 is 0, one scale per 128."""
    if (n_out, n_in) not in _weights:
        code, scale, weight = ours.ternary_pack(draw(n_out, n_in, scale=0.02))
        def tinygemm():
            q = (torch.sign(weight) + 8).to(torch.uint8)
            packed = torch._convert_weight_to_int4pack(q[:, ::2] << 4 | q[:, 1::2], 8)
            scales = scale.float().t().contiguous().bfloat16()
            return packed, torch.stack((scales, torch.zeros_like(scales)), -1).contiguous()
        _weights[n_out, n_in] = code, scale, weight, weight.bfloat16(), tinygemm
    return _weights[n_out, n_in]


def ternary_linear(n_out, n_in, rows):
    code, scale, weight, wide, tinygemm = ternary_weights(n_out, n_in)
    x, y = draw(rows, n_in, dtype=torch.bfloat16), nan(rows, n_out, dtype=torch.bfloat16)
    out = torch.empty_like(y)
    sample = torch.tensor(sorted({0, rows - 1, *random.sample(range(rows), min(rows, 32))}), device="cuda")
    want = {"y": (lambda t: t[sample], x[sample].double() @ weight.double().t())}
    if rows <= 16:
        case = Case(n_out * n_in * 2.125 / 8 + 2 * rows * (n_in + n_out), "GB/s", "read", want, 1e-2)
    else:
        case = Case(2 * rows * n_in * n_out, "TFLOP/s", "matmul", want, 1e-2)
    case.add("ours", lambda: ours.ternary_linear(code, scale, x, y), lambda _: {"y": y})
    case.add("cuBLAS bf16", lambda: lambda: torch.mm(x, wide.t(), out=out), lambda t: {"y": t})
    if rows <= 64:  # meant for few rows
        case.add("torch int4 (tinygemm)", lambda: lambda w=tinygemm(): torch._weight_int4pack_mm(x, w[0], 128, w[1]),
                 lambda t: {"y": t})
    yield "", case


# ---- beam step, cost of a call, training step ----

def wall(call):
    import time
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for t in call():
        t.cpu()
    return (time.perf_counter() - begun) * 1e6


def beam_step(items, width, vocab):
    x = draw(items * width, vocab, scale=3.0)
    ref = torch.log_softmax(x[:items].double(), -1).topk(width)[0]
    whole = torch.log_softmax(x.double(), -1).view(items, -1).topk(width)[0]
    case = Case(4 * items * width * vocab, "GB/s", "read", {"first": (every, ref), "step": (every, whole)}, 1e-5)
    case.us = lambda call: call() if getattr(call, "timed", False) else wall(call)
    rows = x.view(items, width, vocab)
    before = torch.zeros(items, width, 1, device="cuda")

    def search():
        beams = ours.BeamSearch(items, width, x)
        def run():
            return (beams.seconds(24) - beams.seconds(4)) / 20 * 1e6
        run.timed = True
        run.beams = beams
        beams.seconds(2)
        return run

    def first_step(_):
        beams = case.methods["ours"].call.beams
        beams.seconds(1)
        return {"first": torch.from_numpy(beams.logprob).cuda()}
    case.add("ours", search, first_step)
    case.add("torch log_softmax + topk", lambda: lambda: (torch.log_softmax(rows, -1) + before).view(items, -1).topk(width),
             lambda out: {"step": out[0]})
    def select():
        top, _ = rows.topk(width)
        return (top - torch.logsumexp(rows, -1, keepdim=True) + before).view(items, -1).topk(width)
    case.add("torch topk + lse + topk", lambda: select, lambda out: {"step": out[0]})
    index, prob, lse = torch.empty(items * width, width, device="cuda", dtype=torch.int32), nan(items * width, width), \
        nan(items * width)
    top = ours.softmax_topk(x, width, index, prob, lse)
    def mixed():
        top()
        return (torch.log(prob).view(items, width, width) + before).view(items, -1).topk(width)
    case.add("our softmax_topk + torch.topk", lambda: mixed, lambda out: {"step": out[0]})
    case.note = "wall time with the copy of the result to the host"
    yield "", case


def call_overhead(what, n, d):
    import time
    calls = 200
    def host(call):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(calls):
            call()
        took = time.perf_counter() - begun
        torch.cuda.synchronize()
        return took / calls * 1e6
    case = Case(None, "", "", {}, 0)
    case.us, case.note = host, "host time until the call returns"
    if what == "softmax + top-k":
        x = draw(n, d)
        out = torch.empty(n, 40, device="cuda", dtype=torch.int32), nan(n, 40), nan(n)
        case.add("ours", lambda: ours.softmax_topk(x, 40, *out))
        case.add("torch", lambda: lambda: torch.softmax(x, -1).topk(40))
    else:
        x, dy, y, dx, gamma, beta, mean, rstd, dgamma, dbeta = layer_norm_inputs(n, d, "bf16", 0)
        ours.layer_norm(x, gamma, beta, y, mean, rstd)()
        row = mean.view(-1, 1), rstd.view(-1, 1)
        if what == "layer norm":
            case.add("ours", lambda: ours.layer_norm(x, gamma, beta, y, mean, rstd))
            case.add("torch", lambda: lambda: torch.native_layer_norm(x, (d,), gamma, beta, 1e-5))
        else:
            case.add("ours", lambda: ours.layer_norm_backward(x, dy, gamma, mean, rstd, dx, dgamma, dbeta))
            case.add("torch", lambda: lambda: torch.ops.aten.native_layer_norm_backward(
                dy, x, (d,), *row, gamma, beta, [True] * 3))
    yield "", case


KERNELS = {"attention": attention, "attention fp8": attention_fp8, "layer norm": layer_norm, "layer norm in a graph": layer_norm_graph,
           "softmax + top-k": softmax_topk, "decode": decode, "tree attention": tree, "ternary linear": ternary_linear,
           "beam step": beam_step, "call overhead": call_overhead}
