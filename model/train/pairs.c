/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c - ternary packing in which two neighbouring groups of a row have one scale, stored twice:
 * the blocks of 256 weights that GGUF's TQ2_0 has, in the format of ternary.h. */
#include <math.h>
#include <string.h>

#include "dtype.h"
#include "touchstone/ternary.h"
#include "train_impl.h"

enum { GROUP = TS_TERNARY_GROUP, PAIR = 2 * GROUP, BYTES = TS_TERNARY_GROUP_BYTES, LANES = 8 };

/* Rounded once. Eight sums, so that additions need not wait for each other. */
static uint16_t scale_of(const float *w, int64_t n)
{
    double   sum[LANES] = { 0 }, all = 0;
    uint16_t half;
    for (int64_t j = 0; j < n; j++) sum[j % LANES] += fabs((double)w[j]);
    for (int i = 0; i < LANES; i++) all += sum[i];
    ts_store(&half, TS_F16, 0, all / (double)n);
    return half;
}

static void codes_of(const float *w, int64_t n, float s, uint8_t *code)
{
    memset(code, 0x55, BYTES);
    for (int64_t j = 0; j < n; j++) {
        const unsigned c = s > 0 && 2 * fabsf(w[j]) > s ? (w[j] > 0 ? 2 : 0) : 1;
        code[j / 4] = (uint8_t)((code[j / 4] & ~(3u << 2 * (j % 4))) | c << 2 * (j % 4));
    }
}

static bool pack_row(const float *w, int64_t n, uint8_t *code, uint16_t *scale)
{
    for (int64_t from = 0; from < n; from += PAIR) {
        const int64_t  both = n - from < PAIR ? n - from : PAIR;
        const uint16_t half = scale_of(w + from, both);
        const float    s = (float)ts_load(&half, TS_F16, 0);
        if (!isfinite(s)) return false;
        for (int64_t at = 0; at < both; at += GROUP) {
            codes_of(w + from + at, both - at < GROUP ? both - at : GROUP, s, code);
            *scale++ = half;
            code += BYTES;
        }
    }
    return true;
}

ts_status ts_pack_pairs(const ts_ternary_pack_args *a, int n_threads)
{
    const int64_t n = a->d.n_in, groups = (n + GROUP - 1) / GROUP;
    bool          ok = true;
#pragma omp parallel for num_threads(ts_threads_for(a->d.n_out *n, n_threads)) reduction(&& : ok)
    for (int64_t o = 0; o < a->d.n_out; o++)
        ok = pack_row(a->w + o * n, n, a->code + o * groups * BYTES, a->scale + o * groups) && ok;
    return ok ? TS_OK : TS_E_RANGE;
}
