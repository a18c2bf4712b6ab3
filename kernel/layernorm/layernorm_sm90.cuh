/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_sm90.cuh - what the forward and the backward kernels share. */
#ifndef TS_LAYERNORM_SM90_CUH
#define TS_LAYERNORM_SM90_CUH

#include "row_teams.cuh"

extern "C" {
#include "touchstone/layernorm.h"
}

#endif
