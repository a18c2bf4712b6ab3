/* SPDX-License-Identifier: Apache-2.0 */
/* launch_step.c - evaluates the steps of a launch plan for one call. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "launch_inside.h"

static const size_t type_bytes[N_TYPES] = { 8, 4, 4, 8, 8, 4, 8 };

/* ---- names ---- */

static bool part_knows(const ts_launch *l, const part *p, place w, const ts_launch_env *names,
                       complaint c)
{
    ts_mistake   f;
    const bool   real = w.item == ARG && (p->type == F32 || p->type == F64);
    const ts_op *name = real ? ts_expr_name(&l->code, p->e) : NULL;
    bool         ok = !p->size || ts_env_find(names, l->text, p->name, p->size, TS_ENV_POINTER, &f);
    if (ok && name)
        ok = ts_env_find(names, l->text, name->at, name->n, TS_ENV_INTEGER | TS_ENV_REAL, &f);
    else if (ok) ok = ts_expr_knows(&l->code, p->e, names, &f);
    return ok || ts_launch_fault(c, w, p->from, &f);
}

static bool step_knows(const ts_launch *l, int i, const ts_launch_env *names, complaint c)
{
    const plan_step *s = &l->step[i];
    const int        k = i + 1;
    bool             ok = part_knows(l, &s->when, (place) { k, WHEN, 0 }, names, c);
    for (int d = 0; ok && d < 3; d++)
        ok = part_knows(l, &s->grid[d], (place) { k, GRID, d + 1 }, names, c);
    for (int d = 0; ok && d < 3; d++)
        ok = part_knows(l, &s->block[d], (place) { k, BLOCK, d + 1 }, names, c);
    ok = ok && part_knows(l, &s->shared, (place) { k, SHARED, 0 }, names, c);
    for (int a = 0; ok && a < s->n_args; a++)
        ok = part_knows(l, &s->arg[a], (place) { k, ARG, a + 1 }, names, c);
    return ok;
}

bool ts_launch_knows(const ts_launch *l, const ts_launch_env *names, char *why, size_t n_why)
{
    const complaint c = { why, n_why };
    bool            ok = part_knows(l, &l->workspace, (place) { .item = WORKSPACE }, names, c);
    for (int i = 0; ok && i < l->n_steps; i++) ok = step_knows(l, i, names, c);
    return ok;
}

/* ---- values ---- */

typedef struct run {
    const ts_launch     *l;
    const ts_launch_env *e;
    complaint            c;
} run;

/* Leaves `v` unchanged if there is no expression. */
static bool value(run r, const part *p, place w, int64_t *v)
{
    ts_mistake f;
    return p->e.n == 0 || ts_expr_value(&r.l->code, p->e, r.e, v, &f) ||
           ts_launch_fault(r.c, w, p->from, &f);
}

static bool within(run r, const part *p, place w, int64_t least, int64_t most, int64_t *v)
{
    if (!value(r, p, w, v)) return false;
    return (*v >= least && *v <= most) ||
           ts_launch_wrong(r.c, w, "%lld, expected %lld to %lld", (long long)*v, (long long)least,
                           (long long)most);
}

/* 0 is valid: a call may have no rows. */
static bool grid(run r, const plan_step *p, place w, ts_step *s)
{
    for (int d = 0; d < 3; d++) {
        int64_t v = 1;
        w.number = d + 1;
        if (!within(r, &p->grid[d], w, 0, d ? 65535 : INT32_MAX, &v)) return false;
        s->grid[d] = (unsigned)v;
        s->empty |= v == 0;
    }
    return true;
}

static bool block(run r, const plan_step *p, place w, ts_step *s)
{
    for (int d = 0; d < 3; d++) {
        int64_t v = 1;
        w.number = d + 1;
        if (!within(r, &p->block[d], w, 1, TS_LAUNCH_THREADS, &v)) return false;
        s->block[d] = (unsigned)v;
    }
    w.number = 0;
    return s->block[0] * s->block[1] * s->block[2] <= TS_LAUNCH_THREADS ||
           ts_launch_wrong(r.c, w, "%u * %u * %u threads, expected at most %d", s->block[0],
                           s->block[1], s->block[2], TS_LAUNCH_THREADS);
}

static bool pointer(run r, const part *a, place w, void *out)
{
    ts_mistake          f;
    int64_t             more = 0;
    const ts_env_value *to = ts_env_find(r.e, r.l->text, a->name, a->size, TS_ENV_POINTER, &f);
    if (!to) return ts_launch_fault(r.c, w, a->from, &f);
    if (!value(r, a, w, &more)) return false;
    if (more < 0 || (uint64_t)more > UINT64_MAX - to->p)
        return ts_launch_wrong(r.c, w, "%lld bytes into a buffer", (long long)more);
    const uint64_t p = to->p ? to->p + (uint64_t)more : 0;
    memcpy(out, &p, sizeof p);
    return true;
}

/* Integers and real numbers are converted to float with one rounding. */
static bool real(run r, const part *a, place w, void *out)
{
    const ts_op        *name = ts_expr_name(&r.l->code, a->e);
    const ts_env_value *v = NULL;
    const unsigned      kinds = TS_ENV_INTEGER | TS_ENV_REAL;
    ts_mistake          f;
    int64_t             i = 0;
    if (name && !(v = ts_env_find(r.e, r.l->text, name->at, name->n, kinds, &f)))
        return ts_launch_fault(r.c, w, a->from, &f);
    const bool is_real = v && v->kind == TS_ENV_REAL;
    if (!is_real && !value(r, a, w, &i)) return false;
    const double d = is_real ? v->d : (double)i;
    if (a->type == F64) return memcpy(out, &d, sizeof d), true;
    if (is_real && isfinite(d) && fabs(d) > (double)FLT_MAX)
        return ts_launch_wrong(r.c, w, "%g does not fit f32", d);
    const float single = is_real ? (float)d : (float)i;
    memcpy(out, &single, sizeof single);
    return true;
}

static bool integer(run r, const part *a, place w, void *out)
{
    static const int64_t least[N_TYPES] = { [I32] = INT32_MIN, [I64] = INT64_MIN };
    static const int64_t most[N_TYPES] = { 0, INT32_MAX, UINT32_MAX, INT64_MAX, INT64_MAX };
    int64_t              v = 0;
    if (!value(r, a, w, &v)) return false;
    if (v < least[a->type] || v > most[a->type])
        return ts_launch_wrong(r.c, w, "%lld does not fit %s", (long long)v,
                               ts_launch_types[a->type]);
    const uint32_t low = (uint32_t)v; /* same bits, signed or unsigned */
    if (type_bytes[a->type] == sizeof low) memcpy(out, &low, sizeof low);
    else memcpy(out, &v, sizeof v);
    return true;
}

static bool args(run r, const plan_step *p, place w, ts_step *s)
{
    for (int i = 0; i < p->n_args; i++) {
        const part *a = &p->arg[i];
        w.number = i + 1;
        if (!(a->type == PTR ? pointer : a->type >= F32 ? real : integer)(r, a, w, s->arg[i]))
            return false;
        s->arg_bytes[i] = type_bytes[a->type];
    }
    s->n_args = p->n_args;
    return true;
}

static bool kernel(run r, const plan_step *p, place w, ts_step *s)
{
    static const char *const known[] = { "f32", "f64", "f16", "bf16" };
    for (int i = 0; r.e->dtype && i < 4; i++)
        if (!strcmp(r.e->dtype, known[i]))
            return ts_launch_kernel(r.l->text + p->kernel, p->size, known[i], s->kernel);
    return ts_launch_wrong(r.c, w, "the call has no dtype");
}

bool ts_launch_workspace(const ts_launch *l, const ts_launch_env *e, int64_t *n_bytes, char *why,
                         size_t n_why)
{
    const run r = { l, e, { why, n_why } };
    *n_bytes = 0;
    return within(r, &l->workspace, (place) { .item = WORKSPACE }, 0, TS_LAUNCH_WORKSPACE, n_bytes);
}

bool ts_launch_step(const ts_launch *l, int i, const ts_launch_env *e, ts_step *s, char *why,
                    size_t n_why)
{
    const run        r = { l, e, { why, n_why } };
    const plan_step *p = &l->step[i];
    const int        k = i + 1;
    int64_t          when = 1, shared = 0;
    *s = (ts_step) { 0 };
    if (!kernel(r, p, (place) { k, KERNEL, 0 }, s) ||
        !value(r, &p->when, (place) { k, WHEN, 0 }, &when))
        return false;
    s->applies = when != 0;
    if (!s->applies) return true;
    if (!grid(r, p, (place) { k, GRID, 0 }, s)) return false;
    if (s->empty) return true; /* the rest may divide by the number of rows, 0 */
    if (!block(r, p, (place) { k, BLOCK, 0 }, s) ||
        !within(r, &p->shared, (place) { k, SHARED, 0 }, 0, TS_LAUNCH_SHARED, &shared))
        return false;
    s->shared_bytes = (unsigned)shared;
    return args(r, p, (place) { k, ARG, 0 }, s);
}
