/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_pack_cuda.cu - ternary_pack_sm90.cu, which needs nothing of sm_90, for sm_80 and
 * later. */
#define ts_ternary_pack_sm90   ts_ternary_pack_cuda
#define ts_ternary_unpack_sm90 ts_ternary_unpack_cuda
#include "ternary_pack_sm90.cu"
