# SPDX-License-Identifier: Apache-2.0
"""rows.py - every row of `make bench-peers`: a kernel, its shape and its dtype, most important first.

A row is (kernel, parameters). `name` prints it; --rows matches that name. No import of PyTorch: the table, the page
and the tests read this file on machines without it.
"""

CAUSAL, FULL = True, False

# batch, query heads, KV heads, length, head dim, causal, dtype, window
ATTENTION = [
    (4, 32, 32, 4096, 128, CAUSAL, "bf16", 0), (16, 32, 32, 1024, 128, CAUSAL, "bf16", 0),
    (8, 16, 16, 4096, 64, CAUSAL, "bf16", 0), (2, 32, 8, 3000, 128, CAUSAL, "bf16", 0),
    (4, 32, 8, 4096, 128, FULL, "bf16", 0), (32, 12, 12, 512, 64, CAUSAL, "bf16", 0),
    (1, 32, 32, 777, 128, CAUSAL, "bf16", 0), (1, 64, 8, 8192, 128, CAUSAL, "bf16", 0),
    (8, 16, 16, 2048, 128, FULL, "bf16", 0), (1, 32, 32, 16384, 128, CAUSAL, "bf16", 0),
    (32, 12, 12, 512, 64, FULL, "bf16", 0), (2, 32, 8, 3000, 128, CAUSAL, "f16", 0),
    (8, 16, 16, 2048, 64, FULL, "f16", 0), (1, 32, 8, 8192, 128, CAUSAL, "bf16", 1024),
    (4, 16, 16, 4096, 96, CAUSAL, "bf16", 0), (2, 16, 8, 4096, 256, CAUSAL, "bf16", 0),
]
ATTENTION_DIMS = [(2, 16, 16, 4096, d, CAUSAL, "bf16", 0) for d in (192, 80, 112, 72, 160)]
ATTENTION_F32 = [(2, 16, 16, 4096, d, CAUSAL, "f32", 0) for d in (64, 128)]
ATTENTION_FP8 = [(4, 32, 32, 4096, 128, CAUSAL, "fp8", 0), (4, 32, 8, 4096, 128, FULL, "fp8", 0),
                 (4, 32, 32, 4096, 128, FULL, "fp8", 0), (4, 32, 8, 4096, 128, CAUSAL, "fp8", 0)]
ATTENTION_FP8 += [(b, h, h, n, d, causal, "fp8", 0) for b, h, n, d in (
    (8, 16, 2048, 128), (1, 32, 16384, 128), (8, 16, 4096, 64), (2, 16, 4096, 256)) for causal in (CAUSAL, FULL)]

# rows, columns, dtype, padding between rows in elements
LAYER_NORM = [
    (2000, 12288, "bf16", 0), (2000, 12288, "f32", 0), (300, 16384, "bf16", 0), (300, 16384, "f32", 0),
    (4096, 5120, "f32", 0), (65536, 768, "f32", 0), (16384, 8192, "f32", 0), (8192, 4096, "bf16", 0),
    (4096, 5120, "bf16", 0), (4096, 5120, "bf16", 1), (1000, 24576, "bf16", 0), (32768, 1024, "bf16", 0),
    (16384, 8192, "bf16", 0), (65536, 768, "bf16", 0), (4096, 5120, "f16", 0), (65536, 768, "f16", 0),
    (2000, 12288, "f16", 0), (300, 16384, "f16", 0),
]
LAYER_NORM_GRAPH = [(1, 4096, "bf16")]  # captured, 20 calls per graph

# rows, vocabulary, k, dtype, layout of the logits
TOPK = [
    (1, 128256, 50, "f32", "random"), (32, 128256, 50, "f32", "random"), (256, 128256, 50, "f32", "random"),
    (512, 128256, 2048, "f32", "random"), (512, 128256, 2048, "bf16", "random"),
    (4096, 50257, 50, "f32", "random"), (4096, 50257, 50, "bf16", "random"),
    (256, 128256, 50, "f32", "ascending"), (256, 128256, 50, "bf16", "sparse"),
    (66, 128256, 50, "f32", "random"), (67, 128256, 50, "f32", "random"),
    (8, 128256, 256, "f32", "random"), (8, 128256, 257, "f32", "random"),
    (512, 128256, 1024, "f32", "random"), (512, 128256, 1025, "f32", "random"),
    (1024, 151936, 50, "f32", "random"), (128, 32000, 40, "f32", "random"), (128, 32000, 40, "bf16", "random"),
    (8, 262144, 64, "f32", "random"), (2048, 152064, 20, "bf16", "random"), (512, 128256, 1, "f32", "random"),
    (512, 128256, 1, "bf16", "random"), (4096, 50257, 256, "f32", "random"), (256, 128256, 50, "f32", "equal"),
    (256, 128256, 50, "bf16", "two values"),
]

# sequences, length, query heads, KV heads, head dim, what the cache stores
DECODE = [
    (16, 1000, 32, 8, 128, "bf16"), (1, 1000, 32, 8, 128, "bf16"), (1, 4096, 32, 8, 128, "bf16"),
    (16, 4096, 32, 8, 128, "bf16"), (16, 4096, 64, 8, 128, "bf16"), (128, 4096, 32, 1, 128, "bf16"),
    (16, 4096, 32, 8, 96, "bf16"), (16, 4096, 32, 8, 256, "bf16"), (16, 4096, 32, 8, 64, "bf16"),
    (64, 8192, 32, 8, 128, "bf16"), (64, 8192, 32, 8, 128, "int8"), (64, 8192, 32, 8, 128, "int4"),
    (16, 4096, 32, 1, 128, "bf16"), (128, 4096, 32, 8, 128, "bf16"), (1, 32768, 32, 8, 128, "bf16"),
    (16, 32768, 32, 8, 128, "bf16"), (128, 1000, 32, 8, 128, "bf16"), (128, 4096, 64, 8, 128, "bf16"),
    (16, 4096, 32, 32, 128, "bf16"), (1, 131072, 32, 8, 128, "bf16"),
]

TREE = [(1, 1024, 64), (8, 4096, 64), (1, 4096, 256)]  # sequences, cached tokens, drafted tokens each

# outputs, inputs, rows
TERNARY = [(o, i, r) for r in (64, 17, 256, 2048, 1, 4, 16, 9, 32, 65, 128, 512)
           for o, i in ((4096, 14336), (4096, 4096), (14336, 4096)) if r in (1, 4, 16, 64, 256, 2048) or o != 14336]

BEAM = [(32, 4, 128256), (8, 4, 32000)]  # items, beam width, vocabulary
OVERHEAD = [("layer norm", 1, 4096), ("layer norm backward", 1, 4096), ("softmax + top-k", 1, 32000)]
TRAIN = [(4, 512), (32, 512), (8, 2048)]  # sequences, tokens each


def interleave(*lists):
    """The first of each list, then the second of each: a run that is cut short has seen every kernel."""
    out, longest = [], max(map(len, lists))
    for i in range(longest):
        out += [rows[i] for rows in lists if i < len(rows)]
    return out


def rows():
    def of(kernel, shapes):
        return [(kernel, s) for s in shapes]
    attention = ATTENTION[:3] + ATTENTION[14:] + ATTENTION_F32[:1] + ATTENTION[3:14] + ATTENTION_DIMS + ATTENTION_F32[1:]
    return interleave(of("attention", attention), of("layer norm", LAYER_NORM), of("softmax + top-k", TOPK),
                      of("decode", DECODE), of("ternary linear", TERNARY), of("tree attention", TREE),
                      of("attention fp8", ATTENTION_FP8), of("beam step", BEAM),
                      of("layer norm in a graph", LAYER_NORM_GRAPH),
                      of("call overhead", OVERHEAD)) + of("training step", TRAIN)


def name(row):
    kernel, s = row
    if kernel.startswith("attention"):
        mask = ("causal" if s[5] else "full") + (" window %d" % s[7] if s[7] else "")
        return "%s %d,%d,%d,%d D %d %s %s" % (kernel, *s[:5], mask, s[6])
    if kernel == "layer norm":
        return "layer norm %d x %d %s%s" % (*s[:3], ", rows not aligned" if s[3] else "")
    if kernel == "softmax + top-k":
        return "softmax + top-k %d x %d, k %d, %s, %s" % s
    if kernel == "decode":
        return "decode %d x %d, heads %d/%d, D %d, %s" % s
    if kernel == "tree attention":
        return "tree attention %d x (%d + %d)" % s
    if kernel == "ternary linear":
        return "ternary linear %d x %d, %d rows" % s
    if kernel == "beam step":
        return "beam step %d x %d x %d" % s
    if kernel == "call overhead":
        return "call overhead %s %d x %d" % s
    if kernel == "training step":
        return "training step %d x %d" % s
    return "%s %s" % (kernel, " x ".join(map(str, s)))
