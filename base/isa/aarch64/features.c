/* SPDX-License-Identifier: Apache-2.0 */
/* features.c - features of an aarch64 CPU, as bits of cpu.h. Taken from the kernel's hwcaps, since
 * the ID registers also show features whose state the kernel does not save. */
#include <sys/auxv.h>

#include "cpu.h"

/* hwcap bits that older headers lack. */
enum { HAS_ASIMD = 1 << 1, HAS_ASIMDDP = 1 << 20, HAS2_I8MM = 1 << 13, HAS2_BF16 = 1 << 14 };

unsigned ts_isa_features(unsigned wanted)
{
    const unsigned long has = getauxval(AT_HWCAP), has2 = getauxval(AT_HWCAP2);
    unsigned            f = 0;
    (void)wanted;
    if (!(has & HAS_ASIMD)) return 0;
    f |= TS_CPU_NEON;
    if (has & HAS_ASIMDDP) f |= TS_CPU_DOTPROD;
    if (has2 & HAS2_BF16) f |= TS_CPU_BF16;
    if (has2 & HAS2_I8MM) f |= TS_CPU_I8MM;
    return f;
}
