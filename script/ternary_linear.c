/* SPDX-License-Identifier: Apache-2.0 */
#include "ternary_linear.h"

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
        (const void **)&c.pack.w,      (const void **)&c.pack.scale,  (const void **)&c.pack.code,
        (const void **)&c.unpack.wt,   (const void **)&c.unpack.code, (const void **)&c.linear.w,
        (const void **)&c.linear.y,    (const void **)&c.packed.in,   (const void **)&c.backward.dw,
        (const void **)&c.backward.dy,
    };
    if (a->how >= TS_TL_MISSING) *missing[a->how - TS_TL_MISSING] = NULL;
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

/* A call whose workspace is short must say so, whichever it is: the one that asks for most does. A
 * spoilt one must be refused by the function that it is spoilt for; the others are not called. */
static int first_of(const ts_ternary_play_args *a)
{
    static const int spoilt[] = { TS_TL_PACK,     TS_TL_PACK,    TS_TL_PACK,   TS_TL_UNPACK,
                                  TS_TL_UNPACK,   TS_TL_LINEAR,  TS_TL_LINEAR, TS_TL_PACKED,
                                  TS_TL_BACKWARD, TS_TL_BACKWARD };
    return a->how >= TS_TL_MISSING ? spoilt[a->how - TS_TL_MISSING] : 0;
}

ts_status ts_ternary_linear_play(const ts_ternary_table *t, const ts_ternary_play_args *a,
                                 const ts_exec *x)
{
    const calls c = calls_of(a);
    size_t      n, most = 0;
    double      seen[TS_TL_FUNCTIONS] = { 0 };
    for (int i = 0; i < TS_TL_FUNCTIONS; i++) {
        n = 0;
        if (a->parts >> i & 1 && a->how == TS_TL_SOUND) {
            const ts_status s = query(t, &c, i, x, &n);
            if (s) return s;
        }
        if (n > most) most = n;
    }
    if (most && (!x->workspace || x->workspace_bytes < most)) {
        for (int i = 0; i < TS_TL_FUNCTIONS; i++) { /* the first that asks for that much */
            n = 0;
            query(t, &c, i, x, &n);
            if (a->parts >> i & 1 && n == most) return call(t, &c, i, x);
        }
    }
    for (int i = first_of(a); i < TS_TL_FUNCTIONS; i++) {
        if (!(a->parts >> i & 1)) continue;
        const ts_status s = call(t, &c, i, x);
        if (a->how != TS_TL_SOUND || (s && s != TS_E_RANGE && s != TS_E_FORMAT)) return s;
        seen[i] = s;
    }
    for (int i = 0; i < TS_TL_FUNCTIONS; i++) a->seen[i] = seen[i];
    return TS_OK;
}

ts_status ts_ternary_linear_play_workspace(const ts_ternary_table *t, const ts_ternary_play_args *a,
                                           const ts_exec *x, size_t *n_bytes)
{
    const calls c = calls_of(a);
    *n_bytes = 0;
    for (int i = 0; i < TS_TL_FUNCTIONS; i++) {
        size_t n = 0;
        if (!(a->parts >> i & 1)) continue;
        const ts_status s = query(t, &c, i, x, &n);
        if (s) return s;
        if (n > *n_bytes) *n_bytes = n;
    }
    return TS_OK;
}
