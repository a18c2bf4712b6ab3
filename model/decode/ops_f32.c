/* SPDX-License-Identifier: Apache-2.0 */
/* ops_f32.c - the decoder's operations in float: ops_tmpl.h compiled for float. */
typedef float real;
#define GEMM cblas_sgemm
#define GEMV cblas_sgemv
#define TANH tanhf
#define OPS  ts_ops_f32
#include "ops_tmpl.h"
