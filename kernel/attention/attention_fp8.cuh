/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fp8.cuh - the kernels of flash_attention_fp8. */
#ifndef TS_ATTENTION_FP8_CUH
#define TS_ATTENTION_FP8_CUH

#include "attention.cuh"

extern "C" {
#include "touchstone/attention_fp8.h"

/* Every call, on every device that the module runs on: decodes q, k and v to float in the workspace
 * and calls attention of floats. */
TS_API ts_status ts_flash_attention_fp8_cuda(const void *args, const ts_exec *x);
TS_API ts_status ts_flash_attention_fp8_cuda_workspace(const void *args, const ts_exec *x,
                                                       size_t *n_bytes);
}

#endif
