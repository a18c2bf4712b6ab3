# SPDX-License-Identifier: Apache-2.0
"""grad_jax.py - a step of gradient descent under jax.jit."""
import jax
import jax.numpy as jnp

import touchstone as ts

key = jax.random.PRNGKey(0)
table = 0.1 * jax.random.normal(key, (64, 32))
tokens = jax.random.randint(key, (4, 17), 0, 64)


def loss(table, tokens):
    h = ts.layer_norm(table[tokens[:, :-1]])
    q = h.reshape(4, 16, 4, 8)
    h = h + ts.flash_attention(q, q, q, causal=True, layout="bnhd").reshape(h.shape)
    return ts.linear_cross_entropy(ts.rms_norm(h), table, tokens[:, 1:])


@jax.jit
def step(table):
    value, grad = jax.value_and_grad(loss)(table, tokens)
    return value, table - 2 * grad


for i in range(61):
    value, table = step(table)
    if i % 20 == 0:
        print("step %d: loss %.3f" % (i, value))
assert value < jnp.log(64) / 2, "the loss did not fall"
