/* SPDX-License-Identifier: Apache-2.0 */
typedef float real;
#define GEMM cblas_sgemm
#define BACK ts_back_f32
#include "back_tmpl.h"
