/* SPDX-License-Identifier: Apache-2.0 */
/* selftest_cuda.cu - memory of the self-test on the host and on the device. Without a GPU nothing
 * is tested. */
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#include "touchstone/touchstone.h"

static void must(cudaError_t e, const char *what)
{
    if (e == cudaSuccess) return;
    printf("FAIL %s: CUDA says: %s\n", what, cudaGetErrorString(e));
    exit(1);
}

extern "C" void *selftest_memory(size_t n_bytes)
{
    static int n_devices = -1;
    void      *p = NULL;
    if (n_devices < 0 && (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices < 1)) {
        printf("SKIPPED: this machine has no CUDA device; the file compiles, nothing was run\n");
        exit(0);
    }
    must(cudaMallocManaged(&p, n_bytes), "allocating memory");
    return p;
}

extern "C" void selftest_drop(void *p)
{
    must(cudaFree(p), "freeing memory");
}

extern "C" ts_status selftest_finish(ts_status s)
{
    must(cudaDeviceSynchronize(), "the kernel");
    must(cudaGetLastError(), "the launch");
    return s;
}
