/* SPDX-License-Identifier: Apache-2.0 */
/* toy_rope.c - a transformer of two layers.
 *
 * Attention's output is normalised, since a mean over many tokens would hide each of them, and the
 * nonlinearity is a steep sine: so every earlier token changes the output (test/unit_toy.c). All
 * sums are in double and in the order of rows, so each row of a pass over a tree has the bits of
 * the plain string. */
#include <math.h>
#include <string.h>

#include "real.h"
#include "toy.h"

enum { LAYERS = 2, WIDTH = 16, HEADS = 2, HEAD = WIDTH / HEADS, INNER = 2 * WIDTH };
enum { SQUARE = WIDTH * WIDTH, LAYER = 4 * SQUARE + 2 * INNER * WIDTH };
static const double STEEP = 60, STRONG = 30, SHARP = 0.3;

typedef struct rows {
    double x[TS_ROPE_MOST_ROWS][WIDTH], q[TS_ROPE_MOST_ROWS][WIDTH], k[TS_ROPE_MOST_ROWS][WIDTH],
        v[TS_ROPE_MOST_ROWS][WIDTH];
} rows;

int64_t ts_rope_weights(int64_t n_vocab)
{
    return LAYERS * LAYER + 2 * n_vocab * WIDTH;
}

static void norm(const double *x, double *y)
{
    double sum = 1e-12;
    for (int i = 0; i < WIDTH; i++) sum += x[i] * x[i];
    for (int i = 0; i < WIDTH; i++) y[i] = x[i] * sqrt(WIDTH / sum);
}

static void multiply(const float *w, int n_out, int n_in, const double *x, double *y)
{
    for (int o = 0; o < n_out; o++) {
        y[o] = 0;
        for (int i = 0; i < n_in; i++) y[o] += (double)w[o * n_in + i] * x[i];
        y[o] /= sqrt(n_in);
    }
}

static void rotate(double *x, int64_t position)
{
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < HEAD; i += 2) {
            double      *pair = x + h * HEAD + i;
            const double angle = (double)position * ts_pow64(100, -(double)i / HEAD);
            const double c = ts_cos64(angle), s = ts_sin64(angle), a = pair[0], b = pair[1];
            pair[0] = a * c - b * s;
            pair[1] = a * s + b * c;
        }
}

/* Attention of row r in one head. visible NULL: all rows up to itself. */
static void attend(const rows *a, int64_t n_row, const uint8_t *visible, int64_t r, int head,
                   double *out)
{
    const double *q = a->q[r] + head * HEAD;
    double        score[TS_ROPE_MOST_ROWS], most = -INFINITY, sum = 0;
    for (int64_t c = 0; c < n_row; c++) {
        score[c] = 0;
        if (visible ? !visible[r * n_row + c] : c > r) continue;
        for (int i = 0; i < HEAD; i++) score[c] += q[i] * a->k[c][head * HEAD + i];
        score[c] *= SHARP;
        most = fmax(most, score[c]);
    }
    memset(out, 0, HEAD * sizeof *out);
    for (int64_t c = 0; c < n_row; c++) {
        if (visible ? !visible[r * n_row + c] : c > r) continue;
        const double w = ts_exp64(score[c] - most);
        sum += w;
        for (int i = 0; i < HEAD; i++) out[i] += w * a->v[c][head * HEAD + i];
    }
    for (int i = 0; i < HEAD && sum > 0; i++) out[i] /= sum;
}

static void layer(rows *a, const float *w, int64_t n_row, const int64_t *position,
                  const uint8_t *visible)
{
    double y[WIDTH], z[WIDTH], inner[INNER];
    for (int64_t r = 0; r < n_row; r++) {
        norm(a->x[r], y);
        multiply(w, WIDTH, WIDTH, y, a->q[r]);
        multiply(w + SQUARE, WIDTH, WIDTH, y, a->k[r]);
        multiply(w + 2 * SQUARE, WIDTH, WIDTH, y, a->v[r]);
        rotate(a->q[r], position ? position[r] : r);
        rotate(a->k[r], position ? position[r] : r);
    }
    for (int64_t r = 0; r < n_row; r++) {
        for (int h = 0; h < HEADS; h++) attend(a, n_row, visible, r, h, y + h * HEAD);
        norm(y, y);
        multiply(w + 3 * SQUARE, WIDTH, WIDTH, y, z);
        for (int i = 0; i < WIDTH; i++) a->x[r][i] += z[i];
        norm(a->x[r], y);
        multiply(w + 4 * SQUARE, INNER, WIDTH, y, inner);
        for (int i = 0; i < INNER; i++) inner[i] = ts_sin64(STEEP * inner[i]);
        multiply(w + 4 * SQUARE + INNER * WIDTH, WIDTH, INNER, inner, z);
        for (int i = 0; i < WIDTH; i++) a->x[r][i] += STRONG * z[i];
    }
}

int ts_rope_forward(const ts_toy *m, int64_t n_row, const int32_t *token, const int64_t *position,
                    const uint8_t *visible, int64_t n_want, const int64_t *want, float *out)
{
    rows          a;
    const int64_t n_vocab = m->word[TS_TOY_VOCAB];
    const float  *w = m->weight + TS_TOY_WEIGHTS;
    const float  *in = w + LAYERS * LAYER, *unembed = in + n_vocab * WIDTH;
    const double  spread = m->weight[TS_TOY_SPREAD];
    if (n_row > TS_ROPE_MOST_ROWS) return 1;
    for (int64_t r = 0; r < n_row; r++)
        for (int i = 0; i < WIDTH; i++) a.x[r][i] = in[token[r] * WIDTH + i];
    for (int l = 0; l < LAYERS; l++) layer(&a, w + l * LAYER, n_row, position, visible);
    for (int64_t i = 0; i < n_want; i++) {
        double y[WIDTH], logit;
        norm(a.x[want ? want[i] : n_row - 1], y);
        for (int64_t t = 0; t < n_vocab; t++) {
            multiply(unembed + t * WIDTH, 1, WIDTH, y, &logit);
            out[i * n_vocab + t] = (float)(spread * logit);
        }
    }
    return 0;
}
