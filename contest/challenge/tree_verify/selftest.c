/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - public cases for tree_verify against plain decoding, under a model that hashes what
 * a row sees: tokens, and their positions. */
#include "selftest.h"
#include "touchstone/tree_verify.h"

#pragma weak ts_tree_verify_host /* on a device, of a file that needs it */

enum { MOST_ROWS = 64, MOST_VOCAB = 97 };

/* ---- the model ---- */

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

typedef struct toy {
    int64_t        n_vocab, n_forward, n_next, n_row, n_want;
    int            mask_right;
    int64_t        n_prompt;
    const int32_t *parent;
} toy;

static uint64_t place(int64_t position, int32_t token)
{
    return mix(mix((uint64_t)position + 1) + (uint64_t)token);
}

static void fill(const toy *m, uint64_t h, float *out)
{
    for (int64_t t = 0; t < m->n_vocab; t++)
        out[t] = (float)((double)(mix(h ^ mix((uint64_t)t)) >> 40) * 0x1p-24 * 6);
}

static int next(void *self, int64_t n_seq, const int64_t *len, const int32_t *const *tokens,
                float *out)
{
    (void)n_seq, (void)len, (void)tokens, (void)out;
    ((toy *)self)->n_next++;
    return 1;
}

static int must_see(const toy *m, int64_t r, int64_t c)
{
    if (c < m->n_prompt) return c <= r;
    for (int64_t i = r - m->n_prompt; i >= 0; i = m->parent[i])
        if (i == c - m->n_prompt) return 1;
    return 0;
}

static int forward(void *self, int64_t n_row, const int32_t *token, const int64_t *position,
                   const uint8_t *visible, int64_t n_want, const int64_t *want, float *out)
{
    toy *m = self;
    finish(TS_OK); /* the logits of a device are written here too */
    m->n_forward++;
    m->n_row = n_row, m->n_want = n_want;
    m->mask_right = 1;
    for (int64_t r = 0; r < n_row; r++)
        for (int64_t c = 0; c < n_row; c++)
            if ((visible[r * n_row + c] != 0) != must_see(m, r, c)) m->mask_right = 0;
    for (int64_t w = 0; w < n_want; w++) {
        uint64_t h = 0;
        for (int64_t c = 0; c < n_row; c++)
            if (visible[want[w] * n_row + c]) h += place(position[c], token[c]);
        fill(m, h, out + w * m->n_vocab);
    }
    return 0;
}

/* ---- the definition ---- */

static int32_t choose(const float *x, int64_t n, double temperature, double u)
{
    double  total = 0, sum = 0;
    int64_t best = 0, t = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    if (temperature == 0) return (int32_t)best;
    for (int64_t i = 0; i < n; i++) total += exp(x[i] / temperature);
    while (t < n && (sum += exp(x[t] / temperature)) <= u * total) t++;
    return (int32_t)t;
}

typedef struct walk {
    int32_t out[MOST_ROWS], path[MOST_ROWS];
    int64_t n_out, n_path;
    uint8_t status[MOST_ROWS];
} walk;

/* What follows the prompt and these tokens, with nothing seen of any tree. */
static int32_t decode(const toy *m, const ts_tree_verify_args *a, const int32_t *text, int64_t n,
                      double u)
{
    float    row[MOST_VOCAB];
    uint64_t h = 0;
    for (int64_t i = 0; i < a->d.prompt_len; i++) h += place(i, a->prompt[i]);
    for (int64_t i = 0; i < n; i++) h += place(a->d.prompt_len + i, text[i]);
    fill(m, h, row);
    return choose(row, m->n_vocab, a->d.temperature, u);
}

static void define(const toy *m, const ts_tree_verify_args *a, walk *w)
{
    memset(w, 0, sizeof *w);
    for (int64_t cur = -1, child; w->n_out < a->d.max_new; cur = child) {
        const int32_t t = decode(m, a, w->out, w->n_out, a->u[w->n_out]);
        w->out[w->n_out++] = t;
        child = -1;
        for (int64_t i = a->d.n_node - 1; i >= 0; i--) {
            if (a->parent[i] != cur) continue;
            w->status[i] = TS_NODE_REJECTED;
            if (a->token[i] == t) child = i;
        }
        if (child < 0) break;
        w->status[child] = TS_NODE_ACCEPTED;
        w->path[w->n_path++] = (int32_t)child;
    }
}

/* ---- a case ---- */

/* Trees are built around the tokens that will be emitted, with wrong nodes around those. */
static void grow(const toy *m, const ts_tree_verify_args *a, int64_t n, int shape, int32_t *token,
                 int32_t *parent)
{
    int32_t right[MOST_ROWS], last = -1;
    int64_t depth = 0;
    for (int64_t i = 0; i <= n; i++) right[i] = decode(m, a, right, i, a->u[i]);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t r = mix((uint64_t)(i + 100 * shape));
        const int      goes_right = shape == 0 ? i < n - 1 : shape == 1 ? i % 2 : r % 3 > 0;
        parent[i] = goes_right || shape == 0 ? last : (int32_t)(r % (uint64_t)(i + 1)) - 1;
        token[i] = goes_right ? right[depth] : right[(depth + 1 + r % 2) % (n + 1)];
        if (!goes_right) continue;
        last = (int32_t)i;
        depth++;
    }
}

static void check(const char *name, const toy *m, const ts_tree_verify_args *a, const walk *want)
{
    compare(name, "n_out", 0, (double)*a->n_out, (double)want->n_out, 0);
    compare(name, "n_path", 0, (double)*a->n_path, (double)want->n_path, 0);
    for (int64_t i = 0; i < a->d.max_new; i++)
        compare(name, "out", i, a->out[i], i < want->n_out ? want->out[i] : -1, 0);
    for (int64_t i = 0; i < a->d.n_node; i++) {
        compare(name, "path", i, a->path[i], i < want->n_path ? want->path[i] : -1, 0);
        compare(name, "node", i, a->status[i], want->status[i], 0);
    }
    compare(name, "calls of next", 0, (double)m->n_next, 0, 0);
    compare(name, "calls of forward", 0, (double)m->n_forward, a->d.max_new > 0, 0);
    if (!a->d.max_new) return;
    compare(name, "rows", 0, (double)m->n_row, (double)(a->d.prompt_len + a->d.n_node), 0);
    compare(name, "wanted rows", 0, (double)m->n_want, (double)a->d.n_node + 1, 0);
    compare(name, "mask", 0, m->mask_right, 1, 0);
}

static void try(int64_t n_prompt, int64_t n_node, int64_t n_vocab, int64_t max_new,
                double temperature, int shape)
{
    int32_t prompt[MOST_ROWS], token[MOST_ROWS], parent[MOST_ROWS], out[MOST_ROWS], path[MOST_ROWS];
    double  u[MOST_ROWS];
    int64_t n_out = -1, n_path = -1;
    uint8_t status[MOST_ROWS];
    char    name[96];
    walk    want;
    size_t  n_bytes = 0;
    toy     m = { .n_vocab = n_vocab, .n_prompt = n_prompt, .parent = parent };
    const ts_model      model = { &m, n_vocab, next, forward };
    ts_exec             x = { .device = TEST_DEVICE, .n_threads = 1, .deterministic = 1 };
    ts_tree_verify_args a = { .d = { n_prompt, n_node, max_new, temperature }, .model = &model };
    snprintf(name, sizeof name, "prompt=%d nodes=%d vocab=%d max_new=%d temperature=%g shape=%d",
             (int)n_prompt, (int)n_node, (int)n_vocab, (int)max_new, temperature, shape);
    for (int i = 0; i < MOST_ROWS; i++) {
        prompt[i] = (int32_t)(mix((uint64_t)i + 7) % (uint64_t)n_vocab);
        u[i] = (double)(mix((uint64_t)i + 9) >> 40) * 0x1p-24;
    }
    a.prompt = prompt, a.token = token, a.parent = parent, a.u = u, a.out = out, a.n_out = &n_out;
    a.path = path, a.n_path = &n_path, a.status = status;
    grow(&m, &a, n_node, shape, token, parent);
    define(&m, &a, &want);
    memset(out, 0x80, sizeof out), memset(path, 0x80, sizeof path), memset(status, 0x80, 64);
    begin_case();
    ts_status s = ts_tree_verify_workspace(&a, &x, &n_bytes);
    x.workspace = fresh_bytes(n_bytes + 64);
    x.workspace_bytes = n_bytes;
    if (!s && TEST_DEVICE != TS_CPU && ts_tree_verify_host)
        s = ts_tree_verify_host(&a, &x, &a.host_bytes);
    a.host = a.host_bytes ? fresh_bytes(a.host_bytes) : NULL;
    if (!s) s = finish(ts_tree_verify(&a, &x));
    if (s) flaw(name, "status", 0, s, TS_OK);
    else check(name, &m, &a, &want);
    drop_all();
}

int main(void)
{
    for (int shape = 0; shape < 3; shape++)
        for (int hot = 0; hot < 2; hot++) {
            try(1, 1, 11, 4, hot, shape);
            try(3, 3, 97, 4, hot, shape);
            try(5, 7, 97, 8, hot, shape);
            try(17, 20, 31, 21, hot, shape);
            try(5, 12, 97, 2, hot, shape);
        }
    try(4, 0, 11, 3, 0, 0);
    try(4, 6, 11, 0, 0, 0);
    return verdict();
}
