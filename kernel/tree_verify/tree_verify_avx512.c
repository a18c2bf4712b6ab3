/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_avx512.c - tree_verify_simd.h over the vectors of vec_avx512.h. */
#include "vec_avx512.h"

#include "tree_verify_simd.h"
