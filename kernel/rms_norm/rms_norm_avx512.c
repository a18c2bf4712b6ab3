/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_avx512.c - rms_norm_simd.h over the vectors of row_avx512.h. */
#include "rms_norm_impl.h"
#include "row_avx512.h"

#include "rms_norm_simd.h"
