/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_check.c - what the contract demands of a call; and of what is packed. */
#include "ternary_impl.h"

/* Do a * b elements fit in 63 bits of bytes, either way padded to whole groups and with room for
 * what is made of them? */
static bool fits(int64_t a, int64_t b)
{
    const int64_t room = INT64_MAX / 1024, group = TS_TERNARY_GROUP;
    return a < room && b < room && a + group <= room / (b + group);
}

static ts_status check_matrix(const ts_ternary_linear_dims *d)
{
    if (d->n_out < 0 || d->n_in < 0) return TS_E_SHAPE;
    return fits(d->n_out, d->n_in) ? TS_OK : TS_E_SHAPE;
}

static ts_status check_dims(const ts_ternary_linear_dims *d)
{
    const ts_status s = check_matrix(d);
    if (s) return s;
    if (d->n_rows < 0) return TS_E_SHAPE;
    return fits(d->n_rows, d->n_in) && fits(d->n_rows, d->n_out) ? TS_OK : TS_E_SHAPE;
}

static bool has_weights(const ts_ternary_linear_dims *d)
{
    return d->n_out > 0 && d->n_in > 0;
}

/* Are the two operands of a product there, with as many rows and this many columns each? */
static bool has_rows(const ts_ternary_linear_dims *d, int64_t n)
{
    return d->n_rows > 0 && n > 0;
}

ts_status ts_ternary_pack_check(const ts_ternary_pack_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    const ts_status s = check_matrix(&a->d);
    if (s) return s;
    return has_weights(&a->d) && (!a->w || !a->code || !a->scale) ? TS_E_ARG : TS_OK;
}

ts_status ts_ternary_unpack_check(const ts_ternary_unpack_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    const ts_status s = check_matrix(&a->d);
    if (s) return s;
    return has_weights(&a->d) && (!a->wt || !a->code || !a->scale) ? TS_E_ARG : TS_OK;
}

ts_status ts_ternary_linear_check(const ts_ternary_linear_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    const ts_status s = check_dims(&a->d);
    if (s) return s;
    if (has_weights(&a->d) && !a->w) return TS_E_ARG;
    if (has_rows(&a->d, a->d.n_in) && !a->in) return TS_E_ARG;
    return has_rows(&a->d, a->d.n_out) && !a->y ? TS_E_ARG : TS_OK;
}

ts_status ts_ternary_linear_packed_check(const ts_ternary_linear_packed_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    const ts_status s = check_dims(&a->d);
    if (s) return s;
    if (has_weights(&a->d) && (!a->code || !a->scale)) return TS_E_ARG;
    if (has_rows(&a->d, a->d.n_in) && !a->in) return TS_E_ARG;
    return has_rows(&a->d, a->d.n_out) && !a->y ? TS_E_ARG : TS_OK;
}

ts_status ts_ternary_linear_backward_check(const ts_ternary_linear_backward_args *a,
                                           const ts_exec                         *x)
{
    if (!a || !x) return TS_E_ARG;
    const ts_status s = check_dims(&a->d);
    if (s) return s;
    if (has_weights(&a->d) && (!a->w || !a->dw)) return TS_E_ARG;
    if (has_rows(&a->d, a->d.n_in) && (!a->in || !a->dx)) return TS_E_ARG;
    return has_rows(&a->d, a->d.n_out) && !a->dy ? TS_E_ARG : TS_OK;
}

/* A code point of 3 has both of its bits; those of 0x55.. are the lower ones. */
bool ts_ternary_sound(const ts_ternary_matrix *m)
{
    const int64_t n_scales = m->n_out * m->n_groups, n_words = n_scales * 4;
    uint64_t      three = 0;
    for (int64_t i = 0; i < n_words; i++) {
        uint64_t w;
        memcpy(&w, m->code + i * 8, sizeof w);
        three |= w & w >> 1;
    }
    bool sound = !(three & UINT64_C(0x5555555555555555));
    for (int64_t i = 0; i < n_scales; i++) sound &= (m->scale[i] & 0x7c00u) != 0x7c00u;
    return sound;
}
