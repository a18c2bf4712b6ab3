/* SPDX-License-Identifier: Apache-2.0 */
/* tree_more_script.c - plays calls of ts_tree_mask, ts_tree_bias and ts_tree_residual, including
 * invalid ones. */
#include <math.h>
#include <string.h>

#include "band.h"
#include "spoil.h"
#include "tree_verify_script.h"

enum { BAND = TS_HELD_BAND, BAND_BYTE = TS_HELD_BYTE, POISON = TS_HELD_POISON };

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
    int64_t               n_draw;                   /* of residual */
    int32_t               number[TS_TREE_MOST + 1]; /* invalid parents or children */
    double                law[4096], u[TS_TREE_MOST + 2];
} call;

static int64_t rows_of(const ts_tree_play_args *a)
{
    return a->d.prompt_len + a->d.n_node;
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
    return ts_count_other(h->before, BAND, BAND_BYTE) +
           ts_count_other(h->between, BAND, BAND_BYTE) + ts_count_other(h->after, BAND, BAND_BYTE) +
           ts_count_other(h->position + n_position,
                          (size_t)(TS_MORE_ROWS - n_position) * sizeof *h->position, POISON) +
           (accepted ? 0 : ts_count_other(&h->accepted, sizeof h->accepted, POISON));
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
    c->n_draw = N + 1;
    poison(h);
}

/* ---- invalid calls ---- */

#define BAD(must, ...) TS_BAD(call, TS_E_##must, __VA_ARGS__)
#define OF(must, ...)  TS_BAD_OF(call, TS_E_##must, __VA_ARGS__)
#define PARENT(...)    TS_BAD_ITEM(call, TS_E_ARG, mask.parent, number, mask.d.n_node, __VA_ARGS__)
#define LAW(law_of, ...)                                                                           \
    TS_BAD_ITEM(call, TS_E_ARG, residual.law_of, law, residual.n_vocab, __VA_ARGS__)

static int64_t too_many_rows(void *self) /* 2^31: parents must not be read */
{
    return ((int64_t)1 << 31) - ((call *)self)->mask.d.prompt_len;
}

static int64_t most(void *self)
{
    (void)self;
    return INT64_MAX;
}

/* Without weight at the last child. */
static int64_t q_without_child(void *self)
{
    call *c = self;
    memcpy(c->law, c->residual.q, (size_t)c->residual.n_vocab * sizeof *c->law);
    c->law[c->residual.child[c->residual.n_child - 1]] = 0;
    return (intptr_t)c->law;
}

static const ts_bad of_all[] = { BAD(ARG, args, 0), BAD(ARG, x, 0), { 0 } };
/* The bias has the dims and parents of the mask. */
static const ts_bad of_tree[] = {
    BAD(ARG, mask.parent, 0),
    BAD(ARG, mask.visible, 0),
    TS_BAD(call, TS_ALSO, bias.bias, 0),
    BAD(SHAPE, mask.d.prompt_len, 0),
    BAD(SHAPE, mask.d.n_node, -1),
    OF(SHAPE, mask.d.n_node, too_many_rows),
    BAD(SHAPE, mask.d.n_node, 0x1p60),
    BAD(SHAPE, mask.d.max_new, -1, 0x1p60),
    BAD(ARG, mask.d.temperature, NAN, -1, INFINITY),
    PARENT(TS_FIRST, 0), /* its own */
    TS_BAD_ITEM_LIKE(call, TS_E_ARG, mask.parent, number, mask.d.n_node, TS_LAST, mask.d.n_node,
                     -1),
    PARENT(TS_FIRST, -2),
    PARENT(TS_LAST, -2),
    PARENT(TS_FIRST, 1),
    { 0 },
};
static const ts_bad of_mask[] = { BAD(ARG, mask.position, 0), { 0 } };
static const ts_bad of_residual[] = {
    BAD(ARG, residual.p, 0),
    BAD(ARG, residual.q, 0),
    BAD(ARG, residual.child, 0),
    BAD(ARG, residual.u, 0),
    BAD(ARG, residual.token, 0),
    BAD(ARG, residual.accepted, 0),
    BAD(SHAPE, residual.n_vocab, 0, 0x1p31),
    BAD(SHAPE, residual.n_child, -1, 0x1p60),
    OF(SHAPE, residual.n_child, most),
    LAW(p, TS_LAST, -1, NAN, INFINITY),
    LAW(p, TS_EVERY, 0),
    LAW(q, TS_FIRST, -1, NAN, INFINITY),
    OF(ARG, residual.q, q_without_child),
    TS_BAD_ITEM(call, TS_E_ARG, residual.child, number, residual.n_child, TS_LAST, -1),
    TS_BAD_ITEM_LIKE(call, TS_E_ARG, residual.child, number, residual.n_child, TS_LAST,
                     residual.n_vocab, 0),
    TS_BAD_ITEM(call, TS_E_ARG, residual.u, u, n_draw, TS_LAST, 1, -0x1p-60, NAN),
    { 0 },
};

static bool spoil(int64_t function, int i, call *c, ts_status *must)
{
    if (ts_bad_call(of_all, &i, c, TS_CPU, must)) return true;
    if (function == TS_TREE_RESIDUAL) return ts_bad_call(of_residual, &i, c, TS_CPU, must);
    return ts_bad_call(of_tree, &i, c, TS_CPU, must) ||
           (function == TS_TREE_MASK && ts_bad_call(of_mask, &i, c, TS_CPU, must));
}

bool ts_tree_more_must(int64_t function, int i, ts_status *must)
{
    return spoil(function, i, NULL, must);
}

static void play_refused(ts_run_fn f, const ts_tree_play_args *a, const ts_exec *x)
{
    static held h;
    static call c;
    ts_status   must;
    const bool  mask = a->function == TS_TREE_MASK, residual = a->function == TS_TREE_RESIDUAL;
    double      inside = 0, over = 0;
    int         way = 0;
    for (; ts_tree_more_must(a->function, way, &must); way++) {
        prepare(a, x, a->n_cycle - 1, &h, &c); /* the last one: its inputs end at a guard page */
        c.residual.child = a->script + (a->n_cycle - 1) * a->d.n_node;
        spoil(a->function, way, &c, &must);
        c.bias.d = c.mask.d, c.bias.parent = c.mask.parent;
        a->seen[way] = f(c.args, c.x);
        const int64_t all = overstepped(&h, 0, false);
        const int64_t outside = overstepped(&h, mask ? rows_of(a) : 0, residual);
        inside += (double)(all - outside);
        over += (double)outside;
    }
    a->seen[way] = inside, a->seen[way + 1] = over;
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
