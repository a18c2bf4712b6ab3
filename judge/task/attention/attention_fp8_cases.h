/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fp8_cases.h - which cases the task flash_attention_fp8 has. */
#ifndef TS_TASK_ATTENTION_FP8_CASES_H
#define TS_TASK_ATTENTION_FP8_CASES_H

#include "attention_cases.h"

extern const ts_cover ts_flash_attention_fp8_cover;

const ts_case *ts_flash_attention_fp8_cases(void);

#endif
