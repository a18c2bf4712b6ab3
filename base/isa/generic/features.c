/* SPDX-License-Identifier: Apache-2.0 */
/* features.c - no features: on an instruction set without a folder of its own `ref` runs. */
#include "cpu.h"

unsigned ts_isa_features(unsigned wanted)
{
    (void)wanted;
    return 0;
}
