# SPDX-License-Identifier: Apache-2.0
"""test_torch.py - the PyTorch operators: opcheck, gradients against differences in double,
compilation, modules, patch()."""
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import touchstone as ts  # noqa: E402
import touchstone.torch as tt  # noqa: E402
from block import Block  # noqa: E402

torch.manual_seed(3)
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.float64: 1e-12}


def draw(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_(grad)


def near(a, b, dtype):
    torch.testing.assert_close(a, b.to(a.dtype), atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


ops = torch.ops.touchstone
x, w, b = draw(3, 5, 16, grad=True), draw(16, grad=True), draw(16, grad=True)
q, k, v = (draw(2, h, 7, 8, grad=True) for h in (4, 2, 2))
target = torch.tensor([[1, 2, 3, -100, 15]] * 3)
SAMPLES = {
    "layer_norm": (x, w, b, 1e-5),
    "layer_norm_backward": (x.detach(), draw(3, 5, 16), w.detach(), draw(3, 5), draw(3, 5)),
    "rms_norm": (x, draw(3, 5, 16, grad=True), w, 1e-6, 1),
    "rms_norm_backward": (x.detach(), draw(3, 5, 16), None, w.detach(), draw(3, 5), 0),
    "softmax_topk": (x.detach(), 4, 1.0),
    "flash_attention": (q, k, v, None, 0.3, True, 3, 0),
    "flash_attention_backward": tuple(t.detach() for t in (q, k, v)) + (
        draw(2, 4, 7, 8), draw(2, 4, 7, 8), draw(2, 4, 7), torch.tensor([5, 7], dtype=torch.int32), 0.3, False, 0, 0),
    "cross_entropy": (x, target, True, -100, 0.1, 1e-3, 0.0, True),
    "linear_cross_entropy": (x, draw(20, 16, grad=True), None, target, False, -100, 0.0, 0.0, 0.0, True),
    "ternary_linear": (x, draw(6, 16, grad=True)),
    "ternary_linear_backward": (x.detach(), draw(6, 16), draw(3, 5, 6)),
    "ternary_linear_packed": (x.detach(), *ts.ternary_pack(draw(6, 16))[:2]),
}


def test_every_operator_has_a_sample():
    assert set(SAMPLES) == {n for n in dir(ops) if not n.startswith("_") and n not in ("name", "dir")}


@pytest.mark.parametrize("name", SAMPLES)
def test_opcheck(name):
    torch.library.opcheck(getattr(ops, name).default, SAMPLES[name])


def double(*shape):
    return draw(*shape, dtype=torch.float64, grad=True)


@pytest.mark.parametrize("options", [{}, {"causal": True, "window": 3}, {"layout": "bnhd"}, {
    "kv_len": torch.tensor([2, 6], dtype=torch.int32)}])
def test_gradcheck_attention(options):
    shape = (lambda h, n: (2, n, h, 4)) if options.get("layout") == "bnhd" else (lambda h, n: (2, h, n, 4))
    torch.autograd.gradcheck(lambda *t: tt.flash_attention(*t, **options),
                             (double(*shape(4, 5)), double(*shape(2, 6)), double(*shape(2, 6))))


def test_gradcheck_norms():
    torch.autograd.gradcheck(lambda *t: tt.layer_norm(*t), (double(2, 3, 9), double(9), double(9)))
    for offset in (0, 1):
        torch.autograd.gradcheck(lambda x, w: tt.rms_norm(x, w, weight_offset=offset), (double(2, 3, 9), double(9)))
        torch.autograd.gradcheck(lambda x, w, r: tt.rms_norm(x, w, r, weight_offset=offset),
                                 (double(2, 3, 9), double(9), double(2, 3, 9)))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"z_loss": 0.1}, {"softcap": 3.0}])
def test_gradcheck_cross_entropy(reduction, options):
    target = torch.tensor([0, 4, -100, 2])
    torch.autograd.gradcheck(lambda x: tt.cross_entropy(x, target, reduction=reduction, **options), (double(4, 5),))
    if reduction != "none":
        torch.autograd.gradcheck(lambda h, w: tt.linear_cross_entropy(h, w, target, reduction=reduction, **options),
                                 (double(4, 3), double(5, 3)))
        torch.autograd.gradcheck(lambda h, w, b: tt.linear_cross_entropy(h, w, target, b, reduction=reduction),
                                 (double(4, 3), double(5, 3), double(5)))


def test_gradcheck_ternary():
    weight = draw(3, 7)
    torch.autograd.gradcheck(lambda x: tt.ternary_linear(x, weight), (double(2, 7),))
    x, dout, latent = draw(4, 7), draw(4, 3), draw(3, 7, grad=True)
    tt.ternary_linear(x, latent).backward(dout)
    near(latent.grad, dout.T @ x, torch.float32)  # straight through


DIFFERENTIABLE = [n for n, a in SAMPLES.items() if any(torch.is_tensor(t) and t.requires_grad for t in a)]
INPUTS = [(n, i) for n in DIFFERENTIABLE for i, t in enumerate(SAMPLES[n]) if torch.is_tensor(t) and t.requires_grad]


def test_every_operator_with_a_gradient_is_differentiated_twice():
    assert set(DIFFERENTIABLE) == {"layer_norm", "rms_norm", "flash_attention", "cross_entropy",
                                   "linear_cross_entropy", "ternary_linear"}


@pytest.mark.parametrize("way", ["operator", "function"])
@pytest.mark.parametrize("cube", [False, True])
@pytest.mark.parametrize("name,i", INPUTS)
def test_second_derivatives_are_refused(name, i, cube, way):
    """Also where another path to the input exists, so that autograd could leave the second derivative out."""
    args = list(SAMPLES[name])
    leaf = args[i].detach().clone().requires_grad_()
    args[i] = leaf * 1.5  # not a leaf, as within a model
    short = {"flash_attention": "attention", "ternary_linear": "ternary"}.get(name, name)
    call = getattr(ops, name).default if way == "operator" else getattr(tt, "_" + short)
    out = call(*args)
    y = out if torch.is_tensor(out) else out[0]
    first, = torch.autograd.grad((y ** 3 if cube else y).sum(), leaf, create_graph=True)
    expected = "touchstone.%s: second derivatives are not offered" % name
    if name == "layer_norm" and i == 2 and not cube:  # the bias of a sum: its gradient is constant
        second, = torch.autograd.grad(first.square().sum() + leaf.square().sum(), leaf, retain_graph=True)
        assert torch.equal(second, 2 * leaf)
    else:
        with pytest.raises(RuntimeError, match=expected):
            torch.autograd.grad(first.square().sum() + leaf.square().sum(), leaf, retain_graph=True)
    with pytest.raises(RuntimeError, match=expected):
        first.sum().backward()


def test_a_kept_graph_gives_the_same_gradient():
    x, w = draw(3, 16, grad=True), draw(16, grad=True)
    y = ts.layer_norm(x, w).square().sum()
    plain, kept = (torch.autograd.grad(y, (x, w), retain_graph=True, create_graph=k) for k in (False, True))
    assert all(torch.equal(a, b) for a, b in zip(plain, kept))


@pytest.mark.parametrize("dtype", DTYPES)
def test_against_torch(dtype):
    a, b = draw(3, 4, 64, dtype=dtype, grad=True), None
    weight, bias = draw(64, dtype=dtype, grad=True), draw(64, dtype=dtype, grad=True)
    b = a.detach().double().requires_grad_()
    wide = weight.detach().double().requires_grad_()
    dout = draw(3, 4, 64, dtype=dtype)
    ts.layer_norm(a, weight, bias).backward(dout)
    F.layer_norm(b, (64,), wide, bias.detach().double()).backward(dout.double())
    near(a.grad, b.grad, dtype)
    near(weight.grad, wide.grad, torch.bfloat16 if dtype == torch.float16 else dtype)
    q, k, v = (draw(2, 4, 9, 32, dtype=dtype) for _ in range(3))
    want = F.scaled_dot_product_attention(*(t.double() for t in (q, k, v)), is_causal=True)
    near(tt.attention(q, k, v, is_causal=True), want, dtype)


@pytest.mark.parametrize("n_q,n_k", [(5, 9), (9, 5), (6, 6), (1, 8)])
@pytest.mark.parametrize("gqa", [False, True])
def test_attention_is_a_drop_in(n_q, n_k, gqa):
    q, k, v = draw(2, 4, n_q, 16), draw(2, 2 if gqa else 4, n_k, 16), draw(2, 2 if gqa else 4, n_k, 16)
    for options in ({}, {"is_causal": True}, {"scale": 0.1}, {"attn_mask": draw(n_q, n_k) > 0}):
        near(tt.attention(q, k, v, enable_gqa=gqa, **options),
             F.scaled_dot_product_attention(q, k, v, enable_gqa=gqa, **options), torch.float32)
    near(tt.attention(q[0], k[0], v[0], enable_gqa=gqa), F.scaled_dot_product_attention(
        q[0], k[0], v[0], enable_gqa=gqa), torch.float32)


def test_float8():
    q, k, v = (draw(2, 4, 9, 16).to(torch.float8_e4m3fn) for _ in range(3))
    scales = [torch.rand(2, 4) + 0.5 for _ in range(3)]
    wide = [t.float() * s[:, :, None, None] for t, s in zip((q, k, v), scales)]
    out = ts.flash_attention_fp8(q, k, v, *scales, dtype="bfloat16")
    assert out.dtype == torch.bfloat16
    near(out, ts.flash_attention(*wide), torch.bfloat16)


def test_compile_has_no_graph_breaks():
    block = Block()
    tokens = torch.randint(0, 50, (2, 11))
    eager = block(tokens[:, :-1], tokens[:, 1:])
    eager.backward()
    want = {n: p.grad.clone() for n, p in block.named_parameters()}
    block.zero_grad()
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    loss = compiled(tokens[:, :-1], tokens[:, 1:])
    loss.backward()
    near(loss, eager, torch.float32)
    for name, p in block.named_parameters():
        near(p.grad, want[name], torch.float32)


def test_compile_of_the_plain_functions():
    def f(x, w, q):
        y = ts.layer_norm(x, w)
        return ts.rms_norm(y, w) + ts.flash_attention(q, q, q).sum() + ts.softmax_topk(x, 2).values.sum()
    x, w, q = draw(4, 16), draw(16), draw(1, 2, 5, 8)
    near(torch.compile(f, fullgraph=True, backend="aot_eager")(x, w, q), f(x, w, q), torch.float32)


def test_training_makes_the_loss_fall():
    torch.manual_seed(0)
    block = Block()
    tokens = torch.randint(0, 50, (4, 17))
    optimizer = torch.optim.AdamW(block.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = block(tokens[:, :-1], tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 3, losses


def test_autocast():
    q = draw(1, 2, 6, 16)
    block = Block()
    tokens = torch.randint(0, 50, (2, 7))
    with torch.autocast("cpu", torch.bfloat16):
        assert tt.attention(q, q, q).dtype == torch.bfloat16
        loss = block(tokens[:, :-1], tokens[:, 1:])
    loss.backward()
    assert loss.dtype == torch.float32 and block.head.weight.grad.dtype == torch.float32
    assert abs(loss.item() - block(tokens[:, :-1], tokens[:, 1:]).item()) < 0.1


def test_ternary_linear_packed_has_the_same_bits():
    layer = tt.TernaryLinear(300, 7)
    x = draw(4, 300)
    with torch.no_grad():
        before = layer(x)
        assert torch.equal(layer.pack()(x), before)
    assert layer.weight is None and sum(t.nbytes for t in layer.buffers()) < 7 * 300


def test_layer_norm_of_the_package_uses_no_graph_without_gradients():
    y = ts.layer_norm(draw(2, 8), draw(8))
    assert y.grad_fn is None
    assert ts.layer_norm(draw(2, 8, grad=True), draw(8)).grad_fn is not None
    out = torch.empty(2, 8)
    assert ts.layer_norm(draw(2, 8), out=out) is out


def test_kv_cache_of_torch():
    cache = ts.KVCache(1, 4, 2, 16, capacity=20, dtype="bfloat16", store="int8", page=4, framework="torch")
    s = cache.open()
    k, v = draw(9, 2, 16, dtype=torch.bfloat16), draw(9, 2, 16, dtype=torch.bfloat16)
    cache.append(0, s, k, v)
    q = draw(1, 4, 16, dtype=torch.bfloat16)
    got = cache.attend(0, s, q)
    kk, vv = cache.read(0, s)
    want = F.scaled_dot_product_attention(q.float()[None].transpose(1, 2), kk[None].transpose(1, 2),
                                          vv[None].transpose(1, 2), enable_gqa=True)
    near(got, want[0].transpose(0, 1), torch.bfloat16)


def test_patch_of_hugging_face():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(config)
    tokens = torch.randint(0, 97, (2, 12))
    plain = model(input_ids=tokens, labels=tokens)
    plain.loss.backward()
    want = {n: p.grad.clone() for n, p in model.named_parameters()}
    model.zero_grad()
    done = tt.patch(model)
    assert len(done) == 5 + 2 and done[-2:] == ("attention", "loss"), done
    ours = model(input_ids=tokens, labels=tokens)
    ours.loss.backward()
    near(ours.loss, plain.loss, torch.float32)
    near(ours.logits, plain.logits, torch.float32)
    for name, p in model.named_parameters():
        near(p.grad, want[name], torch.float32)
    model.eval()
    assert model.generate(tokens[:1, :4], max_new_tokens=5, do_sample=False).shape == (1, 9)
