/* SPDX-License-Identifier: Apache-2.0 */
/* svg.c - a log-log line plot, as part of a page or as one stand-alone SVG file. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "cli.h"

/* The legend is to the right of the plot, so that it never covers a line. */
enum { WIDTH = 860, HEIGHT = 520, LEFT = 84, TOP = 52, RIGHT = 680, BOTTOM = 456 };

typedef struct axis {
    int    low, high;  /* decades at its ends */
    bool   zero;       /* its lower end means 0 and below */
    double begin, end; /* pixels at its ends */
} axis;

/* Lines differ in colour, dash and marker; two of these survive greyscale print. Colours: the
 * colour-blind safe palette of Okabe and Ito, with the yellow darkened for a white background. */
typedef struct look {
    const char *colour, *dash;
    char        marker;
    bool        filled;
} look;

static const look LOOKS[] = {
    { "#d55e00", "none", 'o', true },  { "#0072b2", "7 4", 's', true },
    { "#009e73", "2 3", '^', true },   { "#000000", "10 3 2 3", 'd', true },
    { "#e69f00", "none", 'o', false }, { "#56b4e9", "7 4", 's', false },
    { "#66a61e", "2 3", '^', false },  { "#7f7f7f", "10 3 2 3", 'd', false },
};
enum { N_LOOKS = sizeof LOOKS / sizeof LOOKS[0] };

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

/* `margin`, in decades, keeps markers off the frame; a negative one tolerates rounding of log10. */
static void widen(axis *a, double v, double margin)
{
    if (!(v > 0) || isinf(v)) return;
    const double e = log10(v);
    a->low = (int)fmin(a->low, floor(e - margin));
    a->high = (int)fmax(a->high, ceil(e + margin));
}

/* An axis without values, or with a single power of ten, still needs two ends. */
static void close_axis(axis *a)
{
    if (a->low > a->high) a->low = a->high = 0;
    if (a->low == a->high) a->high++;
}

static double place(const axis *a, double v)
{
    const double at = v > 0 ? (log10(v) - a->low) / (a->high - a->low) : 0;
    return a->begin + (a->end - a->begin) * fmin(fmax(at, 0), 1);
}

static double place_decade(const axis *a, int decade)
{
    return a->begin + (a->end - a->begin) * (decade - a->low) / (a->high - a->low);
}

static int label_step(const axis *a)
{
    static const int steps[] = { 1, 2, 5, 10, 20, 50 };
    for (int i = 0; i < (int)(sizeof steps / sizeof steps[0]); i++)
        if ((a->high - a->low) / steps[i] <= 14) return steps[i];
    return 100;
}

static void grid(FILE *f, const axis *a, bool is_x)
{
    const int  step = label_step(a);
    const bool plain = a->low >= -4 && a->high <= 5; /* 0.1, 1, 10 rather than 1e-1, 1e0, 1e1 */
    char       label[16];
    if (a->zero)
        fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">0</text>\n", LEFT - 8, BOTTOM + 4);
    for (int k = a->low + a->zero; k <= a->high; k++) {
        if (k % step) continue;
        const double at = place_decade(a, k);
        if (plain) snprintf(label, sizeof label, "%g", pow(10, k));
        else snprintf(label, sizeof label, "1e%d", k);
        if (is_x)
            fprintf(f,
                    "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#e4e4e4\"/>\n"
                    "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                    at, at, TOP, BOTTOM, at, BOTTOM + 19, label);
        else
            fprintf(f,
                    "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#e4e4e4\"/>\n"
                    "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                    LEFT, RIGHT, at, at, LEFT - 8, at + 4, label);
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

static void marker(FILE *f, const look *l, double x, double y)
{
    const double r = 4.2;
    if (l->marker == 'o') fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"", x, y, r);
    else if (l->marker == 's')
        fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", x - 3.7, y - 3.7,
                7.4, 7.4);
    else if (l->marker == '^')
        fprintf(f, "<path d=\"M%.1f %.1fl%.1f %.1fh%.1fz\"", x, y - r - 0.8, r + 0.5, 2 * r,
                -2 * r - 1);
    else
        fprintf(f, "<path d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz\"", x, y - r - 1, r + 1,
                r + 1, -r - 1, r + 1, -r - 1, -r - 1);
    fprintf(f, " fill=\"%s\" stroke=\"%s\" stroke-width=\"1.5\"/>\n",
            l->filled ? l->colour : "white", l->colour);
}

static void line(FILE *f, const look *l, const axis *xa, const axis *ya, const double *x, int n,
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
    for (int i = 0; i < n; i++)
        if (drawable(x[i], y[i])) marker(f, l, place(xa, x[i]), place(ya, y[i]));
}

static void legend(FILE *f, const look *l, int i, const char *name)
{
    const double y = TOP + 14 + 24 * i;
    fprintf(f,
            "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"1.8\" "
            "stroke-dasharray=\"%s\"/>\n",
            RIGHT + 16, RIGHT + 56, y, y, l->colour, l->dash);
    marker(f, l, RIGHT + 36, y);
    fprintf(f, "<text x=\"%d\" y=\"%.1f\" font-size=\"%d\">", RIGHT + 64, y + 4.5,
            strlen(name) > 14 ? 11 : 13); /* a long name would end outside the picture */
    ts_svg_text(f, name);
    fputs("</text>\n", f);
}

static bool failed(const char *path)
{
    fprintf(stderr, "touchstone %s: --svg: %s: %s\n", ts_command(), path, strerror(errno));
    return false;
}

static void draw(FILE *f, const char *style, const char *title, const char *x_title,
                 const char *y_title, const double *x, int n, const ts_series *series, int n_series)
{
    axis xa = { 400, -400, false, LEFT, RIGHT }, ya = { 400, -400, false, BOTTOM, TOP };
    for (int i = 0; i < n; i++) {
        widen(&xa, x[i], -1e-9);
        for (int s = 0; s < n_series; s++) {
            widen(&ya, series[s].y[i], 0.1);
            ya.zero = ya.zero || series[s].y[i] <= 0;
        }
    }
    close_axis(&xa);
    close_axis(&ya);
    if (ya.zero) ya.low--; /* the lower edge is reserved for values <= 0 */
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"system-ui, sans-serif\" font-size=\"12\" "
            "fill=\"#222\">\n%s<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, style, WIDTH, HEIGHT);
    grid(f, &xa, true);
    grid(f, &ya, false);
    frame(f, title, x_title, y_title);
    for (int s = n_series - 1; s >= 0; s--) /* the first series is drawn on top */
        line(f, &LOOKS[s % N_LOOKS], &xa, &ya, x, n, series[s].y);
    for (int s = 0; s < n_series; s++) legend(f, &LOOKS[s % N_LOOKS], s, series[s].name);
    fputs("</svg>\n", f);
}

void ts_svg_draw(FILE *f, const char *title, const char *x_title, const char *y_title,
                 const double *x, int n, const ts_series *series, int n_series)
{
    draw(f, "", title, x_title, y_title, x, n, series, n_series);
}

bool ts_svg_loglog(const char *path, const char *title, const char *x_title, const char *y_title,
                   const double *x, int n, const ts_series *series, int n_series)
{
    FILE *f = fopen(path, "w");
    if (!f) return failed(path);
    draw(f, DARK, title, x_title, y_title, x, n, series, n_series);
    const bool wrote = !ferror(f);
    return (fclose(f) == 0 && wrote) || failed(path);
}
