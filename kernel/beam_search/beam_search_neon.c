/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_neon.c - beam_search_simd.h over the vectors of vec_neon.h. */
#include "vec_neon.h"

#include "beam_search_simd.h"
