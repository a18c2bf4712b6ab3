/* SPDX-License-Identifier: Apache-2.0 */
typedef double real;
#define GEMM cblas_dgemm
#define BACK ts_back_f64
#include "back_tmpl.h"
