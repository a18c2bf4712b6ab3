/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_avx512.c - the vectors of cross_entropy_simd.h, 16 floats each. */
#include "cross_entropy_impl.h"
#include "vec_avx512.h"

enum { ROWS = 12, VECS = 2 }; /* sums fill 24 of 32 registers */

#include "cross_entropy_simd.h"
