/* SPDX-License-Identifier: Apache-2.0 */
/* category.c - what a case is there for: its category, its group, and the rule of the canon. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "task.h"

/* Families that are not named here test for known bugs. A new one with another purpose adds its
 * name. */
static const char numerics[] =
    " offset offset8 offset30 offsets overflow tiny huge flat flat_huge extreme small constant "
    "denormal floor hot cold underflow subnormal outlier gap steep slow long ";
static const char special[] =
    " nonfinite nonfinite_one nonfinite_inf nonfinite_none fails masked all_masked "
    "zeros half_masked holes window window_only window_long sized ragged padding "
    "empty bad_code bad_scale bad_latent bad_code_last bad_code_padding "
    "bad_scale_inf bad_scale_minus bad_latent_inf past_f16 still capped ";

/* Whether the list has the name, between blanks. */
static bool is_among(const char *name, const char *list)
{
    char      word[64];
    const int n = snprintf(word, sizeof word, " %s ", name);
    return n < (int)sizeof word && strstr(list, word);
}

const ts_canon *ts_canon_of(const ts_task *t, const ts_case *c)
{
    const ts_canon *r = t->canon_of ? t->canon_of(c) : NULL;
    if (r) return r;
    r = t->canon;
    while (r->family && strcmp(r->family, c->family)) r++;
    return r->family ? r : NULL;
}

/* Whether the output is right by the usual contract but for what the rule of the case is about. */
static bool is_excused(const ts_task *t, const ts_case *c, const void *args, const ts_want *want,
                       ts_flaw *f, ts_errors *e)
{
    const size_t    n = t->n_want(c);
    const ts_errors before = *e;
    ts_want *const  rest = malloc((n + 1) * sizeof *rest);
    if (!rest) abort();
    memcpy(rest, want, n * sizeof *rest);
    t->excuse(c, args, rest);
    bool kept = t->check(c, args, rest, f, e);
    if (!kept) *e = before;
    if (!kept && t->common) kept = t->common(c, args, rest, f, e) != NULL;
    free(rest);
    return kept;
}

const char *ts_canon_broken(const ts_task *t, const ts_case *c, const void *args,
                            const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const ts_canon *r = t->common_decides ? NULL : ts_canon_of(t, c);
    const ts_flaw   flaw = *f;
    const ts_errors errors = *e;
    if (f->fault != TS_FAULT_VALUE && f->fault != TS_FAULT_UNWRITTEN) return NULL;
    /* A rule of all families may be the only one broken, also where another one is tested. */
    const char *const rule = t->common ? t->common(c, args, want, f, e) : NULL;
    if (rule || !r) return rule;
    *e = errors;
    if (!t->excuse || !is_excused(t, c, args, want, f, e)) return NULL;
    *f = flaw;
    return r->rule;
}

/* An extent that is nothing, one, or no multiple of any vector's length. */
static bool is_odd(const ts_task *t, const ts_case *c)
{
    for (int i = 0; i < 2 && t->dim_name[i]; i++)
        if (c->dim[i] < 2 || (i == 1 && c->dim[i] % 16)) return true;
    return false;
}

ts_category ts_case_category(const ts_task *t, const ts_case *c)
{
    if (ts_canon_of(t, c)) return TS_CANON;
    if (!strcmp(c->family, "normal")) return is_odd(t, c) ? TS_SHAPES : TS_BASIC;
    if (is_among(c->family, numerics)) return TS_NUMERICS;
    return is_among(c->family, special) ? TS_SPECIAL : TS_ADVERSARIAL;
}

/* Between these extents kernels change their ways: nothing, one, a warp, a block, a launch limit.
 */
static uint64_t bucket(int64_t extent)
{
    static const int64_t most[] = { 0, 1, 32, 1024, 65535 };
    uint64_t             k = 0;
    while (k < sizeof most / sizeof *most && extent > most[k]) k++;
    return k;
}

/* Of a dimension by its name, which the task must have. */
static int64_t extent_of(const ts_task *t, const ts_case *c, const char *name)
{
    for (int i = 0; i < TS_MAX_DIMS && t->dim_name[i]; i++)
        if (!strcmp(t->dim_name[i], name)) return c->dim[i];
    abort();
}

uint64_t ts_case_group(const ts_task *t, const ts_case *c)
{
    uint64_t g = UINT64_C(0xcbf29ce484222325); /* FNV-1a of the family's name, then of the rest */
    for (const char *s = c->family; *s; s++) g = (g ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
    for (int i = 0; i < TS_MAX_DIMS && t->dim_name[i]; i++)
        g = (g ^ bucket(c->dim[i])) * UINT64_C(0x100000001b3);
    const bool narrow = c->dtype != TS_F32 && c->dtype != TS_F64;
    const bool beyond =
        t->scarce[0] && extent_of(t, c, t->scarce[0]) > extent_of(t, c, t->scarce[1]);
    return (g ^ (unsigned)(narrow + 2 * beyond)) * UINT64_C(0x100000001b3);
}

const char *ts_category_name(ts_category c)
{
    static const char *const name[TS_N_CATEGORIES] = { "basic",   "shapes",      "numerics",
                                                       "special", "adversarial", "canon" };
    return name[c];
}
