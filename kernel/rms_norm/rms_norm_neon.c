/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_neon.c - rms_norm_simd.h over the vectors of row_neon.h. */
#include "rms_norm_impl.h"
#include "row_neon.h"

#include "rms_norm_simd.h"
