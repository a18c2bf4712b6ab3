/* SPDX-License-Identifier: Apache-2.0 */
/* svg_dots.c - charts of dots in rows, over a logarithmic axis, with a line to compare them with.
 */
#include <math.h>

#include "svg.h"

enum { WIDTH = 860, LEFT = 250, RIGHT = 830, TOP = 84, ROW = 20, BELOW = 58 };

static double place(double v, double low, double high)
{
    const double at = v > 0 ? (log10(v) - low) / (high - low) : 0;
    return LEFT + (RIGHT - LEFT) * fmin(fmax(at, 0), 1);
}

static void text(FILE *f, double x, double y, const char *more, const char *s)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, more);
    ts_svg_text(f, s);
    fputs("</text>", f);
}

bool ts_svg_dots(const char *path, const ts_dots *d)
{
    const int bottom = TOP + ROW * d->n;
    double    low = d->mark, high = d->mark;
    for (int i = 0; i < d->n * d->n_series; i++)
        if (d->value[i] > 0 && isfinite(d->value[i])) {
            low = fmin(low, d->value[i]);
            high = fmax(high, d->value[i]);
        }
    low = floor(log10(low) - 0.05), high = ceil(log10(high) + 0.05);

    FILE *f = ts_svg_open(path, WIDTH, bottom + BELOW);
    if (!f) return false;
    text(f, 16, 28, "font-size=\"17\" font-weight=\"600\"", d->title);
    fputs("\n", f);
    for (int s = 0, x = LEFT; s < d->n_series; s++, x += 90) {
        ts_svg_marker(f, ts_svg_look(s), x + 6, 50, NULL);
        text(f, x + 18, 54.5, "font-size=\"13\"", d->series[s]);
        fputs("\n", f);
    }
    for (int k = (int)low; k <= (int)high; k++) {
        char         label[32];
        const double x = place(pow(10, k), low, high);
        snprintf(label, sizeof label, "%g", pow(10, k));
        fprintf(f, "<path d=\"M%.1f %dV%d\" stroke=\"#e4e4e4\"/>", x, TOP, bottom);
        text(f, x, bottom + 19, "text-anchor=\"middle\"", label);
        fputs("\n", f);
    }
    const double mark = place(d->mark, low, high);
    fprintf(f, "<path d=\"M%.1f %dV%d\" stroke=\"#000000\" stroke-dasharray=\"4 3\"/>", mark,
            TOP - 6, bottom);
    text(f, mark, TOP - 10, "text-anchor=\"middle\"", d->mark_name);
    text(f, (LEFT + RIGHT) / 2.0, bottom + 44, "text-anchor=\"middle\" font-size=\"14\"",
         d->x_title);
    fputs("\n", f);
    for (int i = 0; i < d->n; i++) {
        const double y = TOP + ROW * (i + 0.5);
        fprintf(f, "<path d=\"M%d %.1fH%d\" stroke=\"#e4e4e4\"/>", LEFT, y, RIGHT);
        text(f, LEFT - 10, y + 4, "text-anchor=\"end\"", d->label[i]);
        for (int s = d->n_series - 1; s >= 0; s--) { /* the first series is drawn on top */
            const double v = d->value[i * d->n_series + s];
            char         says[96];
            if (!isfinite(v)) continue;
            snprintf(says, sizeof says, "%s %.4g", d->series[s], v);
            ts_svg_marker(f, ts_svg_look(s), place(v, low, high), y, says);
        }
        fputs("\n", f);
    }
    return ts_svg_close(f, path);
}
