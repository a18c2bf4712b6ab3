/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_avx2.c - the vectors of cross_entropy_simd.h, 8 floats each. */
#include "cross_entropy_impl.h"
#include "vec_avx2.h"

enum { ROWS = 6, VECS = 2 }; /* sums fill 12 of 16 registers */

#include "cross_entropy_simd.h"
