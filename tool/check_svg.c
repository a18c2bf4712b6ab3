/* SPDX-License-Identifier: Apache-2.0 */
/* check_svg.c - the picture of a check: the largest error over its bound, per implementation and
 * dtype. A dot right of the line is a wrong output. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "dtype.h"

void ts_check_errors_add(ts_check_errors *e, const char *task, const char *impl,
                         const double *worst)
{
    int any = 0;
    for (int t = 0; t < TS_CHECK_DTYPES; t++) any |= !isnan(worst[t]);
    if (!any) return;
    void *label = realloc(e->label, (size_t)(e->n + 1) * sizeof *e->label);
    void *more = realloc(e->worst, (size_t)(e->n + 1) * TS_CHECK_DTYPES * sizeof *e->worst);
    if (!label || !more) abort();
    e->label = label, e->worst = more;
    snprintf(e->label[e->n], sizeof e->label[e->n], "%s %s", task, impl);
    for (int t = 0; t < TS_CHECK_DTYPES; t++) e->worst[e->n * TS_CHECK_DTYPES + t] = worst[t];
    e->n++;
}

bool ts_check_errors_draw(ts_check_errors *e, const char *path)
{
    const char  *name[TS_CHECK_DTYPES];
    const char **label = malloc(((size_t)e->n + 1) * sizeof *label);
    double      *value = malloc(((size_t)e->n + 1) * TS_CHECK_DTYPES * sizeof *value);
    int          n = 0, of[TS_CHECK_DTYPES];
    if (!label || !value) abort();
    for (int t = 0; t < TS_CHECK_DTYPES; t++) { /* only dtypes that occur get a place */
        int any = 0;
        for (int i = 0; i < e->n; i++) any |= !isnan(e->worst[i * TS_CHECK_DTYPES + t]);
        if (any) name[n] = ts_format_of((ts_dtype)t)->name, of[n++] = t;
    }
    for (int i = 0; i < e->n; i++) {
        label[i] = e->label[i];
        for (int s = 0; s < n; s++) value[i * n + s] = e->worst[i * TS_CHECK_DTYPES + of[s]];
    }
    const ts_dots d = { "Largest error of any output element over its bound",
                        "error / bound; an exact output is on the left edge",
                        name,
                        n,
                        label,
                        value,
                        e->n,
                        1,
                        "bound" };
    const bool    ok = !path || ts_svg_dots(path, &d);
    free(label), free(value), free(e->label), free(e->worst);
    return ok;
}
