# SPDX-License-Identifier: Apache-2.0
"""first.py - one call of each function, with NumPy arrays."""
import numpy as np

import touchstone as ts

rng = np.random.default_rng(0)
x = rng.standard_normal((4, 4096), dtype=np.float32)

y = ts.layer_norm(x, eps=1e-5)
print("layer_norm: rows have mean %.1e and deviation %.4f" % (abs(y.mean(1)).max(), y.std(1).mean()))

top = ts.softmax_topk(x, 3, temperature=0.8)
print("softmax_topk: the most probable of row 0 are", top.indices[0], "with", top.values[0].round(4))

q = rng.standard_normal((1, 8, 128, 64), dtype=np.float32)
k = v = rng.standard_normal((1, 2, 128, 64), dtype=np.float32)
out, lse = ts.flash_attention(q, k, v, causal=True, return_lse=True)
print("flash_attention: the first query sees one key:", np.allclose(out[0, 0, 0], v[0, 0, 0]))

loss = ts.cross_entropy(x, np.array([1, 2, 3, -100]))
print("cross_entropy: %.3f, and ln(4096) = %.3f" % (loss, np.log(4096)))

weight = rng.standard_normal((256, 4096), dtype=np.float32)
packed = ts.ternary_pack(weight)
print("ternary_pack: %d bytes become %d" % (weight.nbytes, packed.codes.nbytes + packed.scales.nbytes))
assert ts.ternary_linear(x, packed).shape == (4, 256)

table = rng.standard_normal((50, 50)).astype(np.float32)
beams = ts.beam_search(lambda strings: table[[s[-1] for s in strings]], [[7]], n_vocab=50, beam_width=3, max_new_tokens=4)
print("beam_search: best of token 7:", beams[0][0].tokens, "%.3f" % beams[0][0].logprob)
