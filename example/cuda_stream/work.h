// SPDX-License-Identifier: Apache-2.0
// work.h - what one stream of stream.cu does: layer norm, causal attention, softmax and top-k.
//
// The same three calls run on the CPU and on a device; only ts_exec and the memory differ.
#ifndef EXAMPLE_WORK_H
#define EXAMPLE_WORK_H

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <touchstone/attention.h>
#include <touchstone/layernorm.h>
#include <touchstone/softmax_topk.h>

constexpr int TOKENS = 384, HEADS = 4, DIM = 64, WIDTH = HEADS * DIM, TOP = 5;
constexpr int MATRIX = TOKENS * WIDTH, FLOATS = 3 * MATRIX + 2 * WIDTH + (2 + 2 * TOP) * TOKENS;

inline void must(ts_status s, const char *what)
{
    if (s != TS_OK) std::fprintf(stderr, "stream: %s: %s\n", what, ts_status_text(s)), exit(1);
}

inline void must(cudaError_t e, const char *what)
{
    if (e) std::fprintf(stderr, "stream: %s: %s\n", what, cudaGetErrorString(e)), exit(1);
}

// The three calls of one stream, with pointers into `memory`, which is the CPU's or the device's.
struct work {
    float                    *memory; // [FLOATS]
    ts_layernorm_forward_args norm;
    ts_flash_attention_args   attention;
    ts_softmax_topk_args      top;
    ts_exec                   exec;

    work(float *m, ts_device device, void *stream) : memory(m), exec {}
    {
        float *x = m, *y = x + MATRIX, *o = y + MATRIX, *gamma = o + MATRIX, *beta = gamma + WIDTH;
        float *mean = beta + WIDTH, *rstd = mean + TOKENS, *prob = rstd + TOKENS;
        norm = { TS_F32, TOKENS, WIDTH, WIDTH, 1e-5, x, gamma, beta, y, mean, rstd };
        ts_attention_dims d {};
        d.dtype = TS_F32, d.layout = TS_BNHD, d.causal = 1, d.scale = 1 / std::sqrt(DIM);
        d.n_batch = 1, d.n_q = d.n_k = TOKENS, d.n_q_head = d.n_kv_head = HEADS, d.head_dim = DIM;
        attention = { d, y, y, y, nullptr, o, nullptr };
        auto *index = reinterpret_cast<int32_t *>(prob + TOP * TOKENS);
        top = { TS_F32, TOKENS, WIDTH, WIDTH, TOP, 8.0, o, index, prob, nullptr };
        exec.device = device, exec.stream = stream;
    }
    size_t workspace() const // for the largest of the three: they run one behind the other
    {
        size_t a, b, c;
        must(ts_layernorm_forward_workspace(&norm, &exec, &a), "workspace of layer norm");
        must(ts_flash_attention_workspace(&attention, &exec, &b), "workspace of attention");
        must(ts_softmax_topk_workspace(&top, &exec, &c), "workspace of top-k");
        return std::max({ a, b, c });
    }
    void run() const // with TS_CUDA it returns as soon as the work is on the stream
    {
        must(ts_layernorm_forward(&norm, &exec), "layer norm");
        must(ts_flash_attention(&attention, &exec), "attention");
        must(ts_softmax_topk(&top, &exec), "top-k");
    }
};

#endif
