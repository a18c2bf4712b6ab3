/* SPDX-License-Identifier: Apache-2.0 */
/* model_rate.c - measures the judge's model. */
#include "model_rate.h"

#include "clock.h"
#include "model_draw.h"

static double lesser(double best, double ns)
{
    return best > 0 && best < ns ? best : ns;
}

void ts_model_rates(double *write_ns, double *sum_ns)
{
    enum { VOCAB = 32000, PASSES = 64 };
    static float  row[VOCAB];
    const int32_t token = 1;
    ts_drawn      drawn;
    uint32_t      sum = 0;
    *write_ns = *sum_ns = 0;
    ts_model_draw(&drawn, TS_TOY_NOISE, 1, VOCAB, 0);
    const ts_toy model = ts_model_toy(&drawn);
    for (int i = 0; i < PASSES; i++) {
        const double begin = ts_now_ns();
        ts_toy_next(&model, 1, &token, row);
        const double written = ts_now_ns();
        sum += ts_toy_digest(&model, row);
        *sum_ns = lesser(*sum_ns, (ts_now_ns() - written) / VOCAB);
        *write_ns = lesser(*write_ns, (written - begin) / VOCAB);
    }
    if (!sum) *sum_ns = 0; /* read, so that it is computed */
    ts_model_free(&drawn);
}
