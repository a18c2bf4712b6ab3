/* SPDX-License-Identifier: Apache-2.0 */
/* touchstone.h - status codes, element types and execution settings, used by every kernel.
 *
 * Every kernel has two functions of this form:
 *
 *     ts_status ts_<stem>_<pass>(const ts_<stem>_<pass>_args *a, const ts_exec *x);
 *     ts_status ts_<stem>_<pass>_workspace(const ts_<stem>_<pass>_args *a, const ts_exec *x,
 *                                          size_t *n_bytes);
 *
 * The first runs the kernel. The second validates the same arguments and sets *n_bytes to the size
 * of the scratch memory that the first needs in x->workspace; the size may be 0. It depends on
 * x->n_threads: query with the n_threads of the call. A larger workspace is accepted. A query does
 * not compare where arrays lie.
 *
 * Memory: the caller allocates and frees every buffer. A call allocates nothing, prints nothing and
 * keeps no pointer. Buffers must not overlap, except where a field's comment permits it: TS_E_ARG
 * if an output or the workspace shares a byte with another buffer, where addresses, extents and one
 * stride tell.
 * Alignment: arrays need only the alignment of their element. The workspace and the memory of a
 * cache or model may begin at any address with TS_CPU; with TS_CUDA align them to 256 bytes, as
 * cudaMalloc does.
 * Errors: on any status but TS_OK no output has been written.
 * Threads: calls may run at the same time in several threads if no call writes memory that another
 * one uses: each needs its own outputs and workspace, and its own cache or model, if it has one.
 * Units: counts and strides are in elements, sizes named *_bytes in bytes. A shape [n][m] is
 * row-major. */
#ifndef TOUCHSTONE_TOUCHSTONE_H
#define TOUCHSTONE_TOUCHSTONE_H

#include <stddef.h>
#include <stdint.h>

#define TS_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* What every function returns. Each comment begins with the words of ts_status_text. */
typedef enum ts_status {
    TS_OK,            /* ok */
    TS_E_ARG,         /* a required pointer is NULL or a value is invalid */
    TS_E_SHAPE,       /* invalid extent or stride */
    TS_E_DTYPE,       /* dtype not supported by this kernel on this device */
    TS_E_UNSUPPORTED, /* not supported here: valid, but this device has no implementation */
    TS_E_WORKSPACE,   /* workspace missing or too small; or so is the memory of a cache or model */
    TS_E_CAPACITY,    /* out of capacity: a cache is full, or a call exceeds a model's maxima */
    TS_E_STATE,       /* sequence not open (kv_cache.h) */
    TS_E_RANGE,       /* value out of range: not finite, or beyond its storage format (ternary.h) */
    TS_E_FORMAT,      /* malformed data: an invalid code or scale (ternary.h) */
    TS_E_MODEL,       /* model not usable: callback failed, or logits NaN, +inf, all -inf */
    TS_E_DEVICE       /* device missing, or its runtime failed */
} ts_status;

/* Format of a tensor's elements. Each kernel's header lists those that it supports. Elements of 16
 * bits are stored as uint16_t; results are rounded to them to nearest, ties to even. */
typedef enum ts_dtype {
    TS_F32,  /* float */
    TS_F64,  /* double */
    TS_F16,  /* IEEE half precision: 5 bits of exponent, 10 of mantissa */
    TS_BF16, /* the upper 16 bits of a float: 8 bits of exponent, 7 of mantissa */
    TS_U8,   /* codes 0 .. 255 of a quantised cache; see kv_cache.h */
    TS_U4,   /* codes 0 .. 15, two per byte; see kv_cache.h */
    TS_I32,  /* indices; no kernel computes in it */
    TS_E4M3  /* 8-bit floats; see attention_fp8.h */
} ts_dtype;

/* Where a call runs. TS_CUDA needs an NVIDIA GPU; see ts_cuda_unavailable_reason. */
typedef enum ts_device { TS_CPU, TS_CUDA } ts_device;

/* Where and with what a call runs. The call reads it and keeps no pointer to it.
 * With TS_CUDA, tensors and workspace are device memory and work is enqueued on `stream`: outputs
 * are complete when the stream has reached the end of that work.
 * Fork: a child may make calls, too. GNU OpenMP's threads, which a child would wait for without
 * end, are ended before a fork and started again when they are needed.
 */
typedef struct ts_exec {
    ts_device device;          /* TS_CPU or TS_CUDA */
    int       n_threads;       /* most threads to use, CPU only; 0 or less: OpenMP's default */
    int       deterministic;   /* 1: equal inputs give bitwise identical outputs, any n_threads */
    void     *stream;          /* a cudaStream_t, or NULL for the default stream; CUDA only */
    void     *workspace;       /* scratch on `device`; contents undefined before and after */
    size_t    workspace_bytes; /* size of workspace, at least what the _workspace query returned */
} ts_exec;

/* A kernel with the type of its args erased, as dispatch tables, tests, benchmarks and entrants
 * call it. */
typedef ts_status (*ts_run_fn)(const void *args, const ts_exec *x);

/* A workspace query with the type of its args erased. */
typedef ts_status (*ts_workspace_fn)(const void *args, const ts_exec *x, size_t *n_bytes);

/* Version of the binary interface: increases whenever a function or a struct of these headers
 * changes. abi.h compares the layouts themselves. */
enum { TS_ABI_VERSION = 1 };

/* Version mark for a prebuilt shared library that enters a challenge: put `TS_ABI_MARK;` into one
 * of its sources. If the headers change later, the judge then rejects the library instead of
 * calling it with other structs. */
#define TS_ABI_MARK TS_API const int ts_abi_mark = TS_ABI_VERSION

/* Returns the TS_ABI_VERSION that the library was built with. */
TS_API int ts_abi_version(void);

/* Returns a status as a constant English string, such as "workspace missing or too small". */
TS_API const char *ts_status_text(ts_status s);

/* Returns NULL if TS_CUDA can be used, or why not, as a string that stays valid. The first call, of
 * this function or with TS_CUDA, loads the library's CUDA module. */
TS_API const char *ts_cuda_unavailable_reason(void);

#ifdef __cplusplus
}
#endif
#endif
