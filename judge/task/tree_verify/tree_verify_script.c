/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_script.c - plays cycles of tree verification and records what the model was called
 * with. */
#include "tree_verify_script.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

const char *const ts_tree_names[2] = { "ts_tree_verify", NULL };
const char *const ts_tree_optional[4] = { "ts_tree_mask", "ts_tree_bias", "ts_tree_residual",
                                          NULL };
const char *const ts_tree_queries[2] = { "ts_tree_verify_workspace", NULL };

enum { BAND = 64, BAND_BYTE = 0xfe, POISON = 0x80 };

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
    ts_toy                   toy;
    ts_model                 model;
    int32_t                 *passed; /* of this cycle */
    int64_t                  n_next, n_forward, n_row, n_want;
    int32_t                  spoilt[TS_TREE_MOST];
    double                   draw[TS_TREE_MOST];
} player;

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
    for (int64_t i = 0; i < n_seq && !bad; i++)
        bad = ts_toy_next(&p->toy, len[i], tokens[i], out + i * p->toy.word[TS_TOY_VOCAB]);
    return bad;
}

static int forward(void *self, int64_t n_row, const int32_t *token, const int64_t *position,
                   const uint8_t *visible, int64_t n_want, const int64_t *want, float *out)
{
    player    *p = self;
    const bool first = p->n_forward++ == 0;
    if (first) keep(p, n_row, token, position, visible, n_want, want);
    const int bad = ts_toy_forward(&p->toy, n_row, token, position, visible, n_want, want, out);
    if (first && !bad && n_row <= p->a->most_rows) keep_digests(p, n_want, want, out);
    return bad;
}

/* ---- the call ---- */

/* A copy of a row of tokens or parents with one replaced. */
static const int32_t *with(player *p, const int32_t *row, int64_t n, int64_t at, int32_t value)
{
    memcpy(p->spoilt, row, (size_t)n * sizeof *row);
    p->spoilt[at] = value;
    return p->spoilt;
}

#define AT(member) offsetof(ts_tree_verify_args, member)
static const size_t required[] = { AT(model), AT(prompt), AT(token), AT(parent), AT(u),
                                   AT(out),   AT(n_out),  AT(path),  AT(n_path), AT(status) };

int ts_tree_without(void)
{
    return sizeof required / sizeof *required;
}

/* Draws at temperature 1, the last of which is invalid. */
static void draw(player *p, ts_tree_verify_args *v, double last)
{
    v->d.temperature = 1;
    if (v->d.max_new > 0 && v->d.max_new <= TS_TREE_MOST) p->draw[v->d.max_new - 1] = last;
    v->u = p->draw;
}

static void spoil(player *p, ts_tree_verify_args *v)
{
    const int64_t n = p->a->n_node, how = p->a->how;
    const int32_t n_vocab = (int32_t)p->a->n_vocab;
    if (how >= TS_TREE_WITHOUT) {
        draw(p, v, 0);
        memset((char *)v + required[how - TS_TREE_WITHOUT], 0, sizeof(void *));
    }
    if (how == TS_TREE_NO_FORWARD) p->model.forward = NULL;
    if (how == TS_TREE_NO_VOCAB) p->model.n_vocab = 0;
    if (how == TS_TREE_MUCH_VOCAB) p->model.n_vocab = (int64_t)1 << 31;
    if (how == TS_TREE_CHILD_FIRST) v->parent = with(p, v->parent, n, 0, 1);
    if (how == TS_TREE_OWN_PARENT) v->parent = with(p, v->parent, n, n - 1, (int32_t)n - 1);
    if (how == TS_TREE_BELOW) v->parent = with(p, v->parent, n, 0, -2);
    if (how == TS_TREE_FAR_TOKEN) v->token = with(p, v->token, n, n - 1, n_vocab);
    if (how == TS_TREE_NEGATIVE) v->token = with(p, v->token, n, 0, -1);
    if (how == TS_TREE_FAR_PROMPT || how == TS_TREE_LOW_PROMPT) {
        v->prompt = with(p, v->prompt, 1, 0, how == TS_TREE_FAR_PROMPT ? n_vocab : -1);
        v->d.prompt_len = 1;
    }
    if (how == TS_TREE_DRAW_OF_ONE) draw(p, v, 1);
    if (how == TS_TREE_DRAW_BELOW) draw(p, v, -0x1p-60);
    if (how == TS_TREE_DRAW_NAN) draw(p, v, NAN);
}

static void open_player(player *p, const ts_tree_play_args *a)
{
    *p = (player) { .a = a, .toy = { a->word, a->weight } };
    p->model = (ts_model) { p, a->n_vocab, next, forward };
}

/* Prepares cycle number i, whose words begin at `cycle`. */
static ts_tree_verify_args prepare(player *p, const ts_tree_play_args *a, int64_t i,
                                   const int32_t *cycle, held *h)
{
    const int64_t       n_prompt = *cycle++;
    ts_tree_verify_args v = {
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
    if (!a->spoilt) v.d.prompt_len = n_prompt;
    if (v.d.temperature == 0) v.u = NULL;
    p->passed = a->passed + i * a->most_rows * ts_tree_row_words(a->most_rows);
    p->n_next = p->n_forward = p->n_row = p->n_want = 0;
    if (a->how) spoil(p, &v);
    return v;
}

static int64_t count_other(const void *bytes, size_t n, unsigned char byte)
{
    const unsigned char *p = bytes;
    int64_t              other = 0;
    for (size_t i = 0; i < n; i++) other += p[i] != byte;
    return other;
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
    return count_other(h->before, BAND, BAND_BYTE) + count_other(h->between, BAND, BAND_BYTE) +
           count_other(h->after, BAND, BAND_BYTE) + count_other(h->end, BAND, BAND_BYTE) +
           count_other(h->status + n_node, TS_TREE_MOST - (size_t)n_node, POISON);
}

static int64_t written(const held *h)
{
    return count_other(&h->n_out, sizeof h->n_out, POISON) +
           count_other(&h->n_path, sizeof h->n_path, POISON) +
           count_other(h->status, sizeof h->status, POISON);
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
    to[TS_TREE_OVER] = (double)(overstepped(h, a->n_node) + (s ? written(h) : 0));
    for (int64_t k = 0; k < a->n_node; k++) to[TS_TREE_SEEN + k] = s ? 0 : (double)h->status[k];
}

static ts_status play(const void *table, const ts_mover *m, const void *args, const ts_exec *x)
{
    static held                    h;
    static player                  p;
    const ts_tree_table *const     t = table;
    const ts_tree_play_args *const a = args;
    (void)m;
    if (!a || !x) return t->verify(a, x);
    const int32_t  *cycle = a->script;
    const ts_run_fn f[] = { t->verify, t->mask, t->bias, t->residual };
    if (a->function) return ts_tree_play_more(f[a->function], a, x);
    open_player(&p, a);
    for (int64_t i = 0; i < a->n_cycle; i++, cycle += 1 + *cycle + 2 * a->n_node) {
        const ts_tree_verify_args v = prepare(&p, a, i, cycle, &h);
        poison(&h);
        const ts_status s = t->verify(&v, x);
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
    ts_tree_verify_args v = prepare(&p, a, 0, cycle, &h);
    if (v.u == a->u) v.u = none;
    return t->verify_workspace(&v, x, n_bytes);
}

const ts_player ts_player_tree_verify = {
    ts_tree_names, ts_tree_optional, ts_tree_queries, play, workspace,
};
