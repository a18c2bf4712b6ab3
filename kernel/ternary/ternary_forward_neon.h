/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_forward_neon.h - the forward product of ternary_neon.c, over its table four_weights.
 *
 * Inputs are in lanes: lane i of a group's sum adds inputs i, i + 4 ... in order, the four lanes
 * are added in pairs, and the group's sum, times its scale, is added to the output. Few rows look
 * each weight up where it is multiplied. Many rows share weights that were looked up once into a
 * panel. Both add in that one order, so that no bit of a row depends on how many there are. */
#ifndef TS_TERNARY_FORWARD_NEON_H
#define TS_TERNARY_FORWARD_NEON_H

enum {
    FEW = 3,     /* rows that look weights up themselves, at most, and */
    OUTS = 8,    /* outputs that they take together: sums fill 24 of 32 registers */
    MANY = 24,   /* rows, from here on, make a panel worth its while */
    TALLEST = 6, /* rows of a tile, at most: with 4 outputs their sums fill 24 of 32 registers */
    PANEL = 32   /* outputs of a panel, which is 16 KiB */
};

static void tabulate(const ts_ternary_rows *rows, int r, int64_t g)
{
    const int64_t n = ts_ternary_width(rows->n_in, g);
    float *const  table = rows->table + (g * rows->n + r) * GROUP;
    memset(table + n / LANES * LANES, 0, (size_t)(GROUP - n / LANES * LANES) * sizeof *table);
    floats_of(rows->in, rows->dtype, (rows->first + r) * rows->n_in + g * GROUP, n, rows->shrink[r],
              table);
}

/* What is multiplied: rows of `in` with outputs whose codes and scales are these. */
typedef struct work {
    const uint8_t  *code[TS_TERNARY_BLOCK];
    const uint16_t *scale[TS_TERNARY_BLOCK];
    int64_t         n_groups;
    int             n_rows;
    const float    *in; /* [group][row][GROUP] */
    float          *y;
    int64_t         y_stride;
} work;

/* sum += x y, or x y where it is the first term. By hand, since gcc would move sums about, or load
 * what many terms need first, and spill. A sum that begins as -0, not as 0, makes no difference: it
 * is added to an output, which is never -0. */
INLINE void add_term(vec *sum, vec x, vec y, bool first)
{
    if (first) __asm__ volatile("fmul %0.4s, %1.4s, %2.4s" : "=w"(*sum) : "w"(x), "w"(y));
    else __asm__ volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(*sum) : "w"(x), "w"(y));
}

/* Scales of group g and four outputs from o on. */
INLINE vec four_scales(const work *w, int o, int64_t g)
{
    uint16x4_t s = vld1_dup_u16(w->scale[o] + g);
    s = vld1_lane_u16(w->scale[o + 1] + g, s, 1);
    s = vld1_lane_u16(w->scale[o + 2] + g, s, 2);
    s = vld1_lane_u16(w->scale[o + 3] + g, s, 3);
    return vcvt_f32_f16(vreinterpret_f16_u16(s));
}

INLINE const float *row_of(const work *w, int64_t g, int row)
{
    return w->in + (g * w->n_rows + row) * GROUP;
}

/* Adds a group's sums of four outputs, times their scales. */
INLINE void add_sums(float *y, const vec *sum, vec scale)
{
    const vec all = vpaddq_f32(vpaddq_f32(sum[0], sum[1]), vpaddq_f32(sum[2], sum[3]));
    put(y, madd(scale, all, get(y)));
}

/* ---- few rows ---- */

/* 32 inputs: 8 bytes of each output's codes. */
INLINE void add_bytes(vec sum[FEW][OUTS], const uint8_t *const *code, const float *const *in,
                      int rows, int j, uint64_t mask, bool first)
{
    uint64_t word[OUTS];
    UNROLL
    for (int k = 0; k < OUTS; k++) memcpy(&word[k], code[k] + j, sizeof word[k]);
    UNROLL
    for (int b = 0; b < 8; b++) {
        vec x[FEW];
        UNROLL
        for (int r = 0; r < rows; r++) x[r] = get(in[r] + 4 * (j + b));
        UNROLL
        for (int k = 0; k < OUTS; k++) {
            const vec four = four_of(word[k], b, mask);
            UNROLL
            for (int r = 0; r < rows; r++) add_term(&sum[r][k], four, x[r], first && b == 0);
        }
    }
}

/* All groups of OUTS outputs, whose codes are one stretch of memory. */
INLINE void few(const work *w, int row, int rows, int o)
{
    const uint64_t mask = mask_of();
    for (int64_t g = 0; g < w->n_groups; g++) {
        vec            sum[FEW][OUTS];
        const uint8_t *code[OUTS];
        const float   *in[FEW];
        UNROLL
        for (int k = 0; k < OUTS; k++) code[k] = w->code[o + k] + g * GROUP_BYTES;
        UNROLL
        for (int r = 0; r < rows; r++) in[r] = row_of(w, g, row + r);
        add_bytes(sum, code, in, rows, 0, mask, true);
        for (int j = 8; j < GROUP_BYTES; j += 8) add_bytes(sum, code, in, rows, j, mask, false);
        UNROLL
        for (int k = 0; k < OUTS; k += 4) {
            const vec scale = four_scales(w, o + k, g);
            UNROLL
            for (int r = 0; r < rows; r++)
                add_sums(w->y + (row + r) * w->y_stride + o + k, sum[r] + k, scale);
        }
    }
}

static void few_1(const work *w, int row, int o)
{
    few(w, row, 1, o);
}

static void few_2(const work *w, int row, int o)
{
    few(w, row, 2, o);
}

static void few_3(const work *w, int row, int o)
{
    few(w, row, 3, o);
}

/* ---- many rows ---- */

/* Group g of PANEL outputs. Of four outputs there are, by turns, four weights of each. */
static void fill_panel(const work *w, int first, int64_t g, float *panel)
{
    const uint64_t mask = mask_of();
    for (int o = 0; o < PANEL; o += 4)
        for (int j = 0; j < GROUP_BYTES; j += 8) {
            uint64_t word[4];
            UNROLL
            for (int k = 0; k < 4; k++)
                memcpy(&word[k], w->code[first + o + k] + g * GROUP_BYTES + j, sizeof word[k]);
            UNROLL
            for (int b = 0; b < 8; b++) {
                UNROLL
                for (int k = 0; k < 4; k++, panel += LANES) put(panel, four_of(word[k], b, mask));
            }
        }
}

/* 16 inputs of `rows` rows and four outputs. */
INLINE void add_inputs(vec sum[TALLEST][4], const float *panel, const float *const *in, int rows,
                       bool first)
{
    UNROLL
    for (int i = 0; i < 16; i += LANES) {
        vec four[4];
        UNROLL
        for (int k = 0; k < 4; k++) four[k] = get(panel + 4 * i + LANES * k);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const vec x = get(in[r] + i);
            UNROLL
            for (int k = 0; k < 4; k++) add_term(&sum[r][k], four[k], x, first && i == 0);
        }
    }
}

/* `rows` rows of `in`, of one group, with the panel's outputs. y is [row][PANEL]. */
INLINE void add_rows(const float *x, int rows, const float *panel, const float *scale, float *y)
{
    const size_t next = (size_t)rows * GROUP * sizeof *x; /* bytes to the rows after these */
    for (int o = 0; o < PANEL; o += 4) {
        vec          sum[TALLEST][4];
        const float *in[TALLEST];
        UNROLL
        for (int r = 0; r < rows; r++) {
            in[r] = x + r * GROUP;
            __builtin_prefetch((const void *)((uintptr_t)(in[r] + 4 * o) + next));
        }
        add_inputs(sum, panel, in, rows, true);
        for (int i = 16; i < GROUP; i += 16) {
            panel += 4 * 16;
            UNROLL
            for (int r = 0; r < rows; r++) in[r] += 16;
            add_inputs(sum, panel, in, rows, false);
        }
        panel += 4 * 16;
        UNROLL
        for (int r = 0; r < rows; r++) add_sums(y + r * PANEL + o, sum[r], get(scale + o));
    }
}

/* All rows with PANEL outputs. */
static void many(const work *w, int first)
{
    float panel[PANEL * GROUP], scale[PANEL], y[TS_TERNARY_ROWS * PANEL];
    memset(y, 0, (size_t)(w->n_rows * PANEL) * sizeof *y);
    for (int64_t g = 0; g < w->n_groups; g++) {
        for (int o = 0; o < PANEL; o += 4) put(scale + o, four_scales(w, first + o, g));
        fill_panel(w, first, g, panel);
        for (int r = 0, n; (n = w->n_rows - r) > 0; r += n) {
            const float *x = row_of(w, g, r);
            n = n <= TALLEST ? n : n < 2 * TALLEST ? (n + 1) / 2 : TALLEST; /* never 1 or 2 */
            if (n == 6) add_rows(x, 6, panel, scale, y + r * PANEL);
            else if (n == 5) add_rows(x, 5, panel, scale, y + r * PANEL);
            else if (n == 4) add_rows(x, 4, panel, scale, y + r * PANEL);
            else add_rows(x, 3, panel, scale, y + r * PANEL);
        }
    }
    for (int r = 0; r < w->n_rows; r++)
        memcpy(w->y + r * w->y_stride + first, y + r * PANEL, PANEL * sizeof *y);
}

static bool multiply(const ts_ternary_matrix *m, int64_t out, int n_rows, const float *table,
                     float *y, int64_t y_stride)
{
    static void (*const some[])(const work *, int, int) = { few_1, few_2, few_3 };
    const int64_t n = min_of(TS_TERNARY_BLOCK, m->n_out - out);
    bool          finite = true;
    work          w = { .n_groups = m->n_groups, .n_rows = n_rows, .in = table };
    w.y = y, w.y_stride = y_stride;
    for (int64_t i = 0; i < TS_TERNARY_BLOCK; i++) { /* past the end the last one again */
        const int64_t at = (out + min_of(i, n - 1)) * m->n_groups;
        w.code[i] = m->code + at * GROUP_BYTES, w.scale[i] = m->scale + at;
    }
    for (int r = 0; r < n_rows && n_rows < MANY; r++)
        memset(y + r * y_stride, 0, TS_TERNARY_BLOCK * sizeof *y);
    if (n_rows < MANY)
        for (int i = 0; i < n; i += OUTS)
            for (int r = 0, left; (left = n_rows - r) > 0; r += left) {
                left = left == 4 ? 2 : (int)min_of(left, FEW);
                some[left - 1](&w, r, i);
            }
    else
        for (int i = 0; i < n; i += PANEL) many(&w, i);
    for (int r = 0; r < n_rows; r++) {
        vec none = splat(0); /* what is not finite, less itself, is NaN */
        for (int64_t i = 0; i < n; i += LANES) {
            const vec v = get(y + r * y_stride + i);
            none = add(none, sub(v, v));
        }
        finite &= total(none) == 0;
    }
    return finite;
}

#endif
