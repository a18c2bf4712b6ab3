/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_script.c - plays cycles of tree verification and records what the model was called
 * with. */
#include "tree_verify_script.h"

#include <math.h>
#include <string.h>

#include "band.h"
#include "logits.h"
#include "spoil.h"

const char *const ts_tree_names[2] = { "ts_tree_verify", NULL };
const char *const ts_tree_optional[4] = { "ts_tree_mask", "ts_tree_bias", "ts_tree_residual",
                                          NULL };
const char *const ts_tree_queries[3] = { "ts_tree_verify_workspace", "ts_tree_verify_host", NULL };

enum { BAND = TS_HELD_BAND, BAND_BYTE = TS_HELD_BYTE, POISON = TS_HELD_POISON };

/* Outputs whose C type has no ts_dtype are stored here, between bands, and copied to doubles. */
typedef struct held {
    unsigned char before[BAND];
    int64_t       n_out;
    unsigned char between[BAND];
    int64_t       n_path;
    unsigned char after[BAND];
    uint8_t       status[TS_TREE_MOST];
    unsigned char end[BAND];
} held;

typedef struct player {
    const ts_tree_play_args *a;
    const ts_mover          *m; /* logits are on a device; NULL: on the host */
    ts_toy                   toy;
    ts_model                 model;
    int32_t                 *passed; /* of this cycle */
    int64_t                  n_next, n_forward, n_row, n_want;
    ts_tree_verify_args      v; /* the call */
    int32_t                  spoilt[TS_TREE_MOST];
    double                   draw[TS_TREE_MOST];
} player;

static ts_scratch scratch; /* on a device */

/* ---- the model ---- */

/* Bit mask of the nonzero ones of eight bytes. */
static uint32_t eight_bits(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    x |= x >> 4, x |= x >> 2, x |= x >> 1;
    x &= UINT64_C(0x0101010101010101);
    return (uint32_t)(x * UINT64_C(0x0102040810204080) >> 56);
}

static void keep_mask(const uint8_t *sees, int64_t n, int32_t *to)
{
    for (int64_t begin = 0; begin < n; begin += 32) {
        uint32_t bits = 0;
        for (int64_t k = begin; k < begin + 32 && k < n; k += 8) {
            uint8_t       last[8] = { 0 };
            const int64_t left = n - k;
            if (left < 8) memcpy(last, sees + k, (size_t)left);
            bits |= eight_bits(left < 8 ? last : sees + k) << (k - begin);
        }
        memcpy(to + begin / 32, &bits, sizeof bits);
    }
}

static void keep(player *p, int64_t n_row, const int32_t *token, const int64_t *position,
                 const uint8_t *visible, int64_t n_want, const int64_t *want)
{
    const int64_t words = ts_tree_row_words(p->a->most_rows);
    p->n_row = n_row;
    p->n_want = n_want;
    if (n_row < 0 || n_row > p->a->most_rows) return;
    for (int64_t r = 0; r < n_row; r++) {
        int32_t *const to = p->passed + r * words;
        to[0] = token[r];
        to[1] = (int32_t)position[r];
        to[2] = 0;
        keep_mask(visible + r * n_row, n_row, to + 3);
    }
    for (int64_t w = 0; w < n_want; w++)
        if (want[w] >= 0 && want[w] < n_row) p->passed[want[w] * words + 2]++;
}

/* Records a digest of every requested row, so that none can be skipped. */
static void keep_digests(player *p, int64_t n_want, const int64_t *want, const float *out)
{
    const int64_t words = ts_tree_row_words(p->a->most_rows);
    for (int64_t w = 0; w < n_want; w++) {
        int32_t *const to = &p->passed[want[w] * words + 2];
        *to = (int32_t)((uint32_t)*to + ts_toy_digest(&p->toy, out + w * p->a->n_vocab));
    }
}

static int next(void *self, int64_t n_seq, const int64_t *len, const int32_t *const *tokens,
                float *out)
{
    player *p = self;
    int     bad = 0;
    p->n_next++;
    float *const rows = ts_logits_begin(p->m, n_seq, p->a->n_vocab, out);
    if (!rows) return 1;
    for (int64_t i = 0; i < n_seq && !bad; i++)
        bad = ts_toy_next(&p->toy, len[i], tokens[i], rows + i * p->toy.word[TS_TOY_VOCAB]);
    ts_logits_end(p->m, n_seq, p->a->n_vocab, rows, out);
    return ts_toy_says(&p->toy, bad);
}

static int forward(void *self, int64_t n_row, const int32_t *token, const int64_t *position,
                   const uint8_t *visible, int64_t n_want, const int64_t *want, float *out)
{
    player    *p = self;
    const bool first = p->n_forward++ == 0;
    if (first) keep(p, n_row, token, position, visible, n_want, want);
    float *const rows = ts_logits_begin(p->m, n_want, p->a->n_vocab, out);
    if (!rows) return 1;
    const int bad = ts_toy_forward(&p->toy, n_row, token, position, visible, n_want, want, rows);
    if (first && !bad && n_row <= p->a->most_rows) keep_digests(p, n_want, want, rows);
    ts_logits_end(p->m, n_want, p->a->n_vocab, rows, out);
    return ts_toy_says(&p->toy, bad);
}

/* ---- the call ---- */

#define BAD(must, ...) TS_BAD(player, must, __VA_ARGS__)
#define NODE(member, which, value)                                                                 \
    TS_BAD_ITEM(player, TS_E_ARG, v.member, spoilt, v.d.n_node, which, value)
#define NODE_LIKE(member, which, ...)                                                              \
    TS_BAD_ITEM_LIKE(player, TS_E_ARG, v.member, spoilt, v.d.n_node, which, __VA_ARGS__)

static int64_t draws(void *self)
{
    return (intptr_t)((player *)self)->draw;
}

/* A prompt of one token, which is invalid. */
#define PROMPT BAD(TS_E_ARG, v.d.prompt_len, 1)
/* Draws at temperature 1, the last of which is invalid. */
#define DRAW(value)                                                                                \
    BAD(TS_E_ARG, v.d.temperature, 1), TS_BAD_OF(player, TS_ALSO, v.u, draws),                     \
        TS_BAD_ITEM(player, TS_ALSO, v.u, draw, v.d.max_new, TS_LAST, value)

static const ts_bad odd[] = {
    BAD(TS_E_ARG, model.forward, 0),
    BAD(TS_E_SHAPE, model.n_vocab, 0, 0x1p31),
    NODE(parent, TS_FIRST, 1), /* the first node's parent is the second */
    NODE_LIKE(parent, TS_LAST, v.d.n_node, -1),
    NODE(parent, TS_FIRST, -2),
    NODE_LIKE(token, TS_LAST, model.n_vocab, 0),
    PROMPT,
    TS_BAD_ITEM_LIKE(player, TS_ALSO, v.prompt, spoilt, v.d.prompt_len, TS_FIRST, model.n_vocab, 0),
    NODE(token, TS_FIRST, -1),
    PROMPT,
    TS_BAD_ITEM(player, TS_ALSO, v.prompt, spoilt, v.d.prompt_len, TS_FIRST, -1),
    DRAW(1),
    DRAW(-0x1p-60),
    DRAW(NAN),
    { 0 },
};

#define WITHOUT(member) BAD(TS_E_ARG, v.member, 0)

static const ts_bad without[] = {
    WITHOUT(model), WITHOUT(prompt), WITHOUT(token),  WITHOUT(parent), WITHOUT(u), WITHOUT(out),
    WITHOUT(n_out), WITHOUT(path),   WITHOUT(n_path), WITHOUT(status), { 0 },
};

static bool spoil(player *p, int64_t how, ts_status *must)
{
    int i = (int)(how % TS_TREE_LISTS);
    return ts_bad_call(how < TS_TREE_WITHOUT ? odd : without, &i, p, TS_CPU, must);
}

bool ts_tree_must(const void *args, int64_t how, ts_status *must)
{
    (void)args;
    return spoil(NULL, how, must);
}

static void open_player(player *p, const ts_tree_play_args *a)
{
    *p = (player) { .a = a, .toy = { a->word, a->weight } };
    p->model = (ts_model) { p, a->n_vocab, next, forward };
}

/* Prepares cycle number i, whose words begin at `cycle`. */
static void prepare(player *p, const ts_tree_play_args *a, int64_t i, const int32_t *cycle, held *h,
                    ts_workspace_fn host, const ts_exec *x)
{
    const int64_t              n_prompt = *cycle++;
    ts_tree_verify_args *const v = &p->v;
    ts_status                  must;
    *v = (ts_tree_verify_args) {
        .d = a->d,
        .model = &p->model,
        .prompt = cycle,
        .token = cycle + n_prompt,
        .parent = cycle + n_prompt + a->n_node,
        .u = a->u + i * a->max_new,
        .out = a->out + i * a->max_new,
        .n_out = &h->n_out,
        .path = a->path + i * a->n_node,
        .n_path = &h->n_path,
        .status = h->status,
    };
    if (!a->spoilt) v->d.prompt_len = n_prompt;
    if (a->how >= TS_TREE_WITHOUT) v->d.temperature = 1, v->u = p->draw;
    if (v->d.temperature == 0) v->u = NULL;
    p->passed = a->passed + i * a->most_rows * ts_tree_row_words(a->most_rows);
    p->n_next = p->n_forward = p->n_row = p->n_want = 0;
    if (p->m) ts_scratch_lay(&scratch, host, v, x, &v->host, &v->host_bytes);
    if (a->how) spoil(p, a->how, &must);
}

static void poison(held *h)
{
    memset(h, BAND_BYTE, sizeof *h);
    memset(&h->n_out, POISON, sizeof h->n_out);
    memset(&h->n_path, POISON, sizeof h->n_path);
    memset(h->status, POISON, sizeof h->status);
}

static int64_t overstepped(const held *h, int64_t n_node)
{
    return ts_scratch_changed(&scratch) + ts_count_other(h->before, BAND, BAND_BYTE) +
           ts_count_other(h->between, BAND, BAND_BYTE) + ts_count_other(h->after, BAND, BAND_BYTE) +
           ts_count_other(h->end, BAND, BAND_BYTE) +
           ts_count_other(h->status + n_node, TS_TREE_MOST - (size_t)n_node, POISON);
}

static int64_t written(const held *h)
{
    return ts_count_other(&h->n_out, sizeof h->n_out, POISON) +
           ts_count_other(&h->n_path, sizeof h->n_path, POISON) +
           ts_count_other(h->status, sizeof h->status, POISON);
}

/* Zeroes the rows of `passed` that no pass filled, and the words after the mask. */
static void blank(const player *p)
{
    const int64_t words = ts_tree_row_words(p->a->most_rows);
    const int64_t n_row = p->n_row > 0 && p->n_row <= p->a->most_rows ? p->n_row : 0;
    for (int64_t r = 0; r < p->a->most_rows; r++) {
        const int64_t from = r < n_row ? 3 + (n_row + 31) / 32 : 0;
        memset(p->passed + r * words + from, 0, (size_t)(words - from) * sizeof *p->passed);
    }
}

static void tell(const player *p, const held *h, int64_t i, ts_status s)
{
    const ts_tree_play_args *a = p->a;
    double *const            to = a->seen + i * (TS_TREE_SEEN + a->n_node);
    to[TS_TREE_STATUS] = s;
    to[TS_TREE_N_OUT] = s ? 0 : (double)h->n_out;
    to[TS_TREE_N_PATH] = s ? 0 : (double)h->n_path;
    to[TS_TREE_NEXTS] = (double)p->n_next;
    to[TS_TREE_FORWARDS] = (double)p->n_forward;
    to[TS_TREE_ROWS] = (double)p->n_row;
    to[TS_TREE_WANTS] = (double)p->n_want;
    to[TS_TREE_OVER] = (double)overstepped(h, a->n_node);
    to[TS_TREE_WROTE] = s ? (double)written(h) : 0;
    for (int64_t k = 0; k < a->n_node; k++) to[TS_TREE_SEEN + k] = s ? 0 : (double)h->status[k];
}

static ts_status play(const void *table, const ts_mover *m, const void *args, const ts_exec *x)
{
    static held                    h;
    static player                  p;
    const ts_tree_table *const     t = table;
    const ts_tree_play_args *const a = args;
    if (!a || !x) return t->verify(a, x);
    const int32_t  *cycle = a->script;
    const ts_run_fn f[] = { t->verify, t->mask, t->bias, t->residual };
    if (a->function) return ts_tree_play_more(f[a->function], a, x);
    open_player(&p, a);
    if (x->device != TS_CPU) p.m = m;
    for (int64_t i = 0; i < a->n_cycle; i++, cycle += 1 + *cycle + 2 * a->n_node) {
        prepare(&p, a, i, cycle, &h, t->verify_host, x);
        poison(&h);
        const ts_status s = t->verify(&p.v, x);
        const bool      refused = s && s != TS_E_MODEL;
        if (refused && !written(&h) && !overstepped(&h, a->n_node)) return s;
        blank(&p);
        tell(&p, &h, i, s);
        if (refused) return s;
    }
    return TS_OK;
}

static ts_status workspace(const void *table, const void *args, const ts_exec *x, size_t *n_bytes)
{
    static held                    h;
    static player                  p;
    static int32_t                 cycle[1 + TS_TOY_MOST_ROWS + 2 * TS_TREE_MOST];
    static const double            none[TS_TREE_MOST];
    const ts_tree_table *const     t = table;
    const ts_tree_play_args *const a = args;
    if (!a || !x || !n_bytes) return t->verify_workspace(NULL, x, n_bytes);
    const int64_t n_prompt = a->most_rows - a->n_node;
    *n_bytes = 0;
    if (!t->verify_workspace || a->function) return TS_OK;
    memset(cycle, 0, sizeof cycle);
    cycle[0] = (int32_t)n_prompt;
    for (int64_t i = 0; i < a->n_node; i++) cycle[1 + n_prompt + a->n_node + i] = (int32_t)i - 1;
    open_player(&p, a);
    prepare(&p, a, 0, cycle, &h, NULL, x);
    if (p.v.u == a->u) p.v.u = none;
    return t->verify_workspace(&p.v, x, n_bytes);
}

const ts_player ts_player_tree_verify = {
    ts_tree_names, ts_tree_optional, ts_tree_queries, play, workspace, .on_host = true,
};
