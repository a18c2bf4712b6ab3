/* SPDX-License-Identifier: Apache-2.0 */
/* exp_rate_avx512.c - exp_rate_simd.h over the vectors of vec_avx512.h. */
#include "vec_avx512.h"

#include "exp_rate_simd.h"
