/* SPDX-License-Identifier: Apache-2.0 */
/* case_list.c - the list of a task's cases: see case_list.h. */
#include "case_list.h"

#include <stdlib.h>
#include <string.h>

void ts_list_append(ts_case_list *l, const ts_case *c, int n)
{
    if (l->n + n + 1 > l->room) {
        l->room = 2 * (l->n + n + 1);
        l->c = realloc(l->c, (size_t)l->room * sizeof *l->c);
        if (!l->c) abort();
    }
    if (n) memcpy(l->c + l->n, c, (size_t)n * sizeof *c);
    l->n += n;
    l->c[l->n] = (ts_case) { .use = 0 };
}

void ts_list_add(ts_case_list *l, unsigned dtypes, ts_case c)
{
    for (int t = TS_F32; t <= TS_BF16; t++) {
        c.dtype = (ts_dtype)t;
        if (dtypes >> t & 1u) ts_list_append(l, &c, 1);
    }
}

void ts_list_cover(ts_case_list *l, const ts_cover *v)
{
    enum { MOST = 2048 };
    ts_case *c = malloc(MOST * sizeof *c);
    if (!c) abort();
    ts_list_append(l, c, ts_cover_cases(v, c, MOST));
    free(c);
}

void ts_multiply_heads(ts_case *c)
{
    c->dim[3] *= c->dim[4];
}

void ts_divide_heads(ts_case *c)
{
    c->dim[3] /= c->dim[4];
}
