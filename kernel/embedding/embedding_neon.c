/* SPDX-License-Identifier: Apache-2.0 */
/* embedding_neon.c - embedding_simd.h over the vectors of row_neon.h. */
#include "embedding_impl.h"
#include "row_neon.h"

#include "embedding_simd.h"
