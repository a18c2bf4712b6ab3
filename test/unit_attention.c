/* SPDX-License-Identifier: Apache-2.0 */
/* unit_attention.c - tests both passes of attention against the full matrix: every variant, inputs
 * on which careful code fails, and bits that do not depend on the number of threads. */
#include "unit_attention.h"
#include "impl.h"

enum { TILE = 64 }; /* of the vector implementations */

static ts_dtype type; /* every test is run in some */

static ts_attention_dims dims(int64_t n_q, int64_t n_k, int64_t head_dim)
{
    return one_head(type, n_q, n_k, head_dim);
}

static void check(ts_attention_dims d, const int32_t *kv_len, const char *what)
{
    world w = make(d, kv_len, 0x5eed);
    examine(&w, what);
    drop(&w);
}

/* ---- shapes ---- */

TEST(test_lengths)
{
    static const int64_t n[] = { 1, 2, 15, 17, 63, 64, 65, 127, 128, 129, 300 };
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (int causal = 0; causal < 2; causal++) {
            ts_attention_dims d = dims(n[i], n[i], n[i] < 100 ? 33 : 8);
            d.causal = causal;
            check(d, NULL, "lengths");
        }
}

TEST(test_unequal_lengths)
{
    static const int64_t n[][2] = { { 1, 64 },   { 5, 64 }, { 64, 5 }, { 65, 130 },
                                    { 130, 65 }, { 0, 3 },  { 3, 0 },  { 200, 70 } };
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (int causal = 0; causal < 2; causal++) {
            ts_attention_dims d = dims(n[i][0], n[i][1], 8);
            d.causal = causal;
            check(d, NULL, "unequal lengths");
        }
    ts_attention_dims none = dims(3, 3, 2);
    none.n_batch = 0;
    check(none, NULL, "no batch");
}

TEST(test_head_dims)
{
    static const int64_t n[] = { 1, 2, 5, 6, 7, 8, 15, 16, 17, 31, 64, 80, 96, 128, 255, 256 };
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        ts_attention_dims d = dims(66, 67, n[i]);
        d.causal = 1;
        check(d, NULL, "head dims");
    }
}

TEST(test_windows)
{
    static const int64_t window[] = { 1, 2, 63, 64, 65, 100, 199, 200, INT64_MAX };
    for (size_t i = 0; i < sizeof window / sizeof *window; i++)
        for (int64_t n_k = 150; n_k <= 230; n_k += 80) {
            ts_attention_dims d = dims(200, n_k, 3);
            d.causal = 1;
            d.window = window[i];
            check(d, NULL, "windows");
        }
}

/* Every (batch, head) is its own, in both layouts, with heads shared by 1, 2, 3 and 4. */
TEST(test_heads)
{
    static const int64_t heads[][2] = { { 2, 2 }, { 6, 3 }, { 3, 1 }, { 8, 2 } };
    static const int32_t len[] = { 70, 33 };
    for (int i = 0; i < 4; i++)
        for (int layout = TS_BHND; layout <= TS_BNHD; layout++) {
            ts_attention_dims d = dims(40, 70, 9);
            d.layout = (ts_attention_layout)layout;
            d.n_batch = 2, d.causal = 1;
            d.n_q_head = heads[i][0], d.n_kv_head = heads[i][1];
            check(d, len, "heads");
        }
}

TEST(test_dtypes)
{
    static const ts_dtype types[] = { TS_F64, TS_F16, TS_BF16 };
    static const int32_t  len[] = { 71, 100 };
    for (int i = 0; i < 3; i++)
        for (int layout = TS_BHND; layout <= TS_BNHD; layout++) {
            ts_attention_dims d = dims(90, 100, 20);
            d.dtype = types[i], d.layout = (ts_attention_layout)layout;
            d.n_batch = 2, d.n_q_head = 4, d.n_kv_head = 2, d.causal = 1, d.window = 75;
            check(d, len, "dtypes");
        }
}

TEST(test_tile_hints)
{
    static const int64_t hint[] = { 1, 16, 37, 64, 97, 128, 512, INT64_MAX };
    for (size_t i = 0; i < sizeof hint / sizeof *hint; i++) {
        ts_attention_dims d = dims(100, 130, 8);
        d.causal = 1, d.n_q_head = 2;
        d.tile_q = hint[i], d.tile_k = hint[sizeof hint / sizeof *hint - 1 - i];
        check(d, NULL, "tile hints");
    }
}

/* ---- inputs on which careless code fails ---- */

/* NaN past the end of a sequence, and a sequence of no keys at all. */
TEST(test_padding)
{
    static const int32_t len[] = { 70, 0, 3, 64 };
    ts_attention_dims    d = dims(50, 100, 8);
    d.n_batch = 4;
    for (d.causal = 0; d.causal < 2; d.causal++) {
        world w = make(d, len, 1);
        for (int64_t b = 0; b < 4; b++)
            for (int64_t i = row_at(&w, K, b, 0, len[b]); i < row_at(&w, K, b + 1, 0, 0); i++)
                set(&w, K, i, NAN), set(&w, V, i, NAN);
        examine(&w, "padding");
        drop(&w);
    }
}

/* The largest score is in the first tile, in the last, or moves on with every key. */
TEST(test_dominant_keys)
{
    static const int64_t key[] = { 0, 15, 64, 199 };
    static const double  score[] = { 60, 800, 2000 };
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++) {
            world w = make(dims(70, 200, 8), NULL, 2);
            for (int64_t r = 0; r < 70; r++) set(&w, Q, r * 8, 1);
            set(&w, K, key[i] * 8, score[j] / w.d.scale);
            examine(&w, "sink");
            drop(&w);
        }
    for (int way = 0; way < 4; way++) {
        world w = make(dims(70, 200, 8), NULL, 3);
        for (int64_t j = 0; j < 200; j++) {
            const double by = way == 0 ? (j < 16 ? 300 : 1) : (way == 1 ? (j >= 184 ? 300 : 1) : 1);
            for (int64_t c = 0; c < 8; c++) set(&w, K, j * 8 + c, by * value(&w, K, j * 8 + c));
            if (way == 2) set(&w, K, j * 8, (double)j * 8);
        }
        for (int64_t i = 0; way >= 2 && i < w.n[Q]; i++)
            set(&w, Q, i, way == 3 ? 1000 * value(&w, Q, i) : fabs(value(&w, Q, i)));
        examine(&w, "dominant keys");
        drop(&w);
    }
}

/* Scores of -inf: whole first tiles of them, and whole rows. */
TEST(test_infinite_scores)
{
    static const int64_t until[] = { 1, 16, TILE, TILE + 1, 2 * TILE, 150 };
    for (int i = 0; i < 6; i++) {
        world w = make(dims(70, 150, 1), NULL, 4);
        for (int64_t r = 0; r < 70; r++) set(&w, Q, r, 1);
        for (int64_t j = 0; j < until[i]; j++) set(&w, K, j, -INFINITY);
        examine(&w, "infinite scores");
        drop(&w);
    }
}

/* A score of NaN or +inf makes the rows that see it NaN, and no other. */
TEST(test_nan_scores)
{
    for (int m = 0; m < N_MASKS; m++)
        for (int way = 0; way < 2; way++) {
            ts_attention_dims d = dims(200, 200, 3);
            d.causal = 1;
            world w = make(d, NULL, 5);
            for (int64_t i = 0; i < w.n[Q]; i++) set(&w, Q, i, 1);
            set(&w, K, 100 * 3 + 1, way ? INFINITY : NAN);
            ts_cpu_set_mask(masks[m]);
            run_forward(&w, 1);
            for (int64_t i = 0; i < 600; i++)
                assert_int_equal(isnan(value(&w, O, i)) != 0, i / 3 >= 100);
            for (int64_t i = 0; i < 200; i++)
                assert_int_equal(isnan(value(&w, LSE, i)) != 0, i >= 100);
            drop(&w);
        }
    ts_cpu_set_mask(~0u);
}

/* A scale that turns the order of scores round, that makes them all alike, and that is hardly one.
 */
TEST(test_scales)
{
    static const double  scale[] = { -0.5, 0, 1e-30 };
    static const int32_t len[] = { 90, 33 };
    for (int i = 0; i < 3; i++) {
        ts_attention_dims d = dims(70, 100, 9);
        d.causal = 1, d.n_batch = 2, d.scale = scale[i];
        check(d, len, "scales");
    }
}

/* Numbers of which products are ordinary, but which are not so themselves: those that are below
 * what is normal as soon as they are multiplied with a weight, and those that are far above. */
static void scale_inputs(world *w, int q, int k, int v, int dout)
{
    const int powers[] = { q, k, v, dout };
    for (tensor t = Q; t <= DOUT; t++)
        for (int64_t i = 0; i < w->n[t]; i++) set(w, t, i, ldexp(value(w, t, i), powers[t]));
}

TEST(test_far_exponents)
{
    static const int powers[][4] = {
        { -90, 90, 0, 0 }, { 80, -80, 0, 0 },   { 0, 0, -115, 30 },
        { 0, 0, 70, -70 }, { -128, 126, 0, 0 },
    };
    for (int i = 0; i < 5; i++) {
        world w = make(dims(70, 100, 16), NULL, 12);
        scale_inputs(&w, powers[i][0], powers[i][1], powers[i][2], powers[i][3]);
        examine(&w, "far exponents");
        drop(&w);
    }
}

/* ---- bits ---- */

extern const ts_impl ts_flash_attention_impls[], ts_flash_attention_backward_impls[];

/* One call of both passes, to be compared. */
static world run_under(unsigned mask, int power)
{
    ts_attention_dims d = dims(130, 200, 64);
    d.causal = 1;
    world w = make(d, NULL, 13);
    scale_inputs(&w, power, -power, 0, 0);
    ts_cpu_set_mask(mask);
    run_forward(&w, 2);
    run_backward(&w, 2);
    ts_cpu_set_mask(~0u);
    return w;
}

/* Where there are tiles, they are used: other sums have other bits, but where numbers are not fit
 * for tiles. A CPU that has none skips this. */
TEST_IN(tiles, test_tiles)
{
    ts_impl found;
    if (!(ts_cpu_features() & TS_CPU_AMX)) skip();
    ts_cpu_set_mask(~(unsigned)TS_CPU_AMX);
    assert_false(ts_cpu_features() & TS_CPU_AMX);
    ts_cpu_set_mask(~0u);
    assert_int_equal(ts_pick(ts_flash_attention_impls, TS_CPU, type, &found), TS_OK);
    assert_string_equal(found.name, "amx");
    assert_int_equal(ts_pick(ts_flash_attention_backward_impls, TS_CPU, type, &found), TS_OK);
    assert_string_equal(found.name, "amx");
    for (int power = 0; power <= 90; power += 90) {
        world w = run_under(~0u, power), y = run_under(~(unsigned)TS_CPU_AMX, power);
        for (tensor t = O; t <= DV; t++) {
            const size_t n = (size_t)w.n[t] * ts_format_of(dtype_of(&w, t))->n_bytes;
            assert_int_equal(memcmp(w.at[t], y.at[t], n) == 0, power > 0);
        }
        drop(&w);
        drop(&y);
    }
}

TEST(test_threads)
{
    static const int  n[] = { 1, 2, 3, 7, 64 };
    static const char tensors[] = { O, LSE, DQ, DK, DV };
    for (int m = 0; m < N_MASKS; m++) {
        ts_attention_dims d = dims(150, 170, 16);
        d.n_q_head = 4, d.n_kv_head = 2, d.causal = 1;
        world w[2] = { make(d, NULL, 6), make(d, NULL, 6) };
        ts_cpu_set_mask(masks[m]);
        for (int i = 0; i < 5; i++) {
            world *y = &w[i > 0];
            run_forward(y, n[i]);
            run_backward(y, n[i]);
            for (int t = 0; t < 5; t++)
                assert_memory_equal(w[0].at[(int)tensors[t]], y->at[(int)tensors[t]],
                                    (size_t)y->n[(int)tensors[t]] *
                                        ts_format_of(dtype_of(y, (tensor)tensors[t]))->n_bytes);
        }
        drop(&w[0]);
        drop(&w[1]);
    }
    ts_cpu_set_mask(~0u);
}

int main(void)
{
    type = TS_F32;
    print_message("float\n");
    const int n = unit_run();
    type = TS_BF16;
    print_message("bf16\n");
    return n + unit_run() + run_group("tiles", NULL, NULL);
}
