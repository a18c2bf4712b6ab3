/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - checks and makes the calls that ffi.h describes. */
#include "ffi.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LEAD = 0, N_LETTERS = 27 }; /* '*', then a to z */

typedef struct call {
    const ts_ffi_function *f;
    const TVMFFIAny       *a;
    const DLTensor        *tensor[TS_FFI_PARAMS];
    int64_t                extent[N_LETTERS]; /* by at_letter; -1: not known yet */
    const DLTensor        *lead;              /* a tensor with leading axes, for '*' */
    int                    n_lead;
    int                    dtype, grad_dtype; /* ts_dtype; -1: not known yet */
    DLDevice               device;
    int64_t                layout;
    _Alignas(16) unsigned char args[512];
} call;

/* ---- words ---- */

int ts_ffi_error(const char *kind, const char *format, ...)
{
    char    text[1024];
    va_list v;
    va_start(v, format);
    vsnprintf(text, sizeof text, format, v);
    va_end(v);
    TVMFFIErrorSetRaisedFromCStr(kind, text);
    return -1;
}

int ts_ffi_status(const char *name, ts_status s, const char *about)
{
    static const char *const kind[] = {
        [TS_E_ARG] = "ValueError",       [TS_E_SHAPE] = "ValueError",
        [TS_E_DTYPE] = "TypeError",      [TS_E_UNSUPPORTED] = "NotImplementedError",
        [TS_E_WORKSPACE] = "ValueError", [TS_E_CAPACITY] = "MemoryError",
        [TS_E_STATE] = "ValueError",     [TS_E_RANGE] = "ValueError",
        [TS_E_FORMAT] = "ValueError",    [TS_E_MODEL] = "RuntimeError",
        [TS_E_DEVICE] = "RuntimeError",
    };
    const char *k = s > TS_OK && s <= TS_E_DEVICE ? kind[s] : "RuntimeError";
    return ts_ffi_error(k, "%s: %s%s%s", name, ts_status_text(s), *about ? "; got " : "", about);
}

static void dtype_text(DLDataType t, char *s, size_t n)
{
    static const char *const code[] = { "int",    "uint",    "float", "handle",
                                        "bfloat", "complex", "bool" };
    if (t.code == kDLBool) snprintf(s, n, "bool");
    else if (t.code < sizeof code / sizeof *code && t.lanes == 1)
        snprintf(s, n, "%s%d", code[t.code], t.bits);
    else snprintf(s, n, "dtype(%d, %d, %d)", t.code, t.bits, t.lanes);
}

static void extents_text(const int64_t *e, int n_axes, char *s, size_t n)
{
    size_t k = (size_t)snprintf(s, n, "[");
    for (int i = 0; i < n_axes && k < n; i++)
        k += (size_t)snprintf(s + k, n - k, i ? ", %lld" : "%lld", (long long)e[i]);
    if (k < n) snprintf(s + k, n - k, "]");
}

/* "float32[2, 4096]" */
static void tensor_text(const DLTensor *t, char *s, size_t n)
{
    dtype_text(t->dtype, s, n);
    const size_t k = strlen(s);
    extents_text(t->shape, t->ndim, s + k, n - k);
}

/* What a parameter that is no tensor is, for a message. */
static void any_text(const TVMFFIAny *v, char *s, size_t n)
{
    const DLTensor *t = ts_ffi_tensor(v);
    if (t) tensor_text(t, s, n);
    else if (v->type_index == kTVMFFINone) snprintf(s, n, "None");
    else if (v->type_index == kTVMFFIInt) snprintf(s, n, "%lld", (long long)v->v_int64);
    else if (v->type_index == kTVMFFIBool) snprintf(s, n, v->v_int64 ? "True" : "False");
    else if (v->type_index == kTVMFFIFloat) snprintf(s, n, "%g", v->v_float64);
    else if (v->type_index == kTVMFFISmallStr || v->type_index == kTVMFFIStr)
        snprintf(s, n, "a string");
    else snprintf(s, n, "an object of another kind");
}

/* All that was given: where the library rejects a call. */
static int rejected(const call *c, ts_status s)
{
    char   about[800];
    size_t k = 0;
    about[0] = 0;
    for (int i = 0; c->f->param[i].name && c->f->param[i].kind != TS_FFI_OUT; i++) {
        char one[96];
        any_text(&c->a[i], one, sizeof one);
        if (k < sizeof about)
            k += (size_t)snprintf(about + k, sizeof about - k, "%s%s %s", i ? ", " : "",
                                  c->f->param[i].name, one);
    }
    return ts_ffi_status(c->f->name, s, about);
}

/* ---- tensors ---- */

const DLTensor *ts_ffi_tensor(const TVMFFIAny *v)
{
    if (v->type_index == kTVMFFIDLTensorPtr) return v->v_ptr;
    if (v->type_index == kTVMFFITensor)
        return (const DLTensor *)((const char *)v->v_obj + sizeof(TVMFFIObject));
    return NULL;
}

void *ts_ffi_data(const DLTensor *t)
{
    static double nothing; /* of a tensor without elements, which may have no address */
    return t->data ? (char *)t->data + t->byte_offset : (void *)&nothing;
}

DLDevice ts_ffi_device(const DLTensor *t)
{
    DLDevice d = t->device;
    if (d.device_type == kDLCUDAHost) d = (DLDevice) { kDLCPU, 0 };
    if (d.device_type == kDLCUDAManaged) d.device_type = kDLCUDA;
    return d;
}

static void device_text(DLDevice d, char *s, size_t n)
{
    if (d.device_type == kDLCPU) snprintf(s, n, "cpu");
    else if (d.device_type == kDLCUDA) snprintf(s, n, "cuda:%d", d.device_id);
    else snprintf(s, n, "DLPack device (%d, %d)", d.device_type, d.device_id);
}

bool ts_ffi_dense(const DLTensor *t)
{
    if (!t->strides) return true;
    int64_t want = 1;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] == 0) return true;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] != 1 && t->strides[i] != want) return false;
        want *= t->shape[i];
    }
    return true;
}

static bool is_dtype(const DLTensor *t, int code, int bits)
{
    return t->dtype.code == code && t->dtype.bits == bits && t->dtype.lanes == 1;
}

int ts_ffi_dtype(const DLTensor *t)
{
    if (is_dtype(t, kDLFloat, 32)) return TS_F32;
    if (is_dtype(t, kDLFloat, 64)) return TS_F64;
    if (is_dtype(t, kDLFloat, 16)) return TS_F16;
    return is_dtype(t, kDLBfloat, 16) ? TS_BF16 : -1;
}

static const char *const NAME[] = {
    [TS_F32] = "float32", [TS_F64] = "float64", [TS_F16] = "float16", [TS_BF16] = "bfloat16"
};

/* NULL, or what dtype was expected. */
static const char *dtype_wanted(call *c, char letter, const DLTensor *t)
{
    const int d = ts_ffi_dtype(t);
    const int wide = c->dtype == TS_F64 ? TS_F64 : TS_F32;
    switch (letter) {
    case 'T':
        if (c->dtype < 0 && d >= 0 && c->f->dtypes >> d & 1) c->dtype = d;
        if (c->dtype < 0)
            return c->f->dtypes >> TS_F64 & 1 ? "float32, float64, float16 or bfloat16"
                                              : "float32, float16 or bfloat16";
        return d == c->dtype ? NULL : NAME[c->dtype];
    case 'A':
        return d == wide ? NULL : NAME[wide];
    case 'G':
        if (c->grad_dtype < 0 && (d == c->dtype || d == wide)) c->grad_dtype = d;
        if (c->grad_dtype < 0) return NAME[c->dtype];
        return d == c->grad_dtype ? NULL : NAME[c->grad_dtype];
    case 'f':
        return is_dtype(t, kDLFloat, 32) ? NULL : "float32";
    case 'd':
        return is_dtype(t, kDLFloat, 64) ? NULL : "float64";
    case 'i':
        return is_dtype(t, kDLInt, 32) ? NULL : "int32";
    case 'l':
        return is_dtype(t, kDLInt, 64) ? NULL : "int64";
    case 'b':
        return is_dtype(t, kDLUInt, 8) ? NULL : "uint8";
    default:
        return is_dtype(t, kDLFloat, 16) || is_dtype(t, kDLUInt, 16) ? NULL : "float16 or uint16";
    }
}

static int at_letter(char letter)
{
    return letter == '*' ? LEAD : letter - 'a' + 1;
}

static int64_t derived(const call *c, char letter)
{
    const int64_t *e = c->extent;
    switch (letter) {
    case 'S':
        return (e[at_letter('i')] + 127) / 128;
    case 'G':
        return (e[at_letter('i')] + 127) / 128 * 32;
    case 'R':
        return e[at_letter('p')] + e[at_letter('n')];
    case 'U':
        return e[at_letter('c')] + 1;
    default:
        return e[at_letter(letter)];
    }
}

/* The alternative of a shape that the layout chooses. */
static const char *shape_of(const call *c, const char *shape, size_t *n)
{
    const char *slash = strchr(shape, '/');
    if (slash && c->layout) shape = slash + 1, slash = NULL;
    *n = slash ? (size_t)(slash - shape) : strlen(shape);
    return shape;
}

/* Gives values to letters that have none. False: the number of axes is another. */
static bool bind(call *c, const char *shape, const DLTensor *t)
{
    size_t n;
    shape = shape_of(c, shape, &n);
    if (*shape == '1') return true;
    const bool lead = *shape == '*';
    const int  fixed = (int)n - lead, n_lead = t->ndim - fixed;
    if (lead ? n_lead < 0 : n_lead != 0) return false;
    if (lead && !c->lead) {
        c->lead = t, c->n_lead = n_lead;
        int64_t rows = 1;
        for (int i = 0; i < n_lead; i++) rows *= t->shape[i];
        c->extent[LEAD] = rows;
    }
    for (int i = 0; i < fixed; i++) {
        const char letter = shape[lead + i];
        if (letter < 'a') continue; /* derived from others */
        int64_t *e = &c->extent[at_letter(letter)];
        if (*e < 0) *e = t->shape[n_lead + i];
    }
    return true;
}

/* The extents that a tensor should have; how many. */
static int wanted(const call *c, const char *shape, int64_t *e)
{
    size_t n;
    int    k = 0;
    shape = shape_of(c, shape, &n);
    if (*shape == '1') return e[0] = 1, 1;
    for (size_t i = 0; i < n; i++)
        if (shape[i] == '*')
            for (int j = 0; j < c->n_lead && k < 30; j++) e[k++] = c->lead->shape[j];
        else e[k++] = derived(c, shape[i]);
    return k;
}

static bool fits(const DLTensor *t, const int64_t *e, int n)
{
    int64_t count = 1;
    for (int i = 0; i < t->ndim; i++) count *= t->shape[i];
    if (n == 1 && e[0] == 1 && t->ndim <= 1) return count == 1; /* also a tensor without axes */
    return t->ndim == n && !memcmp(t->shape, e, (size_t)n * sizeof *e);
}

static int64_t bytes_of(const DLTensor *t)
{
    int64_t n = (t->dtype.bits + 7) / 8;
    for (int i = 0; i < t->ndim; i++) n *= t->shape[i];
    return n;
}

/* ---- a call ---- */

static int take_number(call *c, const ts_ffi_param *p, const TVMFFIAny *v)
{
    const bool whole = v->type_index == kTVMFFIInt || v->type_index == kTVMFFIBool;
    char       got[96];
    if (!whole && !(p->kind == TS_FFI_DOUBLE && v->type_index == kTVMFFIFloat)) {
        any_text(v, got, sizeof got);
        return ts_ffi_error("TypeError", "%s: %s: got %s, expected %s", c->f->name, p->name, got,
                            p->kind == TS_FFI_DOUBLE ? "a number" : "an integer");
    }
    const double  d = whole ? (double)v->v_int64 : v->v_float64;
    const int64_t n = whole ? v->v_int64 : 0;
    if ((p->kind == TS_FFI_INT || p->kind == TS_FFI_INT32) && n != (int32_t)n)
        return ts_ffi_error("ValueError", "%s: %s: got %lld, expected an integer of 32 bits",
                            c->f->name, p->name, (long long)n);
    const int     i = (int)n;
    const int32_t w = (int32_t)n;
    if (p->kind == TS_FFI_DOUBLE) memcpy(c->args + p->at, &d, sizeof d);
    if (p->kind == TS_FFI_INT) memcpy(c->args + p->at, &i, sizeof i);
    if (p->kind == TS_FFI_INT32) memcpy(c->args + p->at, &w, sizeof w);
    if (p->kind == TS_FFI_INT64) memcpy(c->args + p->at, &n, sizeof n);
    if (!strcmp(p->name, "layout")) c->layout = n;
    if (p->shape) c->extent[at_letter(*p->shape)] = n;
    return 0;
}

/* An error about a tensor: what was given comes first. */
static int bad(const call *c, int i, const char *kind, const char *format, ...)
{
    char    got[192], want[192];
    va_list v;
    any_text(&c->a[i], got, sizeof got);
    va_start(v, format);
    vsnprintf(want, sizeof want, format, v);
    va_end(v);
    return ts_ffi_error(kind, "%s: %s: got %s, expected %s", c->f->name, c->f->param[i].name, got,
                        want);
}

static int take_tensor(call *c, int i)
{
    const ts_ffi_param *p = &c->f->param[i];
    const DLTensor     *t = ts_ffi_tensor(&c->a[i]);
    const bool          may_lack = p->flags & (TS_FFI_NONE | TS_FFI_SCRATCH);
    if (!t && c->a[i].type_index == kTVMFFINone && may_lack) return 0;
    if (t && may_lack && t->ndim == 1 && t->shape[0] == 0) return 0;
    if (!t) return bad(c, i, "TypeError", "a tensor%s", may_lack ? " or None" : "");
    const char *want = dtype_wanted(c, p->dtype, t);
    if (want) return bad(c, i, "TypeError", "dtype %s", want);
    if (!ts_ffi_dense(t)) return bad(c, i, "ValueError", "a contiguous tensor");
    const DLDevice device = ts_ffi_device(t);
    if (c->device.device_type == 0) c->device = device;
    if (device.device_type != c->device.device_type || device.device_id != c->device.device_id) {
        char is[48], first[48];
        device_text(device, is, sizeof is);
        device_text(c->device, first, sizeof first);
        return ts_ffi_error("ValueError", "%s: %s: got a tensor on %s, expected %s, as the first",
                            c->f->name, p->name, is, first);
    }
    if (!t->data && bytes_of(t))
        return bad(c, i, "ValueError", "a tensor that has memory; this one's was freed");
    if (!bind(c, p->shape, t)) {
        size_t      n;
        const char *s = shape_of(c, p->shape, &n);
        return bad(c, i, "ValueError", "%s%d axes", *s == '*' ? "at least " : "",
                   (int)n - (*s == '*'));
    }
    c->tensor[i] = t;
    return 0;
}

static int check_shapes(call *c)
{
    for (int i = 0; c->f->param[i].name; i++) {
        const ts_ffi_param *p = &c->f->param[i];
        const DLTensor     *t = c->tensor[i];
        int64_t             e[40];
        if (!t) continue;
        const int n = wanted(c, p->shape, e);
        if (fits(t, e, n)) continue;
        char want[160];
        extents_text(e, n, want, sizeof want);
        return bad(c, i, "ValueError", "shape %s", want);
    }
    return 0;
}

/* What is written overlaps nothing else. */
static int check_overlap(const call *c)
{
    for (int i = 0; c->f->param[i].name; i++) {
        if (!c->tensor[i] || c->f->param[i].kind == TS_FFI_IN) continue;
        if (c->f->param[i].flags & TS_FFI_ALIAS) continue;
        const char   *a = ts_ffi_data(c->tensor[i]);
        const int64_t na = bytes_of(c->tensor[i]);
        for (int j = 0; c->f->param[j].name; j++) {
            if (j == i || !c->tensor[j]) continue;
            const char   *b = ts_ffi_data(c->tensor[j]);
            const int64_t nb = bytes_of(c->tensor[j]);
            if (na && nb && a < b + nb && b < a + na)
                return ts_ffi_error("ValueError",
                                    "%s: %s: got memory that overlaps %s, expected "
                                    "memory of its own",
                                    c->f->name, c->f->param[i].name, c->f->param[j].name);
        }
    }
    return 0;
}

static void fill(call *c, size_t *scratch)
{
    for (int i = 0; c->f->dim[i].letter; i++) {
        const int64_t n = derived(c, c->f->dim[i].letter), e = n < 0 ? 0 : n;
        memcpy(c->args + c->f->dim[i].at, &e, sizeof e);
    }
    if (c->f->dtype_at >= 0)
        memcpy(c->args + c->f->dtype_at, &(ts_dtype) { (ts_dtype)c->dtype }, sizeof(ts_dtype));
    if (c->f->grad_dtype_at >= 0) {
        const ts_dtype g = (ts_dtype)(c->grad_dtype < 0 ? c->dtype : c->grad_dtype);
        memcpy(c->args + c->f->grad_dtype_at, &g, sizeof g);
    }
    *scratch = 0;
    for (int i = 0; c->f->param[i].name; i++) {
        const ts_ffi_param *p = &c->f->param[i];
        if (p->kind > TS_FFI_INOUT) continue;
        void *at = c->tensor[i] ? ts_ffi_data(c->tensor[i]) : NULL;
        if (!at && p->flags & TS_FFI_SCRATCH) { /* until there is a workspace */
            int64_t   e[40], n = 1;
            const int k = wanted(c, p->shape, e);
            for (int j = 0; j < k; j++) n *= e[j];
            *scratch += (size_t)(n + 8) * sizeof(double);
            at = c->args;
        }
        memcpy(c->args + p->at, &at, sizeof at);
    }
}

/* Uses the part of the workspace that the kernel has not requested for outputs that are not wanted.
 * */
static void place_scratch(call *c, char *at)
{
    for (int i = 0; c->f->param[i].name; i++) {
        const ts_ffi_param *p = &c->f->param[i];
        int64_t             e[40], n = 1;
        if (p->kind > TS_FFI_INOUT || c->tensor[i] || !(p->flags & TS_FFI_SCRATCH)) continue;
        const int k = wanted(c, p->shape, e);
        for (int j = 0; j < k; j++) n *= e[j];
        memcpy(c->args + p->at, &at, sizeof at);
        at += (size_t)(n + 8) * sizeof(double);
    }
}

static int run(call *c, ts_exec *x)
{
    size_t    scratch, need = 0;
    ts_status s = TS_OK;
    fill(c, &scratch);
    if (c->f->workspace) s = c->f->workspace(c->args, x, &need);
    if (s != TS_OK) return rejected(c, s);
    need = (need + 255) / 256 * 256;
    if (need + scratch && ts_ffi_workspace(c->f->name, c->device, x, need + scratch)) return -1;
    if (scratch) place_scratch(c, (char *)x->workspace + need);
    x->workspace_bytes = need;
    s = c->f->run(c->args, x);
    return s == TS_OK ? 0 : rejected(c, s);
}

int ts_ffi_call(const ts_ffi_function *f, const TVMFFIAny *a, int n, TVMFFIAny *out)
{
    call c;
    int  n_params = 0;
    c.f = f, c.a = a, c.dtype = c.grad_dtype = -1;
    c.lead = NULL, c.n_lead = 0, c.layout = 0, c.device = (DLDevice) { 0 };
    memset(c.args, 0, f->args_bytes);
    while (f->param[n_params].name) n_params++;
    *out = (TVMFFIAny) { .type_index = kTVMFFINone };
    if (n != n_params)
        return ts_ffi_error("TypeError", "%s: got %d arguments, expected %d", f->name, n, n_params);
    memset(c.extent, -1, sizeof c.extent);
    memset(c.tensor, 0, (size_t)n * sizeof *c.tensor);
    for (int i = 0; i < n; i++)
        if (f->param[i].kind > TS_FFI_INOUT && take_number(&c, &f->param[i], &a[i])) return -1;
    for (int i = 0; i < n; i++)
        if (f->param[i].kind <= TS_FFI_INOUT && take_tensor(&c, i)) return -1;
    if (check_shapes(&c) || check_overlap(&c)) return -1;
    ts_exec x = { 0 };
    if (ts_ffi_enter(c.device, &x)) return -1;
    const int status = run(&c, &x);
    ts_ffi_leave(c.device);
    return status;
}
