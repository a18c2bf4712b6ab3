/* SPDX-License-Identifier: Apache-2.0 */
typedef double real;
#define GEMM cblas_dgemm
#define GEMV cblas_dgemv
#define TANH tanh
#define OPS  ts_ops_f64
#include "ops_tmpl.h"
