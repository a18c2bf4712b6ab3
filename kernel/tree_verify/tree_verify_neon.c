/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_neon.c - tree_verify_simd.h over the vectors of vec_neon.h. */
#include "vec_neon.h"

#include "tree_verify_simd.h"
