/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk.c - an entrant of class sealed: one pass over each row, in C that compilers
 * vectorise.
 *
 * A block of logits is converted to float, its largest one is found, and its exponentials are added
 * relative to the largest of the row so far; a larger one rescales the sum. Only a block that has a
 * logit above the k-th best enters the selection, a heap that is kept in the output arrays. */
#include "touchstone/softmax_topk.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "touchstone/sealed.h"

enum { BLOCK = 256 };

static void convert(const ts_softmax_topk_args *a, int64_t at, int n, float *restrict v)
{
    const uint16_t *h = (const uint16_t *)a->logits + at;
    if (a->dtype == TS_F32) memcpy(v, (const float *)a->logits + at, (size_t)n * 4);
    for (int i = 0; i < n && a->dtype == TS_BF16; i++) {
        const uint32_t b = (uint32_t)h[i] << 16;
        memcpy(v + i, &b, 4);
    }
    for (int i = 0; i < n && a->dtype == TS_F16; i++) { /* the exponent is rebiased by a product */
        uint32_t b = (uint32_t)(h[i] & 0x7fff) << 13;
        float    f;
        memcpy(&f, &b, 4);
        f = (h[i] & 0x7c00) == 0x7c00 ? (h[i] & 0x3ff ? NAN : INFINITY) : f * 0x1p112f;
        v[i] = h[i] & 0x8000 ? -f : f;
    }
}

/* exp(d) for d <= 0: 2^n exp(r) with |r| <= ln 2 / 2. Below -87 it stays 1.6e-38, which is nothing
 * next to the 1 that the largest logit adds. */
static inline float exp_of(float d)
{
    union {
        float    f;
        uint32_t u;
    } n, scale;
    const float s = d < -87 ? -87 : d;
    n.f = fmaf(s, 1.44269504f, 0x1.8p23f); /* the shift leaves n in the low bits */
    const float whole = n.f - 0x1.8p23f;
    const float r = fmaf(whole, -1.42860677e-6f, fmaf(whole, -0.693145752f, s));
    float       p = fmaf(fmaf(1.39887e-3f, r, 8.3334e-3f), r, 4.16665e-2f);
    p = fmaf(fmaf(fmaf(fmaf(p, r, 0.16666666f), r, 0.5f), r, 1), r, 1);
    scale.u = (n.u + 127) << 23;
    return p * scale.f;
}

/* Both fold a block in halves, which compilers vectorise; a running sum they must not reorder. */
static float exp_sum(const float *restrict v, float largest, float t)
{
    float e[BLOCK];
    for (int i = 0; i < BLOCK; i++) e[i] = exp_of((v[i] - largest) * t);
    for (int half = BLOCK / 2; half; half /= 2)
        for (int i = 0; i < half; i++) e[i] += e[i + half];
    return e[0];
}

static float largest_of(const float *restrict v)
{
    float m[BLOCK / 2];
    for (int i = 0; i < BLOCK / 2; i++) m[i] = v[i] > v[i + BLOCK / 2] ? v[i] : v[i + BLOCK / 2];
    for (int half = BLOCK / 4; half; half /= 2)
        for (int i = 0; i < half; i++) m[i] = m[i] > m[i + half] ? m[i] : m[i + half];
    return m[0];
}

/* Puts (v, i) into the heap's place j of n, and what is worse than it above: the worst is the root.
 */
static void sift(float *value, int32_t *index, int64_t n, int64_t j, float v, int32_t i)
{
    for (int64_t c; (c = 2 * j + 1) < n; j = c) {
        if (c + 1 < n &&
            (value[c + 1] < value[c] || (value[c + 1] == value[c] && index[c + 1] > index[c])))
            c++;
        if (value[c] > v || (value[c] == v && index[c] < i)) break;
        value[j] = value[c], index[j] = index[c];
    }
    value[j] = v, index[j] = i;
}

static void one_row(int64_t r, void *context)
{
    const ts_softmax_topk_args *a = context;
    const int64_t               k = a->k < a->n_vocab ? a->k : a->n_vocab;
    int32_t                    *index = a->k ? a->index + r * a->k : NULL;
    float                      *value = a->k ? a->prob + r * a->k : NULL;
    double                      sum = 0;
    float                       largest = -INFINITY, v[BLOCK];
    int                         invalid = 0; /* a NaN or +inf */
    for (int64_t at = 0; at < a->n_vocab && !invalid; at += BLOCK) {
        const int n = a->n_vocab - at < BLOCK ? (int)(a->n_vocab - at) : BLOCK;
        convert(a, r * a->row_stride + at, n, v);
        for (int i = n; i < BLOCK; i++) v[i] = -INFINITY;
        for (int i = 0; i < BLOCK; i++) invalid |= !(v[i] < INFINITY);
        const float best = largest_of(v);
        if (best > largest) {
            if (sum > 0) sum *= exp(((double)largest - best) * a->inv_temperature);
            largest = best;
        }
        if (best > -INFINITY) sum += exp_sum(v, largest, (float)a->inv_temperature);
        if (k && (at < k || best > value[0])) /* some logit may be among the k best */
            for (int i = 0; i < n; i++) {
                if (at + i < k) {
                    value[at + i] = v[i], index[at + i] = (int32_t)(at + i);
                    if (at + i == k - 1)
                        for (int64_t j = k; j-- > 0;) sift(value, index, k, j, value[j], index[j]);
                } else if (v[i] > value[0]) sift(value, index, k, 0, v[i], (int32_t)(at + i));
            }
    }
    for (int64_t n = k; --n > 0 && !invalid;) { /* the worst goes to the end, again and again */
        const float   v_last = value[n], v_worst = value[0];
        const int32_t i_last = index[n], i_worst = index[0];
        sift(value, index, n, 0, v_last, i_last);
        value[n] = v_worst, index[n] = i_worst;
    }
    for (int64_t j = 0; j < a->k; j++) {
        const int there = j < k && !invalid;
        value[j] = invalid ? NAN
                   : there && sum > 0
                       ? (float)(exp(((double)value[j] - largest) * a->inv_temperature) / sum)
                       : 0;
        if (!there) index[j] = -1;
    }
    if (a->lse)
        a->lse[r] = invalid   ? NAN
                    : sum > 0 ? (float)(largest * a->inv_temperature + log(sum))
                              : -INFINITY;
}

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    if (!a || !x || !(a->inv_temperature >= FLT_MIN && a->inv_temperature <= FLT_MAX))
        return TS_E_ARG;
    const int64_t rows = a->n_rows > 0 ? a->n_rows : 1;
    if (a->n_rows < 0 || a->n_vocab < 0 || a->n_vocab > INT32_MAX || a->row_stride < a->n_vocab ||
        a->k < 0 || a->k > INT32_MAX || a->row_stride > INT64_MAX / 8 / rows ||
        a->k > INT64_MAX / 8 / rows)
        return TS_E_SHAPE;
    if (a->n_rows && ((a->n_vocab && !a->logits) || (a->k && (!a->index || !a->prob))))
        return TS_E_ARG;
    if (a->dtype != TS_F32 && a->dtype != TS_BF16 && a->dtype != TS_F16) return TS_E_DTYPE;
    j_parallel_for(a->n_rows, one_row, (void *)a);
    return TS_OK;
}
