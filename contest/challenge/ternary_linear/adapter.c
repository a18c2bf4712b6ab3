/* SPDX-License-Identifier: Apache-2.0 */
/* adapter-example.c - how layers with other names enter. Unused until entry.json names it:
 *
 *     "sources": ["theirs.c"], "adapter": "adapter.c"
 *
 * It is a source like any other, which defines the five functions of the contract. Say that
 * theirs.c multiplies floats by codes in the same order of bits, and has
 *
 *     void bitlinear(const unsigned char *codes, const float *scales, const float *x, float *y,
 *                    int n_out, int n_in);
 *
 * with whole groups only, and scales in float. Then one of the functions could be this. */
#if 0
#include "touchstone/ternary.h"

void  bitlinear(const unsigned char *codes, const float *scales, const float *x, float *y, int n_out,
                int n_in);
float half_to_float(uint16_t h);

ts_status ts_ternary_linear_packed_workspace(const ts_ternary_linear_packed_args *a,
                                             const ts_exec *x, size_t *n_bytes)
{
    (void)x;
    *n_bytes = (size_t)(a->d.n_out * (a->d.n_in / TS_TERNARY_GROUP)) * sizeof(float);
    return TS_OK;
}

ts_status ts_ternary_linear_packed(const ts_ternary_linear_packed_args *a, const ts_exec *x)
{
    const ts_ternary_linear_dims *d = &a->d;
    float                        *scales = x->workspace;
    /* Unsupported calls are reported; "offers" in entry.json leaves their cases out. */
    if (d->dtype != TS_F32 || d->n_in % TS_TERNARY_GROUP) return TS_E_UNSUPPORTED;
    for (int64_t i = 0; i < d->n_out * (d->n_in / TS_TERNARY_GROUP); i++)
        scales[i] = half_to_float(a->scale[i]);
    for (int64_t r = 0; r < d->n_rows; r++)
        bitlinear(a->code, scales, (const float *)a->in + r * d->n_in,
                  (float *)a->y + r * d->n_out, (int)d->n_out, (int)d->n_in);
    return TS_OK;
}
#endif
