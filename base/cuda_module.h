/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_module.h - the CUDA kernels live in a module that is loaded when a CUDA device is first
 * asked for. Nothing else in the house links CUDA; this is the whole of the seam. */
#ifndef TS_BASE_CUDA_MODULE_H
#define TS_BASE_CUDA_MODULE_H

#include <stdbool.h>

#include "impl.h"

/* What the module exports as `ts_cuda_module`. Functions that return int give 0, or a CUDA error
 * code for `error_text`. Nothing touches the driver before the first call. */
typedef struct ts_cuda_module_ops {
    int      abi;    /* TS_CUDA_MODULE_ABI */
    uint64_t layout; /* ts_abi_hash of the public structs that the module was compiled with */
    int (*device_count)(void);
    const char *(*error_text)(int code);
    unsigned (*features)(void);            /* TS_SM90 ... of device 0 */
    int (*describe)(char *text, size_t n); /* "NVIDIA H200, 132 SMs, ..." */
    int (*alloc)(void **p, size_t n_bytes);
    int (*release)(void *p);
    int (*copy_in)(void *device, const void *host, size_t n_bytes);
    int (*copy_out)(void *host, const void *device, size_t n_bytes);
    /* Behind what is enqueued on the stream, for which it waits. */
    int (*fetch)(void *host, const void *device, size_t n_bytes, void *stream);
    int (*copy_within)(void *to, const void *from, size_t n_bytes); /* both on the device */
    int (*fill)(void *device, int byte, size_t n_bytes); /* asynchronous, default stream */
    int (*sync)(void);
    /* Adds to *n_wrong (device memory) the bytes in which a and b differ; asynchronous. */
    int (*differ)(const void *a, const void *b, size_t n_bytes, unsigned long long *n_wrong);
    /* Timing of what is enqueued on the default stream between the two marks of slot i. */
    int (*mark)(int slot, int end);
    int (*elapsed_ns)(int slot, double *ns);
    /* One pass of the bandwidth ceilings over n_bytes: dst = src, or a reduction of src. */
    int (*stream_copy)(void *dst, const void *src, size_t n_bytes);
    int (*stream_read)(void *sum, const void *src, size_t n_bytes);
} ts_cuda_module_ops;

enum { TS_CUDA_MODULE_ABI = 3, TS_CUDA_SLOTS = 256 };

/* Opens a module of CUDA code: what the environment's `variable` names, else what lies beside this
 * program or library, else what the loader finds. NULL: dlerror() says why. */
void *ts_cuda_open(const char *module, const char *variable);

/* NULL when the module is not there; then ts_cuda_unavailable_reason() says why. */
const ts_cuda_module_ops *ts_cuda_ops(void);

/* Fills run and workspace of a TS_CUDA row from its symbol. */
ts_status ts_cuda_resolve(ts_impl *row);

/* Whether there is a module of CUDA mutants, in which ts_cuda_resolve looks last: beside this
 * program or library, or at $TOUCHSTONE_CUDA_MUTANTS. Code that is wrong on purpose is never
 * installed, so it cannot be part of the module proper. Loads nothing. */
bool ts_cuda_has_mutants(void);

#endif
