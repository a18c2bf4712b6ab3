/* SPDX-License-Identifier: Apache-2.0 */
/* mutant_cuda.h - mutants on a CUDA device, from a module of their own. It is never installed, and
 * the library does not know it. */
#ifndef TS_MUTANT_CUDA_H
#define TS_MUTANT_CUDA_H

#include <stdbool.h>

#include "impl.h"

/* Whether there is such a module: next to this program, or at $TOUCHSTONE_CUDA_MUTANTS. Loads
 * nothing. */
bool ts_mutant_cuda_there(void);

/* Runs the mutant that the module exports as `symbol`, on data of one of the dtypes TS_HAS_*. */
ts_status ts_mutant_cuda_run(const char *symbol, unsigned dtypes, ts_dtype t, const void *args,
                             const ts_exec *x);

#endif
