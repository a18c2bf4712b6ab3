/* SPDX-License-Identifier: Apache-2.0 */
/* exp_rate_neon.c - exp_rate_simd.h over the vectors of vec_neon.h. */
#include "vec_neon.h"

#include "exp_rate_simd.h"
