/* SPDX-License-Identifier: Apache-2.0 */
/* unit_attention_entry.c - tests the calls that the API of attention rejects, and the size of its
 * workspace. */
#include "unit_attention.h"

static ts_attention_dims dims(int64_t n_q, int64_t n_k, int64_t head_dim)
{
    return one_head(TS_F32, n_q, n_k, head_dim);
}

/* ---- refusals: the status is the promised one, and no output has changed ---- */

static float   in[64], out[64], more[64], most[64];
static int32_t lengths[1] = { 4 };
static ts_exec on_cpu;

static ts_attention_dims small_dims(void)
{
    ts_attention_dims d = dims(4, 4, 2);
    d.n_q_head = d.n_kv_head = 2;
    return d;
}

static ts_status forward_with(ts_attention_dims d, const int32_t *kv_len)
{
    const ts_flash_attention_args a = { d, in, in, in, kv_len, out, NULL };
    size_t                        n = 77;
    char                          workspace[1 << 19];
    const ts_exec x = { .workspace = workspace, .workspace_bytes = sizeof workspace };
    memset(out, 0xa5, sizeof out);
    const ts_status s = ts_flash_attention(&a, &x);
    assert_int_equal(ts_flash_attention_workspace(&a, &x, &n), s);
    for (size_t i = 0; s && i < sizeof out; i++) assert_int_equal(((unsigned char *)out)[i], 0xa5);
    assert_true(s == TS_OK || n == 77);
    return s;
}

static ts_status backward_with(ts_attention_dims d, const int32_t *kv_len)
{
    const ts_flash_attention_backward_args a = {
        .d = d,
        .q = in,
        .k = in,
        .v = in,
        .o = in,
        .dout = in,
        .lse = in,
        .kv_len = kv_len,
        .dq = out,
        .dk = more,
        .dv = most,
    };
    size_t        n = 77;
    static char   workspace[1 << 20];
    const ts_exec x = { .workspace = workspace, .workspace_bytes = sizeof workspace };
    memset(out, 0xa5, sizeof out);
    memset(more, 0xa5, sizeof more);
    memset(most, 0xa5, sizeof most);
    const ts_status s = ts_flash_attention_backward(&a, &x);
    assert_int_equal(ts_flash_attention_backward_workspace(&a, &x, &n), s);
    for (size_t i = 0; s && i < sizeof out; i++) {
        assert_int_equal(((unsigned char *)out)[i], 0xa5);
        assert_int_equal(((unsigned char *)more)[i], 0xa5);
        assert_int_equal(((unsigned char *)most)[i], 0xa5);
    }
    assert_true(s == TS_OK || n == 77);
    return s;
}

static void refuse(ts_attention_dims d, ts_status status)
{
    assert_int_equal(forward_with(d, lengths), status);
    assert_int_equal(backward_with(d, lengths), status);
}

TEST(test_bad_dims)
{
    const ts_attention_dims good = small_dims();
    ts_attention_dims       d;
    refuse(good, TS_OK);
    d = good, d.layout = (ts_attention_layout)2, refuse(d, TS_E_ARG);
    d = good, d.causal = 2, refuse(d, TS_E_ARG);
    d = good, d.scale = NAN, refuse(d, TS_E_ARG);
    d = good, d.scale = -INFINITY, refuse(d, TS_E_ARG);
    d = good, d.window = 3, refuse(d, TS_E_ARG);
    d = good, d.causal = 1, d.window = -1, refuse(d, TS_E_SHAPE);
    d = good, d.n_batch = -1, refuse(d, TS_E_SHAPE);
    d = good, d.n_q = -1, refuse(d, TS_E_SHAPE);
    d = good, d.n_k = -1, refuse(d, TS_E_SHAPE);
    d = good, d.n_q_head = 3, refuse(d, TS_E_SHAPE);
    d = good, d.n_q_head = 0, refuse(d, TS_E_SHAPE);
    d = good, d.n_kv_head = 0, refuse(d, TS_E_SHAPE);
    d = good, d.head_dim = 0, refuse(d, TS_E_SHAPE);
    d = good, d.head_dim = 257, refuse(d, TS_E_SHAPE);
    d = good, d.tile_q = -1, refuse(d, TS_E_SHAPE);
    d = good, d.tile_k = -1, refuse(d, TS_E_SHAPE);
    d = good, d.n_q = INT64_MAX / 2, refuse(d, TS_E_SHAPE);
    d = good, d.n_k = INT64_MAX / 16, refuse(d, TS_E_SHAPE);
    d = good, d.n_batch = INT64_MAX / 64, refuse(d, TS_E_SHAPE);
    d = good, d.dtype = TS_U8, refuse(d, TS_E_DTYPE);
    d = good, d.dtype = TS_I32, refuse(d, TS_E_DTYPE);
}

TEST(test_bad_lengths)
{
    const int32_t wrong[] = { -1, 5 }, right[] = { 0, 4 };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(forward_with(small_dims(), &wrong[i]), TS_E_ARG);
        assert_int_equal(backward_with(small_dims(), &wrong[i]), TS_E_ARG);
        assert_int_equal(forward_with(small_dims(), &right[i]), TS_OK);
        assert_int_equal(backward_with(small_dims(), &right[i]), TS_OK);
    }
}

TEST(test_bad_pointers)
{
    const ts_flash_attention_args          f = { small_dims(), in, in, in, NULL, out, NULL };
    const ts_flash_attention_backward_args g = {
        .d = small_dims(),
        .q = in,
        .k = in,
        .v = in,
        .o = in,
        .dout = in,
        .lse = in,
        .dq = out,
        .dk = more,
        .dv = most,
    };
    ts_flash_attention_args          a;
    ts_flash_attention_backward_args b;
    size_t                           n;
    assert_int_equal(ts_flash_attention(NULL, &on_cpu), TS_E_ARG);
    assert_int_equal(ts_flash_attention(&f, NULL), TS_E_ARG);
    assert_int_equal(ts_flash_attention_workspace(&f, &on_cpu, NULL), TS_E_ARG);
    assert_int_equal(ts_flash_attention_workspace(&f, &on_cpu, &n), TS_OK);
    assert_int_equal(ts_flash_attention(&f, &on_cpu), n ? TS_E_WORKSPACE : TS_OK);
    a = f, a.q = NULL, assert_int_equal(ts_flash_attention(&a, &on_cpu), TS_E_ARG);
    a = f, a.k = NULL, assert_int_equal(ts_flash_attention(&a, &on_cpu), TS_E_ARG);
    a = f, a.v = NULL, assert_int_equal(ts_flash_attention(&a, &on_cpu), TS_E_ARG);
    a = f, a.o = NULL, assert_int_equal(ts_flash_attention(&a, &on_cpu), TS_E_ARG);
    assert_int_equal(ts_flash_attention_backward(NULL, &on_cpu), TS_E_ARG);
    assert_int_equal(ts_flash_attention_backward(&g, NULL), TS_E_ARG);
    assert_int_equal(ts_flash_attention_backward_workspace(&g, &on_cpu, NULL), TS_E_ARG);
    assert_int_equal(ts_flash_attention_backward_workspace(&g, &on_cpu, &n), TS_OK);
    assert_int_equal(ts_flash_attention_backward(&g, &on_cpu), n ? TS_E_WORKSPACE : TS_OK);
    const void **const inputs[] = { &b.q, &b.k, &b.v, &b.o, &b.dout, &b.lse };
    void **const       outputs[] = { &b.dq, &b.dk, &b.dv };
    for (int i = 0; i < 9; i++) {
        b = g;
        if (i < 6) *inputs[i] = NULL;
        else *outputs[i - 6] = NULL;
        assert_int_equal(ts_flash_attention_backward_workspace(&b, &on_cpu, &n), TS_E_ARG);
        assert_int_equal(ts_flash_attention_backward(&b, &on_cpu), TS_E_ARG);
    }
}

/* A byte less than requested is rejected, under every mask that needs a workspace. */
TEST(test_short_workspace)
{
    ts_flash_attention_args a = { small_dims(), in, in, in, NULL, out, NULL };
    for (int m = 0; m < 2 * N_MASKS; m++) {
        ts_exec x = { .n_threads = 2 };
        size_t  n;
        a.d.dtype = m < N_MASKS ? TS_F32 : TS_BF16;
        ts_cpu_set_mask(masks[m % N_MASKS]);
        assert_int_equal(ts_flash_attention_workspace(&a, &x, &n), TS_OK);
        if (n == 0) continue;
        char *const memory = workspace_of(&x, n);
        x.workspace_bytes--;
        memset(out, 0xa5, sizeof out);
        assert_int_equal(ts_flash_attention(&a, &x), TS_E_WORKSPACE);
        assert_int_equal(((unsigned char *)out)[0], 0xa5);
        free(memory);
    }
    ts_cpu_set_mask(~0u);
}

/* Tensors without elements may be NULL; the others are still written. */
TEST(test_null_where_empty)
{
    for (int m = 0; m < 2 * N_MASKS; m++) {
        ts_flash_attention_args          f = { .d = small_dims(), .q = in, .o = out };
        ts_flash_attention_backward_args g = { .d = small_dims(), .k = in, .v = in };
        const ts_dtype                   type = m < N_MASKS ? TS_F32 : TS_BF16;
        const size_t                     n_bytes = 16 * ts_format_of(type)->n_bytes;
        static char                      workspace[1 << 20];
        const ts_exec x = { .workspace = workspace, .workspace_bytes = sizeof workspace };
        ts_cpu_set_mask(masks[m % N_MASKS]);
        f.d.dtype = g.d.dtype = type;
        f.d.n_k = g.d.n_q = 0, g.dk = more, g.dv = most;
        memset(out, 0xa5, sizeof out);
        memset(more, 0xa5, sizeof more);
        memset(most, 0xa5, sizeof most);
        assert_int_equal(ts_flash_attention(&f, &x), TS_OK);
        assert_int_equal(ts_flash_attention_backward(&g, &x), TS_OK);
        for (size_t i = 0; i < n_bytes; i++)
            assert_true(!((char *)out)[i] && !((char *)more)[i] && !((char *)most)[i]);
        f = (ts_flash_attention_args) { .d = small_dims() };
        g = (ts_flash_attention_backward_args) { .d = small_dims() };
        f.d.dtype = g.d.dtype = type;
        f.d.n_batch = g.d.n_batch = 0;
        assert_int_equal(ts_flash_attention(&f, &x), TS_OK);
        assert_int_equal(ts_flash_attention_backward(&g, &x), TS_OK);
    }
    ts_cpu_set_mask(~0u);
}

/* Linear in the length, whatever the number of threads: 4 MiB and twice the tensors as floats. */
TEST(test_workspace_bound)
{
    for (int64_t n = 1; n <= 8192; n *= 8)
        for (int64_t dim = 1; dim <= 256; dim *= 4)
            for (int i = 0; i < 6; i++) {
                const int         threads = (const int[]) { 1, 16, 256 }[i % 3];
                ts_attention_dims d = dims(n, n, dim);
                d.n_q_head = 8, d.n_kv_head = 2, d.dtype = i < 3 ? TS_F32 : TS_BF16;
                const ts_flash_attention_args          a = { d, in, in, in, NULL, out, NULL };
                const ts_flash_attention_backward_args b = { d,  in,   in,  in,   in,  in,
                                                             in, NULL, out, more, most };
                const ts_exec                          x = { .n_threads = threads };
                const size_t q = (size_t)(8 * n * dim) * 4, k = (size_t)(2 * n * dim) * 4;
                size_t       got;
                assert_int_equal(ts_flash_attention_workspace(&a, &x, &got), TS_OK);
                assert_true(got <= ((size_t)4 << 20) + 2 * (2 * q + 2 * k));
                assert_int_equal(ts_flash_attention_backward_workspace(&b, &x, &got), TS_OK);
                assert_true(got <= ((size_t)4 << 20) + 2 * (4 * q + 4 * k));
            }
}
