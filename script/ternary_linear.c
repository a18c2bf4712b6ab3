/* SPDX-License-Identifier: Apache-2.0 */
#include "ternary_linear.h"

#include "band.h"

const char *const ts_ternary_linear_names[TS_TL_FUNCTIONS + 1] = {
    "ts_ternary_pack",          "ts_ternary_unpack",          "ts_ternary_linear",
    "ts_ternary_linear_packed", "ts_ternary_linear_backward", NULL,
};

const char *const ts_ternary_linear_queries[TS_TL_FUNCTIONS + 1] = {
    "ts_ternary_pack_workspace",
    "ts_ternary_unpack_workspace",
    "ts_ternary_linear_workspace",
    "ts_ternary_linear_packed_workspace",
    "ts_ternary_linear_backward_workspace",
    NULL,
};

typedef struct calls {
    ts_ternary_pack_args            pack;
    ts_ternary_unpack_args          unpack;
    ts_ternary_linear_args          linear;
    ts_ternary_linear_packed_args   packed;
    ts_ternary_linear_backward_args backward;
} calls;

static calls calls_of(const ts_ternary_play_args *a)
{
    calls c = {
        .pack = { a->d, a->w, a->code, a->scale },
        .unpack = { a->d, a->code_in, a->scale_in, a->wt },
        .linear = { a->d, a->w, a->in, a->y },
        .packed = { a->d, a->code_in, a->scale_in, a->in, a->y_packed },
        .backward = { a->d, a->w, a->in, a->dy, a->dx, a->dw },
    };
    const void **const missing[] = {
        (const void **)&c.pack.w,       (const void **)&c.pack.code,
        (const void **)&c.pack.scale,   (const void **)&c.unpack.code,
        (const void **)&c.unpack.scale, (const void **)&c.unpack.wt,
        (const void **)&c.linear.w,     (const void **)&c.linear.in,
        (const void **)&c.linear.y,     (const void **)&c.packed.code,
        (const void **)&c.packed.scale, (const void **)&c.packed.in,
        (const void **)&c.packed.y,     (const void **)&c.backward.w,
        (const void **)&c.backward.in,  (const void **)&c.backward.dy,
        (const void **)&c.backward.dx,  (const void **)&c.backward.dw,
    };
    if (a->how >= TS_TL_MISSING && a->how < TS_TL_NO_ARGS) *missing[a->how - TS_TL_MISSING] = NULL;
    return c;
}

static ts_status call(const ts_ternary_table *t, const calls *c, int i, const ts_exec *x)
{
    switch (i) {
    case TS_TL_PACK:
        return t->pack(&c->pack, x);
    case TS_TL_UNPACK:
        return t->unpack(&c->unpack, x);
    case TS_TL_LINEAR:
        return t->linear(&c->linear, x);
    case TS_TL_PACKED:
        return t->packed(&c->packed, x);
    default:
        return t->backward(&c->backward, x);
    }
}

static ts_status query(const ts_ternary_table *t, const calls *c, int i, const ts_exec *x,
                       size_t *n)
{
    switch (i) {
    case TS_TL_PACK:
        return t->pack_workspace ? t->pack_workspace(&c->pack, x, n) : TS_OK;
    case TS_TL_UNPACK:
        return t->unpack_workspace ? t->unpack_workspace(&c->unpack, x, n) : TS_OK;
    case TS_TL_LINEAR:
        return t->linear_workspace ? t->linear_workspace(&c->linear, x, n) : TS_OK;
    case TS_TL_PACKED:
        return t->packed_workspace ? t->packed_workspace(&c->packed, x, n) : TS_OK;
    default:
        return t->backward_workspace ? t->backward_workspace(&c->backward, x, n) : TS_OK;
    }
}

/* The function that a spoilt call is made to; the others are not called. */
static int spoilt(const ts_ternary_play_args *a)
{
    static const int of[] = { TS_TL_PACK,     TS_TL_PACK,     TS_TL_PACK,     TS_TL_UNPACK,
                              TS_TL_UNPACK,   TS_TL_UNPACK,   TS_TL_LINEAR,   TS_TL_LINEAR,
                              TS_TL_LINEAR,   TS_TL_PACKED,   TS_TL_PACKED,   TS_TL_PACKED,
                              TS_TL_PACKED,   TS_TL_BACKWARD, TS_TL_BACKWARD, TS_TL_BACKWARD,
                              TS_TL_BACKWARD, TS_TL_BACKWARD };
    if (a->how >= TS_TL_NO_EXEC) return (int)a->how - TS_TL_NO_EXEC;
    return a->how >= TS_TL_NO_ARGS ? (int)a->how - TS_TL_NO_ARGS : of[a->how - TS_TL_MISSING];
}

/* The query of function i without arguments, or without what says where it runs. */
static ts_status query_nothing(const ts_ternary_table *t, const calls *c, int64_t how,
                               const ts_exec *x)
{
    const bool no_args = how < TS_TL_NO_EXEC;
    size_t     n = 0;
    if (!no_args) return query(t, c, (int)how - TS_TL_NO_EXEC, NULL, &n);
    switch (how - TS_TL_NO_ARGS) {
    case TS_TL_PACK:
        return t->pack_workspace ? t->pack_workspace(NULL, x, &n) : TS_E_ARG;
    case TS_TL_UNPACK:
        return t->unpack_workspace ? t->unpack_workspace(NULL, x, &n) : TS_E_ARG;
    case TS_TL_LINEAR:
        return t->linear_workspace ? t->linear_workspace(NULL, x, &n) : TS_E_ARG;
    case TS_TL_PACKED:
        return t->packed_workspace ? t->packed_workspace(NULL, x, &n) : TS_E_ARG;
    default:
        return t->backward_workspace ? t->backward_workspace(NULL, x, &n) : TS_E_ARG;
    }
}

static ts_status call_without_args(const ts_ternary_table *t, int i, const ts_exec *x)
{
    switch (i) {
    case TS_TL_PACK:
        return t->pack(NULL, x);
    case TS_TL_UNPACK:
        return t->unpack(NULL, x);
    case TS_TL_LINEAR:
        return t->linear(NULL, x);
    case TS_TL_PACKED:
        return t->packed(NULL, x);
    default:
        return t->backward(NULL, x);
    }
}

/* What each function asks for, and the largest of it. */
static ts_status ask(const ts_ternary_table *t, const ts_ternary_play_args *a, const calls *c,
                     const ts_exec *x, size_t n[TS_TL_FUNCTIONS], size_t *most)
{
    *most = 0;
    for (int i = 0; i < TS_TL_FUNCTIONS; i++) {
        n[i] = 0;
        if (!(a->parts >> i & 1)) continue;
        const ts_status s = query(t, c, i, x, &n[i]);
        if (s) return s;
        if (n[i] > *most) *most = n[i];
    }
    return TS_OK;
}

/* A call whose workspace is short must say so: the first that asks for most does. */
static ts_status call_short(const ts_ternary_table *t, const calls *c, const ts_exec *x,
                            const size_t n[TS_TL_FUNCTIONS], size_t most)
{
    ts_exec less = *x;
    int     i = 0;
    while (n[i] != most) i++;
    less.workspace_bytes = most - 1;
    return call(t, c, i, &less);
}

ts_status ts_ternary_linear_play(const ts_ternary_table *t, const ts_ternary_play_args *a,
                                 const ts_exec *x)
{
    const calls c = calls_of(a);
    size_t      n[TS_TL_FUNCTIONS] = { 0 }, most = 0;
    double      seen[TS_TL_FUNCTIONS] = { 0 };
    ts_status   s = a->how == TS_TL_SOUND ? ask(t, a, &c, x, n, &most) : TS_OK;
    if (s) return s;
    if (most && (!x->workspace || x->workspace_bytes < ts_banded_bytes(most)))
        return call_short(t, &c, x, n, most);
    if (a->how >= TS_TL_NO_ARGS && a->how < TS_TL_NO_EXEC)
        return call_without_args(t, spoilt(a), x);
    if (a->how != TS_TL_SOUND) return call(t, &c, spoilt(a), a->how >= TS_TL_NO_EXEC ? NULL : x);
    for (int i = 0; i < TS_TL_FUNCTIONS; i++) {
        if (!(a->parts >> i & 1)) continue;
        const ts_exec own = ts_band_lay(x, n[i], most);
        s = call(t, &c, i, &own);
        if (s && s != TS_E_RANGE && s != TS_E_FORMAT) return s;
        seen[i] = ts_band_whole(x, n[i], most) ? (int)s : TS_TL_TOUCHED;
    }
    for (int i = 0; i < TS_TL_FUNCTIONS; i++) a->seen[i] = seen[i];
    return TS_OK;
}

ts_status ts_ternary_linear_play_workspace(const ts_ternary_table *t, const ts_ternary_play_args *a,
                                           const ts_exec *x, size_t *n_bytes)
{
    const calls     c = calls_of(a);
    size_t          n[TS_TL_FUNCTIONS], most = 0;
    const ts_status s =
        a->how >= TS_TL_NO_ARGS ? query_nothing(t, &c, a->how, x) : ask(t, a, &c, x, n, &most);
    *n_bytes = s || !most ? 0 : ts_banded_bytes(most);
    return s;
}
