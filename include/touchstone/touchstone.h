/* SPDX-License-Identifier: Apache-2.0 */
/* touchstone.h - the types every kernel header uses.
 *
 * Every kernel has two functions of this form:
 *
 *     ts_status ts_<stem>_<pass>(const ts_<stem>_<pass>_args *a, const ts_exec *x);
 *     ts_status ts_<stem>_<pass>_workspace(const ts_<stem>_<pass>_args *a, const ts_exec *x,
 *                                          size_t *n_bytes);
 *
 * All memory is the caller's. A call allocates nothing, prints nothing and keeps no pointer. On any
 * status but TS_OK no output has been written. Counts and strides are in elements; pointers need
 * only the alignment of their element; buffers do not overlap. */
#ifndef TOUCHSTONE_TOUCHSTONE_H
#define TOUCHSTONE_TOUCHSTONE_H

#include <stddef.h>
#include <stdint.h>

#define TS_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ts_status {
    TS_OK,
    TS_E_ARG,         /* a required pointer is NULL, or a value is invalid */
    TS_E_SHAPE,       /* invalid extent or stride */
    TS_E_DTYPE,       /* a dtype that this kernel does not support */
    TS_E_UNSUPPORTED, /* valid, but not supported here */
    TS_E_WORKSPACE,   /* x->workspace is missing or smaller than the query returned */
    TS_E_CAPACITY,
    TS_E_STATE,
    TS_E_RANGE,
    TS_E_FORMAT,
    TS_E_MODEL,
    TS_E_DEVICE /* the device is absent, or its runtime reported an error */
} ts_status;

typedef enum ts_dtype {
    TS_F32,
    TS_F64,
    TS_F16,
    TS_BF16,
    TS_U8,
    TS_U4,
    TS_I32, /* indices; no kernel computes in it */
    TS_E4M3 /* 8-bit floats; see attention_fp8.h */
} ts_dtype;
typedef enum ts_device { TS_CPU, TS_CUDA } ts_device;

/* Where and with what a call runs. Borrowed for the call only.
 * With TS_CUDA, tensors and workspace are device memory and work is enqueued on `stream`. */
typedef struct ts_exec {
    ts_device device;
    int       n_threads;     /* CPU only; 0: OpenMP's default */
    int       deterministic; /* 1: equal inputs give bitwise identical outputs, for any n_threads */
    void     *stream;        /* a cudaStream_t, or NULL for the default stream */
    void     *workspace;     /* on `device`; contents undefined before and after */
    size_t    workspace_bytes;
} ts_exec;

/* Every kernel with its args type erased: dispatch tables, tests, benchmarks and entrants use these
 * two types. */
typedef ts_status (*ts_run_fn)(const void *args, const ts_exec *x);
typedef ts_status (*ts_workspace_fn)(const void *args, const ts_exec *x, size_t *n_bytes);

/* Goes up whenever a function or a struct of these headers changes. abi.h compares layouts. */
enum { TS_ABI_VERSION = 1 };

/* Put `TS_ABI_MARK;` into one source of a shared library that is entered prebuilt: the judge then
 * rejects it once these headers have another version, instead of calling it with other structs. */
#define TS_ABI_MARK TS_API const int ts_abi_mark = TS_ABI_VERSION

TS_API int         ts_abi_version(void);             /* TS_ABI_VERSION of the library */
TS_API const char *ts_status_text(ts_status s);      /* "workspace missing or too small" */
TS_API const char *ts_cuda_unavailable_reason(void); /* NULL when TS_CUDA can be used */

#ifdef __cplusplus
}
#endif
#endif
