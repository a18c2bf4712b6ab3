/* SPDX-License-Identifier: Apache-2.0 */
/* features.c - no features: an instruction set without its own folder uses `ref`. */
#include "cpu.h"

unsigned ts_isa_features(unsigned wanted)
{
    (void)wanted;
    return 0;
}
