/* SPDX-License-Identifier: Apache-2.0 */
/* unit_attention_fp8.c [cuda] - what e4m3 codes stand for, and that no value is moved to another
 * key or column: where a query sees one key, o is that key's value, to the bit. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "cuda_module.h"
#include "dtype.h"
#include "isa_impls.h"
#include "rng.h"
#include "touchstone/attention_fp8.h"
#include "unit.h"

static bool           on_cuda;
static const unsigned masks[] = TS_CPU_MASKS_MATRIX;

enum { N_MASKS = sizeof masks / sizeof *masks };

/* ---- memory of the device ---- */

static void *device_copy(const void *host, size_t n)
{
    void *p = NULL;
    if (!on_cuda) p = malloc(n + 1);
    else assert_int_equal(ts_cuda_ops()->alloc(&p, n + 1), 0);
    assert_non_null(p);
    if (!on_cuda) memcpy(p, host, n);
    else assert_int_equal(ts_cuda_ops()->copy_in(p, host, n), 0);
    return p;
}

static void take_back(void *host, void *p, size_t n)
{
    if (host && on_cuda) assert_int_equal(ts_cuda_ops()->copy_out(host, p, n), 0);
    else if (host) memcpy(host, p, n);
    if (on_cuda) assert_int_equal(ts_cuda_ops()->release(p), 0);
    else free(p);
}

/* ---- codes ---- */

TEST(test_codes)
{
    for (int c = 0; c < 256; c++) {
        const int    e = c >> 3 & 15, m = c & 7;
        const double size = e ? ldexp(8 + m, e - 10) : ldexp(m, -9), v = c & 0x80 ? -size : size;
        const double got = ts_widen_e4m3((uint8_t)c);
        if ((c & 0x7f) == 0x7f) {
            assert_true(isnan(got));
            continue;
        }
        assert_true(got == v && signbit(got) == signbit(v));
        assert_int_equal(ts_narrow_e4m3(v), c);
        if ((c & 0x7f) == 0x7e) continue; /* the largest */
        const double next = ts_widen_e4m3((uint8_t)(c + 1)), half = (v + next) / 2;
        assert_int_equal(ts_narrow_e4m3(half), c % 2 ? c + 1 : c); /* a tie goes to even */
        assert_int_equal(ts_narrow_e4m3(nextafter(half, v)), c);
        assert_int_equal(ts_narrow_e4m3(nextafter(half, next)), c + 1);
    }
    assert_int_equal(ts_narrow_e4m3(1e9), 0x7e);
    assert_int_equal(ts_narrow_e4m3(-INFINITY), 0xfe);
    assert_int_equal(ts_narrow_e4m3(NAN), 0x7f);
}

/* ---- one key for each query ---- */

typedef struct problem {
    ts_attention_dims d;
    uint8_t          *q, *k, *v;
    float            *scale, *o; /* scale: 2^head, of all three */
    int64_t           n, heads;
} problem;

static problem make(int64_t n, int64_t head_dim, ts_attention_layout layout)
{
    const int64_t heads = 2, batch = 2;
    problem       p = { .heads = batch * heads, .n = batch * heads * n * head_dim };
    p.d = (ts_attention_dims) { .dtype = TS_F32,
                                .layout = layout,
                                .causal = 1,
                                .n_batch = batch,
                                .n_q = n,
                                .n_k = n,
                                .n_q_head = heads,
                                .n_kv_head = heads,
                                .head_dim = head_dim,
                                .window = 1,
                                .scale = 0.01 };
    p.q = malloc((size_t)p.n), p.k = malloc((size_t)p.n), p.v = malloc((size_t)p.n);
    p.o = malloc((size_t)p.n * sizeof *p.o), p.scale = malloc((size_t)p.heads * sizeof *p.scale);
    assert_true(p.q && p.k && p.v && p.o && p.scale);
    for (int64_t i = 0; i < p.n; i++) {
        p.q[i] = 0; /* scores are 0, and the weight exactly 1 */
        p.k[i] = ts_narrow_e4m3(ts_normal(2, i));
        p.v[i] = (uint8_t)(ts_bits(3, i) % 0x7f | (ts_bits(4, i) & 0x80)); /* no NaN */
    }
    for (int64_t h = 0; h < p.heads; h++) p.scale[h] = (float)ldexp(1, (int)h);
    return p;
}

static void attend(problem *p)
{
    const size_t                n = (size_t)p->n, o_bytes = n * sizeof *p->o;
    const size_t                scale_bytes = (size_t)p->heads * sizeof *p->scale;
    ts_flash_attention_fp8_args a = { .d = p->d };
    ts_exec                     x = { .device = on_cuda ? TS_CUDA : TS_CPU };
    memset(p->o, 0xff, o_bytes);
    a.q = device_copy(p->q, n), a.k = device_copy(p->k, n), a.v = device_copy(p->v, n);
    a.q_scale = a.k_scale = a.v_scale = device_copy(p->scale, scale_bytes);
    a.o = device_copy(p->o, o_bytes);
    assert_int_equal(ts_flash_attention_fp8_workspace(&a, &x, &x.workspace_bytes), TS_OK);
    char *work = calloc(1, x.workspace_bytes + 1);
    x.workspace = device_copy(work, x.workspace_bytes);
    assert_int_equal(ts_flash_attention_fp8(&a, &x), TS_OK);
    take_back(p->o, a.o, o_bytes);
    take_back(NULL, (void *)a.q, n), take_back(NULL, (void *)a.k, n);
    take_back(NULL, (void *)a.v, n), take_back(NULL, (void *)a.q_scale, scale_bytes);
    take_back(NULL, x.workspace, x.workspace_bytes);
    free(work);
}

static int64_t head_of(const problem *p, int64_t i)
{
    const int64_t row = i / p->d.head_dim, n = p->d.n_k, heads = p->d.n_kv_head;
    return p->d.layout == TS_BHND ? row / n : row / (n * heads) * heads + row % heads;
}

TEST(test_one_key)
{
    static const int64_t head_dims[] = { 1, 16, 40, 64, 96, 128, 192, 256 };
    for (size_t i = 0; i < sizeof head_dims / sizeof *head_dims; i++)
        for (int m = 0; m < (on_cuda ? 1 : N_MASKS); m++) {
            problem p = make(on_cuda ? 333 : 70, head_dims[i], i % 2 ? TS_BNHD : TS_BHND);
            ts_cpu_set_mask(masks[m]);
            attend(&p);
            for (int64_t e = 0; e < p.n; e++)
                assert_true((double)p.o[e] ==
                            ts_widen_e4m3(p.v[e]) * (double)p.scale[head_of(&p, e)]);
            free(p.q), free(p.k), free(p.v), free(p.o), free(p.scale);
        }
    ts_cpu_set_mask(~0u);
}

int main(int argc, char **argv)
{
    on_cuda = argc > 1 && !strcmp(argv[1], "cuda");
    if (on_cuda && ts_cuda_unavailable_reason()) {
        printf("skipped: %s\n", ts_cuda_unavailable_reason());
        return 77;
    }
    return unit_run();
}
