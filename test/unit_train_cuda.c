/* SPDX-License-Identifier: Apache-2.0 */
/* unit_train_cuda.c - nets on a CUDA device against the CPU: losses, every gradient, steps; what
 * bf16 may be off by; and what must not change a bit. Skipped where there is no device. */
#include "touchstone/touchstone.h"
#include "unit_train.h"

/* Groups that end with a row and such that do not, one warp for a row and more, a vocabulary that
 * is no multiple of anything. */
static ts_net_options shape(int i)
{
    ts_net_options o = i == 0   ? net_options(2, 24, 4, 2, 8, 40, 37)
                       : i == 1 ? net_options(2, 128, 2, 1, 64, 256, 301)
                       : i == 2 ? net_options(1, 1160, 2, 2, 128, 136, 67)
                                : net_options(2, 64, 4, 1, 16, 64, 8200);
    o.n_token = i == 1 ? 70 : 9;
    return o;
}

enum { SHAPES = 4 };

static ts_net *on_cuda(ts_net_options o, ts_dtype t, uint64_t seed)
{
    o.device = TS_CUDA;
    o.dtype = t;
    return net_of(&o, seed);
}

static const float *gradient_of(ts_net *n)
{
    assert_int_equal(ts_net_pull(n, TS_NET_GRADIENT), TS_OK);
    return ts_net_gradient(n);
}

static const float *weights_of(ts_net *n)
{
    assert_int_equal(ts_net_pull(n, TS_NET_WEIGHTS), TS_OK);
    return ts_net_weights(n);
}

static size_t bytes_of(const ts_net *n)
{
    return (size_t)ts_net_count(n) * sizeof(float);
}

static double length_of(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sqrt(sum);
}

/* |a - b| / |b|; NaN is never near. */
static double distance(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sqrt(sum) / length_of(b, n);
}

/* Gains that differ, since all begin as 1; and in the first group of the first row a weight that is
 * half of the scale, which is 1, and so serves as 0. */
static void unlike(ts_net *n, const ts_net_options *o)
{
    float        *w = ts_net_weights(n);
    const int64_t group = o->dims.width < 128 ? o->dims.width : 128;
    for (int64_t i = ts_net_matrix_count(n); i < ts_net_count(n); i++)
        w[i] = (float)(1 + 0.2 * ts_normal(8, i));
    for (int64_t i = 0; i < group; i++)
        w[i] = (float)(((double)group - 0.5) / (double)(group - 1) * (i % 2 ? 1 : -1));
    w[1] = 0.5f;
    assert_int_equal(ts_net_push(n, TS_NET_WEIGHTS), TS_OK);
}

/* ---- against the CPU ---- */

TEST(equal_to_cpu)
{
    for (int i = 0; i < KINDS * SHAPES; i++) {
        ts_net_options o = shape(i / KINDS);
        set_kind(&o, i % KINDS);
        ts_net      *cpu = net_of(&o, 3), *cuda = on_cuda(o, TS_F32, 3);
        ts_net_batch b = batch_of(&o);
        ts_net_score want = { 0 }, got = { 0 }, looked = { 0 };
        double       off = 0, most = 0;
        unlike(cpu, &o);
        unlike(cuda, &o);
        batch_fill(&o, &b, 20, 4);
        b.target[3] = (int32_t)o.dims.n_vocab - 1;
        b.input[2] = 0;
        assert_int_equal(ts_net_grad(cpu, &b, 0.3, &want), TS_OK);
        assert_int_equal(ts_net_grad(cuda, &b, 0.3, &got), TS_OK);
        assert_int_equal(ts_net_eval(cuda, &b, &looked), TS_OK);
        const float *g = gradient_of(cuda), *h = ts_net_gradient(cpu);
        for (int64_t j = 0; j < ts_net_count(cpu); j++) {
            if (!(fabs((double)g[j] - h[j]) <= off)) off = fabs((double)g[j] - h[j]);
            most = fmax(most, fabs((double)h[j]));
        }
        print_message("%s, width %lld: loss off by %.1e, gradient by %.1e of %.2f\n",
                      kinds[i % KINDS], (long long)o.dims.width, fabs(got.nll / want.nll - 1), off,
                      most);
        assert_true(fabs(got.nll / want.nll - 1) <= 1e-6);
        assert_true(looked.nll == got.nll);
        assert_int_equal(got.n_count, want.n_count);
        assert_int_equal(got.n_right, want.n_right);
        assert_true(off <= 1e-5 * most);
        batch_free(&b);
        ts_net_free(&cpu);
        ts_net_free(&cuda);
    }
}

/* Of equal logits the first is the most probable: all are 0 where the embedding is. */
TEST(equal_logits)
{
    for (int i = 0; i < SHAPES; i++) {
        ts_net_options o = shape(i);
        ts_net        *cuda = on_cuda(o, TS_BF16, 3);
        ts_net_batch   b = batch_of(&o);
        ts_net_score   s = { 0 };
        memset(ts_net_weights(cuda), 0, (size_t)(o.dims.n_vocab * o.dims.width) * sizeof(float));
        assert_int_equal(ts_net_push(cuda, TS_NET_WEIGHTS), TS_OK);
        batch_fill(&o, &b, o.dims.n_vocab, 4);
        for (int64_t j = 0; j < o.n_batch * o.n_token; j++)
            b.target[j] = j < 4 ? 0 : 1 + (int32_t)j % 9;
        assert_int_equal(ts_net_eval(cuda, &b, &s), TS_OK);
        assert_int_equal(s.n_right, 4);
        assert_true(fabs(s.nll / (double)s.n_count - log((double)o.dims.n_vocab)) <= 1e-5);
        batch_free(&b);
        ts_net_free(&cuda);
    }
}

/* Steps of both, each from the CPU's weights and moments: after one step a latent that lies at half
 * its scale has other codes here and there, and all that follows is another training. */
TEST(steps_equal_the_cpu)
{
    for (int i = 0; i < 4; i++) {
        const ts_adamw how = { 1e-3, 0.9, 0.95, 1e-4, 0.1, i < 2 ? 0.5 : 0 };
        ts_net_options o = shape(i / 2);
        o.ternary = i % 2;
        ts_net      *net[2] = { net_of(&o, 3), on_cuda(o, TS_F32, 3) };
        ts_net_batch b = batch_of(&o);
        ts_net_score s[2];
        double       norm[2], off = 0;
        float *const moments[2] = { ts_net_begin(net[0]), ts_net_begin(net[1]) };
        assert_true(moments[0] && moments[1]);
        for (int step = 1; step <= 4; step++) {
            batch_fill(&o, &b, o.dims.n_vocab, (uint64_t)step);
            for (int k = 0; k < 2; k++) {
                s[k] = (ts_net_score) { 0 };
                ts_net_zero(net[k]);
                assert_int_equal(ts_net_grad(net[k], &b, 0.1, &s[k]), TS_OK);
                assert_int_equal(ts_net_step(net[k], &how, step, &norm[k]), TS_OK);
            }
            assert_true(fabs(s[1].nll / s[0].nll - 1) <= 2e-6);
            assert_true(fabs(norm[1] / norm[0] - 1) <= 2e-5);
            off = fmax(off,
                       distance(weights_of(net[1]), ts_net_weights(net[0]), ts_net_count(net[0])));
            memcpy(ts_net_weights(net[1]), ts_net_weights(net[0]), bytes_of(net[0]));
            memcpy(moments[1], moments[0], 2 * bytes_of(net[0]));
            assert_int_equal(ts_net_push(net[1], TS_NET_WEIGHTS | TS_NET_MOMENTS), TS_OK);
        }
        print_message("%s: 4 steps, loss off by %.1e, norm by %.1e, weights by %.1e\n",
                      o.ternary ? "ternary" : "float", fabs(s[1].nll / s[0].nll - 1),
                      fabs(norm[1] / norm[0] - 1), off);
        assert_true(off <= 2e-6);
        float *effective[2];
        for (int k = 0; k < 2; k++) {
            assert_non_null(effective[k] = malloc(bytes_of(net[0])));
            assert_int_equal(ts_net_effective(net[k], effective[k]), TS_OK);
        }
        assert_true(distance(effective[1], effective[0], ts_net_count(net[0])) == 0);
        for (int k = 0; k < 2; k++) {
            free(effective[k]);
            ts_net_free(&net[k]);
        }
        batch_free(&b);
    }
}

/* A product's element is off by 2^-9 of itself, once; a gradient by what dozens of those add up to.
 */
TEST(bf16_is_near)
{
    for (int i = 0; i < 2 * SHAPES; i++) {
        ts_net_options o = shape(i / 2);
        o.ternary = i % 2;
        ts_net      *cpu = net_of(&o, 3), *cuda = on_cuda(o, TS_BF16, 3);
        ts_net_batch b = batch_of(&o);
        ts_net_score want = { 0 }, got = { 0 };
        batch_fill(&o, &b, o.dims.n_vocab, 4);
        assert_int_equal(ts_net_grad(cpu, &b, 0.3, &want), TS_OK);
        assert_int_equal(ts_net_grad(cuda, &b, 0.3, &got), TS_OK);
        const int64_t n = ts_net_matrix_count(cpu), all = ts_net_count(cpu);
        const float  *g = gradient_of(cuda), *h = ts_net_gradient(cpu);
        const double  off = distance(g, h, n), gains = distance(g + n, h + n, all - n);
        print_message("%s, width %lld: loss off by %.1e, gradient by %.1e, of gains by %.1e\n",
                      o.ternary ? "ternary" : "float", (long long)o.dims.width,
                      fabs(got.nll / want.nll - 1), off, gains);
        assert_true(fabs(got.nll / want.nll - 1) <= 2e-3);
        assert_true(off <= 0.03 && gains <= 0.05);
        batch_free(&b);
        ts_net_free(&cpu);
        ts_net_free(&cuda);
    }
}

/* ---- what must not change ---- */

/* The first pass is launched, the second recorded, the third played. */
TEST(same_bits)
{
    for (int i = 0; i < 4; i++) {
        const ts_adamw how = { 1e-3, 0.9, 0.95, 1e-8, 0.1, 1 };
        ts_net_options o = shape(i / 2);
        o.ternary = i % 2;
        ts_net      *net[2] = { on_cuda(o, TS_BF16, 3), on_cuda(o, TS_BF16, 3) };
        ts_net_batch b = batch_of(&o);
        double       norm;
        for (int k = 0; k < 2; k++) assert_non_null(ts_net_begin(net[k]));
        for (int step = 1; step <= 4; step++) {
            batch_fill(&o, &b, 9, (uint64_t)step);
            ts_net_score s[2];
            memset(s, 0, sizeof s);
            for (int k = 0; k < 2; k++) {
                ts_net_zero(net[k]);
                for (int more = 0; more < 2; more++)
                    assert_int_equal(ts_net_grad(net[k], &b, 0.1, &s[k]), TS_OK);
                assert_int_equal(ts_net_step(net[k], &how, step, &norm), TS_OK);
            }
            assert_memory_equal(&s[0], &s[1], sizeof s[0]);
        }
        assert_memory_equal(weights_of(net[0]), weights_of(net[1]), bytes_of(net[0]));
        assert_memory_equal(gradient_of(net[0]), gradient_of(net[1]), bytes_of(net[0]));
        batch_free(&b);
        for (int k = 0; k < 2; k++) ts_net_free(&net[k]);
    }
}

/* In bf16 the recorded graph computes weights' gradients in parallel with the rest. */
TEST(played_is_launched)
{
    for (int k = 0; k < 2; k++) {
        ts_net_options o = shape(1);
        o.dims.n_layer = 3;
        ts_net      *n = on_cuda(o, k ? TS_BF16 : TS_F32, 3);
        ts_net_batch b = batch_of(&o);
        float       *first = malloc(bytes_of(n));
        ts_net_score once = { 0 };
        assert_non_null(first);
        batch_fill(&o, &b, 30, 4);
        assert_int_equal(ts_net_grad(n, &b, 0.5, &once), TS_OK);
        memcpy(first, gradient_of(n), bytes_of(n));
        for (int i = 0; i < 2; i++) {
            ts_net_score s = { 0 };
            ts_net_zero(n);
            batch_fill(&o, &b, 50, 5); /* what was put there for another pass is of no matter */
            assert_int_equal(ts_net_grad(n, &b, 0.25, &s), TS_OK);
            ts_net_zero(n);
            batch_fill(&o, &b, 30, 4);
            s = (ts_net_score) { 0 };
            assert_int_equal(ts_net_grad(n, &b, 0.5, &s), TS_OK);
            assert_memory_equal(&s, &once, sizeof s);
            assert_memory_equal(gradient_of(n), first, bytes_of(n));
        }
        free(first);
        batch_free(&b);
        ts_net_free(&n);
    }
}

TEST(gradients_add_up)
{
    ts_net_options o = shape(0);
    ts_net        *once = on_cuda(o, TS_F32, 1), *twice = on_cuda(o, TS_F32, 1);
    ts_net_batch   b = batch_of(&o);
    ts_net_score   s = { 0 };
    batch_fill(&o, &b, 17, 3);
    assert_int_equal(ts_net_grad(once, &b, 1, &s), TS_OK);
    assert_int_equal(ts_net_grad(twice, &b, 0.25, &s), TS_OK);
    assert_int_equal(ts_net_grad(twice, &b, 0.75, &s), TS_OK);
    assert_true(distance(gradient_of(twice), gradient_of(once), ts_net_count(once)) <= 1e-6);
    ts_net_zero(once);
    assert_true(length_of(gradient_of(once), ts_net_count(once)) == 0);
    batch_free(&b);
    ts_net_free(&once);
    ts_net_free(&twice);
}

/* ---- what cannot be ---- */

TEST(refusals)
{
    ts_net_options o = shape(1);
    char           why[TS_MODEL_WHY] = "";
    o.ternary = true;
    ts_net        *n = on_cuda(o, TS_BF16, 1), *none;
    ts_net_batch   b = batch_of(&o);
    ts_net_score   s = { 0 };
    const ts_adamw how = { 1e-3, 0.9, 0.95, 1e-8, 0.1, 1 };
    double         norm = -1;
    batch_fill(&o, &b, 11, 1);
    assert_int_equal(ts_net_step(n, &how, 1, &norm), TS_E_STATE);
    assert_non_null(ts_net_begin(n));
    b.input[3] = 301;
    assert_int_equal(ts_net_grad(n, &b, 1, &s), TS_E_ARG);
    b.input[3] = 0;
    assert_int_equal(ts_net_grad(n, &b, NAN, &s), TS_OK);
    const float *w = weights_of(n);
    const float  before = w[77];
    assert_int_equal(ts_net_step(n, &how, 1, &norm), TS_E_RANGE);
    assert_true(norm == -1 && weights_of(n)[77] == before);
    ((float *)ts_net_weights(n))[ts_net_matrix_count(n) - 1] = 1e7f; /* its mean is no f16 */
    assert_int_equal(ts_net_push(n, TS_NET_WEIGHTS), TS_OK);
    s = (ts_net_score) { 0 };
    assert_int_equal(ts_net_eval(n, &b, &s), TS_E_RANGE);
    assert_int_equal(s.n_count, 0);
    ((float *)ts_net_weights(n))[ts_net_matrix_count(n) - 1] = 1;
    assert_int_equal(ts_net_push(n, TS_NET_WEIGHTS), TS_OK);
    assert_int_equal(ts_net_eval(n, &b, &s), TS_OK);
    o.device = TS_CUDA;
    o.dims.n_ffn = 100;
    assert_false(ts_net_create(&o, 1, &none, why));
    assert_non_null(strstr(why, "feed-forward width: got 100"));
    o.dims.n_ffn = 256;
    o.dtype = TS_F64;
    assert_false(ts_net_create(&o, 1, &none, why));
    assert_non_null(strstr(why, "f64"));
    batch_free(&b);
    ts_net_free(&n);
}

TEST_IN(without, no_device)
{
    ts_net_options o = shape(0);
    char           why[TS_MODEL_WHY] = "";
    ts_net        *n;
    o.device = TS_CUDA;
    assert_false(ts_net_create(&o, 1, &n, why));
    assert_non_null(strstr(why, "CUDA"));
    o.device = TS_CPU;
    o.dtype = TS_BF16;
    assert_false(ts_net_create(&o, 1, &n, why));
    assert_non_null(strstr(why, "bf16"));
}

int main(void)
{
    if (!ts_cuda_unavailable_reason()) return unit_run();
    const int failed = run_group("without", NULL, NULL);
    return failed ? failed : 77;
}
