/* SPDX-License-Identifier: Apache-2.0 */
/* back_f64.c - the operations of back.h in double: back_tmpl.h compiled for double. */
typedef double real;
#define GEMM cblas_dgemm
#define BACK ts_back_f64
#include "back_tmpl.h"
