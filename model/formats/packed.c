/* SPDX-License-Identifier: Apache-2.0 */
/* packed.c - matrices that stay as a file has them, two bits a weight, and are multiplied so by
 * kernel/ternary. */
#include "model_impl.h"
#include "touchstone/ternary.h"

static int64_t groups_of(ts_shape s)
{
    return (s.cols + TS_TERNARY_GROUP - 1) / TS_TERNARY_GROUP;
}

ts_shape ts_packed_codes(ts_shape s)
{
    return (ts_shape) { s.rows, groups_of(s) * TS_TERNARY_GROUP_BYTES };
}

ts_shape ts_packed_scales(ts_shape s)
{
    return (ts_shape) { s.rows, groups_of(s) };
}

bool ts_packed_check(const char *name, ts_shape s, const ts_tensor *t, char why[TS_MODEL_WHY])
{
    const int64_t n_code = ts_shape_count(ts_packed_codes(s));
    const int64_t n_scale = ts_shape_count(ts_packed_scales(s));
    for (int64_t i = 0; i < n_code; i++)
        if (t->data[i] & t->data[i] >> 1 & 0x55)
            return ts_say(why, "tensor %s.code: byte %lld: got code 3, expected 0, 1 or 2", name,
                          (long long)i);
    for (int64_t i = 0; i < n_scale; i++) /* the upper byte has the exponent */
        if ((t->scale[2 * i + 1] & 0x7c) == 0x7c)
            return ts_say(why, "tensor %s.scale: element %lld: expected a finite number", name,
                          (long long)i);
    return true;
}

static ts_ternary_linear_packed_args args_of(const ts_decoder *m, const ts_packed_product *p)
{
    return (ts_ternary_linear_packed_args) {
        .d = { m->dtype, p->shape.rows, p->shape.cols, p->n },
        .code = m->weight[p->at],
        .scale = m->scale[p->at],
        .in = p->x,
        .y = p->room ? p->room : p->y,
    };
}

size_t ts_packed_workspace(const ts_decoder *m, int64_t n)
{
    const ts_exec x = { .device = m->device };
    size_t        most = 0, bytes;
    for (int s = 0; m->packed && s < TS_SLOTS; s++) {
        const int64_t           at = ts_slot_at(&m->dims, 0, (ts_slot)s);
        const ts_packed_product p = { .at = at,
                                      .shape = ts_slot_shape(&m->dims, (ts_slot)s),
                                      .y = m->memory, /* to have something to point at */
                                      .x = m->memory,
                                      .n = n };
        if (!m->scale[at]) continue;
        const ts_ternary_linear_packed_args a = args_of(m, &p);
        if (!ts_ternary_linear_packed_workspace(&a, &x, &bytes) && bytes > most) most = bytes;
    }
    return most;
}

void ts_packed_gather(const ts_decoder *m, void *y, const int32_t *row, int64_t n)
{
    const int64_t at = ts_slot_at(&m->dims, 0, TS_W_EMBED);
    m->ops->gather_packed(m->self, y, m->weight[at], m->scale[at], row, n, m->dims.width);
}

ts_status ts_packed_linear(const ts_decoder *m, const ts_packed_product *p, const ts_exec *x)
{
    const ts_ternary_linear_packed_args a = args_of(m, p);
    const ts_status                     status = ts_ternary_linear_packed(&a, x);
    if (!status && (p->bias || p->room))
        m->ops->sum(m->self, p->y, a.y, p->bias, p->n, p->shape.rows, p->room);
    return status;
}
