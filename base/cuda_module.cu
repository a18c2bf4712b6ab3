/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_module.cu - the module's side of cuda_module.h: memory, timing marks and peak rates. */
#include <cuda_runtime.h>

#include <stdio.h>

extern "C" {
#include "cpu.h"
#include "cuda_module.h"
#include "touchstone/abi.h"
}

static cudaEvent_t marks[TS_CUDA_SLOTS][2];

static int device_count(void)
{
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess) {
        cudaGetLastError(); /* a missing driver is not an error here: clear it */
        return 0;
    }
    return n;
}

static const char *error_text(int code)
{
    return cudaGetErrorString((cudaError_t)code);
}

/* Kernels of sm_90 are laid out for its 227 KiB of shared memory per block. Data-centre chips after
 * it have as much; sm_120 has 99 KiB, and takes the kernels of sm_80. */
enum { SM90_SHARED = 227 << 10 };

static unsigned features(void)
{
    int major = 0, shared = 0, device = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (major >= 9 && shared >= SM90_SHARED) return TS_SM90 | TS_SM80;
    return major >= 8 ? TS_SM80 : 0;
}

static int describe(char *text, size_t n)
{
    cudaDeviceProp    p;
    const cudaError_t e = cudaGetDeviceProperties(&p, 0);
    if (e) return e;
    snprintf(text, n, "%s, sm_%d%d, %d multiprocessors, %.0f MiB L2, %.0f GiB", p.name, p.major,
             p.minor, p.multiProcessorCount, p.l2CacheSize / 1048576.0,
             (double)p.totalGlobalMem / 1073741824.0);
    return 0;
}

static int alloc(void **p, size_t n_bytes)
{
    const cudaError_t e = cudaMalloc(p, n_bytes);
    if (e == cudaErrorMemoryAllocation) cudaGetLastError();
    return e;
}

static int release(void *p)
{
    return cudaFree(p);
}

static int copy_in(void *device, const void *host, size_t n_bytes)
{
    return cudaMemcpy(device, host, n_bytes, cudaMemcpyHostToDevice);
}

static int copy_out(void *host, const void *device, size_t n_bytes)
{
    return cudaMemcpy(host, device, n_bytes, cudaMemcpyDeviceToHost);
}

static int fetch(void *host, const void *device, size_t n_bytes, void *stream)
{
    const cudaStream_t s = (cudaStream_t)stream;
    const cudaError_t  e = cudaMemcpyAsync(host, device, n_bytes, cudaMemcpyDeviceToHost, s);
    return e ? e : cudaStreamSynchronize(s);
}

static int copy_within(void *to, const void *from, size_t n_bytes)
{
    return cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyDeviceToDevice, 0);
}

static int fill(void *device, int byte, size_t n_bytes)
{
    return cudaMemsetAsync(device, byte, n_bytes, 0);
}

static int sync(void)
{
    return cudaDeviceSynchronize();
}

/* ---- comparison ---- */

static __global__ void differ_kernel(const unsigned char *a, const unsigned char *b, size_t n,
                                     unsigned long long *n_wrong)
{
    const size_t       first = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    const size_t       step = gridDim.x * (size_t)blockDim.x;
    unsigned long long wrong = 0;
    for (size_t i = first; i < n / 16; i += step) {
        const uint4 u = ((const uint4 *)a)[i], v = ((const uint4 *)b)[i];
        wrong += u.x != v.x || u.y != v.y || u.z != v.z || u.w != v.w;
    }
    for (size_t i = n / 16 * 16 + first; i < n; i += step) wrong += a[i] != b[i];
    if (wrong) atomicAdd(n_wrong, wrong);
}

static int differ(const void *a, const void *b, size_t n_bytes, unsigned long long *n_wrong)
{
    differ_kernel<<<1056, 512>>>((const unsigned char *)a, (const unsigned char *)b, n_bytes,
                                 n_wrong);
    return cudaGetLastError();
}

/* ---- marks ---- */

static int mark(int slot, int end)
{
    cudaEvent_t *e = &marks[slot][end];
    if (!*e) {
        const cudaError_t made = cudaEventCreate(e);
        if (made) return made;
    }
    return cudaEventRecord(*e, 0);
}

static int elapsed_ns(int slot, double *ns)
{
    float             ms = 0;
    const cudaError_t e = cudaEventElapsedTime(&ms, marks[slot][0], marks[slot][1]);
    *ns = ms * 1e6;
    return e;
}

/* ---- peak rates: four independent 16-byte accesses in flight per thread ---- */

enum { STREAM_THREADS = 512, STREAM_UNROLL = 4 };

static __global__ void __launch_bounds__(STREAM_THREADS)
    copy_kernel(uint4 *__restrict__ dst, const uint4 *__restrict__ src, size_t n)
{
    const size_t first = blockIdx.x * (size_t)(STREAM_THREADS * STREAM_UNROLL) + threadIdx.x;
    uint4        v[STREAM_UNROLL];
#pragma unroll
    for (int k = 0; k < STREAM_UNROLL; k++)
        if (first + k * STREAM_THREADS < n) v[k] = __ldcs(src + first + k * STREAM_THREADS);
#pragma unroll
    for (int k = 0; k < STREAM_UNROLL; k++)
        if (first + k * STREAM_THREADS < n) __stcs(dst + first + k * STREAM_THREADS, v[k]);
}

static __global__ void __launch_bounds__(STREAM_THREADS)
    read_kernel(unsigned *sum, const uint4 *__restrict__ src, size_t n)
{
    const size_t first = blockIdx.x * (size_t)(STREAM_THREADS * STREAM_UNROLL) + threadIdx.x;
    unsigned     s = 0;
#pragma unroll
    for (int k = 0; k < STREAM_UNROLL; k++)
        if (first + k * STREAM_THREADS < n) {
            const uint4 v = __ldcs(src + first + k * STREAM_THREADS);
            s ^= v.x ^ v.y ^ v.z ^ v.w;
        }
    if (s == 0x12345678u) *sum = s; /* so that the reads are not optimised away */
}

static unsigned stream_blocks(size_t n)
{
    return (unsigned)((n + STREAM_THREADS * STREAM_UNROLL - 1) / (STREAM_THREADS * STREAM_UNROLL));
}

static int stream_copy(void *dst, const void *src, size_t n_bytes)
{
    const size_t n = n_bytes / 16;
    copy_kernel<<<stream_blocks(n), STREAM_THREADS>>>((uint4 *)dst, (const uint4 *)src, n);
    return cudaGetLastError();
}

static int stream_read(void *sum, const void *src, size_t n_bytes)
{
    const size_t n = n_bytes / 16;
    read_kernel<<<stream_blocks(n), STREAM_THREADS>>>((unsigned *)sum, (const uint4 *)src, n);
    return cudaGetLastError();
}

extern "C" TS_API const ts_cuda_module_ops ts_cuda_module = {
    TS_CUDA_MODULE_ABI,
    ts_abi_hash(ts_abi_fields, TS_ABI_FIELDS),
    device_count,
    error_text,
    features,
    describe,
    alloc,
    release,
    copy_in,
    copy_out,
    fetch,
    copy_within,
    fill,
    sync,
    differ,
    mark,
    elapsed_ns,
    stream_copy,
    stream_read,
};
