/* SPDX-License-Identifier: Apache-2.0 */
/* svg.c - log-log line plots, in a page or one below the other in a stand-alone SVG file. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "svg.h"

/* The legend is to the right of the plot, so that it never covers a line. */
enum { WIDTH = 860, HEIGHT = 520, LEFT = 84, TOP = 52, RIGHT = 680, BOTTOM = 456 };

typedef struct axis {
    double low, high;  /* logarithms at its ends */
    double base;       /* of them: 10, or 2 where all values are powers of two */
    bool   zero;       /* its lower end means 0 and below; the first decade is reserved for it */
    double begin, end; /* pixels at its ends */
} axis;

/* Lines differ in colour, dash and marker; two of these survive greyscale print. Colours: the
 * colour-blind safe palette of Okabe and Ito, with the yellow darkened for a white background. */
static const ts_look LOOKS[] = {
    { "#d55e00", "none", 'o', true },     { "#0072b2", "7 4", 's', true },
    { "#009e73", "2 3", '^', true },      { "#000000", "10 3 2 3", 'd', true },
    { "#e69f00", "none", 'o', false },    { "#56b4e9", "7 4", 's', false },
    { "#66a61e", "2 3", '^', false },     { "#7f7f7f", "10 3 2 3", 'd', false },
    { "#d55e00", "7 4", 's', false },     { "#0072b2", "2 3", '^', false },
    { "#009e73", "10 3 2 3", 'd', true }, { "#000000", "none", 'o', false },
    { "#e69f00", "7 4", 's', true },      { "#56b4e9", "2 3", '^', true },
    { "#66a61e", "10 3 2 3", 'd', true }, { "#7f7f7f", "none", 'o', true },
};
enum { N_LOOKS = sizeof LOOKS / sizeof LOOKS[0] };

static const ts_look LIMIT = { "#000000", "none", 0, true };

const ts_look *ts_svg_look(int i)
{
    return &LOOKS[i % N_LOOKS];
}

/* A stand-alone file follows the reader's colour scheme: dark colours become light on a dark
 * background. The other colours are legible on both. */
static const char DARK[] =
    "<style>@media (prefers-color-scheme: dark) {\n"
    "svg { fill: #e0e0e0 } [fill=\"white\"] { fill: #161b22 }\n"
    "[stroke=\"#444\"] { stroke: #8b949e } [stroke=\"#e4e4e4\"] { stroke: #30363d }\n"
    "[fill=\"#000000\"] { fill: #ffffff } [stroke=\"#000000\"] { stroke: #ffffff }\n"
    "[fill=\"#0072b2\"] { fill: #3b9ddd } [stroke=\"#0072b2\"] { stroke: #3b9ddd } }</style>\n";

void ts_svg_text(FILE *f, const char *s)
{
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '&') fputs("&amp;", f);
        else if (c == '<') fputs("&lt;", f);
        else if (c == '>') fputs("&gt;", f);
        else if (c == '"') fputs("&quot;", f);
        else fputc(c < 32 ? ' ' : c, f); /* control characters are not allowed in XML */
    }
}

static bool drawable(double x, double y)
{
    return isfinite(x) && x > 0 && !isnan(y);
}

static void widen(axis *a, double v)
{
    int e;
    if (!(v > 0) || isinf(v)) return;
    if (frexp(v, &e) > 0.5) a->base = 10;
    a->low = fmin(a->low, v);
    a->high = fmax(a->high, v);
}

/* The steps that an axis of base 10 may begin, end and be labelled at. */
static const double NICE[] = { 1, 2, 5, 10 };

/* The largest of them that is not above v, or with `up` the smallest not below. */
static double nice(double v, bool up)
{
    const double decade = pow(10, floor(log10(v) + 1e-9));
    double       best = up ? 10 * decade : decade;
    for (int i = 0; i < 4; i++) {
        const double at = NICE[i] * decade;
        if (up ? at >= v * (1 - 1e-9) && at < best : at <= v * (1 + 1e-9)) best = at;
    }
    return best;
}

/* From extremes to logarithms. `margin`: what keeps markers off the frame, as a factor. An axis
 * without values, or with a single one, still needs two ends. */
static void close_axis(axis *a, double margin)
{
    if (a->low > a->high) a->low = a->high = 1;
    const bool wide = a->high > 1000 * a->low; /* whole decades */
    if (a->base == 10) {
        a->low = nice(a->low / margin, false);
        a->high = nice(a->high * margin, true);
        if (wide) a->low = pow(10, floor(log10(a->low) + 1e-9));
        if (wide) a->high = pow(10, ceil(log10(a->high) - 1e-9));
    }
    if (!(a->high > a->low)) a->high = a->low * a->base;
    a->low = log(a->low) / log(a->base);
    a->high = log(a->high) / log(a->base);
    if (a->zero) a->low -= 1;
}

static double place(const axis *a, double v)
{
    const double at = v > 0 ? (log(v) / log(a->base) - a->low) / (a->high - a->low) : 0;
    return a->begin + (a->end - a->begin) * fmin(fmax(at, 0), 1);
}

static void grid_line(FILE *f, const axis *a, bool is_x, double v, const char *label)
{
    const double at = place(a, v);
    if (is_x)
        fprintf(f,
                "<path d=\"M%.1f %dV%d\" stroke=\"#e4e4e4\"/>"
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                at, TOP, BOTTOM, at, BOTTOM + 19, label);
    else
        fprintf(f,
                "<path d=\"M%d %.1fH%d\" stroke=\"#e4e4e4\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                LEFT, at, RIGHT, LEFT - 8, at + 4, label);
}

/* Labels 128, 2048, 64k, 1M. */
static void binary_label(double v, char label[32])
{
    static const char unit[] = { 0, 'k', 'M', 'G', 'T' };
    int               i = 0;
    for (; v >= 16384 && i < 4; i++) v /= 1024;
    snprintf(label, 32, "%g%c", v, unit[i]);
}

static void grid(FILE *f, const axis *a, bool is_x)
{
    const double lowest = a->low + a->zero, span = a->high - lowest;
    const int    most = 14, step = (int)ceil(span / most - 1e-9);
    const int    n_nice = a->base == 10 && span < 2.2 ? 3 : 1;
    /* 0.1, 1, 10 rather than 1e-1, 1e0, 1e1 */
    const bool plain = lowest > -4.5 && a->high < 5.5;
    char       label[32];
    if (a->zero)
        fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">0</text>\n", LEFT - 8, BOTTOM + 4);
    for (int k = (int)floor(lowest + 1e-9); k <= a->high + 1e-9; k++)
        for (int i = 0; i < n_nice; i++) {
            const double v = pow(a->base, k) * NICE[i], at = log(v) / log(a->base);
            if ((step > 1 && k % step) || at < lowest - 1e-9 || at > a->high + 1e-9) continue;
            if (a->base == 2) binary_label(v, label);
            else if (plain) snprintf(label, sizeof label, "%g", v);
            else snprintf(label, sizeof label, "%de%d", (int)NICE[i], k);
            grid_line(f, a, is_x, v, label);
        }
}

static void frame(FILE *f, const char *title, const char *x_title, const char *y_title)
{
    fprintf(f,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#444\"/>\n"
            "<text x=\"%d\" y=\"31\" font-size=\"17\" font-weight=\"600\">",
            LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP, LEFT);
    ts_svg_text(f, title);
    fprintf(f, "</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-size=\"14\">",
            (LEFT + RIGHT) / 2, HEIGHT - 17);
    ts_svg_text(f, x_title);
    fprintf(f,
            "</text>\n<text transform=\"translate(24 %d) rotate(-90)\" text-anchor=\"middle\" "
            "font-size=\"14\">",
            (TOP + BOTTOM) / 2);
    ts_svg_text(f, y_title);
    fputs("</text>\n", f);
}

/* Its colours are those of the element that it is in. */
static void mark(FILE *f, const ts_look *l, double x, double y, const char *says)
{
    const double r = 4.2;
    const char  *shape = "path";
    if (!l->marker) return;
    if (l->marker == 'o')
        fprintf(f, "<%s cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"", shape = "circle", x, y, r);
    else if (l->marker == 's')
        fprintf(f, "<%s x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", shape = "rect",
                x - 3.7, y - 3.7, 7.4, 7.4);
    else if (l->marker == '^')
        fprintf(f, "<path d=\"M%.1f %.1fl%.1f %.1fh%.1fz\"", x, y - r - 0.8, r + 0.5, 2 * r,
                -2 * r - 1);
    else
        fprintf(f, "<path d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz\"", x, y - r - 1, r + 1,
                r + 1, -r - 1, r + 1, -r - 1, -r - 1);
    if (!says) {
        fputs("/>", f);
        return;
    }
    fputs("><title>", f);
    ts_svg_text(f, says);
    fprintf(f, "</title></%s>", shape);
}

static void markers(FILE *f, const ts_look *l)
{
    fprintf(f, "<g fill=\"%s\" stroke=\"%s\" stroke-width=\"1.5\">",
            l->filled ? l->colour : "white", l->colour);
}

void ts_svg_marker(FILE *f, const ts_look *l, double x, double y, const char *says)
{
    markers(f, l);
    mark(f, l, x, y, says);
    fputs("</g>", f);
}

static void line(FILE *f, const ts_look *l, const axis *xa, const axis *ya, const double *x, int n,
                 const double *y)
{
    fputs("<path d=\"", f);
    for (int i = 0, pen_down = 0; i < n; i++) { /* a NaN leaves a gap */
        if (drawable(x[i], y[i]))
            fprintf(f, "%s%.1f %.1f", pen_down ? "L" : "M", place(xa, x[i]), place(ya, y[i]));
        pen_down = drawable(x[i], y[i]);
    }
    fprintf(f, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" stroke-dasharray=\"%s\"/>\n",
            l->colour, l->dash);
    markers(f, l);
    for (int i = 0; i < n; i++) {
        char says[64];
        if (!drawable(x[i], y[i])) continue;
        snprintf(says, sizeof says, "%.4g, %.4g", x[i], y[i]);
        mark(f, l, place(xa, x[i]), place(ya, y[i]), isfinite(y[i]) ? says : NULL);
    }
    fputs("</g>\n", f);
}

static void legend(FILE *f, const ts_look *l, int i, const char *name)
{
    const double y = TOP + 14 + 24 * i;
    fprintf(f,
            "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"1.8\" "
            "stroke-dasharray=\"%s\"/>",
            RIGHT + 16, RIGHT + 56, y, y, l->colour, l->dash);
    ts_svg_marker(f, l, RIGHT + 36, y, NULL);
    fprintf(f, "<text x=\"%d\" y=\"%.1f\" font-size=\"%d\">", RIGHT + 64, y + 4.5,
            strlen(name) > 18   ? 9
            : strlen(name) > 16 ? 10
            : strlen(name) > 14 ? 11
                                : 13); /* a long name would end outside the picture */
    ts_svg_text(f, name);
    fputs("</text>\n", f);
}

static bool failed(const char *path)
{
    return ts_fail("--svg: %s: %s", path, strerror(errno));
}

/* limit: NULL for none. */
static void draw(FILE *f, const ts_plot *p, const ts_series *limit)
{
    axis xa = { INFINITY, 0, 2, false, LEFT, RIGHT }, ya = { INFINITY, 0, 10, false, BOTTOM, TOP };
    for (int i = 0; i < p->n; i++) {
        widen(&xa, p->x[i]);
        if (limit) widen(&ya, limit->y[i]);
        for (int s = 0; s < p->n_series; s++) {
            widen(&ya, p->series[s].y[i]);
            ya.zero = ya.zero || p->series[s].y[i] <= 0;
        }
    }
    ya.base = 10;
    close_axis(&xa, 1);
    close_axis(&ya, 1.1);
    grid(f, &xa, true);
    grid(f, &ya, false);
    frame(f, p->title, p->x_title, p->y_title);
    if (limit) line(f, &LIMIT, &xa, &ya, p->x, p->n, limit->y);
    for (int s = p->n_series - 1; s >= 0; s--) /* the first series is drawn on top */
        line(f, ts_svg_look(s), &xa, &ya, p->x, p->n, p->series[s].y);
    for (int s = 0; s < p->n_series; s++) legend(f, ts_svg_look(s), s, p->series[s].name);
    if (limit) legend(f, &LIMIT, p->n_series, limit->name);
}

static void begin(FILE *f, const char *style, int width, int height)
{
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"system-ui, sans-serif\" font-size=\"12\" "
            "fill=\"#222\">\n%s<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
            width, height, width, height, style, width, height);
}

void ts_svg_draw(FILE *f, const ts_plot *p)
{
    begin(f, "", WIDTH, HEIGHT);
    draw(f, p, NULL);
    fputs("</svg>\n", f);
}

FILE *ts_svg_open(const char *path, int width, int height)
{
    FILE *f = fopen(path, "w");
    if (f) begin(f, DARK, width, height);
    else failed(path);
    return f;
}

bool ts_svg_close(FILE *f, const char *path)
{
    fputs("</svg>\n", f);
    const bool wrote = !ferror(f);
    return (fclose(f) == 0 && wrote) || failed(path);
}

bool ts_svg_write(const char *path, const ts_plot *p, int n)
{
    FILE *f = ts_svg_open(path, WIDTH, n * HEIGHT);
    for (int i = 0; f && i < n; i++) {
        fprintf(f, "<g transform=\"translate(0 %d)\">\n", i * HEIGHT);
        draw(f, &p[i], NULL);
        fputs("</g>\n", f);
    }
    return f && ts_svg_close(f, path);
}

bool ts_svg_write_under(const char *path, const ts_plot *p, const ts_series *limit)
{
    FILE *f = ts_svg_open(path, WIDTH, HEIGHT);
    if (f) draw(f, p, limit);
    return f && ts_svg_close(f, path);
}
