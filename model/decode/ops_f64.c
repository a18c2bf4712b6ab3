/* SPDX-License-Identifier: Apache-2.0 */
/* ops_f64.c - the decoder's operations in double: ops_tmpl.h compiled for double. */
typedef double real;
#define GEMM cblas_dgemm
#define GEMV cblas_dgemv
#define TANH tanh
#define OPS  ts_ops_f64
#include "ops_tmpl.h"
