/* SPDX-License-Identifier: Apache-2.0 */
/* forward.c - one pass of a packed batch of tokens through the decoder. Arrays are touched through
 * ts_ops and kernels only. */
#include "dtype.h"
#include "model_impl.h"
#include "scratch.h"
#include "touchstone/embedding.h"
#include "touchstone/layernorm.h"
#include "touchstone/rms_norm.h"
#include "touchstone/rope.h"
#include "touchstone/swiglu.h"

/* Where things are in the workspace, which is cut up anew by every call. */
typedef struct scratch {
    const ts_decoder      *m;
    int64_t                n;                 /* tokens */
    int32_t               *token, *position;  /* [n] */
    int32_t               *want;              /* [n]; only the n_want first are used */
    void                  *x;                 /* [n][width]: the residual stream */
    void                  *h;                 /* [n][width]: x after a norm */
    void                  *q, *k, *v, *mixed; /* [n][heads][head_dim] */
    void                  *gate, *up;         /* [n][n_ffn] */
    void                  *mean, *rstd;       /* [n]; rstd with norms of queries, [n][heads] */
    void                  *rounded;           /* activations as bytes; NULL: none are */
    const ts_forward_tree *tree;              /* or NULL */
    ts_exec                exec;              /* of kernels: the rest of the workspace */
    bool                   grown;             /* the first layer has the new tokens */
} scratch;

/* With base NULL it only counts. */
static size_t lay(const ts_decoder *m, int64_t n, char *base, scratch *s)
{
    const ts_decoder_dims *d = &m->dims;
    const size_t           size = ts_format_of(m->dtype)->n_bytes;
    const int64_t          n_q = d->n_head * d->head_dim, n_kv = d->n_kv_head * d->head_dim;
    size_t                 at = base ? (size_t)(-(uintptr_t)base % TS_LINE) : TS_LINE - 1;
    *s = (scratch) { .m = m, .n = n };
    s->position = ts_cut(base, &at, n, sizeof *s->position);
    s->token = ts_cut(base, &at, n, sizeof *s->token);
    s->want = ts_cut(base, &at, n, sizeof *s->want);
    s->x = ts_cut(base, &at, n * d->width, size);
    s->h = ts_cut(base, &at, n * d->width, size);
    s->q = ts_cut(base, &at, n * n_q, size);
    s->k = ts_cut(base, &at, n * n_kv, size);
    s->v = ts_cut(base, &at, n * n_kv, size);
    s->mixed = ts_cut(base, &at, n * n_q, size);
    s->gate = ts_cut(base, &at, d->gelu ? 0 : n * d->n_ffn, size);
    s->up = ts_cut(base, &at, n * d->n_ffn, size);
    s->mean = ts_cut(base, &at, n, size);
    s->rstd = ts_cut(base, &at, d->qk_norm ? n * d->n_head : n, size);
    const size_t rounded = ts_encoded_workspace(m, n);
    if (rounded) s->rounded = ts_cut(base, &at, 1, rounded);
    return at;
}

size_t ts_decoder_workspace(const ts_decoder *m, int64_t n_token, size_t kv_bytes)
{
    scratch      s;
    const size_t packed = ts_packed_workspace(m, n_token);
    return lay(m, n_token, NULL, &s) + (packed > kv_bytes ? packed : kv_bytes);
}

/* ---- rows of a matrix ---- */

/* What is listed on the host is copied to the device in chunks, since there is no memory to list
 * all. */
enum { PIECE = 256 };

static void put_rows(const scratch *s, const int64_t *row, int64_t n)
{
    int32_t part[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t now = n - i < PIECE ? n - i : PIECE;
        for (int64_t j = 0; j < now; j++) part[j] = (int32_t)row[i + j];
        s->m->ops->put(s->m->self, s->want + i, part, (size_t)now * sizeof *part);
    }
}

/* y[i] = table[row[i]], of a table of n_table rows in `dtype` */
static ts_status gather(const scratch *s, void *y, const void *table, ts_dtype dtype,
                        int64_t n_table, const int32_t *row, int64_t n, int64_t width)
{
    const ts_embedding_forward_args a = {
        .dtype = dtype,
        .y_dtype = s->m->dtype,
        .n_rows = n,
        .n_cols = width,
        .n_vocab = n_table,
        .table_stride = width,
        .y_stride = width,
        .scale = 1,
        .table = table,
        .token = row,
        .y = y,
    };
    return n ? ts_embedding_forward(&a, &s->exec) : TS_OK;
}

/* ---- the parts of a layer ---- */

static ts_status rms(const scratch *s, void *y, const void *x, const void *gain, int64_t n,
                     int64_t width)
{
    const ts_rms_norm_forward_args a = {
        .dtype = s->m->dtype,
        .n_rows = n,
        .n_cols = width,
        .row_stride = width,
        .eps = s->m->dims.norm_eps,
        .x = x,
        .w = gain,
        .y = y,
        .rstd = s->rstd,
    };
    return ts_rms_norm_forward(&a, &s->exec);
}

static ts_status norm(const scratch *s, void *y, const void *x, int64_t n, int64_t layer,
                      ts_slot gain)
{
    const ts_decoder_dims *d = &s->m->dims;
    const void            *g = ts_weight(s->m, layer, gain);
    if (!d->layernorm) return rms(s, y, x, g, n, d->width);
    const ts_layernorm_forward_args a = {
        .dtype = s->m->dtype,
        .n_rows = n,
        .n_cols = d->width,
        .row_stride = d->width,
        .eps = d->norm_eps,
        .x = x,
        .gamma = g,
        .beta = ts_weight(s->m, layer, gain + 1), /* the bias's slot follows */
        .y = y,
        .mean = s->mean,
        .rstd = s->rstd,
    };
    return ts_layernorm_forward(&a, &s->exec);
}

/* What is added goes through h, which is not in use at that time. */
static ts_status multiply(const scratch *s, void *y, const void *x, int64_t layer, ts_slot w,
                          const void *bias, int64_t n, bool add)
{
    const ts_shape shape = ts_slot_shape(&s->m->dims, w);
    const int64_t  at = ts_slot_at(&s->m->dims, layer, w);
    if (s->m->scale[at]) {
        const ts_packed_product p = { at, shape, y, x, bias, add ? s->h : NULL, n };
        return ts_packed_linear(s->m, &p, &s->exec);
    }
    if (s->m->encoded[at].data) {
        const ts_encoded_product p = { &s->m->encoded[at], shape, y, x, n, add || bias };
        if (bias) s->m->ops->sum(s->m->self, y, NULL, bias, n, shape.rows, add);
        if (s->m->device == TS_CPU) ts_encoded_linear(&p, 1, s->rounded, s->exec.n_threads);
        else ts_encoded_half(s->m, &p);
        return TS_OK;
    }
    s->m->ops->linear(s->m->self, y, x, s->m->weight[at], bias, n, shape.rows, shape.cols, add);
    return TS_OK;
}

static ts_status linear(const scratch *s, void *y, const void *x, int64_t layer, ts_slot w,
                        ts_slot bias, bool add)
{
    return multiply(s, y, x, layer, w, ts_weight(s->m, layer, bias), s->n, add);
}

/* y = h w^T + bias. */
typedef struct projection {
    void       *y;
    ts_slot     w;
    const void *bias; /* may be NULL */
} projection;

/* In one launch, where a CUDA device has all in 16 bits; else false. */
static bool project_halves(const scratch *s, int64_t layer, const projection *p, int n)
{
    const ts_decoder *m = s->m;
    ts_half_product   h = { .n_matrix = n, .x = s->h, .n = s->n, .n_in = m->dims.width };
    for (int i = 0; i < n; i++) {
        const ts_encoded *e = &m->encoded[ts_slot_at(&m->dims, layer, p[i].w)];
        if (m->device != TS_CUDA || !e->data || p[i].bias) return false;
        if (i && ts_encoded_dtype(e) != h.dtype) return false;
        h.dtype = ts_encoded_dtype(e);
        h.w[i] = e->data;
        h.y[i] = p[i].y;
        h.n_out[i] = ts_slot_shape(&m->dims, p[i].w).rows;
    }
    m->ops->linear_half(m->self, &h);
    return true;
}

/* Several of h. On the CPU those of matrices that stay in their file are one call. */
static ts_status project(const scratch *s, int64_t layer, const projection *p, int n)
{
    ts_encoded_product e[3];
    int                n_e = 0;
    ts_status          status = TS_OK;
    if (project_halves(s, layer, p, n)) return TS_OK;
    for (int i = 0; i < n && !status; i++) {
        const ts_shape    shape = ts_slot_shape(&s->m->dims, p[i].w);
        const ts_encoded *w = &s->m->encoded[ts_slot_at(&s->m->dims, layer, p[i].w)];
        const void       *bias = p[i].bias;
        if (s->m->device == TS_CPU && w->data) {
            if (bias) s->m->ops->sum(s->m->self, p[i].y, NULL, bias, s->n, shape.rows, false);
            e[n_e++] = (ts_encoded_product) { w, shape, p[i].y, s->h, s->n, bias };
        } else {
            status = multiply(s, p[i].y, s->h, layer, p[i].w, bias, s->n, false);
        }
    }
    if (n_e && !status) ts_encoded_linear(e, n_e, s->rounded, s->exec.n_threads);
    return status;
}

/* Elements of the keys, or values, of n tokens in a layer. */
static int64_t count_kv(const ts_decoder *m, int64_t n)
{
    return n * m->dims.n_kv_head * m->dims.head_dim;
}

/* Keys (which = 0) or values of a layer, where a pass over a tree of n tokens left them. */
static void *kept(const ts_decoder *m, const void *kv, int64_t n, int64_t layer, int which)
{
    const size_t at = (size_t)(2 * layer + which) * (size_t)count_kv(m, n);
    return (char *)kv + at * ts_format_of(m->dtype)->n_bytes;
}

/* What is not appended yet sees its own branch; what is, all before it. */
static ts_status mix(scratch *s, int64_t layer, const ts_forward_args *a)
{
    if (s->tree) {
        const ts_kv_tree t = { s->tree->parent, s->k, s->v };
        return ts_kv_attend_tree(a->cache, &s->exec, layer, a->n_seq, a->seq, a->n_new, &t, s->q,
                                 s->mixed, NULL);
    }
    const ts_status status =
        ts_kv_append(a->cache, &s->exec, layer, a->n_seq, a->seq, a->n_new, s->k, s->v);
    if (status) return status;
    s->grown = true;
    return ts_kv_attend(a->cache, &s->exec, layer, a->n_seq, a->seq, a->n_new, s->q, s->mixed,
                        NULL);
}

/* Queries or keys: normed where the model does so, and turned. */
static ts_status turn(const scratch *s, void *y, int64_t layer, ts_slot gain, int64_t n_head)
{
    const ts_decoder_dims *d = &s->m->dims;
    const int64_t          dim = d->head_dim;
    const ts_rope_args     a = {
            .dtype = s->m->dtype,
            .pairing = TS_ROPE_HALVES,
            .n_rows = s->n,
            .n_heads = n_head,
            .head_dim = dim,
            .rotary_dim = dim,
            .x_stride = n_head * dim,
            .y_stride = n_head * dim,
            .frequency = s->m->frequency,
            .position = s->position,
            .x = y,
            .y = y,
    };
    ts_status status = TS_OK;
    if (d->qk_norm) status = rms(s, y, s->mixed, ts_weight(s->m, layer, gain), s->n * n_head, dim);
    return status ? status : ts_rope(&a, &s->exec);
}

static ts_status attention(scratch *s, int64_t layer, const ts_forward_args *a)
{
    const ts_decoder_dims *d = &s->m->dims;
    ts_status              status = norm(s, s->h, s->x, s->n, layer, TS_W_NORM_1);
    if (status) return status;
    if (s->tree) {
        s->k = kept(s->m, s->tree->kv, s->n, layer, 0);
        s->v = kept(s->m, s->tree->kv, s->n, layer, 1);
    }
    /* Until attention has its results, `mixed` is free for what is to be normed: first queries,
     * then keys. */
    const bool       normed = d->qk_norm;
    const projection p[] = {
        { normed ? s->mixed : s->q, TS_W_Q, ts_weight(s->m, layer, TS_W_Q_BIAS) },
        { s->v, TS_W_V, ts_weight(s->m, layer, TS_W_V_BIAS) },
        { normed ? s->mixed : s->k, TS_W_K, ts_weight(s->m, layer, TS_W_K_BIAS) },
    };
    status = project(s, layer, p, normed ? 2 : 3);
    if (!status) status = turn(s, s->q, layer, TS_W_Q_NORM, d->n_head);
    if (!status && normed) status = project(s, layer, p + 2, 1);
    if (!status) status = turn(s, s->k, layer, TS_W_K_NORM, d->n_kv_head);
    if (status) return status;
    status = mix(s, layer, a);
    return status ? status : linear(s, s->x, s->mixed, layer, TS_W_O, TS_W_O_BIAS, true);
}

static ts_status feed_forward(const scratch *s, int64_t layer)
{
    const ts_decoder_dims *d = &s->m->dims;
    const int64_t          ffn = d->n_ffn;
    ts_status              status = norm(s, s->h, s->x, s->n, layer, TS_W_NORM_2);
    const projection       p[] = { { s->up, TS_W_UP, ts_weight(s->m, layer, TS_W_UP_BIAS) },
                                   { s->gate, TS_W_GATE, NULL } };
    if (!status) status = project(s, layer, p, d->gelu ? 1 : 2);
    if (status) return status;
    const ts_swiglu_forward_args a = { s->m->dtype, s->n, ffn, ffn, ffn, s->gate, s->up, s->gate };
    if (d->gelu) s->m->ops->gelu(s->m->self, s->up, s->n * ffn);
    else status = ts_swiglu_forward(&a, &s->exec);
    if (status) return status;
    return linear(s, s->x, d->gelu ? s->up : s->gate, layer, TS_W_DOWN, TS_W_DOWN_BIAS, true);
}

/* Only the requested rows are multiplied by the head, which is often the largest matrix. */
static ts_status head(const scratch *s, const ts_forward_args *a)
{
    const ts_decoder_dims *d = &s->m->dims;
    const ts_slot          w = d->tied ? TS_W_EMBED : TS_W_HEAD;
    put_rows(s, a->want, a->n_want);
    ts_status status = gather(s, s->h, s->x, s->m->dtype, s->n, s->want, a->n_want, d->width);
    if (!status) status = norm(s, s->x, s->h, a->n_want, 0, TS_W_NORM);
    return status ? status : multiply(s, a->logits, s->x, 0, w, NULL, a->n_want, false);
}

/* ---- the pass ---- */

static ts_status check(const ts_decoder *m, const ts_forward_args *a, const ts_exec *x, int64_t *n)
{
    *n = 0;
    if (!m || !a || !x || !a->cache || a->n_seq < 0 || a->n_want < 0) return TS_E_ARG;
    if (a->n_seq && (!a->seq || !a->n_new || !a->token)) return TS_E_ARG;
    if (a->n_want && (!a->want || !a->logits)) return TS_E_ARG;
    if (x->device != m->device) return TS_E_UNSUPPORTED;
    for (int64_t i = 0; i < a->n_seq; i++) {
        if (a->n_new[i] < 0 || a->n_new[i] > INT32_MAX - *n) return TS_E_ARG;
        *n += a->n_new[i];
    }
    for (int64_t i = 0; i < *n; i++)
        if (a->token[i] < 0 || a->token[i] >= m->dims.n_vocab) return TS_E_ARG;
    if (a->n_want > *n) return TS_E_ARG;
    for (int64_t i = 0; i < a->n_want; i++)
        if (a->want[i] < 0 || a->want[i] >= *n) return TS_E_ARG;
    if (!x->workspace || x->workspace_bytes < ts_decoder_workspace(m, *n, 0)) return TS_E_WORKSPACE;
    return TS_OK;
}

/* Of each sequence: parents come first. */
static ts_status check_tree(const ts_forward_args *a, const ts_forward_tree *t)
{
    const int32_t *parent = t->parent;
    for (int64_t i = 0; i < a->n_seq; i++) {
        if (a->n_new[i] && (!parent || !t->kv)) return TS_E_ARG;
        for (int64_t j = 0; j < a->n_new[i]; j++, parent++)
            if (*parent < -1 || *parent >= j) return TS_E_ARG;
    }
    return TS_OK;
}

/* Tokens and their positions. */
typedef struct piece {
    int32_t token[PIECE], position[PIECE];
    int64_t n, n_sent;
} piece;

static void send(const scratch *s, piece *p)
{
    const size_t n = (size_t)p->n;
    s->m->ops->put(s->m->self, s->position + p->n_sent, p->position, n * sizeof *p->position);
    s->m->ops->put(s->m->self, s->token + p->n_sent, p->token, n * sizeof *p->token);
    p->n_sent += p->n;
    p->n = 0;
}

static ts_status embed(const scratch *s)
{
    const int64_t     at = ts_slot_at(&s->m->dims, 0, TS_W_EMBED);
    const int64_t     width = s->m->dims.width, n_vocab = s->m->dims.n_vocab;
    const ts_encoded *e = &s->m->encoded[at];
    if (e->data && s->m->device == TS_CUDA)
        return gather(s, s->x, e->data, ts_encoded_dtype(e), n_vocab, s->token, s->n, width);
    for (int64_t i = 0; e->data && i < s->n; i++)
        ts_encoded_row(e, width, s->token[i], (float *)s->x + i * width);
    if (e->data) return TS_OK;
    if (!s->m->scale[at])
        return gather(s, s->x, s->m->weight[at], s->m->dtype, n_vocab, s->token, s->n, width);
    ts_packed_gather(s->m, s->x, s->token, s->n);
    return TS_OK;
}

static ts_status begin(const scratch *s, const ts_forward_args *a)
{
    piece p = { .n = 0 };
    for (int64_t i = 0; i < a->n_seq; i++) {
        int64_t         len = 0;
        const ts_status status = ts_kv_status(a->cache, 0, a->seq[i], &len, NULL);
        if (status) return status;
        const int32_t *parent = s->tree ? s->tree->parent + p.n_sent + p.n : NULL;
        for (int64_t j = 0; j < a->n_new[i]; j++) {
            int64_t before = parent ? 0 : j;
            for (int64_t up = j; parent && (up = parent[up]) >= 0;) before++;
            p.token[p.n] = a->token[p.n_sent + p.n];
            p.position[p.n++] = (int32_t)(len + before);
            if (p.n == PIECE) send(s, &p);
        }
    }
    send(s, &p);
    return embed(s);
}

/* Layers that a failed pass had reached go back to where they were. */
static void undo(const scratch *s, const ts_forward_args *a)
{
    for (int64_t i = 0; s->grown && i < a->n_seq; i++) {
        int64_t len;
        if (!a->n_new[i] || ts_kv_status(a->cache, 0, a->seq[i], &len, NULL)) continue;
        ts_kv_truncate(a->cache, &s->exec, a->seq[i], len - a->n_new[i]);
    }
}

static void start(const ts_decoder *m, int64_t n, const ts_exec *x, scratch *s)
{
    const size_t used = lay(m, n, x->workspace, s);
    s->exec = *x;
    s->exec.workspace = (char *)x->workspace + used;
    s->exec.workspace_bytes = x->workspace_bytes - used;
}

static ts_status pass(const ts_decoder *m, const ts_forward_args *a, const ts_forward_tree *t,
                      const ts_exec *x)
{
    int64_t   n;
    scratch   s;
    ts_status status = check(m, a, x, &n);
    if (!status && t) status = check_tree(a, t);
    if (status) return status;
    start(m, n, x, &s);
    s.tree = t;
    if (m->ops->begin) m->ops->begin(m->self, x->stream);
    status = begin(&s, a);
    for (int64_t l = 0; !status && l < m->dims.n_layer; l++) {
        status = attention(&s, l, a);
        if (!status) status = feed_forward(&s, l);
    }
    if (!status) status = head(&s, a);
    if (m->ops->end) {
        const ts_status ended = m->ops->end(m->self);
        if (!status) status = ended;
    }
    if (status) undo(&s, a);
    return status;
}

ts_status ts_decoder_forward(const ts_decoder *m, const ts_forward_args *a, const ts_exec *x)
{
    return pass(m, a, NULL, x);
}

ts_status ts_decoder_forward_tree(const ts_decoder *m, const ts_forward_args *a,
                                  const ts_forward_tree *t, const ts_exec *x)
{
    return t ? pass(m, a, t, x) : TS_E_ARG;
}

/* ---- what is kept of a tree ---- */

static ts_status check_keep(const ts_decoder *m, const ts_keep_args *a, const ts_exec *x)
{
    if (!m || !a || !x || !a->cache || a->n_row < 0 || a->n_keep < 0) return TS_E_ARG;
    if (x->device != m->device) return TS_E_UNSUPPORTED;
    if (a->n_keep && (!a->row || !a->kv)) return TS_E_ARG;
    for (int64_t i = 0; i < a->n_keep; i++)
        if (a->row[i] < 0 || a->row[i] >= a->n_row) return TS_E_ARG;
    if (!x->workspace || x->workspace_bytes < ts_decoder_workspace(m, a->n_keep, 0))
        return TS_E_WORKSPACE;
    return TS_OK;
}

ts_status ts_decoder_keep(const ts_decoder *m, const ts_keep_args *a, const ts_exec *x)
{
    scratch   s;
    int64_t   len, width;
    ts_status status = check_keep(m, a, x);
    if (!status) status = ts_kv_status(a->cache, 0, a->seq, &len, NULL);
    if (status) return status;
    start(m, a->n_keep, x, &s);
    width = count_kv(m, 1);
    if (m->ops->begin) m->ops->begin(m->self, x->stream);
    put_rows(&s, a->row, a->n_keep);
    for (int64_t l = 0; !status && l < m->dims.n_layer; l++) {
        for (int i = 0; !status && i < 2; i++)
            status = gather(&s, i ? s.v : s.k, kept(m, a->kv, a->n_row, l, i), m->dtype, a->n_row,
                            s.want, a->n_keep, width);
        if (status) break;
        status = ts_kv_append(a->cache, &s.exec, l, 1, &a->seq, &a->n_keep, s.k, s.v);
        s.grown |= !status;
    }
    if (m->ops->end) {
        const ts_status ended = m->ops->end(m->self);
        if (!status) status = ended;
    }
    if (status && s.grown) ts_kv_truncate(a->cache, &s.exec, a->seq, len);
    return status;
}
