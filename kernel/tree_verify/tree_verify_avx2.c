/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_avx2.c - tree_verify_simd.h over the vectors of vec_avx2.h. */
#include "vec_avx2.h"

#include "tree_verify_simd.h"
