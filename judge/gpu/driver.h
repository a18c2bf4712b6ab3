/* SPDX-License-Identifier: Apache-2.0 */
/* driver.h - the part of the CUDA driver API that judging needs, loaded from libcuda.so.1 on first
 * use: building needs no CUDA, and running without a GPU needs none either.
 *
 * Names and layouts are those of the driver. Every function returns 0 or an error code. */
#ifndef TS_GPU_DRIVER_H
#define TS_GPU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t         ts_device_ptr;
typedef struct ts_cu_any ts_cu_any; /* context, module, function, stream, event or link */

/* CUmemAllocationProp: pinned device memory that another process can map. */
typedef struct ts_mem_prop {
    int32_t  type, handle_types;         /* 1: pinned; 1: a file descriptor */
    int32_t  location_type, location_id; /* 1: a device; which */
    void    *win32;
    uint8_t  compression, rdma;
    uint16_t usage;
    uint8_t  reserved[4];
} ts_mem_prop;

/* CUmemAccessDesc. */
typedef struct ts_mem_access {
    int32_t location_type, location_id, flags; /* flags 1: read, 3: read and write */
} ts_mem_access;

/* A stream attribute: which lines of L2 its kernels keep resident. */
typedef struct ts_l2_window {
    ts_device_ptr p;
    size_t        n_bytes;
    float         hit_ratio;
    int32_t       hit, miss; /* 0: normal, 2: persisting */
    uint8_t       reserved[36];
} ts_l2_window;

enum { TS_CU_L2_PERSISTING = 6 }; /* a limit of a context, in bytes */
enum { TS_CU_L2_WINDOW = 1 };     /* an attribute of a stream */
enum { TS_CU_PTX = 1 };           /* a kind of input to the driver's linker */
enum { TS_CU_NO_DEVICE = 100 };   /* CUresult */
enum { TS_CU_SMS = 16, TS_CU_L2_BYTES = 38, TS_CU_MAJOR = 75, TS_CU_MINOR = 76 }; /* of a device */
enum { /* of a function */
       TS_CU_SHARED_BYTES = 1,
       TS_CU_LOCAL_BYTES = 3,
       TS_CU_REGISTERS = 4,
       TS_CU_MAX_DYNAMIC_SHARED = 8
};

/* X(field, symbol, parameters) */
#define TS_DRIVER(X)                                                                               \
    X(init, cuInit, (unsigned flags))                                                              \
    X(version, cuDriverGetVersion, (int *v))                                                       \
    X(error_text, cuGetErrorString, (int code, const char **text))                                 \
    X(device_count, cuDeviceGetCount, (int *n))                                                    \
    X(device_get, cuDeviceGet, (int *device, int number))                                          \
    X(device_name, cuDeviceGetName, (char *text, int n, int device))                               \
    X(device_attribute, cuDeviceGetAttribute, (int *v, int attribute, int device))                 \
    X(device_memory, cuDeviceTotalMem_v2, (size_t * n, int device))                                \
    X(context_retain, cuDevicePrimaryCtxRetain, (ts_cu_any * *c, int device))                      \
    X(context_flags, cuDevicePrimaryCtxSetFlags_v2, (int device, unsigned flags))                  \
    X(context_set, cuCtxSetCurrent, (ts_cu_any * c))                                               \
    X(limit_set, cuCtxSetLimit, (int limit, size_t n))                                             \
    X(sync, cuCtxSynchronize, (void))                                                              \
    X(reset_l2, cuCtxResetPersistingL2Cache, (void))                                               \
    X(granularity, cuMemGetAllocationGranularity,                                                  \
      (size_t * n, const ts_mem_prop *p, int recommended))                                         \
    X(create, cuMemCreate, (uint64_t * handle, size_t n, const ts_mem_prop *p, uint64_t flags))    \
    X(release, cuMemRelease, (uint64_t handle))                                                    \
    X(reserve, cuMemAddressReserve,                                                                \
      (ts_device_ptr * p, size_t n, size_t alignment, ts_device_ptr hint, uint64_t flags))         \
    X(unreserve, cuMemAddressFree, (ts_device_ptr p, size_t n))                                    \
    X(map, cuMemMap, (ts_device_ptr p, size_t n, size_t offset, uint64_t handle, uint64_t flags))  \
    X(unmap, cuMemUnmap, (ts_device_ptr p, size_t n))                                              \
    X(access, cuMemSetAccess,                                                                      \
      (ts_device_ptr p, size_t n, const ts_mem_access *a, size_t n_access))                        \
    X(export_fd, cuMemExportToShareableHandle,                                                     \
      (void *fd, uint64_t handle, int type, uint64_t flags))                                       \
    X(import_fd, cuMemImportFromShareableHandle, (uint64_t * handle, void *fd, int type))          \
    X(alloc, cuMemAlloc_v2, (ts_device_ptr * p, size_t n))                                         \
    X(free_, cuMemFree_v2, (ts_device_ptr p))                                                      \
    X(host_alloc, cuMemHostAlloc, (void **p, size_t n, unsigned flags))                            \
    X(memory_info, cuMemGetInfo_v2, (size_t * available, size_t * all))                            \
    X(copy_in, cuMemcpyHtoD_v2, (ts_device_ptr to, const void *from, size_t n))                    \
    X(copy_out, cuMemcpyDtoH_v2, (void *to, ts_device_ptr from, size_t n))                         \
    X(copy_within, cuMemcpyDtoDAsync_v2,                                                           \
      (ts_device_ptr to, ts_device_ptr from, size_t n, ts_cu_any * stream))                        \
    X(fill, cuMemsetD8Async, (ts_device_ptr p, unsigned char byte, size_t n, ts_cu_any *stream))   \
    X(module_load, cuModuleLoadData, (ts_cu_any * *m, const void *image))                          \
    X(link_begin, cuLinkCreate_v2, (unsigned n_options, int *option, void **value, ts_cu_any **l)) \
    X(link_add, cuLinkAddData_v2,                                                                  \
      (ts_cu_any * l, int kind, void *data, size_t n, const char *name, unsigned n_options,        \
       int *option, void **value))                                                                 \
    X(link_end, cuLinkComplete, (ts_cu_any * l, void **image, size_t *n))                          \
    X(module_unload, cuModuleUnload, (ts_cu_any * m))                                              \
    X(module_function, cuModuleGetFunction, (ts_cu_any * *f, ts_cu_any * m, const char *name))     \
    X(function_get, cuFuncGetAttribute, (int *v, int attribute, ts_cu_any *f))                     \
    X(function_set, cuFuncSetAttribute, (ts_cu_any * f, int attribute, int v))                     \
    X(param_info, cuFuncGetParamInfo,                                                              \
      (ts_cu_any * f, size_t i, size_t * offset, size_t * n_bytes))                                \
    X(launch, cuLaunchKernel,                                                                      \
      (ts_cu_any * f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,             \
       unsigned bz, unsigned shared_bytes, ts_cu_any *stream, void **params, void **extra))        \
    X(stream_create, cuStreamCreate, (ts_cu_any * *s, unsigned flags))                             \
    X(stream_set, cuStreamSetAttribute, (ts_cu_any * s, int attribute, const ts_l2_window *w))     \
    X(stream_sync, cuStreamSynchronize, (ts_cu_any * s))                                           \
    X(event_create, cuEventCreate, (ts_cu_any * *e, unsigned flags))                               \
    X(event_record, cuEventRecord, (ts_cu_any * e, ts_cu_any * stream))                            \
    X(event_sync, cuEventSynchronize, (ts_cu_any * e))                                             \
    X(event_elapsed, cuEventElapsedTime, (float *ms, ts_cu_any *from, ts_cu_any *to))

typedef struct ts_driver {
#define X(field, symbol, parameters) int(*field) parameters;
    TS_DRIVER(X)
#undef X
} ts_driver;

/* Loads the driver, from $TOUCHSTONE_LIBCUDA if set, and makes device 0 current. On failure NULL,
 * with one line in why. */
const ts_driver *ts_driver_open(char *why, size_t n);

/* "an illegal memory access was encountered" */
const char *ts_driver_text(const ts_driver *d, int code);

/* Memory that another process can map: `handle` for this one, `fd` for the other. */
int    ts_driver_share(const ts_driver *d, size_t n_bytes, uint64_t *handle, int *fd);
size_t ts_driver_granule(const ts_driver *d); /* 0: the device does not support it */

/* Maps n_bytes, a multiple of the granule, at addresses with TS_DEVICE_GUARD unmapped bytes on both
 * sides, so that a stray access that misses by megabytes does not hit another buffer. */
#define TS_DEVICE_GUARD ((size_t)64 << 20)
int ts_driver_place(const ts_driver *d, uint64_t handle, size_t n_bytes, int writable,
                    ts_device_ptr *p);

#endif
