/* SPDX-License-Identifier: Apache-2.0 */
/* embedding_avx512.c - embedding_simd.h over the vectors of row_avx512.h. */
#include "embedding_impl.h"
#include "row_avx512.h"

#include "embedding_simd.h"
