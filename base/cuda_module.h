/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_module.h - the CUDA kernels are in a module that is loaded when a CUDA device is first used.
 * Nothing else in the project links CUDA; this header is the only interface to it. */
#ifndef TS_BASE_CUDA_MODULE_H
#define TS_BASE_CUDA_MODULE_H

#include <stdbool.h>

#include "impl.h"

/* What the module exports as `ts_cuda_module`. Functions of type int return 0 or a CUDA error code
 * for `error_text`. The driver is not used before the first call. */
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
    /* Copies after all work enqueued on the stream, and waits for it. */
    int (*fetch)(void *host, const void *device, size_t n_bytes, void *stream);
    int (*copy_within)(void *to, const void *from, size_t n_bytes); /* both on the device */
    int (*fill)(void *device, int byte, size_t n_bytes); /* asynchronous, default stream */
    int (*sync)(void);
    /* Adds the number of bytes in which a and b differ to *n_wrong, in device memory; asynchronous.
     */
    int (*differ)(const void *a, const void *b, size_t n_bytes, unsigned long long *n_wrong);
    /* Times the work enqueued on the default stream between the two marks of slot i. */
    int (*mark)(int slot, int end);
    int (*elapsed_ns)(int slot, double *ns);
    /* One pass over n_bytes to measure bandwidth: dst = src, or a reduction of src. */
    int (*stream_copy)(void *dst, const void *src, size_t n_bytes);
    int (*stream_read)(void *sum, const void *src, size_t n_bytes);
} ts_cuda_module_ops;

enum { TS_CUDA_MODULE_ABI = 3, TS_CUDA_SLOTS = 256 };

/* The path of a module in the folder of the program or library that contains this code. */
void ts_cuda_beside(const char *module, char *path, size_t n);

/* Opens a module of CUDA code: the path in the environment's `variable`, else the file next to this
 * program or library, else the one that the loader finds. NULL: see dlerror(). */
void *ts_cuda_open(const char *module, const char *variable);

/* NULL if there is no module; see ts_cuda_unavailable_reason(). */
const ts_cuda_module_ops *ts_cuda_ops(void);

/* Fills run and workspace of a TS_CUDA row from its symbol. */
ts_status ts_cuda_resolve(ts_impl *row);

#endif
