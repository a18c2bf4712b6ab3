/* SPDX-License-Identifier: Apache-2.0 */
/* ffi.h - a kernel as a function of TVM FFI: a table of parameters from which the call is checked,
 * its args struct filled, its workspace found and its errors worded.
 *
 * Parameters come in the order inputs, numbers, outputs, which is the order JAX passes them in. */
#ifndef TS_FFI_FFI_H
#define TS_FFI_FFI_H

#include <stdbool.h>
#include <tvm/ffi/c_api.h>

#include "touchstone/touchstone.h"

enum { TS_FFI_PARAMS = 24, TS_FFI_DIMS = 16 };

/* What a parameter is. */
enum {
    TS_FFI_IN = 1, /* tensors */
    TS_FFI_OUT,
    TS_FFI_INOUT,
    TS_FFI_INT, /* numbers, by the type of their field */
    TS_FFI_INT32,
    TS_FFI_INT64,
    TS_FFI_DOUBLE,
};
enum {
    /* None is accepted, as is a tensor of the shape [0], since JAX can pass no None: */
    TS_FFI_NONE = 1,    /* NULL to the kernel */
    TS_FFI_SCRATCH = 2, /* scratch memory to the kernel */
    TS_FFI_ALIAS = 4,   /* may overlap other tensors */
};

/* dtype letters: T the kernel's own; A float, or double where T is double; G either of the two;
 * f d i l b h: float32 float64 int32 int64 uint8 and float16 (as such or as uint16).
 *
 * Shapes are letters, one for each axis: equal letters are equal extents. '*' stands for any number
 * of leading axes, '1' for one element. A shape "bhnd/bnhd" is chosen by the number `layout`.
 * Capitals are derived: S = ceil(i / 128), G = 32 S, R = p + n, U = c + 1. */
typedef struct ts_ffi_param {
    const char *name; /* as Python has it */
    int         kind, flags;
    char        dtype;
    const char *shape; /* of a number: the letter that it gives a value to, or NULL */
    size_t      at;    /* its field in the args */
} ts_ffi_param;

typedef struct ts_ffi_function {
    const char     *name; /* as Python has it */
    ts_run_fn       run;
    ts_workspace_fn workspace; /* NULL: it needs none */
    size_t          args_bytes;
    unsigned        dtypes; /* bit t: ts_dtype t may be T */
    int             dtype_at, grad_dtype_at;
    ts_ffi_param    param[TS_FFI_PARAMS + 1]; /* a name NULL ends */
    struct {
        char   letter; /* 0 ends */
        size_t at;
    } dim[TS_FFI_DIMS + 1]; /* int64_t fields that are extents; '*': the product of leading axes */
} ts_ffi_function;

/* Between functions of two args types there is no conversion that may be called; the ABI of every
 * system that has dlsym makes them one. The library's own tables do the same. */
#define TS_RUN(f)   (ts_run_fn)(void (*)(void)) f
#define TS_QUERY(f) (ts_workspace_fn)(void (*)(void)) f

int ts_ffi_call(const ts_ffi_function *f, const TVMFFIAny *a, int n, TVMFFIAny *out);

/* ---- for functions that have no table ---- */

/* NULL: it is not a tensor. */
const DLTensor *ts_ffi_tensor(const TVMFFIAny *v);
void           *ts_ffi_data(const DLTensor *t);
/* Where its memory is: (kDLCPU, 0), also for page-locked memory, or (kDLCUDA, n), also for managed
 * memory; others are as they are. */
DLDevice ts_ffi_device(const DLTensor *t);
bool     ts_ffi_dense(const DLTensor *t);
/* The ts_dtype of a floating-point tensor, -1 for others. */
int ts_ffi_dtype(const DLTensor *t);
/* Sets the Python error `kind` (the name of its class); -1, to be returned. */
int ts_ffi_error(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The exception for a status. `about` may be "". */
int ts_ffi_status(const char *name, ts_status s, const char *about);

/* Where a call runs: device, stream, threads. On CUDA the device's context becomes current, and the
 * workspace is this thread's, until ts_ffi_leave. */
int  ts_ffi_enter(DLDevice device, ts_exec *x);
void ts_ffi_leave(DLDevice device);
/* n_bytes of workspace of the call's stream, or of this thread on the CPU; kept for later calls. */
int ts_ffi_workspace(const char *name, DLDevice device, ts_exec *x, size_t n_bytes);

#endif
