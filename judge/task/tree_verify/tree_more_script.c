/* SPDX-License-Identifier: Apache-2.0 */
/* tree_more_script.c - plays calls of ts_tree_mask, ts_tree_bias and ts_tree_residual, including
 * invalid ones. */
#include <math.h>
#include <string.h>

#include "tree_verify_script.h"

enum { BAND = 64, BAND_BYTE = 0xfe, POISON = 0x80 };

/* Outputs whose C type has no ts_dtype are stored here, between bands, and copied to doubles. */
typedef struct held {
    unsigned char before[BAND];
    int64_t       position[TS_MORE_ROWS];
    unsigned char between[BAND];
    int64_t       accepted;
    unsigned char after[BAND];
} held;

/* One call, valid at first. */
typedef struct call {
    ts_tree_mask_args     mask;
    ts_tree_bias_args     bias;
    ts_tree_residual_args residual;
    const void           *args;
    const ts_exec        *x;
    int32_t               number[TS_TREE_MOST + 1]; /* invalid parents or children */
    double                law[4096], u[TS_TREE_MOST + 2];
} call;

static int64_t rows_of(const ts_tree_play_args *a)
{
    return a->d.prompt_len + a->d.n_node;
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
    memset(h->position, POISON, sizeof h->position);
    memset(&h->accepted, POISON, sizeof h->accepted);
}

/* Counts changed bytes around n_position positions and, if it may be written, the number of a
 * child. */
static int64_t overstepped(const held *h, int64_t n_position, bool accepted)
{
    return count_other(h->before, BAND, BAND_BYTE) + count_other(h->between, BAND, BAND_BYTE) +
           count_other(h->after, BAND, BAND_BYTE) +
           count_other(h->position + n_position,
                       (size_t)(TS_MORE_ROWS - n_position) * sizeof *h->position, POISON) +
           (accepted ? 0 : count_other(&h->accepted, sizeof h->accepted, POISON));
}

/* Call number i. Without nodes there are no parents, no children, and no distribution q. */
static void prepare(const ts_tree_play_args *a, const ts_exec *x, int64_t i, held *h, call *c)
{
    const int64_t        R = rows_of(a), N = a->d.n_node, V = a->n_vocab;
    const int32_t *const number = N ? a->script + i * N : NULL;
    c->mask = (ts_tree_mask_args) { a->d, number, a->visible, h->position };
    c->bias = (ts_tree_bias_args) { a->d, number, a->bias };
    if (a->visible) c->mask.visible += i * R * R;
    if (a->bias) c->bias.bias += i * R * R;
    c->residual =
        (ts_tree_residual_args) { V, N, a->p, N ? a->q : NULL, number, a->u, a->out, &h->accepted };
    if (a->function == TS_TREE_RESIDUAL) {
        c->residual.p += i * V, c->residual.u += i * (N + 1), c->residual.token += i;
        if (N) c->residual.q += i * V;
    }
    c->args = a->function == TS_TREE_MASK   ? (const void *)&c->mask
              : a->function == TS_TREE_BIAS ? (const void *)&c->bias
                                            : (const void *)&c->residual;
    c->x = x;
    poison(h);
}

/* ---- invalid calls ---- */

enum {
    NO_ARGS,
    NO_EXEC,
    COMMON_WAYS,
    /* mask and bias */
    NO_PARENTS = COMMON_WAYS,
    NO_OUTPUT,
    NO_PROMPT_LEN,
    LESS_NODES,
    MORE_NODES, /* 2^31 rows: parents must not be read */
    HUGE_NODES,
    LESS_NEW,
    HUGE_NEW,
    HOT_NAN,
    HOT_MINUS,
    HOT_INF,
    OWN_FIRST, /* the first node is its own parent */
    OWN_LAST,
    BELOW_FIRST, /* -2 */
    BELOW_LAST,
    CHILD_FIRST,
    NO_POSITION, /* mask only */
    TREE_WAYS,
    /* residual */
    NO_P = COMMON_WAYS,
    NO_Q,
    NO_CHILD,
    NO_U,
    NO_TOKEN,
    NO_ACCEPTED,
    NO_VOCAB,
    HUGE_VOCAB,
    LESS_CHILDREN,
    HUGE_CHILDREN,
    MOST_CHILDREN,
    P_MINUS,
    P_NAN,
    P_INF,
    P_ZERO,
    Q_MINUS,
    Q_NAN,
    Q_INF,
    Q_ZERO, /* at a child */
    CHILD_MINUS,
    CHILD_FAR,
    U_ONE,
    U_MINUS,
    U_NAN,
    RESIDUAL_WAYS
};

bool ts_tree_more_must(int64_t function, int i, ts_status *must)
{
    const bool residual = function == TS_TREE_RESIDUAL;
    *must = TS_E_ARG;
    if (i < COMMON_WAYS) return true;
    if (residual && i >= NO_VOCAB && i <= MOST_CHILDREN) *must = TS_E_SHAPE;
    if (!residual && i >= NO_PROMPT_LEN && i <= HUGE_NEW) *must = TS_E_SHAPE;
    return i < (residual ? RESIDUAL_WAYS : function == TS_TREE_MASK ? TREE_WAYS : TREE_WAYS - 1);
}

static void spoil_dims(ts_tree_dims *d, int way)
{
    const int64_t huge = (int64_t)1 << 60;
    if (way == NO_PROMPT_LEN) d->prompt_len = 0;
    if (way == LESS_NODES) d->n_node = -1;
    if (way == MORE_NODES) d->n_node = ((int64_t)1 << 31) - d->prompt_len;
    if (way == HUGE_NODES) d->n_node = huge;
    if (way == LESS_NEW) d->max_new = -1;
    if (way == HUGE_NEW) d->max_new = huge;
    if (way == HOT_NAN) d->temperature = (double)NAN;
    if (way == HOT_MINUS) d->temperature = -1;
    if (way == HOT_INF) d->temperature = (double)INFINITY;
}

static void spoil_tree(const ts_tree_play_args *a, int way, call *c)
{
    const int64_t N = a->d.n_node;
    spoil_dims(&c->mask.d, way);
    c->bias.d = c->mask.d;
    if (way == NO_OUTPUT) c->mask.visible = NULL, c->bias.bias = NULL;
    if (way == NO_POSITION) c->mask.position = NULL;
    memcpy(c->number, a->script, (size_t)N * sizeof *c->number);
    if (way == OWN_FIRST) c->number[0] = 0;
    if (way == OWN_LAST) c->number[N - 1] = (int32_t)N - 1;
    if (way == BELOW_FIRST) c->number[0] = -2;
    if (way == BELOW_LAST) c->number[N - 1] = -2;
    if (way == CHILD_FIRST) c->number[0] = 1;
    if (way >= OWN_FIRST && way <= CHILD_FIRST) c->mask.parent = c->number;
    if (way == NO_PARENTS) c->mask.parent = NULL;
    c->bias.parent = c->mask.parent;
}

/* A copy of a distribution with one weight, or all, replaced. */
static const double *with(call *c, const double *law, int64_t n, int64_t at, double value)
{
    memcpy(c->law, law, (size_t)n * sizeof *law);
    for (int64_t i = 0; i < n; i++)
        if (at < 0 || i == at) c->law[i] = value;
    return c->law;
}

static void spoil_residual(const ts_tree_play_args *a, int way, call *c)
{
    ts_tree_residual_args *r = &c->residual;
    const int64_t          V = r->n_vocab, N = r->n_child;
    const int64_t          huge[] = { [NO_VOCAB] = 0,
                                      [HUGE_VOCAB] = (int64_t)1 << 31,
                                      [LESS_CHILDREN] = -1,
                                      [HUGE_CHILDREN] = (int64_t)1 << 60,
                                      [MOST_CHILDREN] = INT64_MAX };
    const double           odd[] = { [P_MINUS] = -1,
                                     [P_NAN] = (double)NAN,
                                     [P_INF] = (double)INFINITY,
                                     [P_ZERO] = 0,
                                     [Q_MINUS] = -1,
                                     [Q_NAN] = (double)NAN,
                                     [Q_INF] = (double)INFINITY,
                                     [Q_ZERO] = 0,
                                     [CHILD_MINUS] = -1,
                                     [CHILD_FAR] = (double)V,
                                     [U_ONE] = 1,
                                     [U_MINUS] = -0x1p-60,
                                     [U_NAN] = (double)NAN };
    void **const           absent[] = {
                  [NO_P] = (void **)&r->p,         [NO_Q] = (void **)&r->q,
                  [NO_CHILD] = (void **)&r->child, [NO_U] = (void **)&r->u,
                  [NO_TOKEN] = (void **)&r->token, [NO_ACCEPTED] = (void **)&r->accepted
    };
    if (way >= NO_P && way <= NO_ACCEPTED) *absent[way] = NULL;
    if (way == NO_VOCAB || way == HUGE_VOCAB) r->n_vocab = huge[way];
    if (way >= LESS_CHILDREN && way <= MOST_CHILDREN) r->n_child = huge[way];
    if (way >= P_MINUS && way <= P_ZERO)
        r->p = with(c, r->p, V, way == P_ZERO ? -1 : V - 1, odd[way]);
    if (way >= Q_MINUS && way <= Q_ZERO)
        r->q = with(c, r->q, V, way == Q_ZERO ? r->child[N - 1] : 0, odd[way]);
    memcpy(c->number, a->script, (size_t)N * sizeof *c->number);
    memcpy(c->u, a->u, (size_t)(N + 1) * sizeof *c->u);
    if (way == CHILD_MINUS || way == CHILD_FAR)
        c->number[N - 1] = (int32_t)odd[way], r->child = c->number;
    if (way >= U_ONE && way <= U_NAN) c->u[N] = odd[way], r->u = c->u;
}

static void play_refused(ts_run_fn f, const ts_tree_play_args *a, const ts_exec *x)
{
    static held h;
    static call c;
    ts_status   must;
    double      over = 0;
    int         way = 0;
    for (; ts_tree_more_must(a->function, way, &must); way++) {
        prepare(a, x, a->n_cycle - 1, &h, &c); /* the last one: its inputs end at a guard page */
        if (a->function == TS_TREE_RESIDUAL) {
            c.residual.child = a->script + (a->n_cycle - 1) * a->d.n_node;
            if (way >= COMMON_WAYS) spoil_residual(a, way, &c);
        } else if (way >= COMMON_WAYS) spoil_tree(a, way, &c);
        if (way == NO_ARGS) c.args = NULL;
        if (way == NO_EXEC) c.x = NULL;
        a->seen[way] = f(c.args, c.x);
        over += (double)overstepped(&h, 0, false);
    }
    a->seen[way] = over;
}

ts_status ts_tree_play_more(ts_run_fn f, const ts_tree_play_args *a, const ts_exec *x)
{
    static held   h;
    static call   c;
    const bool    mask = a->function == TS_TREE_MASK, residual = a->function == TS_TREE_RESIDUAL;
    const int64_t n_position = mask ? rows_of(a) : 0;
    if (!f) return TS_E_UNSUPPORTED;
    if (a->refused) return play_refused(f, a, x), TS_OK;
    for (int64_t i = 0; i < a->n_cycle; i++) {
        double *const seen = a->seen + i * (TS_MORE_SEEN + n_position);
        prepare(a, x, i, &h, &c);
        seen[TS_MORE_STATUS] = f(c.args, c.x);
        seen[TS_MORE_OVER] = (double)overstepped(&h, n_position, residual);
        seen[TS_MORE_ACCEPTED] = residual ? (double)h.accepted : 0;
        for (int64_t r = 0; r < n_position; r++) seen[TS_MORE_SEEN + r] = (double)h.position[r];
    }
    return TS_OK;
}
