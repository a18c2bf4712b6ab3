/* SPDX-License-Identifier: Apache-2.0 */
/* back_f32.c - the operations of back.h in float: back_tmpl.h compiled for float. */
typedef float real;
#define GEMM cblas_sgemm
#define BACK ts_back_f32
#include "back_tmpl.h"
