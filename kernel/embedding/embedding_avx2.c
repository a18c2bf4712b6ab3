/* SPDX-License-Identifier: Apache-2.0 */
/* embedding_avx2.c - embedding_simd.h over the vectors of row_avx2.h. */
#include "embedding_impl.h"
#include "row_avx2.h"

#include "embedding_simd.h"
