/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_wide.h - the way of cross_entropy_sm90a.cu, for cross_entropy_cuda.cu to take where
 * it can. */
#ifndef TS_CROSS_ENTROPY_WIDE_H
#define TS_CROSS_ENTROPY_WIDE_H

#include <stdbool.h>

#include "touchstone/cross_entropy.h"

/* Whether device, shapes and the alignment of h, w and the gradients allow it; the bytes of
 * workspace it needs. */
bool ts_cross_entropy_wide_bytes(const ts_cross_entropy_args *a, size_t *n_bytes);

ts_status ts_cross_entropy_wide(const ts_cross_entropy_args *a, const ts_exec *x);

#endif
