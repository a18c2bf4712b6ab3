/* SPDX-License-Identifier: Apache-2.0 */
/* demo_graph.c - draws nodes in columns and rows as a stand-alone SVG file. */
#include <stdlib.h>
#include <string.h>

#include "demo_graph.h"

enum { LEFT = 20, TOP = 84, COLUMN = 104, ROW = 40, BOX_W = 84, BOX_H = 26 };

ts_tokenizer *ts_demo_words(const ts_demo_model *m)
{
    char          path[4096], why[TS_MODEL_WHY];
    ts_tokenizer *t = NULL;
    if (!m->path) return NULL;
    snprintf(path, sizeof path, "%s/tokenizer.json", m->path);
    if (!ts_tokenizer_load(ts_tokenizer_is_inside(m->path) ? m->path : path, &t, why)) return NULL;
    return t;
}

void ts_demo_label(const ts_tokenizer *words, int32_t previous, int32_t token,
                   char label[TS_DEMO_LABEL])
{
    size_t      n = 0;
    const char *piece = words ? ts_tokenizer_piece(words, previous, token, &n) : NULL;
    if (!piece) {
        snprintf(label, TS_DEMO_LABEL, "%d", token);
        return;
    }
    if (n > TS_DEMO_LABEL - 3) n = TS_DEMO_LABEL - 3;
    label[0] = '"';
    for (size_t i = 0; i < n; i++)
        label[1 + i] = (char)(piece[i] < ' ' || piece[i] == 0x7f ? '?' : piece[i]);
    label[1 + n] = '"';
    label[2 + n] = 0;
}

/* The styles differ in colour and line. */
static const struct {
    const char *fill, *line, *dash;
    double      width;
} LOOKS[3] = { { "white", "#009e73", "none", 3 },
               { "white", "#0072b2", "none", 1.5 },
               { "white", "#7f7f7f", "4 3", 1.5 } };

static double x_of(const ts_demo_node *n)
{
    return LEFT + n->column * COLUMN;
}

static double y_of(const ts_demo_node *n)
{
    return TOP + n->row * ROW;
}

static void draw_edge(FILE *f, const ts_demo_node *from, const ts_demo_node *to)
{
    const double x = x_of(from) + BOX_W, y = y_of(from) + BOX_H / 2.0, x1 = x_of(to);
    const double middle = (x + x1) / 2, y1 = y_of(to) + BOX_H / 2.0;
    fprintf(f,
            "<path d='M%g %g C%g %g %g %g %g %g' fill='none' stroke='%s' stroke-width='%g' "
            "stroke-dasharray='%s'/>\n",
            x, y, middle, y, middle, y1, x1, y1, LOOKS[to->look].line, LOOKS[to->look].width,
            LOOKS[to->look].dash);
}

static void draw_box(FILE *f, double x, double y, ts_demo_look look, const char *label)
{
    fprintf(f,
            "<rect x='%g' y='%g' width='%d' height='%d' rx='5' fill='%s' stroke='%s' "
            "stroke-width='%g' stroke-dasharray='%s'/>\n<text x='%g' y='%g' "
            "text-anchor='middle'>",
            x, y, BOX_W, BOX_H, LOOKS[look].fill, LOOKS[look].line, LOOKS[look].width,
            LOOKS[look].dash, x + BOX_W / 2.0, y + BOX_H / 2.0 + 4);
    ts_svg_text(f, label);
    fputs("</text>\n", f);
}

bool ts_demo_graph(const char *path, const char *title, const char *const looks[3],
                   const ts_demo_node *node, int n)
{
    int n_column = 5, n_row = 1; /* room for the legend */
    for (int i = 0; i < n; i++) {
        if (node[i].column >= n_column) n_column = node[i].column + 1;
        if (node[i].row >= n_row) n_row = node[i].row + 1;
    }
    FILE *f = ts_svg_open(path, 2 * LEFT + n_column * COLUMN, TOP + n_row * ROW + LEFT);
    if (!f) return false;
    fprintf(f, "<text x='%d' y='26' font-size='16'>", LEFT);
    ts_svg_text(f, title);
    fputs("</text>\n", f);
    for (int i = 0; i < 3; i++) draw_box(f, LEFT + i * 1.6 * COLUMN, 42, (ts_demo_look)i, looks[i]);
    for (int i = 0; i < n; i++)
        if (node[i].from >= 0) draw_edge(f, &node[node[i].from], &node[i]);
    for (int i = 0; i < n; i++)
        draw_box(f, x_of(&node[i]), y_of(&node[i]), node[i].look, node[i].label);
    return ts_svg_close(f, path);
}
