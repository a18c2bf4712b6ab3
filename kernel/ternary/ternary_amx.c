/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_amx.c - the forward product in AMX tiles of bytes.
 *
 * The inputs of a group become integers, multiples of a unit that the largest of them sets, and
 * these four signed digits of a byte each. Codes become bytes 0, 1 and 2. A tile of digits times a
 * tile of codes is 16 x 16 sums of integers, which are exact; what the codes have too much is the
 * digits' own sum. A group's sum is made a float by one rounding, and added to the output's.
 *
 * Small inputs next to a large one lose bits. Where one is off by more than sqrt(n_in) roundoffs of
 * its own, what is missing of all inputs of the group is multiplied in the same way: the second
 * level. Rows whose inputs differ by more than two levels hold, or are not finite, are left to
 * AVX-512. All of this depends on the row alone, and on no sum's order.
 *
 * A single row would leave most of a tile empty: byte dot products make the same sums. */
#include <math.h>

#include "tiles_amx.h"

#include "ternary_avx512.h"

enum {
    GROUP = TS_TERNARY_GROUP,
    GROUP_BYTES = TS_TERNARY_GROUP_BYTES,
    VECS = GROUP / LANES,         /* of a group's inputs */
    DIGITS = 4,                   /* of an integer */
    DIGIT_BYTES = DIGITS * GROUP, /* of a group of a row, [digit][input] */
    LEVELS = 2,
    SLOT = LEVELS * DIGIT_BYTES + 64, /* of a group of a row, in bytes: digits and levels */
    TILE = 1024,                      /* bytes of a tile, and */
    TILE_ROWS = 4,                    /* rows of `in` whose digits fill it */
    ROWS = 64,                        /* of `in` together, at most: their sums fit in 16 KiB */
    OUTS = TS_TERNARY_BLOCK,          /* outputs together: the columns of four tiles */
    PARTS = OUTS / LANES,
    AHEAD = 8,               /* groups whose scales are fetched together: 16 bytes */
    PAIR = 2,                /* groups of a line of memory */
    WORDS = GROUP_BYTES / 4, /* of a group's codes */
};

/* What integers are multiplied by, as an exponent of 2, and the sums of their higher two digits and
 * their lower two. */
typedef struct level {
    int32_t high, low;
    float   exponent, none;
} level;

/* ---- inputs as digits ---- */

/* Bytes 4 i + k of 16 become bytes 4 k + i; also words. */
INLINE ints turned(ints v)
{
    return _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), v);
}

/* The digits of 16 integers, in the order in which codes come out of a word: inputs 0, 4, 8, 12,
 * 1, 5 ... Digits carry into the next higher one where they are 128 and more. */
INLINE void put_digits(int8_t *digits, ints carried)
{
    const ints bytes = _mm512_xor_si512(carried, _mm512_set1_epi32(0x00808080));
    const ints by_digit =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const ints v = turned(_mm512_shuffle_epi8(turned(bytes), by_digit));
    _mm_store_si128((void *)digits, _mm512_castsi512_si128(v));
    _mm_store_si128((void *)(digits + GROUP), _mm512_extracti32x4_epi32(v, 1));
    _mm_store_si128((void *)(digits + 2 * GROUP), _mm512_extracti32x4_epi32(v, 2));
    _mm_store_si128((void *)(digits + 3 * GROUP), _mm512_extracti32x4_epi32(v, 3));
}

/* x, less what its digits now say. */
INLINE void take_digits(vec x[VECS], int8_t *digits, level *l)
{
    int  e;
    vec  most = splat(0);
    ints high = _mm512_setzero_si512(), low = high;
    for (int i = 0; i < VECS; i++) most = larger(_mm512_abs_ps(x[i]), most);
    (void)frexpf(_mm512_reduce_max_ps(most) * 1.01f, &e); /* no integer is above 0x7f7f7f7f */
    for (int i = 0; i < VECS; i++) {
        const ints whole = _mm512_cvtps_epi32(_mm512_scalef_ps(x[i], splat((float)(31 - e))));
        const ints carried = _mm512_add_epi32(whole, _mm512_set1_epi32(0x00808080));
        high = _mm512_add_epi32(high, _mm512_srai_epi32(carried, 16));
        low = _mm512_add_epi32(low, _mm512_and_si512(carried, _mm512_set1_epi32(0xffff)));
        put_digits(digits + i * LANES, carried);
        x[i] = sub(x[i], _mm512_scalef_ps(_mm512_cvtepi32_ps(whole), splat((float)(e - 31))));
    }
    *l = (level) { _mm512_reduce_add_epi32(high) - GROUP * 0x80,
                   _mm512_reduce_add_epi32(low) - GROUP * 0x8080, (float)(e - 31), 0 };
}

/* Tables of a group: digits [level][row], levels [level][row], then which levels are used. */
INLINE char *table_of(const float *tables, int64_t g, int n_rows)
{
    return (char *)(uintptr_t)tables + g * n_rows * SLOT;
}

INLINE int8_t *digits_of(char *table, int which, int row, int n_rows)
{
    return (int8_t *)table + (which * n_rows + row) * DIGIT_BYTES;
}

INLINE level *level_of(char *table, int which, int row, int n_rows)
{
    return (level *)(void *)(table + n_rows * LEVELS * DIGIT_BYTES) + which * n_rows + row;
}

INLINE bool *used_of(char *table, int which, int row, int n_rows)
{
    return (bool *)(void *)level_of(table, LEVELS, 0, n_rows) + which * n_rows + row;
}

static void tabulate(const ts_ternary_rows *rows, int r, int64_t g)
{
    /* Of the 8 + 2 sqrt(n) roundoffs that a sum may be off by, what additions leave (ternary.md).
     */
    const vec     tolerance = splat(sqrtf((float)rows->n_in) * 0x1p-24f);
    char *const   table = table_of(rows->table, g, rows->n);
    const int64_t at = (rows->first + r) * rows->n_in + g * GROUP;
    float         some[GROUP] = { 0 };
    vec           x[VECS];
    __mmask16     off = 0;
    floats_of(rows->in, rows->dtype, at, ts_ternary_width(rows->n_in, g), rows->shrink[r], some);
    for (int i = 0; i < VECS; i++) x[i] = get(some + i * LANES);
    take_digits(x, digits_of(table, 0, r, rows->n), level_of(table, 0, r, rows->n));
    for (int i = 0; i < VECS; i++)
        off |= _mm512_cmp_ps_mask(_mm512_abs_ps(x[i]),
                                  mul(tolerance, _mm512_abs_ps(get(some + i * LANES))), _CMP_GT_OQ);
    *used_of(table, 0, r, rows->n) = true, *used_of(table, 1, r, rows->n) = off != 0;
    if (off) take_digits(x, digits_of(table, 1, r, rows->n), level_of(table, 1, r, rows->n));
}

/* The second level is off by at most 2^-61 of a group's largest input, so an input of 2^-36 of that
 * by at most half its roundoff. */
static bool suits(const void *in, ts_dtype t, int64_t at, int64_t n)
{
    for (int64_t c = 0; c < n; c += GROUP) {
        const int64_t left = min_of(GROUP, n - c);
        float         some[GROUP] = { 0 };
        vec           most = splat(0), least = splat(INFINITY);
        __mmask16     odd = 0;
        floats_of(in, t, at + c, left, 1, some);
        for (int i = 0; i < VECS; i++) {
            const vec v = _mm512_abs_ps(get(some + i * LANES));
            odd |= _mm512_cmp_ps_mask(v, splat(INFINITY), _CMP_NLT_UQ);
            most = larger(v, most);
            least =
                _mm512_mask_min_ps(least, _mm512_cmp_ps_mask(v, splat(0), _CMP_NEQ_OQ), least, v);
        }
        if (odd || _mm512_reduce_min_ps(least) < _mm512_reduce_max_ps(most) * 0x1p-36f)
            return false;
    }
    return true;
}

/* ---- products ---- */

/* Up to four rows, whose digits are one tile: what their sums are added to. */
typedef struct job {
    const level *levels;
    float       *y;      /* [row][output] */
    unsigned     wanted; /* bits of the rows that count */
    const float *scale;
} job;

/* All that one block of outputs has at hand. */
typedef struct panel {
    const ts_ternary_matrix *m;
    int64_t                  out, n_out; /* the first output, and how many there are from it on */
    int                      n_rows;
    const float             *tables;
    const uint8_t           *next, *end;     /* what will be wanted of the codes */
    ints                     three;          /* bits of code points 3 */
    job                      late;           /* multiplied, but not added yet */
    _Alignas(64) uint8_t codes[2][8 * TILE]; /* of a group, as right factors; by turns */
    _Alignas(64) int32_t sums[PARTS][TILE_ROWS][DIGITS][LANES];
    float scale[2][AHEAD][OUTS]; /* of groups; by turns */
    float y[ROWS][OUTS];
} panel;

/* The number that four sums of digits make, with 16 outputs. High and low are at most 2^23: exact
 * as floats. */
INLINE vec number_of(const ints sum[DIGITS], const level *l)
{
    const ints high = _mm512_sub_epi32(_mm512_add_epi32(_mm512_slli_epi32(sum[3], 8), sum[2]),
                                       _mm512_set1_epi32(l->high));
    const ints low = _mm512_sub_epi32(_mm512_add_epi32(_mm512_slli_epi32(sum[1], 8), sum[0]),
                                      _mm512_set1_epi32(l->low));
    const vec  all = madd(_mm512_cvtepi32_ps(high), splat(0x1p16f), _mm512_cvtepi32_ps(low));
    return _mm512_scalef_ps(all, splat(l->exponent));
}

/* Adds what was multiplied last, of tile t. */
INLINE void add_late(panel *p, int t)
{
    const job j = p->late;
    const vec scale = get(j.scale + t * LANES);
#pragma GCC unroll 4
    for (int r = 0; r < TILE_ROWS; r++) {
        float *const y = j.y + r * OUTS + t * LANES;
        ints         sum[DIGITS];
        if (!(j.wanted >> r & 1)) continue;
#pragma GCC unroll 4
        for (int d = 0; d < DIGITS; d++) sum[d] = _mm512_load_si512(p->sums[t][r][d]);
        put(y, madd(scale, number_of(sum, j.levels + r), get(y)));
    }
}

/* Bits 2 k and 2 k + 1 of every byte: a matrix of bits selects them. */
INLINE ints codes_at(ints words, int k)
{
    return _mm512_gf2p8affine_epi64_epi8(
        words, _mm512_set1_epi64((long long)(UINT64_C(0x0102000000000000) << 2 * k)), 0);
}

/* Where both bits of a code point are set. */
INLINE ints note_three(ints three, ints words)
{
    return _mm512_ternarylogic_epi32(three, words, _mm512_srli_epi32(words, 1), 0xf8);
}

/* `width` bytes of codes, from group g on, of the 16 outputs of a part. */
INLINE const uint8_t *codes_from(const panel *p, int part, int64_t g, int width, int64_t *stride,
                                 uint8_t *copy)
{
    const int64_t o = min_of(part * LANES, p->n_out - 1);
    const int64_t left = (p->m->n_groups - g) * GROUP_BYTES;
    *stride = p->m->n_groups * GROUP_BYTES;
    return rows_of(p->m->code + (p->out + o) * *stride + g * GROUP_BYTES, p->n_out - o, stride,
                   LANES, (int)min_of(width, left), width, copy);
}

INLINE void look_ahead(panel *p, int n_lines)
{
    for (int i = 0; i < n_lines && p->next < p->end; i++, p->next += 64)
        __builtin_prefetch(p->next, 0, 2);
}

/* Words of 16 codes become rows of tiles, 4 bytes of which are codes of one output, four inputs
 * apart. */
static void expand(panel *p, int64_t g, int part)
{
    uint8_t        copy[LANES * GROUP_BYTES], *to = p->codes[g % 2] + part * 2 * TILE;
    int64_t        stride;
    const uint8_t *code = codes_from(p, part, g, GROUP_BYTES, &stride, copy);
    ints           three = p->three;
    look_ahead(p, LANES * GROUP_BYTES / 64);
#pragma GCC unroll 2
    for (int i = 0; i < WORDS; i += 4) {
        ints words[4];
        columns(code + i * 4, stride, words);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            three = note_three(three, words[j]);
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++, to += 64) _mm512_store_si512(to, codes_at(words[j], k));
        }
    }
    p->three = three;
}

/* 16 rows of digits, or fewer, with OUTS outputs of group g. Tiles and vectors work at the same
 * time if the work of both is at hand: among the products what is late is added and, if wanted, the
 * next group's codes are expanded. A tile is stored once the last one has been read and the next is
 * being multiplied. */
static void multiply_tile(panel *p, int64_t g, bool ahead, const int8_t *digits, job next)
{
    const uint8_t *const codes = p->codes[g % 2];
    settle();
    _tile_stored(3, p->sums[3], 64);
    settle();
    _tile_loadd(4, digits, GROUP);
    _tile_loadd(5, digits + 64, GROUP);
#define MULTIPLY(t)                                                                                \
    _tile_zero(t);                                                                                 \
    _tile_loadd(6, codes + 2 * (t)*TILE, 64);                                                      \
    _tile_dpbsud(t, 4, 6);                                                                         \
    _tile_loadd(7, codes + (2 * (t) + 1) * TILE, 64);                                              \
    _tile_dpbsud(t, 5, 7);                                                                         \
    add_late(p, t);                                                                                \
    if (ahead) expand(p, g + 1, t);
    MULTIPLY(0)
    MULTIPLY(1)
    settle();
    _tile_stored(0, p->sums[0], 64);
    settle();
    MULTIPLY(2)
    settle();
    _tile_stored(1, p->sums[1], 64);
    settle();
    MULTIPLY(3)
    settle();
    _tile_stored(2, p->sums[2], 64);
    settle();
#undef MULTIPLY
    p->late = next;
}

/* Which of the rows [begin, end) use a level, as bits from row `first` on. */
INLINE unsigned wanted_of(const bool *used, int first, int begin, int end)
{
    unsigned wanted = 0;
    for (int r = begin; r < end; r++) wanted |= (unsigned)used[r] << (r - first);
    return wanted;
}

/* The first level of all rows, then the second where it is used. Rows that do not fill a tile have
 * one that begins earlier. */
INLINE void multiply_rows(panel *p, int64_t g, const float *scale)
{
    char *const table = table_of(p->tables, g, p->n_rows);
    for (int which = 0; which < LEVELS; which++) {
        const bool *const used = used_of(table, which, 0, p->n_rows);
        for (int r = 0; r < p->n_rows; r += TILE_ROWS) {
            const int  end = (int)min_of(r + TILE_ROWS, p->n_rows);
            const int  first = end > TILE_ROWS ? end - TILE_ROWS : 0;
            const job  next = { level_of(table, which, first, p->n_rows), p->y[first],
                                wanted_of(used, first, r, end), scale };
            const bool ahead = !which && !r && g + 1 < p->m->n_groups;
            if (next.wanted)
                multiply_tile(p, g, ahead, digits_of(table, which, first, p->n_rows), next);
        }
    }
}

/* Scales of groups [g, g + AHEAD); those past the end are whatever was there. */
INLINE void fetch_scales(panel *p, int64_t g, float scale[AHEAD][OUTS])
{
    const int n = (int)min_of(AHEAD, p->m->n_groups - g) * 2;
    for (int v = 0; v < PARTS; v++) {
        uint8_t        copy[LANES * AHEAD * 2] = { 0 };
        int64_t        stride = p->m->n_groups * 2;
        const int64_t  o = min_of(v * LANES, p->n_out - 1);
        const uint8_t *s = (const void *)(p->m->scale + (p->out + o) * p->m->n_groups + g);
        ints           words[4];
        s = rows_of(s, p->n_out - o, &stride, LANES, n, AHEAD * 2, copy);
        columns(s, stride, words);
#pragma GCC unroll 8
        for (int j = 0; j < AHEAD; j++) put(scale[j] + v * LANES, halves(words[j / 2], j % 2));
    }
}

/* ---- one row ---- */

/* A row's line of memory is two groups, and is taken whole: rows may lie so far apart that few of
 * their lines can be in the first cache at once. */
static void fetch_pair(panel *p, int64_t g, ints words[PAIR * WORDS][PARTS])
{
    const int n = (int)min_of(PAIR, p->m->n_groups - g) * WORDS;
    ints      three = p->three;
    for (int v = 0; v < PARTS; v++) {
        uint8_t        copy[LANES * PAIR * GROUP_BYTES];
        int64_t        stride;
        const uint8_t *code = codes_from(p, v, g, PAIR * GROUP_BYTES, &stride, copy);
        ints           lines[LANES];
        for (int i = 0; i < LANES; i++) lines[i] = _mm512_loadu_si512(code + i * stride);
        turn(lines);
        for (int i = 0; i < n; i++) {
            words[i][v] = lines[i];
            three = note_three(three, lines[i]);
        }
    }
    p->three = three;
}

/* Adds a level of group g to all outputs. Sums of integers are those of tiles, in another order. */
static void add_level(panel *p, ints words[][PARTS], const int8_t *digits, const level *l,
                      const float *scale)
{
    ints sum[PARTS][DIGITS];
#pragma GCC unroll 4
    for (int v = 0; v < PARTS; v++)
#pragma GCC unroll 4
        for (int d = 0; d < DIGITS; d++) sum[v][d] = _mm512_setzero_si512();
    for (int j = 0; j < WORDS; j++) {
        look_ahead(p, OUTS * 4 / 64);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++, digits += 4) {
            ints code[PARTS];
#pragma GCC unroll 4
            for (int v = 0; v < PARTS; v++) code[v] = codes_at(words[j][v], k);
#pragma GCC unroll 4
            for (int d = 0; d < DIGITS; d++) {
                int four;
                memcpy(&four, digits + d * GROUP, sizeof four);
#pragma GCC unroll 4
                for (int v = 0; v < PARTS; v++)
                    sum[v][d] = _mm512_dpbusd_epi32(sum[v][d], code[v], _mm512_set1_epi32(four));
            }
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < PARTS; v++) {
        float *const y = p->y[0] + v * LANES;
        put(y, madd(get(scale + v * LANES), number_of(sum[v], l), get(y)));
    }
}

static void multiply_row(panel *p)
{
    ints words[PAIR * WORDS][PARTS];
    for (int64_t g = 0; g < p->m->n_groups; g++) {
        char *const table = table_of(p->tables, g, 1);
        if (g % AHEAD == 0) fetch_scales(p, g, p->scale[0]);
        if (g % PAIR == 0) fetch_pair(p, g, words);
        for (int which = 0; which < LEVELS; which++)
            if (*used_of(table, which, 0, 1))
                add_level(p, words + g % PAIR * WORDS, digits_of(table, which, 0, 1),
                          level_of(table, which, 0, 1), p->scale[0][g % AHEAD]);
    }
}

/* ---- a block of outputs ---- */

static void multiply_tiles(panel *p)
{
    take_tiles(DIGITS * (int)min_of(p->n_rows, TILE_ROWS));
    for (int part = 0; part < PARTS; part++) expand(p, 0, part);
    for (int64_t g = 0; g < p->m->n_groups; g++) {
        float(*scale)[OUTS] = p->scale[g / AHEAD % 2];
        if (g % AHEAD == 0) fetch_scales(p, g, scale);
        multiply_rows(p, g, scale[g % AHEAD]);
    }
    _tile_stored(3, p->sums[3], 64);
    leave_tiles();
    for (int t = 0; t < PARTS; t++) add_late(p, t);
}

/* Sums of the panel to y; false where one is not finite. */
INLINE bool put_sums(const panel *p, float *y, int64_t y_stride)
{
    __mmask16 odd = 0;
    for (int r = 0; r < p->n_rows; r++)
        for (int i = 0; i < OUTS; i += LANES) {
            const vec v = get(p->y[r] + i);
            odd |= _mm512_cmp_ps_mask(sub(v, v), splat(0), _CMP_NEQ_UQ);
            put(y + r * y_stride + i, v);
        }
    return !odd;
}

static bool multiply(const ts_ternary_matrix *m, int64_t out, int n_rows, const float *tables,
                     float *y, int64_t y_stride)
{
    panel         p;
    const int64_t n = min_of(OUTS, m->n_out - out), bytes = m->n_groups * GROUP_BYTES;
    p.m = m, p.out = out, p.n_out = m->n_out - out, p.n_rows = n_rows, p.tables = tables;
    p.next = m->code + (out + n) * bytes, p.end = p.next + min_of(OUTS, p.n_out - n) * bytes;
    p.three = _mm512_setzero_si512(), p.late = (job) { .scale = p.scale[0][0] };

    memset(p.y, 0, (size_t)n_rows * sizeof *p.y);
    if (n_rows == 1) multiply_row(&p);
    else multiply_tiles(&p);
    return put_sums(&p, y, y_stride) &&
           !_mm512_test_epi32_mask(p.three, _mm512_set1_epi32(0x55555555));
}

/* ---- entry points ---- */

static ts_ternary_steps steps_of(void)
{
    ts_ternary_steps s = *ts_ternary_steps_avx512;
    s.table = SLOT / (int64_t)sizeof(float);
    s.rows = ROWS;
    s.suits = suits;
    s.others = ts_ternary_steps_avx512;
    s.tabulate = tabulate;
    s.multiply = multiply;
    return s;
}

ts_status ts_ternary_linear_amx(const void *args, const ts_exec *x)
{
    const ts_ternary_steps s = steps_of();
    return ts_ternary_threads_linear(args, x, &s);
}

ts_status ts_ternary_linear_workspace_amx(const void *args, const ts_exec *x, size_t *n_bytes)
{
    const ts_ternary_steps s = steps_of();
    (void)x;
    return ts_ternary_threads_linear_workspace(args, &s, n_bytes);
}

ts_status ts_ternary_linear_packed_amx(const void *args, const ts_exec *x)
{
    const ts_ternary_steps s = steps_of();
    return ts_ternary_threads_packed(args, x, &s);
}

ts_status ts_ternary_linear_packed_workspace_amx(const void *args, const ts_exec *x,
                                                 size_t *n_bytes)
{
    const ts_ternary_steps s = steps_of();
    (void)x;
    return ts_ternary_threads_packed_workspace(args, &s, n_bytes);
}
