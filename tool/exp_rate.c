/* SPDX-License-Identifier: Apache-2.0 */
/* exp_rate.c - chooses the sums of exponentials for this core. */
#include "exp_rate.h"

#include <math.h>
#include <stddef.h>

#include "cpu.h"
#include "impl.h"

static float in_float(const float *x, int64_t n)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += expf(x[i]);
    return sum;
}

static double in_double(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i]);
    return sum;
}

static const ts_exp_sums plain = { in_float, in_double };

#define ROW(set, needs, ...) { needs, &ts_exp_sums_##set },

const ts_exp_sums *ts_exp_sums_here(void)
{
    static const struct {
        unsigned           needs;
        const ts_exp_sums *sums;
    } table[] = { TS_EACH_SIMD(ROW, ) { 0, &plain } };
    const unsigned features = ts_isa_features(~(unsigned)TS_CPU_AMX); /* tiles stay off */
    size_t         i = 0;
    while (table[i].needs & ~features) i++;
    return table[i].sums;
}
