/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_avx2.c - beam_search_simd.h over the vectors of vec_avx2.h. */
#include "vec_avx2.h"

#include "beam_search_simd.h"
