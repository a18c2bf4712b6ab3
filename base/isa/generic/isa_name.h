/* SPDX-License-Identifier: Apache-2.0 */
/* isa_name.h - no CPU name. */
#ifndef TS_ISA_NAME_H
#define TS_ISA_NAME_H

#include <stdio.h>

static void ts_isa_cpu_name(char *text, size_t n)
{
    snprintf(text, n, "CPU");
}

#endif
