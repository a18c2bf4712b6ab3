/* SPDX-License-Identifier: Apache-2.0 */
/* play_ternary_linear.c - the Python interface of ternary_linear: an object with five methods. */
#include "ask.h"
#include "ternary_linear_script.h"

static bool made;

static const ts_refusals refusals = { TS_E_FORMAT, TS_OK, TS_OK, TS_E_RANGE };

static void begin(const void *a)
{
    (void)a;
    made = false;
}

/* Creates the object on first use. */
static void begin_method(const char *name)
{
    if (!made) {
        ts_ask_begin("", 0, (ts_refusals) { 0 });
        ts_ask();
        made = true;
    }
    ts_ask_begin(name, 0, refusals);
}

static ts_value matrix(ts_dtype t, const void *p, int64_t n_rows, int64_t n_cols)
{
    return ts_array(ts_letter(t), p, 2, n_rows, n_cols, 0);
}

static int64_t groups(const ts_ternary_linear_dims *d)
{
    return (d->n_in + TS_TERNARY_GROUP - 1) / TS_TERNARY_GROUP;
}

static ts_value codes(const ts_ternary_linear_dims *d, const uint8_t *p)
{
    return matrix(TS_U8, p, d->n_out, groups(d) * TS_TERNARY_GROUP_BYTES);
}

static ts_value scales(const ts_ternary_linear_dims *d, const uint16_t *p)
{
    return matrix(TS_F16, p, d->n_out, groups(d));
}

static ts_status pack(const ts_ternary_pack_args *a, const ts_exec *x)
{
    (void)x;
    begin_method("pack");
    ts_give_array("", TS_VIEW, matrix(TS_F32, a->w, a->d.n_out, a->d.n_in));
    ts_back_array(codes(&a->d, a->code));
    ts_back_array(scales(&a->d, a->scale));
    return ts_ask();
}

static ts_status unpack(const ts_ternary_unpack_args *a, const ts_exec *x)
{
    (void)x;
    begin_method("unpack");
    ts_give_array("", TS_VIEW, codes(&a->d, a->code));
    ts_give_array("", TS_VIEW, scales(&a->d, a->scale));
    ts_give_integer("", a->d.n_in);
    ts_back_array(matrix(TS_F32, a->wt, a->d.n_out, a->d.n_in));
    return ts_ask();
}

static ts_status linear(const ts_ternary_linear_args *a, const ts_exec *x)
{
    (void)x;
    begin_method("linear");
    ts_give_array("", TS_VIEW, matrix(TS_F32, a->w, a->d.n_out, a->d.n_in));
    ts_give_array("", TS_VIEW, matrix(a->d.dtype, a->in, a->d.n_rows, a->d.n_in));
    ts_back_array(matrix(a->d.dtype, a->y, a->d.n_rows, a->d.n_out));
    return ts_ask();
}

static ts_status linear_packed(const ts_ternary_linear_packed_args *a, const ts_exec *x)
{
    (void)x;
    begin_method("linear_packed");
    ts_give_array("", TS_VIEW, codes(&a->d, a->code));
    ts_give_array("", TS_VIEW, scales(&a->d, a->scale));
    ts_give_array("", TS_VIEW, matrix(a->d.dtype, a->in, a->d.n_rows, a->d.n_in));
    ts_back_array(matrix(a->d.dtype, a->y, a->d.n_rows, a->d.n_out));
    return ts_ask();
}

static ts_status backward(const ts_ternary_linear_backward_args *a, const ts_exec *x)
{
    (void)x;
    begin_method("backward");
    ts_give_array("", TS_VIEW, matrix(TS_F32, a->w, a->d.n_out, a->d.n_in));
    ts_give_array("", TS_VIEW, matrix(a->d.dtype, a->in, a->d.n_rows, a->d.n_in));
    ts_give_array("", TS_VIEW, matrix(a->d.dtype, a->dy, a->d.n_rows, a->d.n_out));
    ts_back_array(matrix(a->d.dtype, a->dx, a->d.n_rows, a->d.n_in));
    ts_back_array(matrix(TS_F32, a->dw, a->d.n_out, a->d.n_in));
    return ts_ask();
}

static const ts_ternary_table table = { pack, unpack, linear, linear_packed, backward,
                                        NULL, NULL,   NULL,   NULL,          NULL };
const ts_python               ts_python_ternary_linear = { &table, begin };
