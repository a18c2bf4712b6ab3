/* SPDX-License-Identifier: Apache-2.0 */
/* roofline.c - draws the timed cases of a run under the machine's peak rates.
 *
 * With I operations per byte of the least possible traffic, no implementation is faster than
 * min(bandwidth * I, peak arithmetic). A point's distance below that line is what it loses. A point
 * may be above the sloped part if its data stay in a cache. */
#include "roofline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { MAX_SERIES = 16, ROOF_POINTS = 3 };

void ts_roofline_add(ts_roofline *r, ts_roof_point p)
{
    if (!(p.flops > 0 && p.bytes > 0 && p.ns > 0)) return;
    ts_roof_point *more = realloc(r->point, (size_t)(r->n + 1) * sizeof *more);
    if (!more) abort();
    r->point = more;
    r->point[r->n++] = p;
}

static bool several_tasks(const ts_roofline *r)
{
    for (int i = 1; i < r->n; i++)
        if (strcmp(r->point[i].task, r->point[0].task)) return true;
    return false;
}

static bool fastest(const ts_roofline *r, int i)
{
    if (!r->point[i].counts) return false;
    for (int j = 0; j < r->n; j++)
        if (r->point[j].number == r->point[i].number && r->point[j].counts &&
            r->point[j].ns < r->point[i].ns)
            return false;
    return true;
}

/* The series of that name, a new one if there is room; -1: none. */
static int series_of(ts_series *s, int *n, const char *name)
{
    for (int k = 0; k < *n; k++)
        if (!strcmp(s[k].name, name)) return k;
    if (*n == MAX_SERIES) return -1; /* more would look alike */
    s[*n].name = name;
    return (*n)++;
}

bool ts_roofline_write(const ts_roofline *r, const char *path)
{
    const bool by_task = several_tasks(r);
    const int  n = 2 * r->n + ROOF_POINTS; /* a NaN between points leaves them unconnected */
    double    *x = malloc((size_t)n * sizeof *x), low = INFINITY, high = 0;
    double    *y = malloc((size_t)n * (MAX_SERIES + 1) * sizeof *y);
    ts_series  series[MAX_SERIES];
    int        n_series = 0;
    if (!x || !y) abort();
    double *const roof = y + MAX_SERIES * n;
    for (int i = 0; i < n; i++) x[i] = NAN;
    for (int i = 0; i < n * (MAX_SERIES + 1); i++) y[i] = NAN;
    for (int i = 0; i < r->n; i++) {
        const ts_roof_point *p = &r->point[i];
        if (by_task && !fastest(r, i)) continue;
        const int s = series_of(series, &n_series, by_task ? p->task : p->impl);
        if (s < 0) continue;
        x[2 * i] = p->flops / p->bytes;
        y[s * n + 2 * i] = p->flops / p->ns;
        low = fmin(low, x[2 * i]);
        high = fmax(high, x[2 * i]);
    }
    if (r->gbs > 0 && low <= high) { /* from left of all points to right of them, with a corner */
        const double corner = r->gflops > 0 ? r->gflops / r->gbs : 2 * high;
        const double end[ROOF_POINTS] = { low / 2, corner, fmax(2 * high, 2 * corner) };
        for (int k = 0; k < ROOF_POINTS - !(r->gflops > 0); k++) {
            x[2 * r->n + k] = end[k];
            roof[2 * r->n + k] = fmin(end[k], corner) * r->gbs;
        }
    }
    for (int s = 0; s < n_series; s++) series[s].y = y + s * n;
    char title[320];
    snprintf(title, sizeof title, "Roofline: %s", r->machine);
    const ts_plot   p = { title, "operations per byte", "GFLOP/s", x, n, series, n_series };
    const ts_series limit = { "peak rates", roof };
    const bool      ok = ts_svg_write_under(path, &p, &limit);
    free(x), free(y);
    return ok;
}
