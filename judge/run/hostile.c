/* SPDX-License-Identifier: Apache-2.0 */
/* hostile.c - selects untimed cases that share the buffers of a timed one. */
#include "hostile.h"

#include <stdlib.h>
#include <string.h>

#include "rng.h"

bool ts_alike(const ts_arena *a, const ts_arena *b)
{
    if (a->n != b->n || a->n_scalars != b->n_scalars) return false;
    for (int i = 0; i < a->n; i++) {
        const ts_buf *p = &a->buf[i].b, *q = &b->buf[i].b;
        if (strcmp(p->name, q->name) || p->role != q->role || p->dtype != q->dtype ||
            p->n_rows != q->n_rows || p->n_cols != q->n_cols || p->row_stride != q->row_stride)
            return false;
    }
    return true;
}

/* The smallest case of a family that every entrant must run. */
static const ts_case *smallest(const ts_task *t, const char *family)
{
    const ts_case *best = NULL;
    for (const ts_case *c = t->cases(); c->use; c++)
        if (c->use & TS_USE_CHECK && c->dtype == TS_F32 && !strcmp(c->family, family) &&
            (!best || t->cost(c).bytes < t->cost(best).bytes))
            best = c;
    return best;
}

/* A family with a head_dim of 1 draws only one element per head. */
static bool is_narrow(const ts_task *t, const ts_case *timed, const ts_case *of)
{
    for (int i = 0; i < TS_MAX_DIMS && t->dim_name[i]; i++)
        if (!strcmp(t->dim_name[i], "head_dim")) return of->dim[i] == 1 && timed->dim[i] > 1;
    return false;
}

/* A family of invalid calls expects a status from each of several functions: all must be called. */
static bool is_partial(const ts_task *t, const ts_case *timed, const ts_case *of)
{
    const ts_canon *r = ts_canon_of(t, of);
    for (int i = 0; r && r->open && i < TS_MAX_DIMS && t->dim_name[i]; i++)
        if (!strcmp(t->dim_name[i], "parts")) return of->dim[i] != timed->dim[i];
    return false;
}

/* Whether the family has the same buffers as the timed one; tested with a small case. */
static bool fits(const ts_task *t, const ts_case *timed, const char *family)
{
    static ts_arena arena[2];
    static bool     open;
    const ts_case  *of = smallest(t, family);
    if (!strcmp(family, timed->family)) return true;
    /* Its layout differs, so it needs another workspace than the one queried at the start. */
    if (!strcmp(family, "sized")) return false;
    if (!of || is_narrow(t, timed, of) || is_partial(t, timed, of) || t->has_model) return false;
    if (!open && !(open = ts_arena_open(&arena[0]) && ts_arena_open(&arena[1]))) return false;
    ts_case     other = *of;
    void *const args = calloc(2, t->args_bytes);
    ts_arena   *m = arena;
    if (!args) abort();
    other.family = timed->family;
    ts_arena_setup(&m[0], t, of, 1, args);
    ts_arena_setup(&m[1], t, &other, 1, (char *)args + t->args_bytes);
    const bool same = ts_alike(&m[0], &m[1]);
    ts_arena_clear(&m[0]);
    ts_arena_clear(&m[1]);
    free(args);
    return same;
}

static bool is_new(const ts_case *c, const ts_case *timed, const ts_case *out, int n)
{
    if (!strcmp(c->family, timed->family) && !memcmp(c->dim, timed->dim, sizeof c->dim))
        return false;
    for (int i = 0; i < n; i++)
        if (!strcmp(c->family, out[i].family) && !memcmp(c->dim, out[i].dim, sizeof c->dim))
            return false;
    return true;
}

static int collect(const ts_task *t, const ts_case *timed, ts_case out[TS_HOSTILE])
{
    const char *tried = NULL;
    bool        fit = false;
    int         n = 0;
    for (const ts_case *c = t->cases(); c->use && n < TS_HOSTILE; c++) {
        if (!(c->use & TS_USE_CHECK) || c->dtype != TS_F32 || ts_case_about(t, c) >= 0) continue;
        ts_case mine = *timed;
        mine.family = c->family;
        for (int i = 0; i < TS_MAX_DIMS && t->dim_name[i]; i++)
            if (t->varies.name && !strcmp(t->dim_name[i], t->varies.name) &&
                c->dim[i] <= t->varies.most)
                mine.dim[i] = c->dim[i];
        if (!is_new(&mine, timed, out, n)) continue;
        if (!tried || strcmp(tried, c->family)) fit = fits(t, timed, tried = c->family);
        if (fit) out[n++] = mine;
    }
    return n;
}

static void shuffle(ts_case *c, int n, uint64_t seed)
{
    for (int i = n - 1; i > 0; i--) {
        const int     j = (int)(ts_bits(seed, i) % (uint64_t)(i + 1));
        const ts_case kept = c[i];
        c[i] = c[j], c[j] = kept;
    }
}

int ts_hostile_of(const ts_task *t, const ts_case *timed, uint64_t seed, ts_case out[TS_HOSTILE])
{
    ts_case   all[TS_HOSTILE];
    bool      taken[TS_HOSTILE] = { false };
    const int n = collect(t, timed, all);
    int       n_out = 0;
    shuffle(all, n, seed);
    for (int turn = 0; n_out < n; turn++)
        for (int i = 0; i < n; i++) {
            if (taken[i] || (int)ts_case_category(t, &all[i]) != turn % TS_N_CATEGORIES) continue;
            taken[i] = true;
            out[n_out++] = all[i];
            break;
        }
    return n_out;
}
