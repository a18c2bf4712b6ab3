/* SPDX-License-Identifier: Apache-2.0 */
/* codes_i8mm.c - codes times bytes of many rows with NEON's products of 2 x 8 and 8 x 2 bytes.
 *
 * Rows of the matrix are unpacked, a panel at a time that fits the second cache, as pairs in the
 * order of ts_rounded's; then tiles of 4 of them and 8 rows of activations stay in registers. */
#include "codes_neon.h"
#include "codes_simd.h"
#include "cpu.h"

enum {
    PANEL = 1 << 17, /* codes */
    MOST_ROWS = 32,
    TALL = 2, /* pairs of rows of the matrix in a tile, and */
    WIDE = 4, /* of activations */
    PAIR_BYTES = 2 * TS_CODE_GROUP,
    QUADS = PAIR_BYTES / 16, /* vectors of a group of a pair */
};

typedef struct panel {
    int64_t n_group;
    int8_t  code[PANEL];
    float   d[PANEL / 8], m[PANEL / 16]; /* of each group of a pair: a, a, b, b; d also of halves */
} panel;

static _Thread_local _Alignas(64) panel room;

INLINE void put_twice(float *to, float a, float b)
{
    vst1q_f32(to, vcombine_f32(vdup_n_f32(a), vdup_n_f32(b)));
}

/* Block `at` of two rows. */
INLINE void unpack_block(ts_code f, const unsigned char *a, const unsigned char *b, panel *to,
                         int64_t at)
{
    const int every = groups_of(f);
    float     d[2][8], m[2][8];
    factors_of(f, a, d[0], m[0]);
    factors_of(f, b, d[1], m[1]);
    UNROLL
    for (int g = 0; g < every; g++) {
        const int64_t i = at * every + g;
        put_pair(to->code + i * PAIR_BYTES, codes_of(f, a, g), codes_of(f, b, g));
        if (f == TS_CODE_Q6_K) {
            const int8_t *s = halves_of(a, g), *t = halves_of(b, g);
            put_twice(to->d + 8 * i, d[0][g] * s[0], d[1][g] * t[0]);
            put_twice(to->d + 8 * i + 4, d[0][g] * s[1], d[1][g] * t[1]);
        } else {
            put_twice(to->d + 4 * i, d[0][g], d[1][g]);
        }
        if (!is_signed(f)) put_twice(to->m + 4 * i, m[0][g], m[1][g]);
    }
}

/* Adds vectors k .. k + n_k of a group to the sums of a tile. x: the bytes of the first pair. */
INLINE void add_bytes(int32x4_t s[TALL][WIDE], const int8_t *w, const int8_t *x, int64_t n_group,
                      int n, int k, int n_k)
{
    UNROLL
    for (int end = k + n_k; k < end; k++) {
        int8x16_t a[TALL];
        UNROLL
        for (int i = 0; i < TALL; i++) a[i] = vld1q_s8(w + i * n_group * PAIR_BYTES + 16 * k);
        UNROLL
        for (int j = 0; j < n; j++) {
            const int8x16_t b = vld1q_s8(x + j * n_group * 2 * PAIR_BYTES + 16 * k);
            UNROLL
            for (int i = 0; i < TALL; i++) s[i][j] = vmmlaq_s32(s[i][j], a[i], b);
        }
    }
}

/* 4 rows of the panel, the first of them row of the matrix, which has n_row more; times n pairs of
 * activations from t on. */
INLINE void tile(ts_code f, const ts_encoded_product *p, const panel *w, const ts_rounded *x,
                 int64_t pair, int64_t row, int64_t n_row, int64_t t, int n)
{
    const int64_t n_group = w->n_group;
    const int     parts = f == TS_CODE_Q6_K ? 2 : 1, quads = QUADS / parts;
    const int8_t *wc = w->code + pair * n_group * PAIR_BYTES;
    const int8_t *xc = x->code + t * n_group * 2 * PAIR_BYTES;
    const float  *wd = w->d + pair * n_group * 4 * parts, *wm = w->m + pair * n_group * 4;
    const float  *xd = x->scale + t * n_group * 4, *xs = x->sum + t * n_group * 4;
    vec           y[TALL][WIDE];
    UNROLL
    for (int i = 0; i < TALL * n; i++) y[i / n][i % n] = zero();
    for (int64_t g = 0; g < n_group; g++, wc += PAIR_BYTES, xc += 2 * PAIR_BYTES) {
        UNROLL
        for (int part = 0; part < parts; part++) {
            int32x4_t s[TALL][WIDE];
            UNROLL
            for (int i = 0; i < TALL * n; i++) s[i / n][i % n] = vdupq_n_s32(0);
            add_bytes(s, wc, xc, n_group, n, part * quads, quads);
            UNROLL
            for (int i = 0; i < TALL * n; i++) s[i / n][i % n] = vshlq_n_s32(s[i / n][i % n], 7);
            add_bytes(s, wc, xc + PAIR_BYTES, n_group, n, part * quads, quads);
            UNROLL
            for (int i = 0; i < TALL * n; i++) {
                const vec d = vld1q_f32(wd + ((i / n * n_group + g) * parts + part) * 4);
                const vec scale = vmulq_f32(d, vld1q_f32(xd + (i % n * n_group + g) * 4));
                y[i / n][i % n] = vfmaq_f32(y[i / n][i % n], vcvtq_f32_s32(s[i / n][i % n]), scale);
            }
        }
        if (is_signed(f)) continue;
        UNROLL
        for (int i = 0; i < TALL * n; i++)
            y[i / n][i % n] = vfmaq_f32(y[i / n][i % n], vld1q_f32(wm + (i / n * n_group + g) * 4),
                                        vld1q_f32(xs + (i % n * n_group + g) * 4));
    }
    UNROLL
    for (int j = 0; j < 2 * n; j++) {
        const vec four =
            j % 2 ? vuzp2q_f32(y[0][j / 2], y[1][j / 2]) : vuzp1q_f32(y[0][j / 2], y[1][j / 2]);
        float *to = (float *)p->y + (2 * t + j) * p->shape.rows + row, last[4];
        if (2 * t + j == x->n) break;
        if (n_row >= 4) {
            vst1q_f32(to, p->add ? vaddq_f32(vld1q_f32(to), four) : four);
            continue;
        }
        vst1q_f32(last, four);
        for (int i = 0; i < n_row; i++) to[i] = (p->add ? to[i] : 0) + last[i];
    }
}

/* If a panel has no more rows, its last row is repeated to fill a tile. */
INLINE void multiply_panel(ts_code f, const ts_encoded_product *p, const ts_rounded *x,
                           int64_t first, int64_t n_row)
{
    const int64_t n_block = x->cols / TS_CODE_GROUP / groups_of(f);
    const int64_t n_pair = (x->n + 1) / 2, last = first + n_row - 1;
    room.n_group = x->cols / TS_CODE_GROUP;
    for (int64_t i = 0; i < (n_row + 3) / 4 * 2; i++) {
        const int64_t        r = first + 2 * i;
        const unsigned char *a = ts_encoded_at(p->e, x->cols, r < last ? r : last);
        const unsigned char *b = ts_encoded_at(p->e, x->cols, r + 1 < last ? r + 1 : last);
        for (int64_t k = 0; k < n_block; k++)
            unpack_block(f, a + k * bytes_of(f), b + k * bytes_of(f), &room, i * n_block + k);
    }
    int64_t t = 0;
    for (; t + WIDE <= n_pair; t += WIDE)
        for (int64_t r = 0; r < n_row; r += 4)
            tile(f, p, &room, x, r / 2, first + r, n_row - r, t, WIDE);
    for (; t < n_pair; t++)
        for (int64_t r = 0; r < n_row; r += 4)
            tile(f, p, &room, x, r / 2, first + r, n_row - r, t, 1);
}

INLINE void multiply_rows(ts_code f, const ts_encoded_product *p, const ts_rounded *x,
                          int64_t first, int64_t n)
{
    const int64_t fit = PANEL / x->cols / 4 * 4, each = fit < MOST_ROWS ? fit : MOST_ROWS;
    for (int64_t r = 0; r < n; r += each)
        multiply_panel(f, p, x, first + r, n - r < each ? n - r : each);
}

#include "codes_formats.h"

/* Pairs of rows; a last row without a second one is paired with zeros. */
static void round_rows(const float *x, const ts_rounded *to, int64_t first, int64_t n)
{
    const int64_t n_group = to->cols / TS_CODE_GROUP;
    const bytes   none = { vdupq_n_s8(0), vdupq_n_s8(0) };
    for (int64_t r = first; r < first + n; r += 2)
        for (int64_t g = 0; g < n_group; g++) {
            const int64_t i = r / 2 * n_group + g;
            int8_t       *code = to->code + i * 2 * PAIR_BYTES;
            bytes         high[2] = { none, none }, low[2] = { none, none };
            float         scale[2] = { 0 }, sum[2] = { 0 };
            for (int k = 0; k < (r + 1 < to->n ? 2 : 1); k++)
                scale[k] = round_group(x + (r + k) * to->cols + g * TS_CODE_GROUP, &high[k],
                                       &low[k], &sum[k]);
            put_pair(code, high[0], high[1]);
            put_pair(code + PAIR_BYTES, low[0], low[1]);
            vst1q_f32(to->scale + 4 * i, vcombine_f32(vld1_f32(scale), vld1_f32(scale)));
            vst1q_f32(to->sum + 4 * i, vcombine_f32(vld1_f32(sum), vld1_f32(sum)));
        }
}

const ts_codes ts_codes_i8mm = { TS_CPU_I8MM, 4, round_rows, multiply };
