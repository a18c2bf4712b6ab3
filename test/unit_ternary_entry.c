/* SPDX-License-Identifier: Apache-2.0 */
/* unit_ternary_entry.c - tests the calls that the API of ternary layers rejects, and the size of
 * their workspaces. */
#include "unit_ternary.h"

enum { OUT = 6, IN = 10, ROWS = 4 };

static float    w[OUT * IN], in[ROWS * IN], dy[ROWS * OUT];
static uint8_t  code[OUT * GROUP_BYTES];
static uint16_t scale[OUT];
static float    y[ROWS * OUT], dx[ROWS * IN], dw[OUT * IN], wt[OUT * IN];
static uint8_t  code_out[OUT * GROUP_BYTES];
static uint16_t scale_out[OUT];
static char     room[1 << 20];

/* Calls by number, so that each rejection is looked for in all of them. */
enum pass { PACK, UNPACK, LINEAR, PACKED, BACKWARD, N_PASSES };

static ts_ternary_linear_dims good(void)
{
    return (ts_ternary_linear_dims) { .dtype = TS_F32, .n_out = OUT, .n_in = IN, .n_rows = ROWS };
}

typedef union args {
    ts_ternary_pack_args            pack;
    ts_ternary_unpack_args          unpack;
    ts_ternary_linear_args          linear;
    ts_ternary_linear_packed_args   packed;
    ts_ternary_linear_backward_args backward;
} args;

static args args_of(enum pass p, ts_ternary_linear_dims d)
{
    args a;
    memset(&a, 0, sizeof a);
    if (p == PACK) a.pack = (ts_ternary_pack_args) { d, w, code_out, scale_out };
    if (p == UNPACK) a.unpack = (ts_ternary_unpack_args) { d, code, scale, wt };
    if (p == LINEAR) a.linear = (ts_ternary_linear_args) { d, w, in, y };
    if (p == PACKED) a.packed = (ts_ternary_linear_packed_args) { d, code, scale, in, y };
    if (p == BACKWARD) a.backward = (ts_ternary_linear_backward_args) { d, w, in, dy, dx, dw };
    return a;
}

static const ts_run_fn runs[] = {
    (ts_run_fn)ts_ternary_pack,
    (ts_run_fn)ts_ternary_unpack,
    (ts_run_fn)ts_ternary_linear,
    (ts_run_fn)ts_ternary_linear_packed,
    (ts_run_fn)ts_ternary_linear_backward,
};
static const ts_workspace_fn asks[] = {
    (ts_workspace_fn)ts_ternary_pack_workspace,
    (ts_workspace_fn)ts_ternary_unpack_workspace,
    (ts_workspace_fn)ts_ternary_linear_workspace,
    (ts_workspace_fn)ts_ternary_linear_packed_workspace,
    (ts_workspace_fn)ts_ternary_linear_backward_workspace,
};

typedef struct buffer {
    void  *at;
    size_t n_bytes;
} buffer;

static const buffer outputs[] = { { y, sizeof y },
                                  { dx, sizeof dx },
                                  { dw, sizeof dw },
                                  { wt, sizeof wt },
                                  { code_out, sizeof code_out },
                                  { scale_out, sizeof scale_out } };

/* The query says the same as the call; refused, neither writes. */
static ts_status run(enum pass p, const args *a)
{
    const ts_exec x = { .n_threads = 2, .workspace = room, .workspace_bytes = sizeof room };
    size_t        n = 77;
    memset(code, 0x55, sizeof code);
    for (int i = 0; i < 6; i++) memset(outputs[i].at, 0xff, outputs[i].n_bytes);
    const ts_status s = runs[p](a, &x);
    assert_int_equal(asks[p](a, &x, &n), s);
    assert_true(s == TS_OK || n == 77);
    for (int i = 0; s && i < 6; i++) assert_untouched(outputs[i].at, outputs[i].n_bytes);
    return s;
}

static void refuse(ts_ternary_linear_dims d, int first, ts_status status)
{
    for (enum pass p = (enum pass)first; p < N_PASSES; p++) {
        const args a = args_of(p, d);
        assert_int_equal(run(p, &a), status);
    }
}

TEST(test_bad_dims)
{
    ts_ternary_linear_dims d;
    refuse(good(), PACK, TS_OK);
    d = good(), d.n_out = -1, refuse(d, PACK, TS_E_SHAPE);
    d = good(), d.n_in = -1, refuse(d, PACK, TS_E_SHAPE);
    d = good(), d.n_rows = -1, refuse(d, LINEAR, TS_E_SHAPE);
    d = good(), d.n_out = INT64_MAX, refuse(d, PACK, TS_E_SHAPE);
    d = good(), d.n_in = INT64_MAX, refuse(d, PACK, TS_E_SHAPE);
    d = good(), d.n_in = INT64_MAX / 64, refuse(d, PACK, TS_E_SHAPE);
    d = good(), d.n_rows = INT64_MAX / 8, refuse(d, LINEAR, TS_E_SHAPE);
    d = good(), d.n_out = 0, d.n_in = INT64_MAX, refuse(d, PACK, TS_E_SHAPE);
    d = good(), d.dtype = TS_U8, refuse(d, LINEAR, TS_E_DTYPE);
    d = good(), d.dtype = TS_I32, refuse(d, LINEAR, TS_E_DTYPE);
    d = good(), d.dtype = (ts_dtype)99, refuse(d, LINEAR, TS_E_DTYPE);
    d = good(), d.dtype = (ts_dtype)99, d.n_rows = -1; /* not looked at */
    for (enum pass p = PACK; p <= UNPACK; p++) {
        const args a = args_of(p, d);
        assert_int_equal(run(p, &a), TS_OK);
    }
}

/* Every pointer of every pass in turn; the dims come first and the pointers fill the rest. */
TEST(test_bad_pointers)
{
    static const size_t sizes[] = { sizeof(ts_ternary_pack_args), sizeof(ts_ternary_unpack_args),
                                    sizeof(ts_ternary_linear_args),
                                    sizeof(ts_ternary_linear_packed_args),
                                    sizeof(ts_ternary_linear_backward_args) };
    const ts_exec       x = { .workspace = room, .workspace_bytes = sizeof room };
    size_t              n;
    for (enum pass p = PACK; p < N_PASSES; p++) {
        const args   a = args_of(p, good());
        const size_t first = sizeof(ts_ternary_linear_dims);
        assert_int_equal(runs[p](NULL, &x), TS_E_ARG);
        assert_int_equal(runs[p](&a, NULL), TS_E_ARG);
        assert_int_equal(asks[p](NULL, &x, &n), TS_E_ARG);
        assert_int_equal(asks[p](&a, NULL, &n), TS_E_ARG);
        assert_int_equal(asks[p](&a, &x, NULL), TS_E_ARG);
        for (size_t at = first; at < sizes[p]; at += sizeof(void *)) {
            args b = a;
            memset((char *)&b + at, 0, sizeof(void *));
            assert_int_equal(run(p, &b), TS_E_ARG);
        }
    }
}

/* What has no elements may be NULL. */
TEST(test_null_where_empty)
{
    for (int m = 0; m < N_MASKS; m++)
        for (enum pass p = PACK; p < N_PASSES; p++) {
            args a;
            memset(&a, 0, sizeof a);
            ts_cpu_set_mask(masks[m]);
            assert_int_equal(run(p, &a), TS_OK);
            a.linear.d.n_out = 5;
            assert_int_equal(run(p, &a), TS_OK);
            a.linear.d.n_out = 0, a.linear.d.n_in = 5;
            assert_int_equal(run(p, &a), TS_OK);
            a.linear.d.n_in = 0, a.linear.d.n_rows = 5;
            assert_int_equal(run(p, &a), TS_OK);
        }
    ts_cpu_set_mask(~0u);
}

TEST(test_short_workspace)
{
    for (int m = 0; m < N_MASKS; m++)
        for (enum pass p = PACK; p < N_PASSES; p++) {
            const args a = args_of(p, good());
            ts_exec    x = { .n_threads = 2 };
            size_t     n;
            ts_cpu_set_mask(masks[m]);
            for (int i = 0; i < 6; i++) memset(outputs[i].at, 0xff, outputs[i].n_bytes);
            assert_int_equal(asks[p](&a, &x, &n), TS_OK);
            if (n == 0) continue;
            assert_int_equal(runs[p](&a, &x), TS_E_WORKSPACE);
            char *const memory = workspace_of(&x, n);
            x.workspace_bytes--;
            assert_int_equal(runs[p](&a, &x), TS_E_WORKSPACE);
            for (int i = 0; i < 6; i++) assert_untouched(outputs[i].at, outputs[i].n_bytes);
            free(memory);
        }
    ts_cpu_set_mask(~0u);
}

/* The forwards keep codes and four rows of tables, or tables and sums of 2 MiB, whatever the number
 * of rows and of threads. */
TEST(test_workspace_bound)
{
    for (int64_t n = 128; n <= 16384; n *= 2)
        for (int64_t rows = 1; rows <= 4096; rows *= 8)
            for (int n_threads = 1; n_threads <= 256; n_threads *= 16) {
                const ts_ternary_linear_dims d = { TS_F32, n, n, rows };
                const ts_exec                x = { .n_threads = n_threads };
                const size_t codes = (size_t)(n * n) * 17 / 64, row = (size_t)n * 40;
                const size_t few = 4 * row < 2 << 20 ? 2 << 20 : 4 * row;
                size_t       got;
                args         a = args_of(PACKED, d);
                assert_int_equal(asks[PACKED](&a, &x, &got), TS_OK);
                assert_true(got <= few + 4096);
                a = args_of(LINEAR, d);
                assert_int_equal(asks[LINEAR](&a, &x, &got), TS_OK);
                assert_true(got <= codes + few + 4096);
                a = args_of(BACKWARD, d);
                assert_int_equal(asks[BACKWARD](&a, &x, &got), TS_OK);
                assert_true(got <= codes + (size_t)n_threads * 81920 + 4096);
            }
}
