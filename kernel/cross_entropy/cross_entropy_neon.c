/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_neon.c - the vectors of cross_entropy_simd.h, 4 floats each. */
#include "cross_entropy_impl.h"
#include "vec_neon.h"

enum { ROWS = 8, VECS = 2 }; /* sums fill 16 of 32 registers */

#include "cross_entropy_simd.h"
