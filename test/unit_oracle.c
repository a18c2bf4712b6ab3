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
    { "layernorm_forward", 0xc4e42841f512776c, 0x6fdbf0bb06f8156c },
    { "layernorm_backward", 0x5371de990f8d6c78, 0x431deaecd9895240 },
    { "softmax_topk", 0x2df08f080463244f, 0xb0b22903ce0077a9 },
    { "kv_cache", 0x000453e7acb10483, 0x510260c1fdd066f4 },
    { "flash_attention", 0x47b23157b180694f, 0x7de88e8edd139f9c },
    { "flash_attention_backward", 0x6e168f315e133b92, 0xb8124d65df8c958e },
    { "flash_attention_fp8", 0xc004d00f9618051f, 0x27b0ff6d88166141 },
    { "beam_search", 0xbaf39221addfca0b, 0x773f324cdeef8040 },
    { "tree_verify", 0x28ac6fb7d98d77b6, 0x7fece2f7e0e6cd2a },
    { "ternary_linear", 0x73caceda83664efa, 0x794c62e222985a28 },
    { "ternary_training", 0x605bcce925082901, 0x5423ca6f3aadb056 },
    { "rms_norm_forward", 0x1127435a7ecfeecc, 0xf9e4aa6ffd394419 },
    { "rms_norm_backward", 0xdc5f6f44225e0562, 0x89839110506b1d45 },
    { "rope", 0x04397917c55f1f51, 0xc95fb2ea89213360 },
    { "swiglu_forward", 0x866c0ed010f14b62, 0x52e01373d61c48e2 },
    { "swiglu_backward", 0x19c367b6b8ba1a1b, 0xc9180391a30684ea },
    { "cross_entropy", 0x2f81d7d766194c56, 0xed931fa0cf94cd8f },
    { "cross_entropy_logits", 0x8e57841af357b47c, 0x591c0669f0995fbd },
    { "embedding_forward", 0x792fc77d0e65308d, 0xbe25f44cce89295f },
    { "embedding_backward", 0x5097a50872b47702, 0x4fa05d7842559bbb },
    { "adamw_step", 0x4d8e569a46db0b18, 0x787d0cda688cdcc0 },
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
