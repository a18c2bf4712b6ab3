/* SPDX-License-Identifier: Apache-2.0 */
/* unit_oracle.c - the bits of inputs, expected values and bounds are the same on every machine.
 *
 *   unit_oracle        the cheap CHECK cases of every task, compared with the sums below
 *   unit_oracle all    every CHECK case, compared likewise: a minute
 *
 * A sum that differs prints what it is now. After a change of a task that is meant, put that in
 * here; on a machine that differs, find out why. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "dtype.h"
#include "rng.h"
#include "task.h"

static const uint64_t SEED = 0x5eed;

static const struct known {
    const char *task;
    uint64_t    cheap, all;
} known[] = {
    { "layernorm_forward", 0xecd8508c92bc4300, 0xb27c4fa782872223 },
    { "layernorm_backward", 0x55e3275254e9db7b, 0x04caed9ebd2e85da },
    { "softmax_topk", 0x91ec8b40a47eaaec, 0xc0ca46b52a2f7fea },
    { "kv_cache", 0x3aa032273bc601fe, 0x4f651aa78f48b597 },
    { "flash_attention", 0xda598304f5dccd6a, 0x5833d11db8cc9497 },
    { "flash_attention_backward", 0xd5025b1009ecd170, 0x5c47e1d79168df38 },
    { "flash_attention_fp8", 0xc004d00f9618051f, 0x27b0ff6d88166141 },
    { "beam_search", 0x0e8d4afd2b37c26a, 0x7e95bbffa93d31f6 },
    { "tree_verify", 0x06afa919a16f118c, 0xdb4ee65c8f29bd56 },
    { "ternary_linear", 0x6288fea6cdc3aef4, 0xee49bc80a463b312 },
    { "ternary_training", 0x56584676bdba36ea, 0x1a07689da3720093 },
    { "rms_norm_forward", 0xd3900e61f0f6a3c3, 0xcf18682eb1e4aff4 },
    { "rms_norm_backward", 0x8ca1271f2a1928ea, 0xe426c03abe0c40ab },
    { "rope", 0x07e13c1e99aa5d56, 0x4d690b92b13b9607 },
    { "swiglu_forward", 0xd24b7a6c741c7085, 0x662a73062770c3b4 },
    { "swiglu_backward", 0x6462dd12a0262532, 0xf29502206c4db1b1 },
    { "cross_entropy", 0xd77c76400860b17a, 0xe36b23389e2f40a1 },
    { "cross_entropy_logits", 0x5d63feb6c79dfd7a, 0xfe5308c7efd4802c },
    { "embedding_forward", 0x931eadfd6009df1d, 0x31ca538c9b8ca0f3 },
    { "embedding_backward", 0xbfb91b842111b2e2, 0xfdcbb81dffaf44c2 },
    { "adamw_step", 0xa6a72ffc3aaa3b64, 0xbc370c395c234cc9 },
};

static void add_double(uint64_t *h, double x)
{
    uint64_t bits;
    if (isnan(x)) x = NAN; /* whose sign and payload say nothing */
    memcpy(&bits, &x, sizeof bits);
    *h = ts_mix(*h + bits + 1);
}

static void add_inputs(uint64_t *h, const ts_arena *m)
{
    for (int i = 0; i < m->n_scalars; i++) add_double(h, m->scalar[i].value);
    for (int i = 0; i < m->n; i++) {
        const ts_buf *b = &m->buf[i].b;
        const size_t  each = b->role == TS_OUT ? 0 : ts_format_of(b->dtype)->n_bytes;
        for (int64_t r = 0; r < b->n_rows; r++)
            for (size_t k = 0; k < (size_t)b->n_cols * each; k++)
                *h = ts_mix(*h + m->buf[i].p[(size_t)(r * b->row_stride) * each + k] + 1);
    }
}

/* Of cases so large that the judge works some rows out, which it draws anew, the inputs alone. */
static bool is_sampled(const ts_task *t, const ts_case *c)
{
    double work = 1;
    for (int i = 0; i < 6; i++) work *= (double)c->dim[i];
    return !strncmp(t->name, "flash_", 6) && work > 0x1p27;
}

static void add_case(uint64_t *h, const ts_task *t, const ts_case *c, ts_arena *m)
{
    void        *args = calloc(1, t->args_bytes);
    const size_t n = t->n_want(c);
    ts_want     *want = calloc(n + 1, sizeof *want);
    if (!args || !want) abort();
    ts_arena_setup(m, t, c, SEED, args);
    add_inputs(h, m);
    if (!is_sampled(t, c)) {
        t->oracle(c, args, want);
        for (size_t i = 0; i < n; i++) add_double(h, want[i].value), add_double(h, want[i].bound);
    }
    ts_arena_clear(m);
    free(args);
    free(want);
}

/* Its least work; a script's is the number of its steps, so those are all cheap. */
static bool is_cheap(const ts_task *t, const ts_case *c)
{
    return t->cost(c).flops <= 1e5 && t->n_want(c) <= 20000;
}

int main(int argc, char **argv)
{
    const bool all = argc > 1 && !strcmp(argv[1], "all");
    bool       same = true;
    ts_arena   m;
    if (!ts_arena_open(&m)) return 1;
    for (int i = 0; ts_tasks[i]; i++) {
        const ts_task *t = ts_tasks[i];
        const size_t   n = sizeof known / sizeof *known;
        uint64_t       h = 0, expected = 0;
        int            n_cases = 0;
        for (const ts_case *c = t->cases(); c->use; c++) {
            if (!(c->use & TS_USE_CHECK) || !(all || is_cheap(t, c))) continue;
            add_case(&h, t, c, &m);
            n_cases++;
        }
        for (size_t k = 0; k < n; k++)
            if (!strcmp(known[k].task, t->name)) expected = all ? known[k].all : known[k].cheap;
        printf("%-25s %4d cases  0x%016" PRIx64 "%s\n", t->name, n_cases, h,
               h == expected ? "" : "  differs");
        same = same && h == expected;
    }
    ts_arena_close(&m);
    return !same;
}
