/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_impl.cuh - what the files of the training module share. */
#ifndef TS_TRAIN_CUDA_IMPL_CUH
#define TS_TRAIN_CUDA_IMPL_CUH

#include <cuda_runtime.h>
#include <stdint.h>

extern "C" {
#include "train_cuda.h"
}

cudaStream_t ts_train_stream(const void *self);

/* As ts_train_module has them. */
void ts_train_project(void *self, const ts_cuda_project *p);
void ts_train_clip(void *self, const float *gradient, int64_t n, double most, double *norm);

#endif
