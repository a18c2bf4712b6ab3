/* SPDX-License-Identifier: Apache-2.0 */
typedef double real;
#define GEMM cblas_dgemm
#define EXP  exp
#define BACK ts_back_f64
#include "back_tmpl.h"
