/* SPDX-License-Identifier: Apache-2.0 */
/* unit_overlap.c - calls whose buffers overlap are refused: the arithmetic against a map of bytes,
 * every pair of buffers of every task, and the kernels with state. */
#include "overlap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "rng.h"
#include "task.h"
#include "touchstone/adamw.h"
#include "touchstone/attention.h"
#include "touchstone/attention_fp8.h"
#include "touchstone/beam_search.h"
#include "touchstone/cross_entropy.h"
#include "touchstone/embedding.h"
#include "touchstone/kv_cache.h"
#include "touchstone/layernorm.h"
#include "touchstone/rms_norm.h"
#include "touchstone/rope.h"
#include "touchstone/softmax_topk.h"
#include "touchstone/swiglu.h"
#include "touchstone/ternary.h"
#include "touchstone/tree_verify.h"
#include "unit.h"

/* ---- arithmetic ---- */

enum { MAP = 256, SPANS = 200000 };

static void mark(const ts_span *s, const char *base, int *map, int value)
{
    for (int64_t r = 0; r < s->n; r++)
        for (int64_t i = 0; i < s->width; i++)
            map[(const char *)s->at - base + r * s->stride + i] |= value;
}

TEST(finds_the_bytes_that_two_buffers_share)
{
    static char base[MAP];
    uint64_t    seed = 3;
    int         n_share = 0;
    for (int i = 0; i < SPANS; i++) {
        int64_t draw[8];
        for (int k = 0; k < 8; k++) draw[k] = (int64_t)(ts_bits(seed, 8 * i + k) >> 8);
        ts_span s[2];
        for (int k = 0; k < 2; k++) {
            const int64_t *const d = draw + 4 * k, width = 1 + d[1] % 6;
            s[k] = (ts_span) { base + d[0] % 60, d[2] % 5, width, width + d[3] % 9 };
        }
        if (i % 3) s[1].stride = s[0].stride = s[0].width + s[1].width; /* both fit between */
        int  map[MAP] = { 0 };
        bool both = false;
        mark(&s[0], base, map, 1);
        mark(&s[1], base, map, 2);
        for (int k = 0; k < MAP; k++) both |= map[k] == 3;
        const bool seen = s[0].stride == s[1].stride || s[0].n < 2 || s[1].n < 2;
        const bool apart = ts_apart(s, 1, 2, NULL);
        if (seen ? apart == both : (!apart && !both))
            fail_msg("spans %d: apart %d, %d bytes in common", i, apart, both);
        n_share += both;
    }
    assert_true(n_share > SPANS / 20 && n_share < SPANS - SPANS / 20);
}

TEST(inputs_may_be_one_buffer)
{
    char          b[16];
    const ts_span s[] = { ts_flat(b, 4, 1), ts_flat(b + 4, 8, 1), ts_flat(b + 8, 8, 1) };
    ts_exec       x = { .workspace = b + 15, .workspace_bytes = 1 };
    assert_true(ts_apart(s, 1, 3, NULL));
    assert_false(ts_apart(s, 2, 3, NULL));
    assert_false(ts_apart(s, 1, 3, &x));
    x.workspace_bytes = 0;
    assert_true(ts_apart(s, 1, 3, &x));
}

/* ---- every task that is one call ---- */

#define CALLS(CALL)                                                                                \
    CALL(layernorm_forward)                                                                        \
    CALL(layernorm_backward)                                                                       \
    CALL(rms_norm_forward)                                                                         \
    CALL(rms_norm_backward)                                                                        \
    CALL(softmax_topk)                                                                             \
    CALL(flash_attention)                                                                          \
    CALL(flash_attention_backward)                                                                 \
    CALL(flash_attention_fp8)                                                                      \
    CALL(cross_entropy)                                                                            \
    CALL(cross_entropy_logits)                                                                     \
    CALL(rope)                                                                                     \
    CALL(swiglu_forward)                                                                           \
    CALL(swiglu_backward)                                                                          \
    CALL(embedding_forward)                                                                        \
    CALL(embedding_backward)                                                                       \
    CALL(adamw_step)

#define DEFINE(name)                                                                               \
    static ts_status run_##name(const void *a, const ts_exec *x)                                   \
    {                                                                                              \
        return ts_##name(a, x);                                                                    \
    }                                                                                              \
    static ts_status ask_##name(const void *a, const ts_exec *x, size_t *n)                        \
    {                                                                                              \
        return ts_##name##_workspace(a, x, n);                                                     \
    }
CALLS(DEFINE)

typedef struct call {
    const char     *name;
    ts_run_fn       run;
    ts_workspace_fn ask;
} call;

#define ROW(name) { #name, run_##name, ask_##name },
static const call calls[] = { CALLS(ROW) };

/* What headers permit: an output in place of an input. */
static bool in_place(const char *task, const char *out, const char *other)
{
    static const char *const may[] = { "rope y x",
                                       "swiglu_forward y gate",
                                       "swiglu_forward y up",
                                       "swiglu_backward dgate gate",
                                       "swiglu_backward dgate up",
                                       "swiglu_backward dgate dy",
                                       "swiglu_backward dup gate",
                                       "swiglu_backward dup up",
                                       "swiglu_backward dup dy",
                                       "rms_norm_forward r x" };
    char                     words[128];
    (void)snprintf(words, sizeof words, "%s %s %s", task, out, other);
    for (size_t i = 0; i < sizeof may / sizeof *may; i++)
        if (!strcmp(words, may[i])) return true;
    return false;
}

static bool has_elements(const ts_arena_buf *b)
{
    return b->b.n_rows > 0 && b->b.n_cols > 0;
}

/* With two different strides the first addresses alone tell nothing. */
static bool tells(const ts_arena_buf *a, const ts_arena_buf *b)
{
    const int64_t one = ts_size(a->b.dtype) * a->b.row_stride;
    const int64_t two = ts_size(b->b.dtype) * b->b.row_stride;
    return a->b.n_rows == 1 || b->b.n_rows == 1 || a->b.n_cols == a->b.row_stride ||
           b->b.n_cols == b->b.row_stride || one == two;
}

/* Moves output i into buffer j, at its begin and one element further. */
static int try_pair(const call *f, const ts_arena *m, int i, int j, const void *args, size_t n_args,
                    const ts_exec *x)
{
    const ts_arena_buf *const out = &m->buf[i], *const to = &m->buf[j];
    const int64_t each = ts_size(to->b.dtype);
    char         *moved = malloc(n_args);
    int           n = 0;
    memcpy(moved, args, n_args);
    for (int k = 0; k < 2; k++) {
        if (k == 0 && in_place(f->name, out->b.name, to->b.name)) continue;
        if (k == 1 && to->b.n_cols < 2) continue;
        const unsigned char *const at = to->p + k * each;
        memcpy(moved + out->slot, &at, sizeof at);
        if (f->run(moved, x) != TS_E_ARG)
            fail_msg("%s: %s in %s + %d is accepted", f->name, out->b.name, to->b.name, k);
        n++;
    }
    free(moved);
    return n;
}

/* The workspace in each buffer. */
static int try_scratch(const call *f, const ts_arena *m, const void *args, size_t n_bytes)
{
    int n = 0;
    for (int j = 0; n_bytes && j < m->n; j++) {
        const ts_exec x = { .workspace = m->buf[j].p, .workspace_bytes = n_bytes };
        if (!has_elements(&m->buf[j])) continue;
        if (f->run(args, &x) != TS_E_ARG)
            fail_msg("%s: workspace in %s is accepted", f->name, m->buf[j].b.name);
        n++;
    }
    return n;
}

static int try_case(const call *f, const ts_task *t, const ts_case *c, ts_arena *m, void *args)
{
    size_t  n_bytes;
    ts_exec x = { .device = TS_CPU };
    int     n = 0;
    ts_arena_setup(m, t, c, 5, args);
    if (f->ask(args, &x, &n_bytes)) fail_msg("%s: the query fails", f->name);
    x.workspace = malloc(n_bytes + 1);
    x.workspace_bytes = n_bytes;
    for (int i = 0; i < m->n; i++)
        for (int j = 0; m->buf[i].b.role != TS_IN && has_elements(&m->buf[i]) && j < m->n; j++)
            if (j != i && has_elements(&m->buf[j]) && tells(&m->buf[i], &m->buf[j]))
                n += try_pair(f, m, i, j, args, t->args_bytes, &x);
    n += try_scratch(f, m, args, n_bytes);
    free(x.workspace);
    ts_arena_clear(m);
    return n;
}

TEST(every_pair_of_buffers_is_compared)
{
    static ts_arena m;
    int             n_tasks = 0;
    assert_true(ts_arena_open(&m));
    for (int i = 0; ts_tasks[i]; i++) {
        const ts_task *t = ts_tasks[i];
        const call    *f = calls;
        while (f < calls + sizeof calls / sizeof *calls && strcmp(f->name, t->name)) f++;
        if (t->kind != TS_PLAIN) continue;
        if (f == calls + sizeof calls / sizeof *calls) fail_msg("%s is not among CALLS", t->name);
        void *const args = calloc(1, t->args_bytes);
        int         n_pairs = 0, n_cases = 0;
        for (const ts_case *c = t->cases(); c->use; c++) {
            const ts_cost cost = t->cost(c);
            if (!(c->use & TS_USE_CHECK) || cost.bytes > 100000 || cost.flops > 1e7) continue;
            if (!strcmp(c->family, "far")) continue;
            n_pairs += try_case(f, t, c, &m, args);
            n_cases++;
        }
        printf("%s: %d overlaps in %d cases\n", t->name, n_pairs, n_cases);
        assert_true(n_pairs > 0);
        free(args);
        n_tasks++;
    }
    assert_int_equal(n_tasks, sizeof calls / sizeof *calls);
    ts_arena_close(&m);
}

/* ---- kernels with state, and those without a task ---- */

TEST(kv_cache_refuses_overlaps)
{
    const ts_kv_dims d = { .n_layer = 1,
                           .n_seq_max = 1,
                           .n_q_head = 2,
                           .n_kv_head = 1,
                           .head_dim = 8,
                           .capacity = 16,
                           .key_group = 1,
                           .max_call_tokens = 4,
                           .scale = 1 };
    ts_exec          x = { .device = TS_CPU };
    size_t           n_state, n_work;
    assert_int_equal(ts_kv_bytes(&d, &x, &n_state, &n_work), TS_OK);
    char *const memory = malloc(n_state), *const work = malloc(n_work + 1);
    ts_kv  *c;
    int32_t seq;
    int64_t n = 4, len;
    float   k[32] = { 0 }, v[32] = { 0 }, q[64] = { 0 }, out[64], lse[8];
    x.workspace = work;
    x.workspace_bytes = n_work;
    assert_int_equal(ts_kv_create(&d, &x, memory, n_state, &c), TS_OK);
    assert_int_equal(ts_kv_open(c, &x, &seq), TS_OK);
    assert_int_equal(ts_kv_append(c, &x, 0, 1, &seq, &n, c, v), TS_E_ARG);
    assert_int_equal(ts_kv_append(c, &x, 0, 1, &seq, &n, k, work), n_work ? TS_E_ARG : TS_OK);
    assert_int_equal(ts_kv_append(c, &x, 0, 1, &seq, &n, k, k), TS_OK); /* both are read */
    assert_int_equal(ts_kv_read(c, &x, 0, seq, 0, n, k, k + 31), TS_E_ARG);
    assert_int_equal(ts_kv_read(c, &x, 0, seq, 0, n, k, v), TS_OK);
    assert_int_equal(ts_kv_attend(c, &x, 0, 1, &seq, &n, q, q + 63, lse), TS_E_ARG);
    assert_int_equal(ts_kv_attend(c, &x, 0, 1, &seq, &n, q, out, out + 60), TS_E_ARG);
    assert_int_equal(ts_kv_attend(c, &x, 0, 1, &seq, &n, q, c, lse), TS_E_ARG);
    assert_int_equal(ts_kv_attend(c, &x, 0, 1, &seq, &n, q, out, lse), TS_OK);
    assert_int_equal(ts_kv_status(c, 0, seq, &len, NULL), TS_OK);
    assert_int_equal(len, n + (n_work ? 0 : n));
    assert_int_equal(ts_kv_destroy(&c), TS_OK);
    free(memory);
    free(work);
}

TEST(trees_refuse_overlaps)
{
    const ts_exec      x = { .device = TS_CPU };
    int64_t            position[6];
    int32_t            parent[] = { -1, 0 };
    uint8_t            visible[16];
    float              bias[16];
    const ts_tree_dims d = { .prompt_len = 2, .n_node = 2 };
    ts_tree_mask_args  a = { d, parent, visible, (void *)(visible + 8) };
    ts_tree_bias_args  b = { d, (void *)(bias + 14), bias };
    memcpy(bias + 14, parent, sizeof parent);
    assert_int_equal(ts_tree_mask(&a, &x), TS_E_ARG);
    a.position = position;
    assert_int_equal(ts_tree_mask(&a, &x), TS_OK);
    assert_int_equal(ts_tree_bias(&b, &x), TS_E_ARG);
    b.parent = parent;
    assert_int_equal(ts_tree_bias(&b, &x), TS_OK);
}

TEST(ternary_products_refuse_overlaps)
{
    enum { N = 128 };
    static float    w[N * N], in[N], y[N], work[1 << 16];
    static uint8_t  code[N * 32];
    static uint16_t scale[N];
    const ts_exec   x = {
          .device = TS_CPU, .n_threads = 1, .workspace = work, .workspace_bytes = sizeof work
    };
    const ts_ternary_linear_dims    d = { TS_F32, N, N, 1 };
    ts_ternary_pack_args            p = { d, w, code, (uint16_t *)(void *)(code + 2) };
    ts_ternary_unpack_args          u = { d, code, scale, (float *)(void *)code };
    ts_ternary_linear_args          f = { d, w, in, in + 1 };
    ts_ternary_linear_packed_args   g = { d, code, scale, in, scale };
    ts_ternary_linear_backward_args b = { d, w, in, y, in, w };
    assert_int_equal(ts_ternary_pack(&p, &x), TS_E_ARG);
    assert_int_equal(ts_ternary_unpack(&u, &x), TS_E_ARG);
    assert_int_equal(ts_ternary_linear(&f, &x), TS_E_ARG);
    assert_int_equal(ts_ternary_linear_packed(&g, &x), TS_E_ARG);
    assert_int_equal(ts_ternary_linear_backward(&b, &x), TS_E_ARG);
    p.scale = scale;
    u.wt = w;
    f.y = g.y = y;
    assert_int_equal(ts_ternary_pack(&p, &x), TS_OK);
    assert_int_equal(ts_ternary_unpack(&u, &x), TS_OK);
    assert_int_equal(ts_ternary_linear(&f, &x), TS_OK);
    assert_int_equal(ts_ternary_linear_packed(&g, &x), TS_OK);
}
