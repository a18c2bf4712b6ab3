/* SPDX-License-Identifier: Apache-2.0 */
/* train_svg.c - plots a run from its log: losses, bits per byte and learning rate over steps,
 * including steps before a --resume. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "train_plan.h"

enum { WIDTH = 860, LEFT = 84, RIGHT = 680, TOP = 56, PANEL = 190, GAP = 34, BOTTOM = 52 };
enum { HEIGHT = TOP + 3 * PANEL + 2 * GAP + BOTTOM };
enum { LOSS, HELD_OUT, BITS, RATE, FIGURES };

typedef struct curves {
    double *step, *y[FIGURES]; /* [n]; NaN if a line has no value */
    int     n, room;
} curves;

/* ---- the log ---- */

static double figure(const json_t *line, const char *key)
{
    const json_t *v = json_object_get(line, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static bool grow(curves *c)
{
    c->room = 2 * c->room + 1024;
    double **const all[] = { &c->step, &c->y[LOSS], &c->y[HELD_OUT], &c->y[BITS], &c->y[RATE] };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double *more = realloc(*all[i], (size_t)c->room * sizeof *more);
        if (!more) return false;
        *all[i] = more;
    }
    return true;
}

static bool read_log(const char *path, curves *c)
{
    static const char *const keys[FIGURES] = { "loss", "held_out", "bits_per_byte", "lr" };
    FILE                    *f = fopen(path, "r");
    json_t                  *line;
    bool                     ok = f;
    while (ok && (line = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL))) {
        ok = c->n < c->room || grow(c);
        if (ok) c->step[c->n] = figure(line, "step");
        for (int i = 0; ok && i < FIGURES; i++) c->y[i][c->n] = figure(line, keys[i]);
        c->n += ok;
        json_decref(line);
    }
    if (f) fclose(f);
    return ok;
}

/* ---- axes ---- */

typedef struct axis {
    double low, high, step; /* values at its ends; between ticks */
    double begin, end;      /* pixels at its ends */
} axis;

static double place(const axis *a, double v)
{
    return a->begin + (a->end - a->begin) * (v - a->low) / (a->high - a->low);
}

/* An axis with about `n` ticks at multiples of 1, 2 or 5 times a power of ten. */
static axis axis_of(double low, double high, int n, double begin, double end)
{
    if (!(high > low)) high = low + (low != 0 ? fabs(low) : 1);
    const double raw = (high - low) / n, ten = pow(10, floor(log10(raw)));
    const double step = ten * (raw <= ten ? 1 : raw <= 2 * ten ? 2 : raw <= 5 * ten ? 5 : 10);
    return (axis) { floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step, step, begin,
                    end };
}

/* ---- a panel ---- */

typedef struct line {
    const char   *name, *colour;
    const double *y;
    bool          marked; /* few points: markers, joined by lines */
} line;

static void widen(const curves *c, const double *y, double *low, double *high)
{
    for (int i = 0; i < c->n; i++) {
        if (!isfinite(y[i])) continue;
        *low = fmin(*low, y[i]);
        *high = fmax(*high, y[i]);
    }
}

/* Draws at most one step per pixel. */
static void draw_line(FILE *f, const curves *c, const line *l, const axis *x, const axis *y)
{
    const int every = l->marked ? 1 : c->n / (2 * (RIGHT - LEFT)) + 1;
    bool      down = false;
    fputs("<path d=\"", f);
    for (int i = 0; i < c->n; i += every) {
        if (!isfinite(l->y[i])) continue;
        fprintf(f, "%s%.1f %.1f", down ? "L" : "M", place(x, c->step[i]), place(y, l->y[i]));
        down = true;
    }
    fprintf(f, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"/>\n", l->colour,
            l->marked ? "1.8" : "1.1");
    for (int i = 0; l->marked && i < c->n; i++)
        if (isfinite(l->y[i]))
            fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                    place(x, c->step[i]), place(y, l->y[i]), l->colour);
}

static void draw_grid(FILE *f, const axis *x, const axis *y, bool labels)
{
    for (double v = y->low; v <= y->high + y->step / 2; v += y->step)
        fprintf(f,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#e4e4e4\"/>\n"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n",
                LEFT, RIGHT, place(y, v), place(y, v), LEFT - 8, place(y, v) + 4,
                fabs(v) < y->step / 2 ? 0 : v);
    for (double v = x->low; v <= x->high + x->step / 2; v += x->step) {
        fprintf(f, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#e4e4e4\"/>\n",
                place(x, v), place(x, v), y->begin, y->end);
        if (labels)
            fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.6g</text>\n",
                    place(x, v), y->begin + 19, v);
    }
    fprintf(f,
            "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" fill=\"none\" "
            "stroke=\"#444\"/>\n",
            LEFT, y->end, RIGHT - LEFT, y->begin - y->end);
}

static void draw_panel(FILE *f, const curves *c, const char *title, const line *l, int n, int which,
                       bool last)
{
    const double top = TOP + which * (PANEL + GAP);
    double       low = INFINITY, high = -INFINITY;
    for (int i = 0; i < n; i++) widen(c, l[i].y, &low, &high);
    if (!(low <= high)) low = 0, high = 1;
    const axis x = axis_of(0, c->n ? c->step[c->n - 1] : 1, 6, LEFT, RIGHT);
    const axis y = axis_of(low, high, 5, top + PANEL, top);
    draw_grid(f, &x, &y, last);
    fprintf(f, "<text x=\"%d\" y=\"%.1f\" font-size=\"13\">", LEFT, top - 7);
    ts_svg_text(f, title);
    fputs("</text>\n", f);
    for (int i = 0; i < n; i++) {
        draw_line(f, c, &l[i], &x, &y);
        fprintf(f,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                "stroke-width=\"2\"/>\n<text x=\"%d\" y=\"%.1f\" font-size=\"13\">",
                RIGHT + 16, RIGHT + 44, top + 14 + 24 * i, top + 14 + 24 * i, l[i].colour,
                RIGHT + 52, top + 18.5 + 24 * i);
        ts_svg_text(f, l[i].name);
        fputs("</text>\n", f);
    }
}

static void draw(FILE *f, const curves *c, const char *title)
{
    const line losses[] = { { "training", "#56b4e9", c->y[LOSS], false },
                            { "held out", "#d55e00", c->y[HELD_OUT], true } };
    const line bits = { "held out", "#d55e00", c->y[BITS], true };
    const line rate = { "rate", "#009e73", c->y[RATE], false };
    fprintf(f, "<text x=\"%d\" y=\"24\" font-size=\"17\" font-weight=\"600\">", LEFT);
    ts_svg_text(f, title);
    fputs("</text>\n", f);
    draw_panel(f, c, "loss, nats per token", losses, 2, 0, false);
    draw_panel(f, c, "bits per byte of held-out text", &bits, 1, 1, false);
    draw_panel(f, c, "learning rate", &rate, 1, 2, true);
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-size=\"14\">step</text>\n",
            (LEFT + RIGHT) / 2, HEIGHT - 12);
}

bool ts_train_svg(const char *log, const char *title, const char *path)
{
    curves c = { 0 };
    FILE  *f = NULL;
    bool   ok = read_log(log, &c);
    if (!ok) ts_complain(log, "cannot be read");
    else ok = (f = ts_svg_open(path, WIDTH, HEIGHT)) != NULL;
    if (f) {
        draw(f, &c, title);
        ok = ts_svg_close(f, path);
    }
    free(c.step);
    for (int i = 0; i < FIGURES; i++) free(c.y[i]);
    return ok;
}
