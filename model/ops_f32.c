/* SPDX-License-Identifier: Apache-2.0 */
typedef float real;
#define GEMM cblas_sgemm
#define GEMV cblas_sgemv
#define TANH tanhf
#define OPS  ts_ops_f32
#include "ops_tmpl.h"
