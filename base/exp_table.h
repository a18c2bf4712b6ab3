/* SPDX-License-Identifier: Apache-2.0 */
/* exp_table.h - powers of 2^(1 / 2048), for exp_simd.h. */
#ifndef TS_BASE_EXP_TABLE_H
#define TS_BASE_EXP_TABLE_H

enum { TS_EXP_TABLE = 2048 };

/* Entry i is 2^(i / 2048) with i 2^41 less as an integer. */
extern const double ts_exp_table[TS_EXP_TABLE];

#endif
