/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_simd.h - packing, unpacking and the forward product, written once for any width of
 * vector. Private to the files that include it, each of which has first its base/vec_*.h and, for
 * its own instruction set:
 *
 *     GROUP, GROUP_BYTES   of the contract, in short
 *     ints                 a vec's worth of 32-bit integers
 *     VECS, VECS_MORE      vecs of outputs that are taken together, of one row of `in` and of more
 *     TABLE                floats that an input is turned into
 *     magnitude            |v|
 *     doubles, no_doubles  several sums of doubles, and none yet
 *     add_doubles          the 16 floats at p, as magnitudes, to those
 *     total_doubles        all in one
 *     codes_of             16 latents as 16 bytes that are code points, by 2 |w| > s
 *     spread               codes i, i + 1 ... of a word in the lanes of a vec: -s, 0, s or NaN
 *     columns              16 bytes of each of LANES rows; word j of every row in out[j]
 *     halves               f16s in the lower halves of words, or in the upper ones, as floats
 *     tables               GROUP inputs as tables
 *     PER                  inputs that share an entry of those, of PER * TABLE floats
 *     chosen, choose       what codes i, i + 1 ... of a word choose of an entry
 *     entry                as a vec, from the table
 *     add_chosen           adds what was chosen to a sum
 *
 * The product has outputs in lanes: a word of a row is 16 codes, and `columns` puts those of as
 * many rows side by side as a vec has lanes. No sum then crosses lanes, and a group's sums meet
 * their scales in one operation. Code point 3 stands for NaN wherever it is looked up. So codes are
 * examined only where a result is not finite, and otherwise cost nothing to check. */
#ifndef TS_TERNARY_SIMD_H
#define TS_TERNARY_SIMD_H

enum { AHEAD = 8 }; /* groups whose scales are fetched together: 16 bytes of them */

/* GCC would else look everything up first, into memory, and then add it. */
INLINE void hold(vec *sum)
{
    __asm__ volatile("" : "+v"(*sum));
}

INLINE int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

INLINE int64_t bytes_of(ts_dtype t, int64_t n)
{
    return t == TS_F32 ? 4 * n : 2 * n;
}

/* n elements from `at` on, times `scale`, as floats, and zeros up to a multiple of LANES. */
INLINE void floats_of(const void *from, ts_dtype t, int64_t at, int64_t n, float scale, float *out)
{
    const char *p = (const char *)from + bytes_of(t, at);
    int64_t     c = 0;
    for (; c + LANES <= n; c += LANES)
        put(out + c, mul(widen(p + bytes_of(t, c), t), splat(scale)));
    if (c < n) {
        char last[LANES * sizeof(float)] = { 0 };
        memcpy(last, p + bytes_of(t, c), (size_t)bytes_of(t, n - c));
        put(out + c, mul(widen(last, t), splat(scale)));
    }
}

static void store(const float *from, int64_t n, float scale, void *to, ts_dtype t, int64_t at)
{
    char   *p = (char *)to + bytes_of(t, at);
    int64_t c = 0;
    for (; c + LANES <= n; c += LANES)
        narrow(p + bytes_of(t, c), t, mul(get(from + c), splat(scale)));
    for (; c < n; c++) {
        char last[LANES * sizeof(float)];
        narrow(last, t, splat(from[c] * scale));
        memcpy(p + bytes_of(t, c), last, (size_t)bytes_of(t, 1));
    }
}

static float largest(const void *in, ts_dtype t, int64_t at, int64_t n)
{
    vec   max = splat(0);
    float some[GROUP], most = 0;
    for (int64_t c = 0; c < n; c += GROUP) {
        const int64_t m = min_of(GROUP, n - c);
        floats_of(in, t, at + c, m, 1, some);
        for (int64_t i = 0; i < m; i += LANES) max = larger(magnitude(get(some + i)), max);
    }
    put(some, max);
    for (int i = 0; i < LANES; i++) most = some[i] > most ? some[i] : most;
    return most;
}

/* ---- pack and unpack ---- */

/* The scale of GROUP floats of which n count and the others are 0. Sums of doubles in two orders
 * differ by far less than a float's spacing. So where the mean as a float lies no nearer than that
 * to a tie between two f16s, rounding is the same for every order; elsewhere the sum is made again
 * in the order of the definition. */
INLINE uint16_t scale_of(const float *w, int64_t n)
{
    doubles sum = no_doubles();
    for (int i = 0; i < GROUP; i += 16) sum = add_doubles(sum, w + i);
    const float mean = (float)(total_doubles(sum) / (double)n);
    uint32_t    bits;
    memcpy(&bits, &mean, sizeof bits);
    const uint32_t past = (bits & 0x1fffu) - 0xfffu; /* a tie is at 1 */
    if (!(mean >= 0x1p-14f && mean < 65504) || past <= 2) return ts_ternary_scale(w, n);
    return _cvtss_sh(mean, 0);
}

/* 16 code points to 4 bytes. */
INLINE void squeeze(__m128i codes, uint8_t *out)
{
    const __m128i pairs = _mm_maddubs_epi16(codes, _mm_set1_epi16(0x0401));
    const __m128i fours = _mm_madd_epi16(pairs, _mm_set1_epi32(0x00100001));
    const __m128i first =
        _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const int word = _mm_cvtsi128_si32(_mm_shuffle_epi8(fours, first));
    memcpy(out, &word, sizeof word);
}

static bool pack(const float *w, int64_t n_in, uint8_t *code, uint16_t *scale)
{
    float last[GROUP];
    for (int64_t g = 0; g * GROUP < n_in; g++, code += GROUP_BYTES) {
        const int64_t n = ts_ternary_width(n_in, g);
        const float  *p = w + g * GROUP;
        if (n < GROUP) {
            memset(last, 0, sizeof last);
            p = memcpy(last, p, (size_t)n * sizeof *p);
        }
        for (uintptr_t i = 0; i < GROUP * sizeof(float); i += 64) /* the next row's, too */
            _mm_prefetch((const char *)((uintptr_t)p + 8 * sizeof last + i), _MM_HINT_T1);
        scale[g] = scale_of(p, n);
        if (scale[g] == 0x7c00u) return false;
        /* With s = 0 every code is 0: any threshold that no weight passes. */
        const float s = scale[g] ? _cvtsh_ss(scale[g]) : INFINITY;
        for (int i = 0; i < GROUP; i += 16) squeeze(codes_of(p + i, s), code + i / 4);
    }
    return true;
}

/* Group g of an output: GROUP floats, whether or not so many count. */
INLINE void weights(const ts_ternary_matrix *m, int64_t out, int64_t g, float *wt)
{
    const int64_t  at = out * m->n_groups + g;
    const uint8_t *code = m->code + at * GROUP_BYTES;
    const float    s = _cvtsh_ss(m->scale[at]);
    for (int i = 0; i < GROUP; i += 16) {
        int word;
        memcpy(&word, code + i / 4, sizeof word);
        for (int j = 0; j < 16; j += LANES) put(wt + i + j, spread(word, j, s));
    }
}

static void unpack(const ts_ternary_matrix *m, int64_t out, float *wt)
{
    float last[GROUP];
    for (int64_t g = 0; g < m->n_groups; g++) {
        const int64_t n = ts_ternary_width(m->n_in, g);
        weights(m, out, g, n < GROUP ? last : wt + g * GROUP);
        if (n < GROUP) memcpy(wt + g * GROUP, last, (size_t)n * sizeof *wt);
    }
}

/* ---- the forward product ---- */

static void tabulate(const void *in, ts_dtype t, int64_t at, int64_t n_in, int64_t g, float shrink,
                     float *table)
{
    float some[GROUP] = { 0 };
    floats_of(in, t, at + g * GROUP, ts_ternary_width(n_in, g), shrink, some);
    tables(some, table + g * GROUP * TABLE);
}

/* What is multiplied: some rows of `in` with outputs whose codes and scales begin here. */
typedef struct work {
    const uint8_t *code, *scale;
    const uint8_t *next, *end; /* what will be wanted of the codes */
    int64_t        n_groups, n_out;
    const float   *table;
    int64_t        table_stride;
    float         *y;
    int64_t        y_stride;
} work;

/* Where n bytes of each of `many` outputs, `stride` apart, lie: in place or, where there are fewer
 * outputs than that, in a copy, whose rows are `width` bytes, with the last output again and again.
 */
INLINE const uint8_t *rows_of(const work *w, const uint8_t *p, int64_t *stride, int many, int n,
                              int width, uint8_t *copy)
{
    if (w->n_out >= many && n == width) return p;
    for (int i = 0; i < many; i++)
        memcpy(copy + i * width, p + min_of(i, w->n_out - 1) * *stride, (size_t)n);
    *stride = width;
    return copy;
}

/* Scales of groups [g, g + AHEAD), [group][output]; those past the end are whatever was there. */
INLINE void fetch_scales(const work *w, int64_t g, int vecs, float *out)
{
    uint8_t        copy[VECS * LANES * AHEAD * 2] = { 0 };
    int64_t        stride = w->n_groups * 2;
    const int      n = (int)min_of(AHEAD, w->n_groups - g) * 2;
    const uint8_t *p = rows_of(w, w->scale + g * 2, &stride, vecs * LANES, n, AHEAD * 2, copy);
    for (int v = 0; v < vecs; v++) {
        ints words[4];
        columns(p + v * LANES * stride, stride, words);
#pragma GCC unroll 8
        for (int j = 0; j < AHEAD; j++)
            put(out + (j * vecs + v) * LANES, halves(words[j / 2], j % 2));
    }
}

/* The codes of the outputs after these, a few lines at a time while these are multiplied: the
 * processor itself does not foresee a walk along many rows at once. */
INLINE void look_ahead(work *w, int64_t n_bytes)
{
    for (int64_t i = 0; i < n_bytes && w->next < w->end; i += 64, w->next += 64)
        _mm_prefetch((const char *)w->next, _MM_HINT_T1);
}

/* Adds the inputs of a word, which are 16, to sums. */
INLINE void add_word(vec sum[][VECS], const ints *word, const float *table, int64_t stride,
                     int rows, int vecs)
{
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += PER) {
        chosen c[VECS];
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) c[v] = choose(word[v], i);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const vec e = entry(table + r * stride + i * TABLE);
#pragma GCC unroll 4
            for (int v = 0; v < vecs; v++) {
                sum[r][v] = add_chosen(sum[r][v], c[v], e);
                hold(&sum[r][v]);
            }
        }
    }
}

/* A row's line of memory is two groups. It is taken whole: rows may lie so far apart that few of
 * their lines can be in the first cache at once. */
enum { WORDS = GROUP_BYTES / 4, PAIR = 2 };

INLINE void fetch_codes(work *w, int64_t g, int vecs, ints words[][VECS])
{
    enum { LINE = PAIR * GROUP_BYTES };
    uint8_t        copy[VECS * LANES * LINE];
    int64_t        stride = w->n_groups * GROUP_BYTES;
    const int      n = (int)min_of(PAIR, w->n_groups - g) * GROUP_BYTES;
    const uint8_t *p = w->code + g * GROUP_BYTES;
    p = rows_of(w, p, &stride, vecs * LANES, n, LINE, copy);
    for (int v = 0; v < vecs; v++)
        for (int q = 0; q < n / 4; q += 4) {
            ints four[4];
            columns(p + v * LANES * stride + q * 4, stride, four);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) words[q + j][v] = four[j];
        }
}

INLINE void add_group(work *w, int64_t g, ints words[][VECS], const float *scale, int rows,
                      int vecs)
{
    vec sum[TS_TERNARY_ROWS][VECS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) sum[r][v] = splat(0);
    for (int j = 0; j < WORDS; j++) {
        look_ahead(w, vecs * LANES * 4);
        add_word(sum, words[j], w->table + (g * GROUP + j * 16) * TABLE, w->table_stride, rows,
                 vecs);
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) {
            float *const y = w->y + r * w->y_stride + v * LANES;
            put(y, madd(get(scale + v * LANES), sum[r][v], get(y)));
        }
}

INLINE void add_groups(work *w, int rows, int vecs)
{
    float scale[AHEAD * VECS * LANES];
    ints  words[PAIR * WORDS][VECS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vecs; v++) put(w->y + r * w->y_stride + v * LANES, splat(0));
    for (int64_t g = 0; g < w->n_groups; g += PAIR) {
        const int n = (int)min_of(PAIR, w->n_groups - g);
        if (g % AHEAD == 0) fetch_scales(w, g, vecs, scale);
        fetch_codes(w, g, vecs, words);
        for (int i = 0; i < n; i++)
            add_group(w, g + i, words + i * WORDS, scale + (g % AHEAD + i) * vecs * LANES, rows,
                      vecs);
    }
}

static void add_1(work *w)
{
    add_groups(w, 1, VECS);
}

static void add_2(work *w)
{
    add_groups(w, 2, VECS_MORE);
}

static void add_3(work *w)
{
    add_groups(w, 3, VECS_MORE);
}

static void add_4(work *w)
{
    add_groups(w, 4, VECS_MORE);
}

static bool multiply(const ts_ternary_matrix *m, int64_t out, int n_rows, const float *table,
                     int64_t table_stride, float *y, int64_t y_stride)
{
    static void (*const ways[])(work *) = { add_1, add_2, add_3, add_4 };
    const int     vecs = n_rows == 1 ? VECS : VECS_MORE;
    const int64_t each = m->n_groups * GROUP_BYTES, n = min_of(TS_TERNARY_BLOCK, m->n_out - out);
    const int64_t next = (out + n) * each, ahead = min_of(m->n_out * each - next, n * each);
    bool          finite = true;
    work          w = { .n_groups = m->n_groups, .table = table, .table_stride = table_stride };
    w.next = m->code + next, w.end = w.next + ahead, w.y_stride = y_stride;
    for (int64_t i = 0; i < n; i += vecs * LANES) {
        w.code = m->code + (out + i) * each, w.n_out = m->n_out - out - i, w.y = y + i;
        w.scale = (const uint8_t *)(m->scale + (out + i) * m->n_groups);
        ways[n_rows - 1](&w);
    }
    for (int r = 0; r < n_rows; r++)
        for (int64_t i = 0; i < n; i++) finite &= y[r * y_stride + i] - y[r * y_stride + i] == 0;
    return finite;
}

#endif
