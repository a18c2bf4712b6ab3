/* SPDX-License-Identifier: Apache-2.0 */
/* train_bench.c [N_BATCH N_TOKEN]... - times training steps on a CUDA device: time, tokens per
 * second, share of the matrix rate, and time per part.
 *
 * The model has 0.6 billion weights, float and ternary. train_peer.py measures the same in PyTorch.
 * */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "clock.h"
#include "rng.h"
#include "touchstone/touchstone.h"
#include "train.h"

enum { WARM = 4, STEPS = 20 };

static const double RATE = 989e12; /* of dense bf16 products, by the maker's word */

static const ts_adamw how = { 1e-4, 0.9, 0.95, 1e-8, 0.1, 1 };

static ts_net_options options(int64_t n_batch, int64_t n_token, bool ternary)
{
    ts_net_options o = { .dims = { .n_layer = 28,
                                   .width = 1024,
                                   .n_head = 16,
                                   .n_kv_head = 8,
                                   .head_dim = 128,
                                   .n_ffn = 3072,
                                   .n_vocab = 151936,
                                   .n_context = n_token,
                                   .norm_eps = 1e-6,
                                   .rope_theta = 1e6 },
                         .ternary = ternary,
                         .device = TS_CUDA,
                         .dtype = TS_BF16,
                         .n_batch = n_batch,
                         .n_token = n_token };
    ts_net_dims_set(&o.dims);
    return o;
}

/* Of a step: six for each weight and token, and attention's four products and ten, the half of them
 * that is causal. */
static double flops(const ts_net *n, const ts_net_options *o)
{
    const ts_decoder_dims *d = &o->dims;
    const double           rows = (double)(o->n_batch * o->n_token);
    return 6 * (double)ts_net_matrix_count(n) * rows +
           14.0 / 2 * rows * (double)(o->n_token * d->n_head * d->head_dim * d->n_layer);
}

static ts_status steps(ts_net *n, const ts_net_batch *b, int64_t rows, int n_step, double *loss)
{
    ts_status s = TS_OK;
    double    norm;
    for (int i = 1; !s && i <= n_step; i++) {
        ts_net_score score = { 0 };
        ts_net_zero(n);
        s = ts_net_grad(n, b, 1 / (double)rows, &score);
        if (!s) s = ts_net_step(n, &how, i, &norm);
        *loss = score.nll / (double)rows;
    }
    return s;
}

static ts_status measure(ts_net *n, const ts_net_options *o, const ts_net_batch *b)
{
    const int64_t rows = o->n_batch * o->n_token;
    double        loss;
    if (!ts_net_begin(n)) return TS_E_CAPACITY;
    ts_status s = steps(n, b, rows, WARM, &loss);
    if (s) return s;
    const double begun = ts_seconds();
    s = steps(n, b, rows, STEPS, &loss);
    const double took = (ts_seconds() - begun) / STEPS, rate = flops(n, o) / took;
    if (s) return s;
    printf("%-7s %lld x %lld  %8.3f ms a step  %9.0f tokens/s  %6.1f TFLOP/s, %4.1f %% of %.0f  "
           "loss %.4f\n",
           o->ternary ? "ternary" : "float", (long long)o->n_batch, (long long)o->n_token,
           1e3 * took, (double)rows / took, 1e-12 * rate, 100 * rate / RATE, 1e-12 * RATE, loss);
    ts_net_time time[TS_NET_TIMES];
    const int   n_part = ts_net_profile(n, b, &how, time);
    double      sum = 0;
    for (int i = 0; i < n_part; i++) sum += time[i].ms;
    for (int i = 0; i < n_part; i++)
        printf("    %-22s %8.3f ms  %4.1f %%\n", time[i].part, time[i].ms, 100 * time[i].ms / sum);
    printf("    %-22s %8.3f ms, launched one by one\n", "all", sum);
    fflush(stdout);
    return n_part ? TS_OK : TS_E_DEVICE;
}

static bool bench(int64_t n_batch, int64_t n_token, bool ternary)
{
    const ts_net_options o = options(n_batch, n_token, ternary);
    const int64_t        rows = n_batch * n_token;
    char                 why[TS_MODEL_WHY];
    ts_net              *n = NULL;
    ts_net_batch         b = { malloc((size_t)rows * sizeof *b.input),
                               malloc((size_t)rows * sizeof *b.target) };
    ts_status            s = b.input && b.target ? TS_OK : TS_E_CAPACITY;
    bool                 made = false;
    for (int64_t i = 0; !s && i < rows; i++) {
        b.input[i] = (int32_t)(ts_bits(1, i) % (uint64_t)o.dims.n_vocab);
        b.target[i] = (int32_t)(ts_bits(1, i + 1) % (uint64_t)o.dims.n_vocab);
    }
    if (!s) made = ts_net_create(&o, 1, &n, why);
    if (!s && !made) fprintf(stderr, "train_bench: %s\n", why);
    if (made) s = measure(n, &o, &b);
    if (s) fprintf(stderr, "train_bench: %s\n", ts_status_text(s));
    ts_net_free(&n);
    free(b.input);
    free(b.target);
    return made && !s;
}

int main(int argc, char **argv)
{
    const char *absent = ts_cuda_unavailable_reason();
    bool        ok = true;
    if (absent) {
        printf("skipped: %s\n", absent);
        return 77;
    }
    for (int i = 1; i + 1 < argc || i == 1; i += 2) {
        const int64_t n_batch = argc > 2 ? atoll(argv[i]) : 4;
        const int64_t n_token = argc > 2 ? atoll(argv[i + 1]) : 512;
        ok = bench(n_batch, n_token, false) && bench(n_batch, n_token, true) && ok;
    }
    return ok ? 0 : 1;
}
