/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.c - the features of this CPU that the mask leaves visible. */
#include "cpu.h"

static unsigned visible = ~0u;

unsigned ts_cpu_features(void)
{
    return ts_isa_features(visible) & visible;
}

void ts_cpu_set_mask(unsigned mask)
{
    visible = mask;
}

unsigned ts_cpu_mask(void)
{
    return visible;
}
