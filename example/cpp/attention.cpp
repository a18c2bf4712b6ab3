// SPDX-License-Identifier: Apache-2.0
// attention.cpp - flash attention over bfloat16 tensors from C++17, forward and backward, next to
// the textbook computation; then the last query once more, over a KV cache.
#include "bfloat16.hpp"
#include "touchstone.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <touchstone/attention.h>

using tensor = std::vector<bfloat16>;  // [tokens][heads][dim]
using reference = std::vector<double>; // the same, exact

constexpr int HEADS = 4, TOKENS = 96, DIM = 64, SIZE = HEADS * TOKENS * DIM;
const double  SCALE = 1 / std::sqrt(DIM);

static tensor numbers(double step)
{
    tensor t(SIZE);
    for (int i = 0; i < SIZE; i++) t[i] = bfloat16(static_cast<float>(std::sin(step * i * i)));
    return t;
}

struct gradients {
    reference o, dq, dk, dv;
};

// Causal attention and its gradient by the definition, with the whole matrix of probabilities.
static gradients textbook(const tensor &q, const tensor &k, const tensor &v, const tensor &dout)
{
    gradients g { reference(SIZE), reference(SIZE), reference(SIZE), reference(SIZE) };
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < TOKENS; i++) {
            const int at = (i * HEADS + h) * DIM;
            double    p[TOKENS], dp[TOKENS], sum = 0, delta = 0;
            for (int j = 0; j <= i; j++) {
                const int other = (j * HEADS + h) * DIM;
                double    score = dp[j] = 0;
                for (int d = 0; d < DIM; d++) {
                    score += static_cast<double>(q[at + d]) * k[other + d];
                    dp[j] += static_cast<double>(dout[at + d]) * v[other + d];
                }
                sum += p[j] = std::exp(SCALE * score);
            }
            for (int j = 0; j <= i; j++) delta += (p[j] /= sum) * dp[j];
            for (int j = 0; j <= i; j++)
                for (int d = 0; d < DIM; d++) {
                    const int    other = (j * HEADS + h) * DIM + d;
                    const double ds = SCALE * p[j] * (dp[j] - delta);
                    g.o[at + d] += p[j] * v[other];
                    g.dq[at + d] += ds * k[other];
                    g.dk[other] += ds * q[at + d];
                    g.dv[other] += p[j] * dout[at + d];
                }
        }
    return g;
}

// A bfloat16 has 8 significant bits: probabilities and results are rounded to them.
static bool close(const char *name, const tensor &got, const reference &want)
{
    double worst = 0, largest = 0;
    for (int i = 0; i < SIZE; i++) {
        worst = std::max(worst, std::fabs(got[i] - want[i]));
        largest = std::max(largest, std::fabs(want[i]));
    }
    const bool ok = worst <= largest / 128;
    std::printf("%-2s %s within 1/128 of its largest element\n", name, ok ? "is" : "IS NOT");
    return ok;
}

int main()
try {
    const tensor        q = numbers(0.37), k = numbers(0.73), v = numbers(1.3), dout = numbers(0.9);
    tensor              o(SIZE), dq(SIZE), dk(SIZE), dv(SIZE), one(HEADS * DIM);
    std::vector<float>  lse(HEADS * TOKENS);
    touchstone::context cpu(2);

    ts_attention_dims d {};
    d.dtype = TS_BF16, d.layout = TS_BNHD, d.causal = 1, d.scale = SCALE;
    d.n_batch = 1, d.n_q = d.n_k = TOKENS, d.n_q_head = d.n_kv_head = HEADS, d.head_dim = DIM;
    const ts_flash_attention_args forward { d,       q.data(), k.data(),  v.data(),
                                            nullptr, o.data(), lse.data() };
    cpu.call(ts_flash_attention, ts_flash_attention_workspace, forward, "forward");
    const ts_flash_attention_backward_args backward { d,         q.data(),    k.data(),   v.data(),
                                                      o.data(),  dout.data(), lse.data(), nullptr,
                                                      dq.data(), dk.data(),   dv.data() };
    cpu.call(ts_flash_attention_backward, ts_flash_attention_backward_workspace, backward,
             "backward");
    const gradients g = textbook(q, k, v, dout);
    const bool      agree[] = { close("o", o, g.o), close("dq", dq, g.dq), close("dk", dk, g.dk),
                                close("dv", dv, g.dv) };
    bool            ok = std::all_of(agree, agree + 4, [](bool b) { return b; });

    // The cache holds the same keys and values: its attention for the last token is o's last row.
    ts_kv_dims c {};
    c.n_layer = c.n_seq_max = 1, c.n_q_head = c.n_kv_head = HEADS, c.head_dim = DIM;
    c.capacity = c.max_call_tokens = TOKENS, c.scale = SCALE, c.io_dtype = c.store_dtype = TS_BF16;
    touchstone::kv_cache cache(c, cpu);
    const auto           seq = cache.open();
    const int            row = (TOKENS - 1) * HEADS * DIM;
    cache.append(0, seq, TOKENS, k.data(), v.data());
    cache.attend(0, seq, 1, &q[row], one.data());
    double worst = 0;
    for (int i = 0; i < HEADS * DIM; i++)
        worst = std::max<double>(worst, std::fabs(one[i] - o[row + i]));
    std::printf("the cache gives %s last row\n", worst <= 1. / 128 ? "the same" : "ANOTHER");

    try { // an invalid call throws, and has written nothing
        auto wide = forward;
        wide.d.head_dim = 300;
        cpu.call(ts_flash_attention, ts_flash_attention_workspace, wide, "head_dim 300");
        ok = false;
    } catch (const touchstone::error &e) {
        std::printf("caught: %s\n", e.what());
    }
    return ok && worst <= 1. / 128 ? 0 : 1;
} catch (const std::exception &e) {
    std::fprintf(stderr, "attention: %s\n", e.what());
    return 1;
}
