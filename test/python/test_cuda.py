# SPDX-License-Identifier: Apache-2.0
"""test_cuda.py - the package on CUDA tensors of PyTorch: results, streams, graphs, compilation,
gradients, threads."""
import threading

import numpy as np
import pytest
import reference as ref

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import touchstone as ts  # noqa: E402
import touchstone.torch as tt  # noqa: E402
from block import Block  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available() or ts.cuda_unavailable_reason() is not None,
                                reason="no GPU, or no CUDA module")
FAST = [torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}


def draw(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape, dtype=torch.float64).to(dtype).cuda().requires_grad_(grad)


def near(got, want, tolerance):
    ref.close(got.detach().double().cpu().numpy(), np.asarray(want.detach().double().cpu()
              if isinstance(want, torch.Tensor) else want, np.float64), tolerance)


def double(*tensors):
    return [t.detach().double().cpu().numpy() for t in tensors]


# ---- every function, as (tensors -> results); the tensors are drawn once ----

def cache_step(x):
    """Appends and attends, over pages of int8."""
    cache = ts.KVCache(1, 4, 2, 16, capacity=64, max_seqs=3, page=16, store="int8", framework="torch", device="cuda")
    a, b = cache.open(), cache.open()
    kv = x[:20, :32].reshape(20, 2, 16).contiguous()
    cache.append(0, [a, b], kv, kv + 1, counts=[13, 7])
    c = cache.fork(a)
    cache.append(0, c, kv[:5], kv[5:10])
    q = x[:3, :64].reshape(3, 4, 16).contiguous()
    tree = cache.attend_tree(0, c, q, kv[:3], kv[3:6], [-1, 0, 0])
    return cache.attend(0, [a, b, c], q, counts=[1, 1, 1]), tree, *cache.read(0, c)


CALLS = {
    "layer_norm": lambda x: (ts.layer_norm(x, x[0].contiguous(), x[1].contiguous()),),
    "rms_norm": lambda x: ts.rms_norm(x, x[0].contiguous(), x),
    "softmax_topk": lambda x: ts.softmax_topk(x, 7),
    "flash_attention": lambda x: ts.flash_attention(*(x.view(1, 2, -1, 64),) * 3, causal=True, return_lse=True),
    "cross_entropy": lambda x: ts.cross_entropy(x, torch.arange(x.shape[0], device="cuda"), return_grad=True),
    "linear_cross_entropy": lambda x: ts.linear_cross_entropy(x, 2 * x, torch.arange(x.shape[0], device="cuda"),
                                                              return_grad=True),
    "ternary_pack": lambda x: ts.ternary_pack(x)[:2],
    "ternary_unpack": lambda x: (ts.ternary_unpack(ts.ternary_pack(x)),),
    "ternary_linear": lambda x: (ts.ternary_linear(x, x), ts.ternary_linear(x, ts.ternary_pack(x))),
    "KVCache": cache_step,
}


@pytest.mark.parametrize("dtype", FAST)
@pytest.mark.parametrize("shape", [(4096,), (3, 5, 129), (0, 8), (7, 1)])
def test_norms(shape, dtype):
    x, r, w, b = (draw(*s, dtype=dtype) for s in (shape, shape, shape[-1:], shape[-1:]))
    near(ts.layer_norm(x, w, b), ref.layer_norm(*double(x, w, b), 1e-5), TOLERANCE[dtype])
    out = torch.empty_like(x)
    assert ts.layer_norm(x, w, b, out=out) is out
    near(out, ref.layer_norm(*double(x, w, b), 1e-5), TOLERANCE[dtype])
    y, total = ts.rms_norm(x, w, r, weight_offset=1)
    assert torch.equal(total, x + r)
    near(y, ref.rms_norm(double(total)[0], double(w)[0] + 1, 1e-6), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", FAST)
@pytest.mark.parametrize("k", [0, 1, 50, 300])
def test_softmax_topk(dtype, k):
    x = 3 * draw(2, 3, 257, dtype=dtype)
    x[0, 0, ::2] = -torch.inf
    values, indices, lse = ts.softmax_topk(x, k, temperature=0.7)
    z = double(x)[0] / 0.7
    near(lse, ref.lse(z), 1e-5)
    order = np.argsort(-z, -1, kind="stable")[..., :k]
    assert (indices.cpu().numpy()[..., :order.shape[-1]] == order).all()
    near(values[..., :order.shape[-1]], np.exp(np.take_along_axis(z, order, -1) - ref.lse(z)[..., None]), 1e-5)


@pytest.mark.parametrize("dtype", FAST)
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"causal": True, "window": 5}, {"kv_len": [0, 9]}])
@pytest.mark.parametrize("layout", ["bhnd", "bnhd"])
def test_flash_attention(dtype, options, layout):
    q, k, v = (draw(2, h, n, 64, dtype=dtype) for h, n in ((6, 13), (3, 17), (3, 17)))
    want, lse = ref.attention(*double(q, k, v), **options)
    if "kv_len" in options:
        options = dict(options, kv_len=torch.tensor(options["kv_len"], dtype=torch.int32, device="cuda"))
    if layout == "bnhd":
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))  # copied, as they are not contiguous
    out, got = ts.flash_attention(q, k, v, return_lse=True, layout=layout, **options)
    near(out if layout == "bhnd" else out.transpose(1, 2), want, TOLERANCE[dtype])
    near(got, lse, TOLERANCE[dtype])


def test_cross_entropy():
    h, w, bias = draw(9, 24), draw(51, 24), draw(51)
    target = torch.tensor([0, 50, 3, -100, 7, 8, 9, 10, 11], device="cuda")
    x = double(h)[0] @ double(w)[0].T + double(bias)[0]
    loss, counted = ref.cross_entropy(x, target.cpu().numpy())
    logits = torch.tensor(x, dtype=torch.float32, device="cuda")
    out = torch.empty((), device="cuda")
    assert ts.cross_entropy(logits, target, out=out) is out
    near(out, loss.sum() / counted.sum(), 1e-5)
    near(ts.cross_entropy(logits, target, reduction="none"), loss, 1e-5)
    near(ts.linear_cross_entropy(h, w, target, bias, reduction="none"), loss, 1e-4)
    mean, dh, dw = ts.linear_cross_entropy(h, w, target, bias, return_grad=True)
    near(mean, loss.sum() / counted.sum(), 1e-4)
    p = np.exp(x - ref.lse(x)[:, None])
    p[np.arange(9), np.maximum(target.cpu().numpy(), 0)] -= 1
    p *= counted[:, None] / counted.sum()
    near(dh, p @ double(w)[0], 1e-3)
    near(dw, p.T @ double(h)[0], 1e-3)


def test_a_target_outside_the_vocabulary_is_nan_on_a_device():
    assert ts.cross_entropy(draw(2, 8), torch.tensor([1, 8], device="cuda")).isnan()


def test_ternary():
    w, x = draw(5, 300), draw(2, 3, 300)
    packed = ts.ternary_pack(w)
    want = ref.ternary(double(w)[0].astype(np.float32))
    near(ts.ternary_unpack(packed), want, 0)
    y = ts.ternary_linear(x, packed)
    near(y, double(x)[0] @ want.T, 1e-4)
    assert torch.equal(ts.ternary_linear(x, w), y)


@pytest.mark.parametrize("store", ["float32", "bfloat16", "int8", "int4"])
@pytest.mark.parametrize("page", [0, 16])
def test_kv_cache(store, page):
    options = dict(capacity=64, max_seqs=3, page=page, store=store)
    x = draw(40, 96)
    results = []
    for device in ("cuda", "cpu"):
        cache = ts.KVCache(2, 4, 2, 16, framework="torch", device=device, **options)
        a, b = cache.open(), cache.open()
        kv = x[:, :64].to(device).view(40, 2, 2, 16)
        k, v = kv[:, 0].contiguous(), kv[:, 1].contiguous()
        cache.append(1, [a, b], k, v, counts=[25, 15])
        c = cache.fork(a)
        cache.append(1, c, k[:2], v[:2])
        q = x[:4, 32:].to(device).reshape(4, 4, 16).contiguous()
        out = torch.empty_like(q)
        got, lse = cache.attend(1, [a, c], q, counts=[2, 2], return_lse=True, out=out)
        assert got is out
        tree = cache.attend_tree(1, c, q[:3], k[:3], v[:3], [-1, 0, 0])
        results.append([t.cpu() for t in (got, lse, tree, *cache.read(1, c))])
        cache.close()
    for got, want in zip(*results):
        near(got, want, 1e-4 if store in ("float32", "bfloat16") else 1e-3)


# ---- streams ----

BUSY = 200_000_000  # cycles: about 0.1 s


@pytest.mark.parametrize("name", CALLS)
def test_a_call_waits_for_nothing_and_runs_on_the_current_stream(name):
    x = draw(64, 128)
    want = [t.clone() for t in CALLS[name](x)]
    side, late = torch.cuda.Stream(), torch.zeros_like(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        CALLS[name](x)  # so the stream has its workspace, and torch its memory
        side.synchronize()
        torch.cuda._sleep(BUSY)
        late.copy_(x, non_blocking=True)
        got = CALLS[name](late)
        assert not side.query(), "the call waited for the device"
    side.synchronize()
    for a, b in zip(got, want):
        assert torch.allclose(a.float(), b.float(), rtol=1e-4, atol=1e-6)


def test_streams_have_workspaces_of_their_own():
    x = [draw(512, 1024) for _ in range(4)]
    f = lambda t: ts.linear_cross_entropy(t, t, torch.arange(512, device="cuda"), return_grad=True)  # noqa: E731
    want = [f(t) for t in x]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in x]
    got = [None] * len(x)
    for _ in range(5):
        for i, (s, t) in enumerate(zip(streams, x)):
            with torch.cuda.stream(s):
                got[i] = f(t)
    torch.cuda.synchronize()
    for a, b in zip(got, want):
        for g, w in zip(a, b):
            assert torch.allclose(g, w, rtol=1e-4, atol=1e-6)


def test_threads_may_share_a_stream():
    x = [draw(256, 512) for _ in range(4)]
    f = lambda t: ts.linear_cross_entropy(t, t, torch.arange(256, device="cuda"), return_grad=True)  # noqa: E731
    want, wrong = [f(t) for t in x], []

    def work(t, right):
        for _ in range(50):
            if not all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(f(t), right)):
                wrong.append(t)
    threads = [threading.Thread(target=work, args=a) for a in zip(x, want)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_memory_is_that_of_torch_and_stays():
    x = draw(64, 4096)
    ts.layer_norm(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
    for _ in range(200):
        for f in (ts.layer_norm, ts.rms_norm, lambda t: ts.softmax_topk(t, 50)):
            f(x)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before[0]
    assert before[1] - torch.cuda.mem_get_info()[0] <= 32 << 20


def test_page_locked_tensors_are_of_the_cpu():
    x, w = torch.randn(3, 8).pin_memory(), torch.ones(8)
    near(ts.layer_norm(x, w, w), ref.layer_norm(x.double().numpy(), 1, 1, 1e-5), 1e-5)


# ---- CUDA graphs ----

@pytest.mark.parametrize("name", [n for n in CALLS if n != "KVCache"])
def test_cuda_graph(name):
    x = draw(64, 128)
    fresh = torch.randn_like(x)
    want = [t.clone() for t in CALLS[name](fresh)]
    CALLS[name](x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # of a stream of its own: the workspace is made during the capture
        got = CALLS[name](x)
    for t in got:
        t.zero_()
    x.copy_(fresh)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    for a, b in zip(got, want):
        assert torch.allclose(a.float(), b.float(), rtol=1e-4, atol=1e-6)


def block_and_tokens():
    torch.manual_seed(2)
    return Block(64, 96, 2).cuda(), torch.randint(0, 96, (2, 33), device="cuda")


def test_a_training_step_as_a_graph():
    block, tokens = block_and_tokens()
    optimizer = torch.optim.SGD(block.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = block(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()
        return loss
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            first = step().item()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        loss = step()
    for _ in range(40):
        graph.replay()
    torch.cuda.synchronize()
    assert loss.item() < first / 2, (first, loss.item())


# ---- operators ----

def samples():
    x, w, b = draw(3, 5, 16, grad=True), draw(16, grad=True), draw(16, grad=True)
    q, k, v = (draw(2, h, 7, 8, grad=True) for h in (4, 2, 2))
    target = torch.tensor([[1, 2, 3, -100, 15]] * 3, device="cuda")
    return {
        "layer_norm": (x, w, b, 1e-5),
        "layer_norm_backward": (x.detach(), draw(3, 5, 16), w.detach(), draw(3, 5), draw(3, 5)),
        "rms_norm": (x, draw(3, 5, 16, grad=True), w, 1e-6, 1),
        "rms_norm_backward": (x.detach(), draw(3, 5, 16), None, w.detach(), draw(3, 5), 0),
        "softmax_topk": (x.detach(), 4, 1.0),
        "flash_attention": (q, k, v, None, 0.3, True, 3, 0),
        "flash_attention_backward": tuple(t.detach() for t in (q, k, v)) + (
            draw(2, 4, 7, 8), draw(2, 4, 7, 8), draw(2, 4, 7), torch.tensor([5, 7], dtype=torch.int32, device="cuda"),
            0.3, False, 0, 0),
        "cross_entropy": (x, target, True, -100, 0.1, 1e-3, 0.0, True),
        "linear_cross_entropy": (x, draw(20, 16, grad=True), None, target, False, -100, 0.0, 0.0, 0.0, True),
        "ternary_linear": (x, draw(6, 16, grad=True)),
        "ternary_linear_backward": (x.detach(), draw(6, 16), draw(3, 5, 6)),
        "ternary_linear_packed": (x.detach(), *ts.ternary_pack(draw(6, 16))[:2]),
    }


OPERATORS = ("layer_norm layer_norm_backward rms_norm rms_norm_backward softmax_topk flash_attention "
             "flash_attention_backward cross_entropy linear_cross_entropy ternary_linear ternary_linear_backward "
             "ternary_linear_packed").split()


@pytest.mark.parametrize("name", OPERATORS)
def test_opcheck(name):
    torch.library.opcheck(getattr(torch.ops.touchstone, name).default, samples()[name])


@pytest.mark.parametrize("dtype", FAST)
def test_gradients_against_torch_in_double(dtype):
    """CUDA kernels have no float64, so gradcheck is for the CPU; here torch's own gradients are the measure."""
    tolerance = TOLERANCE[dtype] * 5
    x, w, b, dout = (draw(*s, dtype=dtype) for s in ((33, 128), (128,), (128,), (33, 128)))

    def gradients(f, *inputs, out=dout):
        leaves = [t.detach().clone().requires_grad_() for t in inputs]
        f(*leaves).backward(out.to(leaves[0].dtype) if out is not None else None)
        return [t.grad for t in leaves]

    def compare(ours, theirs, *inputs, out=dout):
        for got, want in zip(gradients(ours, *inputs, out=out), gradients(theirs, *(t.double() for t in inputs), out=out)):
            scale = max(1.0, want.abs().max().item())
            near(got / scale, want / scale, tolerance)
    compare(ts.layer_norm, lambda x, w, b: F.layer_norm(x, (128,), w, b), x, w, b)
    compare(lambda x, w: ts.rms_norm(x, w), lambda x, w: F.rms_norm(x, (128,), w, 1e-6), x, w)
    q, k, v, dq = (draw(2, h, 70, 64, dtype=dtype) for h in (4, 2, 2, 4))
    compare(lambda q, k, v: ts.flash_attention(q, k, v, causal=True),
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), q, k, v, out=dq)
    target = torch.randint(0, 128, (33,), device="cuda")
    compare(lambda x: ts.cross_entropy(x, target), lambda x: F.cross_entropy(x, target), x, out=None)
    weight = draw(128, 128, dtype=dtype)
    compare(lambda x, w: ts.linear_cross_entropy(x, w, target), lambda x, w: F.cross_entropy(x @ w.T, target), x,
            weight, out=None)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compile_has_no_graph_breaks(mode):
    torch._dynamo.reset()
    block, tokens = block_and_tokens()
    eager = block(tokens[:, :-1], tokens[:, 1:])
    eager.backward()
    want = {n: p.grad.clone() for n, p in block.named_parameters()}
    compiled = torch.compile(block, fullgraph=True, mode=mode)
    for _ in range(3):  # reduce-overhead records a graph in the second and replays it in the third
        block.zero_grad()
        torch.compiler.cudagraph_mark_step_begin()
        loss = compiled(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
    near(loss, eager, 1e-3)
    for name, p in block.named_parameters():
        near(p.grad, want[name], 1e-2)


def test_autocast():
    block, tokens = block_and_tokens()
    with torch.autocast("cuda", torch.bfloat16):
        q = draw(1, 2, 6, 64)
        assert tt.attention(q, q, q).dtype == torch.bfloat16
        loss = block(tokens[:, :-1], tokens[:, 1:])
    loss.backward()
    assert loss.dtype == torch.float32 and block.head.weight.grad.dtype == torch.float32
    assert abs(loss.item() - block(tokens[:, :-1], tokens[:, 1:]).item()) < 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_patch_of_hugging_face(dtype):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(vocab_size=97, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(config).to("cuda", dtype)
    tokens = torch.randint(0, 97, (2, 12), device="cuda")
    plain = model(input_ids=tokens, labels=tokens)
    plain.loss.backward()
    want = {n: p.grad.clone() for n, p in model.named_parameters()}
    model.zero_grad()
    assert tt.patch(model)[-2:] == ("attention", "loss")
    ours = model(input_ids=tokens, labels=tokens)
    ours.loss.backward()
    tolerance = 1e-3 if dtype == torch.float32 else 3e-2
    near(ours.loss, plain.loss, tolerance)
    near(ours.logits, plain.logits, tolerance)
    for name, p in model.named_parameters():
        near(p.grad, want[name], tolerance)
    model.eval()
    assert model.generate(tokens[:1, :4], max_new_tokens=5, do_sample=False).shape == (1, 9)
