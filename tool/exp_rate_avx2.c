/* SPDX-License-Identifier: Apache-2.0 */
/* exp_rate_avx2.c - exp_rate_simd.h over the vectors of vec_avx2.h. */
#include "vec_avx2.h"

#include "exp_rate_simd.h"
