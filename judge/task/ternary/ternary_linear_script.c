/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_linear_script.c - plays the functions of touchstone/ternary.h, valid and invalid calls.
 */
#include "ternary_linear_script.h"

#include <stddef.h>

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

/* The required tensors of each function's args. */
#define PACK(member)     offsetof(ts_ternary_pack_args, member)
#define UNPACK(member)   offsetof(ts_ternary_unpack_args, member)
#define LINEAR(member)   offsetof(ts_ternary_linear_args, member)
#define PACKED(member)   offsetof(ts_ternary_linear_packed_args, member)
#define BACKWARD(member) offsetof(ts_ternary_linear_backward_args, member)
static const struct {
    int    n;
    size_t at[5];
} tensors[TS_TL_FUNCTIONS] = {
    { 3, { PACK(w), PACK(code), PACK(scale) } },
    { 3, { UNPACK(code), UNPACK(scale), UNPACK(wt) } },
    { 3, { LINEAR(w), LINEAR(in), LINEAR(y) } },
    { 4, { PACKED(code), PACKED(scale), PACKED(in), PACKED(y) } },
    { 5, { BACKWARD(w), BACKWARD(in), BACKWARD(dy), BACKWARD(dx), BACKWARD(dw) } },
};

typedef union call_args {
    ts_ternary_pack_args            pack;
    ts_ternary_unpack_args          unpack;
    ts_ternary_linear_args          linear;
    ts_ternary_linear_packed_args   packed;
    ts_ternary_linear_backward_args backward;
} call_args;

static call_args args_of(const ts_ternary_play_args *a, int function)
{
    switch (function) {
    case TS_TL_PACK:
        return (call_args) { .pack = { a->d, a->w, a->code, a->scale } };
    case TS_TL_UNPACK:
        return (call_args) { .unpack = { a->d, a->code_in, a->scale_in, a->wt } };
    case TS_TL_LINEAR:
        return (call_args) { .linear = { a->d, a->w, a->in, a->y } };
    case TS_TL_PACKED:
        return (call_args) { .packed = { a->d, a->code_in, a->scale_in, a->in, a->y_packed } };
    default:
        return (call_args) { .backward = { a->d, a->w, a->in, a->dy, a->dx, a->dw } };
    }
}

static ts_status call(const ts_ternary_table *t, int function, const void *args, const ts_exec *x)
{
    switch (function) {
    case TS_TL_PACK:
        return t->pack(args, x);
    case TS_TL_UNPACK:
        return t->unpack(args, x);
    case TS_TL_LINEAR:
        return t->linear(args, x);
    case TS_TL_PACKED:
        return t->packed(args, x);
    default:
        return t->backward(args, x);
    }
}

/* `none`: the status if the function has no query. */
static ts_status query(const ts_ternary_table *t, int function, const void *args, const ts_exec *x,
                       size_t *n, ts_status none)
{
    switch (function) {
    case TS_TL_PACK:
        return t->pack_workspace ? t->pack_workspace(args, x, n) : none;
    case TS_TL_UNPACK:
        return t->unpack_workspace ? t->unpack_workspace(args, x, n) : none;
    case TS_TL_LINEAR:
        return t->linear_workspace ? t->linear_workspace(args, x, n) : none;
    case TS_TL_PACKED:
        return t->packed_workspace ? t->packed_workspace(args, x, n) : none;
    default:
        return t->backward_workspace ? t->backward_workspace(args, x, n) : none;
    }
}

/* The function of an invalid call; the others are not called. */
static int only(const ts_ternary_play_args *a)
{
    int i = 0;
    while (!(a->parts >> i & 1)) i++;
    return i;
}

int ts_ternary_linear_without(const ts_ternary_play_args *a)
{
    return TS_TL_NO_TENSOR + tensors[only(a)].n;
}

/* Makes an invalid call, or the query of its workspace. */
static ts_status refused(const ts_ternary_table *t, const ts_ternary_play_args *a, bool ask,
                         const ts_exec *x)
{
    const int       function = only(a);
    const int64_t   without = a->how - TS_TL_WITHOUT;
    call_args       c = args_of(a, function);
    const void     *args = without == TS_TL_NO_ARGS ? NULL : &c;
    size_t          n, *size = without == TS_TL_NO_SIZE ? NULL : &n;
    const ts_status none = TS_E_ARG; /* required of a query without a pointer for the size */
    if (without == TS_TL_NO_EXEC) x = NULL;
    if (without >= TS_TL_NO_TENSOR)
        memset((char *)&c + tensors[function].at[without - TS_TL_NO_TENSOR], 0, sizeof(void *));
    if (ask || !size) return query(t, function, args, x, size, none);
    return call(t, function, args, x);
}

/* Queries each function's workspace, and the largest. */
static ts_status ask(const ts_ternary_table *t, const ts_ternary_play_args *a, const ts_exec *x,
                     size_t n[TS_TL_FUNCTIONS], size_t *most)
{
    *most = 0;
    for (int i = 0; i < TS_TL_FUNCTIONS; i++) {
        n[i] = 0;
        if (!(a->parts >> i & 1)) continue;
        const call_args c = args_of(a, i);
        const ts_status s = query(t, i, &c, x, &n[i], TS_OK);
        if (s) return s;
        if (n[i] > *most) *most = n[i];
    }
    return TS_OK;
}

/* A call with too small a workspace must fail: tests the function that needs most. */
static ts_status call_short(const ts_ternary_table *t, const ts_ternary_play_args *a,
                            const ts_exec *x, const size_t n[TS_TL_FUNCTIONS], size_t most)
{
    ts_exec less = *x;
    int     i = 0;
    while (n[i] != most) i++;
    const call_args c = args_of(a, i);
    less.workspace_bytes = most - 1;
    return call(t, i, &c, &less);
}

static ts_status play(const void *table, const ts_mover *m, const void *args, const ts_exec *x)
{
    const ts_ternary_table *const     t = table;
    const ts_ternary_play_args *const a = args;
    size_t                            n[TS_TL_FUNCTIONS] = { 0 }, most = 0;
    double                            seen[TS_TL_FUNCTIONS] = { 0 };
    if (a->how != TS_TL_SOUND) return refused(t, a, false, x);
    ts_status s = ask(t, a, x, n, &most);
    if (s) return s;
    if (most && (!x->workspace || x->workspace_bytes < ts_banded_bytes(x, most)))
        return call_short(t, a, x, n, most);
    for (int i = 0; i < TS_TL_FUNCTIONS; i++) {
        if (!(a->parts >> i & 1)) continue;
        const ts_exec   own = ts_band_lay(x, n[i], most);
        const call_args c = args_of(a, i);
        s = call(t, i, &c, &own);
        if (s && s != TS_E_RANGE && s != TS_E_FORMAT) return s;
        seen[i] = ts_band_whole(x, n[i], most) ? (int)s : TS_TL_TOUCHED;
    }
    return (m ? m : &ts_on_cpu)->in(a->seen, seen, sizeof seen) ? TS_E_DEVICE : TS_OK;
}

static ts_status workspace(const void *table, const void *args, const ts_exec *x, size_t *n_bytes)
{
    const ts_ternary_table *const     t = table;
    const ts_ternary_play_args *const a = args;
    size_t                            n[TS_TL_FUNCTIONS], most = 0;
    const ts_status s = a->how == TS_TL_SOUND ? ask(t, a, x, n, &most) : refused(t, a, true, x);
    *n_bytes = s || !most ? 0 : ts_banded_bytes(x, most);
    return s;
}

const ts_player ts_player_ternary_linear = {
    ts_ternary_linear_names, NULL, ts_ternary_linear_queries, play, workspace, false,
};
